"""Where the values of a plan, or their gradients, lie in memory."""

from __future__ import annotations

from typing import Any, Literal

import numpy as np

from nn.arrays import Array, Shape, empty

Kind = Literal["kept", "batch", "lane"]


class Place:
    """Memory of one value.

    `kept`: no batch axis, the same array for every slice of the batch. `batch`: one array for the whole batch. `lane`: one
    array for each thread, which holds the slice that the thread works on.
    """

    def __init__(self, kind: Kind, arrays: list[Array], stage: int = -1) -> None:
        self.kind, self.arrays, self.stage = kind, arrays, stage

    @staticmethod
    def lanes(count: int, shape: Shape, dtype: np.dtype[Any], stage: int) -> Place:
        """Return a new place for slices of this shape within one stage."""
        return Place("lane", [empty(shape, dtype) for _ in range(count)], stage)

    def at(self, lane: int, rows: slice | None) -> Array:
        """Return the array for one slice of the batch."""
        if self.kind == "lane" and rows is not None:
            return self.arrays[lane][: rows.stop - rows.start]
        return self.arrays[0][rows] if self.kind == "batch" and rows is not None else self.arrays[0]

    def shared(self, kind: Kind, stage: int, shape: Shape) -> Place | None:
        """Return a place of this kind and shape in the same memory; None where that is not possible.

        Of `shape` the first axis does not count for slices: they have that of the array.
        """
        if kind != self.kind or (kind == "lane" and stage != self.stage):
            return None
        if kind == "lane":
            rows = len(self.arrays[0])
            if self.arrays[0].size != rows * int(np.prod(shape[1:])):
                return None
            return Place(kind, [array.reshape(rows, *shape[1:]) for array in self.arrays], stage)
        if self.arrays[0].size != int(np.prod(shape)):
            return None
        return Place(kind, [self.arrays[0] if self.arrays[0].shape == shape else self.arrays[0].reshape(shape)], stage)
