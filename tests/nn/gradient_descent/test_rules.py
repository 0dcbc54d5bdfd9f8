import inspect
from typing import Any

import numpy as np
import pytest

import nn
from nn import gradient_descent as gd
from nn.arrays import Array
from nn.gradient_descent import ADAMOptimizer, Cosine, IGradientDescent, SGDOptimizer
from nn.model import Model
from tests.contract.nn_rows import RULES
from tests.nn.model.models import classifier

SHARED = {"weight_decay": 0.0, "clip_value": None, "clip_norm": None}
KINDS = sorted({row.kind for row in RULES}, key=lambda kind: kind.__name__)


def test_defaults() -> None:
    assert SGDOptimizer().get_config() == {"learn_rate": 0.01, **SHARED}
    assert ADAMOptimizer().get_config() == {"learn_rate": 1e-3, "beta1": 0.9, "beta2": 0.999, "epsilon": 1e-8, **SHARED}


@pytest.mark.parametrize("kind", KINDS, ids=lambda kind: kind.__name__)
def test_the_learning_rate_comes_first_and_the_shared_arguments_last(kind: type[IGradientDescent]) -> None:
    names = list(inspect.signature(kind).parameters)
    assert names[0] == "learn_rate"
    assert names[-3:] == ["weight_decay", "clip_value", "clip_norm"]
    assert kind(0.5).learn_rate == 0.5


def test_wrong_types_are_named() -> None:
    with pytest.raises(TypeError, match=r"SGDOptimizer 'learn_rate' must be a number >= 0, got '0\.1'"):
        SGDOptimizer("0.1")  # type: ignore[arg-type]
    with pytest.raises(TypeError, match="RMSPropOptimizer 'centered' must be an instance of bool, got int 1"):
        gd.RMSPropOptimizer(centered=1)  # type: ignore[arg-type]


def test_the_learning_rate_can_be_set_and_is_saved() -> None:
    model = classifier()
    model.compile(SGDOptimizer(Cosine(0.1, 10)))
    assert model.rule is not None
    assert model.rule.schedule is not None
    model.rule.learn_rate = 0.25
    assert model.rule.schedule is None
    again = Model.from_bytes(model.to_bytes())
    assert again.rule is not None
    assert again.rule.learn_rate == 0.25
    with pytest.raises(ValueError, match="SGDOptimizer 'learn_rate' must be a number >= 0, got -2"):
        model.rule.learn_rate = -2
    assert model.rule.learn_rate == 0.25


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
    with pytest.raises(ValueError, match="state must hold step, square, mean, velocity; got square, step"):
        gd.RMSPropOptimizer(centered=True, momentum=0.5).load_state_dict({"step": 1, "square": np.zeros(3)})


def test_starting_afresh() -> None:
    rule = ADAMOptimizer()
    first, second = np.zeros(2), np.zeros(2)
    rule.update(first, np.ones(2))
    rule.load_state_dict({"step": 0})
    rule.update(second, np.ones(2))
    assert np.array_equal(first, second)


FADING = [row for row in RULES if row.kind is not SGDOptimizer and not row.label]


@pytest.mark.parametrize("row", FADING, ids=lambda row: row.kind.__name__)
def test_what_fades_out_does_not_become_slow(row: object) -> None:
    """Denormal numbers cost a CPU fifty times as much: parameters whose gradient stays 0 must not end there."""
    rule: IGradientDescent = row.build(10)  # type: ignore[attr-defined]
    parameters, gradient = np.zeros(10, np.float32), np.ones(10, np.float32)
    rule.update(parameters, gradient)
    gradient[:] = 0
    for _ in range(1200):
        rule.update(parameters, gradient)
    for slot in rule.state_dict().values():
        if isinstance(slot, np.ndarray):
            assert not ((np.abs(slot) > 0) & (np.abs(slot) < np.finfo(np.float32).tiny)).any()


