"""Sums that cannot overflow."""

from __future__ import annotations

from math import isfinite
from typing import Any

import numpy as np
from numpy.typing import NDArray


def total(values: NDArray[Any]) -> float:
    """Return the sum of finite float32 values: in float32, pairwise, or in float64 where that is too small."""
    with np.errstate(over="ignore"):
        result = float(np.add.reduce(values))
    return result if isfinite(result) else float(np.add.reduce(values, dtype=np.float64))
