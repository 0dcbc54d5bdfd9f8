"""What another node has sent and cannot be used: found where it is taken in, and told with the node that sent it."""

from __future__ import annotations

import math
from typing import Any, Final

import numpy as np
from numpy.typing import NDArray

_FEW: Final = 8192  # numbers of which the plain way is as fast


class Unusable(ValueError):
    """What was sent has another shape than it must, or numbers that are not finite; whoever knows the sender adds its name."""


def check_finite(content: object) -> None:
    """See that all floating-point arrays in `content`, within tuples, lists and dicts too, hold finite numbers.

    Costs one pass that only reads, some two microseconds or a fraction of adding two such arrays.
    Raises: Unusable saying how many are not.
    """
    if isinstance(content, np.ndarray):
        _check(content)
    elif isinstance(content, (tuple, list, dict)):
        for part in content.values() if isinstance(content, dict) else content:
            if isinstance(part, np.ndarray):
                _check(part)
            elif isinstance(part, (tuple, list, dict)):
                check_finite(part)


def _check(array: NDArray[Any]) -> None:
    if array.dtype.kind in "fc" and not _is_finite(array):
        wrong = int(array.size - np.isfinite(array).sum())
        raise Unusable(f"{wrong} of {array.size} numbers are not finite")


def _is_finite(array: NDArray[Any]) -> bool:
    if array.size > _FEW and array.dtype.char in "fd" and array.flags.c_contiguous:
        flat = array.reshape(-1)
        with np.errstate(over="ignore", invalid="ignore"):
            squares = np.dot(flat, flat)
        if math.isfinite(squares):  # only where all are; a sum that overflows tells nothing
            return True
    return int(np.count_nonzero(np.isfinite(array))) == array.size
