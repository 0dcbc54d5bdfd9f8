"""Rotary positions: features of sequences turned by angles that grow with the position."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, ClassVar

import numpy as np

from nn import arguments
from nn.arrays import BATCH, LENGTH, Array, Shape
from nn.operation.operation import MaskOf, Operation, batch_leads


class Place:
    """Number of positions of sequences that have been computed, for operations that go on behind them."""

    def __init__(self) -> None:
        self.done = 0


class Rotary(Operation):
    """Features 2i and 2i + 1 of position t turned by the angle t / base^(2i / features), as the parts of a complex number.

    Products of queries and keys that were turned depend on the distance of their positions only (Su et al., "RoFormer: Enhanced
    Transformer with Rotary Position Embedding", 2021).

    Shapes: x (batch, positions, heads, features) with an even number of features, output as x. Positions count from 0.

    Args:
        base: the slowest pair of features is turned by about 1 / base from one position to the next, at least 1.
        place: number of positions in front of the first one; None: none.
        most: number of positions there may be at all, where `place` is given.

    Raises ValueError for inputs of another rank and an odd number of features.
    """

    mask_of: ClassVar[MaskOf] = "first"
    in_place: ClassVar[bool] = True
    reads_inputs: ClassVar[bool] = False

    def __init__(self, base: float = 10_000.0, place: Place | None = None, most: int = 0) -> None:
        self.base = arguments.number(self, "base", base, 1)
        self.place, self.most = place, most

    def infer(self, *shapes: Shape) -> Shape:
        (x,) = shapes
        if len(x) != 4 or x[3] in (BATCH, LENGTH) or x[3] % 2:
            raise ValueError(
                f"Rotary: expected inputs of shape (batch, positions, heads, features) with an even number of features, got {x}"
            )
        return x

    def splits(self, shapes: Sequence[Shape]) -> bool:
        return batch_leads(shapes[0])

    def allocate(self, shapes: Sequence[Shape], output: Shape, dtype: np.dtype[Any]) -> None:
        _, self._positions, _, features = output
        self._complex = np.dtype(np.complex64 if dtype == np.float32 else np.complex128)
        # In double precision: far positions have large angles, of which float32 would know few digits.
        waves = self.base ** (-np.arange(0, features, 2) / features)
        angles = np.arange(max(self._positions, self.most))[:, None] * waves
        self._turns = np.exp(1j * angles).astype(self._complex)[:, None]  # for all heads
        self._back = self._turns.conj()

    def forward(self, inputs: Sequence[Array], out: Array) -> None:
        self._turn(inputs[0], self._turns, out)

    def backward(self, inputs: Sequence[Array], output: Array, gradient: Array, wanted: Sequence[Array | None]) -> None:
        if wanted[0] is not None:
            # A turn is orthogonal: its transpose turns back.
            self._turn(gradient, self._back, wanted[0])

    def _turn(self, x: Array, turns: Array, out: Array) -> None:
        start = 0 if self.place is None else self.place.done
        turns = turns[start : start + self._positions]
        # Two neighbours in memory are a complex number.
        if out.strides[-1] == out.itemsize == x.strides[-1]:
            np.multiply(x.view(self._complex), turns, out=out.view(self._complex))
        else:
            # Of a strided array there is no view as complex numbers.
            np.copyto(out, np.multiply(np.ascontiguousarray(x).view(self._complex), turns).view(out.dtype))
