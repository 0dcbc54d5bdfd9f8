"""Rules and schedules: their arguments, states and ends; the formulas stand in the contract's rows."""

import inspect
import math
from collections.abc import Callable
from functools import partial
from typing import Any

import numpy as np
import pytest

import nn
from nn import gradient_descent as gd
from nn.arrays import Array
from nn.gradient_descent import ADAMOptimizer, IGradientDescent, LAMBOptimizer, SGDOptimizer, schedule
from nn.gradient_descent.schedule import (
    Constant,
    Cosine,
    CosineRestarts,
    ExponentialDecay,
    OneCycle,
    Piecewise,
    Polynomial,
    Schedule,
    StepDecay,
    WarmUp,
)
from nn.gradient_descent.wrapping import WrappingRule
from nn.model import Model
from nn.threads import Team
from tests.contract.nn_rows import RULES
from tests.nn.model.models import classifier

SHARED = {"weight_decay": 0.0, "clip_value": None, "clip_norm": None, "clip_variable_norm": None}
KINDS = sorted({row.kind for row in RULES if not issubclass(row.kind, WrappingRule)}, key=lambda kind: kind.__name__)
FADING = [row for row in RULES if row.kind is not SGDOptimizer and not row.label]


def test_arguments() -> None:
    """The learning rate comes first and the shared arguments last; weight decay pulls every rule to zero."""
    assert SGDOptimizer().get_config() == {"learn_rate": 0.01, **SHARED, "momentum": 0.0, "nesterov": False}
    assert ADAMOptimizer().get_config() == {
        "learn_rate": 1e-3,
        "beta1": 0.9,
        "beta2": 0.999,
        "epsilon": 1e-8,
        **SHARED,
        "amsgrad": False,
    }
    assert {kind.__name__ for kind in KINDS} <= set(nn.gradient_descent.__all__)
    minimum, curvature = np.array([1.0, -2.0]), np.array([1.0, 10.0])
    for kind in KINDS:
        names = list(inspect.signature(kind).parameters)
        shared = [name for name in names if name in SHARED]
        assert (names[0], shared) == ("learn_rate", list(SHARED))
        assert kind(0.5).learn_rate == 0.5
        norms = []
        for decay in (0.5, 0.0):
            rule, parameters = kind(0.01, weight_decay=decay), np.zeros(2)
            rule.partition([2], [(2,)])
            for _ in range(300):
                rule.update(parameters, curvature * (parameters - minimum))
            norms.append(np.linalg.norm(parameters))
        assert norms[0] < norms[1], kind.__name__


def test_the_learning_rate_can_be_set_and_is_saved() -> None:
    model = classifier()
    model.compile(SGDOptimizer(Cosine(0.1, 10)))
    assert model.rule is not None and model.rule.schedule is not None
    model.rule.learn_rate = 0.25
    assert model.rule.schedule is None
    again = Model.from_bytes(model.to_bytes())
    assert again.rule is not None and again.rule.learn_rate == 0.25
    with pytest.raises(ValueError, match="SGDOptimizer 'learn_rate' must be a number >= 0, got -2"):
        model.rule.learn_rate = -2
    assert model.rule.learn_rate == 0.25


def test_the_state_is_plain_arrays_and_can_be_taken_back() -> None:
    rule, first, second = ADAMOptimizer(), np.zeros(3), np.zeros(3)
    assert rule.state_dict() == {"step": 0}
    rule.update(first, np.ones(3))
    state = rule.state_dict()
    assert state["step"] == 1
    assert isinstance(state["momentum"], np.ndarray) and state["momentum"].tolist() == [1, 1, 1]
    with pytest.raises(ValueError, match="holds state for 3 parameters of float64, got 4 of float64"):
        rule.update(np.zeros(4), np.ones(4))
    for wrong, message in [
        ({"momentum": np.zeros(3), "square": np.zeros(4)}, "ADAMOptimizer state must hold vectors of one length"),
        ({"momentum": np.zeros(3)}, "state must hold step, momentum, square; got momentum, step"),
        ({"step": -1, "momentum": np.zeros(3), "square": np.zeros(3)}, "ADAMOptimizer 'step' must be .*, got -1"),
    ]:
        with pytest.raises(ValueError, match=message):
            rule.load_state_dict({"step": 1, **wrong})
    with pytest.raises(ValueError, match="state must hold step, square, mean, velocity; got square, step"):
        gd.RMSPropOptimizer(centered=True, momentum=0.5).load_state_dict({"step": 1, "square": np.zeros(3)})
    rule.load_state_dict({"step": 0})
    rule.update(second, np.ones(3))
    assert np.array_equal(first, second)


