import numpy as np
import pytest

from nn.gradient_descent import ADAMOptimizer, SGDOptimizer


def test_defaults() -> None:
    assert SGDOptimizer().get_config() == {"learn_rate": 0.01}
    assert ADAMOptimizer().get_config() == {"learn_rate": 1e-3, "beta1": 0.9, "beta2": 0.999, "epsilon": 1e-8}


@pytest.mark.parametrize(
    ("make", "message"),
    [
        (lambda: SGDOptimizer(-1), "SGDOptimizer 'learn_rate' must be a number >= 0, got -1"),
        (lambda: ADAMOptimizer(float("nan")), "ADAMOptimizer 'learn_rate' must be a number >= 0, got nan"),
        (lambda: ADAMOptimizer(beta1=1), "'beta1' must be a number >= 0 and < 1, got 1"),
        (lambda: ADAMOptimizer(epsilon=0), "'epsilon' must be a number > 0, got 0"),
    ],
)
def test_wrong_arguments_are_named(make: object, message: str) -> None:
    with pytest.raises(ValueError, match=message):
        make()  # type: ignore[operator]


def test_state_is_plain_arrays() -> None:
    rule = ADAMOptimizer()
    assert rule.state_dict() == {"step": 0}
    rule.update(np.zeros(3, np.float32), np.ones(3, np.float32))
    state = rule.state_dict()
    assert state["step"] == 1
    assert isinstance(state["momentum"], np.ndarray)
    assert state["momentum"].tolist() == [1, 1, 1]


def test_state_of_another_length_is_refused() -> None:
    rule = ADAMOptimizer()
    rule.update(np.zeros(3), np.ones(3))
    with pytest.raises(ValueError, match="holds state for 3 parameters of float64, got 4 of float64"):
        rule.update(np.zeros(4), np.ones(4))
    with pytest.raises(ValueError, match="ADAMOptimizer state must hold vectors of one length"):
        rule.load_state_dict({"step": 1, "momentum": np.zeros(3), "square": np.zeros(4)})
    with pytest.raises(ValueError, match="state must hold step, momentum, square; got momentum, step"):
        rule.load_state_dict({"step": 1, "momentum": np.zeros(3)})


def test_starting_afresh() -> None:
    rule = ADAMOptimizer()
    first, second = np.zeros(2), np.zeros(2)
    rule.update(first, np.ones(2))
    rule.load_state_dict({"step": 0})
    rule.update(second, np.ones(2))
    assert np.array_equal(first, second)


def test_what_fades_out_does_not_become_slow() -> None:
    """Denormal numbers cost a CPU fifty times as much: parameters whose gradient stays 0 must not end there."""
    rule = ADAMOptimizer()
    parameters, gradient = np.zeros(10, np.float32), np.ones(10, np.float32)
    rule.update(parameters, gradient)
    gradient[:] = 0
    for _ in range(1200):
        rule.update(parameters, gradient)
    momentum = rule.state_dict()["momentum"]
    assert isinstance(momentum, np.ndarray)
    assert not ((np.abs(momentum) > 0) & (np.abs(momentum) < np.finfo(np.float32).tiny)).any()
