"""Files that are read: all that nn writes comes back, with its weights to be trained; what is wrong is told in a sentence."""

from pathlib import Path
from typing import Any

import numpy as np
import pytest

import nn
from nn.arrays import Array
from nn.model import Model, ModelFileError
from nn.onnx import messages
from nn.onnx.messages import AttributeProto, GraphProto, NodeProto, TensorProto, ValueInfo
from tests.contract.nn_rows import GraphRow
from tests.nn.onnx.files import file_of, info, node
from tests.nn.onnx.foreign import FOREIGN, Foreign, body
from tests.nn.onnx.rows import ROWS, assert_equal, model_of, name_of, samples

ACROSS = "over the batch", "everything"


FIRST = {row.kind: row.label for row in reversed(ROWS)}
"""The row of each kind that runs in the gate: each is written in a way of its own."""


@pytest.mark.parametrize(
    "row",
    [pytest.param(row, id=name_of(row), marks=[pytest.mark.long] * (row.label != FIRST[row.kind])) for row in ROWS],
)
def test_what_is_written_is_read(row: GraphRow) -> None:
    model, x = model_of(row.applied(), row.sample), samples(row)
    data = nn.onnx.to_bytes(model)
    if row.label in ACROSS and row.kind is not nn.operation.MatMul:
        with pytest.raises(ModelFileError, match=r"node '.+' \(\w+\): a reduction must"):
            nn.onnx.from_bytes(data)
        return
    assert_equal(nn.onnx.from_bytes(data).predict(x), model.predict(x))


@pytest.mark.parametrize(
    ("shared", "shape"),
    [((1, 2), [-1, 6, 5, 2]), ((), [-1, 6, 5, 2]), ((3,), [-1, 6, 5, 2]), ((1,), [-1, 6, 2]), ((), [-1, 4])],
)
def test_trained_slopes_are_one_operation_again(shared: tuple[int, ...], shape: list[int]) -> None:
    """In front of convolutions and behind them, with slopes of a channel, a pixel, or a row."""
    convolution = {4: nn.layer.Conv2D, 3: nn.layer.Conv1D}.get(len(shape))
    slopes = nn.layer.PReLU(shared_axes=shared, alpha_initializer=nn.initializer.Normal(std=0.5))
    layers = [nn.layer.Dense(3), slopes] if convolution is None else [convolution(4, 3), slopes, convolution(2, 2)]
    model = nn.model.SequentialModel(shape, layers)
    model.compile("sgd", "mse")
    other = nn.onnx.from_bytes(nn.onnx.to_bytes(model))
    applied = [type(each.operation) for each in other.graph.nodes]
    assert applied.count(nn.operation.ParametricRectify) == 1 and nn.activation.ReLU not in applied
    x = np.random.default_rng(0).normal(size=(5, *shape[1:])).astype(np.float32)
    assert np.array_equal(other.predict(x), model.predict(x))
    assert np.array_equal(Model.from_bytes(other.to_bytes()).predict(x), model.predict(x))


def network() -> Model:
    layers = [
        nn.layer.Conv2D(4, 3, padding="same", activation="relu", name="first"), nn.layer.MaxPool(), nn.layer.BatchNorm(),
        nn.layer.Conv2D(6, 3, stride=2, padding=1), nn.layer.Flatten(), nn.layer.Dense(5, name="head"),
    ]  # fmt: skip
    model = nn.model.SequentialModel([-1, 8, 8, 3], layers)
    model.compile("sgd", nn.loss.MSELoss())
    return model


X = np.random.default_rng(0).normal(size=(6, 8, 8, 3)).astype(np.float32)


