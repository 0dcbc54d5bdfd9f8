"""Measures which BLAS kernels are fastest on this host: a program of its own, for kernels are taken when a process begins."""

from __future__ import annotations

import contextlib
import fcntl
import json
import os
import re
import subprocess
import sys
import time
from collections.abc import Iterable, Iterator, Mapping
from pathlib import Path
from typing import Final

import numpy as np

from ..agent.kernel_probe import cpu, library_name, place_of, remembered
from ..console import open_descriptors
from ..files import open_to_write, write_private
from . import kernels

_SHAPES: Final = ((64, 784, 1024), (128, 1024, 1024), (256, 512, 512), (32, 2048, 512))  # of a millisecond or three
_ROUNDS, _MOST_TURNS = 60, 6
_AGREE: Final = 1.03
"""By so much quotients of turns that agree may differ; a set is preferred for 8 %."""
_MOST_SECONDS: Final = 60.0
_NICE: Final = 10
_CHILD: Final = (sys.executable, "-c", "from rpc.job.kernel_timing import measure; measure()")
_CORE: Final = re.compile(r"^Core: (\w+)$", re.MULTILINE)


@contextlib.contextmanager
def _alone(place: Path) -> Iterator[None]:
    """One after the other, where several agents start together."""
    place.parent.mkdir(mode=0o700, parents=True, exist_ok=True)
    descriptor = open_to_write(place.with_suffix(".lock"), 0)
    try:
        fcntl.flock(descriptor, fcntl.LOCK_EX)
        yield
    finally:
        os.close(descriptor)


def main() -> None:
    """Entry point of the interpreter that an agent starts: measure what is not remembered yet, and remember it."""
    open_descriptors()
    os.nice(_NICE)
    place = place_of(os.environ)
    with _alone(place):
        if remembered(os.environ) is None:
            times = agreed(_turn() for _ in range(_MOST_TURNS))
            about = {"cpu": cpu().get("model name", ""), "library": library_name(), "measured": time.strftime("%F %T %Z")}
            if times:
                write_private(place, json.dumps({"microseconds": kernels.as_cap(times), **about}))


def agreed(turns: Iterable[Mapping[str, int]]) -> Mapping[str, int]:
    """The times of a turn with whose quotients those of another one agree; nothing where none do, so that a moment in which
    others took the processor from one set is not remembered for good. What slows down both changes no quotient."""
    known: list[tuple[Mapping[str, int], list[float]]] = []
    for times in turns:
        least = min(times.values(), default=0)
        quotients = [microseconds / least for microseconds in times.values()]
        for others, found in known:
            if times and times.keys() == others.keys() and all(map(_agree, quotients, found)):
                return min(times, others, key=lambda each: sum(each.values()))
        known.append((times, quotients))
    return {}


def _agree(one: float, other: float) -> bool:
    return max(one, other) <= _AGREE * min(one, other)


def _turn() -> dict[str, int]:
    """The microseconds of all shapes with each set, the library's own first. One that does not come up is left out."""
    found: dict[str, int] = {}
    for wanted in ("", kernels.HASWELL):
        variables = {**os.environ, **kernels.kernel_variables(wanted), "OPENBLAS_VERBOSE": "2"}  # it tells which it takes
        ran = subprocess.run(_CHILD, env=variables, capture_output=True, text=True, check=False, timeout=_MOST_SECONDS)
        core = _CORE.search(ran.stderr)
        if ran.returncode == 0 and core is not None:
            found[core[1]] = sum(json.loads(ran.stdout))
    return found


def measure() -> None:
    """Print the shortest times of products of each shape, in microseconds; the variables say with which kernels."""
    shortest = []
    for rows, inner, columns in _SHAPES:
        left, right = np.ones((rows, inner), np.float32), np.ones((inner, columns), np.float32)
        result = np.empty((rows, columns), np.float32)
        times = []
        for _ in range(_ROUNDS):
            begin = time.perf_counter_ns()
            np.matmul(left, right, out=result)
            times.append(time.perf_counter_ns() - begin)
        shortest.append(min(times) // 1000)
    sys.stdout.write(json.dumps(shortest))
