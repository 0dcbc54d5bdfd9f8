"""Models of the rows of the contract table, and the comparison of what they give."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

import numpy as np

import nn
from nn.arrays import Array
from nn.model import Model
from nn.value import Buffer, Value
from tests.contract.nn_rows import ACTIVATIONS, LAYERS, OPERATIONS, GraphRow

# one row gives several rows for each sample, which no model does
ROWS = [row for row in [*LAYERS, *ACTIVATIONS, *OPERATIONS] if (row.kind, row.label) != (nn.operation.Reshape, "in place")]


def name_of(row: GraphRow) -> str:
    return f"{row.kind.__name__} {row.label}".strip()


def model_of(apply: Callable[[Value], Any], sample: Sequence[int]) -> Model:
    """Return a model that applies something to its input, with statistics and weights that are not those of the beginning."""

    class Applied(Model):
        def call(self, x: Value) -> Value:
            made: Value = apply(x)
            return made

    model = Applied([-1, *sample], seed=3)
    model._build_if_known()
    generator = np.random.default_rng(5)
    for variable in model.store.everything:
        moved = generator.uniform(0.05, 0.5, variable.shape)
        variable.set_value(moved + (0.1 if isinstance(variable, Buffer) else variable.value))
    return model


def samples(row: GraphRow) -> Array:
    return row.draw(np.random.default_rng(1), (5, *row.sample)).astype(np.float32)


def assert_equal(found: Array, expected: Array) -> None:
    """Both are equal to 1e-5, of the greatest number where that is above 1: the rounding of a sum goes by its terms."""
    assert found.shape == expected.shape
    np.testing.assert_allclose(found, expected, rtol=1e-5, atol=1e-5 * max(1.0, float(np.abs(expected).max())))
