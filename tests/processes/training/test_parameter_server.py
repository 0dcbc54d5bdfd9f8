"""Jobs with a parameter server on real agents: bits, story, files, user-written codecs, and what happens when a node dies."""

from __future__ import annotations

import json
import logging
import os
import re
import signal
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import nn
from nn.dataset.transforms.abstract import AbsTransformer
from nn.gradient_descent import SGDOptimizer
from nn.optimizer import GradientAveragingOptimizer
from parallel_sgd import JobFailed, ParallelSGD, Parameter_Server
from parallel_sgd.__main__ import main
from parallel_sgd.codec import BlockWeight, Codec, GlobalSettings, Plain, SyncPS, netEncapsulation
from parallel_sgd.commands import output
from parallel_sgd.engine.accounts import RECEIVED, SENT, Entry, check_conserved
from parallel_sgd.nodes import LocalNodes
from parallel_sgd.profiles import IIDBlockAssignment
from rpc import SubmissionError
from tests.parallel_sgd.codec.seed_codecs import Client, FromZero
from tests.parallel_sgd.networks import mlp
from tests.processes.training.jobs import (
    FOUR_BLOCKS,
    assert_serves,
    digits_job,
    here,
    line_job,
    log_of,
    only_weights,
    said,
    with_server,
)

from ...stated_time import in_time
from ...statements import covers

IN_ORDER = [
    r"Start job\.",
    r"Workers: \(3\) nodes has been assigned:\n\t\t-->ID: +-2\t\tAddress: .*\n\t\t-->ID: +0\t\tAddress: .*\n\t\t-->ID: +1.*",
    r"Coordinator version: .*",
    r"Single node submission complete\.",
    r"Group submission complete \(\{0, 1\}\)\.",
    r"Dispatch complete\.",
    r"Waiting for \(\{.*\}\) \.\.\.",
    r"All the tasks are done\.",
]


def moments(files: Any, node: int) -> list[float]:
    """The times that a codec has recorded."""
    return [float(text) for text in re.findall(r"moment ([\d.]+)", log_of(files, node))]


@covers("SUB-11", "SUB-20", "SUB-40")
def test_the_same_bits_and_the_story(agents: LocalNodes, tmp_path: Path, caplog: pytest.LogCaptureFixture) -> None:
    """The server precedes the group; its node returns its logs and what it computed with; every packet is accounted for."""
    caplog.set_level(logging.INFO)
    settings: dict[str, Any] = {"assignment_type": FOUR_BLOCKS, "epoch": 2, "block_size": 32}
    result = digits_job().parallel(with_server(agents, 2), directory=tmp_path, **settings)
    lines = iter(said(caplog.records))
    for pattern in IN_ORDER:
        assert any(re.fullmatch(pattern, line) for line in lines), pattern
    assert not [record.getMessage() for record in caplog.records if record.levelno >= logging.WARNING]

    plain = here(digits_job(), 1, tmp_path / "here", codec=Plain, **settings)
    assert only_weights(result) == only_weights(plain)
    assert result == plain and sorted(result.models) == [0, 1]

    names = sorted(path.name for path in result.files[Parameter_Server])
    expected = (r"BY-P-SGD-N\(-2\)\.csv", r"Fit--2 .*\.log", r"ID-P-SGD-N\(-2\)\.csv", r"Worker-127.0.0.1 .*\.log")
    assert all(re.fullmatch(pattern, name) for pattern, name in zip(expected, names, strict=True)), names
    log = log_of(result.files, Parameter_Server)
    assert re.search(r"INFO Fit--2@\d\d:\d\d:\d\d: Serving begins: workers \[0, 1\], codec SyncPS\.", log)
    assert log.index("Serving begins") < log.index("Serving has ended: all workers have left.")

    assert all(type(entry) is Entry for entries in result.accounts.values() for entry in entries)
    check_conserved(result.accounts, {})
    for node in (Parameter_Server, 0, 1):
        *_, sent, received, _, _, _, _, spent = log_of(result.files, node).splitlines()
        assert spent.endswith(f"Time: {result.accounts[node].times}.")
        for direction, line in ((SENT, sent), (RECEIVED, received)):
            entries = [entry for entry in result.accounts[node] if entry.direction == direction]
            raw, overhead, wire = (sum(getattr(e, name) for e in entries) for name in ("raw", "overhead", "wire"))
            assert line.endswith(f"Packets {direction}: raw {raw} + overhead {overhead} = wire {wire} bytes.")


