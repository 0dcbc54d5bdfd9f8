"""What a row of the contract table is for everything that a graph computes."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

from nn import initializer
from nn.arrays import Array, Shape
from nn.testing import Draw, normal
from nn.value import Value, Variable


def positive(generator: np.random.Generator, shape: Shape) -> Array:
    return generator.uniform(0.5, 2, shape)


@dataclass
class GraphRow:
    """Something applied to an input: what it is, how it is built, the shape of a sample, and its value by plain NumPy.

    `value(x, *variables)`, with the variables in the order of their ids; None where random numbers decide. `ahead` is what the
    input goes through first, where not any numbers will do, or the list of values that a layer of several inputs takes.
    `behind` combines the input with a result that has no row for each sample.
    """

    kind: type[Any]
    build: Callable[[], Callable[[Any], Value]]
    sample: Sequence[int]
    value: Callable[..., Array] | None
    draw: Draw = normal
    label: str = ""
    ahead: Callable[[Value], Value | list[Value]] | None = None
    behind: Callable[[Value, Value], Value] | None = None

    def applied(self) -> Callable[[Value], Value]:
        """A new one, applied to an input that any numbers may be."""
        made, ahead, behind = self.build(), self.ahead, self.behind
        if behind is not None:
            return lambda x: behind(x, made(x))
        return made if ahead is None else lambda x: made(ahead(x))


def with_variable(combine: Callable[[Value, Variable], Value], shape: Sequence[int]) -> Callable[[], Callable[[Value], Value]]:
    """Build from an input and one variable whose values are positive."""

    def build() -> Callable[[Value], Value]:
        variable = Variable(shape, Positive())
        return lambda x: combine(x, variable)

    return build


class Positive(initializer.Initializer):
    def __call__(self, shape: Shape, generator: np.random.Generator) -> Array:
        return positive(generator, shape)


def softmax(x: Array) -> Array:
    return np.exp(x) / np.exp(x).sum(axis=-1, keepdims=True)
