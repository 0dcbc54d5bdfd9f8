"""What stages that send a part of the numbers have in common."""

from __future__ import annotations

from abc import abstractmethod
from math import ceil
from typing import Any, TypeAlias

import numpy as np
from numpy.typing import NDArray

from nn import arguments

from ..stage import Stage, Vector

Indices: TypeAlias = NDArray[np.intp]


class Sparsifier(Stage):
    """Sends the values at some indices; the others arrive as 0.

    `entries` gives both without the zeros between them, so that receivers add a packet to a sum, and senders deduct it from
    their residual, in the time that its entries take and not in that of the whole vector.
    """

    def __init__(self) -> None:
        self._decoded: Vector = np.empty(0, np.float32)

    @abstractmethod
    def entries(self, values: Vector, side: Any) -> tuple[Indices, Vector]:
        """Return the indices of a packet, ascending and each once, and the values at them."""

    def decode(self, values: Vector, side: Any, n: int) -> Vector:
        """Return n numbers: the values at their indices, 0 elsewhere."""
        if self._decoded.size != n:
            self._decoded = np.empty(n, np.float32)
        self._decoded.fill(0)
        indices, values = self.entries(values, side)
        self._decoded[indices] = values
        return self._decoded


def share(owner: object, name: str, value: float) -> float:
    """Return `value` as a float with 0 < value <= 1.

    Raises: TypeError, ValueError naming the owner's class, the argument and what came.
    """
    result = arguments.number(owner, name, value, 0, open_low=True)
    if result > 1:
        raise ValueError(f"{type(owner).__name__} '{name}' must be a number > 0 and <= 1, got {value}")
    return result


def kept(rho: float, n: int) -> int:
    """Return k = max(1, ceil(rho n)), or 0 where n is 0."""
    return min(n, max(1, ceil(rho * n)))
