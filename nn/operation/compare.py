"""Masks by comparison."""

from collections.abc import Mapping, Sequence
from types import MappingProxyType
from typing import ClassVar

import numpy as np

from nn import arguments
from nn.arrays import Array
from nn.operation.broadcasting import Broadcasting


class Compare(Broadcasting):
    """1 where a stands in the relation to b, else 0. A mask has no gradient: it is 0 almost everywhere.

    `relation` is one of >, >=, <, <=, == and !=.
    """

    in_place: ClassVar[bool] = False
    reads_inputs: ClassVar[bool] = False
    differentiable: ClassVar[bool] = False
    computes: ClassVar[bool] = False

    relations: ClassVar[Mapping[str, np.ufunc]] = MappingProxyType(
        {
            ">": np.greater, ">=": np.greater_equal, "<": np.less, "<=": np.less_equal, "==": np.equal, "!=": np.not_equal,
        }
    )  # fmt: skip

    def __init__(self, relation: str) -> None:
        arguments.one_of(self, "relation", relation, self.relations)
        self.relation = relation

    def forward(self, inputs: Sequence[Array], out: Array) -> None:
        """Write the mask."""
        self.relations[self.relation](inputs[0], inputs[1], out=out)

    def partial(self, side: int, inputs: Sequence[Array], output: Array, gradient: Array, out: Array) -> Array:
        """Return 0."""
        out.fill(0)
        return out
