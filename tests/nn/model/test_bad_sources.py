"""Weights and models that are cut off, lack an array, or have other shapes, names or kinds: a sentence, and nothing changes."""

from __future__ import annotations

import struct
import zipfile
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import nn
from nn import tensor_files
from nn.arrays import Array
from nn.layer import Dense
from nn.model import Model, ModelFileError, SequentialModel
from nn.random import keyed

Arrays = dict[str, Array]
LONGEST = 600
"""Signs of a sentence."""


def network() -> Model:
    model = SequentialModel([-1, 8], [Dense(6, "tanh", name="first"), Dense(3, name="head")], seed=1)
    model.compile("sgd", "mse")
    return model


def drawn(**shapes: tuple[int, ...]) -> Arrays:
    return {name.replace("__", "/"): np.float32(keyed(3, name).standard_normal(shape)) for name, shape in shapes.items()}


def of_torch() -> Arrays:
    shapes = {"first.weight": (6, 8), "first.bias": (6,), "head.weight": (3, 6), "head.bias": (3,)}
    return drawn(**shapes)


def of_keras() -> Arrays:
    return drawn(layers__dense__vars__0=(8, 6), layers__dense__vars__1=(6,),
                 layers__dense_1__vars__0=(6, 3), layers__dense_1__vars__1=(3,))  # fmt: skip


def own() -> Arrays:
    return drawn(first__kernel=(8, 6), first__bias=(6,), head__kernel=(6, 3), head__bias=(3,))


def as_mapping(arrays: Arrays, path: Path) -> Any:
    return arrays


def as_tensors(form: str) -> Callable[[Arrays, Path], Path]:
    def write(arrays: Arrays, path: Path) -> Path:
        path.write_bytes(tensor_files.dump(arrays, {"format": form}))
        return path

    return write


def as_hdf5(arrays: Arrays, path: Path) -> Path:
    h5py = pytest.importorskip("h5py", reason="h5py is not installed (extra keras)")
    with h5py.File(path, "w") as file:
        for name, array in arrays.items():
            file[name] = array
    return path


def as_keras(arrays: Arrays, path: Path) -> Path:
    inner = as_hdf5(arrays, path.with_suffix(".h5"))
    with zipfile.ZipFile(path, "w") as archive:
        archive.writestr("config.json", "{}")
        archive.write(inner, "model.weights.h5")
    return path


def as_archive(arrays: Arrays, path: Path) -> None:
    with path.open("wb") as file:
        np.savez(file, allow_pickle=False, **arrays)  # type: ignore[arg-type]


class Kind:
    """A kind of source: its arrays, its writer, and what `load_weights` is told."""

    def __init__(self, arrays: Callable[[], Arrays], write: Callable[[Arrays, Path], Any], **given: Any) -> None:
        self.arrays, self.write, self.given = arrays, write, given

    @property
    def last(self) -> str:
        """Name of the last kernel."""
        return list(self.arrays())[2]


KINDS = {
    "mapping": Kind(own, as_mapping),
    "state dict of torch": Kind(of_torch, as_mapping, layout="torch"),
    "weights": Kind(own, as_tensors(tensor_files.WEIGHTS)),
    "safetensors": Kind(of_torch, as_tensors("pt")),
    "weights.h5": Kind(of_keras, as_hdf5),
    "keras": Kind(of_keras, as_keras),
}
PLAIN_TYPES = ("weights", "safetensors")
"""Kinds that cannot hold complex numbers or texts."""


def refused(act: Callable[[], object], *kinds: type[Exception]) -> str:
    """Return the sentence of the error that a call ends with."""
    with pytest.raises(kinds) as caught:
        act()
    text = str(caught.value)
    assert "\n" not in text.strip() and 20 < len(text) < LONGEST, text
    return text


@pytest.mark.parametrize("kind", KINDS)
def test_each_is_taken_as_it_should_be(kind: str, tmp_path: Path) -> None:
    """What is refused below is refused for what is wrong with it."""
    model, own_kind = network(), KINDS[kind]
    report = model.load_weights(own_kind.write(own_kind.arrays(), tmp_path / "f"), **own_kind.given)
    assert len(report.taken) == 4
    kernel = own_kind.arrays()[own_kind.last]
    np.testing.assert_array_equal(model.get_weights()[2], kernel.T if "torch" in kind or kind == "safetensors" else kernel)


