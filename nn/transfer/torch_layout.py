"""Names and axes of weights in torch, by kind of layer."""

from __future__ import annotations

import re
from collections.abc import Callable, Mapping
from functools import partial
from typing import Any, Final

import numpy as np

from nn.arrays import Array
from nn.extension import is_ours
from nn.layer.activation import PReLU
from nn.layer.attention import MultiHeadAttention
from nn.layer.convolution import ConvolutionLayer
from nn.layer.core import Dense, Embedding
from nn.layer.layer import Layer
from nn.layer.normalization import BatchNorm, GroupNorm, LayerNorm, RMSNorm
from nn.layer.parameter import Parameter
from nn.layer.recurrent import GRU, LSTM, SimpleRNN
from nn.layer.separable_convolution import DepthwiseConvolutionLayer, SeparableConvolutionLayer
from nn.layer.transposed_convolution import TransposedConvolutionLayer
from nn.transfer.channels import Channels, Places
from nn.transfer.parts import Form, Part, Piece, Recipe, as_they_are, homes, owned, part_of
from nn.value.graph import Graph
from nn.value.value import Variable

Own = Mapping[str, Variable]
_CELL = re.compile(r"(.*\b)((?:weight|bias)_(?:ih|hh|hr))_l(\d+)(_reverse)?")
# A count of batches, by which torch averages where the momentum is None.
_IGNORED: Final = ("num_batches_tracked",)


def parts(graph: Graph) -> list[Part]:
    """Return the parts of a model as torch names and shapes them.

    Raises:
        ValueError: for a layer of this package without a known form in torch.
    """
    channels, inside = Channels(graph), homes(graph)
    found: dict[object, tuple[Any, list[list[Piece]], tuple[str, ...]]] = {}
    for owner, variables in owned(graph):
        home = inside.get(owner) if owner is not None else None
        begin = "" if home is None else home.begin["torch"]
        forms = _forms(owner, {variable.local_name or "": variable for variable in variables}, channels)
        made = [[Piece(each, _behind(begin, form[each.local_name or ""])) for each in variables] for form in forms]
        # Layers that torch has as one: the first, then what comes to it.
        top = owner if home is None else home.layer
        known = found.get(top)
        joined = made if known is None else [before + form for before in known[1] for form in made]
        found[top] = top, joined, _IGNORED if isinstance(owner, BatchNorm) else ()
    return [part_of(*each) for each in found.values()]


def renamed(name: str) -> str:
    """Return the name of an array with the parts of a recurrence as modules: ``rnn.weight_ih_l0`` is ``rnn.l0.weight_ih``."""
    cell = _CELL.fullmatch(name)
    if cell is None:
        return name
    begin, own, number, back = cell.groups()
    return f"{begin}l{number}.{'reverse.' if back else ''}{own}"


def _behind(begin: str, recipe: Recipe) -> Recipe:
    return recipe._replace(names=tuple([begin + name for name in recipe.names]))


def _forms(owner: Any, own: Own, channels: Channels) -> list[Form]:
    for kind in type(owner).__mro__:
        if kind in _KINDS:
            forms = _KINDS[kind](owner, own, channels)
            if all(own.keys() <= form.keys() for form in forms):
                return forms
    if isinstance(owner, Layer) and is_ours(type(owner)):
        raise ValueError(
            f"load_weights() knows no form of {owner.describe()} in torch; give its variables as a mapping, layout='nn'"
        )
    # A person's layer: its parameters have the names and axes that the person gave them.
    return [as_they_are(list(own.values()))]


def _turned(*order: int) -> Callable[[Array], Array]:
    """Return a function that gives an array with its axes in this order."""
    return lambda array: array.transpose(order)


def _taken(array: Array, rows: Places | None, columns: Places | None) -> Array:
    found = array if rows is None else array[rows]
    return found if columns is None else found[..., columns]


def _dense(_layer: Dense, own: Own, channels: Channels) -> list[Form]:
    kernel = own["kernel"]
    rows, columns = channels.of_inputs(kernel), channels.of_outputs(kernel)
    return [
        {
            "kernel": Recipe(("weight",), (kernel.shape[::-1],), lambda weight: _taken(weight.T, rows, columns)),
            "bias": Recipe(("bias",), (kernel.shape[1:],), lambda bias: _taken(bias, None, columns)),
        }
    ]


def _convolution(layer: Any, own: Own, _channels: Channels) -> list[Form]:
    *size, taken, given = own["kernel"].shape
    axes = len(size)
    # (height, width, channels, filters) of (filters, channels, height, width), for transposed ones both exchanged.
    kernel = Recipe(("weight",), ((given, taken, *size),), _turned(*range(2, 2 + axes), 1, 0))
    return [{"kernel": kernel, "bias": Recipe(("bias",), ((layer.filters,),))}]


def _split(weight: Array, channels: int) -> Array:
    """Return kernels (..., channels, several) of a grouped convolution's (channels * several, 1, ...)."""
    cells = weight.reshape(channels, -1, *weight.shape[2:])
    return np.moveaxis(cells, (0, 1), (-2, -1))


def _depthwise(_layer: Any, own: Own, _channels: Channels) -> list[Form]:
    *size, channels, several = own["kernel"].shape
    kernel = Recipe(("weight",), ((channels * several, 1, *size),), partial(_split, channels=channels))
    return [{"kernel": kernel, "bias": Recipe(("bias",), ((channels * several,),))}]


