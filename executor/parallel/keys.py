"""Hashes of keys that are the same in every process, unlike `hash` of a str."""

from __future__ import annotations

import dataclasses
import enum
import numbers
import zlib
from typing import Any

import numpy as np

_PRIME, _MASK = 1_000_003, (1 << 64) - 1


def stable_hash(key: Any) -> int:
    """A hash from 0 to 2**64 - 1, equal for equal keys: numbers, str, bytes, None, enum members, frozen dataclasses, and tuples
    and frozensets of these.

    Raises: TypeError for any other key.
    """
    if isinstance(key, np.generic):
        key = key.item()
    if isinstance(key, numbers.Number):
        return hash(key) & _MASK if key == key else 0
    if isinstance(key, str):
        return zlib.crc32(key.encode("utf-8", "surrogatepass"))
    if isinstance(key, bytes):
        return zlib.crc32(key)
    if key is None:
        return 1
    if isinstance(key, tuple):
        total = len(key)
        for part in key:
            total = (total * _PRIME ^ stable_hash(part)) & _MASK
        return total
    if isinstance(key, frozenset):
        return sum(map(stable_hash, key)) & _MASK
    if isinstance(key, enum.Enum):  # after all that a member may be as well, and be equal to
        return zlib.crc32(f"{type(key).__qualname__}.{key.name}".encode())
    if dataclasses.is_dataclass(key) and not isinstance(key, type) and key.__hash__ is not None:
        return stable_hash(tuple(getattr(key, f.name) for f in dataclasses.fields(key) if f.compare))
    raise TypeError(
        f"A key must be a number, str, bytes, None, enum member, frozen dataclass, or a tuple or frozenset of these, "
        f"got {type(key).__qualname__}."
    )
