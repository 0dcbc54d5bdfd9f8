"""Run the tests that start processes again and again on a machine that is busy, and name those that fail now and then.

make steady                  twenty runs beside two busy loops
python -m tests.repeat [--runs N] [--loops N] [PYTEST ARGUMENT ...]
"""

from __future__ import annotations

import argparse
import contextlib
import subprocess
import sys
import tempfile
import time
import xml.etree.ElementTree as xml
from collections import Counter
from collections.abc import Iterator
from pathlib import Path

PROCESS_TESTS = ["-m", "processes and not alone", "tests"]


@contextlib.contextmanager
def busy(loops: int) -> Iterator[None]:
    """So many processes that compute without a pause."""
    started = [subprocess.Popen([sys.executable, "-c", "while True: pass"]) for _ in range(loops)]
    try:
        yield
    finally:
        for process in started:
            process.kill()
            process.wait()


def failures(report: Path) -> list[str]:
    """The tests that a report of pytest in XML calls failed, or that could not be run."""
    cases = xml.parse(report).iter("testcase")
    return [
        f"{c.get('classname')}::{c.get('name')}" for c in cases if c.find("failure") is not None or c.find("error") is not None
    ]


def main() -> int:
    parser = argparse.ArgumentParser(prog="python -m tests.repeat", description=__doc__.splitlines()[0])
    parser.add_argument("--runs", type=int, default=20, help="how often (default 20)")
    parser.add_argument("--loops", type=int, default=2, help="busy loops beside it (default 2)")
    parser.add_argument("tests", nargs="*", help="for pytest (default: every test that starts processes and states no time)")
    options, further = parser.parse_known_args()
    chosen = [*further, *options.tests] or PROCESS_TESTS
    found: Counter[str] = Counter()
    with tempfile.TemporaryDirectory() as folder, busy(options.loops):
        for run in range(1, options.runs + 1):
            report, begin = Path(folder, f"{run}.xml"), time.monotonic()
            finished = subprocess.run(
                [sys.executable, "-m", "pytest", "-q", f"--junitxml={report}", *chosen], stdout=subprocess.PIPE, text=True
            )
            if not report.exists():
                print(finished.stdout)
                return 2
            failed = failures(report)
            found.update(failed)
            words = finished.stdout.splitlines()[-1]
            print(f"run {run:2} of {options.runs}  {time.monotonic() - begin:6.1f} s  {words}", flush=True)
            for name in failed:
                print(f"    {name}", flush=True)
            if failed:
                print(finished.stdout, file=sys.stderr)
    print(
        f"{options.runs} runs, {sum(found.values())} failures" + "".join(f"\n{n:3} x {name}" for name, n in found.most_common())
    )
    return 1 if found else 0


if __name__ == "__main__":
    sys.exit(main())
