"""Layers and values of the model that is made of an ONNX file, and the names that the file has for its numbers."""

from __future__ import annotations

import math
from collections import Counter
from collections.abc import Mapping, Sequence
from typing import Any, TypeAlias

import numpy as np

from nn.arrays import BATCH, LENGTH, Array, Shape
from nn.layer.layer import Layer
from nn.layer.parameter import Parameter
from nn.model.calls import MOST_NUMBERS
from nn.onnx.axes import Orders
from nn.onnx.folding import has_unknown
from nn.operation.elementwise import Rounding
from nn.operation.shape import Transpose
from nn.tensor_files import ModelFileError
from nn.value.value import Node, Value, as_value

Operand: TypeAlias = Value | Array
"""A value of a file: one that is computed from the inputs, or numbers that are known when it is read."""


class Builder:
    """Maker of the values and layers of one model."""

    def __init__(self) -> None:
        self.orders: Orders[Value] = Orders(lambda value, order: value.apply(Transpose(order)))
        """Values with the axes of others in another order."""
        self.at = ""
        """Words for the node that is being read, in front of an error."""
        self.anchor: Value | None = None
        """An input, on which layers are called that take nothing."""
        self.uncut: set[Value] = set()
        """Numbers that the file cuts to whole ones, as they were before: ids of a table are whole without a cut."""
        self.whole: set[Value] = set()
        """Values of which the type in the file is one of whole numbers, or of truth."""
        self.single = False
        """Whether the file is for one sample at a time."""
        self.double = False
        """Whether the file computes in float64."""
        self._cut: dict[Value, Value] = {}
        self._rows: dict[Value, int] = {}
        self.weights: list[tuple[Layer, Mapping[str, Array]]] = []
        """The layers so far, and the numbers of their variables by name."""
        self._origin: dict[int, str] = {}
        self._stored: set[int] = set()
        self._kept: list[Array] = []
        self._layers: dict[Any, Layer] = {}
        self._constants: dict[int, Value] = {}
        self._names: Counter[str] = Counter()

    def value(self, operand: Operand) -> Value:
        """Return an operand as a value of the graph: known numbers become a constant, or a variable of a layer."""
        if isinstance(operand, Value):
            if operand not in self.uncut:
                return operand
            if operand not in self._cut:
                self._cut[operand] = operand.apply(Rounding("zero"))
                self.whole.add(self._cut[operand])
            return self._cut[operand]
        if id(operand) not in self._constants:
            self._kept.append(operand)
            self._constants[id(operand)] = self._constant(operand)
        return self._constants[id(operand)]

    def is_whole(self, operand: Operand | None) -> bool:
        """Return whether the type of an operand in the file is one of whole numbers, or of truth."""
        if isinstance(operand, np.ndarray):
            return operand.dtype.kind != "f"
        return operand in self.whole

    def layer(
        self, kind: type[Any], weights: Mapping[str, Array], sources: Sequence[Array], part: int = 0, **given: Any
    ) -> Any:
        """Return a layer; where the file has the same weights again, the same one.

        Args:
            kind: class of the layer.
            weights: numbers of its variables, by their names in the layer.
            sources: the arrays of the file that these are made of.
            part: number of the part of the arrays, where they hold weights of several layers.
            given: arguments of its constructor.
        """
        # Arguments by `repr`, as lists have no hash; arrays by `id`, as two layers may have equal weights.
        key = (kind, part, repr(sorted(given.items())), *map(id, sources))
        if key not in self._layers:
            self._kept.extend(sources)
            self._layers[key] = kind(**given, name=self._layer_name(sources))
            self.weights.append((self._layers[key], weights))
        return self._layers[key]

    def shaped(self, x: Value, shape: Sequence[int]) -> Value:
        """Return x in another shape, with -1 at the batch; axes of any length stay, others of length 1 may come and go.

        Args:
            x: the value.
            shape: the other shape.
        """
        if tuple(shape) == x.shape:
            return x
        # An index needs no length of the axes that stay; a reshape does.
        made_value = x[_key(x.shape, shape)] if LENGTH in x.shape else x.reshape(*shape)
        if x in self.uncut:
            self.uncut.add(made_value)
            self.whole.add(made_value)
        return made_value

    def rows(self, value: Value) -> int:
        """Return how many rows of a value belong to a sample: more than one where heads, or steps, are part of the batch."""
        todo = [value]
        while todo:
            each = todo[-1]
            sources = [source for source in each.inputs if BATCH in source.shape] if isinstance(each, Node) else []
            unknown = [source for source in sources if source not in self._rows]
            if each not in self._rows and unknown:
                # Without recursion: graphs may be deep.
                todo += unknown
                continue
            self._rows.setdefault(each, max((self._rows[source] for source in sources), default=1))
            todo.pop()
        return self._rows[value]

    def reshaped(self, x: Value, shape: Sequence[int], rows: int) -> Value:
        """Return x as `shaped` does, in a shape with so many rows for each sample."""
        own, (before, after) = self.rows(x), (math.prod(each for each in of if each != BATCH) for of in (x.shape, shape))
        if own > 1 and LENGTH not in x.shape and before % after and after % before:
            # Whole samples first, where the rows that each of them has are cut in another way: heads beside the samples,
            # as torch has them, become steps beside the samples.
            place = x.shape.index(BATCH)
            x = self.reshaped(x, [*x.shape[: place + 1], own, *x.shape[place + 1 :]], 1)
        made_value = self.shaped(x, shape)
        if made_value is not x:
            self._rows[made_value] = rows
        return made_value

    def derived(self, array: Array, *sources: Array) -> Array:
        """Return an array that is computed from others, with the name of the first one that has one."""
        for source in sources:
            if id(source) in self._origin:
                self.keep(array, self._origin[id(source)], stored=id(source) in self._stored)
                break
        return array

    def keep(self, array: Array, name: str, *, stored: bool) -> Array:
        """Take note of the name of an array of the file, and return it.

        Args:
            array: the numbers.
            name: that the file gives it.
            stored: whether it is one of the tensors of a graph, which are there to be trained.
        """
        # Kept, so that no other array gets its `id`.
        self._kept.append(array)
        self._origin.setdefault(id(array), name)
        if stored:
            self._stored.add(id(array))
        # A single number tells nothing of the file, as those of Python are of float64.
        self.double = self.double or (array.dtype == np.float64 and array.size > 1)
        return array

    def _constant(self, array: Array) -> Value:
        if has_unknown(array):
            raise ModelFileError(
                f"{self.at}numbers depend on a length that comes with the data; give 'shapes' to have it known"
            )
        floats = array.dtype.kind == "f"
        finite = not floats or bool(np.isfinite(array).all())
        trained = floats and finite and array.size > 1 and id(array) in self._stored
        if finite and not trained and array.size <= MOST_NUMBERS:
            return as_value(np.asarray(array, np.float64 if floats else np.int64))
        # A variable has one axis at least.
        shape = array.shape or (1,)
        found = self.layer(Parameter, {"value": array.reshape(shape)}, [array], shape=list(shape), trainable=trained)
        made_value: Value = found(self.anchor)
        return made_value

    def _layer_name(self, sources: Sequence[Array]) -> str | None:
        """Return a name for a layer by that of its weights, such as `encoder.0` for `encoder.0.weight`; None without one."""
        name = next((self._origin[id(each)] for each in sources if id(each) in self._origin), "")
        # Names of torch have dots, those of Keras slashes.
        for sign in ("/", "."):
            front, found, _ = name.rpartition(sign)
            if found:
                name = front
                break
        name = name.strip("/").replace("/", ".")
        if not name:
            return None
        self._names[name] += 1
        return name if self._names[name] == 1 else self._free(name)

    def _free(self, name: str) -> str:
        number = self._names[name]
        while f"{name}_{number}" in self._names:
            number += 1
        self._names[f"{name}_{number}"] += 1
        return f"{name}_{number}"


def _key(shape: Shape, wanted: Sequence[int]) -> tuple[Any, ...]:
    """Return the index by which an array gets another shape that differs by axes of length 1."""
    key: list[Any] = []
    place = 0
    for length in wanted:
        while place < len(shape) and shape[place] == 1 != length:
            key.append(0)
            place += 1
        if place < len(shape) and shape[place] == length:
            key.append(slice(None))
            place += 1
        elif length == 1:
            key.append(None)
        else:
            raise ValueError(f"must know all lengths but the batch, got {list(shape)}; give 'shapes'")
    return (*key, *(0 for _ in shape[place:]))
