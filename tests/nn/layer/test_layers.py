"""Layers: variables and shapes of Keras, first values, dropout, and what the contract tables and torch do not ask."""

from __future__ import annotations

import inspect
import warnings
from collections.abc import Sequence
from typing import Any, ClassVar

import numpy as np
import pytest

import nn
from nn.arrays import Array
from nn.initializer import Constant
from nn.layer import (
    GRU,
    LSTM,
    Add,
    AveragePool,
    BatchNorm,
    Concatenate,
    Conv1D,
    Conv2D,
    Dense,
    Dropout,
    Embedding,
    Flatten,
    GlobalAveragePool,
    Layer,
    LayerNorm,
    MaxPool,
    MultiHeadAttention,
    Recurrent,
    Reshape,
    SimpleRNN,
)  # fmt: skip
from nn.operation import Attention, DropoutOperation, Mode
from nn.random import keyed
from nn.testing import check_gradients
from nn.value import Placeholder, Value
from tests.contract.nn_rows.layers import attended
from tests.nn.graphs import Compiled

RECURRENT = pytest.mark.parametrize("kind", [SimpleRNN, LSTM, GRU])


@pytest.mark.parametrize(
    ("layer", "sample", "output", "variables"),
    [
        (Dense(3), (7, 5), (7, 3), "dense/kernel (5, 3) dense/bias (3,)"),
        (Reshape([2, -1]), (4, 3), (2, 6), ""),
        (Flatten(), (4, 3), (12,), ""),
        (Embedding(5, 3), (), (3,), "embedding/embeddings (5, 3)"),
        (BatchNorm(), (3,), (3,),
         "batchnorm/gamma (3,) batchnorm/beta (3,) batchnorm/moving_mean (3,) batchnorm/moving_variance (3,)"),
        (MultiHeadAttention(2, 3, use_bias=False), (6, 5), (6, 5),
         "multiheadattention/query_kernel (5, 2, 3) multiheadattention/key_kernel (5, 2, 3) "
         "multiheadattention/value_kernel (5, 2, 3) multiheadattention/output_kernel (2, 3, 5)"),
        (SimpleRNN(5), (7, 3), (5,), "simplernn/kernel (3, 5) simplernn/recurrent_kernel (5, 5) simplernn/bias (5,)"),
        (LSTM(5, return_sequences=True), (7, 3), (7, 5), "lstm/kernel (3, 20) lstm/recurrent_kernel (5, 20) lstm/bias (20,)"),
        (GRU(5), (7, 3), (5,), "gru/kernel (3, 15) gru/recurrent_kernel (5, 15) gru/bias (2, 15)"),
        (GRU(5, use_bias=False), (7, 3), (5,), "gru/kernel (3, 15) gru/recurrent_kernel (5, 15)"),
        (Conv2D(8), (9, 7, 3), (7, 5, 8), "conv2d/kernel (3, 3, 3, 8) conv2d/bias (8,)"),
        (Conv2D(8, [5, 3], groups=2), (9, 9, 6), (5, 7, 8), "conv2d/kernel (5, 3, 3, 8) conv2d/bias (8,)"),
        (Conv2D(kernel=8, kernel_size=[2, 4], padding="same"), (9, 7, 3), (9, 7, 8), None),
        (Conv2D(8, stride=2, padding="same"), (9, 6, 3), (5, 3, 8), None),
        (Conv2D(8, stride=[2, 1], padding=1), (9, 7, 3), (5, 7, 8), None),
        (Conv2D(8, 1, groups=2), (9, 7, 4), (9, 7, 8), None),
        (Conv1D(8, 5, use_bias=False), (9, 6), (5, 8), "conv1d/kernel (5, 6, 8)"),
        (Conv1D(8, [4], stride=[3], padding="same"), (10, 3), (4, 8), None),
        (MaxPool(), (9, 7, 3), (4, 3, 3), ""),
        (MaxPool(3, 2, "same"), (9, 7, 3), (5, 4, 3), ""),
        (MaxPool(2), (9, 3), (4, 3), ""),
        (AveragePool([3, 1]), (9, 7, 3), (3, 7, 3), ""),
        (GlobalAveragePool(), (9, 7, 3), (3,), ""),
    ],
    ids=lambda value: repr(value) if isinstance(value, Layer) else "",
)  # fmt: skip
def test_shapes_and_variables(layer: Layer, sample: tuple[int, ...], output: tuple[int, ...], variables: str | None) -> None:
    assert layer(Placeholder([-1, *sample])).shape == (-1, *output)
    if variables is not None:
        assert " ".join(f"{variable.name} {variable.shape}" for variable in layer.variables) == variables
    count = len(layer.variables)
    layer(Placeholder([-1, *sample]))
    assert len(layer.variables) == count, "a layer called twice shares its variables"


