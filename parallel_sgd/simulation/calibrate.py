"""Calibration of a platform: real agents measure their links and speeds, this process the compute of a model and its codecs.

A `LinkProbe` runs on the agents as any job does, so that a message passes the same as one of training: frames, their seals,
the system's TCP. Other work of a machine makes figures worse, never better, so the fastest of some tries counts, and the
spread of the tries is told.
"""

from __future__ import annotations

import platform as machine
import time
from collections.abc import Callable, Mapping, Sequence
from dataclasses import replace
from datetime import datetime, timezone
from pathlib import Path
from statistics import median
from typing import Any, Final

import numpy as np

from network.nodes import NodeAssignment
from network.request import Request
from nn.dataset import ArrayDataset
from nn.dataset.interface import AbsDataset
from nn.gradient_descent import SGDOptimizer
from nn.model import Model
from rpc import Coordinator
from rpc.errors import SubmissionError
from rpc.support.logs import QUIET, verbosity
from rpc.support.processors import load_per_core
from rpc.support.temporary import TemporaryFolder

from ..codec import Plain, Ring
from ..codec.interfaces import Codec
from ..job import ParallelSGD
from ..options.job_options import JobOptions
from .calibration import Calibration
from .job_check import check_job
from .link_probe import LinkProbe, rounds_of, work_seconds
from .nodes import SimulatedNodes, simulated
from .platform import MATRIX, STAR, Platform
from .steps import step_of
from .usual_model import usual_model

#: Largest ratio of two bandwidths, and of two speeds, that count as one; latencies may differ by `_ALIKE_LATENCY`.
_ALIKE: Final = 1.3
_ALIKE_LATENCY: Final = 2.0
_LEAST_FADING: Final = 0.02
_ROUNDS: Final = 3
_WORKERS: Final = 8
_STEPS: Final = 9
#: Of a calibration; when two thirds are over, nothing is measured a second time.
_LIMIT_SECONDS: Final = 60.0


def calibrate(
    nodes: NodeAssignment,
    codecs: Sequence[type[Codec]],
    model: Model | None = None,
    data: AbsDataset | None = None,
    *,
    block_size: int = 16,
    fault: str = "",
    on_step: Callable[[str], None] = lambda _: None,
) -> Platform:
    """Measure a platform.

    Args:
        nodes: agents, at least two.
        codecs: those to be timed.
        model: its block step is timed; None: `usual_model()`.
        data: its samples; None: random ones of the model's shapes.
        block_size: samples of a block.
        fault: faults of the links while steps are timed, where jobs are to have such, too.
        on_step: called with the name of each step as it begins.

    Returns:
        A star where the links are alike, else a matrix; `platform_to_toml` writes it.

    Raises:
        ValueError: There are too few nodes, or a codec exchanges no gradients in step.
        NetworkError: A node cannot be reached.
    """
    ids = nodes.worker_ids
    if len(ids) < 2:
        raise ValueError(
            f"'nodes' must be at least 2 workers, whose link is measured, got {len(ids)}; --local 2 starts two on this machine"
        )
    began = time.monotonic()
    own = model or usual_model()
    samples = data if data is not None else _random_samples(own, _WORKERS * block_size)
    for codec in codecs:
        check_job(codec, own, samples, JobOptions(_nodes_for(codec), **_of_one_epoch(codec, block_size)))
    load = load_per_core()
    on_step(f"links of {len(ids)} workers")
    hosts = [nodes[node].host for node in ids]
    found = _probe(nodes, ids, hosts)
    on_step("compute and codecs")
    compute, times = _job_times(own, samples, codecs, block_size, began + _LIMIT_SECONDS * 2 / 3)
    here = min(work_seconds()[0] for _ in range(_ROUNDS))
    measured = Calibration(
        date=datetime.now(timezone.utc).date().isoformat(),
        workers=len(ids),
        message_bytes=max(max(pair["seconds"]) for node in found.values() for pair in node["pairs"].values()),
        noise=round(median(pair["noise"] for node in found.values() for pair in node["pairs"].values()), 3),
        load=round(load, 2),
        together=_together(found[ids[0]]["together"], len(ids)),
        both_ways=round(min(1.0, found[ids[0]]["both_ways"][0] / found[ids[0]]["both_ways"][1]), 3),
        system=_system(),
        parameters=int(own.store.values.size),
        block_size=block_size,
        compute=_rounded(compute),
        codec_time=tuple((name, tuple(table.items())) for name, table in times.items()),
    )
    platform = _platform(found, ids, hosts, here, measured)
    on_step("steps")
    # a step of one exchange first: what a step of two takes beyond that is the second exchange
    for name, codec in (("step", Plain), ("answer", Ring)):
        seconds = _seconds_of(name, nodes, platform, own, data, codec, block_size, fault)
        platform = _with(platform, name, _rounded(seconds))
    return platform


