"""Copies and sums of products of matrices by the BLAS behind NumPy."""

from types import SimpleNamespace

import numpy as np
import pytest

from nn import threads
from nn.arrays import Array
from nn.random import keyed
from nn.threads import adding_product_of_rows, multiplies_small, transpose


def rows_apart(rows: int, columns: int, more: int, dtype: type[np.generic]) -> Array:
    """Return a matrix of which rows lie as many numbers more apart than they have."""
    return np.arange(rows * (columns + more)).astype(dtype).reshape(rows, -1)[:, :columns]


@pytest.mark.parametrize("dtype", [np.float32, np.float64, np.int64])
@pytest.mark.parametrize("blas", [True, False])
@pytest.mark.parametrize(("rows", "columns"), [(1, 1), (1, 7), (5, 1), (2, 2), (33, 18), (4096, 32)])
def test_a_transposing_copy_takes_rows_that_lie_apart(
    monkeypatch: pytest.MonkeyPatch, dtype: type[np.generic], blas: bool, rows: int, columns: int
) -> None:
    if not blas:
        monkeypatch.setattr(threads, "_openblas", lambda: None)
    for more, beyond in ((0, 0), (3, 5)):
        a, whole = rows_apart(rows, columns, more, dtype), np.full((columns, rows + beyond), 7, dtype)
        transpose(a, whole[:, :rows])
        np.testing.assert_array_equal(whole[:, :rows], a.T)
        assert (whole[:, rows:] == 7).all()


def test_a_transposing_copy_takes_matrices_of_any_order_and_none_of_another_type() -> None:
    a = np.arange(12.0).reshape(3, 4)
    for source, out in (
        (a.T, np.empty((3, 4))),
        (a[:, ::2], np.empty((2, 3))),
        (a, np.empty((3, 4)).T),
        (a, np.empty((4, 3), np.float32)),
        (np.broadcast_to(a[:1], (3, 4)), np.empty((4, 3))),
    ):
        transpose(source, out)
        np.testing.assert_array_equal(out, source.T)


def test_small_products_are_fast_by_the_kernels_of_the_blas(monkeypatch: pytest.MonkeyPatch) -> None:
    for blas, expected in (
        (SimpleNamespace(kernels="SkylakeX"), True),
        (SimpleNamespace(kernels="Haswell"), False),
        (None, False),
    ):
        monkeypatch.setattr(threads, "_openblas", lambda blas=blas: blas)
        assert multiplies_small() is expected


@pytest.mark.parametrize("dtype", [np.float32, np.float64])
@pytest.mark.parametrize("blas", [True, False])
@pytest.mark.parametrize(("m", "n", "k"), [(1, 1, 1), (4, 1, 5), (1, 6, 3), (17, 9, 8)])
def test_products_of_rows_that_lie_apart_are_added(
    monkeypatch: pytest.MonkeyPatch, dtype: type[np.floating], blas: bool, m: int, n: int, k: int
) -> None:
    if not blas:
        monkeypatch.setattr(threads, "_openblas", lambda: None)
    draw = keyed(0, "rows")
    a, b, whole = (draw.standard_normal((rows, columns + 3)).astype(dtype) for rows, columns in ((m, k), (n, k), (m, n)))
    before = whole.copy()
    add = adding_product_of_rows(a[:, :k], b[:, 2 : k + 2], whole[:, 1 : n + 1])
    for times in (1, 2):
        add()
        expected = before[:, 1 : n + 1] + times * (a[:, :k] @ b[:, 2 : k + 2].T)
        np.testing.assert_allclose(whole[:, 1 : n + 1], expected, rtol=1e-5, atol=1e-5)
    np.testing.assert_array_equal(np.delete(whole, range(1, n + 1), axis=1), np.delete(before, range(1, n + 1), axis=1))
    # with the numbers that the factors have when it is called
    a.fill(0)
    held = whole.copy()
    add()
    np.testing.assert_array_equal(whole, held)