def test_layers_have_their_names_and_train_as_before(tmp_path: Path) -> None:
    model = network()
    nn.onnx.save(model, tmp_path / "model.onnx")
    other = nn.onnx.load(tmp_path / "model.onnx")
    assert [layer.name for layer in other.layers] == ["first", "batchnorm_1", "conv2d_1", "head"]
    assert {each.name: each.shape for each in other.store.everything} == {
        each.name: each.shape for each in model.store.everything
    }
    other.compile("sgd", nn.loss.MSELoss())
    for each in (model, other):
        each.fit(X, np.ones((6, 5)), epochs=3, batch_size=3, verbose=0)
    for variable, same in zip(model.store.everything, other.store.everything, strict=True):
        np.testing.assert_allclose(same.value, variable.value, atol=1e-6)


def test_the_model_is_saved_with_and_without_a_loss(tmp_path: Path) -> None:
    other = nn.onnx.from_bytes(nn.onnx.to_bytes(network()))
    other.save(tmp_path / "a.model")
    np.testing.assert_array_equal(Model.load(tmp_path / "a.model").predict(X), other.predict(X))
    other.compile("sgd", nn.loss.MSELoss())
    other.save(tmp_path / "b.model")
    np.testing.assert_array_equal(Model.load(tmp_path / "b.model").predict(X), other.predict(X))


def test_layers_that_are_used_twice_are_one(tmp_path: Path) -> None:
    x, dense, lstm = nn.Input([-1, 5, 4]), nn.layer.Dense(4), nn.layer.LSTM(4, return_sequences=True)
    model = Model(x, lstm(lstm(dense(dense(x)))))
    other = nn.onnx.from_bytes(nn.onnx.to_bytes(model))
    assert [layer.name for layer in other.layers] == ["dense_1", "lstm_1"]
    data = np.random.default_rng(0).normal(size=(2, 5, 4))
    assert_equal(other.predict(data), model.predict(data))


ROW = np.arange(8, dtype=np.float32).reshape(2, 4) / 7


@pytest.mark.parametrize(
    ("nodes", "tensors", "value"),
    [
        # shapes that are computed from those of the input, as torch writes them
        (
            [
                node("Shape", "x", "shape"), node("Gather", "shape zero", "length", axis=0),
                node("Unsqueeze", "length axis", "a"), node("Concat", "a two rest", "whole", axis=0),
                node("Reshape", "x whole", "y"),
            ],
            {"zero": np.int64(0), "axis": np.int64([0]), "two": np.int64([2]), "rest": np.int64([-1])},
            lambda x: x.reshape(-1, 2, 2),
        ),
        (
            [node("Shape", "x", "shape"), node("Equal", "shape wanted", "same"), node("Where", "same ones shape", "whole"),
             node("Expand", "row whole", "wide"), node("Add", "x wide", "y")],
            {"wanted": np.int64([-1, -1]), "ones": np.int64([1, 1]), "row": np.float32([[1, 2, 3, 4]])},
            lambda x: x + np.arange(1, 5),
        ),
        ([node("Clip", "x low high", "y")], {"low": np.float32(0.2), "high": np.float32(0.5)}, lambda x: np.clip(x, 0.2, 0.5)),
        ([node("Gemm", "x w c", "y", alpha=0.5, beta=2.0, transB=1)],
         {"w": np.ones((3, 4), np.float32), "c": np.float32([1, 2, 3])}, lambda x: 0.5 * x @ np.ones((4, 3)) + [2, 4, 6]),
        ([node("Pad", "x pads", "y", mode="reflect")], {"pads": np.int64([0, 2, 0, 3])},
         lambda x: np.pad(x, [(0, 0), (2, 3)], mode="reflect")),
        ([node("Pad", "x pads seven", "y")], {"pads": np.int64([0, -1, 0, 2]), "seven": np.float32(7)},
         lambda x: np.pad(x[:, 1:], [(0, 0), (0, 2)], constant_values=7)),
        ([node("Split", "x", "a b", axis=1, num_outputs=2), node("Sub", "b a", "y")], {}, lambda x: x[:, 2:] - x[:, :2]),
        ([node("ReduceL2", "x axes", "y")], {"axes": np.int64([1])}, lambda x: np.linalg.norm(x, axis=1, keepdims=True)),
        ([node("Cast", "x", "b", to=9), node("Not", "b", "n"), node("Cast", "n", "y", to=1)], {}, lambda x: x == 0),
        ([node("Cast", "x", "ids", to=7), node("Gather", "table ids", "y")], {"table": np.eye(3, dtype=np.float32)},
         lambda x: np.eye(3)[x.astype(int)]),
        ([node("LeakyRelu", "x", "a", alpha=1.5), node("HardSigmoid", "a", "y")], {}, lambda x: np.clip(0.2 * x + 0.5, 0, 1)),
        ([node("Unsqueeze", "x axes", "a"), node("Tile", "a times", "b"), node("ReduceMax", "b one", "y", keepdims=0)],
         {"axes": np.int64([1]), "times": np.int64([1, 3, 2]), "one": np.int64([1])}, lambda x: np.tile(x, 2)),
    ],
)  # fmt: skip
def test_operators_that_nn_does_not_write(nodes: list[NodeProto], tensors: dict[str, Array], value: Any) -> None:
    x = np.round(ROW) if "table" in tensors else ROW
    assert_equal(nn.onnx.from_bytes(file_of(*nodes, tensors=tensors)).predict(x), np.asarray(value(x), np.float32))


