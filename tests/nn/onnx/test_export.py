"""Files that are written: names, shapes, the order of axes, and what is refused. `test_onnxruntime.py` runs them."""

from typing import Any

import numpy as np
import pytest

import nn
from nn.arrays import Array
from nn.model import Model
from nn.onnx import messages
from nn.operation.convolution import Convolution
from nn.operation.operation import Operation
from tests.contract.kinds import public_kinds
from tests.nn.onnx.rows import model_of


def test_every_operation_has_a_form() -> None:
    from nn.onnx.operators import CONVERTERS
    from nn.onnx.operators.elements import FUNCTIONS, ROWS

    known = {*CONVERTERS, *FUNCTIONS, *ROWS}
    assert sorted(kind.__name__ for kind in public_kinds(Operation, nn) if kind not in known) == []


def test_the_file_holds_names_shapes_and_weights() -> None:
    title, body = nn.Input([-1, 4], name="title"), nn.Input([-1, None, 3], name="body")
    mean = nn.layer.GlobalAveragePool()(nn.layer.Dense(4, "tanh", name="steps")(body))
    model = Model([title, body], {"sum": title + mean, "mean": mean})
    file = messages.ModelProto.read(nn.onnx.to_bytes(model))
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
    file = messages.ModelProto.read(nn.onnx.to_bytes(model))
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
