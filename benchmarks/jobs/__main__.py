"""Print how soon a job begins, and how fast the steps of a small one are."""

from __future__ import annotations

import argparse
import statistics
import sys

from benchmarks import machine
from benchmarks.pairing import take_turns

EPOCHS, MANY = "11", "301"
FIRST, SMALL = "benchmarks.jobs.first_step", "benchmarks.jobs.small_steps"
JOBS = {
    "first step, 1 worker": (FIRST, "1"),
    "first step, 4 workers": (FIRST, "4"),
    "steps of 64-128-64-10, 2 workers": (SMALL, EPOCHS),
}
# the page tells something new every 1.5 s at most, so these jobs are longer
PAGE = {"many steps": (SMALL, MANY), "many steps, page=True, seen": (SMALL, f"{MANY} seen")}


def main() -> int:
    parser = argparse.ArgumentParser(description="Small jobs on agents of this machine.")
    parser.add_argument("--rounds", type=int, default=15, help="jobs of each kind (default 15)")
    parser.add_argument("--page", action="store_true", help="also with a page that somebody looks at (8 s for each round more)")
    options = parser.parse_args()
    machine.show()
    results = take_turns({**JOBS, **PAGE} if options.page else JOBS, 1, options.rounds)
    for name, result in results.items():
        if result.note:
            print(f"{name:<34} not measured: {result.note}")
        else:
            low, median, high = (1e3 * each for each in statistics.quantiles(result.seconds, n=4))
            print(f"{name:<34} {median:9.3f} ms   quartiles {low:9.3f} and {high:9.3f}", flush=True)
    unseen, seen = (results.get(name) for name in PAGE)
    if unseen and seen and not (unseen.note or seen.note):
        ratios = [one / other for one, other in zip(seen.seconds, unseen.seconds, strict=True)]
        low, median, high = (100 * (each - 1) for each in statistics.quantiles(ratios, n=4))
        print(f"{'what page=True adds to a step':<34} {median:9.2f} %    quartiles {low:9.2f} and {high:9.2f}", flush=True)
    return 1 if any(result.note for result in results.values()) else 0


if __name__ == "__main__":
    sys.exit(main())