@pytest.mark.long
def test_the_server_merges_statistics_of_batch_norm(agents: LocalNodes, tmp_path: Path) -> None:
    """Replicas have equal buffers, to the bit those of one worker without a server."""
    model = nn.model.SequentialModel(
        [-1, 64], [nn.layer.Dense(16), nn.layer.BatchNorm(momentum=0.9), nn.layer.Dense(10, activation=nn.activation.Softmax())]
    )
    model.setup(nn.loss.Cross_Entropy_With_Softmax(), nn.metric.CategoricalAccuracy())
    settings: dict[str, Any] = {"assignment_type": FOUR_BLOCKS, "epoch": 1, "block_size": 32}
    together = digits_job(model).parallel(with_server(agents, 2), directory=tmp_path, **settings)
    without = here(digits_job(model), 3, tmp_path / "without", **settings)
    one = here(digits_job(model), 1, tmp_path / "here", **settings)
    stores = [trained.store for result in (together, without, one) for trained in result.models.values()]
    assert len({store.values.tobytes() for store in stores}) == len({store.buffer_values.tobytes() for store in stores}) == 1
    assert together == without == one


class Mortal(SyncPS):
    """The node named by the job kills itself when it takes its seventh block or packet; all tell when they end."""

    def __init__(self, node_id: int) -> None:
        super().__init__(node_id)
        self.seen = 0

    def _live(self) -> None:
        self.seen += 1
        if self.seen == 7 and self.node_id == GlobalSettings.get_params("victim", None):
            self.record(f"moment {self._now():.3f}")
            os.kill(os.getpid(), signal.SIGKILL)

    def _now(self) -> float:
        return time.time()

    def update_blocks(self, block_weight: BlockWeight) -> Any:
        self._live()
        return super().update_blocks(block_weight)

    def receive_blocks(self, content: Any) -> Any:
        self._live()
        return super().receive_blocks(content)

    def dispose(self) -> None:
        self.record(f"moment {self._now():.3f}")
        super().dispose()


def mortal(victim: int) -> dict[str, Any]:
    parameters = {"victim": victim}
    return {"codec": Mortal, "ps_codec": Mortal, "codec_extra_parameters": parameters, "ssgd_timeout_limit": 60_000}


@covers("SUB-31", "FLT-15")
@pytest.mark.alone
@pytest.mark.parametrize("victim", [Parameter_Server, 1])
def test_a_killed_node_ends_the_job(agents: LocalNodes, tmp_path: Path, victim: int) -> None:
    """The death of the server is reported like a worker's, and that of a worker ends the server: each names
    the dead node within a second."""
    with pytest.raises(JobFailed, match=rf"Node\({victim}\) failed: .*SIGKILL") as info:
        digits_job().parallel(with_server(agents, 3), epoch=100, directory=tmp_path, **mortal(victim))
    failure = info.value
    others = {Parameter_Server, 0, 1, 2} - {victim}
    assert next(iter(failure.failures)) == victim and set(failure.failures) == others | {victim}
    death = moments(failure.files, victim)[-1]
    for node in others:
        detail = failure.failures[node][1]
        assert re.search(r"PeerLost: Node\((-2|\d)\) .* is lost", detail), detail
        assert moments(failure.files, node)[-1] >= death
    assert any(f"PeerLost: Node({victim}) at" in failure.failures[node][1] for node in others)
    in_time(max(moments(failure.files, node)[-1] for node in others) - death, 1.0)


@covers("SUB-31")
@pytest.mark.long
def test_redundancy_pays_with_a_server(agents: LocalNodes, tmp_path: Path) -> None:
    """The server goes on with the copies of the others; the weights do not change."""
    settings: dict[str, Any] = {"redundancy": 2, "assignment_type": IIDBlockAssignment, "epoch": 2, "block_size": 16}
    result = digits_job().parallel(with_server(agents, 3), directory=tmp_path, **settings, **mortal(1))
    assert sorted(result.models) == [0, 2]
    assert only_weights(result) == only_weights(here(digits_job(), 3, tmp_path / "here", **settings))


class Letter:
    """Travels both ways between the codecs of this module."""

    def __init__(self, sender: int, array: Any) -> None:
        self.sender = sender
        self.array = array


class Sender(Codec):
    """The worker's half of an exchange by letter."""

    def update_blocks(self, block_weight: BlockWeight) -> netEncapsulation:
        return netEncapsulation(Parameter_Server, Letter(self.node_id, block_weight.content))

    def receive_blocks(self, content: Letter) -> None:
        assert content.sender == Parameter_Server
        self.set_result(content.array)


