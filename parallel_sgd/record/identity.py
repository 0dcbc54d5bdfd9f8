"""Identity of a process that trains: everything besides the settings of a job on which its last bits depend."""

from __future__ import annotations

import platform
from collections.abc import Iterable, Mapping
from typing import Final, NamedTuple

import numpy as np

from network import VERSION
from nn.threads import describe_blas

IDENTITY_COLUMNS: Final = ("Epoch", "Computes with")
ATTEMPT_COLUMNS: Final = ("Attempt", "Node", "Computes with")
KERNELS: Final = "OpenBLAS kernels"
"""Part of an identity that names the set of BLAS kernels."""
THREADS: Final = "threads"
"""Part of an identity that tells the number of BLAS threads."""
# "thread(s)": what runs of versions before 1.1 wrote
_SPELLINGS: Final = frozenset({"thread", THREADS, "thread(s)"})
# by name, not by value: two machines differ in them, and portable bits do not
#: Parts that do not count where bits are portable.
_ELSEWHERE: Final = frozenset({KERNELS, "functions for", THREADS})

Identities = Mapping[int, list[str]]
"""Identities of the processes of each node, in the order in which they trained, each once."""


def own_identity() -> str:
    """Return the identity of this process.

    >>> own_identity()     # doctest: +SKIP
    'Parallel-SGD 1.1.0, Python 3.11.7, scipy-openblas 0.3.31, NumPy 2.4.6, functions for AVX2, OpenBLAS kernels Haswell, ...'
    """
    blas = np.show_config(mode="dicts")["Build Dependencies"]["blas"]
    # a comma separates the parts of an identity, and NumPy's name of the library may have some
    library = f"{blas.get('name', 'unknown')} {blas.get('version', 'unknown')}".replace(",", "")
    return f"Parallel-SGD {VERSION}, Python {platform.python_version()}, {library}, {describe_blas()}"


class Told(NamedTuple):
    """Identity that the process of a node told at the start of an attempt.

    Args:
        attempt: its number, from 1.
        node: the number of the node in this attempt; after a shrink others may have it.
        identity: a text of `own_identity`.
    """

    attempt: int
    node: int
    identity: str


def parts_of(identity: str) -> dict[str, str]:
    """Return the parts of an identity by name, for example `{"NumPy": "2.4.6", "threads": "1"}`."""
    found = {}
    for piece in identity.split(", "):
        first, _, rest = piece.partition(" ")
        # "1 thread" has its number first, "NumPy 2.4.6" last
        name, _, value = (rest, "", first) if first.isdecimal() else piece.rpartition(" ")
        found[THREADS if name in _SPELLINGS else name] = value
    return found


def environment_of(told: Identities) -> dict[str, str]:
    """Return the identities of nodes as the environment of a run tells them: one line if they are all the same, else one for
    each node.
    """
    texts = {text for texts in told.values() for text in texts}
    if len(texts) == 1:
        return {"the nodes compute with": texts.pop()}
    return {f"node {node} computes with": " and ".join(those) for node, those in told.items()}


def differences(was: Iterable[str], now: Iterable[str], *, portable: bool = False) -> list[str]:
    """Return the parts in which identities `was` of a run differ from `now`, those of another computation, in words.

    Args:
        was: identities of processes that trained.
        now: identities of the processes that computed again.
        portable: the run has portable bits, which depend on neither kernels nor functions nor threads.
    """
    # sets: a node may have had several processes, one after the other
    before, after = ([parts_of(each) for each in identities] for identities in (was, now))
    names = dict.fromkeys(name for each in (*before, *after) for name in each if not (portable and name in _ELSEWHERE))
    found = []
    for name in names:
        old, new = ({each.get(name, "none") for each in identities} for identities in (before, after))
        # within the run itself processes may differ, which no single computation could be equal to
        if old and new and (old != new or len(old) > 1):
            found.append(f"{name} {' and '.join(sorted(old))} (here {' and '.join(sorted(new))})")
    return found
