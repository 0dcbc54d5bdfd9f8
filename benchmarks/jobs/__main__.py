"""Print how soon a job begins, and how fast the steps of a small one are."""

from __future__ import annotations

import argparse
import subprocess
import sys

import psgd

from benchmarks import machine
from benchmarks.pairing import ROOT, environment, quartiles, take_turns

EPOCHS = "11"
FIRST, SMALL = "benchmarks.jobs.first_step", "benchmarks.jobs.small_steps"
JOBS = {
    "first step, 1 worker": (FIRST, "1"),
    "first step, 4 workers": (FIRST, "4"),
    "steps of 64-128-64-10, 2 workers": (SMALL, EPOCHS),
}


def main() -> int:
    parser = argparse.ArgumentParser(prog="python -m benchmarks.jobs", description="Small jobs on agents of this machine.")
    parser.add_argument("--rounds", type=psgd.positive, default=15, help="jobs of each kind (default 15)")
    parser.add_argument("--page", action="store_true", help="what a live page costs, instead of these (some 20 minutes)")
    parser.add_argument("--seconds", type=float, default=20.0, help="of a job with --page (default 20)")
    options = parser.parse_args()
    machine.show()
    if options.page:
        given = ["--rounds", str(options.rounds), "--seconds", str(options.seconds)]
        command = [sys.executable, "-m", "benchmarks.jobs.page_cost", *given]
        return subprocess.run(command, cwd=ROOT, env=environment(1), check=False).returncode
    results = take_turns(JOBS, 1, options.rounds)
    for name, result in results.items():
        if result.note:
            print(f"{name:<34} not measured: {result.note}")
        else:
            low, median, high = (1e3 * each for each in quartiles(result.seconds))
            print(f"{name:<34} {median:9.3f} ms   quartiles {low:9.3f} and {high:9.3f}", flush=True)
    return 1 if any(result.note for result in results.values()) else 0


if __name__ == "__main__":
    sys.exit(main())
