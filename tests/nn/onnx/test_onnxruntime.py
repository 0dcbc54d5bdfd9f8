"""What nn writes gives in onnxruntime what it gives here, to 1e-5; what nn reads gives here what it gives there."""

from pathlib import Path

import numpy as np
import pytest

import nn
from nn.arrays import Array
from nn.model import Model
from nn.value import Value
from tests.contract.nn_rows import GraphRow
from tests.nn.onnx.rows import ROWS, assert_equal, model_of, name_of, samples

runtime = pytest.importorskip("onnxruntime", reason="onnxruntime is not installed (extra onnx, make extras)")


def run(file: bytes | str, *inputs: Array) -> list[Array]:
    """Return what onnxruntime computes by a file."""
    runtime.set_default_logger_severity(3)
    session = runtime.InferenceSession(file, providers=["CPUExecutionProvider"])
    found: list[Array] = session.run(None, dict(zip([each.name for each in session.get_inputs()], inputs, strict=True)))
    return found


@pytest.mark.parametrize("row", ROWS, ids=name_of)
def test_it_gives_the_same_for_every_kind(row: GraphRow) -> None:
    model, x = model_of(row.applied(), row.sample), samples(row)
    assert_equal(run(nn.onnx.to_bytes(model), x)[0], model.predict(x))


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


@pytest.mark.parametrize(
    ("model", "sample"),
    [
        (nn.model.ResNet20(), (32, 32, 3)),
        (nn.model.LeNet5(), (28, 28, 1)),
        (nn.model.Transformer(11, 12, 16, 2, 2, 24) if False else nn.model.LeNet5(seed=4), (28, 28, 1)),
    ],
    ids=["ResNet20", "LeNet5", "LeNet5 of another seed"],
)
def test_whole_models(model: Model, sample: tuple[int, ...]) -> None:
    model.input_shape = (-1, *sample)
    model.setup(nn.loss.Cross_Entropy_With_Softmax())
    x = np.random.default_rng(0).normal(size=(4, *sample)).astype(np.float32)
    assert_equal(run(nn.onnx.to_bytes(model), x)[0], model.predict(x))
    assert_equal(nn.onnx.from_bytes(nn.onnx.to_bytes(model)).predict(x), model.predict(x))


# of the tests of the package onnx itself: those whose operators nn has
PEERS = Path(getattr(pytest.importorskip("onnx", reason="onnx is not installed (make extras)"), "__file__", "")).parent
CASES = sorted((PEERS / "backend" / "test" / "data").glob("pytorch-*/*/model.onnx"))


@pytest.mark.parametrize("path", CASES, ids=lambda path: path.parent.name)
def test_models_of_torch_that_onnx_tests_with(path: Path) -> None:
    import onnx
    from onnx import numpy_helper

    folder = path.parent / "test_data_set_0"

    def tensors(kind: str) -> list[Array]:
        files = sorted(folder.glob(f"{kind}_*.pb"), key=lambda file: int(file.stem.split("_")[1]))
        return [numpy_helper.to_array(onnx.load_tensor(str(file))) for file in files]

    try:
        model = nn.onnx.load(path)
    except nn.model.ModelFileError as error:
        assert "got" in str(error) and ("node" in str(error) or "opset" in str(error))
        pytest.skip(str(error).partition("cannot be used: ")[2])
    given = [x for x in tensors("input") if x.ndim]
    for found, expected in zip([model.predict(given if len(given) > 1 else given[0])], tensors("output"), strict=True):
        assert_equal(found, expected)
