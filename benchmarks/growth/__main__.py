"""Print how jobs on this machine grow with the number of workers and with the size of the model, and the fitted exponents."""

from __future__ import annotations

import argparse
import json
import math
import os
import statistics
import sys
from collections.abc import Callable, Mapping, Sequence

import psgd

from benchmarks import machine
from benchmarks.pairing import run_child

WORKERS = (1, 2, 4, 8, 16, 32)
WIDTHS = (32, 320, 3_200, 32_000, 320_000)  # of the hidden layer: 10 kB to 96 MB of parameters
WIDTH, PAIR = 32, 2
INPUTS, OUTPUTS = 64, 10
#: What is shown: its head, the number of digits, and by how much a figure of the job is multiplied.
COLUMNS = {
    "agents": ("agents, s", 2, 1.0),
    "submission": ("submission, s", 2, 1.0),
    "cpu": ("of processors, s", 2, 1.0),
    "first": ("first step, ms", 1, 1e3),
    "step": ("step, ms", 1, 1e3),
    "submitter_mb": ("submitter, MB", 0, 1.0),
    "agent_mb": ("an agent, MB", 0, 1.0),
    "job_mb": ("a worker, MB", 0, 1.0),
    "packets": ("packets", 0, 1.0),
    "mb": ("sent, MB", 2, 1.0),
}
Figures = Mapping[str, float]


def main() -> int:
    parser = argparse.ArgumentParser(
        prog="python -m benchmarks.growth",
        description="Jobs on agents of this machine: growth with workers and with parameters.",
    )
    parser.add_argument("--workers", type=psgd.positive, nargs="*", default=list(WORKERS), help="default 1 2 4 8 16 32")
    parser.add_argument(
        "--widths", type=psgd.positive, nargs="*", default=list(WIDTHS), help="of the hidden layer, with 2 workers"
    )
    parser.add_argument("--codecs", nargs="*", default=["default", "Plain"], help="'default' is what a job without one takes")
    parser.add_argument(
        "--rounds", type=psgd.positive, default=3, help="jobs of each kind, the least figure counts (default 3)"
    )
    options = parser.parse_args()
    machine.show()
    print(
        f"Digits, {INPUTS}-w-{OUTPUTS}, batches of about 64; the least of {options.rounds} jobs, load average before and after:"
    )
    for codec in options.codecs:
        show(f"workers, {WIDTH} wide, codec {codec}", options.workers, lambda n, c=codec: (n, WIDTH, c), options.rounds)
    if options.widths:
        show(f"width, {PAIR} workers", options.widths, lambda width: (PAIR, width, "default"), options.rounds, parameter_bytes)
    return 0


def parameter_bytes(width: int) -> float:
    return 4.0 * (INPUTS * width + width + width * OUTPUTS + OUTPUTS)


def show(
    name: str,
    sizes: Sequence[int],
    job: Callable[[int], tuple[int, int, str]],
    rounds: int,
    scale: Callable[[int], float] = float,
) -> None:
    """Print a table of jobs by size, and the exponents over all of them and over the last three."""
    print(f"\n{name:<32}" + "".join(f"{head:>18}" for head, _, _ in COLUMNS.values()))
    rows = {}
    for size in sizes:
        before = os.getloadavg()[0]
        rows[size] = least([measured(*job(size)) for _ in range(rounds)])
        cells = "".join(f"{rows[size][key] * factor:>18.{digits}f}" for key, (_, digits, factor) in COLUMNS.items())
        print(f"{size:<16}{f'load {before:.1f}, {os.getloadavg()[0]:.1f}':<16}{cells}", flush=True)
    for text, chosen in (("exponent", list(sizes)), ("of the last three", list(sizes[-3:]))):
        if len(chosen) > 1:
            found = (exponent([scale(size) for size in chosen], [rows[size][key] for size in chosen]) for key in COLUMNS)
            print(f"{text:<32}" + "".join(f"{value:>18.2f}" for value in found))


def measured(workers: int, width: int, codec: str) -> Figures:
    figures: Figures = json.loads(run_child("benchmarks.growth.job", [str(workers), str(width), codec], 1))
    return figures


def least(jobs: Sequence[Figures]) -> Figures:
    """The least of each figure: others who use the machine only add to it."""
    return {key: min(job[key] for job in jobs) for key in jobs[0]}


def exponent(sizes: Sequence[float], values: Sequence[float]) -> float:
    """The slope of the values over the sizes, both as logarithms; nan where something is 0 for a size."""
    pairs = [(math.log(size), math.log(value)) for size, value in zip(sizes, values, strict=True) if value > 0]
    return statistics.linear_regression(*zip(*pairs, strict=True)).slope if len(pairs) > 1 else math.nan


if __name__ == "__main__":
    sys.exit(main())
