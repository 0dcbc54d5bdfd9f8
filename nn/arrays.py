"""The array and shape types that every part of `nn` speaks."""

from typing import Any, TypeAlias

import numpy as np
from numpy.typing import NDArray

Array: TypeAlias = NDArray[Any]
Shape: TypeAlias = tuple[int, ...]

BATCH = -1
"""Stands in a shape for the axis whose length is known only when data arrives."""


def as_dtype(dtype: str | type[Any] | np.dtype[Any]) -> np.dtype[Any]:
    """Return the floating type a model computes in; raise ValueError for anything but float32 and float64."""
    found = np.dtype(dtype)
    if found not in (np.dtype(np.float32), np.dtype(np.float64)):
        raise ValueError(f"'dtype' must be float32 or float64, got {found}")
    return found
