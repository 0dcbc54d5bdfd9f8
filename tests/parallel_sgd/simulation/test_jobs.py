"""Jobs on simulated nodes: their bits, their bytes, their times, and the order of their events."""

from __future__ import annotations

import os
import random
import subprocess
import sys
import threading
import time
from collections import Counter
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import nn
import parallel_sgd
from nn.dataset import ArrayDataset
from nn.gradient_descent import ADAMOptimizer, SGDOptimizer
from parallel_sgd import codec as codecs
from parallel_sgd.codec import Codec
from parallel_sgd.record.run import JobResult
from parallel_sgd.simulation.kernel import Kernel, Results
from parallel_sgd.simulation.network import network_of
from parallel_sgd.simulation.platform_text import parse_platform
from tests.sources import ROOT
from tests.statements import covers

STAR = "star 1Gbit/s 50us fifo"
WIDTHS = (784, 128, 128, 10)
"""Units of the layers: 118,282 parameters."""


def job_of(samples: int, widths: tuple[int, ...] = (6, 5, 3)) -> parallel_sgd.ParallelSGD:
    """A job with random samples."""
    model = nn.model.SequentialModel(input_shape=[-1, widths[0]])
    for width in widths[1:-1]:
        model.add(nn.layer.Dense(width, activation="tanh"))
    model.add(nn.layer.Dense(widths[-1], activation="softmax"))
    model.setup(nn.loss.Cross_Entropy_With_Softmax(), nn.metric.CategoricalAccuracy())
    random, total = np.random.default_rng(1), samples + 16
    x = random.random((total, widths[0]), np.float32)
    y = np.eye(widths[-1], dtype=np.float32)[random.integers(0, widths[-1], total)]
    return parallel_sgd.ParallelSGD(model, ArrayDataset(x[:samples], y[:samples], x[samples:], y[samples:]))


def train(nodes: Any, codec: type[Codec], folder: Path, steps: int = 3, **given: Any) -> JobResult:
    """Train for an epoch of `steps` batches on nodes of this process."""
    widths = given.pop("widths", (6, 5, 3))
    block = given.pop("block_size", 4)
    options = {"epoch": 1, "gd_type": SGDOptimizer, "gd_params": (0.1,), "seed": 5, **given}
    job = job_of(block * len(nodes.worker_ids) * steps, widths)
    return job.parallel(nodes, codec=codec, block_size=block, directory=folder, verbose=0, **options)


def weights(result: JobResult) -> list[bytes]:
    """The parameters of each worker."""
    return [model.store.values.tobytes() for model in result.models.values()]


CODECS = (
    "Plain",
    "Ring",
    "SyncPS",
    "TopK",
    "QSGD",
    "Int8",
    "EFSign",
    "PowerSGD",
    "Tree",
    "ShardedPS",
    "TernGrad",
    "DGC",
    "Median",
)


@covers("SIM-2")
@pytest.mark.parametrize("name", CODECS)
@pytest.mark.parametrize("count", [2, 5])
@pytest.mark.share(18)
def test_the_bits_are_those_of_nodes_without_time(name: str, count: int, tmp_path: Path) -> None:
    kind = getattr(codecs, name)
    needs = kind.traits.needs_server
    plain = train(parallel_sgd.in_process(count, ps=needs), kind, tmp_path / "a")
    for shared in (False, None):
        nodes = parallel_sgd.simulated(count, STAR, ps=needs, compute=0.001, codec_time=0, shared=shared)
        timed = train(nodes, kind, tmp_path / f"b{shared}")
        assert weights(timed) == weights(plain) and dict(timed) == dict(plain)
        assert [(*e[:4], e.packets, e.raw) for e in timed.accounts[0]] == [
            (*e[:4], e.packets, e.raw) for e in plain.accounts[0]
        ]


@pytest.mark.share(4)
@covers("SIM-2")
@pytest.mark.parametrize("name", ["Plain", "Ring", "SyncPS", "TopK", "Int8"])
def test_workers_that_share_a_state_have_the_bits_of_those_that_do_not(name: str, tmp_path: Path) -> None:
    kind = getattr(codecs, name)
    needs = kind.traits.needs_server
    results = [
        train(
            parallel_sgd.simulated(6, STAR, ps=needs, compute=0.001, codec_time=0, shared=shared),
            kind,
            tmp_path / str(shared),
            epoch=2,
        )
        for shared in (False, True)
    ]
    apart, together = results
    assert weights(apart) == weights(together) and dict(apart) == dict(together)
    assert apart.accounts == together.accounts
    assert apart.simulated and together.simulated and apart.simulated.digest == together.simulated.digest


