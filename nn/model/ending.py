"""The end of a model: the values its last activation gives, whether a loss can work with them, and the part a loss absorbs."""

from __future__ import annotations

import math
from typing import NamedTuple

from nn.activation.activation import Activation, Linear
from nn.activation.sigmoids import LogSoftmax, Sigmoid, Softmax
from nn.arrays import LENGTH
from nn.extension import is_ours
from nn.loss.cross_entropy import Cross_Entropy
from nn.loss.decisions import Binary_Cross_Entropy_Of_Probabilities
from nn.loss.loss import Loss
from nn.operation.arithmetic import Add
from nn.operation.operation import Operation
from nn.operation.shape import Reshape
from nn.value.graph import Graph
from nn.value.value import Node, Value, Variable

_VIEWS = (Reshape, Linear)
_COMPUTING = ("forward", "backward", "derive")
_ANY = (-math.inf, math.inf)


class _End(NamedTuple):
    """The operation that gives the output, its name for messages, and the bounds of its values."""

    operation: Operation
    name: str
    low: float
    high: float

    @property
    def unbounded(self) -> bool:
        """Whether every number can be an output."""
        return self.low == -math.inf and self.high == math.inf


def _last(output: Node) -> tuple[Node, list[Node]]:
    """Return the last node up to an output that computes, and those after it that show its elements in another shape."""
    node, views = output, []
    # one derived from these may compute something, and is no alias then
    while isinstance(node.operation, _VIEWS) and node.operation.aliases and isinstance(node.inputs[0], Node):
        views.append(node)
        node = node.inputs[0]
    return node, views


def absorb(output: Node, loss: Loss) -> tuple[Node, Loss] | None:
    """Return the node before the operation at the end of an output that the loss contains, and the loss of its values.

    `Sigmoid` is found also where the shape is changed after it, `Softmax` where its rows stay rows. None where the output
    is not that of the operation that the loss absorbs.
    """
    node, views = _last(output)
    if loss.absorbs is None or not isinstance(node.operation, loss.absorbs) or is_varied(output, loss):
        return None
    rows_stay = isinstance(node.operation, Softmax) and node.shape[-1:] == output.shape[-1:]
    if views and not rows_stay and not isinstance(node.operation, Sigmoid):
        return None
    source: Value = node.inputs[0]
    # The changes of shape are made again behind the scores.
    for view in reversed(views):
        source = source.apply(view.operation)
        source.layers = view.layers
    # A graph ends in a node; the input itself is none.
    before = source if isinstance(source, Node) else source.apply(Linear())
    taken = loss.of_scores() if isinstance(loss, Binary_Cross_Entropy_Of_Probabilities) else loss
    return before, taken


def is_varied(output: Node, loss: Loss) -> bool:
    """Return whether an output is that of a class derived from the operation that the loss absorbs, and is computed otherwise.

    The loss cannot take its place then, and metrics get its values as they are.
    """
    operation = _last(output)[0].operation
    if loss.absorbs is None or not isinstance(operation, loss.absorbs):
        return False
    return any(getattr(type(operation), name, None) is not getattr(loss.absorbs, name, None) for name in _COMPUTING)


def gives_probabilities(graph: Graph, kind: type[Activation]) -> bool:
    """Return whether the model ends in `Sigmoid` or `Softmax`, the `kind`, or in a change of shape behind it."""
    return isinstance(_last(graph.output)[0].operation, kind)


def _end(output: Node) -> _End | None:
    """Return the end of the graph in front of an output; None where nothing is known of its values, as after arithmetic."""
    node, views = _last(output)
    operation = node.operation
    if isinstance(operation, Activation) or getattr(operation, "rectified", False):
        bounds = _bounds(operation)
        name = type(operation).__name__ if isinstance(operation, Activation) else "ReLU"
        return None if bounds is None else _End(operation, name, *bounds)
    # A bias moves no bound of a product, which has none.
    if isinstance(operation, Add) and isinstance(node.inputs[1], Variable) and isinstance(node.inputs[0], Node):
        operation = node.inputs[0].operation
    if isinstance(operation, Activation) or _bounds(operation) != _ANY:
        return None
    # the layer's own identity may be the first node that is known to be its result
    layer = next((type(each.layers[0]).__name__ for each in (node, *reversed(views)) if each.layers), "a product")
    return _End(operation, f"{layer} without an activation", *_ANY)


def _bounds(operation: Operation) -> tuple[float, float] | None:
    """Return the bounds of an operation of this package; a class that a user derives from it may give other values."""
    return operation.bounds if is_ours(type(operation)) else None


