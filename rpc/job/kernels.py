"""The sets of BLAS kernels that job processes may have: what an agent tells of them, and which one a job gets.

OpenBLAS takes its kernels by the CPU while it is loaded, so only who starts a process chooses. Sets differ in the last bits, so
all processes of a job have the same one.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import TYPE_CHECKING, Final

if TYPE_CHECKING:
    from network.controller import Controller

PORTABLE: Final = "portable"
"""What gives the same bits on every x86 CPU with AVX2: no name of OpenBLAS's, for NumPy's own functions count, too."""
HASWELL: Final = "Haswell"
"""The kernels for AVX2, which CPUs with AVX-512 can have as well."""
CAP: Final = "kernels"
"""The name under which an agent tells, when it is connected to, of the sets that its job processes may have."""
SWITCH: Final = "PSGD_KERNEL_PROBE"
"""The variable that turns the measurement of kernels off, where it is `off`."""
_VARIABLE: Final = "OPENBLAS_CORETYPE"
_FEATURES: Final = "NPY_DISABLE_CPU_FEATURES"
KERNEL_VARIABLES: Final = (_VARIABLE, _FEATURES)
"""With these, who starts an agent fixes the kernels of its jobs, unless a job asks for portable bits."""
_BEYOND_AVX2: Final = (
    *("X86_V4", "AVX512F", "AVX512CD", "AVX512_SKX", "AVX512_CLX", "AVX512_CNL", "AVX512_ICL", "AVX512_SPR"),
    *("AVX512_KNL", "AVX512_KNM"),  # NumPy passes over names that its build or the CPU does not have
)
_BETTER: Final = 1.08  # times of the same set differ by 2 to 7 % from one measurement to the next under load
_MOST_SETS: Final = 8

Times = Mapping[str, int]
"""Microseconds of some products of matrices, by the set of kernels; that which the library takes by itself comes first."""


def as_cap(times: Times) -> str:
    return " ".join(f"{name}={microseconds}" for name, microseconds in times.items())


def from_cap(value: object) -> dict[str, int]:
    """What `as_cap` was given; nothing where an agent tells nothing, or what cannot be understood."""
    pairs = [part.split("=") for part in value.split()] if isinstance(value, str) else []
    if len(pairs) > _MOST_SETS or not all(len(pair) == 2 and pair[0].isalnum() and _is_count(pair[1]) for pair in pairs):
        return {}
    return {name: int(microseconds) for name, microseconds in pairs}


def _is_count(text: str) -> bool:
    return text.isascii() and text.isdigit() and len(text) < 12


def choose(offers: Iterable[Times]) -> str:
    """The set for a job on hosts with these `offers`: of those that all have, the fastest for all together, but the library's
    own where another one gains less than 8 %. Where they have none in common "", each its own.
    """
    first, *others = [*offers] or [{}]
    totals = {name: first[name] + sum(offer[name] for offer in others) for name in first if all(name in o for o in others)}
    if not totals:
        return ""
    own, best = next(iter(totals)), min(totals, key=totals.__getitem__)
    return best if totals[own] > _BETTER * totals[best] else own


def common_kernels(com: Controller) -> str:
    """The set for a job on the agents that `com` is connected with."""
    return choose(from_cap(session.caps.get(CAP)) for session in com.sessions.values())


def kernel_variables(kernels: str) -> dict[str, str]:
    """The variables with which a process has these kernels; none for ""."""
    if kernels == PORTABLE:
        return {_VARIABLE: HASWELL, _FEATURES: " ".join(_BEYOND_AVX2)}
    return {_VARIABLE: kernels} if kernels else {}


def given(environ: Mapping[str, str]) -> str:
    """The set that this environment fixes, "" for none."""
    return environ.get(_VARIABLE, "")
