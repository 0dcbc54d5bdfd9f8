"""Print how soon faults are named and mended, as a distribution over many runs, and what watching costs."""

from __future__ import annotations

import argparse
import logging
import sys
from collections.abc import Callable

import psgd

import numpy as np

from benchmarks import machine
from benchmarks.recovery.cost import signals, snapshot
from benchmarks.recovery.ledger import ledger
from benchmarks.recovery.storm import STALL_SECONDS, WORKERS, Outcome, kill, silence, stop, weather
from parallel_sgd import local_workers
from parallel_sgd.nodes import LocalNodes

FAULTS: dict[str, tuple[Callable[[int], None], str, str, float, float]] = {
    # name: (what is done, what the verdict says, policy, seconds until it must be named, and until training must go on)
    "killed, restart": (kill, "crashed|SIGKILL", "restart", 1.0, 10.0),
    "killed, shrink": (kill, "crashed|SIGKILL", "shrink", 1.0, 5.0),
    "host silent, shrink": (silence, "silent", "shrink", 3.0, 8.0),
    "stopped, restart": (stop, "stuck, silent", "restart", STALL_SECONDS + 0.5, STALL_SECONDS + 10.0),
}


def main() -> int:
    parser = argparse.ArgumentParser(
        prog="python -m benchmarks.recovery", description="Faults on four local workers: how soon they are named and mended."
    )
    parser.add_argument("--rounds", type=psgd.positive, default=20, help="faults of each kind (default 20)")
    parser.add_argument("--faults", nargs="*", default=list(FAULTS), choices=list(FAULTS))
    options = parser.parse_args()
    machine.show()
    logging.basicConfig(handlers=[logging.NullHandler()])
    reached = [distribution(name, options.rounds) for name in options.faults]
    reached.append(signals())
    reached.append(ledger())
    reached.append(snapshot())
    return 0 if all(reached) else 1


def distribution(name: str, rounds: int) -> bool:
    """Print one line; return whether every run was within its limits."""
    act, word, policy, named_limit, mended_limit = FAULTS[name]
    outcomes = np.array([_fresh(lambda nodes, seed=seed: weather(nodes, act, word, policy, seed)) for seed in range(rounds)])
    good = True
    for what, column, limit in (("named", 0, named_limit), ("next batch complete", 1, mended_limit)):
        seconds = outcomes[:, column]
        p50, p95 = np.percentile(seconds, [50, 95])
        print(
            f"{name:19} {what:20} p50 {p50:6.3f} s   p95 {p95:6.3f} s   worst {seconds.max():6.3f} s   limit {limit:g} s",
            flush=True,
        )
        good = good and bool(seconds.max() <= limit)
    return good


def _fresh(measure: Callable[[LocalNodes], Outcome]) -> Outcome:
    """Each fault meets agents of its own, for some do not survive it."""
    with local_workers(WORKERS) as nodes:
        return measure(nodes)


if __name__ == "__main__":
    sys.exit(main())
