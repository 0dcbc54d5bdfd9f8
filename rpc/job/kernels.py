"""Sets of BLAS kernels that job processes may have: the sets that an agent offers, and the choice of one for a job.

OpenBLAS takes its kernels by the CPU while it is loaded, so the program that starts a process chooses. Sets differ in the last
bits, so all processes of a job have the same one.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import TYPE_CHECKING, Final

from ..support.logs import SUBMIT_LOGGER, get_logger

if TYPE_CHECKING:
    from network.controller import Controller

PORTABLE: Final = "portable"
"""Set with the same bits on every x86 CPU with AVX2: no name of OpenBLAS's, for NumPy's own functions count, too."""
HASWELL: Final = "Haswell"
"""The kernels for AVX2, which CPUs with AVX-512 can have as well."""
CAP: Final = "kernels"
"""The name under which an agent tells, when it is connected to, of the sets that its job processes may have."""
_VARIABLE: Final = "OPENBLAS_CORETYPE"
_FEATURES: Final = "NPY_DISABLE_CPU_FEATURES"
KERNEL_VARIABLES: Final = (_VARIABLE, _FEATURES)
"""With these, the starter of an agent fixes the kernels of its jobs, unless a job asks for portable bits."""
_BEYOND_AVX2: Final = (
    *("X86_V4", "AVX512F", "AVX512CD", "AVX512_SKX", "AVX512_CLX", "AVX512_CNL", "AVX512_ICL", "AVX512_SPR"),
    *("AVX512_KNL", "AVX512_KNM"),  # NumPy passes over names that its build or the CPU does not have
)
_MOST_SETS: Final = 8
_log = get_logger(SUBMIT_LOGGER)
SKYLAKEX: Final = "SkylakeX"
"""The kernels for AVX-512, which OpenBLAS takes by itself on a CPU with it."""
#: The order of preference: a CPU can run each set of which it has the instructions, and the first is for the newest CPUs.
_ORDER: Final = (SKYLAKEX, HASWELL)
BITS: Final = (PORTABLE, *_ORDER)
"""The bits that a job may ask for."""


def as_cap(sets: Iterable[str]) -> str:
    """Return the value of `CAP` for an agent that offers these sets."""
    return " ".join(sets)


def from_cap(value: object) -> tuple[str, ...]:
    """Return the sets that a value of `CAP` names; none where the agent names none, or the value has another form."""
    sets = tuple(value.split()) if isinstance(value, str) else ()
    # the word of an agent, which goes into the environment of processes
    return sets if len(sets) <= _MOST_SETS and all(name.isascii() and name.isalnum() for name in sets) else ()


def choose(offers: Iterable[Iterable[str]]) -> str:
    """Return the set for a job on hosts with these `offers`: the first of a fixed order that all have.

    The order is that of the names here, newest CPUs first, then names that only the environment of an agent gives, by
    alphabet. So the choice depends on the hosts alone. "" where they have none in common: each process has its library's own.
    """
    first, *others = [set(offer) for offer in offers] or [set[str]()]
    common = first.intersection(*others)
    return min(common, key=lambda name: (_ORDER.index(name) if name in _ORDER else len(_ORDER), name), default="")


def common_kernels(com: Controller) -> str:
    """Return the set for a job on the agents that `com` is connected with; the log names it where their offers differ."""
    offers = [from_cap(session.caps.get(CAP)) for session in com.sessions.values()]
    chosen = choose(offers)
    # told where offers differ: a user may wonder why a new machine runs the kernels of an older one
    if chosen and len(set(offers)) > 1:
        _log.info("BLAS kernels of all nodes: %s, the first of %s that each of them has.", chosen, ", ".join(_ORDER))
    return chosen


def kernel_variables(kernels: str) -> dict[str, str]:
    """Return the variables with which a process has these kernels; none for ""."""
    if kernels == PORTABLE:
        # both libraries: NumPy's own loops choose by the CPU as well
        return {_VARIABLE: HASWELL, _FEATURES: " ".join(_BEYOND_AVX2)}
    return {_VARIABLE: kernels} if kernels else {}


def given(environ: Mapping[str, str]) -> str:
    """Return the set that this environment fixes, "" for none."""
    return environ.get(_VARIABLE, "")
