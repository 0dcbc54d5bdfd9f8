"""Lists of numbers as arrays: a million of them travel in 8 MB, without an object for each on the way."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, TypeAlias

import numpy as np
from numpy.typing import NDArray

Column: TypeAlias = "list[Any] | NDArray[np.int64] | NDArray[np.float64]"


def column(items: list[Any]) -> Column:
    """An array for integers of 64 bits or for floats, if there is nothing else in the list; else the list itself."""
    kinds = set(map(type, items))
    try:
        if kinds == {int}:
            return np.array(items, np.int64)
        if kinds == {float}:
            return np.array(items, np.float64)
    except OverflowError:  # an integer of more than 64 bits
        return items
    return items


def listed(items: Column) -> list[Any]:
    """The list of which `column` has made `items`."""
    return items.tolist() if isinstance(items, np.ndarray) else items


def at(items: Column, places: Sequence[int]) -> list[Any]:
    """Some of the items, as they were in the list."""
    return items[np.array(places, np.intp)].tolist() if isinstance(items, np.ndarray) else [items[place] for place in places]
