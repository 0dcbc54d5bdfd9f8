from collections.abc import Sequence

import numpy as np
import pytest

import nn
from nn.arrays import Array, Shape
from nn.operation import Operation
from nn.value import Value
from tests.nn.model.models import classifier, samples


class Explosive(nn.layer.Layer):
    """x, but infinite where the first number of a sample is above 100."""

    def call(self, x: Value) -> Value:
        return x.apply(Explosion())


class Explosion(Operation):
    def infer(self, *shapes: Shape) -> Shape:
        return shapes[0]

    def forward(self, inputs: Sequence[Array], out: Array) -> None:
        np.copyto(out, inputs[0])
        out[inputs[0][:, 0] > 100] = np.inf

    def backward(self, inputs: Sequence[Array], output: Array, gradient: Array, wanted: Sequence[Array | None]) -> None:
        if wanted[0] is not None:
            np.copyto(wanted[0], gradient)


def model() -> nn.model.SequentialModel:
    made = nn.model.SequentialModel([-1, 8], [Explosive(name="bomb"), nn.layer.Dense(3)])
    made.setup(nn.loss.MSELoss())
    made.compile(nn.gradient_descent.SGDOptimizer(0.01))
    return made


@pytest.fixture(autouse=True)
def quiet() -> object:
    with np.errstate(all="ignore"):
        yield


def test_a_loss_that_is_not_finite_names_epoch_batch_and_layer_and_changes_nothing() -> None:
    x, y = samples(100)
    x[45, 0] = 101
    made = model()
    kernel = made.trainable_variables()[0]
    with pytest.raises(FloatingPointError, match=r"fit\(\) stopped in epoch 1 at batch 2: the loss is (nan|inf); .*bomb"):
        made.fit(x, np.eye(3)[y], epoch=2, batch_size=20, shuffle=False, verbose=0)
    assert np.isfinite(kernel.value).all()
    assert made.epochs_trained == 0


def test_samples_that_are_not_finite_are_named() -> None:
    x, y = samples(60)
    x[27, 3] = np.nan
    message = r"epoch 1 at batch 1: the loss is nan; 1 of the batch's 20 samples are not finite, the first is number 7"
    with pytest.raises(FloatingPointError, match=message):
        classifier().fit(x, y, batch_size=20, shuffle=False, verbose=0)


def test_a_variable_that_is_not_finite_is_named() -> None:
    x, y = samples(20)
    made = classifier()
    made.trainable_variables()[2].value[0, 0] = np.nan
    with pytest.raises(FloatingPointError, match="the loss is nan; the first that is not finite is variable 'dense_2/kernel'"):
        made.fit(x, y, verbose=0)


def test_training_goes_on_if_one_wants_it() -> None:
    x, y = samples(40)
    x[3, 3] = np.nan
    history = classifier().fit(x, y, epoch=2, stop_on_nan=False, verbose=0)
    assert np.isnan(history["Loss"]).all()
    assert len(history) == 2


def test_a_history_with_nan_is_saved() -> None:
    x, y = samples(40)
    x[3, 3] = np.nan
    made = classifier()
    made.fit(x, y, epoch=1, stop_on_nan=False, verbose=0)
    again = nn.model.Model.from_bytes(made.to_bytes())
    assert np.isnan(again.fit_history()["Loss"]).all()
