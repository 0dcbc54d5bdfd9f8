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
from collections.abc import Iterator
from pathlib import Path
from typing import Final

import numpy as np

from ..agent.kernel_probe import cpu, library_name, place_of, remembered
from ..files import open_to_write, write_private
from . import kernels

_SHAPES: Final = ((64, 784, 1024), (128, 1024, 1024), (256, 512, 512), (32, 2048, 512))  # of a millisecond or three
_ROUNDS, _TURNS = 60, 2
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
    os.nice(_NICE)
    place = place_of(os.environ)
    with _alone(place):
        if remembered(os.environ) is None:
            about = {"cpu": cpu().get("model name", ""), "library": library_name(), "measured": time.strftime("%F %T %Z")}
            write_private(place, json.dumps({"microseconds": kernels.as_cap(_measured()), **about}))


def _measured() -> dict[str, int]:
    """The shortest times of both sets, taken in turns. A set that does not come up is left out."""
    found: dict[str, list[list[int]]] = {}
    for wanted in ("", kernels.HASWELL) * _TURNS:
        variables = {**os.environ, **kernels.kernel_variables(wanted), "OPENBLAS_VERBOSE": "2"}  # it tells which it takes
        ran = subprocess.run(_CHILD, env=variables, capture_output=True, text=True, check=False, timeout=_MOST_SECONDS)
        core = _CORE.search(ran.stderr)
        if ran.returncode == 0 and core is not None:
            found.setdefault(core[1], []).append(json.loads(ran.stdout))
    return {name: sum(map(min, zip(*turns, strict=True))) for name, turns in found.items()}


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
