"""What the kernels of the BLAS that is in use promise."""

import functools

import numpy as np

from nn.arrays import Array
from nn.random import keyed


@functools.cache
def rows_have_their_bits() -> bool:
    """Return whether a row of a product has the same bits whatever the number of rows, as not with the kernels for Haswell."""
    draw = keyed(0, "rows")
    left, right = (draw.standard_normal(shape, dtype=np.float32) for shape in ((96, 16), (16, 16)))
    return all(np.array_equal((left @ right)[:rows], left[:rows] @ right) for rows in range(8, 96))


def check_products(got: Array, expected: Array) -> None:
    """Check that arrays computed by products of another number of rows are equal, to the bit where kernels promise that."""
    if rows_have_their_bits():
        np.testing.assert_array_equal(got, expected)
    else:
        # sums of large terms may be small: their error is one of the terms
        np.testing.assert_allclose(got, expected, rtol=1e-5, atol=1e-5 * max(1.0, float(np.abs(expected).max(initial=0))))