@pytest.mark.parametrize(
    "build", [ADAMOptimizer, gd.ADAMWOptimizer, gd.LAMBOptimizer, gd.RMSPropOptimizer, gd.AdaDeltaOptimizer]
)
@pytest.mark.parametrize("dtype", [np.float32, np.float64])
def test_second_moments_that_fade_out_become_0(build: type[IGradientDescent], dtype: type[Any]) -> None:
    """With a decay of 0.999 it takes 73,000 steps until a 1 is denormal, where rounding up would keep it for ever."""
    rule, size = build(0.1), 5
    names = [name for name in rule.slots if "square" in name]
    faded = np.array([1.1, 0.5, 1e-3, 0, 3]) * np.finfo(dtype).tiny
    rule.load_state_dict({"step": 1000, **{name: (faded if name in names else 0 * faded).astype(dtype) for name in rule.slots}})
    rule.partition([size])
    parameters, gradient = np.ones(size, dtype), np.zeros(size, dtype)
    for _ in range(1300):
        rule.update(parameters, gradient)
    state = rule.state_dict()
    assert [np.asarray(state[name]).tolist() for name in names] == [[0] * size] * len(names)


@pytest.mark.parametrize("row", FADING, ids=lambda row: row.kind.__name__)
@pytest.mark.parametrize("dtype", [np.float32, np.float64])
def test_forgetting_what_has_faded_changes_no_bit(row: Any, dtype: type[Any], monkeypatch: pytest.MonkeyPatch) -> None:
    """Not in parameters whose gradient stays 0 for a while, is tiny, or comes back."""

    def trained() -> Array:
        rule, parameters = row.build(7), np.zeros(7, dtype)
        for step in range(600):
            gradient = np.array([1.0, 1e-6, 1e-12, 1e-17, step < 20, step < 20 or step > 500, -1.0], dtype)
            rule.update(parameters, gradient)
        return parameters

    forgetful = trained()
    monkeypatch.setattr("nn.gradient_descent.numerics.FLUSH_EVERY", 1 << 30)
    assert np.array_equal(forgetful, trained())


@pytest.mark.parametrize("scale", [1e-25, 1e-15, 1.0, 1e15, 1e20, 1e36])
def test_gradients_are_clipped_whose_squares_float32_does_not_hold(scale: float) -> None:
    parameters, gradient = np.zeros(400, np.float32), (scale * np.array([3, -4] * 200)).astype(np.float32)
    SGDOptimizer(1.0, clip_norm=scale).update(parameters, gradient)
    np.testing.assert_allclose(parameters / scale, np.array([-3, 4] * 200) / np.sqrt(5000), rtol=1e-5)
    kept = np.zeros(400, np.float32)
    SGDOptimizer(1.0, clip_norm=100 * scale).update(kept, gradient)
    assert np.array_equal(kept, -gradient)


def test_a_gradient_that_is_not_finite_shows() -> None:
    """Clipping does not hide it: parameters become NaN, which `fit` can stop at."""
    for limit in ({"clip_norm": 1.0}, {"clip_value": 1.0}):
        parameters = np.zeros(2)
        SGDOptimizer(0.1, **limit).update(parameters, np.array([np.nan, 1.0]))
        assert np.isnan(parameters[0])


def descend(rule: IGradientDescent, steps: int) -> Array:
    """Minimise (x - 1)^2 / 2 + 10 (y + 2)^2 / 2 from zero."""
    parameters, curvature, target = np.zeros(2), np.array([1.0, 10.0]), np.array([1.0, -2.0])
    rule.partition([2])
    for _ in range(steps):
        rule.update(parameters, curvature * (parameters - target))
    return np.asarray(parameters - target)


def test_weight_decay_pulls_to_zero_in_every_rule() -> None:
    minimum = np.array([1.0, -2.0])
    for kind in KINDS:
        free, held = (minimum + descend(kind(0.01, weight_decay=decay), 300) for decay in (0.0, 0.5))
        assert np.linalg.norm(held) < np.linalg.norm(free), kind.__name__


def test_all_rules_are_exported() -> None:
    assert {kind.__name__ for kind in KINDS} <= set(nn.gradient_descent.__all__)
