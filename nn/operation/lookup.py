"""Rows of a table by their numbers."""

from collections.abc import Callable, Sequence
from typing import Any, ClassVar

import numpy as np

from nn.arrays import BATCH, Array, Shape
from nn.operation.operation import Operation, batch_leads


class Lookup(Operation):
    """table[ids]: ids (batch, ...) and table (rows, features) give (batch, ..., features). Ids have no gradient.

    Raises ValueError for ids that are no whole numbers or no rows of the table, and for a table with more rows than the type
    tells apart, 2**24 for float32; the text of `describe`, by default the name of the operation, stands in front.
    """

    reads_inputs: ClassVar[bool] = False

    def __init__(self, describe: Callable[[], str] | None = None) -> None:
        self._describe = describe

    def infer(self, *shapes: Shape) -> Shape:
        ids, table = shapes
        if len(table) != 2 or BATCH in table:
            raise ValueError(f"{self._owner()}: a table must have the shape (rows, features), got {table}")
        return (*ids, table[1])

    def splits(self, shapes: Sequence[Shape]) -> bool:
        return batch_leads(shapes[0])

    def allocate(self, shapes: Sequence[Shape], output: Shape, dtype: np.dtype[Any]) -> None:
        self._count, features = shapes[1]
        # up to here all whole numbers are numbers of the type
        limit = 1 << (np.finfo(dtype).nmant + 1)
        if self._count > limit:
            raise ValueError(f"{self._owner()}: {dtype} tells at most {limit} rows apart, the table has {self._count}")
        self._rows = np.zeros(shapes[0], np.intp)
        self._whole = self.scratch.empty(shapes[0], dtype)
        self._equal = self.scratch.empty(shapes[0], np.dtype(bool))
        self._columns = np.arange(features, dtype=np.intp)
        self._places = self.scratch.empty(output, np.dtype(np.intp))

    def forward(self, inputs: Sequence[Array], out: Array) -> None:
        ids, table = inputs
        whole, equal = self._whole, self._equal
        np.rint(ids, out=whole)
        # NaN fails this comparison as well
        if whole.size and not (whole.min() >= 0 and whole.max() < self._count):
            wrong = ids[~((whole >= 0) & (whole < self._count))]
            raise ValueError(f"{self._owner()}: ids must be from 0 to {self._count - 1}, got {wrong[0]:g}")
        np.equal(ids, whole, out=equal)
        if not equal.all():
            raise ValueError(f"{self._owner()}: ids must be whole numbers, got {ids[~equal][0]!s}")
        np.copyto(self._rows, whole, casting="unsafe")
        np.take(table, self._rows, axis=0, out=out, mode="clip")

    def backward(self, inputs: Sequence[Array], output: Array, gradient: Array, wanted: Sequence[Array | None]) -> None:
        for_ids, for_table = wanted
        if for_ids is not None:
            for_ids.fill(0)
        if for_table is not None:
            for_table.fill(0)
            np.multiply(self._rows[..., None], self._columns.size, out=self._places)
            np.add(self._places, self._columns, out=self._places)
            # one index per element: NumPy adds fast only along flat arrays
            np.add.at(for_table.reshape(-1), self._places.reshape(-1), gradient.reshape(-1))

    def _owner(self) -> str:
        return type(self).__name__ if self._describe is None else self._describe()