def test_attention_of_three_sequences_has_variables_of_their_sizes() -> None:
    layer = MultiHeadAttention(2, 3, value_dim=4, output_dim=7)
    assert layer([Placeholder([-1, 6, 5]), Placeholder([-1, 9, 8])]).shape == (-1, 6, 7)
    shapes = [(5, 2, 3), (2, 3), (8, 2, 3), (2, 3), (8, 2, 4), (2, 4), (2, 4, 7), (7,)]
    assert [variable.shape for variable in layer.variables] == shapes


def test_first_values() -> None:
    """Kernels of attention are drawn as matrices, recurrent ones are orthogonal, and an LSTM remembers at first."""
    attention, embedding, recurrent, plain = (
        MultiHeadAttention(8, 16), Embedding(100, 20), LSTM(4), LSTM(4, unit_forget_bias=False, bias_initializer=Constant(0.5)),
    )  # fmt: skip
    for layer, sample in ((attention, (4, 128)), (embedding, (1,)), (recurrent, (2, 3)), (plain, (2, 3))):
        Compiled(layer, sample)
    for kernel in attention.variables[::2]:
        assert 0.95 * np.sqrt(6 / 256) < abs(kernel.value).max() <= np.sqrt(6 / 256)
    table = embedding.embeddings.value
    assert -0.05 <= table.min() < -0.049 < 0.049 < table.max() < 0.05
    assert table.std() == pytest.approx(0.1 / np.sqrt(12), rel=0.05)
    gram = recurrent.recurrent_kernel.value @ recurrent.recurrent_kernel.value.T
    np.testing.assert_allclose(gram, np.eye(4), atol=1e-12)
    assert recurrent.bias.value.tolist() == [0] * 4 + [1] * 4 + [0] * 8
    assert plain.bias.value.tolist() == [0.5] * 16


def dropped(x: Array, rate: float, key: tuple[int, ...], position: int = 0, training: bool = True) -> Array:
    operation, out = DropoutOperation(rate), np.empty_like(x)
    operation.allocate([x.shape], x.shape, x.dtype)
    operation.begin(Mode(training, key), position)
    operation.forward([x], out)
    return out


def test_dropout() -> None:
    """It keeps the mean, drops the rate, is keyed by seed, epoch, batch, block and place, and is off outside training."""
    result = dropped(np.ones((500, 400), np.float32), 0.3, (1, 0, 0, 0))
    assert (result == 0).mean() == pytest.approx(0.3, abs=0.005)
    assert result.mean() == pytest.approx(1, abs=0.01)
    assert set(np.unique(result)) == {0, np.float32(1 / 0.7)}
    x = np.ones((10, 10), np.float32)
    first = dropped(x, 0.5, (1, 2, 3, 4), 5)
    assert np.array_equal(first, dropped(x, 0.5, (1, 2, 3, 4), 5))
    for key, position in [((2, 2, 3, 4), 5), ((1, 0, 3, 4), 5), ((1, 2, 0, 4), 5), ((1, 2, 3, 0), 5), ((1, 2, 3, 4), 6)]:
        assert not np.array_equal(first, dropped(x, 0.5, key, position))
    assert np.array_equal(dropped(x, 0.5, (1, 2, 3, 4), training=False), x)
    model = nn.model.SequentialModel([-1, 10], [Dropout(0.9)])
    model.setup(nn.loss.MSELoss())
    assert np.array_equal(model.predict(x), x)
    assert model.evaluate(x, x) == {"Loss": 0}


