"""Order of features that come of images, or become images: torch has the channels first, `nn` has them last."""

from __future__ import annotations

import math
from collections import defaultdict
from collections.abc import Sequence

import numpy as np
from numpy.typing import NDArray

from nn.activation.activation import Activation
from nn.arrays import Shape
from nn.operation.arithmetic import Arithmetic
from nn.operation.convolution.operation import Convolution
from nn.operation.convolution.transposed import TransposedConvolution
from nn.operation.elementwise import Elementwise
from nn.operation.matmul import MatMul
from nn.operation.normalization import BatchNormalize, LayerNormalize, RMSNormalize
from nn.operation.pooling import Pool
from nn.operation.shape import Concatenate, Pad, Repeat, Reshape
from nn.value.graph import Graph
from nn.value.value import Node, Value, Variable

Places = NDArray[np.intp]
_KEEPING = (Elementwise, Activation, Arithmetic, BatchNormalize, LayerNormalize, RMSNormalize)
_SPATIAL = (Convolution, TransposedConvolution, Pool)


class Channels:
    """Orders of the features that rows have in a graph.

    Behind a `Flatten` of images (height, width, channels) feature j is a cell of a channel; torch, which has channels first,
    numbers the same cells otherwise. So do the features that a `Reshape` makes images of.

    Args:
        graph: of the model.
    """

    def __init__(self, graph: Graph) -> None:
        self._users: dict[Value, list[Node]] = defaultdict(list)
        for node in graph.nodes:
            for source in node.inputs:
                self._users[source].append(node)

    def of_inputs(self, variable: Variable) -> Places | None:
        """Return for each input of a kernel the place that torch has for it; None where the order is the same."""
        user = self._user(variable)
        return None if user is None else self._before(user.inputs[0])

    def of_outputs(self, variable: Variable) -> Places | None:
        """Return for each output of a kernel the place that torch has for it; None where the order is the same."""
        user = self._user(variable)
        return None if user is None else _places(self._behind(user))

    def of_features(self, variable: Variable) -> Places | None:
        """Return for each feature of a normalisation or of slopes the place that torch has for it; None for the same order."""
        user = self._user(variable)
        if user is None:
            return None
        source = next((each for each in user.inputs if not isinstance(each, Variable)), user)
        before = self._before(source)
        return _places(self._behind(user)) if before is None else before

    def _user(self, variable: Variable) -> Node | None:
        return next(iter(self._users[variable]), None)

    def _before(self, value: Value) -> Places | None:
        """Return for each feature of rows that images were made into the place that torch has for it, or None."""
        while isinstance(value, Node) and len(value.shape) == 2:
            if isinstance(value.operation, Concatenate):
                return _joined([(each.shape[1], self._before(each)) for each in value.inputs])
            source = _main(value)
            if isinstance(value.operation, Reshape):
                return _places(source.shape[1:]) if _same_sample(source, value) and _has_channels(source) else None
            if source.shape != value.shape or not isinstance(value.operation, _KEEPING):
                return None
            value = source
        return None

    def _behind(self, value: Value) -> Shape | None:
        """Return the shape of the images that are made of rows, or None."""
        for user in self._users[value] if len(value.shape) == 2 else ():
            if isinstance(user.operation, Reshape) and _same_sample(value, user):
                # Rows of three axes are steps of features, which torch orders alike, unless something reads them as
                # cells of channels.
                spatial = any(isinstance(each.operation, (*_SPATIAL, Pad, Repeat)) for each in self._reached(user))
                if len(user.shape) == 4 or (len(user.shape) == 3 and spatial):
                    return user.shape[1:]
            elif isinstance(user.operation, _KEEPING) and user.shape == value.shape:
                found = self._behind(user)
                if found is not None:
                    return found
        return None

    def _reached(self, value: Value) -> list[Node]:
        """Return the users of a value, and those of values that are computed of it element by element."""
        found: list[Node] = []
        for user in self._users[value]:
            found.append(user)
            if isinstance(user.operation, _KEEPING):
                found += self._reached(user)
        return found


def _main(node: Node) -> Value:
    """Return the input of an operation that is no variable and no number."""
    return next((each for each in node.inputs if isinstance(each, Node) or each.shape == node.shape), node.inputs[0])


def _same_sample(source: Value, result: Value) -> bool:
    known = [*source.shape[1:], *result.shape[1:]]
    return all(isinstance(axis, int) and axis > 0 for axis in known) and math.prod(source.shape[1:]) == math.prod(
        result.shape[1:]
    )


def _has_channels(value: Value) -> bool:
    """Return whether torch has the last axis of a value in front: of images, and of sequences that convolutions have given."""
    if len(value.shape) == 4:
        return True
    while len(value.shape) == 3 and isinstance(value, Node):
        if isinstance(value.operation, _SPATIAL) or _is_pointwise(value):
            return True
        if not isinstance(value.operation, (*_KEEPING, Pad, Repeat)):
            return False
        value = _main(value)
    return False


def _is_pointwise(node: Node) -> bool:
    """Return whether a product is the second half of a separable convolution: its kernel is a variable in another shape."""
    kernel = node.inputs[-1]
    return isinstance(node.operation, MatMul) and isinstance(kernel, Node) and isinstance(kernel.inputs[0], Variable)


def _joined(parts: Sequence[tuple[int, Places | None]]) -> Places | None:
    """Return the places of features that stand side by side, of which there are so many in each part."""
    if all(places is None for _, places in parts):
        return None
    found, start = [], 0
    for length, places in parts:
        found.append(start + (np.arange(length) if places is None else places))
        start += length
    return np.concatenate(found)


def _places(shape: Sequence[int] | None) -> Places | None:
    # With one channel, or one cell, both orders are the same.
    if shape is None or shape[-1] == 1 or math.prod(shape[:-1]) == 1:
        return None
    *cells, channels = shape
    # The numbers that torch gives the cells, read in the order of nn.
    first: Places = np.arange(math.prod(shape)).reshape(channels, *cells)
    return np.moveaxis(first, 0, -1).ravel()
