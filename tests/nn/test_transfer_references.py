"""Weights of torch and of Keras in models of `nn`: the same outputs, with the names and shapes that both libraries have."""

from __future__ import annotations

import warnings
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
import pytest

import nn
from nn import layer
from nn.arrays import Array
from nn.layer import (
    GRU,
    LSTM,
    BatchNorm,
    Bidirectional,
    Conv1D,
    Conv2D,
    Conv2DTranspose,
    Dense,
    DepthwiseConv2D,
    Embedding,
    Flatten,
    GlobalAveragePool,
    GroupNorm,
    LayerNorm,
    MaxPool,
    MultiHeadAttention,
    PReLU,
    Reshape,
    RMSNorm,
    SeparableConv2D,
    SimpleRNN,
)
from nn.model import Model, SequentialModel
from nn.random import keyed
from tests.nn.golden import Golden, optional

torch, keras = optional("torch"), optional("keras")
Shapes = Mapping[str, tuple[int, ...]]


def state(shapes: Shapes) -> dict[str, Array]:
    """Return arrays for the names and shapes of a state dict; variances are positive."""
    found = {}
    for place, (name, shape) in enumerate(shapes.items()):
        drawn = keyed(7, "state", place).normal(0.0, 0.4, shape)
        found[name] = np.float32(np.abs(drawn) + 0.5 if name.endswith("running_var") else drawn)
        if name.endswith("num_batches_tracked"):
            found[name] = np.int64(3)
    return found


def affine(name: str, length: int) -> dict[str, tuple[int, ...]]:
    return {f"{name}.weight": (length,), f"{name}.bias": (length,)}


def normal(name: str, length: int) -> dict[str, tuple[int, ...]]:
    found = {**affine(name, length), f"{name}.running_mean": (length,), f"{name}.running_var": (length,)}
    return {**found, f"{name}.num_batches_tracked": ()}


def recurrent(name: str, gates: int, features: int, units: int, ends: Sequence[str] = ("l0",)) -> dict[str, tuple[int, ...]]:
    found: dict[str, tuple[int, ...]] = {}
    for number, end in enumerate(ends):
        taken = features if number == 0 or end == "l0_reverse" else units * sum(each.startswith("l0") for each in ends)
        found[f"{name}.weight_ih_{end}"] = (gates * units, taken)
        found[f"{name}.weight_hh_{end}"] = (gates * units, units)
        found[f"{name}.bias_ih_{end}"] = found[f"{name}.bias_hh_{end}"] = (gates * units,)
    return found


def chain(shape: Sequence[int], *layers: Any) -> Callable[[], Model]:
    def made() -> Model:
        model = SequentialModel(list(shape), [make() for make in layers])
        model.setup("mse")
        return model

    return made


def kernel(name: str, shape: tuple[int, ...], bias: int | None) -> dict[str, tuple[int, ...]]:
    return {f"{name}.weight": shape, **({} if bias is None else {f"{name}.bias": (bias,)})}


def attention() -> Model:
    x = nn.Input([-1, 5, 6])
    y = MultiHeadAttention(2, 3, name="attention")(x)
    model = Model(x, Dense(3, name="head")(LayerNorm(1e-5, name="norm")(x + y)))
    model.setup("mse")
    return model


def branched() -> Model:
    picture, facts = nn.Input([-1, 3, 4, 2], name="picture"), nn.Input([-1, 3], name="facts")
    joined = layer.Concatenate()([facts, Flatten()(picture)])
    model = Model([picture, facts], Dense(2, name="head")(BatchNorm(epsilon=1e-5, name="norm")(joined)))
    model.setup("mse")
    return model


def crossed() -> Model:
    query, value = nn.Input([-1, 5, 6], name="query"), nn.Input([-1, 4, 3], name="value")
    model = Model([query, value], MultiHeadAttention(2, 3, name="attention")([query, value]))
    model.setup("mse")
    return model


def both_ways() -> Bidirectional:
    return Bidirectional(LSTM(4, return_sequences=True))


def sequential(*parts: Any) -> Any:
    return torch.nn.Sequential(*parts)


