"""Names of weights in files of Keras, which has the axes and the order of weights that layers here have."""

from __future__ import annotations

import re
from collections.abc import Mapping
from typing import Any, Final

from nn.layer.attention import MultiHeadAttention
from nn.layer.layer import Layer
from nn.layer.normalization import BatchNorm, GroupNorm, LayerNorm, RMSNorm
from nn.layer.recurrent import Recurrent
from nn.transfer.parts import Part, Piece, Recipe, homes, owned, part_of
from nn.value.graph import Graph
from nn.value.value import Variable

#: Layers with classes that have other names in Keras.
_WORDS: Final[Mapping[type, str]] = {
    BatchNorm: "batch_normalization",
    LayerNorm: "layer_normalization",
    GroupNorm: "group_normalization",
    RMSNorm: "rms_normalization",
}

_UNUSED = re.compile(r"(optimizer|metrics|_metrics|_loss_tracker)/.*|.*\bseed_generator/.*|vars/.*seed.*")


def parts(graph: Graph) -> list[Part]:
    """Return the parts of a model as Keras numbers them: ``vars/0``, ``cell/vars/1``."""
    inside = homes(graph)
    found: dict[object, tuple[Any, list[Piece]]] = {}
    for owner, variables in owned(graph):
        home = inside.get(owner) if owner is not None else None
        begin = "" if home is None else home.begin["keras"]
        names = [f"{begin}{name}" for name in _names(owner, variables)]
        top = owner if home is None else home.layer
        _, pieces = found.setdefault(top, (top, []))
        pieces += [Piece(each, Recipe((name,), (each.shape,))) for each, name in zip(variables, names, strict=True)]
    return [part_of(top, [pieces], kind=_word(top)) for top, pieces in found.values()]


def is_unused(name: str) -> bool:
    """Return whether an array of a file is no weight: of the optimizer, of a metric, of a generator of random numbers."""
    return _UNUSED.fullmatch(name) is not None


def kind_of(path: str) -> str:
    """Return the word for the kind of the layer that a file has under a path: ``dense`` for ``layers/dense_2``."""
    return re.sub(r"_\d+$", "", path.rpartition("/")[2])


def in_order(path: str) -> tuple[Any, ...]:
    """Return a key by which paths are sorted as their layers are numbered: 2 before 10."""
    return tuple(
        tuple((0, int(word), "") if word.isdecimal() else (1, 0, word) for word in part.split("_")) for part in path.split("/")
    )


def _names(owner: object, variables: list[Variable]) -> list[str]:
    if isinstance(owner, MultiHeadAttention):
        # Of query_kernel and query_bias: a layer of its own in Keras, with its variables.
        return [_of_attention(variable.local_name or "") for variable in variables]
    # Keras keeps the variables of a recurrent layer in its cell.
    begin = "cell/" if isinstance(owner, Recurrent) else ""
    return [f"{begin}vars/{number}" for number in range(len(variables))]


def _of_attention(name: str) -> str:
    role, _, kind = name.partition("_")
    return f"{role}_dense/vars/{0 if kind == 'kernel' else 1}"


def _word(owner: object) -> str:
    if not isinstance(owner, Layer):
        return ""
    for kind, word in _WORDS.items():
        if isinstance(owner, kind):
            return word
    # In two steps, by which Keras makes paths of classes: `to_snake_case` in keras/src/utils/naming.py.
    name = re.sub(r"(.)([A-Z][a-z]+)", r"\1_\2", type(owner).__name__)
    return re.sub(r"([a-z])([A-Z])", r"\1_\2", name).lower()
