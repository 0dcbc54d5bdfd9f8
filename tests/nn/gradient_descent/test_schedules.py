import inspect
import math
from collections.abc import Callable

import numpy as np
import pytest

from nn.gradient_descent import SGDOptimizer, schedule
from nn.gradient_descent.schedule import Constant, Cosine, ExponentialDecay, Schedule, StepDecay, WarmUp
from nn.model import Model
from tests.nn.model.models import classifier

ROWS: list[tuple[Schedule, Callable[[int], float]]] = [
    (Constant(0.3), lambda t: 0.3),
    (StepDecay(0.3, 10), lambda t: 0.3 * 0.1 ** (t // 10)),
    (StepDecay(0.3, 4, factor=1), lambda t: 0.3),
    (ExponentialDecay(0.3, 10, 0.5), lambda t: 0.3 * 2 ** (-t / 10)),
    (Cosine(0.3, 20), lambda t: 0.15 * (1 + math.cos(math.pi * min(t, 20) / 20))),
    (Cosine(0.3, 20, final=0.1), lambda t: 0.1 + 0.1 * (1 + math.cos(math.pi * min(t, 20) / 20))),
    (WarmUp(0.3, 10), lambda t: 0.3 * min(t, 10) / 10),
    (WarmUp(StepDecay(0.3, 10), 5, start=0.1), lambda t: 0.1 + 0.2 * t / 5 if t < 5 else 0.3 * 0.1 ** ((t - 5) // 10)),
    (WarmUp(WarmUp(1.0, 2, start=0.5), 2), lambda t: min(t / 4, 1)),
]


def test_no_schedule_without_a_row() -> None:
    assert {name for name in schedule.__all__ if name != "Schedule"} == {type(made).__name__ for made, _ in ROWS}
    assert inspect.isabstract(Schedule)


@pytest.mark.parametrize(("made", "formula"), ROWS, ids=lambda value: repr(value) if isinstance(value, Schedule) else "")
def test_values_over_the_steps(made: Schedule, formula: Callable[[int], float]) -> None:
    for step in range(50):
        assert made(step) == pytest.approx(formula(step), rel=1e-12, abs=1e-15)


@pytest.mark.parametrize("made", [made for made, _ in ROWS], ids=repr)
def test_a_model_file_holds_it(made: Schedule) -> None:
    model = classifier()
    model.compile(SGDOptimizer(made))
    again = Model.from_bytes(model.to_bytes()).rule
    assert again is not None
    assert type(again.schedule) is type(made)
    assert repr(again.schedule) == repr(made)


@pytest.mark.parametrize("made", [made for made, _ in ROWS], ids=repr)
def test_a_rule_reads_it_at_every_step_and_goes_on_after_a_pause(made: Schedule) -> None:
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
    rule.update(parameters, np.ones(1))
    rule.update(parameters, np.ones(1))
    with pytest.raises(ValueError, match=r"Sinking 'rate' must be a number >= 0, got -1\.0"):
        rule.update(parameters, np.ones(1))