@pytest.mark.share(4)
@pytest.mark.parametrize("row", FADING, ids=lambda row: row.kind.__name__)
@pytest.mark.parametrize("dtype", [np.float32, np.float64])
def test_what_fades_out_does_not_become_slow(row: Any, dtype: type[Any], monkeypatch: pytest.MonkeyPatch) -> None:
    """Denormal numbers cost a CPU fifty times as much: parameters whose gradient stays 0 must not end there.

    To forget them changes no bit, in parameters whose gradient stays 0 for a while, is tiny, or comes back.
    """

    def trained() -> Array:
        rule, parameters = row.build(7), np.zeros(7, dtype)
        for step in range(600):
            gradient = np.array([1.0, 1e-6, 1e-12, 1e-17, step < 20, step < 20 or step > 500, -1.0], dtype)
            rule.update(parameters, gradient)
        return parameters

    rule, parameters, gradient = row.build(10), np.zeros(10, np.float32), np.ones(10, np.float32)
    for _ in range(1200):
        rule.update(parameters, gradient)
        gradient[:] = 0
    for slot in rule.state_dict().values():
        assert not ((np.abs(slot) > 0) & (np.abs(slot) < np.finfo(np.float32).tiny)).any()
    forgetful = trained()
    monkeypatch.setattr("nn.gradient_descent.numerics.FLUSH_EVERY", 1 << 30)
    assert np.array_equal(forgetful, trained())


@pytest.mark.parametrize("build", [ADAMOptimizer, gd.ADAMWOptimizer, LAMBOptimizer, gd.RMSPropOptimizer, gd.AdaDeltaOptimizer])
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


@pytest.mark.parametrize("scale", [1e-25, 1e-15, 1.0, 1e15, 1e20, 1e36])
def test_gradients_are_clipped_whose_squares_float32_does_not_hold(scale: float) -> None:
    gradient = (scale * np.array([3, -4] * 200)).astype(np.float32)
    clipped, kept = np.zeros(400, np.float32), np.zeros(400, np.float32)
    SGDOptimizer(1.0, clip_norm=scale).update(clipped, gradient)
    np.testing.assert_allclose(clipped / scale, np.array([-3, 4] * 200) / np.sqrt(5000), rtol=1e-5)
    SGDOptimizer(1.0, clip_norm=100 * scale).update(kept, gradient)
    assert np.array_equal(kept, -gradient)


def test_clipping_does_not_hide_a_gradient_that_is_not_finite() -> None:
    for limit in ({"clip_norm": 1.0}, {"clip_value": 1.0}):
        parameters = np.zeros(2)
        SGDOptimizer(0.1, **limit).update(parameters, np.array([np.nan, 1.0]))
        assert np.isnan(parameters[0])


def test_lamb_must_be_told_the_variables() -> None:
    rule = LAMBOptimizer()
    with pytest.raises(ValueError, match=r"must be told their sizes by partition\(\).*knows of 0 parameters, got 3"):
        rule.update(np.zeros(3), np.ones(3))
    rule.partition([2, 2])
    with pytest.raises(ValueError, match="knows of 4 parameters, got 3"):
        rule.write_change(np.zeros(3), np.ones(3), np.zeros(3))
    assert rule.step == 0, "a refused call is no step"
    with pytest.raises(ValueError, match="LAMBOptimizer 'sizes' must be a positive integer, got 0"):
        rule.partition([2, 0])


@pytest.mark.parametrize(
    ("parameters", "gradient", "sizes", "expected"),
    [
        ([1, 1, 1], [0, 0, 0], [3], [1, 1, 1]),  # without a gradient nothing moves but the decay
        # a variable of norm 0 begins with the quotient 1
        ([0, 0, 3, 4], [1, -2, 1, -2], [2, 2], [-0.1, 0.1, 3 - 0.5 / math.sqrt(2), 4 + 0.5 / math.sqrt(2)]),
        ([1e20] * 4, [1] * 4, [4], [0.9e20] * 4),  # whose squares float32 does not hold
    ],
)
def test_steps_of_lamb(parameters: list[float], gradient: list[float], sizes: list[int], expected: list[float]) -> None:
    for dtype in (np.float32, np.float64):
        rule, found = LAMBOptimizer(0.1, epsilon=1e-12, weight_decay=0), np.array(parameters, dtype)
        rule.partition(sizes)
        rule.update(found, np.array(gradient, dtype))
        np.testing.assert_allclose(found, expected, rtol=1e-5 if dtype is np.float32 else 1e-9)


