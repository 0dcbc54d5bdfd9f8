from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np
import pytest

import nn
from nn.callback import Callback, EarlyStopping
from tests.nn.model.models import classifier, samples


class Told(EarlyStopping):
    """Stops by results that are given, whatever the model does."""

    def __init__(self, results: Sequence[float], **arguments: Any) -> None:
        super().__init__("told", mode="min", **arguments)
        self.results = results

    def on_epoch_end(self, epoch: int, logs: Mapping[str, float]) -> None:
        super().on_epoch_end(epoch, {"told": self.results[self.model.epochs_trained - 1]})


def run(callback: Callback, epochs: int = 8) -> nn.model.Model:
    model, (x, y) = classifier(), samples(40)
    model.fit(x, y, epoch=epochs, callbacks=[callback], verbose=0)
    return model


@pytest.mark.parametrize(
    ("patience", "min_delta", "stopped", "best_epoch"),
    [(0, 0, 3, 2), (1, 0, 3, 2), (2, 0, 6, 4), (3, 0, 7, 4), (4, 0, None, 8), (2, 0.25, 4, 2)],
)
def test_it_waits_as_long_as_patience_says(patience: int, min_delta: float, stopped: int | None, best_epoch: int) -> None:
    callback = Told([5, 3, 4, 2.8, 2.8, 3, float("nan"), 1], patience=patience, min_delta=min_delta)
    model = run(callback)
    assert callback.stopped_epoch == stopped
    assert callback.best_epoch == best_epoch
    assert len(model.fit_history()) == (stopped or 8)


@pytest.mark.parametrize("restore", [False, True])
def test_the_best_weights_come_back(restore: bool) -> None:
    at_best = run(Told([1] * 9), 2).store.values
    callback = Told([5, 1, 2, 2], patience=2, restore_best=restore)
    model = run(callback)
    assert (callback.best, callback.best_epoch, callback.stopped_epoch) == (1, 2, 4)
    expected = at_best if restore else run(Told([9, 8, 7, 6]), 4).store.values
    assert np.array_equal(model.store.values, expected)


def test_also_when_training_ends_by_itself() -> None:
    assert np.array_equal(run(Told([1, 2, 3], patience=9, restore_best=True), 3).store.values, run(Told([1]), 1).store.values)


def test_another_fit_begins_afresh() -> None:
    model, (x, y), callback = classifier(), samples(40), Told([1, 2, 3, 0, 1])
    model.fit(x, y, epoch=9, callbacks=[callback], verbose=0)
    assert callback.stopped_epoch == 2
    model.fit(x, y, epoch=1, callbacks=[callback], verbose=0)
    assert (callback.stopped_epoch, callback.best) == (None, 3)


def test_by_validation_accuracy() -> None:
    model, (x, y), callback = classifier(), samples(60), EarlyStopping("val_accuracy", 3)
    history = model.fit(x, y, epoch=60, validation_split=0.3, callbacks=[callback], verbose=0)
    values = history["val_accuracy"]
    assert callback.stopped_epoch == len(values) < 60
    assert callback.best == max(values) == values[-4]


def test_mistakes_are_named() -> None:
    with pytest.raises(ValueError, match="EarlyStopping 'patience' must be an integer of at least 0, got -1"):
        EarlyStopping(patience=-1)
    with pytest.raises(TypeError, match="EarlyStopping 'restore_best' must be an instance of bool"):
        EarlyStopping(restore_best=1)  # type: ignore[arg-type]
