"""Sums over millions of positions in float32, beside float64."""

from __future__ import annotations

import numpy as np
import pytest

import nn
from nn.arrays import Array
from nn.layer import Conv2D, Dense, GlobalAveragePool, Layer

SHAPES = [(2048, 2048, 3), (512, 512, 64)]


def relative(found: Array, true: Array) -> float:
    return float(np.max(np.abs(found - true)) / np.max(np.abs(true)))


@pytest.mark.parametrize("shape", SHAPES, ids=str)
def test_mean_over_millions_of_positions(shape: tuple[int, ...]) -> None:
    x = np.random.default_rng(0).random((1, *shape), np.float32)
    model = nn.model.SequentialModel([-1, *shape], [GlobalAveragePool()])
    model.setup("mse")
    assert relative(model.predict(x), x.mean(axis=(1, 2), dtype=np.float64)) < 1e-6


@pytest.mark.parametrize("size", [1, 3])
def test_bias_gradient_of_millions_of_positions(size: int) -> None:
    """Gradients of both signs, which nearly cancel, so that what is lost on the way shows in the sum."""
    rng = np.random.default_rng(0)
    x = rng.standard_normal((2, 1024, 1024, 1), np.float32)
    y = rng.standard_normal((2, 1024, 1024, 2), np.float32)
    layers: list[Layer] = [Conv2D(2, size, padding="same")] if size > 1 else [Dense(2)]
    model = nn.model.SequentialModel([-1, 1024, 1024, 1], layers)
    model.setup("mse")
    _, prediction = model.compute_gradients(x, y)
    wanted = 2 * (prediction.astype(np.float64) - y).mean(axis=(0, 1, 2)) / 2
    assert relative(model.store.gradients[-2:], wanted) < 5e-6


def test_rows_that_do_not_divide_into_parts_are_all_counted() -> None:
    class Total(nn.model.Model):
        def call(self, x: nn.Value) -> nn.Value:
            return x.sum(axis=1)

    for rows in (32_768, 32_769, 4096 * 9, 4096 * 9 + 1, 4096 * 10 - 1):
        model = Total([-1, rows, 3])
        model.setup("mse")
        assert (model.predict(np.ones((2, rows, 3), np.float32)) == rows).all()
