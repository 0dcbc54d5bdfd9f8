"""`load_weights`: by name, a part of them, from files and mappings, all that fits or nothing."""

from __future__ import annotations

import json
import struct
import zipfile
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import nn
from nn import tensor_files
from nn.activation import Linear
from nn.arrays import Array
from nn.layer import LSTM, BatchNorm, Bidirectional, Concatenate, Conv2D, Dense, Layer
from nn.model import Model, ModelFileError, SequentialModel
from nn.transfer import Loaded, keras_layout, sources, torch_layout
from nn.transfer.parts import Part
from nn.value import Graph
from tests.contract.nn_rows import LAYERS

X = np.linspace(-1, 1, 24).reshape(3, 8)


def made(*layers: Layer, seed: int = 0, shape: tuple[int, ...] = (-1, 8)) -> Model:
    model = SequentialModel(list(shape), list(layers) or [Dense(6, "tanh"), BatchNorm(), Dense(3, name="head")], seed=seed)
    model.compile("adam", "mse")
    return model


def bits(model: Model) -> list[bytes]:
    return [weight.tobytes() for weight in model.get_weights()]


def named(model: Model) -> dict[str, Array]:
    return {variable.name: variable.get_value() for variable in model.store.everything}


def test_own_files_and_mappings_are_taken_whole(tmp_path: Path) -> None:
    model = made(seed=1)
    model.fit(X, X[:, :3], epochs=1, verbose=0)
    model.save(tmp_path / "m.model")
    model.save_weights(tmp_path / "m.weights")
    for source in (tmp_path / "m.model", str(tmp_path / "m.weights"), named(model)):
        other = made(seed=2)
        report = other.load_weights(source)
        assert bits(other) == bits(model)
        assert report == Loaded({name: (name,) for name in named(model)}, (), ())
        assert repr(report) == "variables taken: 8"


def test_names_with_a_colon_stay_in_files(tmp_path: Path) -> None:
    model, other = made(Dense(3, name="scope:0"), seed=1), made(Dense(3, name="scope:0"), seed=2)
    model.save_weights(tmp_path / "m.weights")
    assert "scope:0/kernel" in other.load_weights(tmp_path / "m.weights").taken
    assert bits(other) == bits(model)


def test_a_part_is_taken_with_a_report_of_all_else() -> None:
    whole = made(Dense(6, "tanh"), BatchNorm(), Dense(3, name="old"), seed=1)
    model = made(seed=2)
    before = model.get_weights()
    report = model.load_weights(named(whole), partial=True)
    assert bits(model)[:6] == bits(whole)[:6]
    assert [weight.tobytes() for weight in before[6:]] == bits(model)[6:]
    assert (report.missing, report.left) == (("head/kernel", "head/bias"), ("old/kernel", "old/bias"))
    assert repr(report) == (
        "variables taken: 6; kept as they were (2): head/kernel, head/bias; left in the source (2): old/kernel, old/bias"
    )
    # Also where the new head has the name of the old one.
    model = made(seed=2)
    report = model.load_weights(named(made(Dense(6), BatchNorm(), Dense(9, name="head"))), names={"head": None}, partial=True)
    assert report.missing == ("head/kernel", "head/bias") and bits(model)[6:] == bits(made(seed=2))[6:]


def test_names_tell_layers_and_variables_apart() -> None:
    source = {"first/kernel": np.full((8, 6), 2.0), "b": np.arange(6.0)}
    model = made(Dense(6))
    model.load_weights(source, names={"dense_1/kernel": "first/kernel", "dense_1/bias": "b"})
    assert np.array_equal(model.get_weights()[0], source["first/kernel"]) and np.array_equal(
        model.get_weights()[1], source["b"]
    )
    report = model.load_weights(named(made(Dense(6, name="base"), seed=3)), names={"dense_1": "base"})
    assert report.taken == {"dense_1/kernel": ("base/kernel",), "dense_1/bias": ("base/bias",)}
    only = model.load_weights({"k": np.zeros((8, 6))}, names={"dense_1/kernel": "k", "dense_1/bias": None})
    assert only.missing == ("dense_1/bias",) and not model.get_weights()[0].any()


