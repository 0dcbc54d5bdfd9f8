import math

import numpy as np
import pytest

from nn.gradient_descent import LAMBOptimizer, SGDOptimizer
from nn.gradient_descent.numerics import clip_factor, norm


@pytest.mark.parametrize("scale", [0.0, 1e-44, 1e-25, 1e-15, 1.0, 1e15, 1e20, 1e37])
def test_norms_do_not_overflow_in_float32(scale: float) -> None:
    vector = (scale * np.array([3.0, 4.0] * 100)).astype(np.float32)
    expected = math.sqrt(sum(float(number) ** 2 for number in vector))
    assert norm([vector[:7], vector[7:]]) == pytest.approx(expected, rel=1e-6)


def test_parts_of_different_size() -> None:
    assert norm([np.array([1e20], np.float32), np.array([1.0], np.float32), np.zeros(3, np.float32)]) == pytest.approx(1e20)
    assert norm([]) == 0


@pytest.mark.parametrize("wrong", [np.nan, np.inf])
def test_what_is_not_finite_is_not_clipped(wrong: float) -> None:
    vector = np.array([1.0, wrong], np.float32)
    assert not math.isfinite(norm([vector]))
    assert clip_factor([vector], 1.0) in (0.0, 1.0)


def test_a_huge_gradient_is_clipped_to_its_direction() -> None:
    parameters = np.zeros(4, np.float32)
    SGDOptimizer(1.0, clip_norm=5).update(parameters, np.array([3e20, 0, -4e20, 0], np.float32))
    np.testing.assert_allclose(parameters, [-3, 0, 4, 0], rtol=1e-6)


def test_lamb_takes_the_norm_of_huge_parameters() -> None:
    parameters, rule = np.full(4, 1e20, np.float32), LAMBOptimizer(0.5, weight_decay=0)
    rule.partition([4])
    rule.update(parameters, np.ones(4, np.float32))
    np.testing.assert_allclose(parameters, 0.5e20, rtol=1e-5)
