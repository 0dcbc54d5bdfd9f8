"""Print how long failures of simulated jobs take to be known and to be recovered from, as distributions over many of them.

python -m benchmarks.simulation.failures                 1,000 failures of jobs of 8 workers
python -m benchmarks.simulation.failures --many          200 workers, a failure every virtual minute for 100 minutes
"""

from __future__ import annotations

import argparse
import logging
import random
import sys
import time
from collections import defaultdict
from collections.abc import Iterable, Mapping
from pathlib import Path
from statistics import median, quantiles
from tempfile import TemporaryDirectory
from typing import Any

import psgd

import numpy as np

import nn
import parallel_sgd
from benchmarks import machine
from benchmarks.simulation.figures import Kept
from nn.dataset import ArrayDataset
from nn.gradient_descent import SGDOptimizer
from parallel_sgd.codec import Plain, SyncPS
from parallel_sgd.record.run import JobResult
from parallel_sgd.record.simulated import Failure

PLATFORM, LAW = "star 1Gbit/s 50us", "lognormal 1s 0.3"
WORKERS, BATCHES, OF_A_JOB = 8, 10, 20
KINDS = ("kill", "exit", "raise", "nan", "stop", "hang", "swallow")
FEATURES, CLASSES = 64, 10


def train(nodes: Any, fault: str, epochs: int, batches: int, **options: Any) -> JobResult:
    """Train a linear model on random samples, one a worker and batch."""
    model = nn.model.SequentialModel(input_shape=[-1, FEATURES])
    model.add(nn.layer.Dense(CLASSES, activation="softmax"))
    model.setup(nn.loss.Cross_Entropy_With_Softmax())
    generator, count = np.random.default_rng(1), len(nodes.worker_ids) * batches + 1
    x = generator.random((count, FEATURES), np.float32)
    y = np.eye(CLASSES, dtype=np.float32)[generator.integers(0, CLASSES, count)]
    job = parallel_sgd.ParallelSGD(model, ArrayDataset(x[:-1], y[:-1], x[-1:], y[-1:]))
    with TemporaryDirectory() as directory:
        return job.parallel(
            nodes,
            block_size=1,
            epoch=epochs,
            gd_type=SGDOptimizer,
            gd_params=(0.1,),
            on_failure="restart",
            max_restarts=10**6,
            fault=fault,
            directory=Path(directory),
            verbose=0,
            **options,
        )


def failures(jobs: int) -> Iterable[tuple[str, Failure]]:
    """Yield failures with the kinds of the faults that they come from, of jobs with a random fault every second batch."""
    for job in range(jobs):
        draw = random.Random(job)
        kinds = [draw.choice(KINDS) for _ in range(OF_A_JOB)]
        clauses = []
        for number, kind in enumerate(kinds, 1):
            node, peer = draw.sample(range(WORKERS), 2)
            epoch, batch = divmod(2 * number, BATCHES)
            target = f"{node}>{peer}" if kind == "swallow" else str(node)
            clauses.append(f"{kind} {target}@e{epoch + 1}.b{batch + 1}@a{number}")
        nodes = parallel_sgd.simulated(WORKERS, PLATFORM, compute=LAW, codec_time=0, seed=job)
        result = train(nodes, "; ".join(clauses), 2 * OF_A_JOB // BATCHES + 1, BATCHES, codec=Plain)
        found = () if result.simulated is None else result.simulated.failures
        yield from zip(kinds, found, strict=True)


def times_of(rows: Iterable[tuple[str, Failure]]) -> list[dict[str, Any]]:
    """Return the distributions of times by kind: median, 95th percentile and longest, in seconds.

    Args:
        rows: failures with their kinds.
    """
    times: dict[str, list[tuple[float, float]]] = defaultdict(list)
    for kind, failure in rows:
        if failure.resumed is not None:
            times[kind].append((failure.known - failure.at, failure.resumed - failure.known))
    found = []
    for kind, pairs in sorted(times.items()):
        row: dict[str, Any] = {"kind": kind, "number": len(pairs)}
        for name, values in zip(("known", "resumed"), zip(*pairs, strict=True), strict=True):
            high = quantiles(values, n=20)[-1] if len(values) > 1 else values[0]
            row[name] = [round(value, 4) for value in (median(values), high, max(values))]
        found.append(row)
    return found


def part(content: Mapping[str, Any]) -> str:
    """Return the part of the guide that a file of distributions makes.

    Args:
        content: that of the file.
    """
    lines = [
        f"`{content['command']}`: {sum(row['number'] for row in content['rows']):,} failures of jobs of {WORKERS} workers on "
        f"`{PLATFORM}`, in each of whose batches a block takes `{LAW}`. Virtual seconds, the same on any machine:",
        "",
        "| Failure | number | known after: median | 95 % | longest | goes on after: median | 95 % | longest |",
        "|---|---|---|---|---|---|---|---|",
    ]
    for row in content["rows"]:
        cells = " | ".join(f"{value:.4g}" for value in (*row["known"], *row["resumed"]))
        lines.append(f"| {row['kind']} | {row['number']} | {cells} |")
    return "\n".join(lines)


def many(workers: int = 200, count: int = 100) -> int:
    """Run the job of contract SIM-6; return the exit code."""
    draw, per = random.Random(3), count // 2 + 1
    plan = "; ".join(
        f"{draw.choice(('kill', 'raise', 'exit'))} {draw.randrange(workers)}@e{k // per + 1}.b{k % per + 1}@a{k}"
        for k in range(1, count + 1)
    )
    weights = []
    for fault in ("", plan):
        began = time.process_time()
        nodes = parallel_sgd.simulated(workers, PLATFORM, ps=True, compute="59s", codec_time=0)
        result = train(nodes, fault, 2, per, codec=SyncPS)
        took, simulated = time.process_time() - began, result.simulated
        weights.append([model.store.values.tobytes() for model in result.models.values()])
        minutes = 0.0 if simulated is None else simulated.seconds / 60
        print(f"{workers} workers, {result.restarts} failures, {minutes:.1f} virtual minutes: {took:.1f} s of processor time")
    is_same = weights[0] == weights[1]
    print("The bits are those of the calm job." if is_same else "The bits are NOT those of the calm job.")
    return 0 if is_same else 1


def main(given: list[str] | None = None) -> int:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--failures", type=psgd.positive, default=1000, metavar="N", help="about how many; default 1000")
    parser.add_argument("--many", action="store_true", help="the job of 200 workers instead")
    parser.add_argument("--keep", type=Path, metavar="FILE", help="of the distributions")
    options = parser.parse_args(given)
    logging.disable(logging.ERROR)
    machine.show()
    if options.many:
        return many()
    jobs = -(-options.failures // OF_A_JOB)
    began = time.process_time()
    kept = Kept(options.keep, f"python -m benchmarks.simulation.failures --failures {options.failures}", anew=True)
    for row in times_of(failures(jobs)):
        kept.add(row)
    print(part(kept.content))
    print(f"{jobs} simulated jobs of {WORKERS} workers: {time.process_time() - began:.0f} s of processor time")
    return 0


if __name__ == "__main__":
    sys.exit(main())