class Line(Model):
    """A model with variables of its own."""

    def __init__(self) -> None:
        super().__init__([-1, 8])
        self.w = nn.Variable([8, 2])

    def call(self, x: nn.Value) -> nn.Value:
        return x @ self.w


class Scale(Layer, configured=True):
    """A person's layer."""

    def build(self, input_shape: Any) -> None:
        self.factor = self.add_variable("factor", input_shape[-1:])

    def call(self, x: nn.Value) -> nn.Value:
        return x * self.factor


@pytest.mark.parametrize("layout", ["nn", "torch"])
def test_variables_of_persons_models_and_layers_have_the_names_that_they_gave(layout: Any) -> None:
    model = Line()
    model.setup("mse")
    model.load_weights({"w": np.ones((8, 2))}, layout=layout)
    assert (model.get_weights()[0] == 1).all()
    scaled = made(Scale(name="scale"))
    scaled.load_weights({f"scale{'/' if layout == 'nn' else '.'}factor": np.full(8, 3.0)}, layout=layout)
    assert (scaled.get_weights()[0] == 3).all()


def torch_state(*shapes: tuple[int, int]) -> dict[str, Array]:
    found: dict[str, Array] = {}
    for place, shape in enumerate(shapes):
        found |= {f"{2 * place}.weight": np.full(shape, place + 1.0), f"{2 * place}.bias": np.full(shape[0], place + 1.0)}
    return found


def tower(name: str | None, *names: str | None) -> Model:
    entry = nn.Input([-1, 4])
    first, last = names or (None, None)
    return Model(entry, Dense(2, name=last)(Dense(2, name=first)(Dense(4, name="own")(entry))), name=name)


@pytest.mark.parametrize("names", [(), ("in", "out")])
@pytest.mark.parametrize("kind", ["file", "torch", "mapping"])
def test_a_model_within_another_takes_weights_by_the_names_that_it_had(names: Any, kind: Any, tmp_path: Path) -> None:
    """A model around it renames layers where two bear the same name."""
    left, right = tower("left", *names), tower("right", *names)
    source: Any = tmp_path / "right.weights"
    right.save_weights(source)
    values = {variable.name: variable.get_value() for variable in right.store.everything}
    if kind == "torch":
        source = {}
        for name, value in values.items():
            source[name.replace("/kernel", ".weight").replace("/bias", ".bias")] = value.T
    entry = nn.Input([-1, 4])
    whole = Model(entry, nn.layer.Add()([left(entry), right(entry)]))
    renamed = [variable.name for variable in right.store.everything]
    assert not {*renamed} & {variable.name for variable in left.store.everything}
    if kind == "mapping":
        source = values
    for variable in right.store.everything:
        variable.set_value(np.zeros(variable.shape))
    report = right.load_weights(source, layout="torch" if kind == "torch" else None)
    assert [*report.taken] == renamed and not report.missing and not report.left
    for now, then in zip(right.get_weights(), values.values(), strict=True):
        np.testing.assert_array_equal(now, then)
    # Of the whole the names of the file are those of the first tower.
    report = whole.load_weights(source, layout="torch" if kind == "torch" else None, partial=True)
    assert {*report.taken} == {each.name for each in left.store.everything} and {*report.missing} >= {*renamed}
    assert all(np.array_equal(*each) for each in zip(left.get_weights(), values.values(), strict=True))