WRONG: Mapping[str, tuple[Callable[[Array], Any], str]] = {
    "lacking": (lambda kernel: None, "head/kernel|dense_1|has a variable"),
    "transposed": (lambda kernel: kernel.T.copy(), "shape|only the model has"),
    "flat": (lambda kernel: kernel.reshape(-1), "shape|only the model has"),
    "of one more": (lambda kernel: np.zeros([length + 1 for length in kernel.shape], np.float32), "shape|only the model has"),
    "empty": (lambda kernel: kernel[:0], "shape|only the model has"),
    "complex": (lambda kernel: kernel.astype(np.complex64), "must hold real numbers, got complex64"),
    "a text": (lambda kernel: np.bytes_(b"weights"), "must hold real numbers, got"),
    "too large": (lambda kernel: kernel.astype(np.float64) * 1e300, "must hold numbers of float32, got up to"),
}


@pytest.mark.parametrize(
    ("kind", "wrong"),
    # files of some kinds have no type for complex numbers and texts
    [(kind, wrong) for kind in KINDS for wrong in WRONG if kind not in PLAIN_TYPES or wrong not in ("complex", "a text")],
)
def test_a_kernel_that_does_not_fit_changes_nothing(kind: str, wrong: str, tmp_path: Path) -> None:
    """The kernel is the third of four arrays: those before it must stay, too."""
    model, own_kind = network(), KINDS[kind]
    change, words = WRONG[wrong]
    arrays: dict[str, Any] = own_kind.arrays()
    arrays[own_kind.last] = change(arrays[own_kind.last])
    arrays = {name: array for name, array in arrays.items() if array is not None}
    source = own_kind.write(arrays, tmp_path / "f")
    before = [weight.tobytes() for weight in model.get_weights()]
    text = refused(lambda: model.load_weights(source, **own_kind.given), ValueError, TypeError)
    assert any(word in text for word in words.split("|")), text
    assert [weight.tobytes() for weight in model.get_weights()] == before


@pytest.mark.parametrize("kind", KINDS)
def test_arrays_besides_and_other_names_are_told(kind: str, tmp_path: Path) -> None:
    own_kind = KINDS[kind]
    before = [weight.tobytes() for weight in network().get_weights()]
    sign = "." if "torch" in kind or kind == "safetensors" else "/"
    one_more = {**own_kind.arrays(), f"more{sign}odd": np.ones((2, 5), np.float32)}
    others = {f"x{place}{sign}y": np.ones((place + 2, 7), np.float32) for place in range(4)}
    for arrays, words in ((one_more, ("odd",)), (others, ("none of the variables", "x0", "partial"))):
        model = network()
        source = own_kind.write(arrays, tmp_path / "f")
        text = refused(lambda model=model, source=source: model.load_weights(source, **own_kind.given), ValueError)  # type: ignore[misc]
        assert all(word in text for word in words), text
        assert [weight.tobytes() for weight in model.get_weights()] == before


@pytest.mark.parametrize("share", [0.0, 0.003, 0.02, 0.1, 0.3, 0.5, 0.7, 0.9, 0.98, 0.997])
@pytest.mark.parametrize("kind", ["weights", "safetensors", "weights.h5", "keras"])
def test_files_of_weights_that_are_cut_off_change_nothing(kind: str, share: float, tmp_path: Path) -> None:
    model, own_kind = network(), KINDS[kind]
    path = own_kind.write(own_kind.arrays(), tmp_path / "f")
    data = path.read_bytes()
    path.write_bytes(data[: int(share * len(data))])
    before = [weight.tobytes() for weight in model.get_weights()]
    assert str(path) in refused(lambda: model.load_weights(path), ModelFileError)
    assert [weight.tobytes() for weight in model.get_weights()] == before