def test_layers_of_ones_own() -> None:
    class Scale(Layer):
        def build(self, input_shape: tuple[int, ...]) -> None:
            self.factor = self.add_variable("factor", input_shape[1:], Constant(2))

        def call(self, x: Value) -> Value:
            return x * self.factor

    class Nothing(Layer):
        def call(self, x: Value) -> Value:
            return x

    model = nn.model.SequentialModel([-1, 3], [Scale(), Nothing(), Scale()])
    model.setup(nn.loss.MSELoss())
    assert [variable.name for variable in model.trainable_variables()] == ["scale_1/factor", "scale_2/factor"]
    assert model.predict([[1, 2, 3]]).tolist() == [[4, 8, 12]]
    assert "nothing_1 (Nothing)" in model.summary()


def test_inputs_in_the_constructor() -> None:
    x = Placeholder([-1, 4])
    assert Dense(inputs=x, units=3).shape == (-1, 3)
    assert Flatten(inputs=Reshape([2, 2], inputs=x)).shape == (-1, 4)
    assert "inputs" not in str(inspect.signature(Dense))


X = np.random.default_rng(0).standard_normal((5, 3, 4))


@pytest.mark.parametrize(
    ("build", "expected"),
    [
        (lambda x: Add()([x, x * x, x[:, :1]]), lambda x: x + x * x + x[:, :1]),
        (lambda x: Add()((x, x)), lambda x: 2 * x),
        (lambda x: Add()([x]), lambda x: x),
        # Axes that one of them lacks stand behind the batch.
        (lambda x: Add()([x, x[:, 0]]), lambda x: x + x[:, None, 0]),
        (
            lambda x: nn.layer.Multiply()([x[:, :1, 1], x, x[:, :2, None], x[:, 0, 0]]),
            lambda x: x[:, None, None, :1, 1] * x[:, None] * x[:, :2, None] * x[:, :1, :1, None],
        ),
        *(
            (
                lambda x, axis=axis: Concatenate(axis)([x, x * x, x]),
                lambda x, axis=axis: np.concatenate([x, x * x, x], axis=axis),
            )
            for axis in (1, 2, -1)
        ),
    ],
)
def test_merging(build: Any, expected: Any) -> None:
    check_gradients(build, (3, 4))
    compiled = Compiled(build, (3, 4))
    np.testing.assert_array_equal(compiled.value(X), expected(X))
    assert compiled.graph.output.shape == (-1, *expected(X).shape[1:])


@pytest.mark.parametrize(
    ("wrong", "message"),
    [
        (5, r"Embedding 'words': ids must be from 0 to 4, got 5$"),
        (-1, r"ids must be from 0 to 4, got -1$"),
        (1e30, r"ids must be from 0 to 4, got 1e\+30$"),
        (np.nan, r"ids must be from 0 to 4, got nan$"),
        (np.inf, r"ids must be from 0 to 4, got inf$"),
        (0.4, r"Embedding 'words': ids must be whole numbers, got 0\.4$"),
        (4.25, r"Embedding 'words': ids must be whole numbers, got 4\.25$"),
        (3.9999998, r"Embedding 'words': ids must be whole numbers, got 3\.9999998$"),
    ],
)
def test_ids_that_are_no_rows_are_named(wrong: float, message: str) -> None:
    ids = np.zeros((2, 3))
    ids[1, 2] = wrong
    with pytest.raises(ValueError, match=message):
        Compiled(Embedding(5, 3, name="words"), (3,), np.float32).value(ids)


def test_a_large_id_is_exact_in_float32() -> None:
    compiled = Compiled(Embedding(1_000_003, 1), (1,), np.float32)
    table = compiled.store.variables[0].value
    found = compiled.value(np.array([[1_000_002], [999_999]]))[:, 0]
    assert found.tolist() == [table[1_000_002].tolist(), table[999_999].tolist()]