def _separable(layer: SeparableConvolutionLayer, own: Own, _channels: Channels) -> list[Form]:
    *size, channels, several = own["depthwise_kernel"].shape
    axes = len(size)
    return [
        {
            "depthwise_kernel": Recipe(
                ("depthwise.weight",), ((channels * several, 1, *size),), partial(_split, channels=channels)
            ),
            "pointwise_kernel": Recipe(
                ("pointwise.weight",),
                ((layer.filters, channels * several, *(1,) * axes),),
                _turned(*range(2, 2 + axes), 1, 0),
            ),
            "bias": Recipe(("pointwise.bias",), ((layer.filters,),)),
        }
    ]


def _norm(_layer: Any, own: Own, channels: Channels) -> list[Form]:
    names = {"gamma": "weight", "scale": "weight", "beta": "bias", "moving_mean": "running_mean"}
    names["moving_variance"] = "running_var"
    places = channels.of_features(next(iter(own.values())))
    return [
        {name: Recipe((names[name],), (own[name].shape,), lambda array: _taken(array, None, places)) for name in own},
    ]


def _prelu(_layer: PReLU, own: Own, channels: Channels) -> list[Form]:
    shape = own["alpha"].shape
    if any(axis > 1 for axis in shape[:-1]):
        return [as_they_are([own["alpha"]])]  # torch has no slopes by place
    places = channels.of_features(own["alpha"]) if len(shape) == 1 else None
    recipe = Recipe(("weight",), (shape[-1:],), lambda array: _taken(array, None, places).reshape(shape))
    return [{"alpha": recipe}]


def _embedding(_layer: Embedding, own: Own, _channels: Channels) -> list[Form]:
    return [{"embeddings": Recipe(("weight",), (own["embeddings"].shape,))}]


def _cells(layer: Any, own: Own, gates: tuple[int, ...], *, apart: bool = False) -> list[Form]:
    """Return the form of a recurrence with gates at these places in torch; both biases are added, or kept `apart`."""
    features, columns = own["kernel"].shape

    def ordered(array: Array) -> Array:
        blocks = array.reshape(len(gates), layer.units, *array.shape[1:])
        return blocks[list(gates)].reshape(array.shape)

    def biases(first: Array, second: Array) -> Array:
        return np.stack([ordered(first), ordered(second)]) if apart else ordered(first + second)

    return [
        {
            "kernel": Recipe(("weight_ih",), ((columns, features),), lambda weight: ordered(weight).T),
            "recurrent_kernel": Recipe(("weight_hh",), ((columns, layer.units),), lambda weight: ordered(weight).T),
            "bias": Recipe(("bias_ih", "bias_hh"), ((columns,), (columns,)), biases),
        }
    ]


def _attention(layer: MultiHeadAttention, own: Own, _channels: Channels) -> list[Form]:
    names = {"query": 0, "key": 1, "value": 2}
    inputs = {name: own[f"{name}_kernel"].shape for name in names}
    inner = {name: shape[1] * shape[2] for name, shape in inputs.items()}
    rows = sum(inner.values())
    ends = np.cumsum([0, *inner.values()])

    def block(name: str, array: Array) -> Array:
        return array[ends[names[name]] : ends[names[name] + 1]]

    def kernel(name: str, array: Array) -> Array:
        return array.T.reshape(inputs[name])

    heads, width, features = own["output_kernel"].shape
    together: dict[str, Recipe] = {
        "output_kernel": Recipe(
            ("out_proj.weight",), ((features, heads * width),), lambda weight: weight.T.reshape(heads, width, features)
        ),
        "output_bias": Recipe(("out_proj.bias",), ((features,),)),
    }
    for name in inputs:
        together[f"{name}_bias"] = Recipe(
            ("in_proj_bias",), ((rows,),), lambda array, name=name: block(name, array).reshape(inputs[name][1:])
        )
    apart = dict(together)
    for name, shape in inputs.items():
        together[f"{name}_kernel"] = Recipe(
            ("in_proj_weight",), ((rows, shape[0]),), lambda array, name=name: kernel(name, block(name, array))
        )
        # torch keeps the three apart where key or value have another width than the query.
        apart[f"{name}_kernel"] = Recipe(
            (f"{name[0]}_proj_weight",), ((inner[name], shape[0]),), lambda array, name=name: kernel(name, array)
        )
    return [together, apart]


#: Forms in torch of the kinds of layers with variables; a layer of a derived class has that of its base.
_KINDS: Final[Mapping[type, Callable[[Any, Own, Channels], list[Form]]]] = {
    Dense: _dense,
    ConvolutionLayer: _convolution,
    TransposedConvolutionLayer: _convolution,
    DepthwiseConvolutionLayer: _depthwise,
    SeparableConvolutionLayer: _separable,
    BatchNorm: _norm,
    LayerNorm: _norm,
    GroupNorm: _norm,
    RMSNorm: _norm,
    PReLU: _prelu,
    Embedding: _embedding,
    # torch has the gates of LSTM in the same order, of GRU r before z.
    SimpleRNN: lambda layer, own, _channels: _cells(layer, own, (0,)),
    LSTM: lambda layer, own, _channels: _cells(layer, own, (0, 1, 2, 3)),
    GRU: lambda layer, own, _channels: _cells(layer, own, (1, 0, 2), apart=True),
    MultiHeadAttention: _attention,
    Parameter: lambda _layer, own, _channels: [as_they_are(list(own.values()))],
}