def _with(platform: Platform, name: str, seconds: float) -> Platform:
    """Return the platform with seconds of its calibration, by their name."""
    changed: dict[str, Any] = {name: seconds}
    return replace(platform, calibration=replace(platform.calibration or Calibration(), **changed))


def _probe(nodes: NodeAssignment, ids: Sequence[int], hosts: Sequence[str]) -> dict[int, dict[str, Any]]:
    """Run the probe on the agents; return the measurements of each."""
    rounds = [[(ids[first], ids[second]) for first, second in line] for line in rounds_of(hosts)]
    with (
        TemporaryFolder("calibrate") as folder,
        Request().request(nodes) as com,
        verbosity(QUIET),  # its story is not that of a job of the user
    ):
        coordinator = Coordinator(com, title="calibrate", directory=folder)
        coordinator.submit_group(LinkProbe, ids, objects={"rounds": rounds})
        # agents are for the jobs that follow: no probe goes on without the program that wants its figures
        results, failed = coordinator.join(stop_on_interrupt=True)
    if failed:
        raise SubmissionError(f"The probe of the links failed: {coordinator.failures}.")
    return {node: dict(value) for node, value in results.items()}


def _nodes_for(codec: type[Codec]) -> SimulatedNodes:
    """Return the simulated nodes on which a codec is timed."""
    return simulated(_WORKERS, "star 1Gbit/s 0s", ps=codec.traits.needs_server)


def _of_one_epoch(codec: type[Codec], block_size: int) -> dict[str, Any]:
    """Return the options of a job that is measured."""
    return {
        "codec": codec,
        "gd_type": SGDOptimizer,
        "block_size": block_size,
        "epoch": 1,
        "verbose": 0,
        "checkpoint_every": None,
    }


def _job_times(
    model: Model, samples: AbsDataset, codecs: Sequence[type[Codec]], block_size: int, until: float
) -> tuple[float, dict[str, dict[str, float]]]:
    """Return the seconds of a block step, and the times of codecs: those that simulated jobs of one batch measure."""
    computes: list[float] = []
    found: dict[str, list[dict[str, float]]] = {codec.__name__: [] for codec in codecs}
    for number in range(_ROUNDS):
        for codec in codecs:
            # each codec is measured once, however long that takes
            if number and time.monotonic() > until:
                break
            with TemporaryFolder("calibrate") as folder:
                job = ParallelSGD(model, samples)
                result = job.parallel(_nodes_for(codec), directory=folder, **_of_one_epoch(codec, block_size))
            if result.simulated is None or result.simulated.compute is None:
                raise ValueError(f"'codecs' must be such as can be measured, got {codec.__name__}")
            computes.append(result.simulated.compute)
            found[codec.__name__].append(dict(result.simulated.codec_time[codec.__name__]))
    times = {name: min(tables, key=_cost_of_one) for name, tables in found.items()}
    return min(computes), {name: {key: _rounded(value) for key, value in table.items()} for name, table in times.items()}


def _seconds_of(
    name: str,
    nodes: NodeAssignment,
    platform: Platform,
    model: Model,
    data: AbsDataset | None,
    codec: type[Codec],
    block_size: int,
    fault: str,
) -> float:
    """Return the seconds of a calibration, by their name, with which a simulated step is as long as the real one: the least of
    some jobs of nine steps.
    """
    samples = data if data is not None else _random_samples(model, len(nodes.worker_ids) * block_size * _STEPS)
    job = ParallelSGD(model, samples)
    options = _of_one_epoch(codec, block_size) | {"fault": fault}
    steps = []
    for _ in range(_ROUNDS):
        with TemporaryFolder("calibrate") as folder, verbosity(QUIET):
            steps.append(step_of(job.parallel(nodes, directory=folder, **options)))

    def simulate(seconds: float) -> float:
        own = _with(platform, name, seconds)
        with TemporaryFolder("calibrate") as folder:
            return step_of(job.parallel(simulated(len(nodes.worker_ids), own), directory=folder, **options))

    return fitted_seconds(min(steps), simulate)


def fitted_seconds(real: float, simulate: Callable[[float], float]) -> float:
    """Return the seconds that each worker has to take beside the simulated ones, so that its step is as long as a real one.

    Args:
        real: seconds of a real step.
        simulate: returns those of a simulated one, with so many seconds more for each worker.
    """
    before = simulate(0.0)
    lacks = real - before
    if lacks <= 0:
        return 0.0
    # where workers share cores, each also waits while others take theirs: the step grows by more than what a worker takes
    return lacks * lacks / max(simulate(lacks) - before, lacks)


