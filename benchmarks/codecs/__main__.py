"""Print how fast each stage encodes and decodes, and whether it reaches its gate."""

from __future__ import annotations

import argparse
import sys

import psgd

from benchmarks import machine
from benchmarks.codecs.workload import SIZE, STAGES
from benchmarks.pairing import take_turns

DIRECTIONS = ("encode", "decode")


def main() -> int:
    parser = argparse.ArgumentParser(
        prog="python -m benchmarks.codecs",
        description=f"Stages of codec pipelines on {SIZE:,} float32 values: GB/s on one core.",
    )
    parser.add_argument("--rounds", type=psgd.positive, default=15, help="rounds of each stage and direction (default 15)")
    parser.add_argument("--stages", nargs="*", default=list(STAGES), choices=list(STAGES))
    options = parser.parse_args()
    machine.show()
    columns = f"{'':<14}{'encode':>8}{'gate':>6}{'decode':>10}{'gate':>6}"
    print(f"{columns}   GB/s of float32, {SIZE:,} values, one core, best of {options.rounds}")
    reached = [measure(name, options.rounds) for name in options.stages]
    return 0 if all(reached) else 1


def measure(name: str, rounds: int) -> bool:
    """Print one line; return whether both gates are reached."""
    results = take_turns({direction: ("benchmarks.codecs.stage", f"{name}:{direction}") for direction in DIRECTIONS}, 1, rounds)
    cells, missed = [], []
    for direction, result in results.items():
        goal = STAGES[name].goal(direction)
        if result.note:
            print(f"{name:<14}{direction} failed: {result.note}", flush=True)
            return False
        speed = 4 * SIZE / min(result.seconds) / 1e9  # neighbours on the machine only ever add time
        cells.append(f"{speed:8.2f}{goal or '-':>6}")
        if speed < goal:
            missed.append(direction)
    print(f"{name:<14}{'  '.join(cells)}   {'missed: ' + ', '.join(missed) if missed else ''}".rstrip(), flush=True)
    return not missed


if __name__ == "__main__":
    sys.exit(main())