@pytest.mark.parametrize("case", FOREIGN, ids=lambda case: case.name)
def test_operators_of_other_exporters(case: Foreign) -> None:
    with np.errstate(invalid="ignore"):
        assert_equal(nn.onnx.from_bytes(case.data()).predict(case.x()), case.expected())


@pytest.mark.parametrize("case", [case for case in FOREIGN if case.name.startswith(("transposed", "Atan", "greatest of"))],
                         ids=lambda case: case.name)  # fmt: skip
def test_operators_that_become_several_are_written_again(case: Foreign) -> None:
    model = nn.onnx.from_bytes(case.data())
    assert_equal(nn.onnx.from_bytes(nn.onnx.to_bytes(model)).predict(case.x()), case.expected())


def test_weights_of_a_loop_are_those_of_one_layer_and_train() -> None:
    case = next(case for case in FOREIGN if case.name == "a cell in a Scan")
    model: Any = nn.onnx.from_bytes(case.data())
    assert sorted(variable.shape for variable in model.trainable_variables()) == [(3, 3), (4, 3)]
    model.compile("sgd", "mse")
    first = model.evaluate(case.x(), np.zeros((5, 5, 3)))["Loss"]
    model.fit(case.x(), np.zeros((5, 5, 3)), epochs=3, verbose=0)
    assert model.evaluate(case.x(), np.zeros((5, 5, 3)))["Loss"] < first
    assert_equal(Model.from_bytes(model.to_bytes()).predict(case.x()), model.predict(case.x()))


def test_a_state_that_no_sample_has_changed_yet_stays_as_it_is() -> None:
    """It became NaN where the last state overflows."""
    step = body([node("Add", "h b", "n"), node("Identity", "h", "out"), node("Identity", "go", "on")], "i go h", "on n out")
    data = file_of(
        node("Mul", "x huge", "b"), node("Loop", "steps yes h0", "last all", body=step),
        node("Transpose", "all", "y", perm=[1, 0, 2]), axes=3,
        tensors={"huge": np.float32(3e38), "h0": np.zeros((1, 4), np.float32), "steps": np.int64(2), "yes": np.bool_(True)},
    )  # fmt: skip
    with np.errstate(over="ignore"):
        found = nn.onnx.from_bytes(data).predict(np.full((5, 4), 10, np.float32))
    assert found[:, 0].tolist() == [[0] * 4] * 5 and np.isposinf(found[:, 1]).all()


