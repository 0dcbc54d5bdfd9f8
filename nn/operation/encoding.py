"""Numbered things, such as words, as rows of zeros with a one or a count for each thing that is there."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any, ClassVar, Final, Literal, TypeAlias

import numpy as np

from nn.arrays import BATCH, LENGTH, Array, Shape
from nn.operation.index import read_ids
from nn.operation.operation import Operation, batch_leads

DENSE: Final = 8
"""Cells for each id up to which all cells are counted at once, in an array of their own; beyond, each id in its cell."""

Encoding: TypeAlias = Literal["one_hot", "multi_hot", "count"]


class Encode(Operation):
    """Ids (batch, n) of `count` things as rows: (batch, count), with 'one_hot' (batch, n, count). Ids have no gradient.

    Args:
        count: number of things; ids are from 0 to `count` - 1.
        mode: 'one_hot' gives a row with a one for each id; 'multi_hot' one row for all ids of a sample, 1 for those that occur;
            'count' how often they occur.
        describe: returns the name in front of an error; default: that of the operation.

    Raises ValueError for ids that are no whole numbers or out of range.
    """

    differentiable: ClassVar[bool] = False
    reads_inputs: ClassVar[bool] = False

    def __init__(self, count: int, mode: Encoding, describe: Callable[[], str] | None = None) -> None:
        self.count, self.mode, self._describe = count, mode, describe

    def infer(self, *shapes: Shape) -> Shape:
        (shape,) = shapes
        if len(shape) != 2 or (BATCH in shape[1:]) or (shape[1] == LENGTH and self.mode == "one_hot"):
            raise ValueError(f"{self._owner()}: expected ids of shape (batch, n), got {shape}")
        return (*shape, self.count) if self.mode == "one_hot" else (shape[0], self.count)

    def splits(self, shapes: Sequence[Shape]) -> bool:
        return batch_leads(shapes[0])

    def allocate(self, shapes: Sequence[Shape], output: Shape, dtype: np.dtype[Any]) -> None:
        (shape,) = shapes
        self._places = self.scratch.empty(shape, np.dtype(np.intp))
        self._work = (self.scratch.empty(shape, dtype), self.scratch.empty(shape, np.dtype(bool)))
        # Of each id with 'one_hot', else of each sample.
        rows = np.arange(np.prod(shape)).reshape(shape) if self.mode == "one_hot" else np.arange(shape[0])[:, None]
        self._first = rows * self.count

    def forward(self, inputs: Sequence[Array], out: Array) -> None:
        places = self._places
        read_ids(self._owner, inputs[0], self.count, places, self._work)
        np.add(places, self._first, out=places)
        cells = out.reshape(-1)
        if self.mode == "count" and cells.size <= DENSE * places.size:
            np.copyto(cells, np.bincount(places.reshape(-1), minlength=cells.size), casting="unsafe")
            return
        cells.fill(0)
        if self.mode == "count":
            # An assignment would count an id once that occurs several times.
            # Of the type of the cells: NumPy adds another one a hundred times as slowly.
            np.add.at(cells, places.reshape(-1), cells.dtype.type(1))
        else:
            cells[places.reshape(-1)] = 1

    def backward(self, inputs: Sequence[Array], output: Array, gradient: Array, wanted: Sequence[Array | None]) -> None:
        """Write zeros: nothing depends on ids but by jumps."""
        for each in wanted:
            if each is not None:
                each.fill(0)

    def _owner(self) -> str:
        return type(self).__name__ if self._describe is None else self._describe()