class Sorter(Codec):
    """The server's half: the mean over all workers, in the order of their ids, times a factor."""

    def __init__(self, node_id: int) -> None:
        super().__init__(node_id)
        self.letters: dict[int, Any] = {}
        self.workers = list(GlobalSettings.get_default().nodes)
        self.factor = np.float32(GlobalSettings.get_params("factor"))

    def update_blocks(self, block_weight: BlockWeight) -> None:
        raise AssertionError("A server computes no gradients of its own.")

    def receive_blocks(self, content: Letter) -> Iterator[netEncapsulation]:
        self.letters[content.sender] = content.array
        if len(self.letters) == len(self.workers):
            mean = sum(self.letters[node] for node in self.workers) / np.float32(len(self.workers)) * self.factor
            self.letters.clear()
            for node in self.workers:
                yield netEncapsulation(node, Letter(self.node_id, mean))


@covers("SUB-33")
@pytest.mark.long
def test_a_pair_of_codecs_of_ones_own(agents: LocalNodes, tmp_path: Path) -> None:
    """Both halves are shipped, with the class that travels between them; the nodes hold no copy."""
    settings: dict[str, Any] = {"epoch": 2, "block_size": 4, "codec": Sender, "ps_codec": Sorter}
    settings |= {"gd_type": SGDOptimizer, "gd_params": (0.1,)}
    settings["codec_extra_parameters"] = {"factor": 0.5}
    result = line_job().parallel(with_server(agents, 2), directory=tmp_path, **settings)
    assert only_weights(result) == only_weights(here(line_job(), 2, tmp_path / "here", ps=True, **settings))
    assert "codec Sorter" in log_of(result.files, Parameter_Server)
    assert "codec Sender" in log_of(result.files, 0)
    settings["codec_extra_parameters"] = {"factor": 0.25}
    assert only_weights(here(line_job(), 2, tmp_path / "other", ps=True, **settings)) != only_weights(result)


@covers("SUB-16", "SUB-27")
def test_an_error_in_the_server_codec_reaches_the_submitter(agents: LocalNodes, tmp_path: Path) -> None:
    """With its traceback; workers do not wait for a time-out."""

    class Broken(Sorter):
        taken = 0

        def receive_blocks(self, content: Letter) -> Iterator[netEncapsulation]:
            self.taken += 1
            if self.taken == 50:  # by then the submitter knows that all have started
                raise ZeroDivisionError("no such letter")
            return super().receive_blocks(content)

    settings: dict[str, Any] = {"codec": Sender, "ps_codec": Broken, "block_size": 4, "epoch": 100}
    with pytest.raises(JobFailed, match=r"Node\(-2\) failed: \w+\.\w+ raised ZeroDivisionError: no such letter \(") as info:
        line_job().parallel(with_server(agents, 2), ssgd_timeout_limit=60_000, directory=tmp_path, **settings)
    assert "receive_blocks" in info.value.failures[Parameter_Server][1]


class Unlucky(AbsTransformer):
    """Lacks a file, so that it is left to the workers, where it fails after the server has started."""

    def __call__(self, train_x: Any, train_y: Any, test_x: Any, test_y: Any, seed: int = 0) -> Any:
        raise FileNotFoundError("not these samples")


@covers("SUB-9")
def test_a_job_that_does_not_start_frees_the_server(agents: LocalNodes, tmp_path: Path) -> None:
    """The server starts first; when the group cannot follow, its node is free for the next job at once."""
    job = ParallelSGD(mlp(), nn.dataset.Digits(), Unlucky())
    with pytest.raises(SubmissionError, match="not these samples"):
        job.parallel(with_server(agents, 2), directory=tmp_path)
    assert_serves(agents, 4, tmp_path)


def test_a_server_that_makes_up_parameters_is_told_of(
    agents: LocalNodes, tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    """The worker sees that the answer is not made of its parameters; the submitter tells it, once."""
    job, nodes = line_job(), with_server(agents, 2)
    settings: dict[str, Any] = {"op_type": GradientAveragingOptimizer, "block_size": 6, "epoch": 1, "directory": tmp_path}
    result = job.parallel(nodes, codec=Client, ps_codec=FromZero, **settings)
    told = "What Client gives replaces the parameters under GradientAveragingOptimizer"
    assert sum(record.getMessage().startswith(told) for record in caplog.records) == 1
    assert told in log_of(result.files, 0) and told not in log_of(result.files, 1)


@covers("SUB-42")
@pytest.mark.long
def test_job_submit(tmp_path: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch) -> None:
    """`job_submit.py --ps --local 2`."""
    monkeypatch.chdir(tmp_path)
    mlp().save("dnn.model")
    options = "-m dnn.model --local 2 --ps --dataset digits --epochs 1 --block-assignment fixed:4 --json"
    assert main(options.split()) == output.EXIT_OK
    content = json.loads(capsys.readouterr().out)
    assert set(content["files"]) == {"-2", "0", "1"} and content["result"]["Loss"] > 0
