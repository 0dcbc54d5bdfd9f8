"""Print how simulated jobs grow with their workers: processor time of a step, memory, events per second, fitted exponents.

A model of 118,282 parameters, 784-128-128-10 units, learns with blocks of one sample on a star of 1 Gbit/s and 50 us. A job of
one step and a job of more steps run in a process each; a step takes the difference by the number of steps. What is left of the
first one, the begin and the end, is shown, too.
"""

from __future__ import annotations

import argparse
import json
import math
import sys
import tempfile
import time
from collections.abc import Mapping, Sequence
from itertools import pairwise
from pathlib import Path
from typing import Any, NamedTuple

import psgd

import numpy as np

import nn
import parallel_sgd
from benchmarks import machine
from benchmarks.pairing import run_child
from benchmarks.simulation.figures import Kept, origin
from nn.dataset import ArrayDataset
from nn.gradient_descent import SGDOptimizer
from parallel_sgd import codec as codecs

WIDTHS = (784, 128, 128, 10)
WORKERS = {"Ring": (10, 100, 1_000), "SyncPS": (10, 100, 1_000, 10_000), "Plain": (8, 32, 128)}
_MANY = 200  # workers; of fewer more steps are timed
DISTINCT = 1_000
"""Most different blocks of a batch; more workers send the gradients of these."""


class Figures(NamedTuple):
    """Figures of a job.

    Args:
        cpu: processor seconds of the whole job, without imports and the making of samples.
        outside: seconds of the job outside the simulation: its begin and its end.
        events: number of events.
        peak: most memory of the process, in MB.
        virtual: virtual seconds.
    """

    cpu: float
    outside: float
    events: int
    peak: float
    virtual: float


def job_of(samples: int) -> parallel_sgd.ParallelSGD:
    """Return the job, with random samples."""
    model = nn.model.SequentialModel(input_shape=[-1, WIDTHS[0]])
    for width in WIDTHS[1:-1]:
        model.add(nn.layer.Dense(width, activation="tanh"))
    model.add(nn.layer.Dense(WIDTHS[-1], activation="softmax"))
    model.setup(nn.loss.Cross_Entropy_With_Softmax(), nn.metric.CategoricalAccuracy())
    random, total = np.random.default_rng(1), samples + 16
    x = random.random((total, WIDTHS[0]), np.float32)
    y = np.eye(WIDTHS[-1], dtype=np.float32)[random.integers(0, WIDTHS[-1], total)]
    return parallel_sgd.ParallelSGD(model, ArrayDataset(x[:samples], y[:samples], x[samples:], y[samples:]))


def simulate(codec: str, workers: int, steps: int, ports: str = "fifo", learn: bool = True) -> Figures:
    """Simulate a job in this process."""
    kind = getattr(codecs, codec)
    job = job_of(workers * steps)
    nodes = parallel_sgd.simulated(
        workers,
        f"star 1Gbit/s 50us {ports}",
        ps=kind.traits.needs_server,
        compute="1ms",
        codec_time=0,
        distinct=DISTINCT if workers > DISTINCT else None,
        learn=learn,
    )
    options = {"block_size": 1, "epoch": 1, "gd_type": SGDOptimizer, "gd_params": (0.1,), "seed": 5, "verbose": 0}
    with tempfile.TemporaryDirectory() as folder:
        began, processor = time.perf_counter(), time.process_time()
        result = job.parallel(nodes, codec=kind, directory=folder, **options)
        processor, took = time.process_time() - processor, time.perf_counter() - began
    peak = machine.status("VmHWM") / 2**20
    times = result.simulated
    if times is None:
        raise RuntimeError("The job has no simulated times")
    return Figures(processor, took - times.real_seconds, times.events, peak, times.seconds)


def apart(*arguments: Any) -> Figures:
    """Simulate a job in a process of its own."""
    said = run_child("benchmarks.simulation.jobs", ["--one", *map(str, arguments)], 1)
    return Figures(*json.loads(said.splitlines()[-1]))


class Row(NamedTuple):
    """Line of the table.

    Args:
        workers: their number.
        step: processor seconds of a step.
        rest: those of the begin and the end of the job.
        outside: seconds of the job outside the simulation.
        events: events of a step.
        peak: most memory in MB.
        virtual: virtual seconds of a step.
    """

    workers: int
    step: float
    rest: float
    outside: float
    events: float
    peak: float
    virtual: float


