"""Sets of BLAS kernels that job processes of an agent may have, by the CPU of the host and the library of NumPy."""

from __future__ import annotations

from collections.abc import Mapping
from functools import cache
from importlib.util import find_spec
from pathlib import Path
from typing import Final

from ..job import kernels

_AVX2: Final = frozenset(("avx2", "fma"))
_AVX512: Final = frozenset(("avx512f", "avx512dq", "avx512bw", "avx512vl", "avx512cd"))


class KernelSets:
    """Sets among which a submitter may choose for job processes of this agent.

    Args:
        environ: the environment of the agent. A set that it names (`OPENBLAS_CORETYPE`) is the only one.
        own: job processes have the set that the library takes by itself in this environment, as the process that started the
            agent has; nothing is offered.
    """

    def __init__(self, environ: Mapping[str, str], *, own: bool) -> None:
        self._given, self._own = kernels.given(environ), own

    @property
    def offered(self) -> tuple[str, ...]:
        """Names of the sets, those for newer CPUs first; they depend on the host and its environment alone."""
        if self._given:
            return (self._given,)
        return () if self._own else runnable()

    def objection(self, wanted: str) -> str:
        """Return the reason why no process here can have the kernels of a job, "" where one can.

        Only `PORTABLE` is objected to; another set that a host cannot run is not used there.
        """
        if wanted != kernels.PORTABLE or _has(_AVX2):
            return ""
        lacks = "NumPy here has not the OpenBLAS of its wheels" if _flags() >= _AVX2 else "this CPU has not, or does not tell"
        return f"'bits' portable takes a CPU with AVX2 and FMA, on Linux, and NumPy from a wheel: {lacks}"

    def environment(self, wanted: str) -> dict[str, str]:
        """Return the variables of a job process that is to have these kernels; none for a set that would end the process by an
        illegal instruction."""
        known = {kernels.PORTABLE, *runnable()}
        return kernels.kernel_variables(wanted) if wanted in known else {}


def runnable() -> tuple[str, ...]:
    """Return the names of the sets of kernels that this host can run, those for newer CPUs first."""
    # older CPUs have nothing to choose: their only set is the library's own choice
    if not _has(_AVX2):
        return ()
    return (kernels.SKYLAKEX, kernels.HASWELL) if _has(_AVX512) else (kernels.HASWELL,)  # as which OpenBLAS treats all of these


def _has(flags: frozenset[str]) -> bool:
    """Tell if the CPU has these instructions, and NumPy an OpenBLAS with selectable kernels."""
    return bool(library_name()) and _flags() >= flags


@cache
def cpu() -> dict[str, str]:
    """Return the fields of the first processor in /proc/cpuinfo; none on other systems than Linux."""
    try:
        with open("/proc/cpuinfo", encoding="utf-8", errors="replace") as file:
            # the first processor alone: hundreds of them say the same
            lines = [line.partition(":") for line in file.read(1 << 16).partition("\n\n")[0].splitlines()]
    except OSError:
        return {}
    return {name.strip(): value.strip() for name, _, value in lines}


def _flags() -> frozenset[str]:
    return frozenset(cpu().get("flags", "").split())


@cache
def library_name() -> str:
    """Return the file name of the OpenBLAS of NumPy's wheel, which holds the hash of its content; "" where there is none."""
    found = find_spec("numpy")
    if found is None or found.origin is None:
        return ""
    # of several the first by name, so that two agents name the same
    return min((path.name for path in (Path(found.origin).parents[1] / "numpy.libs").glob("*openblas*")), default="")
