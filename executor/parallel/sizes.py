"""How much memory a value takes, about, without looking at all of it."""

from __future__ import annotations

import sys
from collections.abc import Iterable
from itertools import islice
from typing import Any

import numpy as np

_LOOKED_AT = 32  # items of a container, which stand for the others
_LEVELS = 6


def size_of(value: Any, level: int = 0) -> int:
    """Bytes of `value` with what it holds; of a long container from its first items and those in the middle."""
    if isinstance(value, np.ndarray):
        return sys.getsizeof(value) if value.base is None else value.nbytes
    own = sys.getsizeof(value, 64)
    if level == _LEVELS or isinstance(value, (str, bytes, bytearray, int, float)):
        return own
    if isinstance(value, dict):
        return own + _sampled(value.keys(), len(value), level) + _sampled(value.values(), len(value), level)
    if isinstance(value, (list, tuple, set, frozenset)):
        return own + _sampled(value, len(value), level)
    fields = getattr(value, "__dict__", None)
    return own if fields is None else own + size_of(fields, level + 1)


def _sampled(items: Iterable[Any], count: int, level: int) -> int:
    chosen = list(islice(items, 0, count, max(1, count // _LOOKED_AT)))
    return sum(size_of(item, level + 1) for item in chosen) * count // max(1, len(chosen))