SCHEDULES: list[tuple[Schedule, Callable[[int], float]]] = [
    (Constant(0.3), lambda t: 0.3),
    (StepDecay(0.3, 10), lambda t: 0.3 * 0.1 ** (t // 10)),
    (StepDecay(0.3, 4, factor=1), lambda t: 0.3),
    (ExponentialDecay(0.3, 10, 0.5), lambda t: 0.3 * 2 ** (-t / 10)),
    (Cosine(0.3, 20), lambda t: 0.15 * (1 + math.cos(math.pi * min(t, 20) / 20))),
    (Cosine(0.3, 20, final=0.1), lambda t: 0.1 + 0.1 * (1 + math.cos(math.pi * min(t, 20) / 20))),
    (WarmUp(0.3, 10), lambda t: 0.3 * min(t, 10) / 10),
    (WarmUp(StepDecay(0.3, 10), 5, start=0.1), lambda t: 0.1 + 0.2 * t / 5 if t < 5 else 0.3 * 0.1 ** ((t - 5) // 10)),
    (WarmUp(WarmUp(1.0, 2, start=0.5), 2), lambda t: min(t / 4, 1)),
    (CosineRestarts(0.3, 7, 1, 0.5, 0.01), lambda t: restarts(t, [7] * 9, 0.5)),
    (CosineRestarts(0.3, 6, factor=0.5, final=0.01), lambda t: restarts(t, [6, 12, 24, 48], 0.5)),
    (OneCycle(0.3, 40, 0.5, 10, 100), lambda t: cycle(t, 19, 39, 0.03, 0.0003)),
    (OneCycle(0.3, 2, 0.25, 10, 100), lambda t: cycle(t, -0.5, 1, 0.03, 0.0003)),
    (Piecewise([3, 20], [0.3, 0.2, 0.1]), lambda t: 0.3 if t <= 3 else 0.2 if t <= 20 else 0.1),
    (Piecewise([], [0.3]), lambda t: 0.3),
    (Polynomial(0.3, 20), lambda t: 0.3 * max(1 - t / 20, 0)),
    (Polynomial(0.3, 20, 0.1, 0.5), lambda t: 0.1 + 0.2 * math.sqrt(max(1 - t / 20, 0))),
]


def restarts(step: int, lengths: list[int], factor: float) -> float:
    height = 0.29
    for length in lengths:
        if step < length:
            return 0.01 + height * math.cos(math.pi * step / length / 2) ** 2
        step, height = step - length, height * factor
    raise AssertionError("not enough lengths")


def cycle(step: int, top: float, last: int, first: float, final: float) -> float:
    if step <= top:
        return first + (0.3 - first) * math.sin(math.pi * step / top / 2) ** 2
    return final + (0.3 - final) * math.cos(math.pi * min((step - top) / (last - top), 1) / 2) ** 2


@pytest.mark.parametrize(
    ("make", "message"),
    [
        (lambda: Piecewise([3, 3], [1, 2, 3]), r"Piecewise 'boundaries' must ascend, got \[3, 3\]"),
        (lambda: Piecewise([3], [1]), "Piecewise 'rates' must hold one more than the 1 boundaries, got 1"),
        (lambda: CosineRestarts(1, 5, 0.5), "CosineRestarts 'stretch' must be a number .*, got 0.5"),
        (lambda: CosineRestarts(1, 5, factor=2), "CosineRestarts 'factor' must be a number from 0 to 1, got 2"),
        (lambda: OneCycle(1, 1), "OneCycle 'steps' must be .*, got 1"),
        (lambda: Polynomial(1, 5, power=0), "Polynomial 'power' must be .*, got 0"),
    ],
)
def test_wrong_arguments_of_schedules_are_named(make: Callable[[], Schedule], message: str) -> None:
    with pytest.raises(ValueError, match=message):
        make()


def test_no_schedule_without_a_row() -> None:
    assert {name for name in schedule.__all__ if name != "Schedule"} == {type(made).__name__ for made, _ in SCHEDULES}
    assert inspect.isabstract(Schedule)


@pytest.mark.parametrize(("made", "formula"), SCHEDULES, ids=lambda value: repr(value) if isinstance(value, Schedule) else "")
def test_schedules(made: Schedule, formula: Callable[[int], float]) -> None:
    """Values over the steps; a model file holds it; a rule reads it at every step and goes on after a pause."""
    for step in range(50):
        assert made(step) == pytest.approx(formula(step), rel=1e-12, abs=1e-15)
    model = classifier()
    model.compile(SGDOptimizer(made))
    again = Model.from_bytes(model.to_bytes()).rule
    assert again is not None and repr(again.schedule) == repr(made)
    rule, parameters = SGDOptimizer(made), np.zeros(1)
    for step in range(12):
        if step == 6:
            resumed = SGDOptimizer(made)
            resumed.load_state_dict(rule.state_dict())
            rule = resumed
        assert rule.learn_rate == made(step)
        rule.update(parameters, -np.ones(1))
        assert rule.rate == made(step)
    assert parameters[0] == pytest.approx(sum(made(step) for step in range(12)))


def test_a_schedule_of_ones_own_that_goes_below_zero_is_refused() -> None:
    class Sinking(Schedule):
        def __call__(self, step: int) -> float:
            return 1.0 - step

    rule, parameters = SGDOptimizer(Sinking()), np.zeros(1)
    for _ in range(2):
        rule.update(parameters, np.ones(1))
    with pytest.raises(ValueError, match=r"Sinking 'rate' must be a number >= 0, got -1\.0"):
        rule.update(parameters, np.ones(1))


class Counting(SGDOptimizer):
    """A rule of one's own on top of one that threads may share: it counts its chunks."""

    chunks = 0

    def increment(self, value: Array, gradient: Array, out: Array, *slots: Array) -> None:
        self.chunks += 1
        super().increment(value, gradient, out, *slots)


@pytest.mark.parametrize("row", RULES, ids=lambda row: f"{row.kind.__name__} {row.label}".strip())
@pytest.mark.parametrize("size", [2, 3])
@pytest.mark.share(3)
def test_threads_that_share_out_a_long_vector_change_no_bit(row: Any, size: int, monkeypatch: pytest.MonkeyPatch) -> None:
    for name, value in {"CHUNK": 16, "SHARED_CHUNK": 32, "LEAST_SHARE": 32, "LEAST_SHARED": 100, "BESIDE": 30}.items():
        monkeypatch.setattr(f"nn.gradient_descent.interface.{name}", value)
    generator, found = np.random.default_rng(3), []
    gradients = generator.standard_normal((4, 333)).astype(np.float32)
    start = generator.standard_normal(333).astype(np.float32)
    for team in (None, Team(size)):
        rule, values = row.build(333), start.copy()
        rule.team = team
        for number, gradient in enumerate(gradients):
            if team is None or number % 2:
                rule.update(values, gradient)
            else:  # the first share is smaller then
                team.beside(lambda: None, partial(rule.update, values, gradient))
        found.append([values, *(slot for slot in rule.state_dict().values() if isinstance(slot, np.ndarray))])
    for alone, shared in zip(*found, strict=True):
        assert alone.tobytes() == shared.tobytes()


def test_a_rule_of_ones_own_is_not_shared_unless_it_says_so(monkeypatch: pytest.MonkeyPatch) -> None:
    for name, value in {"CHUNK": 5, "SHARED_CHUNK": 5, "LEAST_SHARE": 5, "LEAST_SHARED": 10}.items():
        monkeypatch.setattr(f"nn.gradient_descent.interface.{name}", value)
    rule = Counting(0.5)
    rule.team = Team(2)
    rule.update(np.zeros(20), np.ones(20))
    assert rule.chunks == 4
    ran: list[list[slice]] = []
    monkeypatch.setattr(
        Team, "run", lambda team, tasks: [ran.append([task.args[2] for task in tasks]), *(task() for task in tasks)]
    )
    for size in (2, 64):  # of which no more take part than have five elements
        plain = SGDOptimizer(0.5)
        plain.team = Team(size)
        plain.update(np.zeros(36), np.ones(36))
    # Half, by eight numbers, which a cache line has.
    assert ran[0] == [slice(0, 16), slice(16, 36)]
    assert len(ran[1]) == 7
    monkeypatch.setattr("nn.gradient_descent.interface.BESIDE", 8)
    plain.team = Team(2)
    plain.team.beside(lambda: None, partial(plain.update, np.zeros(52), np.ones(52)))
    # (52 + 8) / 2 - 8 = 22.
    assert ran[2] == [slice(0, 16), slice(16, 52)]


def test_means_of_the_parameters_over_steps_are_those_of_the_formulas() -> None:
    start, gradients = np.arange(3.0), np.random.default_rng(3).standard_normal((9, 3))
    w, path = start.copy(), []
    plain = SGDOptimizer(0.1)
    for gradient in gradients:
        plain.update(w, gradient)
        path.append(w.copy())
    fading = path[0]
    for value in path[1:]:
        fading = 0.8 * fading + 0.2 * value
    for rule, expected in [
        (gd.MovingAverage(SGDOptimizer(0.1), 0.8), fading),
        (gd.StochasticAverage(SGDOptimizer(0.1), start=3, every=2), np.mean(path[2::2], axis=0)),
        (gd.StochasticAverage(SGDOptimizer(0.1), start=20), path[-1]),
    ]:
        values = start.copy()
        assert rule.average is None
        for gradient in gradients:
            rule.update(values, gradient)
        assert np.array_equal(values, path[-1]) and rule.average is not None
        np.testing.assert_allclose(rule.average, expected, rtol=1e-12)


def test_accumulation_steps_once_for_every_few_batches_and_its_schedule_counts_steps() -> None:
    rule, values = gd.GradientAccumulation(SGDOptimizer(gd.Piecewise([0], [1.0, 0.5])), 2), np.array([-0.0, 1.0])
    seen = []
    for gradient in ([1.0, 2.0], [3.0, 4.0], [1.0, 1.0], [1.0, 1.0]):
        rule.update(values, np.array(gradient))
        seen.append((values.tolist(), rule.learn_rate))
    assert seen == [([-0.0, 1.0], 1.0), ([-2.0, -2.0], 0.5), ([-2.0, -2.0], 0.5), ([-2.5, -2.5], 0.5)]
    assert (rule.step, rule.rule.step) == (4, 2)
    nested = gd.GradientAccumulation(gd.MovingAverage(SGDOptimizer(gd.Cosine(0.1, 5))), 2)
    assert isinstance(nested.schedule, Cosine) and isinstance(nested.rule, gd.MovingAverage)
    rule.learning_rate = 0.25
    assert rule.rule.learn_rate == 0.25 and rule.schedule is None
    with pytest.raises(TypeError, match=r"GradientAccumulation 'rule' must be an instance of IGradientDescent, got str 'adam'"):
        gd.GradientAccumulation("adam", 2)  # type: ignore[arg-type]
    inner = rule.state_dict()
    with pytest.raises(ValueError, match="SGDOptimizer state must hold step; got else, step"):
        rule.load_state_dict({**inner, "rule.else": 1})
    assert rule.step == 4


def test_decay_of_kernels_spares_variables_of_one_axis_and_must_be_told_the_shapes() -> None:
    for kind in KINDS:
        rule, values = kind(0.1, weight_decay=gd.KernelDecay(0.5)), np.ones(5, np.float32)
        assert not rule.elementwise
        with pytest.raises(ValueError, match="must be told"):
            rule.update(values, np.zeros(5, np.float32))
        rule.partition([4, 1], [(2, 2), (1,)])
        rule.update(values, np.zeros(5, np.float32))
        assert (values[:4] < 1).all() and values[4] == 1, kind.__name__
    model = classifier()
    model.compile(gd.ADAMWOptimizer(0.1, weight_decay=gd.KernelDecay(0.5)))
    again = Model.from_bytes(model.to_bytes()).rule
    assert again is not None and again.get_config()["weight_decay"].rate == 0.5
    with pytest.raises(ValueError, match=r"ShardedPSGDOptimizer needs .*, got SGDOptimizer with 'weight_decay'"):
        nn.optimizer.ShardedPSGDOptimizer.admit(SGDOptimizer(weight_decay=gd.KernelDecay(0.5)))