def with_a_lost_array(path: Path) -> None:
    """Have the first kernel lie behind the end of the file."""
    h5py = pytest.importorskip("h5py", reason="h5py is not installed (extra keras)")
    with h5py.File(path, "r") as file:
        place = struct.pack("<Q", h5py.h5o.get_info(file[next(iter(of_keras()))].id).addr)
    data = path.read_bytes()
    assert place in data
    path.write_bytes(data.replace(place, struct.pack("<Q", 1 << 40)))


def with_a_long_array(path: Path) -> None:
    """Have the first kernel claim more elements than a number of the machine counts."""
    data, lengths = path.read_bytes(), struct.pack("<QQ", 8, 6)
    assert lengths in data
    path.write_bytes(data.replace(lengths, struct.pack("<QQ", 1 << 62, 1 << 62)))


def with_a_type(path: Path) -> None:
    """Add what is neither a group nor an array."""
    h5py = pytest.importorskip("h5py", reason="h5py is not installed (extra keras)")
    with h5py.File(path, "a") as file:
        file["numbers"] = np.dtype(np.float32)


@pytest.mark.parametrize("damage", [with_a_lost_array, with_a_long_array, with_a_type])
def test_files_of_keras_that_are_damaged_within_change_nothing(damage: Callable[[Path], None], tmp_path: Path) -> None:
    model, path = network(), as_hdf5(of_keras(), tmp_path / "f")
    damage(path)
    before = [weight.tobytes() for weight in model.get_weights()]
    assert str(path) in refused(lambda: model.load_weights(path), ModelFileError)
    assert [weight.tobytes() for weight in model.get_weights()] == before


@pytest.mark.parametrize("share", [0.0, 0.02, 0.1, 0.3, 0.5, 0.7, 0.9, 0.98, 0.997])
@pytest.mark.parametrize("kind", ["onnx", "model"])
def test_files_of_models_that_are_cut_off_are_told(kind: str, share: float, tmp_path: Path) -> None:
    path = tmp_path / "f"
    load: Callable[[Path], object] = nn.onnx.load if kind == "onnx" else Model.load
    data = nn.onnx.to_bytes(network()) if kind == "onnx" else network().to_bytes()
    path.write_bytes(data)
    load(path)
    path.write_bytes(data[: int(share * len(data))])
    assert str(path) in refused(lambda: load(path), ModelFileError)


CONTENTS: Mapping[str, Callable[[Path], Any]] = {
    "an empty file": lambda path: path.write_bytes(b""),
    "a text": lambda path: path.write_text("these are no weights, but words"),
    "a pickle": lambda path: path.write_bytes(b"\x80\x04\x95\x10\x00\x00\x00\x00\x00\x00\x00}\x94."),
    "a picture": lambda path: path.write_bytes(b"\x89PNG\r\n\x1a\n" + bytes(64)),
    "an archive of arrays": lambda path: as_archive(own(), path),
    "zeros": lambda path: path.write_bytes(bytes(4096)),
    "a file of ONNX": lambda path: path.write_bytes(nn.onnx.to_bytes(network())),
    "safetensors": lambda path: as_tensors("pt")(of_torch(), path),
    "a model file": lambda path: network().save(path),
}
READERS: Mapping[str, tuple[Callable[[Path], object], tuple[str, ...]]] = {
    "load_weights": (lambda path: network().load_weights(path), ("safetensors", "a model file")),
    "onnx": (nn.onnx.load, ("a file of ONNX",)),
    "model": (Model.load, ("a model file",)),
}


@pytest.mark.parametrize("content", CONTENTS)
@pytest.mark.parametrize("reader", READERS)
def test_files_of_another_kind_are_told(reader: str, content: str, tmp_path: Path) -> None:
    read, taken = READERS[reader]
    path = tmp_path / "f"
    CONTENTS[content](path)
    if content in taken:
        read(path)
        return
    assert str(path) in refused(lambda: read(path), ModelFileError)


@pytest.mark.parametrize("reader", READERS)
def test_what_is_no_file_is_told(reader: str, tmp_path: Path) -> None:
    read, _ = READERS[reader]
    assert str(tmp_path) in refused(lambda: read(tmp_path), ModelFileError, OSError)
    assert "none" in refused(lambda: read(tmp_path / "none"), FileNotFoundError)
