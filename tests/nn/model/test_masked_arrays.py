"""Masked arrays: `np.asarray` drops a mask in silence, so what masks numbers is refused wherever data enter."""

import inspect
from collections.abc import Callable
from typing import Any

import numpy as np
import pytest

import nn
from nn.arrays import Array
from nn.dataset import ArrayDataset
from nn.dataset import transforms as tr
from nn.dataset.interface import checksum_of
from nn.model import SequentialModel

X, Y = np.arange(12.0).reshape(6, 2), np.array([0, 1, 0, 1, 0, 1])
MASKED_X = np.ma.masked_array(X, mask=np.zeros_like(X))
MASKED_X[4, 1] = np.ma.masked
MASKED_Y = np.ma.masked_equal(Y, 1)
PLAIN = np.ma.masked_array(X, mask=np.zeros_like(X))
WEIGHT = np.ma.masked_array(np.ones(6), mask=[0, 1, 0, 0, 0, 0])


def built() -> SequentialModel:
    model = SequentialModel([-1, 2], [nn.layer.Dense(2)])
    model.setup(nn.loss.Cross_Entropy_With_Softmax())
    model.compile(nn.gradient_descent.SGDOptimizer(0.01))
    return model


def feeder(x: Any, y: Any) -> nn.data.DataFeeder:
    class One(nn.data.DataFeeder):
        def deal(self, epoch: int, seed: int) -> Any:
            yield x, y

    return One()


X_TEXT, Y_TEXT = "1 masked of 12 numbers", "3 masked of 6 numbers"


@pytest.mark.parametrize(
    ("use", "message"),
    [
        (lambda: built().predict(MASKED_X), rf"SequentialModel 'x' must not be masked, got {X_TEXT}: fill them with filled"),
        (lambda: built().predict([MASKED_X[3], MASKED_X[4]]), "'x' must not be masked, got 1 masked of 2 numbers"),
        (lambda: built().predict([[1.0, 2.0], np.ma.masked]), "'x' must not be masked, got 1 masked of 1 numbers"),
        (lambda: built().evaluate(MASKED_X, Y), f"'x' must not be masked, got {X_TEXT}"),
        (lambda: built().evaluate(X, MASKED_Y), f"SequentialModel 'label' must not be masked, got {Y_TEXT}"),
        (lambda: built().fit(MASKED_X, Y, verbose=0), f"'x' must not be masked, got {X_TEXT}"),
        (lambda: built().fit(X, MASKED_Y, verbose=0), f"'label' must not be masked, got {Y_TEXT}"),
        (lambda: built().fit(X, Y, sample_weight=WEIGHT, verbose=0), "'weight' must not be masked, got 1 masked of 6"),
        (lambda: built().fit(MASKED_X, Y, validation_split=0.5, verbose=0), f"'x' must not be masked, got {X_TEXT}"),
        (lambda: built().fit(X, Y, validation_data=(X, MASKED_Y), verbose=0), f"'label' must not be masked, got {Y_TEXT}"),
        (lambda: built().fit(feeder(X, MASKED_Y), verbose=0), f"'label' must not be masked, got {Y_TEXT}"),
        (lambda: built().fit(feeder(MASKED_X, Y), verbose=0), f"'x' must not be masked, got {X_TEXT}"),
        (lambda: built().compute_gradients(MASKED_X, Y), f"'x' must not be masked, got {X_TEXT}"),
        (lambda: built().set_weights([MASKED_X[3:5], [0, 0]]), r"set_weights\(\) array 0 must not be masked, got 1"),
        (lambda: built().layers[0].variables[0].set_value(MASKED_X[3:5]), "Variable 'dense_1/kernel' must not be masked"),
        (lambda: nn.Placeholder([-1, 2]) * MASKED_X[4], "an array in an expression must not be masked"),
        (lambda: ArrayDataset(MASKED_X, Y, X, Y), f"ArrayDataset 'x' must not be masked, got {X_TEXT}"),
        (lambda: ArrayDataset(X, Y, X, MASKED_Y), f"ArrayDataset 'test_y' must not be masked, got {Y_TEXT}"),
        (lambda: checksum_of([X, MASKED_Y]), f"a data set must not be masked, got {Y_TEXT}"),
        (lambda: tr.Normalize()(MASKED_X, Y, X, Y), f"Normalize samples must not be masked, got {X_TEXT}"),
        (lambda: tr.OneHot()(X, Y, X, MASKED_Y), f"OneHot labels must not be masked, got {Y_TEXT}"),
        (lambda: tr.ImageCls()(X, MASKED_Y, X, Y), f"ImageCls samples and labels must not be masked, got {Y_TEXT}"),
        (lambda: tr.Augment(1)(MASKED_X.reshape(3, 2, 2), Y[:3], X, Y), f"Augment samples must not be masked, got {X_TEXT}"),
    ],
)
def test_what_masks_numbers_is_refused(use: Callable[[], object], message: str) -> None:
    with pytest.raises(ValueError, match=message):
        use()


METRICS = [kind for name in nn.metric.__all__ if not inspect.isabstract(kind := getattr(nn.metric, name))]
MASKED = [(np.ma.masked_equal([0, 1], 1), np.array([0.5, 1.0])), ([0, 1], np.ma.masked_equal([0.5, 1], 1))]


@pytest.mark.parametrize("kind", METRICS, ids=lambda kind: kind.__name__)
@pytest.mark.parametrize(("label", "prediction"), MASKED, ids=("label", "prediction"))
def test_metrics_refuse_it_too(kind: Any, label: Any, prediction: Any) -> None:
    message = f"{kind.__name__} '(label|prediction)' must not be masked, got 1 masked of 2 numbers"
    with pytest.raises(ValueError, match=message):
        kind().update(label, prediction)


def test_a_masked_array_that_masks_nothing_is_an_array() -> None:
    model = built()
    assert np.array_equal(model.predict(PLAIN), model.predict(X))
    found: Array = ArrayDataset(PLAIN, Y, X, Y).load()[0]
    assert type(found) is np.ndarray
