from __future__ import annotations

import warnings
from collections.abc import Sequence
from typing import Any, ClassVar

import numpy as np
import pytest

import nn
from nn.arrays import Array
from nn.initializer import Constant
from nn.layer import GRU, LSTM, Recurrent, SimpleRNN
from nn.operation import Mode, Operation
from nn.operation.recurrent import GRUOperation, LSTMOperation
from nn.plan import Plan
from nn.random import keyed
from nn.testing import check_gradients
from nn.value import Graph, Node, Placeholder, VariableStore

KINDS = pytest.mark.parametrize("kind", [SimpleRNN, LSTM, GRU])


def planned(layer: Recurrent, shape: tuple[int, int, int], dtype: type[Any] = np.float64, training: bool = True) -> Plan:
    placeholder = Placeholder((-1, *shape[1:]))
    output = layer(placeholder)
    assert isinstance(output, Node)
    if not layer.variables[0].bound:
        VariableStore(layer.variables, [], np.dtype(dtype), 0)
    return Plan(Graph(placeholder, output), shape, np.dtype(dtype), training=training, input_gradient=training)


@pytest.mark.parametrize(
    ("kind", "gates", "bias"), [(SimpleRNN, 1, (5,)), (LSTM, 4, (20,)), (GRU, 3, (2, 15))], ids=["SimpleRNN", "LSTM", "GRU"]
)
def test_variables_have_the_order_and_shapes_of_keras(kind: type[Recurrent], gates: int, bias: tuple[int, ...]) -> None:
    layer = kind(5)
    assert layer(Placeholder([-1, 7, 3])).shape == (-1, 5)
    names = [variable.name.split("/")[1] for variable in layer.variables]
    assert names == ["kernel", "recurrent_kernel", "bias"]
    assert [variable.shape for variable in layer.variables] == [(3, 5 * gates), (5, 5 * gates), bias]
    assert kind(5, return_sequences=True)(Placeholder([-1, 7, 3])).shape == (-1, 7, 5)
    without = kind(5, use_bias=False)
    without(Placeholder([-1, 7, 3]))
    assert len(without.variables) == 2


@KINDS
def test_wrong_inputs_name_the_layer(kind: type[Recurrent]) -> None:
    for shape in ([-1, 4], [-1, 3, 4, 4]):
        with pytest.raises(ValueError, match=rf"{kind.__name__}: expected inputs of shape \(batch, time, features\), got"):
            kind(3)(Placeholder(shape))
    layer = kind(3, name="reader")
    layer(Placeholder([-1, 7, 4]))
    with pytest.raises(
        ValueError, match=rf"{kind.__name__} 'reader': expected inputs with 4 features on axis 2, got shape \(-1, 7, 5\)"
    ):
        layer(Placeholder([-1, 7, 5]))
    with pytest.raises(ValueError, match=rf"{kind.__name__} 'reader': expected inputs of shape .*, got \(-1, 4\)"):
        layer(Placeholder([-1, 4]))


def test_an_operation_refuses_variables_that_do_not_fit() -> None:
    with pytest.raises(ValueError, match=r"LSTMOperation: the kernel must have shape \(3, 8\), got \(3, 9\)"):
        LSTMOperation().infer((-1, 5, 3), (3, 9), (2, 8))
    with pytest.raises(ValueError, match=r"GRUOperation: the bias must have shape \(2, 6\), got \(6,\)"):
        GRUOperation().infer((-1, 5, 3), (3, 6), (2, 6), (6,))


def test_first_values_are_those_of_keras() -> None:
    layer = LSTM(4)
    planned(layer, (1, 2, 3))
    assert layer.bias.value.tolist() == [0] * 4 + [1] * 4 + [0] * 8
    recurrent = layer.recurrent_kernel.value
    np.testing.assert_allclose(recurrent @ recurrent.T, np.eye(4), atol=1e-12)
    plain = LSTM(4, unit_forget_bias=False, bias_initializer=Constant(0.5))
    planned(plain, (1, 2, 3))
    assert plain.bias.value.tolist() == [0.5] * 16


@KINDS
def test_the_last_state_is_the_last_of_all_states(kind: type[Recurrent]) -> None:
    x = keyed(0, "x").standard_normal((5, 6, 3))
    every = planned(kind(4, return_sequences=True), x.shape).forward(x, Mode())
    last = planned(kind(4), x.shape).forward(x, Mode())
    assert every.shape == (5, 6, 4)
    assert np.array_equal(every[:, -1], last)


@KINDS
def test_one_layer_reads_sequences_of_any_length(kind: type[Recurrent]) -> None:
    """Its variables do not depend on the length of time; a state depends on nothing that comes later."""
    x = keyed(0, "x").standard_normal((5, 6, 3))
    layer = kind(4, return_sequences=True)
    longer = planned(layer, (5, 6, 3)).forward(x, Mode())
    shorter = planned(layer, (5, 2, 3)).forward(x[:, :2], Mode())
    np.testing.assert_allclose(longer[:, :2], shorter, rtol=1e-12)


@KINDS
def test_nothing_is_left_over_from_the_batch_before(kind: type[Recurrent]) -> None:
    generator = keyed(0, "x")
    plan = planned(kind(4), (5, 6, 3))
    x, weights = generator.standard_normal((5, 6, 3)), generator.standard_normal((5, 4))

    def run(x: Array) -> list[Array]:
        result = plan.forward(x, Mode(training=True)).copy()
        plan.output_gradient[:] = weights
        plan.backward()
        assert plan.input_gradient is not None
        return [result, plan.input_gradient.copy()]

    first = run(x)
    run(generator.standard_normal(x.shape) * 100)
    for before, after in zip(first, run(x), strict=True):
        assert np.array_equal(before, after)


