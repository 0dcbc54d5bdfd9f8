import math
from typing import Any

import pytest

from nn.callback import Callback, EarlyStopping, ModelCheckpoint, ReduceOnPlateau
from nn.callback.monitor import Monitor
from tests.nn.model.models import classifier, samples


class Owner(Callback):
    pass


def monitor(name: str, mode: str = "auto", min_delta: float = 0.0) -> Monitor:
    return Monitor(Owner(), name, mode, min_delta)


@pytest.mark.parametrize(
    ("name", "mode"),
    [
        *[(name, "min") for name in ("Loss", "val_Loss", "mse", "val_relative_error", "eer", "false_positive")],
        *[(name, "max") for name in ("accuracy", "val_top_5_accuracy", "auc", "precision", "recall", "f1", "true_negative")],
    ],
)
def test_auto_knows_what_is_good(name: str, mode: str) -> None:
    assert monitor(name).mode == mode


def test_a_name_that_says_nothing_needs_a_mode() -> None:
    with pytest.raises(
        ValueError, match="Owner cannot tell whether 'val_score' should be small or large: give mode='min' or 'max'"
    ):
        monitor("val_score")
    assert monitor("val_score", "max").better(2, 1)


def test_better_is_by_more_than_min_delta() -> None:
    low, high = monitor("Loss", min_delta=0.5), monitor("accuracy", min_delta=0.5)
    assert low.better(1.0, None)
    assert low.better(0.4, 1.0)
    assert not low.better(0.5, 1.0)
    assert high.better(1.6, 1.0)
    assert not high.better(1.5, 1.0)
    for each in (low, high):
        assert not each.better(math.nan, 1.0)
        assert not each.better(math.nan, None)


@pytest.mark.parametrize(
    "kind", [EarlyStopping, ReduceOnPlateau, lambda **given: ModelCheckpoint("m", save_best_only=True, **given)]
)
@pytest.mark.parametrize(
    ("arguments", "error", "message"),
    [
        ({"monitor": 3}, TypeError, "'monitor' must be the name of a result, such as 'val_Loss', got 3"),
        ({"mode": "up"}, ValueError, "'mode' must be one of auto, min, max, got 'up'"),
    ],
)
def test_mistakes_are_named(kind: Any, arguments: dict[str, Any], error: type[Exception], message: str) -> None:
    with pytest.raises(error, match=message):
        kind(**arguments)


@pytest.mark.parametrize("callback", [EarlyStopping(), ReduceOnPlateau(), ModelCheckpoint("never", save_best_only=True)])
def test_an_unknown_result_lists_what_there_is(callback: Callback) -> None:
    x, y = samples(20)
    kind = type(callback).__name__
    message = f"{kind} 'monitor' is 'val_Loss', but the results are Loss, accuracy; with validation data there are val_"
    with pytest.raises(ValueError, match=message):
        classifier().fit(x, y, callbacks=[callback], verbose=0)
