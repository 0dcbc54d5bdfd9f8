"""Rectifiers with trained slopes, on more samples than one block holds."""

from __future__ import annotations

import numpy as np
import pytest

from nn.operation.slopes import BLOCK, ParametricRectify


@pytest.mark.parametrize("slopes", [(1, 1, 64), (16, 1, 64), (16, 16, 64), (1, 1, 1)])
def test_value_and_gradients(slopes):
    draw = np.random.default_rng(5)
    x, gradient = draw.standard_normal((2, 7, 16, 16, 64))
    assert x.size > BLOCK, "the samples have to be several blocks"
    x[0, 0, 0, :3] = 0
    alpha = draw.standard_normal(slopes)
    operation = ParametricRectify()
    operation.allocate([x.shape, slopes], x.shape, x.dtype)
    out, for_alpha = np.empty_like(x), np.empty(slopes)
    operation.forward([x, alpha], out)
    np.testing.assert_array_equal(out, np.where(x > 0, x, alpha * x))
    # In the memory of the gradient, as a plan gives it.
    target = gradient.copy()
    operation.backward([x, alpha], out, target, [target, for_alpha])
    np.testing.assert_array_equal(target, np.select([x > 0, x < 0], [gradient, alpha * gradient], 0))
    shared = tuple(axis + 1 for axis, length in enumerate(slopes) if length == 1)
    wanted = (gradient * np.minimum(x, 0)).sum(axis=(0, *shared), keepdims=True)[0]
    np.testing.assert_allclose(for_alpha, wanted, rtol=1e-10, atol=1e-10)


def test_refuses_slopes_that_do_not_fit():
    with pytest.raises(ValueError, match=r"slopes of shape \(3, 4\) do not fit samples of shape \(3, 5\)"):
        ParametricRectify().infer((-1, 3, 5), (3, 4))
