import numpy as np
import pytest

from nn.gradient_descent import LAMBOptimizer


def test_it_must_be_told_the_variables() -> None:
    rule = LAMBOptimizer()
    with pytest.raises(ValueError, match=r"must be told their sizes by partition\(\).*knows of 0 parameters, got 3"):
        rule.update(np.zeros(3), np.ones(3))
    rule.partition([2, 2])
    with pytest.raises(ValueError, match="knows of 4 parameters, got 3"):
        rule.delta(np.zeros(3), np.ones(3), np.zeros(3))
    assert rule.step == 0, "a refused call is no step"
    with pytest.raises(ValueError, match="LAMBOptimizer 'sizes' must be a positive integer, got 0"):
        rule.partition([2, 0])


def test_without_a_gradient_nothing_moves_but_the_decay() -> None:
    rule = LAMBOptimizer(0.1, weight_decay=0)
    rule.partition([3])
    parameters = np.ones(3, np.float32)
    rule.update(parameters, np.zeros(3, np.float32))
    assert parameters.tolist() == [1, 1, 1]


def test_a_variable_of_norm_0_begins_with_the_quotient_1() -> None:
    rule, parameters = LAMBOptimizer(0.1, epsilon=1e-12, weight_decay=0), np.array([0.0, 0.0, 3.0, 4.0])
    rule.partition([2, 2])
    rule.update(parameters, np.array([1.0, -2.0, 1.0, -2.0]))
    length = 0.1 * 5 / np.sqrt(2)
    np.testing.assert_allclose(parameters, [-0.1, 0.1, 3 - length, 4 + length], rtol=1e-9)


def test_lamb_takes_the_norm_of_huge_parameters() -> None:
    parameters, rule = np.full(4, 1e20, np.float32), LAMBOptimizer(0.5, weight_decay=0)
    rule.partition([4])
    rule.update(parameters, np.ones(4, np.float32))
    np.testing.assert_allclose(parameters, 0.5e20, rtol=1e-5)
