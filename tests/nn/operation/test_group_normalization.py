"""Group normalisation of numbers near and far from 0, against its formulas in double precision."""

from __future__ import annotations

import numpy as np
import pytest

from nn.arrays import Array
from nn.operation.normalization import GroupNormalize
from nn.random import keyed

GROUPS, EPSILON = 3, 1e-3


def computed(x: Array, gamma: Array, beta: Array, gradient: Array) -> list[Array]:
    """Return the output and the gradients of x, gamma and beta."""
    operation, inputs = GroupNormalize(GROUPS, EPSILON), [x, gamma, beta]
    operation.allocate([each.shape for each in inputs], x.shape, x.dtype)
    output, *wanted = [np.full_like(each, np.nan) for each in (x, *inputs)]
    operation.forward(inputs, output)
    operation.backward(inputs, output, gradient, wanted)
    return [output, *wanted]


def exact(*given: Array) -> list[Array]:
    """Return the same by the formulas, from means and then squares of differences."""
    x, gamma, beta, gradient = (each.astype(np.float64) for each in given)
    shape = (len(x), -1, GROUPS, len(gamma) // GROUPS)
    apart, weighted = x.reshape(shape), (gradient * gamma).reshape(shape)
    centred = apart - apart.mean((1, 3), keepdims=True)
    scale = 1 / np.sqrt((centred**2).mean((1, 3), keepdims=True) + EPSILON)
    normal = centred * scale
    for_x = scale * (weighted - weighted.mean((1, 3), keepdims=True) - normal * (weighted * normal).mean((1, 3), keepdims=True))
    normal, axes = normal.reshape(x.shape), tuple(range(x.ndim - 1))
    return [normal * gamma + beta, for_x.reshape(x.shape), (gradient * normal).sum(axes), gradient.sum(axes)]


def drawn(samples: int, mean: float, deviation: float = 1) -> list[Array]:
    generator = keyed(0, "groups")
    shape = (samples, 8, 7, 12)
    x, gradient = generator.standard_normal((2, *shape))
    gamma, beta = generator.standard_normal((2, 12))
    return [each.astype(np.float32) for each in (x * deviation + mean, gamma, beta, gradient)]


@pytest.mark.parametrize("piece", [64, 1500, 1 << 16])
@pytest.mark.parametrize("mean", [0.0, -1.9, 2.1, 30.0, 1e4])
def test_numbers_of_any_mean_keep_their_digits(monkeypatch: pytest.MonkeyPatch, mean: float, piece: int) -> None:
    """With the sum of squares alone a mean of 30 costs two digits, and of 1e4 nothing is left."""
    monkeypatch.setattr("nn.operation.normalization.PIECE", piece)
    given = drawn(5, mean)
    for found, right in zip(computed(*given), exact(*given), strict=True):
        np.testing.assert_allclose(found, right, rtol=0, atol=3e-6 * np.abs(right).max())


def test_a_sample_far_from_0_changes_no_bit_of_another() -> None:
    x, gamma, beta, gradient = drawn(4, 0.0)
    before = computed(x, gamma, beta, gradient)
    x[2] += 1000
    after = computed(x, gamma, beta, gradient)
    others = [0, 1, 3]
    for number in (0, 1):
        assert np.array_equal(before[number][others], after[number][others])
        assert not np.array_equal(before[number][2], after[number][2])


def test_squares_beyond_the_largest_number_do_no_harm() -> None:
    given = drawn(3, 1e20, 1e15)
    for found, right in zip(computed(*given), exact(*given), strict=True):
        np.testing.assert_allclose(found, right, rtol=0, atol=3e-6 * np.abs(right).max())


@pytest.mark.parametrize("number", [0.0, 1e4, -3e6])
def test_equal_numbers_become_beta(number: float) -> None:
    x, gamma, beta, gradient = drawn(3, 0.0)
    x[1] = number
    output = computed(x, gamma, beta, gradient)[0]
    np.testing.assert_allclose(output[1], np.broadcast_to(beta, output[1].shape), atol=1e-3)