@pytest.mark.long
def test_workers_that_share_a_state_go_on_from_a_checkpoint(tmp_path: Path) -> None:
    """Past 16 workers they share it unasked."""

    def nodes() -> Any:
        return parallel_sgd.simulated(18, STAR, compute=0.001, codec_time=0)

    options = {"checkpoint_every": "epoch", "gd_type": ADAMOptimizer, "gd_params": (0.01,)}
    whole = train(nodes(), codecs.Ring, tmp_path / "whole", 2, **options, epoch=3)
    train(nodes(), codecs.Ring, tmp_path / "parts", 2, **options, epoch=1)
    later = train(nodes(), codecs.Ring, tmp_path / "parts", 2, **options, epoch=3, resume="last")
    assert weights(later) == weights(whole) and dict(later) == dict(whole)
    assert len({id(model) for model in later.models.values()}) == 1


def test_shared_is_no_text() -> None:
    with pytest.raises(TypeError, match="'shared' must be True, False or None, got 'yes'"):
        parallel_sgd.simulated(2, STAR, shared="yes")  # type: ignore[arg-type]


def test_a_job_whose_workers_differ_cannot_share_a_state(tmp_path: Path) -> None:
    nodes = parallel_sgd.simulated(3, STAR, compute=0.001, codec_time=0, shared=True)
    with pytest.raises(ValueError, match="'shared' must be None or False for this job"):
        train(nodes, codecs.LocalSGD, tmp_path, op_type=nn.optimizer.ParameterAveragingOptimizer)


LATENCY, BANDWIDTH = 50e-6, 125e6
"""Of `STAR`, in seconds and bytes per second."""


def eight_workers(codec: type[Codec], folder: Path, steps: int, latency: float = LATENCY) -> JobResult:
    """Train a network of 118,282 parameters by eight workers that take no time to compute."""
    star = replace(parse_platform(STAR), latency=latency)
    nodes = parallel_sgd.simulated(8, star, ps=codec.traits.needs_server, compute=0, codec_time=0)
    return train(nodes, codec, folder, steps=steps, widths=WIDTHS, block_size=16)


def seconds_of(result: JobResult) -> float:
    assert result.simulated is not None
    return result.simulated.seconds


@covers("SIM-10")
def test_one_step_of_a_server_takes_the_time_of_the_closed_form(tmp_path: Path) -> None:
    """Its variables follow each other: 2a + (all up + largest down) / B. In further steps a part of the way back is beside the
    way to the server. Bytes are those of the wire, a thousandth more than those of the gradients."""
    result = eight_workers(codecs.SyncPS, tmp_path / "1", 1)
    up = sum(entry.wire for entry in result.accounts[0] if entry.direction == "sent")
    down = max(entry.wire for entry in result.accounts[0] if entry.direction == "received")
    form = 2 * LATENCY + 8 * (up + down) / BANDWIDTH
    assert seconds_of(result) == pytest.approx(form, rel=1e-9)
    assert form == pytest.approx(56.089e-3, rel=1e-3)
    assert seconds_of(eight_workers(codecs.SyncPS, tmp_path / "3", 3)) / 3 == pytest.approx(41.778e-3, rel=1e-3)


@covers("SIM-10")
def test_one_step_of_ring_takes_the_time_of_the_closed_form(tmp_path: Path) -> None:
    """Shards go straight to their owners, each worker begins with its neighbour: 2 (a + (W - 1) S / (W B)), where 2 S / W are
    the bytes that two workers send each other, of the two with the largest shards."""
    result = eight_workers(codecs.Ring, tmp_path / "1", 1)
    pairs = Counter[tuple[int, int]]()
    for node, accounts in result.accounts.items():
        for entry in accounts:
            pairs[node, entry.peer] += entry.wire if entry.direction == "sent" else 0
    form = 2 * LATENCY + 7 * max(pairs.values()) / BANDWIDTH
    assert seconds_of(result) == pytest.approx(form, rel=1e-9)
    assert form == pytest.approx(6.724e-3, rel=2e-3)