class Net:
    """A network of torch of named parts and a function of them and the inputs."""

    def __new__(cls, forward: Callable[..., Any], **parts: Any) -> Any:
        class Made(torch.nn.Module):  # type: ignore[misc, name-defined]
            def __init__(self) -> None:
                super().__init__()
                for name, part in parts.items():
                    setattr(self, name, part)

            def forward(self, *x: Any) -> Any:
                return forward(self, *x)

        return Made()


def separable() -> Any:
    """The parts that torch has no layer for, under the names of papers' code."""
    found = torch.nn.Sequential()
    found.add_module("depthwise", torch.nn.Conv2d(6, 12, 2, groups=6, bias=False))
    found.add_module("pointwise", torch.nn.Conv2d(12, 4, 1))
    return found


def outer(x: Any) -> Any:
    """Return the axes of torch for images or sequences of channels."""
    return x.movedim(-1, 1)


def inner(x: Any) -> Any:
    return x.movedim(1, -1)


# name: model of nn, samples, state dict, network of torch, names
CASES: dict[str, tuple[Callable[[], Model], tuple[tuple[int, ...], ...], Shapes, Callable[[], Any], Any]] = {
    "dense": (
        chain((-1, 5), lambda: Dense(4, "tanh"), lambda: Dense(3, "relu"), lambda: Dense(2)),
        ((6, 5),),
        {**kernel("0", (4, 5), 4), **kernel("2", (3, 4), 3), **kernel("4", (2, 3), 2)},
        lambda: sequential(
            torch.nn.Linear(5, 4), torch.nn.Tanh(), torch.nn.Linear(4, 3), torch.nn.ReLU(), torch.nn.Linear(3, 2)
        ),
        None,
    ),
    "images": (
        chain(
            (-1, 6, 6, 4),
            lambda: Conv2D(6, (3, 2), groups=2, padding="valid"),
            lambda: BatchNorm(epsilon=1e-5),
            lambda: nn.layer.Activation("relu"),
            lambda: MaxPool(2),
            Flatten,
            lambda: Dense(5, "relu"),
            lambda: Dense(3),
        ),
        ((3, 6, 6, 4),),
        {
            **kernel("0", (6, 2, 3, 2), 6), **normal("1", 6), **kernel("5", (5, 24), 5), **kernel("7", (3, 5), 3)
        },
        lambda: sequential(
            torch.nn.Conv2d(4, 6, (3, 2), groups=2), torch.nn.BatchNorm2d(6), torch.nn.ReLU(), torch.nn.MaxPool2d(2),
            torch.nn.Flatten(), torch.nn.Linear(24, 5), torch.nn.ReLU(), torch.nn.Linear(5, 3),
        ),
        None,
    ),
    "sequences": (
        chain((-1, 8, 3), lambda: Conv1D(4, 3, activation="relu"), Flatten, lambda: BatchNorm(epsilon=1e-5), lambda: Dense(2)),
        ((3, 8, 3),),
        {**kernel("conv", (4, 3, 3), 4), **normal("norm", 24), **kernel("head", (2, 24), 2)},
        lambda: Net(
            lambda net, x: net.head(net.norm(torch.relu(net.conv(x)).flatten(1))),
            conv=torch.nn.Conv1d(3, 4, 3), norm=torch.nn.BatchNorm1d(24), head=torch.nn.Linear(24, 2),
        ),
        None,
    ),
    "decoder": (
        chain(
            (-1, 4),
            lambda: Dense(24),
            lambda: BatchNorm(epsilon=1e-5),
            lambda: nn.layer.Activation("relu"),
            lambda: Reshape((2, 4, 3)),
            lambda: Conv2DTranspose(2, (3, 2), stride=2, padding=1, output_padding=1),
        ),
        ((3, 4),),
        {**kernel("dense", (24, 4), 24), **normal("norm", 24), **kernel("up", (3, 2, 3, 2), 2)},
        lambda: Net(
            lambda net, x: inner(net.up(torch.relu(net.norm(net.dense(x))).reshape(-1, 3, 2, 4))),
            dense=torch.nn.Linear(4, 24), norm=torch.nn.BatchNorm1d(24),
            up=torch.nn.ConvTranspose2d(3, 2, (3, 2), stride=2, padding=1, output_padding=1),
        ),
        None,
    ),
    "depthwise": (
        chain(
            (-1, 5, 5, 3),
            lambda: DepthwiseConv2D(3, depth_multiplier=2, name="wide"),
            lambda: SeparableConv2D(4, 2, depth_multiplier=2, name="apart"),
            GlobalAveragePool,
        ),
        ((2, 5, 5, 3),),
        {
            **kernel("wide", (6, 1, 3, 3), 6), **kernel("apart.depthwise", (12, 1, 2, 2), None),
            **kernel("apart.pointwise", (4, 12, 1, 1), 4),
        },
        lambda: Net(
            lambda net, x: net.apart(net.wide(x)).mean((2, 3)),
            wide=torch.nn.Conv2d(3, 6, 3, groups=3),
            apart=separable(),
        ),
        None,
    ),
    "lstm": (
        chain((-1, 5, 3), both_ways, both_ways, lambda: Dense(2)),
        ((3, 5, 3),),
        {**recurrent("rnn", 4, 3, 4, ("l0", "l0_reverse", "l1", "l1_reverse")), **kernel("head", (2, 8), 2)},
        lambda: Net(
            lambda net, x: net.head(net.rnn(x)[0]),
            rnn=torch.nn.LSTM(3, 4, 2, bidirectional=True, batch_first=True), head=torch.nn.Linear(8, 2),
        ),
        None,
    ),
    "gru": (
        chain((-1, 5, 3), lambda: GRU(4, return_sequences=True, name="gru"), lambda: SimpleRNN(2, name="plain")),
        ((3, 5, 3),),
        {**recurrent("gru", 3, 3, 4), **recurrent("plain", 1, 4, 2)},
        lambda: Net(
            lambda net, x: net.plain(net.gru(x)[0])[0][:, -1],
            gru=torch.nn.GRU(3, 4, batch_first=True), plain=torch.nn.RNN(4, 2, batch_first=True),
        ),
        None,
    ),
    "attention": (
        attention,
        ((3, 5, 6),),
        {
            "attention.in_proj_weight": (18, 6), "attention.in_proj_bias": (18,), **kernel("attention.out_proj", (6, 6), 6),
            **affine("norm", 6), **kernel("head", (3, 6), 3),
        },
        lambda: Net(
            lambda net, x: net.head(net.norm(x + net.attention(x, x, x)[0])),
            attention=torch.nn.MultiheadAttention(6, 2, batch_first=True), norm=torch.nn.LayerNorm(6),
            head=torch.nn.Linear(6, 3),
        ),
        None,
    ),
    "attention to others": (
        crossed,
        ((3, 5, 6), (3, 4, 3)),
        {
            "attention.q_proj_weight": (6, 6), "attention.k_proj_weight": (6, 3), "attention.v_proj_weight": (6, 3),
            "attention.in_proj_bias": (18,), **kernel("attention.out_proj", (6, 6), 6),
        },
        lambda: Net(
            lambda net, x, other: net.attention(x, other, other)[0],
            attention=torch.nn.MultiheadAttention(6, 2, kdim=3, vdim=3, batch_first=True),
        ),
        None,
    ),
    "branches": (
        branched,
        ((3, 3, 4, 2), (3, 3)),
        {**normal("norm", 27), **kernel("head", (2, 27), 2)},
        lambda: Net(
            lambda net, x, facts: net.head(net.norm(torch.cat([facts, x.flatten(1)], 1))),
            norm=torch.nn.BatchNorm1d(27), head=torch.nn.Linear(27, 2),
        ),
        None,
    ),
    "norms": (
        chain(
            (-1, 3, 3, 4),
            lambda: GroupNorm(2, 1e-5),
            lambda: PReLU(shared_axes=(1, 2)),
            lambda: RMSNorm(1e-6),
            GlobalAveragePool,
        ),
        ((3, 3, 3, 4),),
        {**affine("group", 4), "slopes.weight": (4,), "rms.weight": (4,)},
        lambda: Net(
            lambda net, x: net.rms(inner(net.slopes(net.group(x)))).mean((1, 2)),
            group=torch.nn.GroupNorm(2, 4), slopes=torch.nn.PReLU(4), rms=torch.nn.RMSNorm(4, eps=1e-6),
        ),
        {"prelu_1": "slopes", "rmsnorm_1": "rms"},
    ),
}  # fmt: skip


