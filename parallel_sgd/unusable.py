"""What another node has sent and cannot be used: found where it is taken in, and told with the node that sent it."""

from __future__ import annotations

import math
from typing import Any

import numpy as np
from numpy.typing import NDArray


class Unusable(ValueError):
    """What was sent has another shape than it must, or numbers that are not finite; whoever knows the sender adds its name."""


def check_finite(content: object) -> None:
    """See that all floating-point arrays in `content`, within tuples, lists and dicts too, hold finite numbers.

    Costs one pass that only reads, some one microsecond or a fraction of adding two such arrays.
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
    if array.dtype.char in "fd":
        if math.isfinite(np.vdot(array, array)):  # only where all are; `vdot` neither makes an array nor warns of an overflow
            return
    elif array.dtype.kind not in "fc":
        return
    wrong = array.size - int(np.count_nonzero(np.isfinite(array)))  # squares of finite numbers may overflow, too
    if wrong:
        raise Unusable(f"{wrong} of {array.size} numbers are not finite")
