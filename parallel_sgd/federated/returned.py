"""Checks of what parts of a user's own return, each of which names the class and the method."""

from __future__ import annotations

from typing import Any

import numpy as np
from numpy.typing import NDArray

from nn import arguments

__all__ = ["whole_numbers"]


def whole_numbers(what: str, given: Any) -> NDArray[np.int64]:
    """Return a list of whole numbers, such as places or rows, as an array of shape (numbers,).

    Args:
        what: class and method that have returned it, for the error.
        given: the list.

    Raises: TypeError for anything else: no number is rounded, and no mask is taken for places.
    """
    try:
        found = np.asarray(given)
    except ValueError:  # lists of several lengths
        found = np.empty((0, 0))
    if found.ndim != 1 or (found.size and found.dtype.kind not in "iu"):
        raise TypeError(f"{what} must return whole numbers in a list, got {arguments.short(given)}")
    return found.astype(np.int64)