def test_a_choice_is_made_while_reading() -> None:
    branches = {
        f"{name}_branch": GraphProto([node(kind, "x", f"of_{name}")], name, [], [], [ValueInfo(f"of_{name}")])
        for name, kind in (("then", "Relu"), ("else", "Neg"))
    }
    data = file_of(
        node("Equal", "rate wanted", "same"), node("If", "same", "y", **branches), tensors={"wanted": np.int64(8)},
        inputs=[info("x", "batch", 4), info("rate", elements=7)],
    )  # fmt: skip
    assert_equal(nn.onnx.from_bytes(data, values={"rate": 9}).predict(ROW), -ROW)
    assert_equal(nn.onnx.from_bytes(data, values={"rate": 8}).predict(ROW), ROW)
    with pytest.raises(ModelFileError, match="input 'rate' must be a tensor with axes; give 'shapes', or 'values'"):
        nn.onnx.from_bytes(data)


def test_inputs_that_nothing_depends_on_are_left_out() -> None:
    entries = [info("odd", "batch", 3), info("x", "batch", 4)]
    model = nn.onnx.from_bytes(file_of(node("Add", "x row", "y"), tensors={"row": ROW[1]}, inputs=entries))
    again = Model.from_bytes(model.to_bytes())
    assert_equal(again.predict(ROW), ROW + ROW[1])
    assert [variable.shape for variable in again.trainable_variables()] == [(4,)]


def test_files_for_one_sample_take_several(tmp_path: Path) -> None:
    data = file_of(node("Reshape", "x shape", "y"), tensors={"shape": np.int64([1, 2, 2])}, inputs=[info("x", 1, 4)])
    assert nn.onnx.from_bytes(data).predict(ROW).shape == (2, 2, 2)


def test_tensors_in_other_files(tmp_path: Path) -> None:
    def written(location: str) -> Path:
        file = messages.ModelProto.read(file_of(node("Add", "x row", "y")))
        place = [
            messages.EntryProto("location", location),
            messages.EntryProto("offset", "4"),
            messages.EntryProto("length", "16"),
        ]
        file.graph.initializer = [TensorProto([4], 1, name="row", external_data=place, data_location=1)]  # type: ignore[union-attr]
        path = tmp_path / "model.onnx"
        path.write_bytes(file.write())
        return path

    path = written("weights.bin")
    with pytest.raises(
        ModelFileError, match=r"tensor 'row' lies in another file, 'weights.bin', which cannot be read: .*No such"
    ):
        nn.onnx.load(path)
    (tmp_path / "weights.bin").write_bytes(np.arange(5, dtype=np.float32).tobytes())
    assert_equal(nn.onnx.load(path).predict(ROW), ROW + np.float32([1, 2, 3, 4]))
    (tmp_path / "weights.bin").write_bytes(bytes(12))
    with pytest.raises(ModelFileError, match=r"tensor 'row' of shape \(4,\) takes 16 bytes, got 8"):
        nn.onnx.load(path)
    with pytest.raises(ModelFileError, match="give the path of the model, not its bytes"):
        nn.onnx.from_bytes(path.read_bytes())
    for outside in ("../weights.bin", "/etc/passwd"):
        with pytest.raises(ModelFileError, match="must lie in a file of the model's folder, got"):
            nn.onnx.load(written(outside))


def test_links_lead_to_tensors_beside_the_file_only(tmp_path: Path) -> None:
    """A cache keeps files under other names, and a folder of links to them; a stranger's link may lead anywhere."""
    cache, shown, elsewhere = (tmp_path / name for name in ("cache", "shown", "elsewhere"))
    for folder in (cache, shown, elsewhere):
        folder.mkdir()
        (folder / "numbers").write_bytes(np.arange(4, dtype=np.float32).tobytes())
    file = messages.ModelProto.read(file_of(node("Add", "x row", "y")))
    place = [messages.EntryProto("location", "weights.bin")]
    file.graph.initializer = [TensorProto([4], 1, name="row", external_data=place, data_location=1)]  # type: ignore[union-attr]
    (cache / "model").write_bytes(file.write())
    (shown / "model.onnx").symlink_to(cache / "model")
    (shown / "weights.bin").symlink_to(cache / "numbers")
    assert_equal(nn.onnx.load(shown / "model.onnx").predict(ROW), ROW + np.arange(4, dtype=np.float32))
    (shown / "weights.bin").unlink()
    (shown / "weights.bin").symlink_to(elsewhere / "numbers")
    with pytest.raises(ModelFileError, match=r"must lie in a file of the model's folder, got a link to another, 'weights.bin'"):
        nn.onnx.load(shown / "model.onnx")


