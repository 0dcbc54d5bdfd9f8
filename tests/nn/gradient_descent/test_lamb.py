import numpy as np
import pytest

from nn.arrays import Array
from nn.gradient_descent import LAMBOptimizer
from nn.random import keyed

SIZES = [40_000, 1, 300]


def keras_lamb(variables: list[Array], gradients: list[list[Array]], rate: float, epsilon: float) -> list[Array]:
    """keras.optimizers.Lamb(learning_rate=rate, beta_1=0.9, beta_2=0.999, epsilon=epsilon), variable by variable."""
    b1, b2 = 0.9, 0.999
    results = []
    for place, start in enumerate(variables):
        variable, m, v = start.copy(), np.zeros_like(start), np.zeros_like(start)
        for t, gradient in enumerate((step[place] for step in gradients), start=1):
            m += (gradient - m) * (1 - b1)
            v += (gradient**2 - v) * (1 - b2)
            update = m / (1 - b1**t) / (np.sqrt(v / (1 - b2**t)) + epsilon)
            norm, length = np.linalg.norm(variable), np.linalg.norm(update)
            ratio = norm / length if norm > 0 and length > 0 else 1.0
            variable -= ratio * rate * update
        results.append(variable)
    return results


def test_hundred_steps_of_keras() -> None:
    generator = keyed(0, "lamb")
    borders = np.cumsum(SIZES)[:-1]
    parameters = generator.standard_normal(sum(SIZES))
    parameters[-300:] = 0  # a variable of norm 0 begins with the quotient 1
    gradients = [generator.standard_normal(sum(SIZES)) for _ in range(100)]
    expected = keras_lamb(np.split(parameters, borders), [np.split(g, borders) for g in gradients], 0.01, 1e-7)
    rule = LAMBOptimizer(0.01, epsilon=1e-7, weight_decay=0)
    rule.partition(SIZES)
    for gradient in gradients:
        rule.update(parameters, gradient)
    np.testing.assert_allclose(parameters, np.concatenate(expected), rtol=1e-6, atol=1e-12)


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
