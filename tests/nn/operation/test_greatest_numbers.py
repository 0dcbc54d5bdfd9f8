"""The greatest numbers of long arrays, which are looked for in rows of several places."""

from __future__ import annotations

import numpy as np
import pytest

from nn import operation
from nn.operation.reduction import LINE


@pytest.mark.parametrize("kind", [operation.Max, operation.Min])
@pytest.mark.parametrize(
    ("shape", "axes"),
    [
        ((3, 16, 16, 64), (1, 2)), ((2, 300, 64), (1,)), ((5, 257, 8), (1,)), ((33, LINE), (0,)), ((2, 3, 4, 700), (2,)),
        ((40, 64, 64), (1,)),
    ],
)  # fmt: skip
def test_equal_ones_share_the_gradient(kind, shape, axes):
    draw = np.random.default_rng(3)
    x = draw.standard_normal(shape).astype(np.float32)
    # All equal, as behind a rectifier: more than a byte counts.
    x[..., 1] = 0
    least = kind is operation.Min
    # Two of the greatest in the last entry.
    x[..., 2][tuple(0 if axis in axes else -1 for axis in range(len(shape) - 1))] = -9 if least else 9
    x[..., 2][tuple(-1 for _ in range(len(shape) - 1))] = -9 if least else 9
    part = kind(axes)
    out, target = np.empty(part.infer(shape), np.float32), np.full(shape, np.nan, np.float32)
    part.allocate([shape], out.shape, x.dtype)
    part.forward([x], out)
    best = (np.min if least else np.max)(x, axis=axes, keepdims=True)
    np.testing.assert_array_equal(out, best.reshape(out.shape))
    gradient = draw.standard_normal(out.shape).astype(np.float32)
    part.backward([x], out, gradient, [target])
    equal = x == best
    shares = gradient.reshape(best.shape) / equal.sum(axis=axes, keepdims=True).astype(np.float32)
    np.testing.assert_array_equal(target, np.where(equal, shares, 0))
    assert equal.sum(axis=axes).max() > 1


def test_halves_of_a_batch_have_the_bits_of_the_whole():
    draw = np.random.default_rng(4)
    x, gradient = (draw.standard_normal(shape).astype(np.float32) for shape in ((24, 8, 8, 64), (24, 64)))
    results = []
    for parts in ([slice(None)], [slice(0, 11), slice(11, 24)]):
        out, target = np.empty((24, 64), np.float32), np.empty_like(x)
        for rows in parts:
            part = operation.Max((1, 2))
            part.allocate([x[rows].shape], out[rows].shape, x.dtype)
            part.forward([x[rows]], out[rows])
            part.backward([x[rows]], out[rows], gradient[rows], [target[rows]])
        results.append(out.tobytes() + target.tobytes())
    assert results[0] == results[1]