RELU = node("Relu", "x", "y")


@pytest.mark.parametrize(
    ("data", "sentence"),
    [
        (b"", "not an ONNX file: it has no graph with outputs"),
        (b"PK\x03\x04 a zip archive", "not an ONNX file"),
        (nn.onnx.to_bytes(network())[:-9], "not an ONNX file, or a damaged one: ends within a field of"),
        (file_of(RELU, version=5), r"the version of ONNX's operators \(opset\) must be 6 to 28, got 5"),
        (file_of(RELU, version=99), "must be 6 to 28, got 99"),
        (file_of(node("Relux", "x", "y")),
         r"node 'the Relux' \(Relux\): nn must have the operator, got 'Relux', which it lacks; did you mean 'Relu'\?"),
        (file_of(NodeProto(["x"], ["y"], "odd", "Fused", domain="com.microsoft")), "got one of the domain 'com.microsoft'"),
        (file_of(node("Relu", "z", "y")), r"node 'the Relu' \(Relu\): takes 'z', which no node before it gives"),
        (file_of(node("Relu", "x", "z")), "output 'y': no node gives it"),
        (file_of(node("MatMul", "x w", "y"), tensors={"w": np.ones((5, 2), np.float32)}),
         r"node 'the MatMul' \(MatMul\): weights of Dense must have shape \(4, 2\) for this input, got \(5, 2\)"),
        (file_of(node("Shape", "x", "s"), node("Gather", "s zero", "b"), node("Range", "zero b one", "r"),
                 node("Add", "x r", "y"), tensors={"zero": np.int64(0), "one": np.int64(1)}),
         "a range depends on the batch, which comes with the data; give 'shapes' to have it known"),
        (file_of(node("Resize", "x roi scales", "y", mode="area"),
                 tensors={"roi": np.float32([]), "scales": np.float32([1, 2])}),
         r"node 'the Resize' \(Resize\): 'mode' must be nearest, linear or cubic, got \['area', 'half_pixel', "),
        (file_of(node("Conv", "x w", "y"), tensors={"w": np.ones((5, 4, 3), np.float32)}),
         r"node 'the Conv' \(Conv\): nn takes \(batch, channels, time\) and .*, got \[-1, 4\]"),
        (file_of(RELU, inputs=[info("x", "batch", 4, elements=8)]), "input 'x' must hold numbers that NumPy has, got texts"),
        (file_of(node("ConstantOfShape", "n", "c"), node("Add", "x c", "y"), tensors={"n": np.int64([1 << 40])}),
         "asks for an array of shape"),
        (file_of(node("Add", "c c", "y"), tensors={"c": np.float32([1])}), "output 'y': must depend on the samples"),
        (file_of(node("ArgMax", "x", "y")), r"'axis' must be one of shape \[-1, 4\] other than the batch, got 0"),
        (file_of(node("ArgMax", "x", "y", axis=2)), r"'axis' must be one of shape \[-1, 4\] other than the batch, got 2"),
        (file_of(node("TopK", "x k", "y i"), tensors={"k": np.int64([9])}),
         r"node 'the TopK' \(TopK\): TopPlaces 'count' must be at most 4, axis 1 of shape \(-1, 4\), got 9"),
        (file_of(node("TopK", "x x", "y i")), r"node 'the TopK' \(TopK\): input 1 must be known when the file is read, got"),
        (file_of(node("Unsqueeze", "x a", "u"), node("GatherElements", "x u", "y", axis=1), tensors={"a": np.int64([1])}),
         r"\(GatherElements\): TakeAlong: shapes \(-1, 4\) and \(-1, 1, 4\) must differ on axis 1 alone"),
        (file_of(node("NonMaxSuppression", "x x", "y")), "nn must have the operator, got 'NonMaxSuppression', which it lacks"),
        (file_of(node("Attention", "x x x", "y"), version=23), r"\(Attention\): inputs must be .* that divides the features"),
        *[(file_of(node("Attention", inputs, outputs, q_num_heads=2, kv_num_heads=heads, **given), version=23,
                   inputs=[info("x", "batch", 3, 4)], tensors={"m": np.zeros((3, 3), np.float32)}), sentence)
          for inputs, outputs, heads, given, sentence in (
              ("x x x", "y a b c", 2, {}, r"reads Attention without its scores as an output, .*, got 4"),
              ("x x x", "y", 3, {}, r"a number of heads that divides the features, got \[-1, 3, 4, 3\]"),
              ("x x x", "y", 4, {}, "the heads of keys and values must divide the 2 of the queries, got 4"),
              ("x x x m", "y", 2, {"softcap": 2.0}, "'softcap' must be 0 beside a mask, got 2.0"),
              ("x x x - x x", "y", 2, {"is_causal": 1}, "'is_causal' must be 0 beside keys and values of positions before"),
          )],
        (file_of(node("ReduceMean", "x", "y")), "a reduction must leave the samples apart"),
        *[(file_of(node(kind, inputs, "y", **given), tensors={"a": np.int64([7]), "b": np.int64([9])}), sentence)
          for kind, inputs, given, sentence in (
              ("Softmax", "x", {"axis": 7}, r"\(Softmax\): an axis must be from -2 to 1, got 7"),
              ("Concat", "x x", {"axis": -3}, r"\(Concat\): an axis must be from -2 to 1, got -3"),
              ("ReduceSum", "x a", {}, r"\(ReduceSum\): an axis must be from -2 to 1, got 7"),
              ("Unsqueeze", "x a", {}, r"\(Unsqueeze\): an axis must be from -3 to 2, got 7"),
              ("Slice", "x a b a", {}, r"\(Slice\): an axis must be from -2 to 1, got \[7\]"),
              ("Cast", "x", {"to": 8}, r"\(Cast\): 'to' must hold numbers that NumPy has, got texts"),
          )],
        (file_of(node("Conv", "x w", "y", auto_pad="SAME"), tensors={"w": np.ones((5, 4, 3), np.float32)},
                 inputs=[info("x", "batch", 4, 8)]),
         r"\(Conv\): 'auto_pad' must be NOTSET, SAME_UPPER, SAME_LOWER or VALID, got 'SAME'"),
        (file_of(node("Gemm", "x w c", "y"), tensors={"w": np.eye(4, dtype=np.float32), "c": np.ones((4, 1), np.float32)}),
         r"\(Gemm\): Add: shapes \(-1, 4\) and \(4, 1\) do not fit together"),
        *[(file_of(node(kind, "x" if kind in ("AveragePool", "MaxPool", "LRN") else "x w", "y", **given),
                   tensors={"w": np.ones((4, 2, 3), np.float32)}, inputs=[info("x", "batch", 4, 8)]), sentence)
          for kind, given, sentence in (
              ("MaxPool", {"kernel_shape": [2], "dilations": [-2]}, r"\(MaxPool\): 'dilations' must be at least 1, got \[-2\]"),
              ("MaxPool", {"kernel_shape": [2], "dilations": [2], "strides": [0]}, r"'strides' must be at least 1, got \[0\]"),
              ("MaxPool", {"kernel_shape": [0], "dilations": [2]}, r"'kernel_shape' must be at least 1, got \[0\]"),
              ("MaxPool", {"kernel_shape": [2], "dilations": [9]}, r"must have at least 10 cells for a window of"),
              ("MaxPool", {}, r"\(MaxPool\): 'kernel_shape' must be given, got None"),
              ("LRN", {"size": -3}, r"\(LRN\): 'size' must be given, and at least 1, got -3"),
              ("LRN", {}, r"\(LRN\): 'size' must be given, and at least 1, got 0"),
              ("ConvTranspose", {"group": 0}, r"\(ConvTranspose\): 'group' must divide the 4 channels, got 0"),
              ("ConvTranspose", {"dilations": [0]}, r"\(ConvTranspose\): 'dilations' must be at least 1, got \[0\]"),
              ("ConvTranspose", {"dilations": [2], "strides": [0]}, r"'strides' must be at least 1, got \[0\]"),
              ("ConvTranspose", {"auto_pad": "SAME_UPPER", "strides": [4]},
               r"the size of the result, SAME_UPPER by the strides, must be at most \[31\], got \[32\]"),
              ("AveragePool", {"kernel_shape": [2], "dilations": [2]}, r"means over windows without 'dilations', got \[2\]"),
              ("ConvTranspose", {"output_shape": [20]}, r"'output_shape' must be at most \[10\], got \[20\]"),
              ("ConvTranspose", {"group": 3}, r"\(ConvTranspose\): 'group' must divide the 4 channels, got 3"),
          )],
        (file_of(node("ConvTranspose", "x w", "y", dilations=[2]), tensors={"w": np.ones((4, 2), np.float32)},
                 inputs=[info("x", "batch", 4, 8)]),
         r"\(ConvTranspose\): the kernel must have 3 axes, got \[4, 2\]"),
        (file_of(node("LRN", "x", "y", size=3), inputs=[info("x", "batch", 100_000, 8)]),
         r"asks for an array of shape \(100000, 100000\), above"),
        (file_of(node("MaxPool", "x", "y", kernel_shape=[2], dilations=[2]), inputs=[info("x", "batch", 4, "length")]),
         r"\(MaxPool\): 'dilations' need lengths that are known; give 'shapes', got \[-1, None, 4\]"),
        (file_of(node("ReduceProd", "x", "y")), r"a product must be over axes with lengths that are known, got \['axis 0 of"),
        (file_of(node("LpNormalization", "x", "y", p=3)), r"\(LpNormalization\): 'p' must be 1 or 2, got 3"),
        (file_of(node("OneHot", "x x x", "y")), r"\(OneHot\): input 1 must be known when the file is read, got a value"),
        (file_of(node("OneHot", "x d v", "y"), tensors={"d": np.int64(3), "v": np.float32([1])}),
         r"\(OneHot\): the values must be two numbers, got \[1.0\]"),
        (file_of(node("Einsum", "x x", "y", equation="ij,ij->j")), "a sum must leave the samples apart"),
        (file_of(node("Einsum", "x x x", "y", equation="ij,ij,kj->kj")), "a sum must leave the samples apart"),
        (file_of(node("Einsum", "x x", "y", equation="ii,ij->j")), "'equation' must name each axis .* once, got"),
        (file_of(node("Einsum", "x x x", "y", equation="ij,ij->ij")), "'equation' must have as many operands as .* 3, got"),
        (file_of(node("Scan", "x", "y", num_scan_inputs=1, body=body([node("Relu", "s", "o")], "s", "o"))),
         r"node 'the Scan' \(Scan\): the number of steps must be known, from 1 to 512; a cell that is exported as LSTM"),
        (file_of(node("Loop", "n yes x", "y", body=body([node("Relu", "h", "o"), node("Less", "h h", "c")], "i g h", "c o")),
                 tensors={"n": np.int64(3), "yes": np.bool_(True)}),
         r"node 'the Loop' \(Loop\): a loop must end by a condition that is known, got one that samples decide; a cell"),
        (file_of(node("Loop", "n yes x", "y", body=body([node("Relu", "h", "o"), node("Not", "no", "c")], "i g h", "c o")),
                 tensors={"no": np.bool_(False), "n": np.int64(1 << 62), "yes": np.bool_(True)}),
         "a loop must end after at most 512 steps; a cell that"),
        (file_of(node("GRU", "x w r", "y"), tensors={"w": np.ones((1, 6, 4), np.float32), "r": np.ones((1, 6, 2), np.float32)},
                 inputs=[info("x", 3, "batch", 4)]), "'linear_before_reset' 1, got 0"),
    ],
)  # fmt: skip
def test_what_cannot_be_read_is_told(data: bytes, sentence: str) -> None:
    with pytest.raises(ModelFileError, match=sentence):
        nn.onnx.from_bytes(data)


