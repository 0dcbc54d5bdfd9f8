from collections.abc import Mapping, Sequence
from itertools import pairwise
from typing import Any

import numpy as np
import pytest

import nn
from nn.callback import Callback, LearningRateScheduler, ReduceOnPlateau
from tests.nn.model.models import classifier, samples


class Rates(Callback):
    """Notes the rate with which each epoch was trained."""

    def __init__(self) -> None:
        self.rates: list[float] = []

    def on_batch_end(self, batch: int, logs: Mapping[str, float]) -> None:
        if batch == 0 and self.model.rule is not None:
            self.rates.append(self.model.rule.learn_rate)


class Told(ReduceOnPlateau):
    def __init__(self, results: Sequence[float], **arguments: Any) -> None:
        super().__init__("told", mode="min", **arguments)
        self.results = results

    def on_epoch_end(self, epoch: int, logs: Mapping[str, float]) -> None:
        super().on_epoch_end(epoch, {"told": self.results[self.model.epochs_trained - 1]})


def rates(callback: Callback, epochs: int, rate: float = 1.0) -> list[float]:
    model, (x, y), noted = classifier(), samples(20), Rates()
    model.compile(nn.gradient_descent.SGDOptimizer(rate))
    model.fit(x, y, epoch=epochs, callbacks=[callback, noted], verbose=0)
    return noted.rates


def test_a_function_of_epoch_and_rate_as_in_keras() -> None:
    def warm(epoch: int, rate: float) -> float:
        return rate if epoch < 2 else rate / 2

    def scaled(epoch: int, base: float = 0.5) -> float:
        return base * 2.0**epoch

    assert rates(LearningRateScheduler(warm), 4) == [1, 1, 0.5, 0.25]
    assert rates(LearningRateScheduler(scaled), 3) == [0.5, 1, 2]


def test_epochs_count_over_the_life_of_the_model() -> None:
    whole, parts, (x, y) = classifier(), classifier(), samples(50)
    schedule = LearningRateScheduler(lambda epoch: 0.02 / (1 + epoch))
    whole.fit(x, y, epoch=4, callbacks=[schedule], verbose=0)
    parts.fit(x, y, epoch=1, callbacks=[schedule], verbose=0)
    parts = nn.model.Model.from_bytes(parts.to_bytes())  # type: ignore[assignment]
    parts.fit(x, y, epoch=3, callbacks=[schedule], verbose=0)
    assert np.array_equal(whole.store.values, parts.store.values)


@pytest.mark.parametrize(
    ("arguments", "expected"),
    [
        ({"patience": 1}, [1, 1, 1, 0.5, 0.25, 0.25, 0.125, 0.0625]),
        ({"patience": 2}, [1, 1, 1, 1, 0.5, 0.5, 0.5, 0.25]),
        ({"patience": 1, "cooldown": 2}, [1, 1, 1, 0.5, 0.5, 0.5, 0.25, 0.25]),
        ({"patience": 1, "min_rate": 0.3}, [1, 1, 1, 0.5, 0.3, 0.3, 0.3, 0.3]),
        ({"patience": 1, "min_delta": 5}, [1, 1, 0.5, 0.25, 0.125, 0.0625, 0.03125, 0.015625]),
    ],
)
def test_the_rate_goes_down_on_a_plateau(arguments: dict[str, Any], expected: list[float]) -> None:
    callback = Told([5, 4, 4, 4, 3, 3, 3, 3], factor=0.5, **{"min_delta": 0, **arguments})
    assert rates(callback, 8) == expected
    drops = [number for number, (one, other) in enumerate(pairwise(expected), 1) if one > other]
    assert callback.reductions[: len(drops)] == drops


def test_the_reduced_rate_is_saved() -> None:
    model, (x, y) = classifier(), samples(20)
    model.fit(x, y, epoch=2, callbacks=[Told([1, 1], factor=0.5, patience=1)], verbose=0)
    again = nn.model.Model.from_bytes(model.to_bytes())
    assert again.rule is not None
    assert again.rule.learn_rate == 0.005


@pytest.mark.parametrize("callback", [LearningRateScheduler(lambda epoch: 0.1), ReduceOnPlateau("Loss")])
def test_a_schedule_of_the_rule_is_in_the_way(callback: Callback) -> None:
    model, (x, y) = classifier(), samples(20)
    cosine = nn.gradient_descent.schedule.Cosine(0.1, steps=100)
    model.compile(nn.gradient_descent.SGDOptimizer(cosine))
    with pytest.raises(
        ValueError, match=f"{type(callback).__name__} sets the learning rate, but that of SGDOptimizer comes from Cos"
    ):
        model.fit(x, y, callbacks=[callback], verbose=0)


@pytest.mark.parametrize("rate", [-1, float("nan"), float("inf"), "a", None, True])
def test_rates_that_are_none_are_named(rate: Any) -> None:
    with pytest.raises(ValueError, match=r"LearningRateScheduler 'schedule' must give a number >= 0, got .* for epoch 0"):
        rates(LearningRateScheduler(lambda epoch: rate), 1)


def test_mistakes_are_named() -> None:
    with pytest.raises(TypeError, match=r"LearningRateScheduler 'schedule' must be a function of the epoch, got 0\.1"):
        LearningRateScheduler(0.1)  # type: ignore[arg-type]
    with pytest.raises(ValueError, match=r"ReduceOnPlateau 'factor' must be a number >= 0 and < 1, got 1\.5"):
        ReduceOnPlateau(factor=1.5)
