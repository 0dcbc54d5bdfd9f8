"""The programs of README.md that train on two workers, with one worker and with two: `python -m benchmarks.jobs.readme`.

Each program is taken from the page as it stands; with one worker its blocks are twice as large, so that both train with the
same batches. The programs take turns. What counts is the time from the first batch to the end of the last epoch, of the slower
worker, as the last lines of a job tell it; the best of all rounds, since other programs on the machine only add to it.
"""

from __future__ import annotations

import argparse
import re
import statistics
import subprocess
import sys
import tempfile

import psgd

from benchmarks import machine
from benchmarks.pairing import ROOT, environment

WORKERS, BLOCK = "local_workers(2)", re.compile(r"block_size=(\d+)")
TIME = """
from pathlib import Path
from parallel_sgd.run_page import RunRecords
from parallel_sgd.run_page.data import effort_in
print("took", effort_in(RunRecords.read(Path("runs/latest").resolve())).seconds)
"""


def programs() -> dict[str, str]:
    """Return the programs by the line of the page in which they begin."""
    page = (ROOT / "README.md").read_text("utf-8")
    found = {}
    imports = ""
    for block in re.finditer(r"^```python\n(.*?)^```", page, re.DOTALL | re.MULTILINE):
        if not imports:  # the first block has those that the page begins with
            imports = "".join(line for line in block[1].splitlines(True) if line.startswith(("import ", "from ")))
        if WORKERS in block[1] and BLOCK.search(block[1]) and "nn.model." in block[1] and "settings" not in block[1]:
            found[f"README.md:{page.count(chr(10), 0, block.start(1)) + 1}"] = imports + block[1]
    return found


def alone(program: str) -> str:
    """Return a program for two workers as one for one worker, with the same batches."""
    return BLOCK.sub(lambda size: f"block_size={2 * int(size[1])}", program).replace(WORKERS, "local_workers(1)")


def seconds(program: str) -> float:
    """Run a program, and return the time that its training took."""
    with tempfile.TemporaryDirectory() as place:
        command = [sys.executable, "-c", program + TIME]
        done = subprocess.run(command, cwd=place, env=environment(1), capture_output=True, text=True, check=False)
    if done.returncode:
        raise RuntimeError(done.stderr.strip().rpartition("\n")[2])
    return float(done.stdout.split()[-1])


def main() -> int:
    parser = argparse.ArgumentParser(description="README's programs with one worker and with two.")
    parser.add_argument(
        "--rounds", type=psgd.positive, default=5, help="runs of each program with each number of workers (default 5)"
    )
    rounds = parser.parse_args().rounds
    machine.show()
    found = programs()
    taken: dict[tuple[str, int], list[float]] = {(name, count): [] for name in found for count in (1, 2)}
    for _ in range(rounds):
        for name, program in found.items():
            taken[name, 1].append(seconds(alone(program)))
            taken[name, 2].append(seconds(program))
    for name in found:
        one, two = taken[name, 1], taken[name, 2]
        texts = (f"best {min(each):.3f} s, median {statistics.median(each):.3f} s" for each in (one, two))
        told = "; ".join(f"{count}: {text}" for count, text in zip((1, 2), texts, strict=True))
        print(f"{name:<14} {told}; one takes {min(one) / min(two):.2f} times as long as two", flush=True)
    return 0


if __name__ == "__main__":
    sys.exit(main())
