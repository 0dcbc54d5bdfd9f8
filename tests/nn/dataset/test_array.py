"""One's own arrays: what is accepted, and how what is not accepted is named."""

import numpy as np
import pytest

from nn.dataset import ArrayDataset

X, Y = np.zeros((6, 3)), np.zeros(6, int)


def test_arrays_come_back_unchanged_and_read_only():
    data = ArrayDataset(X, Y, [[1, 2, 3]], [1])
    arrays = data.load()
    assert arrays[0].dtype == X.dtype
    assert np.shares_memory(arrays[0], X)
    assert X.flags.writeable
    assert arrays[2].tolist() == [[1, 2, 3]]
    for array in arrays:
        with pytest.raises(ValueError, match="read-only"):
            array[...] = 0


@pytest.mark.parametrize("dtype", ["?", "u1", "i8", "f2", "f4", "f8"])
def test_every_usual_number(dtype):
    assert ArrayDataset(X.astype(dtype), Y, X.astype(dtype), Y).load()[0].dtype == dtype


@pytest.mark.parametrize(
    ("arrays", "error", "text"),
    [
        ((X, Y[:5], X, Y), ValueError, "'y' must have the length of 'x', 6, got 5"),
        ((X, Y, X, Y[:5]), ValueError, "'test_y' must have the length of 'test_x', 6, got 5"),
        ((X, Y, X[:, :2], Y), ValueError, r"'test_x' must have the sample shape of 'x', \(3,\), got \(2,\)"),
        ((X, Y, X, X), ValueError, r"'test_y' must have the label shape of 'y', \(\), got \(3,\)"),
        ((X[:0], Y[:0], X, Y), ValueError, r"'x' must hold at least one sample, got shape \(0, 3\)"),
        ((X, Y, X[:0], Y[:0]), ValueError, "'test_x' must hold at least one sample"),
        ((X, 3, X, Y), ValueError, r"'y' must hold at least one sample, got shape \(\)"),
        ((X, None, X, Y), TypeError, "'y' must hold booleans, integers or floats of at most 64 bits, got dtype object"),
        ((X, ["a"] * 6, X, Y), TypeError, "'y' must hold .* got dtype <U1"),
        ((X.astype(complex), Y, X, Y), TypeError, "'x' must hold .* got dtype complex128"),
        ((X.astype(np.longdouble), Y, X, Y), TypeError, "'x' must hold .* got dtype"),
        (([[1], [1, 2]], Y, X, Y), ValueError, "'x' must be a rectangular array"),
    ],
)
def test_what_does_not_fit_is_named(arrays, error, text):
    with pytest.raises(error, match=f"ArrayDataset {text}"):
        ArrayDataset(*arrays)
