import math
from fractions import Fraction

import numpy as np
import pytest
from hypothesis import example, given, settings
from hypothesis import strategies as st

from nn.metric.regression import UNIT_BITS, ExactSum
from nn.random import keyed


@settings(max_examples=200, deadline=None, database=None)
@given(st.lists(st.floats(allow_nan=False, allow_infinity=False), min_size=1))
@example([5e-324] * 3)
@example([5e-324, 1.0, -1.0])
@example([2.0**-1022, -5e-324, 3e-310])
@example([1.7e308] * 7)
@example([1.7e308, 5e-324])
def test_nothing_is_rounded_and_the_mean_once(values: list[float]) -> None:
    total, expected = ExactSum(), sum(map(Fraction, values))
    for part in (values[:2], values[2:]):
        total.add(np.array(part, np.float64).reshape(-1, 1))
    assert [Fraction(units, 1 << UNIT_BITS) for units in total.units] == [expected]
    try:
        rounded = float(expected / len(values))
    except OverflowError:
        rounded = math.copysign(math.inf, expected)
    assert total.mean(len(values)) == rounded


@pytest.mark.parametrize("size", [1, 2, 3, 1000, 4097])
def test_long_sums_of_numbers_of_all_sizes(size: int) -> None:
    random, total = keyed(0, "terms", size), ExactSum(3)
    terms = random.standard_normal((size, 3)) * 10.0 ** random.integers(-300, 300, (size, 3))
    total.add(terms.copy())
    found = [Fraction(units, 1 << UNIT_BITS) for units in total.units]
    assert found == [sum(map(Fraction, values), Fraction()) for values in terms.T.tolist()]


def test_what_is_not_finite_stays_so_and_columns_must_match() -> None:
    for values, expected in (([1.0, math.inf], math.inf), ([-math.inf, 2], -math.inf), ([math.inf, -math.inf, 1], math.nan)):
        total, other = ExactSum(), ExactSum()
        for part in (values, [1.0]):
            total.add(np.array(part).reshape(-1, 1))
        other.merge(total)
        np.testing.assert_equal([total.mean(3), other.mean(3)], [expected, expected])
    with pytest.raises(ValueError, match="argument 2 is shorter"):
        ExactSum(2).merge(ExactSum(1))