def _cost_of_one(table: Mapping[str, float]) -> float:
    """Return the seconds in which a packet of 100 kB is made and taken in."""
    return sum(
        table.get(name, 0.0) + (1e5 / table[f"{name}_rate"] if f"{name}_rate" in table else 0.0) for name in ("encode", "merge")
    )


def _random_samples(model: Model, count: int) -> ArrayDataset:
    if model.input_shape is None:
        raise ValueError("'model' must have an input shape, or 'data' be given")
    random, shape = np.random.default_rng(1), [int(size) for size in model.input_shape[1:]]
    # 16 more, to evaluate on
    x = random.random((count + 16, *shape), np.float32)
    y = np.zeros((count + 16, *model.predict(x[:1]).shape[1:]), np.float32)
    flat = y.reshape(len(y), -1)
    # one-hot rows, which losses of classes take and losses of numbers, too
    flat[np.arange(len(y)), random.integers(0, flat.shape[1], len(y))] = 1.0
    return ArrayDataset(x[:count], y[:count], x[count:], y[count:])


def _together(seconds: Sequence[float], workers: int) -> float:
    """Return the share of its bandwidth that the port of a node has left when all others send to it."""
    alone, all_of_them = seconds
    return round(min(1.0, (workers - 1) * alone / all_of_them), 3)


def _platform(
    found: Mapping[int, Mapping[str, Any]], ids: Sequence[int], hosts: Sequence[str], here: float, measured: Calibration
) -> Platform:
    size = len(ids)
    latencies, bandwidths = np.zeros((size, size)), np.zeros((size, size))
    for first, node in enumerate(ids):
        for second, pair in found[node]["pairs"].items():
            place = ids.index(int(second))
            latency, bandwidth = _line(float(pair["latency"]), {int(k): v for k, v in pair["seconds"].items()})
            latencies[first, place] = latencies[place, first] = latency
            bandwidths[first, place] = bandwidths[place, first] = bandwidth
    speeds = [round(here / found[node]["work"][0], 3) for node in ids]
    uneven = len(set(hosts)) > 1 and max(speeds) / min(speeds) > _ALIKE
    cores = min(int(found[node]["cores"]) for node in ids)
    of_pairs = ~np.eye(size, dtype=bool)
    rates, times = bandwidths[of_pairs], latencies[of_pairs]
    common: dict[str, Any] = {
        "speeds": tuple(speeds) if uneven else (),
        "cores": cores,
        # a link that both directions share leaves a half, and a little more by chance
        "duplex": "full" if measured.both_ways > 0.6 else "half",
        "calibration": measured,
    }
    rate, time_ = _rounded(float(np.median(rates))), _rounded(float(np.median(times)))
    if len(set(hosts)) == 1:
        return Platform(
            STAR, bandwidth=rate, latency=time_, local_bandwidth=rate, local_latency=time_, nodes_per_host=size,
            **{**common, "duplex": "full"},
        )  # fmt: skip
    most = max(map(hosts.count, hosts))
    if most == 1 and rates.max() / rates.min() <= _ALIKE and times.max() / max(times.min(), 1e-9) <= _ALIKE_LATENCY:
        # a port of w nodes has w - 1 senders, w - 2 of them beyond the first (`Platform.fading`)
        fading = (1 - measured.together) / max(size - 2, 1)
        return Platform(
            STAR, bandwidth=rate, latency=time_, fading=round(fading, 4) if fading > _LEAST_FADING else 0.0, **common
        )
    rows = [tuple(tuple(_rounded(value) for value in row) for row in table.tolist()) for table in (latencies, bandwidths)]
    return Platform(MATRIX, latencies=rows[0], bandwidths=rows[1], **{**common, "duplex": "full"})


def _line(latency: float, seconds: Mapping[int, float]) -> tuple[float, float]:
    """Return latency and bytes per second: of exchanges with a small answer, 2 a + S / B, by the largest two sizes."""
    sizes = sorted(seconds)
    large = sizes[-1]
    small = sizes[-2] if len(sizes) > 1 else 0
    before = seconds[small] if small else 2 * latency
    # a difference of both, in which latency and calls are left out
    return latency, (large - small) / max(seconds[large] - before, 1e-9)


def _rounded(value: float) -> float:
    """Return a figure with the three digits that a measurement has."""
    return float(f"{value:.3g}")


def _system() -> str:
    file = Path("/proc/sys/net/ipv4/tcp_congestion_control")
    control = file.read_text("ascii").strip() if file.exists() else "unknown"
    return f"{machine.system()} {machine.release()}, congestion control {control}"
