"""Export to ONNX: every kind of layer, activation and operation gives in onnxruntime what it gives here, to 1e-5."""

from collections.abc import Callable
from typing import Any

import numpy as np
import pytest

import nn
from nn.arrays import Array
from nn.model import Model
from nn.onnx import messages
from nn.operation.convolution import Convolution
from nn.operation.operation import Operation
from nn.value import Buffer, Value
from tests.contract.kinds import public_kinds
from tests.contract.nn_rows import ACTIVATIONS, LAYERS, OPERATIONS, GraphRow

ROWS = [*LAYERS, *ACTIVATIONS, *OPERATIONS]


def model_of(apply: Callable[[Value], Any], sample: Any, dtype: str = "float32") -> Model:
    """Return a model that applies something to its input, with statistics and weights that are not those of the beginning."""

    class Applied(Model):
        def call(self, x: Value) -> Value:
            made: Value = apply(x)
            return made

    model = Applied([-1, *sample], seed=3, dtype=dtype)
    model._build_if_known()
    generator = np.random.default_rng(5)
    for variable in model.store.everything:
        moved = generator.uniform(0.05, 0.5, variable.shape)
        variable.set_value(moved + (variable.value if not isinstance(variable, Buffer) else 0.1))
    return model


def run(data: bytes, *inputs: Array) -> list[Array]:
    """Return what onnxruntime computes by a file."""
    runtime = pytest.importorskip("onnxruntime", reason="onnxruntime is not installed (extra onnx)")
    runtime.set_default_logger_severity(3)
    session = runtime.InferenceSession(data, providers=["CPUExecutionProvider"])
    found: list[Array] = session.run(None, dict(zip([each.name for each in session.get_inputs()], inputs, strict=True)))
    return found


def assert_equal(found: Array, expected: Array) -> None:
    """Both are equal to 1e-5, of the greatest number where that is above 1: the rounding of a sum goes by its terms."""
    assert found.shape == expected.shape
    np.testing.assert_allclose(found, expected, rtol=1e-5, atol=1e-5 * max(1.0, float(np.abs(expected).max())))


def test_every_operation_has_a_form() -> None:
    from nn.onnx.operators import CONVERTERS, FUNCTIONS, ROWS

    known = {*CONVERTERS, *FUNCTIONS, *ROWS}
    assert sorted(kind.__name__ for kind in public_kinds(Operation, nn) if kind not in known) == []


@pytest.mark.parametrize("row", ROWS, ids=lambda row: f"{row.kind.__name__} {row.label}")
def test_onnxruntime_gives_the_same(row: GraphRow) -> None:
    if (row.kind, row.label) == (nn.operation.Reshape, "in place"):
        pytest.skip("gives several rows for each sample, which no model does")
    pytest.importorskip("onnxruntime", reason="onnxruntime is not installed (extra onnx)")
    model = model_of(row.applied(), row.sample)
    x = row.draw(np.random.default_rng(1), (5, *row.sample)).astype(np.float32)
    assert_equal(run(nn.onnx.to_bytes(model), x)[0], model.predict(x))


def test_the_file_holds_names_shapes_and_weights() -> None:
    title, body = nn.Input([-1, 4], name="title"), nn.Input([-1, None, 3], name="body")
    mean = nn.layer.GlobalAveragePool()(nn.layer.Dense(4, "tanh", name="steps")(body))
    model = Model([title, body], {"sum": title + mean, "mean": mean})
    file = messages.Model.read(nn.onnx.to_bytes(model))
    assert file.graph is not None
    assert [(each.domain, each.version) for each in file.opset_import] == [("", 20)]
    shapes = {}
    for value in [*file.graph.input, *file.graph.output]:
        axes = value.type.tensor_type.shape.dim  # type: ignore[union-attr]
        shapes[value.name] = [axis.dim_param or axis.dim_value for axis in axes]
    assert shapes == {
        "title": ["batch", 4], "body": ["batch", "body_length_1", 3], "sum": ["batch", 4], "mean": ["batch", 4],
    }  # fmt: skip
    stored = {each.name: messages.to_array(each, None) for each in file.graph.initializer}
    for variable in model.store.everything:
        np.testing.assert_array_equal(stored[variable.name], variable.value)


