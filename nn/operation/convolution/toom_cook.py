"""The matrices of Winograd's fast convolution along one axis."""

from typing import Any, NamedTuple

import numpy as np

from nn.arrays import Array

POINTS = (0.0, 2 / 3, -2 / 3, 3 / 2, -3 / 2)
"""Where the polynomials are evaluated, beside infinity. Distances near 1 and pairs p, 1 / p keep rounding small: with float32
the mean error of F(4x4, 3x3) is half of that of the usual points 0, 1, -1, 2, -2, the largest error a quarter."""


class Matrices(NamedTuple):
    """Turn m + r - 1 inputs and r taps into m outputs of a correlation: y = gather @ ((taps @ w) * (inputs @ x))."""

    inputs: Array
    taps: Array
    gather: Array


def matrices(outputs: int, taps: int, dtype: np.dtype[Any]) -> Matrices:
    """Return the matrices of F(outputs, taps), the algorithm of Toom and Cook transposed.

    With points p_0 ... p_(n-2), n = outputs + taps - 1, and M_i(x) = prod_(l != i) (x - p_l): row i of `inputs` holds the
    coefficients of M_i, row i of `taps` the powers of p_i over M_i(p_i), column i of `gather` the powers of p_i; what is last
    in each belongs to infinity.

    Winograd, Arithmetic complexity of computations, SIAM 1980; Lavin and Gray, Fast algorithms for convolutional neural
    networks, CVPR 2016; on the choice of points Barabasz et al., Error analysis and improving the accuracy of Winograd
    convolution for deep neural networks, ACM TOMS 2020.
    """
    size = outputs + taps - 1
    points = np.array(POINTS[: size - 1])
    of_inputs, of_taps, of_gather = np.zeros((size, size)), np.zeros((size, taps)), np.zeros((outputs, size))
    for i, point in enumerate(points):
        others = np.delete(points, i)
        of_inputs[i, :-1] = np.poly(others)[::-1]
        of_taps[i] = point ** np.arange(taps) / np.prod(point - others)
        of_gather[:, i] = point ** np.arange(outputs)
    of_inputs[-1] = np.poly(points)[::-1]
    of_taps[-1, -1] = of_gather[-1, -1] = 1
    return Matrices(of_inputs.astype(dtype), of_taps.astype(dtype), of_gather.astype(dtype))
