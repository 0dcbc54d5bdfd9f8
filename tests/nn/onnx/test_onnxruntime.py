"""What nn writes gives in onnxruntime what it gives here, to 1e-5; what nn reads gives here what it gives there."""

import re
from importlib.util import find_spec
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import nn
from nn.arrays import Array
from nn.model import Model
from nn.onnx import messages
from nn.value import Value
from tests.contract.nn_rows import GraphRow
from tests.nn.onnx.files import file_of, info, node
from tests.nn.onnx.foreign import FOREIGN, Foreign
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


@pytest.mark.parametrize("case", FOREIGN, ids=lambda case: case.name)
def test_files_of_other_exporters(case: Foreign) -> None:
    with np.errstate(invalid="ignore"):
        found = nn.onnx.from_bytes(case.data()).predict(case.x())
    assert_equal(found, run(case.data(), case.x())[0])


@pytest.mark.parametrize("length", [4, 9])
def test_axes_of_any_length_stay_open(length: int) -> None:
    def apply(x: Value) -> Value:
        y = nn.layer.Conv1D(6, 3, padding="same", stride=2)(nn.layer.Conv1D(6, 3, padding="causal")(x))
        y = nn.layer.MultiHeadAttention(2, 3, causal=True)(nn.layer.UpSampling(2)(nn.layer.MaxPool(2, padding="same")(y)))
        y = nn.layer.TimeDistributed(nn.layer.Dense(5, "tanh"))(y)
        y = nn.layer.Bidirectional(nn.layer.GRU(4, return_sequences=True))(y)
        greatest = nn.layer.GlobalMaxPool()(nn.layer.LSTM(8, return_sequences=True)(y))
        made: Value = nn.layer.Add()([y[:, ::-1][:, :1], greatest])
        return made

    entry = nn.Input([-1, None, 5])
    model = Model(entry, apply(entry))
    x = np.random.default_rng(0).normal(size=(3, length, 5)).astype(np.float32)
    assert_equal(run(nn.onnx.to_bytes(model), x)[0], model.predict(x))


@pytest.mark.parametrize("length", [4, 9])
def test_dilated_windows_over_axes_of_any_length(length: int) -> None:
    """onnxruntime has no rule of padding for windows with dilations: cells are told where they are as many for each length."""
    x = np.random.default_rng(0).normal(size=(2, length, 7, 3)).astype(np.float32)
    entry, images = nn.Input([-1, None, 3]), nn.Input([-1, None, 7, 3])
    for start, layer, given in (
        (entry, nn.layer.Conv1D(4, 3, padding="same", dilation=3), x[:, :, 0]),
        (entry, nn.layer.Conv1D(4, 4, padding="same", dilation=2), x[:, :, 0]),
        (images, nn.layer.Conv2D(4, (2, 3), padding="same", dilation=(3, 2)), x),
        (images, nn.layer.Conv2D(4, (1, 3), stride=(1, 2), padding="same", dilation=(2, 1)), x),
        (images, nn.layer.DepthwiseConv2D(3, padding="same"), x),
        (images, nn.layer.MaxPool((3, 2), (1, 1), padding="same"), x),
        (images, nn.layer.AveragePool((2, 3), (1, 1), padding="same"), x),
    ):
        model = Model(start, layer(start))
        assert_equal(run(nn.onnx.to_bytes(model), given)[0], model.predict(given))
        assert_equal(nn.onnx.from_bytes(nn.onnx.to_bytes(model)).predict(given), model.predict(given))
    model = Model(entry, nn.layer.Conv1D(4, 3, stride=2, padding="same", dilation=2, name="far")(entry))
    with pytest.raises(ValueError, match=r"^far: padding='same' with strides and dilations needs lengths that are known, "):
        nn.onnx.to_bytes(model)


@pytest.mark.parametrize("size", [(5, 6), (7, 7), (8, 9), (12, 4)])
@pytest.mark.parametrize("given", [
    {"kernel_shape": [2, 3], "strides": [2, 2]}, {"kernel_shape": [3, 3], "strides": [2, 2], "pads": [1, 1, 1, 1]},
    {"kernel_shape": [3, 2], "strides": [2, 3], "pads": [1, 0, 0, 1]}, {"kernel_shape": [2, 2], "strides": [3, 3]},
    {"kernel_shape": [2, 2], "strides": [3, 3], "pads": [0, 0, 1, 1]},
])  # fmt: skip
def test_greatest_numbers_of_windows_beyond_the_end(size: tuple[int, int], given: dict[str, Any]) -> None:
    """As torch writes `MaxPool2d(ceil_mode=True)`: the last window may hold fewer numbers, all of which may be negative."""
    data = file_of(node("MaxPool", "x", "y", ceil_mode=1, **given), inputs=[info("x", "batch", 2, *size)], axes=4)
    x = np.random.default_rng(0).normal(-5, 1, size=(3, 2, *size)).astype(np.float32)
    assert_equal(nn.onnx.from_bytes(data).predict(x), run(data, x)[0])


@pytest.mark.parametrize("length", [1, 3000])
def test_rotary_positions_of_any_number_are_exact(length: int) -> None:
    entry = nn.Input([-1, None, 2, 6])
    model = Model(entry, nn.operation.Rotary()(entry))
    x = np.random.default_rng(0).normal(size=(2, length, 2, 6)).astype(np.float32)
    data = nn.onnx.to_bytes(model)
    assert_equal(run(data, x)[0], model.predict(x))
    other = nn.onnx.from_bytes(data, shapes={"input": [-1, length, 2, 6]})
    assert_equal(other.predict(x), model.predict(x))
    assert other.trainable_variables() == []


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
    ],
    ids=["ResNet20", "LeNet5"],
)
def test_whole_models(model: Model, sample: tuple[int, ...]) -> None:
    model.input_shape = (-1, *sample)
    model.setup(nn.loss.Cross_Entropy_With_Softmax())
    x = np.random.default_rng(0).normal(size=(4, *sample)).astype(np.float32)
    assert_equal(run(nn.onnx.to_bytes(model), x)[0], model.predict(x))
    assert_equal(nn.onnx.from_bytes(nn.onnx.to_bytes(model)).predict(x), model.predict(x))