def test_the_error_names_the_file_and_arguments_their_inputs(tmp_path: Path) -> None:
    (tmp_path / "odd.onnx").write_bytes(b"odd")
    with pytest.raises(ModelFileError, match=r"The ONNX file .*odd\.onnx cannot be used: not an ONNX file"):
        nn.onnx.load(tmp_path / "odd.onnx")
    with pytest.raises(
        ValueError, match=r"nn\.onnx\.load\(\) 'values' must name inputs of the file, x, got 'X'; did you mean 'x'"
    ):
        nn.onnx.from_bytes(file_of(RELU), values={"X": 1})
    with pytest.raises(ValueError, match="'shapes' must have one -1, the batch, got"):
        nn.onnx.from_bytes(file_of(RELU), shapes={"x": [2, 4]})
    assert nn.onnx.from_bytes(file_of(RELU), shapes={"x": [-1, 7]}).predict(np.ones((1, 7))).shape == (1, 7)
    with pytest.raises(ModelFileError, match=r", as ONNX files \(nn\.onnx\.load reads them\) do"):
        Model.from_bytes(nn.onnx.to_bytes(network()))


def test_numbers_in_lists_are_read_as_those_in_bytes() -> None:
    lists = {
        1: {"float_data": [1.5, -2.0]}, 11: {"double_data": [1.5, -2.0]}, 7: {"int64_data": [5, -6]},
        6: {"int32_data": [5, -6]},
        9: {"int32_data": [1, 0]}, 10: {"int32_data": [0x3E00, 0xC000]}, 13: {"uint64_data": [5, 6]},
    }  # fmt: skip
    for number, given in lists.items():
        found = messages.to_array(TensorProto.read(TensorProto([2], number, name="t", **given).write()), None)  # type: ignore[arg-type]
        expected = {9: [True, False], 6: [5, -6], 7: [5, -6], 13: [5, 6]}.get(number, [1.5, -2.0])
        assert found.dtype == messages.DTYPES[number] and found.tolist() == expected


