"""Samples or labels of several parts as one array with a field for each, so that a data set stays four arrays."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import numpy as np

from nn.arguments import short
from nn.arrays import Array

__all__ = ["joined", "leaves", "of_leaves"]

_PARTS = ("train_x", "train_y", "test_x", "test_y")


def joined(owner: str, parts: Mapping[str, Any]) -> Array:
    """Return one array ``(n,)`` with a field for each part, in their order; `array[name]` shows a part.

    Args:
        owner: argument that held the parts, for messages.
        parts: arrays ``(n, ...)`` by name, such as the inputs of a model.

    Raises:
        ValueError: for no parts, names that are no texts without '/', and arrays of other lengths.
    """
    arrays = {name: np.asarray(part) for name, part in parts.items()}
    if not arrays:
        raise ValueError(f"{owner} must hold at least one array by name, got none")
    first = next(iter(arrays))
    for name, array in arrays.items():
        if not isinstance(name, str) or not name or "/" in name:
            raise ValueError(f"{owner} must have texts without '/' as names, got {short(name)}")
        if not array.ndim or len(array) != len(arrays[first]):
            raise ValueError(
                f"{owner} must hold as many rows for each name, got shape {arrays[first].shape} for '{first}' and "
                f"{array.shape} for '{name}'"
            )
    # without gaps between the fields, whose bytes would count in checksums
    whole = np.zeros(len(arrays[first]), [(name, array.dtype, array.shape[1:]) for name, array in arrays.items()])
    for name, array in arrays.items():
        whole[name] = array
    return whole


def leaves(arrays: Any) -> dict[str, Array]:
    """Return the arrays of a data set by name, those with fields in parts: ``train_x``, or ``train_x/title``.

    Args:
        arrays: train_x, train_y, test_x and test_y.
    """
    found: dict[str, Array] = {}
    for part, array in zip(_PARTS, arrays, strict=True):
        if array.dtype.names is None:
            found[part] = array
        else:
            found.update((f"{part}/{name}", np.ascontiguousarray(array[name])) for name in array.dtype.names)
    return found


def of_leaves(found: Mapping[str, Array]) -> tuple[Array, Array, Array, Array]:
    """Return train_x, train_y, test_x and test_y.

    Args:
        found: the arrays by name, as `leaves` gives them.

    Raises:
        ValueError: where a part is missing.
    """
    arrays = []
    for part in _PARTS:
        fields = {name.partition("/")[2]: array for name, array in found.items() if name.partition("/")[0] == part}
        if not fields:
            raise ValueError(f"a data set must have the array {part}, got {', '.join(found)[:80]}")
        arrays.append(fields[""] if "" in fields else joined(part, fields))
    return arrays[0], arrays[1], arrays[2], arrays[3]