@pytest.mark.parametrize("causal", [False, True])
def test_attention_to_another_sequence(causal: bool) -> None:
    def build(x: Value) -> Value:
        return MultiHeadAttention(2, 3, causal=causal)([x[:, :2, :3], x[:, 2:], x[:, 2:] * 2])

    layer = MultiHeadAttention(2, 3, causal=causal)
    check_gradients(lambda x: layer([x[:, :2, :3], x[:, 2:], x[:, 2:] * 2]), (6, 4))
    compiled, x = Compiled(build, (6, 4)), np.random.default_rng(0).standard_normal((5, 6, 4))
    variables = [variable.value for variable in compiled.store.variables]
    expected = attended(x[:, :2, :3], *variables, value=x[:, 2:], key=x[:, 2:] * 2, causal=causal)
    np.testing.assert_allclose(compiled.value(x), expected, rtol=1e-12, atol=1e-14)


@pytest.mark.parametrize("dtype", [np.float32, np.float64])
def test_huge_scores_of_attention_do_not_overflow(dtype: Any) -> None:
    compiled = Compiled(lambda x: Attention(causal=True)(x, x, x), (4, 2, 3), dtype)
    x = np.random.default_rng(0).standard_normal((2, 4, 2, 3)) * 1e4
    assert np.isfinite(compiled.value(x)).all()
    assert np.isfinite(compiled.gradients(x)[0]).all()


def test_many_samples_are_attended_to_in_blocks() -> None:
    one, many = Compiled(MultiHeadAttention(4, 8), (40, 16)), Compiled(MultiHeadAttention(4, 8), (40, 16))
    x = np.random.default_rng(0).standard_normal((25, 40, 16))
    apart = np.concatenate([one.value(x[i : i + 1]) for i in range(25)])
    np.testing.assert_allclose(apart, many.value(x), rtol=1e-12, atol=1e-14)
    check_gradients(MultiHeadAttention(4, 2), (60, 3), batches=(11,))


def test_frozen_projections_get_no_gradient() -> None:
    layer = MultiHeadAttention(2, 3)
    layer(Placeholder([-1, 4, 5]))
    for variable in layer.variables[:4]:
        variable.trainable = False
    assert len(Compiled(layer, (4, 5)).gradients(np.random.default_rng(0).standard_normal((2, 4, 5)))[1]) == 4


def test_moving_statistics() -> None:
    """A step tells how they change, the store applies it, prediction uses them, and outside training they are fixed."""
    layer = BatchNorm(momentum=0.75, epsilon=0.5)
    compiled = Compiled(layer, (2, 3))
    x = np.random.default_rng(0).standard_normal((4, 2, 3))
    np.testing.assert_allclose(compiled.value(x), x / np.sqrt(1.5), rtol=1e-12)
    layer.moving_mean.set_value([1.0, 2.0, 3.0])
    layer.moving_variance.set_value([4.0, 0.25, 1.0])
    np.testing.assert_allclose(compiled.value(x), (x - [1, 2, 3]) / np.sqrt([4.5, 0.75, 1.5]), rtol=1e-12)
    compiled.gradients(x)
    assert layer.moving_mean.value.tolist() == [1, 2, 3]
    compiled.store.apply_changes()
    np.testing.assert_allclose(layer.moving_mean.value, 0.75 * np.array([1, 2, 3]) + 0.25 * x.mean(axis=(0, 1)), rtol=1e-12)
    plan, changes = compiled.plan(4), compiled.store.buffer_changes
    changes[:] = 7
    plan.forward((x,), Mode(training=False))
    plan.output_gradient[:] = 2
    plan.backward()
    expected = np.broadcast_to(2 / np.sqrt(layer.moving_variance.value + 0.5), x.shape)
    np.testing.assert_allclose(plan.input_gradient, expected, rtol=1e-12)
    assert not changes.any()


@pytest.mark.parametrize(("layer", "axis"), [(BatchNorm(), 0), (LayerNorm(), 1)])
def test_a_large_mean_does_not_cancel_and_equal_numbers_stay_finite(layer: Layer, axis: int) -> None:
    compiled = Compiled(layer, (256,), np.float32)
    x = (np.random.default_rng(0).standard_normal((512, 256)) + 1000).astype(np.float32)
    exact = x - x.mean(axis=axis, keepdims=True, dtype=np.float64)
    exact /= np.sqrt((exact**2).mean(axis=axis, keepdims=True) + 1e-3)
    np.testing.assert_allclose(compiled.value(x, training=True), exact, atol=2e-3)
    np.testing.assert_allclose(compiled.value(np.full((4, 256), 7.0), training=True), 0, atol=1e-6)