def samples(shapes: Sequence[tuple[int, ...]]) -> list[Array]:
    return [np.float32(keyed(5, "samples", place).normal(size=shape)) for place, shape in enumerate(shapes)]


def as_torch(net: Any, arrays: Mapping[str, Array], x: Sequence[Array]) -> Array:
    """Return the outputs of a network of torch with these weights."""
    net.load_state_dict({name: torch.from_numpy(np.array(array)) for name, array in arrays.items()})
    given = [torch.from_numpy(each) for each in x]
    first = next(iter(net.modules()))
    images = given[0].ndim == 4 or any(isinstance(each, torch.nn.Conv1d) for each in first.modules())
    with torch.no_grad():
        found: Array = net.eval()(*[outer(each) if images else each for each in given]).numpy()
    return found


@pytest.mark.parametrize("case", CASES)
def test_a_state_dict_of_torch_gives_the_outputs_of_torch(case: str, golden: Golden) -> None:
    make, shapes, names, build, told = CASES[case]
    arrays, x = state(names), samples(shapes)

    def compute() -> list[Array]:
        net = build()
        assert {name: tuple(each.shape) for name, each in net.state_dict().items()} == dict(names)
        return [as_torch(net, arrays, x)]

    (expected,) = golden(compute, *x, *arrays.values(), needs=torch)
    model = make()
    report = model.load_weights(arrays, layout="torch", names=told)
    assert not report.missing and not report.left
    expected.close(model.predict(x if len(x) > 1 else x[0]), rtol=1e-4, atol=2e-5)