def test_operations_of_images_lie_side_by_side_in_the_order_of_onnx() -> None:
    layers = [nn.layer.Conv2D(4, 3, activation="relu"), nn.layer.BatchNorm(), nn.layer.Conv2D(2, 3), nn.layer.Flatten()]
    model = nn.model.SequentialModel([-1, 8, 8, 3], layers)
    model.setup(nn.loss.MSELoss())
    file = messages.Model.read(nn.onnx.to_bytes(model))
    assert file.graph is not None
    # One change of the order at the beginning, and one back before rows are made of images.
    kinds = ["Transpose", "Conv", "Relu", "BatchNormalization", "Conv", "Transpose", "Reshape"]
    assert [node.op_type for node in file.graph.node] == kinds


class Odd(nn.activation.Activation):
    def forward(self, inputs: Any, out: Array) -> None:
        np.copyto(out, inputs[0])

    def derive(self, x: Array, output: Array, gradient: Array, out: Array) -> None:
        np.copyto(out, gradient)


class Twice(Convolution):
    pass


@pytest.mark.parametrize(
    ("apply", "sentence"),
    [
        (
            nn.layer.Dense(3, Odd(), name="odd"),
            "odd: an ONNX file has the operations of nn, got Odd, which is none; compute it",
        ),
        (lambda x: x[:, :, None].apply(Twice([1]), nn.Variable([2, 1, 3])), "the model: .*, got Twice, which is none"),
        (lambda x: nn.layer.SimpleRNN(2, Odd(), name="memory")(x[:, None]), "memory: .*, got Odd, which is none"),
    ],
)
def test_operations_of_ones_own_are_refused_by_name(apply: Any, sentence: str) -> None:
    with pytest.raises(ValueError, match=sentence):
        nn.onnx.to_bytes(model_of(apply, (4,)))


def test_only_models_with_variables_are_exported() -> None:
    with pytest.raises(TypeError, match=r"nn\.onnx\.save\(\) 'model' must be an instance of Network, got str 'model'"):
        nn.onnx.to_bytes("model")  # type: ignore[arg-type]
    with pytest.raises(ValueError, match="setup"):
        nn.onnx.to_bytes(nn.model.SequentialModel(None, [nn.layer.Dense(2)]))


@pytest.mark.parametrize("length", [4, 9])
def test_axes_of_any_length_stay_open(length: int) -> None:
    def apply(x: Value) -> Value:
        y = nn.layer.Conv1D(6, 3, padding="same", stride=2)(nn.layer.Conv1D(6, 3, padding="causal")(x))
        y = nn.layer.MultiHeadAttention(2, 3, causal=True)(nn.layer.UpSampling(2)(nn.layer.MaxPool(2, padding="same")(y)))
        y = nn.layer.Bidirectional(nn.layer.GRU(4, return_sequences=True))(y)
        return y[:, ::-1][:, :1] + nn.layer.GlobalMaxPool(keepdims=True)(nn.layer.LSTM(8, return_sequences=True)(y))

    entry = nn.Input([-1, None, 5])
    model = Model(entry, apply(entry))
    x = np.random.default_rng(0).normal(size=(3, length, 5)).astype(np.float32)
    assert_equal(run(nn.onnx.to_bytes(model), x)[0], model.predict(x))


def test_masks_of_sequences_and_states_that_are_given() -> None:
    x = nn.Input([-1, None, 3])
    steps, h, c = nn.layer.LSTM(4, return_sequences=True, return_state=True)(nn.layer.Masking()(x))
    again = nn.layer.LSTM(4, return_state=True)(steps, initial_state=[h, c])
    gated, state = nn.layer.GRU(4, return_state=True)(steps, initial_state=h)
    simple = nn.layer.SimpleRNN(4, "softsign", return_sequences=True)(steps, initial_state=c)
    model = Model(x, [*again, gated, state, simple])
    data = np.random.default_rng(0).normal(size=(3, 6, 3)).astype(np.float32)
    data[1, 4:] = data[2, 2] = 0
    for found, expected in zip(run(nn.onnx.to_bytes(model), data), model.predict(data), strict=True):
        assert_equal(found, expected)