def test_normalisation_over_several_blocks_and_repeats() -> None:
    compiled, x = Compiled(LayerNorm(0.1), (50, 64)), np.random.default_rng(0).standard_normal((30, 50, 64))
    centred = x - x.mean(axis=-1, keepdims=True)
    normal = centred / np.sqrt((centred**2).mean(axis=-1, keepdims=True) + 0.1)
    np.testing.assert_allclose(compiled.value(x), normal, rtol=1e-10, atol=1e-12)
    weights = np.random.default_rng(1).standard_normal(x.shape)
    _, (gamma, beta) = compiled.gradients(x, weights)
    np.testing.assert_allclose(gamma, (normal * weights).sum(axis=(0, 1)), rtol=1e-10, atol=1e-10)
    np.testing.assert_allclose(beta, weights.sum(axis=(0, 1)), rtol=1e-10, atol=1e-10)
    check_gradients(BatchNorm(), (60, 70, 3), batches=(3,))
    check_gradients(LayerNorm(), (150, 100), batches=(3,))


def run(layer: Layer, x: Array, gradient: float = 1.0) -> tuple[Array, Array]:
    """Return the output, and the gradient of x where that of every output is the same."""
    compiled = Compiled(layer, x.shape[1:], x.dtype)
    return compiled.value(x, training=True), compiled.gradients(x, gradient)[0]


def test_windows() -> None:
    """Of equal maxima the first gets the gradient; padding never counts in a pool; 'same' pads below and to the right first."""
    result, gradient = run(MaxPool(2), np.array([[0, 2, 3, 3], [2, 2, 3, 3]], np.float64).reshape(1, 2, 4, 1), 5.0)
    assert result.ravel().tolist() == [2, 3]
    assert gradient[0, :, :, 0].tolist() == [[0, 5, 5, 0], [0, 0, 0, 0]]
    x = np.full((1, 3, 3, 1), -1.0)
    assert (run(MaxPool(2, padding="same"), x)[0] == -1).all()
    assert (run(AveragePool(3, 1, 1), x)[0] == -1).all()
    layer = Conv2D(1, 2, padding="same", kernel_initializer=nn.initializer.Constant(1.0))
    result, _ = run(layer, np.arange(9.0).reshape(1, 3, 3, 1))
    assert result[0, :, :, 0].tolist() == [[8, 12, 7], [20, 24, 13], [13, 15, 8]]


SEQUENCES = keyed(0, "x").standard_normal((5, 6, 3))


@RECURRENT
def test_a_recurrent_layer_reads_sequences_of_any_length_and_number(kind: type[Recurrent]) -> None:
    """A state depends on nothing that comes later, the last is that of all, samples do not see each other."""
    every, last = Compiled(kind(4, return_sequences=True), (6, 3)), Compiled(kind(4), (6, 3))
    states = every.value(SEQUENCES)
    assert np.array_equal(states[:, -1], last.value(SEQUENCES))
    for part in (slice(0, 2), slice(2, 5)):
        np.testing.assert_allclose(last.value(SEQUENCES[part]), states[part, -1], rtol=1e-12)
    shorter = Compiled(kind(4, return_sequences=True), (2, 3)).value(SEQUENCES[:, :2])
    np.testing.assert_allclose(states[:, :2], shorter, rtol=1e-12)
    operation = kind(4).operation()
    assert operation.splits([(-1, 6, 3), (3, 4), (4, 4), (4,)])
    assert not operation.splits([(5, 6, 3), (3, 4), (4, 4), (4,)])
    assert not operation.splits([(-1, 6, 3), (-1, 4), (4, 4)])


