"""Parts of a model that take weights, and the arrays of a source that each of them is made of."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from typing import NamedTuple

from nn.arrays import Array, Shape
from nn.layer.layer import Layer
from nn.layer.wrapping import Bidirectional, TimeDistributed
from nn.value.graph import Graph
from nn.value.value import Owner, Variable


class Recipe(NamedTuple):
    """Arrays that a variable is made of.

    Args:
        names: their names behind that of the part.
        shapes: the shapes that they must have.
        convert: function of these arrays that returns one in the shape of the variable; None: the only one as it is.
    """

    names: tuple[str, ...]
    shapes: tuple[Shape, ...]
    convert: Callable[..., Array] | None = None


Form = Mapping[str, Recipe]
"""The recipes for the variables of a layer, by their own names."""


class Piece(NamedTuple):
    """Variable of a part with its recipe."""

    variable: Variable
    recipe: Recipe


class Part(NamedTuple):
    """A layer, or the variables of a model that belong to none.

    Args:
        name: of the layer in the model.
        described: class and name for messages.
        numbered: whether the model has made the name, of class and number.
        forms: the ways in which a source may hold it, of which the first that is there counts.
        ignored: names of arrays that may lie beside and are of no use.
        kind: the word by which sources name such layers; "" where they have none.
        former: name that the layer had before a model around its own gave it another one; "" where it has it still.
    """

    name: str
    described: str
    numbered: bool
    forms: tuple[tuple[Piece, ...], ...]
    ignored: tuple[str, ...] = ()
    kind: str = ""
    former: str = ""


class Home(NamedTuple):
    """Layer around a layer, under which a source holds the inner one.

    Args:
        layer: the outer layer.
        begin: text in front of the names of the inner one, for torch and for Keras.
    """

    layer: Layer
    begin: Mapping[str, str]


def homes(graph: Graph) -> dict[Owner, Home]:
    """Return the layers that lie within another one in a source, with that one."""
    found: dict[Owner, Home] = {}
    for layer in graph.layers:
        if isinstance(layer, Bidirectional):
            found[layer.layer] = Home(layer, {"torch": "", "keras": "forward_layer/"})
            found[layer._back] = Home(layer, {"torch": "reverse.", "keras": "backward_layer/"})
        elif isinstance(layer, TimeDistributed):
            found[layer.layer] = Home(layer, {"torch": "", "keras": "layer/"})
    return found


def owned(graph: Graph) -> Iterator[tuple[Owner | None, list[Variable]]]:
    """Yield layers with their variables, trained ones first, in the order of first use; None with those of no layer."""
    owners: dict[Owner | None, list[Variable]] = {}
    for variable in graph.variables:
        owners.setdefault(variable.owner, []).append(variable)
    for owner, variables in owners.items():
        # In the order in which Keras numbers them.
        yield owner, sorted(variables, key=lambda each: not each.made_trainable)


def as_they_are(variables: Sequence[Variable]) -> Form:
    """Return the recipes of variables that a source holds under the same names, in the same shapes."""
    return {variable.local_name or "": Recipe((variable.local_name or "",), (variable.shape,)) for variable in variables}


def part_of(owner: Owner | None, forms: Sequence[Sequence[Piece]], ignored: Sequence[str] = (), kind: str = "") -> Part:
    """Return the part of a layer, or of None the part of variables of no layer; the others are arguments of `Part`."""
    name = "" if owner is None else owner.name
    described = "the model" if owner is None else owner.describe()
    numbered = isinstance(owner, Layer) and owner._numbered
    former = owner._named_for if isinstance(owner, Layer) and owner._named_for != name else ""
    return Part(name, described, numbered, tuple(map(tuple, forms)), tuple(ignored), kind, former)
