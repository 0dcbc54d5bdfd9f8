"""Train and sample small language models, and print tokens per second and ratios to torch."""

import argparse
import sys

import psgd

from benchmarks import machine
from benchmarks.language.workload import EAGER, WORKLOADS
from benchmarks.pairing import Result, ratio, take_turns

OURS, WHOLE = "nn", "nn, whole window"
GOAL = 0.8
"""What a new layer must reach of torch eager."""

TASKS = ("train", "sample")


def main() -> int:
    parser = argparse.ArgumentParser(
        prog="python -m benchmarks.language",
        description="Tokens per second of nn and of torch eager, in training and in sampling.",
    )
    parser.add_argument(
        "--rounds", type=psgd.positive, default=9, help="rounds in which every contender takes its turn (default 9)"
    )
    parser.add_argument("--threads", type=psgd.positive, nargs="*", default=[1, 2], help="threads (default 1 2)")
    parser.add_argument("--workloads", nargs="*", default=list(WORKLOADS), choices=list(WORKLOADS))
    parser.add_argument("--tasks", nargs="*", default=list(TASKS), choices=TASKS)
    options = parser.parse_args()
    reached = True
    for threads in options.threads:
        machine.show(threads)
        for name in options.workloads:
            for task in options.tasks:
                reached &= measure(task, name, threads, options.rounds)
    return 0 if reached else 1


def measure(task: str, name: str, threads: int, rounds: int) -> bool:
    """Print one table; return whether the goal is reached."""
    workload = WORKLOADS[name]
    contenders = {OURS: ("benchmarks.language.ours", f"{task}:{name}")}
    if task == "sample":
        contenders[WHOLE] = ("benchmarks.language.ours", f"whole:{name}")
    contenders[EAGER] = ("benchmarks.language.torch_peer", f"{task}:{name}")
    print(f"{workload.title}, windows of {workload.length}, {threads} thread{'s' * (threads != 1)}: {task}")
    return table(take_turns(contenders, threads, rounds), workload.trained if task == "train" else workload.drawn)


def table(results: dict[str, Result], tokens: int) -> bool:
    """Print tokens per second of each, and how many times the time of nn it takes; return whether the goal is reached."""
    print(f"  {'':<20} {'tokens/s':>12}  x of nn", flush=True)
    reached = True
    for contender, result in results.items():
        if result.note or results[OURS].note:
            print(f"  {contender:<20} not measured: {result.note or results[OURS].note}")
            reached &= not result.note or contender != OURS
            continue
        times = ratio(result, results[OURS])
        print(f"  {contender:<20} {tokens / result.median:12,.0f}  {times:7.2f}", flush=True)
        reached &= contender != EAGER or times >= GOAL
    print("  goal reached" if reached else f"  missed: {GOAL} of torch eager", flush=True)
    return reached


if __name__ == "__main__":
    sys.exit(main())
