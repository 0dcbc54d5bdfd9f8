"""What is measured: a small message there and back, and arrays one way with an answer at the end of the round."""

from __future__ import annotations

import subprocess
import sys
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path

ROOT = Path(__file__).parent.parent.parent


@dataclass(frozen=True)
class Workload:
    """`count` times `size` bytes per round; `echo` means that each is answered by as much."""

    size: int
    count: int
    echo: bool = False
    goal: float = 0.0  # share of the speed of plain sockets to reach

    def __str__(self) -> str:
        return f"round trip of {self.size} bytes" if self.echo else f"arrays of {self.size / 1e6:g} MB"


WORKLOADS = {
    "round-trip": Workload(64, 500, echo=True),
    "4MB": Workload(4_000_000, 25, goal=0.8),
    "100MB": Workload(100_000_000, 2, goal=0.8),
}


@contextmanager
def other_end(module: str, argument: str) -> Iterator[tuple[subprocess.Popen[str], str]]:
    """The process at the other end, and the first line it says (its port, say)."""
    process = subprocess.Popen(
        [sys.executable, "-W", "ignore", "-m", module, argument], stdout=subprocess.PIPE, text=True, cwd=ROOT
    )
    with process:
        try:
            yield process, (process.stdout.readline().strip() if process.stdout is not None else "")
        finally:
            process.kill()


def held(make: Callable[[], Iterator[Callable[[], float]]]) -> Callable[[], float]:
    """The round of a contender that is a generator, kept alive for as long as its process."""
    generator = make()
    run = next(generator)

    def round_of(_keep: Iterator[Callable[[], float]] = generator) -> float:
        return run()

    return round_of