class KerasCase(NamedTuple):
    """A model in both libraries.

    Args:
        make: model of `nn`.
        shape: of a batch of samples.
        layers: for each path in a file of Keras the name of the layer and the shapes of its weights.
        build: the model of Keras.
    """

    make: Callable[[], Model]
    shape: tuple[int, ...]
    layers: Mapping[str, tuple[str, Sequence[tuple[int, ...]]]]
    build: Callable[[Any], Any]


def reading() -> Model:
    x = nn.Input([-1, 5], name="tokens")
    y = Bidirectional(LSTM(4, return_sequences=True))(Embedding(7, 3)(x))
    y = layer.TimeDistributed(Dense(3))(LayerNorm()(MultiHeadAttention(2, 3)(y)))
    model = Model(x, GRU(4)(y))
    model.setup("mse")
    return model


def reading_of_keras(keras: Any) -> Any:
    part = keras.layers
    x = keras.Input((5,))
    y = part.Bidirectional(part.LSTM(4, return_sequences=True))(part.Embedding(7, 3)(x))
    y = part.TimeDistributed(part.Dense(3))(part.LayerNormalization()(part.MultiHeadAttention(2, 3)(y, y)))
    return keras.Model(x, part.GRU(4)(y))


HEADS = {
    f"layers/multi_head_attention/{role}_dense": (name, [(8, 2, 3), (2, 3)])
    for role, name in (("query", "query"), ("key", "key"), ("value", "value"))
}
KERAS = {
    "images": KerasCase(
        chain(
            (-1, 6, 6, 2),
            lambda: Conv2D(3, 3, activation="relu"),
            BatchNorm,
            lambda: DepthwiseConv2D(2),
            Flatten,
            lambda: Dense(4, "tanh"),
            lambda: Dense(4, "tanh"),
            lambda: Dense(2, name="head"),
        ),
        (3, 6, 6, 2),
        {
            "layers/conv2d": ("stem", [(3, 3, 2, 3), (3,)]),
            "layers/batch_normalization": ("batch_normalization_7", [(3,)] * 4),
            "layers/depthwise_conv2d": ("depthwise_conv2d", [(2, 2, 3, 1), (3,)]),
            "layers/dense": ("dense_1", [(27, 4), (4,)]),
            "layers/dense_1": ("dense_2", [(4, 4), (4,)]),
            "layers/dense_2": ("head", [(4, 2), (2,)]),
        },
        lambda keras: keras.Sequential(
            [
                keras.Input((6, 6, 2)),
                keras.layers.Conv2D(3, 3, activation="relu", name="stem"),
                keras.layers.BatchNormalization(name="batch_normalization_7"),
                keras.layers.DepthwiseConv2D(2, name="depthwise_conv2d"),
                keras.layers.Flatten(),
                keras.layers.Dense(4, "tanh", name="dense_1"),
                keras.layers.Dense(4, "tanh", name="dense_2"),
                keras.layers.Dense(2, name="head"),
            ]
        ),
    ),
    "text": KerasCase(
        reading,
        (3, 5),
        {
            "layers/embedding": ("embedding", [(7, 3)]),
            "layers/bidirectional/forward_layer/cell": ("lstm_cell", [(3, 16), (4, 16), (16,)]),
            "layers/bidirectional/backward_layer/cell": ("lstm_cell", [(3, 16), (4, 16), (16,)]),
            **HEADS,
            "layers/multi_head_attention/output_dense": ("attention_output", [(2, 3, 8), (8,)]),
            "layers/layer_normalization": ("layer_normalization", [(8,), (8,)]),
            "layers/time_distributed/layer": ("dense", [(8, 3), (3,)]),
            "layers/gru/cell": ("gru_cell", [(3, 12), (4, 12), (2, 12)]),
        },
        reading_of_keras,
    ),
}