def test_order_decides_between_equal_ones_where_that_is_said() -> None:
    model = made(Dense(8, "relu"), Dense(8, "relu"), Dense(3))
    source = torch_state((8, 8), (8, 8), (3, 8))
    text = (
        r"the mapping does not fit SequentialModel: '0', '2' fit 'dense_1', 'dense_2' alike, by kind and shape; say which is "
        r"which, names=\{'dense_1': '0', \.\.\.\}, or names='order' takes them in their order, dense_1 as 0"
    )
    with pytest.raises(ValueError, match=text):
        model.load_weights(source, layout="torch")
    model.load_weights(source, layout="torch", names="order")
    assert [weight.flat[0] for weight in model.get_weights()] == [1, 1, 2, 2, 3, 3]
    # What is told for one of them decides.
    model.load_weights(source, layout="torch", names={"dense_1": "2"})
    assert [weight.flat[0] for weight in model.get_weights()] == [2, 2, 1, 1, 3, 3]
    del source["2.weight"], source["2.bias"]
    with pytest.raises(ValueError, match="'0' fits 'dense_1', 'dense_2' alike"):
        model.load_weights(source, layout="torch", names="order", partial=True)


def test_recurrences_are_told_by_module_and_layer() -> None:
    names = {f"rnn.{kind}_l{number}": shape for number, width in ((0, 8), (1, 4)) for kind, shape in (
        ("weight_ih", (16, width)), ("weight_hh", (16, 4)), ("bias_ih", (16,)), ("bias_hh", (16,)))}  # fmt: skip
    source = {name: np.full(shape, place + 1.0, np.float16) for place, (name, shape) in enumerate(names.items())}
    model = made(LSTM(4, return_sequences=True, name="rnn"), LSTM(4), shape=(-1, 5, 8))
    report = model.load_weights(source, layout="torch", names={"lstm_1": "rnn.l1"})
    assert report.taken["lstm_1/bias"] == ("rnn.bias_ih_l1", "rnn.bias_hh_l1")
    assert [weight.flat[0] for weight in model.get_weights()] == [1, 2, 7, 5, 6, 15]
    with pytest.raises(ValueError, match=r"must name the layer of 'rnn/bias', which is made of 2 arrays, bias_ih, bias_hh"):
        model.load_weights(source, layout="torch", names={"rnn/bias": "rnn.bias_ih_l0"})
    del source["rnn.bias_hh_l1"]
    before = bits(model)
    with pytest.raises(ValueError, match=r"'lstm_1/bias' is made of 'rnn.l1.bias_ih', 'rnn.l1.bias_hh', of which .* not there"):
        model.load_weights(source, layout="torch", names={"lstm_1": "rnn.l1"}, partial=True)
    assert bits(model) == before


def test_a_layer_of_two_recurrences_is_left_as_it_is() -> None:
    model = made(Bidirectional(LSTM(2)), Dense(3), shape=(-1, 5, 8))
    before = bits(model)
    source = {"1.weight": np.ones((3, 4)), "1.bias": np.ones(3)}
    report = model.load_weights(source, layout="torch", names={"bidirectional_1": None})
    assert len(report.missing) == 6 and bits(model)[:6] == before[:6]


def test_safetensors_of_torch_tell_so_and_have_halves_of_floats(tmp_path: Path) -> None:
    source = {"0.weight": np.ones((6, 8), np.float32), "0.bias": np.float32([1, -2.5, 0.0, 3e38, 1e-38, 7])}
    path = tmp_path / "m.safetensors"
    for form, given in (("pt", {}), ("", {"layout": "torch"})):
        path.write_bytes(tensor_files.dump(source, {"format": form} if form else {"format": ""}))
        model = made(Dense(6))
        model.load_weights(path, **given)  # type: ignore[arg-type]
        assert np.array_equal(model.get_weights()[1], source["0.bias"])
    with pytest.raises(ValueError, match="does not tell in which layout it holds weights, its 'format' is ''"):
        made(Dense(6)).load_weights(path)
    halves = {name: (array.view("<u4") >> 16).astype("<u2") for name, array in source.items()}
    head: dict[str, Any] = {"__metadata__": {"format": "pt"}}
    begin = 0
    for name, array in halves.items():
        head[name] = {"dtype": "BF16", "shape": array.shape, "data_offsets": [begin, begin := begin + array.nbytes]}
    text = json.dumps(head).encode()
    path.write_bytes(struct.pack("<Q", len(text)) + text + b"".join(array.tobytes() for array in halves.values()))
    model = made(Dense(6))
    model.load_weights(path)
    assert model.get_weights()[1].tolist() == (halves["0.bias"].astype("<u4") << 16).view("<f4").tolist()