_PROGRAM = """
import sys, tempfile
from pathlib import Path
import parallel_sgd
from parallel_sgd.codec import Ring
from tests.parallel_sgd.simulation.test_jobs import STAR, train
nodes = parallel_sgd.simulated(5, STAR, compute=0.003, codec_time=0)
print(train(nodes, Ring, Path(tempfile.mkdtemp())).simulated.digest)
"""


@pytest.mark.long
@covers("SIM-1")
@pytest.mark.parametrize("runs", [3, pytest.param(20, marks=pytest.mark.long)])
def test_a_job_has_one_trace_on_all_machines(runs: int, tmp_path: Path) -> None:
    """In many runs of a process, in processes that hash differently, and with two sets of BLAS kernels."""
    digests = set()
    for number in range(runs):
        result = train(parallel_sgd.simulated(5, STAR, compute=0.003, codec_time=0), codecs.Ring, tmp_path / str(number))
        assert result.simulated is not None
        digests.add(result.simulated.digest)
    for hashes, kernels in (("0", "Haswell"), ("1", "Nehalem")):
        told = {**os.environ, "PYTHONHASHSEED": hashes, "OPENBLAS_CORETYPE": kernels}
        ran = subprocess.run([sys.executable, "-c", _PROGRAM], cwd=ROOT, env=told, capture_output=True, text=True, check=True)
        digests.add(ran.stdout.strip())
    assert len(digests) == 1


@covers("SIM-1")
def test_a_job_looks_at_no_clock_of_the_machine_and_starts_no_thread(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """While its nodes run, the machine's clocks jump back and forth, and whatever sleeps or starts a thread fails. Only what
    writes a checkpoint to the disk, for which its worker waits, is a thread."""

    def run(folder: Path) -> tuple[str, float]:
        nodes = parallel_sgd.simulated(3, STAR, ps=True, compute="exponential 1ms 2ms", codec_time=0)
        result = train(nodes, codecs.SyncPS, folder, ssgd_timeout_limit=5000, on_failure="restart", fault="raise 1@e1.b2")
        assert result.simulated is not None and result.restarts == 1
        return result.simulated.digest, result.simulated.seconds

    calm, draw = run(tmp_path / "calm"), random.Random(1)
    plain, start = Kernel.run, threading.Thread.start

    def jumping() -> float:
        return draw.uniform(-1e9, 1e9)

    def sleep(seconds: float) -> None:
        raise AssertionError(f"a simulated job sleeps for {seconds} s")

    def begin(thread: threading.Thread) -> None:
        if not thread.name.startswith("checkpoint-"):
            raise AssertionError(f"a simulated job starts {thread}")
        start(thread)

    def run_in_a_storm(kernel: Kernel) -> Results:
        with monkeypatch.context() as patch:
            for clock in ("time", "monotonic", "perf_counter"):
                patch.setattr(time, clock, jumping)
            patch.setattr(time, "sleep", sleep)
            patch.setattr(threading.Thread, "start", begin)
            return plain(kernel)

    monkeypatch.setattr(Kernel, "run", run_in_a_storm)
    assert run(tmp_path / "storm") == calm


@covers("SIM-1")
@pytest.mark.parametrize("ports", ["fair", "fifo"])
def test_messages_of_one_moment_arrive_in_the_order_in_which_they_left(ports: str) -> None:
    pairs = [(4, 5), (0, 1), (2, 3)]
    for order in (pairs, pairs[::-1], pairs[1:] + pairs[:1]):
        network = network_of(parse_platform(f"star 1Gbit/s 50us {ports}"), range(6))
        for source, target in order:
            network.send(0.0, source, target, 1000.0, None)
        assert [(source, target) for _, source, target, _ in network.advance(1.0)] == order


@covers("SIM-1", "SIM-5")
def test_the_page_of_a_run_tells_the_sha_256_of_its_trace(tmp_path: Path) -> None:
    result = train(parallel_sgd.simulated(2, STAR, compute=0.003, codec_time=0), codecs.Ring, tmp_path, page=True)
    assert result.simulated is not None and len(result.simulated.digest) == 64
    page = (tmp_path / "runs" / "latest" / "report.html").read_text("utf-8")
    assert f"SHA-256 of its trace: <code>{result.simulated.digest}</code>" in page
    assert f"<b>Simulated, not measured</b>, on {parse_platform(STAR).fitted(2).describe()}" in page