@KINDS
@pytest.mark.parametrize("dtype", [np.float32, np.float64])
@pytest.mark.parametrize("scale", [1e3, 1e30])
def test_saturated_units_neither_overflow_nor_warn(kind: type[Recurrent], dtype: type[Any], scale: float) -> None:
    plan = planned(kind(4, return_sequences=True), (5, 6, 3), dtype)
    x = (keyed(0, "x").standard_normal((5, 6, 3)) * scale).astype(dtype)
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        assert np.abs(plan.forward(x, Mode(training=True))).max() <= 1
        plan.output_gradient[:] = 1
        plan.backward()
    assert plan.input_gradient is not None
    assert np.isfinite(plan.input_gradient).all()


@KINDS
def test_variables_that_are_not_trained_get_no_gradient(kind: type[Recurrent]) -> None:
    """Backward fills exactly what is wanted, and what it fills does not depend on the rest."""
    operation = kind(4).operation()
    generator = keyed(0, "x")
    columns = 4 * operation.gates
    bias = (columns,) if operation.biases == 1 else (2, columns)
    inputs = [generator.standard_normal(shape) for shape in ((5, 6, 3), (3, columns), (4, columns), bias)]
    shapes = [array.shape for array in inputs]
    output = np.empty(operation.infer(*shapes))
    operation.allocate(shapes, output.shape, output.dtype)
    operation.forward(inputs, output)
    gradient = generator.standard_normal(output.shape)
    full: list[Array] = [np.empty(shape) for shape in shapes]
    operation.backward(inputs, output, gradient, full)
    for place in range(4):
        wanted: list[Array | None] = [None] * 4
        alone = wanted[place] = np.empty(shapes[place])
        operation.backward(inputs, output, gradient, wanted)
        assert np.array_equal(alone, full[place])


@KINDS
def test_samples_do_not_see_each_other(kind: type[Recurrent]) -> None:
    operation: Operation = kind(4).operation()
    assert operation.splits([(-1, 6, 3), (3, 4), (4, 4), (4,)])
    assert not operation.splits([(5, 6, 3), (3, 4), (4, 4), (4,)])
    assert not operation.splits([(-1, 6, 3), (-1, 4), (4, 4)])
    x = keyed(0, "x").standard_normal((5, 6, 3))
    layer = kind(4)
    whole = planned(layer, (5, 6, 3)).forward(x, Mode())
    for start, stop in ((0, 2), (2, 5)):
        part = planned(layer, (stop - start, 6, 3)).forward(x[start:stop], Mode())
        np.testing.assert_allclose(part, whole[start:stop], rtol=1e-12)


@KINDS
def test_without_backward_there_is_no_history(kind: type[Recurrent]) -> None:
    generator = keyed(0, "x")
    results = []
    for training in (True, False):
        operation = kind(4, return_sequences=True).operation()
        operation.training = training
        columns = 4 * operation.gates
        inputs = [keyed(1, "x").standard_normal(shape) for shape in ((5, 6, 3), (3, columns), (4, columns))]
        output = np.empty((5, 6, 4))
        operation.allocate([array.shape for array in inputs], output.shape, output.dtype)
        operation.forward([generator.standard_normal((5, 6, 3)), *inputs[1:]], output)
        operation.forward(inputs, output)
        results.append(output)
    assert np.array_equal(*results)


class Square(nn.activation.Activation):
    """x^2 / 2, which can only be derived from its input, and keeps something from forward to backward."""

    in_place: ClassVar[bool] = False
    reads_inputs: ClassVar[bool] = True
    reads_output: ClassVar[bool] = False

    def allocate(self, shapes: Sequence[tuple[int, ...]], output: tuple[int, ...], dtype: np.dtype[Any]) -> None:
        self._kept = np.empty(output, dtype)
        self._space = self.scratch.empty(output, dtype)

    def forward(self, inputs: Sequence[Array], out: Array) -> None:
        np.copyto(self._kept, inputs[0])
        np.multiply(inputs[0], inputs[0], out=out)
        np.multiply(out, 0.5, out=out)

    def derive(self, x: Array, output: Array, gradient: Array, out: Array) -> None:
        assert np.array_equal(self._kept, x)
        np.multiply(gradient, x, out=self._space)
        np.copyto(out, self._space)


@pytest.mark.parametrize("activation", [nn.activation.ReLU(), nn.activation.Sigmoid(), nn.activation.Linear(), Square()])
def test_a_simple_rnn_takes_any_activation(activation: nn.activation.Activation) -> None:
    check_gradients(SimpleRNN(3, activation, return_sequences=True), (4, 2))


@KINDS
def test_two_layers_on_top_of_each_other_learn_to_remember(kind: type[Recurrent]) -> None:
    """Which of three symbols came first, six steps ago."""
    generator = keyed(0, "symbols")
    symbols = generator.integers(0, 3, (300, 6))
    model = nn.model.SequentialModel([-1, 6, 3], seed=1)
    model.add(kind(16, return_sequences=True))
    model.add(kind(16))
    model.add(nn.layer.Dense(3, activation=nn.activation.Softmax()))
    model.setup(nn.loss.Cross_Entropy_With_Softmax(), nn.metric.CategoricalAccuracy())
    model.compile(nn.gradient_descent.ADAMOptimizer(0.02))
    x = np.eye(3, dtype=np.float32)[symbols]
    model.fit(x, symbols[:, 0], epoch=15, batch_size=32, verbose=0)
    assert model.evaluate(x, symbols[:, 0])["accuracy"] > 0.98
