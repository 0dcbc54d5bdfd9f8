"""Many texts as few arrays: their characters in a row, how many each has, and what is missing."""

from __future__ import annotations

import itertools
import math
from typing import Any

import numpy as np
from numpy.typing import NDArray

from .row import parts

_AT_ONCE = 1 << 14
_TEXT = 75  # bytes of a short text, its place in an array and in the copy of pandas, and the place where it ends
_NONE, _NAN = (1 << 32) - 1, (1 << 32) - 2  # in place of a length: what pandas puts where a text is missing
_KINDS = frozenset({str, type(None), float})


def are_texts(items: list[Any]) -> bool:
    """Whether all are texts, None or NaN."""
    kinds = set(map(type, items))
    return kinds <= _KINDS and (float not in kinds or all(item != item for item in items if type(item) is float))


def pack_texts(items: list[Any]) -> tuple[Any, ...]:
    """Such items as (characters in UTF-8, how many each has)."""
    sizes = np.fromiter((len(i) if type(i) is str else _NONE if i is None else _NAN for i in items), np.uint32, len(items))
    whole = not items or sizes.max() < _NAN
    text = "".join(items if whole else [item for item in items if type(item) is str])
    return np.frombuffer(text.encode("utf-8", "surrogatepass"), np.uint8), sizes


def texts_weight(data: Any) -> int:
    """Bytes of the texts, and of the one in which they arrive."""
    characters, sizes = data
    width = 1 if not characters.size or characters.max() < 0x80 else 4
    return int(_TEXT * sizes.size + 2 * width * characters.size)


def unpack_texts(data: Any) -> NDArray[Any]:
    """The same items again, in an array of objects.

    Raises: ValueError for what `pack_texts` does not give.
    """
    characters, sizes = parts(data, np.ndarray, np.ndarray)
    if characters.dtype != np.uint8 or sizes.dtype != np.uint32 or characters.ndim != 1 or sizes.ndim != 1:
        raise ValueError("texts come as arrays of another type")
    text = characters.tobytes().decode("utf-8", "surrogatepass")
    ends = np.cumsum(np.where(sizes >= _NAN, 0, sizes), dtype=np.int64)
    if (int(ends[-1]) if ends.size else 0) != len(text):
        raise ValueError("texts have not the lengths that they claim")
    made = np.empty(sizes.size, object)
    end = 0
    for first in range(0, sizes.size, _AT_ONCE):
        some = [end, *ends[first : first + _AT_ONCE].tolist()]
        end = some[-1]
        made[first : first + _AT_ONCE] = [text[a:b] for a, b in itertools.pairwise(some)]
    made[sizes == _NONE] = None
    made[sizes == _NAN] = math.nan
    return made
