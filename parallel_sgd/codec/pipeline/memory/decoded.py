"""What a packet amounts to, without the zeros between its entries."""

from __future__ import annotations

from typing import Any, NamedTuple

import numpy as np

from ..sparsify.sparsifier import Indices, Sparsifier
from ..stage import Chain, Stage, Vector


class Decoded(NamedTuple):
    """A vector: `values` at `indices` and 0 elsewhere, or all its `values` where `indices` is None."""

    values: Vector
    indices: Indices | None = None

    def apply(self, operation: np.ufunc, total: Vector) -> None:
        """Have `total` become `operation(total, vector)`, for np.add or np.subtract, which a 0 leaves as it is."""
        if self.indices is None:
            operation(total, self.values, out=total)
        else:
            operation.at(total, self.indices, self.values)


def decoded(stage: Stage, values: Vector, side: Any, n: int) -> Decoded:
    """Return what `stage.decode(values, side, n)` returns, sparse where the stage, or the first one of a chain, is."""
    if isinstance(stage, Sparsifier):
        indices, found = stage.entries(values, side)
        return Decoded(found, indices)
    if isinstance(stage, Chain) and stage.stages:
        first, *others = stage.stages
        (own, count), *sides = side
        if isinstance(first, Sparsifier):
            indices, found = first.entries(Chain(others).decode(values, sides, count), own)
            return Decoded(found, indices)
    return Decoded(stage.decode(values, side, n))
