"""Layer normalisation of numbers near and far from 0, against its formulas in double precision."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
import pytest

from nn.arrays import Array
from nn.operation.normalization import LayerNormalize
from nn.random import keyed
from nn.threads import sum_of_products

EPSILON, FEATURES = 1e-3, 24


def computed(x: Array, gamma: Array, beta: Array, gradient: Array, *, wanted: Sequence[bool] = (True,) * 3) -> list[Array]:
    """Return the output and the gradients of x, in the memory of `gradient`, gamma and beta."""
    operation, inputs = LayerNormalize(EPSILON), [x, gamma, beta]
    operation.allocate([each.shape for each in inputs], x.shape, x.dtype)
    output, for_gamma, for_beta = (np.full_like(each, np.nan) for each in inputs)
    operation.forward(inputs, output)
    given = gradient.copy()
    targets = [target if asked else None for target, asked in zip((given, for_gamma, for_beta), wanted, strict=True)]
    operation.backward(inputs, output, given, targets)
    return [output, given, for_gamma, for_beta]


def exact(*given: Array) -> list[Array]:
    """Return the same by the formulas, from means and then squares of differences."""
    x, gamma, beta, gradient = (each.astype(np.float64) for each in given)
    centred = x - x.mean(-1, keepdims=True)
    scale = 1 / np.sqrt((centred**2).mean(-1, keepdims=True) + EPSILON)
    normal, weighted = centred * scale, gradient * gamma
    for_x = scale * (weighted - weighted.mean(-1, keepdims=True) - normal * (weighted * normal).mean(-1, keepdims=True))
    axes = tuple(range(x.ndim - 1))
    return [normal * gamma + beta, for_x, (gradient * normal).sum(axes), gradient.sum(axes)]


def drawn(samples: int, mean: float, deviation: float = 1) -> list[Array]:
    generator = keyed(0, "positions")
    x, gradient = generator.standard_normal((2, samples, 7, FEATURES))
    gamma, beta = generator.standard_normal((2, FEATURES))
    return [each.astype(np.float32) for each in (x * deviation + mean, gamma, beta, gradient)]


@pytest.mark.parametrize("block", [1, 5 * FEATURES, 1 << 16])
@pytest.mark.parametrize("mean", [0.0, -1.9, 2.1, 30.0, 1e4])
def test_numbers_of_any_mean_keep_their_digits(monkeypatch: pytest.MonkeyPatch, mean: float, block: int) -> None:
    """With the sum of squares alone a mean of 30 costs two digits, and of 1e4 nothing is left."""
    monkeypatch.setattr("nn.operation.normalization.ROW_BLOCK", block)
    given = drawn(5, mean)
    for found, right in zip(computed(*given), exact(*given), strict=True):
        np.testing.assert_allclose(found, right, rtol=0, atol=3e-6 * np.abs(right).max())


def test_a_position_far_from_0_changes_no_bit_of_another() -> None:
    x, gamma, beta, gradient = drawn(4, 0.0)
    before = computed(x, gamma, beta, gradient)
    x[2, 3] += 1000
    after = computed(x, gamma, beta, gradient)
    for number in (0, 1):
        changed = (before[number] != after[number]).any(axis=-1)
        assert changed[2, 3] and changed.sum() == 1


def test_what_is_not_wanted_changes_nothing_else() -> None:
    given = drawn(3, 1.0)
    whole = computed(*given)
    for place in range(3):
        wanted = [number != place for number in range(3)]
        for number, (one, other) in enumerate(zip(whole, computed(*given, wanted=wanted), strict=True)):
            assert np.array_equal(one, other) == (number != place + 1)


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


def test_numpy_with_another_blas_gives_the_same_numbers(monkeypatch: pytest.MonkeyPatch) -> None:
    """Where the library has no product that adds to its target, NumPy multiplies and adds."""
    given = drawn(5, 2.0)
    usual = computed(*given)
    monkeypatch.setattr("nn.operation.normalization.adding_product", lambda a, b: None)
    for found, right in zip(computed(*given), usual, strict=True):
        np.testing.assert_allclose(found, right, rtol=0, atol=1e-6 * np.abs(right).max())


@pytest.mark.parametrize("dtype", [np.float32, np.float64])
@pytest.mark.parametrize("rows", [1, 2, 5])
def test_a_sum_of_products_takes_rows_that_lie_apart(dtype: type[np.floating], rows: int) -> None:
    add = sum_of_products(np.dtype(dtype))
    if add is None:
        pytest.skip("NumPy has another BLAS than that of its wheel")
    a, b = (keyed(1, name).standard_normal((rows, 7)).astype(dtype) for name in "ab")
    total = keyed(1, "out").standard_normal((3, 7)).astype(dtype)
    expected = total + a[:, 2:5].T @ b
    add(a[:, 2:5], b, total)
    np.testing.assert_allclose(total, expected, rtol=0, atol=1e-5)
