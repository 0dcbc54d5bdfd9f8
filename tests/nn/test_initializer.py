import math

import numpy as np
import pytest

from nn.initializer import Constant, GlorotUniform, HeUniform, Zeros, fans
from nn.random import keyed


@pytest.mark.parametrize(
    ("shape", "expected"),
    [((), (1, 1)), ((7,), (7, 7)), ((3, 5), (3, 5)), ((2, 3, 4, 5), (24, 30))],
)
def test_fans(shape: tuple[int, ...], expected: tuple[int, int]) -> None:
    assert fans(shape) == expected


@pytest.mark.parametrize(("initializer", "bound"), [(GlorotUniform(), math.sqrt(6 / 500)), (HeUniform(), math.sqrt(6 / 300))])
def test_uniform_bounds_and_variance(initializer: GlorotUniform | HeUniform, bound: float) -> None:
    values = initializer((300, 200), keyed(0, "test"))
    assert np.abs(values).max() <= bound
    assert values.var() == pytest.approx(bound**2 / 3, rel=0.02)


def test_constants() -> None:
    assert Zeros()((2, 3), keyed(0, "test")).tolist() == [[0, 0, 0], [0, 0, 0]]
    assert Constant(1.5)((2,), keyed(0, "test")).tolist() == [1.5, 1.5]


def test_a_constant_must_be_a_number() -> None:
    with pytest.raises(ValueError, match="Constant 'value' must be a number"):
        Constant(math.nan)
    with pytest.raises(TypeError, match="got 'x'"):
        Constant("x")  # type: ignore[arg-type]
