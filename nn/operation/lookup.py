"""Rows of a table by their numbers."""

from collections.abc import Callable, Sequence
from typing import Any, ClassVar

import numpy as np

from nn.arrays import Array, Shape
from nn.operation.batch_axis import batch_leads
from nn.operation.operation import Operation

TOLERANCE = 0.25
"""How far from a whole number an id may lie; data that are no ids, such as scaled pixels, are noticed."""


class Lookup(Operation):
    """table[ids]: ids (batch, ...) and table (rows, features) give (batch, ..., features). Ids have no gradient.

    An id stands for the whole number next to it. Raises ValueError for ids that are no row of the table or not near a whole
    number, with the text of `describe` in front.
    """

    reads_inputs: ClassVar[bool] = False

    def __init__(self, describe: Callable[[], str]) -> None:
        self._describe = describe

    def infer(self, *shapes: Shape) -> Shape:
        """Return the shape of the ids and the features."""
        ids, table = shapes
        return (*ids, table[-1])

    def splits(self, shapes: Sequence[Shape]) -> bool:
        """Whether the ids have the batch first."""
        return batch_leads(shapes[0])

    def allocate(self, shapes: Sequence[Shape], output: Shape, dtype: np.dtype[Any]) -> None:
        """Make room for the row numbers and, in backward, the place of every element of the output in the table."""
        self._count, features = shapes[1]
        self._rows = np.zeros(shapes[0], np.intp)
        self._near = self.scratch.empty(shapes[0], dtype)
        self._columns = np.arange(features, dtype=np.intp)
        self._places = self.scratch.empty(output, np.dtype(np.intp))

    def forward(self, inputs: Sequence[Array], out: Array) -> None:
        """Copy the rows."""
        ids, table = inputs
        np.rint(ids, out=self._near)
        # NaN fails this comparison as well
        if self._near.size and not (self._near.min() >= 0 and self._near.max() < self._count):
            first = next(index for index, near in np.ndenumerate(self._near) if not 0 <= near < self._count)
            self._refuse(ids, first, f"ids must be from 0 to {self._count - 1}")
        np.copyto(self._rows, self._near, casting="unsafe")
        np.subtract(ids, self._near, out=self._near)
        np.absolute(self._near, out=self._near)
        if self._near.size and self._near.max() > TOLERANCE:
            self._refuse(ids, np.unravel_index(self._near.argmax(), self._near.shape), "ids must be whole numbers")
        np.take(table, self._rows, axis=0, out=out, mode="clip")

    def backward(self, inputs: Sequence[Array], output: Array, gradient: Array, wanted: Sequence[Array | None]) -> None:
        """Add every row of the gradient to its row of the table, in the order of the ids."""
        for_ids, for_table = wanted
        if for_ids is not None:
            for_ids.fill(0)
        if for_table is not None:
            for_table.fill(0)
            np.multiply(self._rows[..., None], self._columns.size, out=self._places)
            np.add(self._places, self._columns, out=self._places)
            # one index per element: NumPy adds fast only along flat arrays
            np.add.at(for_table.reshape(-1), self._places.reshape(-1), gradient.reshape(-1))

    def _refuse(self, ids: Array, index: tuple[Any, ...], expected: str) -> None:
        place = tuple(int(axis) for axis in index)
        raise ValueError(f"{self._describe()}: {expected}, got {ids[place]:g} at {place}")
