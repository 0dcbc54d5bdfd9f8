import math
from fractions import Fraction

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from nn.arrays import Array
from nn.metric.regression import UNIT_BITS, ExactSum
from nn.random import keyed

FINITE = st.floats(allow_nan=False, allow_infinity=False)


def column(values: list[float]) -> Array:
    return np.array(values, np.float64).reshape(-1, 1)


def exact(total: ExactSum) -> list[Fraction]:
    return [Fraction(units, 1 << UNIT_BITS) for units in total.units]


@settings(max_examples=200, deadline=None, database=None)
@given(st.lists(FINITE), st.lists(FINITE))
def test_nothing_is_rounded(first: list[float], second: list[float]) -> None:
    total = ExactSum()
    total.add(column(first))
    total.add(column(second))
    assert exact(total) == [sum(map(Fraction, first + second), Fraction())]


@settings(max_examples=100, deadline=None, database=None)
@given(st.lists(FINITE, min_size=1))
def test_the_mean_is_rounded_once(values: list[float]) -> None:
    total = ExactSum()
    total.add(column(values))
    assert total.mean(len(values)) == float(sum(map(Fraction, values)) / len(values))


@pytest.mark.parametrize("size", [1, 2, 3, 1000, 4097])
def test_long_sums_of_numbers_of_all_sizes(size: int) -> None:
    random = keyed(0, "terms", size)
    terms = random.standard_normal((size, 3)) * 10.0 ** random.integers(-300, 300, (size, 3))
    total = ExactSum(3)
    total.add(terms.copy())
    assert exact(total) == [sum(map(Fraction, values), Fraction()) for values in terms.T.tolist()]


def test_the_smallest_and_the_largest_numbers() -> None:
    for values in ([5e-324] * 3, [5e-324, 1.0, -1.0], [2.0**-1022, -5e-324, 3e-310], [1.7e308] * 7, [1.7e308, 5e-324]):
        total = ExactSum()
        total.add(column(values))
        assert exact(total) == [sum(map(Fraction, values))]


def test_what_is_not_finite_stays_so() -> None:
    for values, expected in (([1.0, math.inf], math.inf), ([-math.inf, 2], -math.inf), ([math.inf, -math.inf, 1], math.nan)):
        total, other = ExactSum(), ExactSum()
        total.add(column(values))
        total.add(column([1.0]))
        other.merge(total)
        np.testing.assert_equal([total.mean(3), other.mean(3)], [expected, expected])


def test_columns_must_match_to_merge() -> None:
    with pytest.raises(ValueError, match="argument 2 is shorter"):
        ExactSum(2).merge(ExactSum(1))
