"""Print the time of a round trip and the throughput of arrays, ours against plain sockets and torch gloo."""

from __future__ import annotations

import argparse
import sys

import psgd

from benchmarks import machine
from benchmarks.network.workload import WORKLOADS
from benchmarks.pairing import ratio, take_turns

PLAIN, OURS = "plain sockets", "network"


def main() -> int:
    parser = argparse.ArgumentParser(
        prog="python -m benchmarks.network", description="Messages between two processes on loopback, as ratios in one run."
    )
    parser.add_argument(
        "--rounds", type=psgd.positive, default=15, help="rounds in which every contender takes its turn (default 15)"
    )
    parser.add_argument("--workloads", nargs="*", default=list(WORKLOADS), choices=list(WORKLOADS))
    options = parser.parse_args()
    machine.show()
    reached = [compare(name, options.rounds) for name in options.workloads]
    return 0 if all(reached) else 1


def compare(name: str, rounds: int) -> bool:
    """Print one table; return whether the goal is reached."""
    workload = WORKLOADS[name]
    contenders = {
        PLAIN: ("benchmarks.network.plain", name),
        OURS: ("benchmarks.network.product", f"{name}:plain"),
        "network, sealed": ("benchmarks.network.product", f"{name}:sealed"),
        "torch gloo": ("benchmarks.network.gloo", name),
    }
    results = take_turns(contenders, 1, rounds)
    print(f"{workload}: median, and speed as a share of plain sockets")
    shares = {}
    for contender, result in results.items():
        if result.note:
            print(f"  {contender:<18} skipped: {result.note}")
            continue
        each = result.median / workload.count
        figure = f"{each * 1e6:9.1f} µs " if workload.echo else f"{workload.size / each / 1e6:9.0f} MB/s"
        shares[contender] = ratio(results[PLAIN], result)
        print(f"  {contender:<18} {figure}  {shares[contender]:5.2f}", flush=True)
    if OURS not in shares or shares[OURS] < workload.goal:
        print(f"  missed: {OURS} reaches {shares.get(OURS, 0.0):.2f} of plain sockets, the goal is {workload.goal}", flush=True)
        return False
    return True


if __name__ == "__main__":
    sys.exit(main())
