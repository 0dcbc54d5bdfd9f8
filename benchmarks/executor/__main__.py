"""Print the speed of ClusterExecutor against ProcessPoolExecutor and Dask, as ratios in one run."""

from __future__ import annotations

import argparse
import sys

import psgd

from benchmarks import machine
from benchmarks.executor.workload import WORKLOADS
from benchmarks.pairing import ratio, take_turns

OURS = "ClusterExecutor"
PEERS = {
    "processes": "benchmarks.executor.processes",
    "Dask": "benchmarks.executor.dask_peer",
    "sorted, collect": "benchmarks.executor.unsorted",
}


def main() -> int:
    parser = argparse.ArgumentParser(
        prog="python -m benchmarks.executor", description="Tasks on two workers of this machine, as ratios in one run."
    )
    parser.add_argument(
        "--rounds", type=psgd.positive, default=5, help="rounds in which every contender takes its turn (default 5)"
    )
    parser.add_argument("--workloads", nargs="*", default=list(WORKLOADS), choices=list(WORKLOADS))
    options = parser.parse_args()
    machine.show()
    reached = [compare(name, options.rounds) for name in options.workloads]
    return 0 if all(reached) else 1


def compare(name: str, rounds: int) -> bool:
    """Print one table; return whether the goals are reached."""
    workload = WORKLOADS[name]
    contenders = {OURS: ("benchmarks.executor.ours", name), **{peer: (PEERS[peer], name) for peer in workload.peers}}
    results = take_turns(contenders, 1, rounds)
    print(f"{workload}: median, and how many times as fast {OURS} is")
    reached = True
    for contender, result in results.items():
        if result.note:
            print(f"  {contender:<18} skipped: {result.note}")
            reached = reached and contender != OURS and contender not in workload.goals
            continue
        times = ratio(result, results[OURS])
        print(f"  {contender:<18} {workload.count / result.median:9.0f} per second  {times:5.2f}", flush=True)
        if times < workload.goals.get(contender, 0.0):
            print(f"  missed: the goal is {workload.goals[contender]} times {contender}", flush=True)
            reached = False
    return reached


if __name__ == "__main__":
    sys.exit(main())