def measured(codec: str, workers: int, steps: int, ports: str) -> Row:
    """Measure the jobs of one step and of more, and return the line of the table."""
    steps *= max(1, _MANY // workers)
    one, more = (apart(codec, workers, count, ports) for count in (1, 1 + steps))
    step = (more.cpu - one.cpu) / steps
    events, virtual = (more.events - one.events) / steps, (more.virtual - one.virtual) / steps
    return Row(workers, step, one.cpu - step, more.outside, events, more.peak, virtual)


def exponent(fewer: Row, more: Row) -> float:
    """Return the power of the number of workers with which the time of a step grows from one line to another."""
    return math.log(max(more.step, 1e-9) / max(fewer.step, 1e-9)) / math.log(more.workers / fewer.workers)


def part(content: Mapping[str, Any]) -> str:
    """Return the part of the guide that a file of rows makes.

    Args:
        content: that of the file.
    """
    lines = [
        f"MLP of 118,282 parameters, blocks of one sample, star of 1 Gbit/s and 50 us. {origin(content)}.",
        "",
        "| Job | A step | Begin and end | Memory | Events a second | Grows with |",
        "| --- | --- | --- | --- | --- | --- |",
    ]
    for row in content["rows"]:
        job = f"`{row['codec']}`, {row['workers']:,} workers{row['words']}"
        grows = "".join(f"n^{each:.2f}" for each in row["grows"])
        lines.append(
            f"| {job} | {row['step']:.3g} s | {row['rest']:.3g} s | {row['peak']:,.0f} MB | {row['rate']:,.0f} | {grows} |"
        )
    return "\n".join(lines)


def main(arguments: Sequence[str] | None = None) -> int:
    parser = argparse.ArgumentParser(prog="python -m benchmarks.simulation.jobs", description=__doc__)
    parser.add_argument("--codecs", nargs="*", default=list(WORKERS), choices=list(WORKERS), metavar="CODEC")
    parser.add_argument("--most", type=psgd.positive, default=10_000, help="workers (default 10000)")
    parser.add_argument("--steps", type=psgd.positive, default=2, help="that are timed (default 2)")
    parser.add_argument("--ports", default="fifo", choices=["fifo", "fair"])
    parser.add_argument("--keep", type=Path, metavar="FILE", help="of the rows, such as the one the guide is made of")
    parser.add_argument("--one", nargs=4, metavar=("CODEC", "WORKERS", "STEPS", "PORTS"), help="print the figures of one job")
    options = parser.parse_args(arguments)
    if options.one:
        codec, workers, steps, ports = options.one
        print(json.dumps(simulate(codec, int(workers), int(steps), ports)))
        return 0
    machine.show()
    head = ("codec", "workers", "step, s", "rest, s", "outside, s", "events", "events/s", "MB", "virtual, s", "grows with")
    print("{:8} {:>8} {:>9} {:>9} {:>10} {:>9} {:>9} {:>7} {:>10} {:>10}".format(*head))
    kept = Kept(
        options.keep, f"python -m benchmarks.simulation.jobs --steps {options.steps} --ports {options.ports}", anew=True
    )
    for codec in options.codecs:
        rows: list[Row] = []
        for workers in (each for each in WORKERS[codec] if each <= options.most):
            rows.append(row := measured(codec, workers, options.steps, options.ports))
            grown = [round(exponent(*pair), 2) for pair in list(pairwise(rows))[-1:]]
            grows = "".join(f"n^{each:.2f}" for each in grown)
            rate = row.events / row.step
            words = f", `distinct={DISTINCT}`" * (row.workers > DISTINCT)
            figures = {"step": row.step, "rest": row.rest, "peak": row.peak, "rate": rate}
            rounded = {name: float(f"{value:.3g}") for name, value in figures.items()}
            kept.add({"codec": codec, "workers": row.workers, "words": words, **rounded, "grows": grown})
            print(
                f"{codec:8} {workers:8,} {row.step:9.3f} {row.rest:9.2f} {row.outside:10.2f} {row.events:9,.0f} {rate:9,.0f} "
                f"{row.peak:7,.0f} {row.virtual:10.4g} {grows:>10}",
                flush=True,
            )
    return 0


if __name__ == "__main__":
    sys.exit(main())