def equal_layers() -> Model:
    return made(Dense(8, name="fc1"), Dense(8, name="fc2"))


def torch_layers(wrapper: str = "") -> dict[str, Array]:
    layers = enumerate(("fc2", "fc1"), 2)
    return {
        f"{wrapper}{layer}.{part}": np.full(shape, place, np.float32)
        for place, layer in layers
        for part, shape in (("weight", (8, 8)), ("bias", (8,)))
    }


@pytest.mark.parametrize("wrapper", ["", "module.", "model.net."])
def test_layers_of_torch_within_a_module_around_all_have_their_names(wrapper: str) -> None:
    """DataParallel has one, and Lightning: layers alike are told apart by the name behind it, whatever their order is."""
    model = equal_layers()
    model.load_weights(torch_layers(wrapper), layout="torch")
    assert [weight.flat[0] for weight in model.get_weights()] == [3, 3, 2, 2]
    with pytest.raises(ValueError, match="fit 'fc1', 'fc2' alike, by kind and shape; say which is which"):
        equal_layers().load_weights({name.replace("fc", "line"): each for name, each in torch_layers(wrapper).items()},
                                    layout="torch")  # fmt: skip


def parted(folder: Path, weight_map: Any = None, **changed: bytes) -> Path:
    """Write the weights of torch in two files, and their index, as the libraries of Hugging Face do."""
    places = {}
    for layer, file in (("fc1", "m-1.safetensors"), ("fc2", "m-2.safetensors")):
        arrays = {name: array for name, array in torch_layers().items() if name.startswith(layer)}
        (folder / file).write_bytes(changed.get(layer, tensor_files.dump(arrays, {"format": "pt"})))
        places |= dict.fromkeys(arrays, file)
    path = folder / "m.safetensors.index.json"
    path.write_text(json.dumps({"metadata": {}, "weight_map": places if weight_map is None else weight_map(places)}))
    return path


def test_a_model_in_several_safetensors_is_taken_by_its_index(tmp_path: Path) -> None:
    model = equal_layers()
    model.load_weights(parted(tmp_path))
    assert [weight.flat[0] for weight in model.get_weights()] == [3, 3, 2, 2]


@pytest.mark.parametrize(
    ("weight_map", "text"),
    [
        (lambda places: [], "the index must have a 'weight_map', the name of the file that holds each array"),
        (lambda places: {**places, "fc1.bias": 3}, "the index must have a 'weight_map'"),
        (lambda places: {**places, "fc1.bias": "../m-1.safetensors"},
         r"must name .safetensors files of its own folder, got '\.\./m-1.safetensors'"),
        (lambda places: {**places, "fc1.bias": "secret"}, "must name .safetensors files of its own folder, got 'secret'"),
        (lambda places: {**places, "fc1.bias": "m-2.safetensors"},
         "m-1.safetensors has the array 'fc1.bias', which is of 'm-2.safetensors' by the index"),
        (lambda places: {name: file for name, file in places.items() if name != "fc2.bias"},
         "m-2.safetensors has the array 'fc2.bias', which is of no file by the index"),
        (lambda places: {**places, "fc3.bias": "m-2.safetensors"},
         "m-2.safetensors must have the array 'fc3.bias', as the index says; it has none"),
    ],
)  # fmt: skip
def test_an_index_that_does_not_fit_its_files_is_refused(weight_map: Any, text: str, tmp_path: Path) -> None:
    model = equal_layers()
    before = bits(model)
    with pytest.raises(ModelFileError, match=f"m.safetensors.index.json holds no weights that can be read: .*{text}"):
        model.load_weights(parted(tmp_path, weight_map))
    assert bits(model) == before


