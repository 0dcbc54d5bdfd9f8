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

INTERRUPTED = 130
PROCESS_TESTS = ["-m", "processes and not alone", "tests"]


@contextlib.contextmanager
def busy(loops: int) -> Iterator[None]:
    """So many processes that compute without a pause."""
    loop = [sys.executable, "-c", "while True: pass"]
    # in sessions of their own: Ctrl-C is for the tests
    started = [subprocess.Popen(loop, start_new_session=True) for _ in range(loops)]
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
            command = [sys.executable, "-m", "pytest", "-q", f"--junitxml={report}", *chosen]
            finished = subprocess.Popen(command, stdout=subprocess.PIPE, text=True)
            try:
                told = finished.communicate()[0]
            except KeyboardInterrupt:  # which it gets, too, and ends its agents
                finished.communicate()
                print(f"Interrupted after {run - 1} of {options.runs} runs, {sum(found.values())} failures", flush=True)
                return INTERRUPTED
            failed = failures(report) if report.exists() else []
            # what is no failure of a test, such as a file that cannot be imported, is none that comes now and then
            if finished.returncode and not failed:
                print(told)
                return 2
            found.update(failed)
            words = told.splitlines()[-1]
            print(f"run {run:2} of {options.runs}  {time.monotonic() - begin:6.1f} s  {words}", flush=True)
            for name in failed:
                print(f"    {name}", flush=True)
            if failed:
                print(told, file=sys.stderr)
    print(
        f"{options.runs} runs, {sum(found.values())} failures" + "".join(f"\n{n:3} x {name}" for name, n in found.most_common())
    )
    return 1 if found else 0


if __name__ == "__main__":
    sys.exit(main())