@RECURRENT
def test_nothing_is_left_over_from_the_batch_before(kind: type[Recurrent]) -> None:
    """Neither in training, nor in an operation that keeps no history."""
    plan = Compiled(kind(4), (6, 3)).plan(5)

    def run(x: Array) -> list[Array]:
        result = plan.forward((x,), Mode(training=True))[0].copy()
        plan.output_gradient[:] = keyed(1, "x").standard_normal((5, 4))
        plan.backward()
        return [result, plan.input_gradient.copy()]

    first = run(SEQUENCES)
    run(SEQUENCES[::-1] * 100)
    for before, after in zip(first, run(SEQUENCES), strict=True):
        assert np.array_equal(before, after)
    results = []
    for training in (True, False):
        operation = kind(4, return_sequences=True).operation()
        operation.training = training
        inputs = [
            keyed(1, "x").standard_normal(shape) for shape in ((5, 6, 3), (3, 4 * operation.gates), (4, 4 * operation.gates))
        ]
        output = np.empty((5, 6, 4))
        operation.allocate([array.shape for array in inputs], output.shape, output.dtype)
        operation.forward([SEQUENCES, *inputs[1:]], output)
        operation.forward(inputs, output)
        results.append(output)
    assert np.array_equal(*results)


@RECURRENT
@pytest.mark.parametrize("dtype", [np.float32, np.float64])
@pytest.mark.parametrize("scale", [1e3, 1e30])
def test_saturated_units_neither_overflow_nor_warn(kind: type[Recurrent], dtype: type[Any], scale: float) -> None:
    plan = Compiled(kind(4, return_sequences=True), (6, 3), dtype).plan(5)
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        assert np.abs(plan.forward(((SEQUENCES * scale).astype(dtype),), Mode(training=True))[0]).max() <= 1
        plan.output_gradient[:] = 1
        plan.backward()
    assert np.isfinite(plan.input_gradient).all()


@RECURRENT
def test_variables_that_are_not_trained_get_no_gradient(kind: type[Recurrent]) -> None:
    """Backward fills exactly what is wanted, and what it fills does not depend on the rest."""
    operation, generator = kind(4).operation(), keyed(0, "x")
    columns = 4 * operation.gates
    shapes = [(5, 6, 3), (3, columns), (4, columns), (columns,) if operation.biases == 1 else (2, columns)]
    inputs = [generator.standard_normal(shape) for shape in shapes]
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


@RECURRENT
def test_two_layers_on_top_of_each_other_learn_to_remember(kind: type[Recurrent]) -> None:
    """Which of three symbols came first, six steps ago."""
    symbols = keyed(0, "symbols").integers(0, 3, (300, 6))
    layers = [kind(16, return_sequences=True), kind(16), Dense(3, activation=nn.activation.Softmax())]
    model = nn.model.SequentialModel([-1, 6, 3], layers, seed=1)
    model.setup(nn.loss.Cross_Entropy_With_Softmax(), nn.metric.CategoricalAccuracy())
    model.compile(nn.gradient_descent.ADAMOptimizer(0.02))
    x = np.eye(3, dtype=np.float32)[symbols]
    model.fit(x, symbols[:, 0], epoch=15, batch_size=32, verbose=0)
    assert model.evaluate(x, symbols[:, 0])["accuracy"] > 0.98


@pytest.mark.parametrize(
    ("kind", "gates", "states"),
    [(LSTM, [-18, 3, 1, 20], [0, 0]), (GRU, [-18, 0, 0], [1])],  # into an empty cell; all that is left of a state
)
def test_gates_have_all_digits_where_they_are_nearly_closed(kind, gates, states):
    """Sums over long sequences consist of what small gates let through: of sigmoid(-18) float32 has seven digits, not one."""
    outputs = []
    for dtype in ("float32", "float64"):
        x, *first = nn.Input([-1, 1, 1], name="x"), *(nn.Input([-1, 1], name=f"state {place}") for place in range(len(states)))
        model = nn.model.Model([x, *first], kind(1, use_bias=False)(x, initial_state=first), dtype=dtype)
        kernel, recurrent = model.store.variables
        kernel.set_value(np.array([gates], dtype))
        recurrent.set_value(np.zeros_like(recurrent.value))
        outputs.append(float(model.predict([np.ones((1, 1, 1)), *(np.full((1, 1), state) for state in states)])[0, 0]))
    assert outputs[1] < 1e-7
    np.testing.assert_allclose(outputs[0], outputs[1], rtol=1e-5)