def test_a_part_that_is_damaged_or_missing_is_named(tmp_path: Path) -> None:
    with pytest.raises(
        ModelFileError, match=r"index.json holds no weights that can be read: m-2.safetensors: it is no file of"
    ):
        equal_layers().load_weights(parted(tmp_path, fc2=b"no weights"))
    (tmp_path / "m-1.safetensors").unlink()
    with pytest.raises(FileNotFoundError, match=r"m-1.safetensors"):
        equal_layers().load_weights(tmp_path / "m.safetensors.index.json")
    (tmp_path / "m.safetensors.index.json").write_text("{" * 99_999)
    with pytest.raises(ModelFileError, match="the index must be JSON"):
        equal_layers().load_weights(tmp_path / "m.safetensors.index.json")


def test_a_frozen_layer_takes_weights_and_stays_frozen() -> None:
    model = made()
    model.layers[0].trainable = False  # type: ignore[attr-defined]
    model.setup("mse")
    model.load_weights(named(made(seed=1)))
    assert bits(model) == bits(made(seed=1))
    assert len(model.trainable_variables()) == 4


def towers() -> Model:
    x = nn.Input([-1, 8])
    model = Model(x, Concatenate()([Dense(4, name="left")(x), Dense(4, name="right")(x)]))
    model.setup("mse")
    return model


@pytest.mark.parametrize(
    ("make", "source", "given", "error", "text"),
    [
        (made, {"a": np.ones(3)}, {}, ValueError,
         r"the mapping does not fit SequentialModel: it has none of the variables: .*'dense_1/kernel' .* source a \(3,\)"),
        (made, {**named(made()), "more": np.ones(2)}, {}, ValueError, "only the mapping has a variable 'more'"),
        (made, {"head/kernel": np.ones((6, 3))}, {}, ValueError,
         r"only the model has a variable 'dense_1/kernel' \(8, 6\) \(names= tells .*, partial=True takes what is in both\)"),
        (made, {**named(made()), "head/bias": np.ones(4)}, {"partial": True}, ValueError,
         r"'head/bias' must have shape \(3,\), got \(4,\); names=\{'head': None\} leaves the layer as it is"),
        (made, torch_state((8, 8)), {}, ValueError, "for names and axes of torch say layout='torch'"),
        (made, {**named(made()), "head/bias": np.ones(3, complex)}, {}, TypeError, "'head/bias' must hold real numbers"),
        (made, {**named(made()), "head/bias": np.array([1, 1e300, 0])}, {}, ValueError,
         r"'head/bias' must hold numbers of float32, got up to 1e\+300"),
        (made, {"epoch": 3, "state_dict": {"a": 1}}, {}, TypeError, "must hold arrays, got dict as 'state_dict'; of a file"),
        (made, {3: np.ones(2)}, {}, TypeError, "must have texts as names, got 3"),
        (made, [np.ones(2)], {}, TypeError, r"'source' must be the path of a file or a mapping of arrays by name.*got \[array"),
        (made, {}, {"names": {"haed": "head"}}, ValueError,
         "'names' must name layers or variables of the model .*got 'haed'; did you mean 'head'"),
        (made, named(made()), {"names": {"head": "haed"}}, ValueError,
         "'names' gives 'haed' for 'head', which the mapping does not have; it has .*did you mean 'head'"),
        (made, named(made()), {"names": {"head/bias": "head/bais"}}, ValueError, "gives 'head/bais' for 'head/bias', which"),
        (made, named(made()), {"names": {"head": 3}}, TypeError, "'names' must have texts or None as values, got 3"),
        (made, named(made()), {"names": "odrer"}, TypeError, "'names' must be a mapping from layers of .* got 'odrer'"),
        (made, named(made()), {"layout": "pytorch"}, ValueError, "'layout' must be one of nn, torch, keras, got 'pytorch'"),
        (made, named(made()), {"partial": 1}, TypeError, "'partial' must be True or False, got 1"),
        (lambda: made(Dense(8)), torch_state((3, 8)), {"layout": "torch", "names": {"dense_1": "0"}}, ValueError,
         r"'0.weight' for 'dense_1/kernel' must have shape \(8, 8\), got \(3, 8\)"),
        (lambda: made(Conv2D(4, 3), shape=(-1, 5, 5, 2)), {"c.weight": np.ones((3, 3, 2, 4)), "c.bias": np.ones(4)},
         {"layout": "torch", "names": {"conv2d_1": "c"}}, ValueError,
         r"'c.weight' for 'conv2d_1/kernel' must have shape \(4, 2, 3, 3\), as the variable has \(3, 3, 2, 4\), got"),
        (towers, torch_state((4, 8), (4, 8)), {"layout": "torch"}, ValueError, "'0', '2' fit 'left', 'right' alike"),
    ],
)  # fmt: skip
def test_what_does_not_fit_is_named_and_changes_nothing(
    make: Callable[[], Model], source: Any, given: Mapping[str, Any], error: type[Exception], text: str
) -> None:
    model = make()
    before = bits(model)
    with pytest.raises(error, match=text):
        model.load_weights(source, **given)
    assert bits(model) == before