def check_ending(output: Node, loss: Loss) -> None:
    """Raise ValueError, with the repair, where the last activation gives values with which the loss cannot train.

    Nothing is said of ends that are not known, such as arithmetic or activations of one's own.
    """
    shape = output.shape
    end = _end(output)
    if end is not None and isinstance(end.operation, (Softmax, LogSoftmax)) and _last(output)[0].shape[-1] == 1:
        always = 1 if isinstance(end.operation, Softmax) else 0
        raise ValueError(
            f"the model ends in {end.name} of one output, which is always {always}, so it cannot learn; for yes or no take "
            "Dense(1, 'sigmoid') with the loss 'binary_crossentropy', for classes one output each"
        )
    if loss._takes in ("class probabilities", "class scores") and shape[-1:] == (1,):
        raise ValueError(
            f"setup() 'loss': {type(loss).__name__} compares the probabilities of classes, but the model has one output"
            f"{'' if end is None else f', of {end.name}'}; for yes or no take Dense(1, 'sigmoid') with the loss "
            "'binary_crossentropy', for classes one output each"
        )
    if is_varied(output, loss) and not isinstance(loss, Binary_Cross_Entropy_Of_Probabilities):
        absorbed, own = getattr(loss.absorbs, "__name__", ""), type(_last(output)[0].operation).__name__
        word = "binary_crossentropy" if absorbed == "Sigmoid" else "categorical_crossentropy"
        raise ValueError(
            f"setup() 'loss': {type(loss).__name__} computes {absorbed} itself, but the model ends in {own}, which is derived "
            f"from it and computes something else; take a loss of its values, such as {word!r}"
        )
    if end is None:
        return
    wanted, repair = _misfit(end, loss, math.prod(axis for axis in shape[1:] if axis != LENGTH))
    if repair:
        raise ValueError(
            f"setup() 'loss': {type(loss).__name__} takes {wanted}, but the model ends in {end.name}, which gives "
            f"{_described(end)}; {repair}"
        )


def _misfit(end: _End, loss: Loss, outputs: int) -> tuple[str, str]:
    """Return the values that the loss takes, and the repair where the end does not fit it, else an empty repair."""
    sigmoid, softmax = (isinstance(end.operation, kind) for kind in (Sigmoid, Softmax))
    units = max(outputs, 1)
    if loss._takes == "probabilities":
        fits = end.low >= 0 and end.high <= 1
        repair = f"end in 'sigmoid', such as Dense({units}, 'sigmoid')"
        if end.unbounded and isinstance(loss, Binary_Cross_Entropy_Of_Probabilities):
            repair += ", or for scores take the loss 'binary_crossentropy_with_sigmoid', the class Binary_Cross_Entropy"
        return "probabilities", "" if fits else repair
    if loss._takes == "scores":
        repair = f"end in scores, such as Dense({units}) without an activation, or in 'sigmoid'"
        if softmax:
            repair = "for classes take the loss 'categorical_crossentropy', for yes or no of each output end in 'sigmoid'"
        return "scores of any size", "" if sigmoid or end.unbounded else repair
    if loss._takes == "class probabilities":
        repair = "end in 'softmax'"
        if not isinstance(loss, Cross_Entropy):
            return "rows of probabilities that sum to 1", "" if softmax else repair
        if not sigmoid:
            repair += ", or for scores take the loss 'crossentropy_with_softmax'"
        else:
            repair += ", or for yes or no of each output take the loss 'binary_crossentropy'"
        return "rows of probabilities that sum to 1", "" if softmax else repair
    if loss._takes == "rates":
        return "rates above 0", "" if end.low >= 0 else "end in 'softplus' or 'exponential'"
    if loss._takes == "class scores":
        # A side that is open is enough: rectified scores may grow.
        fits = softmax or math.inf in (end.high, -end.low)
        repair = "end in scores, a layer without an activation, or in 'softmax'"
        if sigmoid:
            repair += ", or for yes or no of each output take the loss 'binary_crossentropy'"
        return "scores of any size", "" if fits else repair
    if loss._takes == "decisions" and outputs == 1:
        fits = end.low <= -1 and end.high >= 1
        return "decisions, of which -1 and 1 are sure ones", "" if fits else (
            "end in scores, such as Dense(1) without an activation, or in 'tanh'"
        )
    return "", ""


def _described(end: _End) -> str:
    if isinstance(end.operation, Softmax):
        return "rows of probabilities"
    if isinstance(end.operation, Sigmoid):
        return "a probability for each output"
    if end.unbounded:
        return "scores, any number"
    return f"no number below {end.low:g}" if end.high == math.inf else f"numbers in {end.low:g}..{end.high:g}"
