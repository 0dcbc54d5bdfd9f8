"""Images that are zoomed and shifted without a turn: products of matrices, beside gathering pixel by pixel."""

from __future__ import annotations

import numpy as np
import pytest

from nn.operation import augmentation
from nn.operation.operation import Mode

MOVES = augmentation.Moves(height=(0.5, 1.9), width=(0.6, 1.6), down=(-0.7, 0.7), right=(-0.9, 0.9))


@pytest.mark.parametrize("fill_mode", ["reflect", "wrap", "constant", "nearest"])
@pytest.mark.parametrize("interpolation", ["bilinear", "nearest"])
@pytest.mark.parametrize("shape", [(5, 9, 7, 3), (40, 32, 32, 1), (3, 1, 2, 2), (3, 4, 1, 1)])
def test_products_and_gathering_agree(monkeypatch, shape, interpolation, fill_mode):
    draw = np.random.default_rng(6)
    x, gradient = draw.standard_normal((2, *shape))
    results = []
    for most in (augmentation.MOST_MIXED, 0):
        monkeypatch.setattr(augmentation, "MOST_MIXED", most)
        operation = augmentation.Affine(MOVES, interpolation, fill_mode, 2.5)
        operation.allocate([shape], shape, x.dtype)
        assert operation._apart == bool(most)
        operation.begin(Mode(training=True, key=(1, 2, 3, 4)), 0)
        out, target = np.empty_like(x), np.empty_like(x)
        operation.forward([x], out)
        operation.backward([x], out, gradient, [target])
        results.append((out, target))
    (mixed, mixed_back), (gathered, gathered_back) = results
    np.testing.assert_allclose(mixed, gathered, rtol=0, atol=1e-12)
    np.testing.assert_allclose(mixed_back, gathered_back, rtol=0, atol=1e-11)
    assert not np.array_equal(mixed, x)


@pytest.mark.parametrize("shape", [(64, 1, 80, 3), (64, 100, 1, 1), (64, 4, 4, 64)])
def test_thin_images_and_many_channels_take_no_matrices(shape):
    """Of one row of 240 numbers a product is seven times the work, and its matrix 240 times the memory."""
    operation = augmentation.Affine(MOVES, "bilinear", "reflect", 0.0)
    operation.allocate([shape], shape, np.dtype(np.float32))
    held = sum(each.nbytes for each in vars(operation).values() if isinstance(each, np.ndarray))
    assert held <= 8 * 4 * np.prod(shape), "eight numbers for each of the images"