@pytest.mark.parametrize(
    ("content", "text"),
    [
        (
            b"\x80\x04 and more of a pickle",
            "holds no weights that can be read: it is no file of a model or of weights.*as pickles do",
        ),
        (tensor_files.dump({"a": np.ones(2)}, {}), "holds no weights: 'format' is 'psgd.tensors/1'"),
        (tensor_files.dump(named(made(Dense(3))), {"format": "psgd.weights/1"}), "only the model has a variable 'batchnorm_1"),
    ],
)
def test_files_that_hold_no_weights_of_the_model_are_refused(content: bytes, text: str, tmp_path: Path) -> None:
    (tmp_path / "f").write_bytes(content)
    with pytest.raises(ModelFileError, match=text):
        made(Dense(3), BatchNorm()).load_weights(tmp_path / "f")


def hdf5(path: Path, arrays: Mapping[str, Any], names: Mapping[str, str] | None = None) -> Path:
    """Write a file as Keras does."""
    h5py = pytest.importorskip("h5py", reason="h5py is not installed (extra keras)")
    with h5py.File(path, "w") as file:
        for name, array in arrays.items():
            file[name] = array
        for layer, name in (names or {}).items():
            file[layer].require_group("vars").attrs["name"] = name
    return path


def of_keras(**units: tuple[int, int]) -> dict[str, Array]:
    found: dict[str, Array] = {}
    for place, (layer, shape) in enumerate(units.items()):
        found |= {
            f"layers/{layer}/vars/0": np.full(shape, place + 1.0),
            f"layers/{layer}/vars/1": np.full(shape[1], place + 1.0),
        }
    return found


def test_layers_of_keras_are_numbered_in_a_chain_and_named_by_persons(tmp_path: Path) -> None:
    """Keras counts from dense, and its own dense_1 is the second; a name that a person gave is that of the layer."""
    arrays = of_keras(dense=(8, 8), dense_1=(8, 8), dense_2=(8, 8))
    file = hdf5(tmp_path / "m.weights.h5", arrays, {"layers/dense": "dense_7", "layers/dense_1": "dense_8"})
    model = made(Dense(8), Dense(8), Dense(8))
    model.load_weights(file)
    assert [weight.flat[0] for weight in model.get_weights()] == [1, 1, 2, 2, 3, 3]
    named_one = hdf5(tmp_path / "n.h5", arrays, {"layers/dense_2": "first"})
    model = made(Dense(8, name="first"), Dense(8), Dense(8))
    model.load_weights(named_one)
    assert [weight.flat[0] for weight in model.get_weights()] == [3, 3, 1, 1, 2, 2]
    report = made(Dense(8, name="a")).load_weights(file, names={"a": "dense_8"}, partial=True)
    assert report.taken["a/bias"] == ("layers/dense_1/vars/1",)
    two = hdf5(tmp_path / "towers.h5", of_keras(dense=(8, 4), dense_1=(8, 4)))
    with pytest.raises(ModelFileError, match="'layers/dense', 'layers/dense_1' fit 'left', 'right' alike"):
        towers().load_weights(two)
    towers().load_weights(two, names="order")