def weights_of(case: KerasCase) -> dict[str, list[Array]]:
    found: dict[str, list[Array]] = {}
    for place, (path, (_, shapes)) in enumerate(case.layers.items()):
        found[path] = [
            np.float32(np.abs(keyed(3, "keras", place, number).normal(0.0, 0.5, shape)) + 0.1 * (number == 3))
            * (1 if number == 3 else (-1) ** (place + number))
            for number, shape in enumerate(shapes)
        ]
    return found


def written(h5py: Any, path: Path, case: KerasCase, *, root: str = "") -> None:
    """Write a file as Keras does: weights by number, and beside them the name of the layer."""
    with h5py.File(path, "w") as file:
        file.create_group(f"{root}vars").attrs["name"] = "functional_3"
        file["optimizer/vars/0"] = np.int64(12)
        for place, arrays in weights_of(case).items():
            group = file.create_group(f"{root}{place}/vars")
            group.attrs["name"] = case.layers[place][0]
            for number, array in enumerate(arrays):
                group[str(number)] = array


@pytest.mark.parametrize("name", KERAS)
def test_files_of_keras_give_the_outputs_of_keras(name: str, golden: Golden, tmp_path: Path) -> None:
    h5py = pytest.importorskip("h5py", reason="h5py is not installed (extra keras)")
    case, arrays = KERAS[name], weights_of(KERAS[name])
    x = np.float32(keyed(4, "samples").integers(0, 7, case.shape))
    files = [tmp_path / "m.weights.h5"]
    written(h5py, files[0], case)

    def compute() -> list[Array]:
        """Load the file that was written here, and write it and an archive by Keras itself."""
        with warnings.catch_warnings():
            warnings.simplefilter("ignore", DeprecationWarning)  # those of Keras about its torch backend and NumPy 2
            model = case.build(keras)
            model.load_weights(files[0])
            answer = model.predict(x, verbose=0)
            files.extend([tmp_path / "k.weights.h5", tmp_path / "k.keras"])
            model.save_weights(files[1])
            model.save(files[2])
        return [answer]

    (expected,) = golden(compute, x, *[each for found in arrays.values() for each in found], needs=keras)
    for file in files:
        model = case.make()
        report = model.load_weights(file)
        assert not report.missing and not report.left
        expected.close(model.predict(x), rtol=1e-4, atol=2e-5)
        assert report.taken["head/kernel" if name == "images" else "gru_1/bias"][0].startswith("layers/")