def test_a_transformer() -> None:
    model = nn.model.Transformer(11, 12, 16, 2, 2)
    model.setup(nn.loss.Cross_Entropy_With_Softmax())
    x = np.random.default_rng(0).integers(0, 11, (4, 12)).astype(np.float32)
    assert_equal(run(nn.onnx.to_bytes(model), x)[0], model.predict(x))
    assert_equal(nn.onnx.from_bytes(nn.onnx.to_bytes(model)).predict(x), model.predict(x))


def sound(seconds: int) -> Array:
    """Return sound with syllables of a moving pitch, pauses and noise, at 16 kHz."""
    time = np.arange(16_000 * seconds) / 16_000
    pitch = 120 + 30 * np.sin(np.pi * time)
    phase = 2 * np.pi * np.cumsum(pitch) / 16_000
    formants = ((600, 300), (1200, 400), (2500, 600))
    voice = sum(np.sin(k * phase) / k * np.exp(-(((k * pitch - f) / w) ** 2)) for k in range(1, 30) for f, w in formants)
    spoken = np.clip(np.sin(6 * np.pi * time), 0, 1) * (np.sin(0.4 * np.pi * time) > -0.3)
    noise = 0.003 * np.random.default_rng(0).normal(size=time.size)
    return np.asarray(0.3 * voice * spoken / np.abs(voice).max() + noise, np.float32)


def detector(name: str) -> Path:
    """Return a file of the package silero-vad, which is not imported: that would take torch."""
    found = find_spec("silero_vad")
    if found is None or found.origin is None:
        pytest.skip("silero-vad is not installed (make extras)")
    return Path(found.origin).parent / "data" / name


@pytest.mark.parametrize(
    ("name", "seconds", "given"),
    [
        ("silero_vad.onnx", 60, {"values": {"sr": 16_000}, "shapes": {"input": [-1, 576], "state": [2, -1, 128]}}),
        ("silero_vad_16k_op15.onnx", 2, {"values": {"sr": 16_000}, "shapes": {"input": [-1, 576]}}),
        ("silero_vad_op18_ifless.onnx", 2, {"values": {"sr": 16_000}, "shapes": {"input": [-1, 576]}}),
        ("silero_vad_openvino_16k.onnx", 2, {}),
    ],
)
def test_a_speech_detector_carries_its_state_over_a_minute(
    name: str, seconds: int, given: dict[str, Any], tmp_path: Path
) -> None:
    path = detector(name)
    nn.onnx.load(path, **given).save(tmp_path / "detector.model")
    model = Model.load(tmp_path / "detector.model")
    session = runtime.InferenceSession(str(path), providers=["CPUExecutionProvider"])
    asked = {entry.name for entry in session.get_inputs()}
    state, own, before = np.zeros((2, 1, 128), np.float32), np.zeros((1, 2, 128), np.float32), np.zeros((1, 64), np.float32)
    found, expected = [], []
    x = sound(seconds)
    for begin in range(0, len(x) - 511, 512):
        window = np.concatenate([before, x[None, begin : begin + 512]], axis=1)
        before = window[:, -64:]
        feed = {"input": window, "state": state, "sr": np.array(16_000)}
        chance, state = session.run(["output", "stateN"], {key: feed[key] for key in asked})
        outputs = model.predict({"input": window, "state": own})
        own = outputs["stateN"].copy()
        found.append(outputs["output"][0, 0])
        expected.append(chance[0, 0])
    assert max(expected) > 0.5 > min(expected)  # it hears speech, and pauses
    np.testing.assert_allclose(found, expected, atol=1e-5, rtol=0)


PEERS = find_spec("onnx")
CASES = [] if PEERS is None else sorted((Path(str(PEERS.origin)).parent / "backend" / "test" / "data").glob("pytorch-*/*"))
LACKING = ("3d", "_dilation", "multiparam", "Poisson", "broadcast", "addmm", "chunk", "index", "_mm", "params")
"""Of the tests of the package onnx those with what nn does not have, or that reckon with several samples at once."""


@pytest.mark.skipif(PEERS is None, reason="onnx is not installed (make extras)")
@pytest.mark.parametrize("folder", CASES, ids=lambda folder: folder.name)
def test_models_of_torch_that_onnx_is_tested_with(folder: Path) -> None:
    def tensors(kind: str) -> list[Array]:
        files = sorted((folder / "test_data_set_0").glob(f"{kind}_*.pb"), key=lambda file: int(file.stem.split("_")[1]))
        return [messages.to_array(messages.TensorProto.read(file.read_bytes()), None) for file in files]

    if any(word in folder.name for word in LACKING):
        try:
            nn.onnx.load(folder / "model.onnx")
        except nn.model.ModelFileError as error:
            assert re.search(r"cannot be used: node '.+' \(\w+\): .+", str(error))
            return
    model = nn.onnx.load(folder / "model.onnx")
    with np.errstate(invalid="ignore"):  # roots of negative numbers, which are the same there
        outputs = model.predict(tensors("input")[0] if len(model.graph.inputs) == 1 else tensors("input"))
    for found, expected in zip(outputs.values() if isinstance(outputs, dict) else [outputs], tensors("output"), strict=True):
        assert_equal(found, expected)