def linked(path: Path) -> Path:
    h5py = pytest.importorskip("h5py", reason="h5py is not installed (extra keras)")
    with h5py.File(path, "w") as file:
        file["layers"] = h5py.ExternalLink("/etc/hostname", "/")
    return path


def looped(path: Path) -> Path:
    h5py = pytest.importorskip("h5py", reason="h5py is not installed (extra keras)")
    with h5py.File(path, "w") as file:
        group = file.create_group("a")
        group["a"] = group
    return path


def zipped(path: Path) -> Path:
    with zipfile.ZipFile(path, "w") as archive:
        archive.writestr("data.pkl", b"")
    return path


def cut_off(path: Path) -> Path:
    hdf5(path, of_keras(dense=(8, 8)))
    path.write_bytes(path.read_bytes()[:700])
    return path


@pytest.mark.parametrize(
    ("write", "text"),
    [
        (linked, "'layers' is a link, which files of Keras do not hold"),
        (looped, "it must hold at most 100 arrays and groups"),
        (zipped, r"it is an archive without 'model.weights.h5', .* \(.pt\) is a pickle, which is never read: load it there"),
        (lambda path: path.write_bytes(b"PK\x03\x04 and no more") and path, "the archive is damaged"),
        (cut_off, "the file of Keras is damaged"),
        (lambda path: hdf5(path, {"layers/dense/vars/0": np.bytes_("text")}), "'layers/dense/vars/0' must hold real numbers"),
        (lambda path: hdf5(path, {"optimizer/vars/0": 1}), "it holds no arrays as Keras 3 writes them"),
        (lambda path: hdf5(path, of_keras(dense=(8, 7))), "only the model has a variable|it has none of the variables"),
    ],
)
def test_files_of_keras_that_are_none_are_refused(
    write: Callable[[Path], Path], text: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(sources, "MOST_ARRAYS", 100)
    pytest.importorskip("h5py", reason="h5py is not installed (extra keras)")
    with pytest.raises(ModelFileError, match=text):
        made(Dense(8)).load_weights(write(tmp_path / "f"))


def spoiled(values: Mapping[str, Array]) -> dict[str, Array]:
    """Return a copy of weights in which two numbers of one and all of another are not finite."""
    made = {name: value.copy() for name, value in values.items()}
    made["dense_1/kernel"][2, 1], made["dense_1/kernel"][7, 5] = np.nan, np.inf
    made["batchnorm_1/moving_mean"][:] = np.inf
    return made


SPOILED = r"'dense_1/kernel' has 2 of 48 numbers that are not finite, the first is nan at \[2, 1\]; 1 more of its variables"


@pytest.mark.parametrize("kind", ["nn", "safetensors", "mapping", "torch", "keras", "npz"])
def test_weights_that_are_not_finite_are_refused(kind: str, tmp_path: Path) -> None:
    """Of every kind of source; the model keeps what it had."""
    model, path = made(seed=1), tmp_path / "f"
    values = spoiled(named(model))
    source: Any = path
    options: dict[str, Any] = {}
    if kind == "nn":
        path.write_bytes(tensor_files.dump(values, {"format": tensor_files.WEIGHTS}))
    elif kind == "safetensors":
        path.write_bytes(tensor_files.dump(values, {"format": "some"}))
        options = {"layout": "nn"}
    elif kind == "mapping":
        source = values
    elif kind == "npz":
        np.savez(tmp_path / "f.npz", **values)
        source = np.load(tmp_path / "f.npz")
    elif kind == "torch":
        norm = {"weight": "gamma", "bias": "beta", "running_mean": "moving_mean", "running_var": "moving_variance"}
        source = {f"1.{theirs}": values[f"batchnorm_1/{ours}"] for theirs, ours in norm.items()}
        for place, name in enumerate(("dense_1", "head")):
            source |= {f"{2 * place}.weight": values[f"{name}/kernel"].T, f"{2 * place}.bias": values[f"{name}/bias"]}
        options = {"layout": "torch", "names": "order"}
    else:
        pytest.importorskip("h5py", reason="h5py is not installed (extra keras)")
        order = ("gamma", "beta", "moving_mean", "moving_variance")
        norm_values = {f"layers/batch_normalization/vars/{n}": values[f"batchnorm_1/{each}"] for n, each in enumerate(order)}
        dense = {f"layers/dense/vars/{n}": values[f"dense_1/{each}"] for n, each in enumerate(("kernel", "bias"))}
        head = {f"layers/dense_1/vars/{n}": values[f"head/{each}"] for n, each in enumerate(("kernel", "bias"))}
        hdf5(path, norm_values | dense | head)
    other = made(seed=2)
    before = bits(other)
    with pytest.raises(ValueError, match=f"does not fit SequentialModel: {SPOILED}"):
        other.load_weights(source, **options)
    assert bits(other) == before
    if kind == "mapping":
        report = other.load_weights(source, names={"dense_1": None, "batchnorm_1": None}, partial=True)
        assert set(report.taken) == {"head/kernel", "head/bias"}


def test_a_model_file_whose_weights_are_not_finite_is_loaded_with_a_warning() -> None:
    model = made(seed=1)
    for name, value in spoiled(named(model)).items():
        next(each for each in model.store.everything if each.name == name).set_value(value)
    with pytest.warns(RuntimeWarning, match=f"in the model file {SPOILED}"):
        other = Model.from_bytes(model.to_bytes())
    assert bits(other) == bits(model)


def test_weights_and_states_of_rules_that_are_not_finite_are_taken_with_a_warning() -> None:
    model = made(seed=1)
    model.compile("adam", "mse")
    weights = model.get_weights()
    weights[0][0, 1] = np.inf
    with pytest.warns(
        RuntimeWarning, match=r"set_weights\(\) got weights of which 'dense_1/kernel' has 1 of 48 .* inf at \[0, 1\]"
    ):
        model.set_weights(weights)
    model.set_weights(made(seed=1).get_weights())
    model.rule.load_state_dict(
        {"step": 1, "momentum": np.full_like(model.store.values, np.nan), "square": model.store.values * 0}
    )
    with pytest.warns(
        RuntimeWarning, match=r"in the model file 'rule:momentum' of 'dense_1/kernel' has 48 of 48 .* first is nan"
    ):
        Model.from_bytes(model.to_bytes())


def test_before_the_variables_exist_it_is_refused() -> None:
    with pytest.raises(ValueError, match="SequentialModel is not built yet"):
        SequentialModel(layers=[Dense(3)]).load_weights({})


@pytest.mark.parametrize("parts", [torch_layout.parts, keras_layout.parts])
def test_every_kind_of_layer_has_a_form(parts: Callable[[Graph], list[Part]]) -> None:
    """A new kind with variables needs a row in `torch_layout`; what a form makes has the shape of the variable."""
    for row in LAYERS:
        x = nn.Placeholder((-1, *row.sample))
        graph = Graph(x, row.applied()(x).apply(Linear()))
        pieces = [piece for part in parts(graph) for form in part.forms for piece in form]
        assert {piece.variable for piece in pieces} == set(graph.variables), row.kind
        for variable, (_, shapes, convert) in pieces:
            arrays = [np.zeros(shape) for shape in shapes]
            assert (arrays[0] if convert is None else convert(*arrays)).shape == variable.shape, (row.kind, variable.name)