def test_messages_keep_what_is_written_and_skip_what_is_not_known() -> None:
    attribute = AttributeProto(
        "a", f=0.5, i=-3, s=b"text", floats=[1.0, 2.0], ints=[1, -1, 1 << 40], strings=[b"x", b""], type=1
    )
    assert AttributeProto.read(attribute.write() + b"\xfa\x01\x02hi") == attribute
    for odd in (b"\x0b", b"\x0a\x05abc", b"\x15\x00", b"\xff" * 12, b"\x0a\x01\xff"):
        with pytest.raises(ModelFileError):
            AttributeProto.read(odd)


def test_weights_that_are_not_finite_are_refused_and_constants_are_not() -> None:
    model = network()
    model.get_weights()
    head = model.get_layer("head")
    head.kernel.value[3, 1] = -np.inf
    with pytest.raises(
        ModelFileError, match=r"kernel' has 1 of \d+ numbers that are not finite, the first is -inf at \[3, 1\]"
    ):
        nn.onnx.from_bytes(nn.onnx.to_bytes(model))
    mask = np.where(np.tri(4, dtype=bool), 0, -np.inf).astype(np.float32)
    data = file_of(node("Add", "x mask", "y"), tensors={"mask": mask}, inputs=[info("x", "batch", 4, 4)], axes=3)
    found = nn.onnx.from_bytes(data).predict(np.ones((2, 4, 4), np.float32))
    assert np.array_equal(found, np.broadcast_to(1 + mask, (2, 4, 4)))
