"""Batch normalisations that training leaves as they are: Keras's rule, and the option that lets the statistics move on."""

import numpy as np
import pytest

import nn
from nn import tensor_files
from nn.layer import BatchNorm, Dense, Layer
from nn.model import Model, SequentialModel
from nn.operation import BatchNormalize, MatMul
from nn.value import Value
from tests.nn.model.models import samples

X, Y = samples(40)
MEAN, VARIANCE = np.linspace(-1, 1, 6), np.linspace(0.5, 2, 6)


class Block(Layer):
    """A normalisation within a layer."""

    def __init__(self, freeze_statistics: bool = True) -> None:
        super().__init__()
        self.norm = BatchNorm(momentum=0.5, freeze_statistics=freeze_statistics)

    def call(self, x: Value) -> Value:
        return self.norm(x)


def tuned(freeze_statistics: bool = True, *, within: bool = False, thawed: bool = False) -> SequentialModel:
    """Return a trained base, frozen, and a new head."""
    norm: Layer = Block(freeze_statistics) if within else BatchNorm(momentum=0.5, freeze_statistics=freeze_statistics)
    base: list[Layer] = [Dense(6), norm]
    for layer in base:
        layer.trainable = thawed
    model = SequentialModel([-1, 8], [*base, Dense(3, activation=nn.activation.Softmax())], seed=3)
    model.setup(nn.loss.Cross_Entropy_With_Softmax())
    model.compile(nn.gradient_descent.ADAMOptimizer(0.05))
    for variable in model.store.buffers:
        variable.set_value(MEAN if variable.name.endswith("mean") else VARIANCE)
    return model


def others(model: Model) -> dict[str, bytes]:
    """Return the bits of what is not trained."""
    return {variable.name: variable.value.tobytes() for variable in model.store.everything if not variable.trainable}


@pytest.mark.parametrize("within", [False, True])
def test_a_frozen_one_is_the_function_it_was(within: bool) -> None:
    model = tuned(within=within)
    before = others(model)
    losses = model.fit(X, Y, epoch=5, batch_size=8, verbose=0)["Loss"]
    assert losses[-1] < losses[0]
    assert len(before) == 6
    assert others(model) == before
    # training and prediction see the same values, so that they agree on the loss
    assert model.compute_gradients(X, Y)[0] == pytest.approx(model.evaluate(X, Y)["Loss"], rel=1e-6)


def test_the_option_lets_its_statistics_move() -> None:
    model = tuned(freeze_statistics=False)
    before = others(model)
    model.fit(X, Y, epoch=5, batch_size=8, verbose=0)
    moved = {name for name, value in others(model).items() if value != before[name]}
    assert moved == {"batchnorm_1/moving_mean", "batchnorm_1/moving_variance"}
    # its outputs in training are those of one that is trained
    losses = []
    for other in (tuned(freeze_statistics=False), tuned(), tuned(thawed=True)):
        other.set_weights(model.get_weights())
        losses.append(other.compute_gradients(X, Y)[0])
    assert losses[0] == losses[2] != losses[1]


def test_one_that_is_trained_is_as_before() -> None:
    model = tuned(thawed=True)
    before = model.store.buffer_values.copy()
    model.fit(X, Y, epoch=1, batch_size=8, verbose=0)
    assert not np.isclose(model.store.buffer_values, before).any()


def test_gradients_of_what_lies_in_front_are_those_of_fixed_statistics() -> None:
    dense, norm = Dense(6), BatchNorm()
    norm.trainable = False
    model = SequentialModel([-1, 8], [dense, norm], dtype="float64")
    model.setup(nn.loss.MSELoss())
    norm.moving_mean.set_value(MEAN)
    norm.moving_variance.set_value(VARIANCE)
    target = np.zeros((len(X), 6))
    value, _ = model.compute_gradients(X, target)
    slope = 1 / np.sqrt(VARIANCE + norm.epsilon)
    output = (X @ dense.kernel.value + dense.variables[1].value - MEAN) * slope
    assert value == pytest.approx((output**2).mean(), rel=1e-6)
    np.testing.assert_allclose(dense.kernel.gradient, X.T @ (2 * output * slope / output.size), rtol=1e-5, atol=1e-9)


@pytest.mark.parametrize(("freeze_statistics", "count"), [(True, 1), (False, 2)])
def test_backward_ends_where_nothing_is_trained(freeze_statistics: bool, count: int, monkeypatch: pytest.MonkeyPatch) -> None:
    """A frozen base costs no backward pass."""
    model, passed = tuned(freeze_statistics), []
    for kind in (MatMul, BatchNormalize):
        backward = kind.backward
        monkeypatch.setattr(kind, "backward", lambda *a, backward=backward: (passed.append(a[0]), backward(*a)))
    model.compute_gradients(X, Y)
    assert len(passed) == count


@pytest.mark.parametrize("freeze_statistics", [True, False])
def test_files_copies_and_halves_keep_it(freeze_statistics: bool) -> None:
    straight = tuned(freeze_statistics)
    straight.fit(X, Y, epoch=1, batch_size=8, verbose=0)
    resumed = Model.from_bytes(straight.to_bytes())
    for model in (straight, resumed):
        model.fit(X, Y, epoch=2, batch_size=8, verbose=0)
    assert resumed.to_bytes() == straight.to_bytes()
    whole, (front, back) = tuned(freeze_statistics), tuned(freeze_statistics).split("batchnorm_1")
    loss, _ = whole.compute_gradients(X, Y, key=(0, 0, 0, 0))
    activations = front.forward(X, (0, 0, 0, 0)).copy()
    assert back.compute_gradients(activations, Y, key=(0, 0, 0, 0))[0] == loss
    front.backward(back.input_gradient.copy())
    for model in (whole, front, back):
        model.apply_gradients()
    assert front.store.buffer_values.tobytes() == whole.store.buffer_values.tobytes()
    moved = [weight for half in (front, back) for weight in half.get_weights()]
    assert [weight.tobytes() for weight in moved] == [weight.tobytes() for weight in whole.get_weights()]


def test_a_file_from_before_the_option_is_read() -> None:
    values, metadata = tensor_files.parse(tuned(thawed=True).to_bytes())
    assert metadata["config"].count(',"freeze_statistics":true') == 1
    older = metadata["config"].replace(',"freeze_statistics":true', "")
    model = Model.from_bytes(tensor_files.dump(values, {"format": metadata["format"], "config": older}))
    norm = model.graph.layers[1]
    assert isinstance(norm, BatchNorm)
    assert norm.freeze_statistics


def test_the_option_must_be_a_bool() -> None:
    with pytest.raises(TypeError, match="BatchNorm 'freeze_statistics' must be an instance of bool, got int 1"):
        BatchNorm(freeze_statistics=1)  # type: ignore[arg-type]
