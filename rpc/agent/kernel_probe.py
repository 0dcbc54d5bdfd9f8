"""Which sets of BLAS kernels this host has, and how fast they are here: measured once for each CPU and library, and remembered.

Only CPUs with AVX-512 leave a choice: OpenBLAS has kernels for it, and those for AVX2, which are faster on some. A measurement
takes 2 to 3 s of one core. It is made by a process of its own, which an agent starts with low priority and does not wait for.
"""

from __future__ import annotations

import contextlib
import hashlib
import json
import logging
import subprocess
import sys
from collections.abc import Mapping
from functools import cache
from importlib.util import find_spec
from pathlib import Path
from typing import Final

from ..files import parsed, read_regular
from ..job import kernels
from .children import ChildProcesses, child_environment, kill_group

_AVX2: Final = frozenset(("avx2", "fma"))
_AVX512: Final = frozenset(("avx512f", "avx512dq", "avx512bw", "avx512vl", "avx512cd"))
COMMAND: Final = (sys.executable, "-c", "from rpc.job.kernel_timing import main; main()")
"""What measures, and remembers what it has found."""


class Kernels:
    """The sets that job processes of this agent may have, whose environment is `environ`.

    Where `probes`, it tells submitters how fast each is; what is not known yet is measured after `start`.
    """

    def __init__(self, environ: Mapping[str, str], *, probes: bool) -> None:
        self._environ, self._given, self._probes = environ, kernels.given(environ), probes
        self._process: subprocess.Popen[bytes] | None = None

    def start(self, children: ChildProcesses, logger: logging.Logger) -> None:
        """Begin to measure, if that is called for."""
        if not self._probes or self._given:
            return
        if not needs_measuring(self._environ):
            logger.debug("BLAS kernels here, in microseconds: %s.", kernels.as_cap(self.times) or "no choice")
            return
        place = place_of(self._environ)
        logger.info("Measuring in the background which BLAS kernels are fastest here, to be remembered in %s.", place)
        null = subprocess.DEVNULL
        with contextlib.suppress(OSError):  # then the library's own it is
            self._process = children.start(
                [*COMMAND], env=child_environment(self._environ, 1), stdin=null, stdout=null, stderr=null
            )

    @property
    def times(self) -> kernels.Times:
        """Those among which a submitter may choose, which are none until they are known."""
        if self._given:
            return {self._given: 0}
        if not self._probes or not _has(_AVX2):
            return {}
        if not _has(_AVX512):
            return {kernels.HASWELL: 0}  # as which OpenBLAS treats all of these
        if self._process is not None:
            if self._process.poll() is None:
                return {}
            self._process = None
        return remembered(self._environ) or {}

    def objection(self, wanted: str) -> str:
        """Why no process here can have the kernels of a job, "" where it can. What else it cannot have is not used."""
        if wanted != kernels.PORTABLE or _has(_AVX2):
            return ""
        lacks = "NumPy here has not the OpenBLAS of its wheels" if _flags() >= _AVX2 else "this CPU has not, or does not tell"
        return f"'bits' portable takes a CPU with AVX2 and FMA, on Linux, and NumPy from a wheel: {lacks}"

    def environment(self, wanted: str) -> dict[str, str]:
        """The variables of a process of a job that is to have these kernels."""
        known = {kernels.PORTABLE, *(() if self._given else self._runnable())}
        return kernels.kernel_variables(wanted) if wanted in known else {}

    def _runnable(self) -> set[str]:
        """Others would end the process by an illegal instruction."""
        found = remembered(self._environ) if _has(_AVX512) else None
        return {kernels.HASWELL, *(found or ())} if _has(_AVX2) else set()

    def close(self) -> None:
        if self._process is not None and self._process.poll() is None:
            kill_group(self._process)
            self._process.wait()


def needs_measuring(environ: Mapping[str, str]) -> bool:
    return _has(_AVX2 | _AVX512) and remembered(environ) is None


# ---- this host


def _has(flags: frozenset[str]) -> bool:
    """Whether the CPU has these instructions, and NumPy an OpenBLAS whose kernels can be chosen."""
    return bool(library_name()) and _flags() >= flags


@cache
def cpu() -> dict[str, str]:
    """What Linux tells of the first processor; nothing on other systems."""
    try:
        with open("/proc/cpuinfo", encoding="utf-8", errors="replace") as file:
            lines = [line.partition(":") for line in file.read(1 << 16).partition("\n\n")[0].splitlines()]
    except OSError:
        return {}
    return {name.strip(): value.strip() for name, _, value in lines}


def _flags() -> frozenset[str]:
    return frozenset(cpu().get("flags", "").split())


@cache
def library_name() -> str:
    """The name of the OpenBLAS that NumPy's wheel brings, with the hash of its content; "" where there is none."""
    found = find_spec("numpy")
    if found is None or found.origin is None:
        return ""
    return min((path.name for path in (Path(found.origin).parents[1] / "numpy.libs").glob("*openblas*")), default="")


# ---- memory


def place_of(environ: Mapping[str, str]) -> Path:
    """A file for each CPU and library: machines may share a home."""
    base = Path(environ.get("XDG_CACHE_HOME", ""))
    about = [library_name(), cpu().get("model name", ""), *sorted(_flags())]
    name = hashlib.sha256(" ".join(about).encode()).hexdigest()[:16]
    return (base if base.is_absolute() else Path.home() / ".cache") / "psgd" / "kernels" / f"{name}.json"


def remembered(environ: Mapping[str, str]) -> dict[str, int] | None:
    """The times of each set; None where they have not been measured."""
    try:
        content = parsed(json.loads, read_regular(place_of(environ)))
        return kernels.from_cap(content["microseconds"])
    except (OSError, ValueError, TypeError, KeyError, RuntimeError):  # the last without a home
        return None
