import inspect

import numpy as np
import pytest

import nn
from nn.layer import Dense, Dropout, Flatten, Layer, Reshape
from nn.operation import DropoutOperation, Mode
from nn.value import Placeholder, Value


def test_a_layer_called_twice_shares_its_variables() -> None:
    x, layer = Placeholder([-1, 4]), Dense(4)
    layer(layer(x))
    assert [variable.name for variable in layer.variables] == ["dense/kernel", "dense/bias"]


def test_shapes_of_dense() -> None:
    layer = Dense(3)
    assert layer(Placeholder([-1, 7, 5])).shape == (-1, 7, 3)
    assert [variable.shape for variable in layer.variables] == [(5, 3), (3,)]


def test_wrong_inputs_name_the_layer() -> None:
    layer = Dense(3, name="head")
    layer(Placeholder([-1, 4]))
    with pytest.raises(ValueError, match=r"Dense 'head': expected inputs with 4 features, got shape \(-1, 5\)"):
        layer(Placeholder([-1, 5]))
    with pytest.raises(ValueError, match=r"Reshape: samples of shape \(4,\) do not fit into shape \(3,\)"):
        Reshape([3])(Placeholder([-1, 4]))
    with pytest.raises(ValueError, match=r"Dense: expected inputs of shape \(batch, ..., features\), got \(-1,\)"):
        Dense(3)(Placeholder([-1]))
    with pytest.raises(TypeError, match="Dense 'head' is called on a value of a graph, got ndarray"):
        layer(np.zeros((2, 4)))  # type: ignore[arg-type]


def test_reshape_takes_what_is_left() -> None:
    assert Reshape([2, -1])(Placeholder([-1, 4, 3])).shape == (-1, 2, 6)
    assert Flatten()(Placeholder([-1, 4, 3])).shape == (-1, 12)


def dropped(x: np.ndarray, rate: float, key: tuple[int, ...], position: int = 0, training: bool = True) -> np.ndarray:
    operation, out = DropoutOperation(rate), np.empty_like(x)
    operation.allocate([x.shape], x.shape, x.dtype)
    operation.begin(Mode(training, key), position)
    operation.forward([x], out)
    return out


def test_dropout_keeps_the_mean_and_drops_the_rate() -> None:
    result = dropped(np.ones((500, 400), np.float32), 0.3, (1, 0, 0, 0))
    assert (result == 0).mean() == pytest.approx(0.3, abs=0.005)
    assert result.mean() == pytest.approx(1, abs=0.01)
    assert set(np.unique(result)) == {0, np.float32(1 / 0.7)}


def test_dropout_is_keyed_by_seed_epoch_batch_block_and_place() -> None:
    x = np.ones((10, 10), np.float32)
    first = dropped(x, 0.5, (1, 2, 3, 4), 5)
    assert np.array_equal(first, dropped(x, 0.5, (1, 2, 3, 4), 5))
    for key, position in [((2, 2, 3, 4), 5), ((1, 0, 3, 4), 5), ((1, 2, 0, 4), 5), ((1, 2, 3, 0), 5), ((1, 2, 3, 4), 6)]:
        assert not np.array_equal(first, dropped(x, 0.5, key, position))


def test_dropout_is_off_outside_training() -> None:
    x = np.ones((10, 10), np.float32)
    assert np.array_equal(dropped(x, 0.5, (1, 2, 3, 4), training=False), x)
    model = nn.model.SequentialModel([-1, 8], [Dropout(0.9)])
    model.setup(nn.loss.MSELoss())
    ones = np.ones((4, 8), np.float32)
    assert np.array_equal(model.predict(ones), ones)
    assert model.evaluate(ones, ones) == {"Loss": 0}


def test_a_layer_of_ones_own() -> None:
    class Scale(Layer):
        def build(self, input_shape: tuple[int, ...]) -> None:
            self.factor = self.add_variable("factor", input_shape[1:], nn.initializer.Constant(2))

        def call(self, x: Value) -> Value:
            return x * self.factor

    model = nn.model.SequentialModel([-1, 3], [Scale(), Scale()])
    model.setup(nn.loss.MSELoss())
    assert [variable.name for variable in model.trainable_variables()] == ["scale_1/factor", "scale_2/factor"]
    assert model.predict([[1, 2, 3]]).tolist() == [[4, 8, 12]]


def test_a_layer_may_give_back_its_input() -> None:
    class Nothing(Layer):
        def call(self, x: Value) -> Value:
            return x

    model = nn.model.SequentialModel([-1, 2], [Nothing()])
    model.setup(nn.loss.MSELoss())
    assert model.predict([[1, 2]]).tolist() == [[1, 2]]
    assert "nothing_1 (Nothing)" in model.summary()


def test_inputs_in_the_constructor() -> None:
    x = Placeholder([-1, 4])
    assert Dense(inputs=x, units=3).shape == (-1, 3)
    assert Flatten(inputs=Reshape([2, 2], inputs=x)).shape == (-1, 4)
    with pytest.raises(TypeError, match="Dense is called on a value of a graph, got int"):
        Dense(3, inputs=4)
    assert "inputs" not in str(inspect.signature(Dense))


def test_a_layer_of_one_input_refuses_several() -> None:
    x = Placeholder([-1, 4])
    with pytest.raises(ValueError, match="Dense: expected one value, got 2"):
        Dense(3)([x, x])
    with pytest.raises(ValueError, match="Dense: expected one value, got 0"):
        Dense(3)([])
