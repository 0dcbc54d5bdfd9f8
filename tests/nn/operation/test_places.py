"""Places of the greatest elements: of equal ones, and of NaN."""

import numpy as np
import pytest

from nn.arrays import Array
from nn.operation import TopPlaces

X = np.array([[1, np.nan, 3, np.inf], [2, 2, np.nan, np.nan], [-0.0, 0.0, -np.inf, 0.0], [4, 3, 2, 1]])
GREATEST = np.array([[1, 3, 2, 0], [2, 3, 0, 1], [0, 1, 3, 2], [0, 1, 2, 3]])
"""NaN first, then infinity; of equal ones the first."""


@pytest.mark.parametrize("dtype", [np.float32, np.float64])
@pytest.mark.parametrize("count", [1, 2, 4])
@pytest.mark.parametrize("axis", [1, 2])
def test_not_a_number_is_the_greatest(count: int, axis: int, dtype: type) -> None:
    x: Array = np.stack([X, X[::-1]]).astype(dtype)
    expected = np.stack([GREATEST, GREATEST[::-1]])[..., :count]
    if axis == 1:
        x, expected = x.swapaxes(1, 2), expected.swapaxes(1, 2)
    operation = TopPlaces(count, axis)
    out = np.empty(operation.infer(x.shape), dtype)
    operation.allocate([x.shape], out.shape, np.dtype(dtype))
    operation.forward([x], out)
    assert np.array_equal(out, expected)
