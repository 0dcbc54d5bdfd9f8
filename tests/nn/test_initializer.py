import math

import numpy as np
import pytest

from nn.initializer import Constant, GlorotUniform, HeUniform, Orthogonal, Uniform, Zeros, fans
from nn.random import keyed


@pytest.mark.parametrize(("shape", "expected"), [((), (1, 1)), ((7,), (7, 7)), ((3, 5), (3, 5)), ((2, 3, 4, 5), (24, 30))])
def test_fans(shape: tuple[int, ...], expected: tuple[int, int]) -> None:
    assert fans(shape) == expected


@pytest.mark.parametrize(("initializer", "bound"), [(GlorotUniform(), math.sqrt(6 / 500)), (HeUniform(), math.sqrt(6 / 300))])
def test_uniform_bounds_and_variance(initializer: GlorotUniform | HeUniform, bound: float) -> None:
    values = initializer((300, 200), keyed(0, "test"))
    assert np.abs(values).max() <= bound
    assert values.var() == pytest.approx(bound**2 / 3, rel=0.02)


def test_constants_and_uniform_numbers() -> None:
    drawn = Uniform(2, 3)((1000,), keyed(0, "uniform"))
    assert 2 <= drawn.min() < 2.01 < 2.99 < drawn.max() < 3
    assert repr(Uniform()) == "Uniform(low=-0.05, high=0.05)"
    assert Zeros()((2, 3), keyed(0, "test")).tolist() == [[0, 0, 0], [0, 0, 0]]
    assert Constant(1.5)((2,), keyed(0, "test")).tolist() == [1.5, 1.5]


@pytest.mark.parametrize("shape", [(6, 6), (9, 4), (4, 16), (2, 3, 5)])
def test_orthogonal(shape: tuple[int, ...]) -> None:
    values = Orthogonal(2.0)(shape, keyed(0, "test"))
    assert values.shape == shape
    matrix = values.reshape(-1, shape[-1])
    product = matrix @ matrix.T if len(matrix) <= shape[-1] else matrix.T @ matrix
    np.testing.assert_allclose(product, 4 * np.eye(len(product)), atol=1e-12)


def test_orthogonal_matrices_are_drawn_evenly() -> None:
    """Without the choice of signs the diagonal would be mostly negative."""
    generator = keyed(0, "test")
    traces = [np.trace(Orthogonal()((3, 3), generator)) for _ in range(300)]
    assert np.mean(traces) == pytest.approx(0, abs=0.2)
