"""Sequences of different lengths as one array."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from numbers import Real
from typing import Literal

import numpy as np
from numpy.typing import NDArray

from nn import arguments
from nn.arrays import Array, as_array

__all__ = ["pad_sequences"]


def pad_sequences(
    sequences: Sequence[Sequence[float]],
    maxlen: int | None = None,
    dtype: str = "int32",
    padding: Literal["pre", "post"] = "pre",
    truncating: Literal["pre", "post"] = "pre",
    value: float = 0.0,
) -> NDArray[np.generic]:
    """Return sequences of different lengths as one array ``(n, maxlen)``, or ``(n, maxlen, ...)`` of sequences of arrays.

    Args:
        sequences: such as lists of ids.
        maxlen: length of all; default: that of the longest one.
        dtype: type of the array.
        padding: whether shorter sequences get `value` in front, 'pre', or behind, 'post'. Masks of a model take either;
            `TextVectorization` pads behind.
        truncating: whether longer ones lose their begin, 'pre', or their end, 'post'.
        value: the number that is put there.

    Raises:
        TypeError: where `sequences` are not sequences.
        ValueError: for sequences of arrays of different shapes, and for other arguments.

    >>> nn.dataset.pad_sequences([[1, 2, 3], [4]], maxlen=2).tolist()
    [[2, 3], [0, 4]]
    """
    owner = "pad_sequences"
    arguments.one_of(owner, "padding", padding, ("pre", "post"))
    arguments.one_of(owner, "truncating", truncating, ("pre", "post"))
    try:
        kind = np.dtype(dtype)
    except TypeError as error:
        raise TypeError(f"{owner}() 'dtype' must be a type of NumPy, got {arguments.short(dtype)}") from error
    if not isinstance(sequences, Iterable) or getattr(sequences, "ndim", 1) == 0 or isinstance(sequences, memoryview):
        raise TypeError(f"{owner}() 'sequences' must be lists of numbers, got {arguments.short(sequences)}")
    arrays = []
    for place, each in enumerate(sequences):
        if not hasattr(each, "__len__") or isinstance(each, (str, bytes, np.void)):
            raise TypeError(f"{owner}() 'sequences' must be lists of numbers, got {arguments.short(each)} at {place}")
        array = as_array(f"{owner}() 'sequences' {place}", each)
        if len(array) and kind.kind in "biuf" and array.dtype.kind not in "biuf":
            raise TypeError(f"{owner}() 'sequences' must be lists of numbers, got {arguments.short(each)} at {place}")
        if array.size and kind.kind in "iu" and not _holds(kind, array):
            raise ValueError(
                f"{owner}() 'sequences' must hold numbers of {kind}, got {array.min()} to {array.max()} at {place}"
            )
        arrays.append(array)
    longest = max((len(each) for each in arrays), default=0)
    length = longest if maxlen is None else arguments.integer(owner, "maxlen", maxlen, minimum=1)
    # Empty sequences have no shape of their own.
    shapes = {each.shape[1:] for each in arrays if len(each)}
    if len(shapes) > 1:
        raise ValueError(
            f"{owner}() 'sequences' must hold entries of one shape, got {' and '.join(map(str, sorted(shapes)[:2]))}"
        )
    if kind.kind in "biuf" and not isinstance(value, Real):
        raise TypeError(f"{owner}() 'value' must be a number, got {arguments.short(value)}")
    made = np.full((len(arrays), length, *(shapes.pop() if shapes else ())), value, kind)
    for row, array in zip(made, arrays, strict=True):
        kept = array[max(len(array) - length, 0) :] if truncating == "pre" else array[:length]
        if len(kept):
            row[(length - len(kept) if padding == "pre" else 0) :][: len(kept)] = kept
    return made


def _holds(kind: np.dtype[np.generic], array: Array) -> bool:
    """Return whether a type of whole numbers has room for all numbers of an array; digits behind the point are cut off."""
    limits = np.iinfo(kind.name)
    # As whole numbers of Python: a limit as a float would be rounded up.
    return bool(np.isfinite(array).all()) and limits.min <= int(array.min()) and int(array.max()) <= limits.max
