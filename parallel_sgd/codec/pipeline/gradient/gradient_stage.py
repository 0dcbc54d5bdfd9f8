"""What stages on the gradient's side have in common."""

from __future__ import annotations

from abc import abstractmethod
from typing import ClassVar

from ..payload import Reader, Writer
from ..stage import Draw, Stage, Vector


class GradientStage(Stage):
    """Makes another vector of the gradient, writes nothing, and leaves what arrives as it is.

    Its declarations speak of the vector that it makes, which arrives exactly. It stands first in a pipeline.
    """

    unbiased = True
    linear = True
    leads: ClassVar[bool] = True

    def side_bytes(self, n: int) -> int:
        """Nothing."""
        return 0

    def carried(self, n: int) -> int:
        """All of them."""
        return n

    def encode(self, x: Vector, writer: Writer, draw: Draw) -> Vector:
        """Return what becomes of `x`."""
        return self.transform(x)

    @abstractmethod
    def transform(self, x: Vector) -> Vector:
        """Return what becomes of `x`, which stays as it is; valid until the next call."""

    def parse(self, reader: Reader, n: int, draw: Draw) -> tuple[None, int]:
        """Read nothing."""
        return None, n

    def decode(self, values: Vector, side: None, n: int) -> Vector:
        """Return the values."""
        return values
