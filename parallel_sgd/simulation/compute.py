"""Models of the time that a block step takes on a simulated node."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Protocol


class Compute(Protocol):
    """Model of the seconds of a block step."""

    def seconds(self, node: int, epoch: int, batch: int, block: int) -> float:
        """Return the seconds that a block step takes on a node of speed 1."""


@dataclass(frozen=True)
class Constant:
    """The same seconds for each block step of each node.

    Args:
        value: the seconds.
    """

    value: float

    def seconds(self, node: int, epoch: int, batch: int, block: int) -> float:
        """Return the seconds."""
        return self.value


def compute_of(value: object, seed: int) -> Compute:
    """Return the model of a text or number."""
    return Constant(float(value))  # type: ignore[arg-type]
