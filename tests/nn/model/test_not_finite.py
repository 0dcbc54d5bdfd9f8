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


def test_a_loss_that_is_not_finite_names_epoch_batch_and_layer_and_changes_nothing() -> None:
    x, y = samples(100)
    x[45, 0] = 101
    made = model()
    kernel = made.trainable_variables()[0]
    with pytest.raises(FloatingPointError, match=r"fit\(\) stopped in epoch 1 at batch 3: the loss is (nan|inf); .*bomb"):
        made.fit(x, np.eye(3)[y], epoch=2, batch_size=20, shuffle=False, verbose=0)
    assert np.isfinite(kernel.value).all()
    assert made.epochs_trained == 0


def test_samples_that_are_not_finite_are_named() -> None:
    x, y = samples(60)
    x[27, 3] = np.nan
    message = r"epoch 1 at batch 2: the loss is nan; sample 27 has nan at x\[27, 3\] \(fit\(stop_on_nan=False\) goes on\)"
    with pytest.raises(FloatingPointError, match=message):
        classifier().fit(x, y, batch_size=20, shuffle=False, verbose=0)


@pytest.mark.parametrize("seed", range(3))
def test_the_number_of_a_sample_is_that_in_the_callers_array_whatever_the_order(seed: int) -> None:
    x, y = samples(60)
    x[27, 3] = -np.inf
    with pytest.raises(FloatingPointError, match=r"sample 27 has -inf at x\[27, 3\]"):
        classifier().fit(x, y, batch_size=7, seed=seed, verbose=0)
    with pytest.raises(FloatingPointError, match=r"batch 1: .* sample 7 of the batch has -inf at x\[7, 3\]"):
        classifier().fit([(x[20:40], y[20:40])], verbose=0)


def test_images_are_told_by_all_their_axes() -> None:
    x = np.zeros((5, 4, 4, 1), np.float32)
    x[2, 3, 1, 0] = np.nan
    made = nn.model.SequentialModel([-1, 4, 4, 1], [nn.layer.Flatten(), nn.layer.Dense(1)])
    made.setup(nn.loss.MSELoss())
    made.compile(nn.gradient_descent.SGDOptimizer)
    with pytest.raises(FloatingPointError, match=r"sample 2 has nan at x\[2, 3, 1, 0\]"):
        made.fit(x, np.zeros(5), verbose=0)


def test_what_is_too_large_for_float32_is_called_so() -> None:
    x = samples(60)[0].astype(np.float64)
    y = samples(60)[1]
    x[31, 5] = 1e300
    message = r"sample 31 has 1e\+300 at x\[31, 5\], which overflows in float32"
    with pytest.raises(FloatingPointError, match=message):
        classifier().fit(x, y, batch_size=20, verbose=0)
    for call in (lambda: classifier().predict(x), lambda: classifier().evaluate(x, y, batch_size=10)):
        with pytest.raises(ValueError, match=message):
            call()
    assert np.isfinite(classifier(dtype="float64").predict(x)).all()


@pytest.mark.parametrize("value", [np.nan, np.inf, -np.inf])
def test_predict_and_evaluate_name_the_sample(value: float) -> None:
    (x, y), made = samples(50), classifier()
    x[41, 2] = value
    found = r"sample 41 has -?(nan|inf) at x\[41, 2\]"
    for size in (8, 50, 1000):
        with pytest.raises(ValueError, match=rf"predict\(\) 'x' must hold finite numbers: {found}"):
            made.predict(x, size)
        with pytest.raises(ValueError, match=rf"evaluate\(\) 'x' must hold finite numbers: {found}"):
            made.evaluate(x, y, size)
    with pytest.raises(ValueError, match=rf"fit\(\) 'validation_data' must hold finite numbers: {found}"):
        made.fit(*samples(20), validation_data=(x, y), verbose=0)
    with pytest.raises(ValueError, match=rf"fit\(\) 'validation_data' must hold finite numbers: {found}"):
        made.fit(x, y, validation_split=0.3, verbose=0)
    history = made.fit(*samples(20), validation_data=(x, y), epoch=1, stop_on_nan=False, verbose=0)
    assert len(history["val_Loss"]) == 1
    assert made.predict(x[:41]).shape == (41, 3)


class Backfire(nn.layer.Layer):
    """x, whose gradient is NaN where the first number of a sample is above 100."""

    def build(self, input_shape: Shape) -> None:
        self.shift = self.add_variable("shift", input_shape[1:], nn.initializer.Zeros())

    def call(self, x: Value) -> Value:
        return (x + self.shift).apply(Backfires())


class Backfires(Explosion):
    def forward(self, inputs: Sequence[Array], out: Array) -> None:
        np.copyto(out, inputs[0])

    def backward(self, inputs: Sequence[Array], output: Array, gradient: Array, wanted: Sequence[Array | None]) -> None:
        if wanted[0] is not None:
            np.copyto(wanted[0], gradient)
            wanted[0][inputs[0][:, 0] > 100] = np.nan


def test_a_gradient_that_is_not_finite_is_found_before_the_update() -> None:
    x, y = samples(60)
    x[27, 0] = 101
    made = nn.model.SequentialModel([-1, 8], [nn.layer.Dense(8), Backfire(name="odd"), nn.layer.Dense(3)])
    made.layers[0].kernel_initializer = Identity()  # type: ignore[attr-defined]
    made.setup(nn.loss.Cross_Entropy_With_Softmax())
    made.compile(nn.gradient_descent.ADAMOptimizer(1e-6))
    message = (
        r"fit\(\) stopped in epoch 1 at batch 2: the loss is [\d.]+; "
        r"the gradient of variable 'odd/shift' is not finite \(fit\(stop_on_nan=False\) goes on\)"
    )
    with pytest.raises(FloatingPointError, match=message):
        made.fit(x, y, batch_size=20, shuffle=False, verbose=0)
    assert np.isfinite(made.store.values).all()
    made.fit(x, y, epoch=1, batch_size=20, shuffle=False, stop_on_nan=False, verbose=0)
    assert not np.isfinite(made.store.values).all()


class Identity(nn.initializer.Initializer):
    def __call__(self, shape: Shape, generator: np.random.Generator) -> Array:
        return np.eye(*shape)


def test_statistics_that_overflow_are_found() -> None:
    x = samples(40)[0] * np.float32(1e25)
    made = nn.model.SequentialModel([-1, 8], [nn.layer.BatchNorm(), nn.layer.Dense(1)])
    made.setup(nn.loss.MSELoss())
    made.compile(nn.gradient_descent.SGDOptimizer)
    with pytest.raises(FloatingPointError, match=r"batch 1: .*batchnorm_1"):
        made.fit(x, np.zeros(40), verbose=0)


@pytest.mark.parametrize("size", [10, 10_000])
def test_gradients_whose_squares_overflow_are_finite(size: int) -> None:
    made = nn.model.SequentialModel([-1, 1], [nn.layer.Dense(size)])
    made.setup(nn.loss.MSELoss())
    made.compile(nn.gradient_descent.SGDOptimizer(0.0))
    made.fit([[1e13], [-1e13]], np.zeros((2, size)), epoch=1, verbose=0)
    assert np.abs(made.store.gradients).max() > 1e20


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
