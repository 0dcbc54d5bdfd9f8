"""Calls of layers and operations that make a graph, as plain data for a file, and the graph made of them again."""

from __future__ import annotations

import inspect
from collections.abc import Sequence
from typing import Any

import numpy as np

import nn.operation
from nn import arguments
from nn.arguments import Configurable
from nn.arrays import plain
from nn.extension import signature_of
from nn.layer.layer import Layer
from nn.operation.operation import Operation
from nn.value.graph import Graph, Placeholder
from nn.value.value import Constant, Node, Value, Variable

MOST_NUMBERS = 4096
"""Numbers of an array in an expression that a file holds; larger ones are for a layer's variable that is not trained."""


def described(graph: Graph, inputs: Sequence[str], outputs: Sequence[str]) -> dict[str, Any]:
    """Return the arguments `inputs`, `outputs`, `calls` and `added` of a functional model.

    A call is a pair: a layer, an activation, or the name of an operation with its arguments; and the numbers of the calls
    with results that it takes. Inputs count -1, -2, ..., a list with one list in it holds numbers.

    Args:
        graph: of the model.
        inputs: names of its inputs.
        outputs: names of its outputs.

    Raises:
        TypeError: for a variable that is no layer's, and an operation of a user's own.
    """
    numbers: dict[Value, int] = {entry: -1 - place for place, entry in enumerate(graph.inputs)}
    calls: list[Any] = []
    for node in _called(graph):
        references = [_reference(value, numbers) for value in taken(node)]
        calls.append([_callee(node), references])
        numbers[node] = len(calls) - 1
    own = graph.outputs[: len(graph.outputs) - graph.added]
    return {
        "inputs": [[name, plain(entry.shape)] for name, entry in zip(inputs, graph.inputs, strict=True)],
        "outputs": [[name, numbers[end]] for name, end in zip(outputs, own, strict=True)],
        "calls": calls,
        "added": [numbers[end] for end in graph.outputs[len(own) :]],
    }


def rebuilt(
    inputs: Sequence[Any], outputs: Sequence[Any], calls: Sequence[Any], added: Sequence[int]
) -> tuple[list[Placeholder], dict[str, Value], list[Node]]:
    """Return inputs, outputs by name and added losses for the arguments that `described` gave.

    Raises ValueError where they are none.
    """
    entries = [Placeholder(_pair("inputs", each)[1], _text(_pair("inputs", each)[0])) for each in inputs]
    results: list[Value] = []

    def value(reference: Any) -> Value:
        if isinstance(reference, list) and len(reference) == 1:
            # In double precision, which a plan brings to its own type: no digit of the file is lost on the way.
            return Constant(np.asarray(reference[0], np.float64))
        if not isinstance(reference, int) or isinstance(reference, bool) or not -len(entries) <= reference < len(results):
            raise ValueError(f"Model 'calls' must take results of earlier calls, got {arguments.short(reference)}")
        return entries[-1 - reference] if reference < 0 else results[reference]

    for call in calls:
        callee, references = _pair("calls", call)
        if not isinstance(references, list) or not references:
            raise ValueError(f"Model 'calls' must say what each takes, got {arguments.short(references)}")
        values = [value(each) for each in references]
        if isinstance(callee, Layer):
            results.append(_result(callee, values))
        else:
            results.append(values[0].apply(_operation(callee), *values[1:]))
    losses = [value(each) for each in added]
    return (
        entries,
        {_text(name): value(place) for name, place in (_pair("outputs", each) for each in outputs)},
        [loss for loss in losses if isinstance(loss, Node)],
    )


def _result(layer: Any, values: Sequence[Value]) -> Node:
    # Past what a layer makes of its one result, such as the list of output and states of a recurrence.
    return Layer.__call__(layer, values if len(values) > 1 else values[0])


def recalled(graph: Graph, values: Sequence[Value]) -> tuple[Value, ...]:
    """Return the outputs of a graph for other values in place of the inputs, some with masks: layers are called anew."""
    results: dict[Value, Value] = dict(zip(graph.inputs, values, strict=True))
    for node in _called(graph):
        given = [results.get(value, value) for value in taken(node)]
        results[node] = _result(node.layers[-1], given) if node.layers else Node(node.operation, given)
    return tuple([results[output] for output in graph.outputs])


def taken(node: Node) -> tuple[Value, ...]:
    """Return the values that a node's outermost layer was called on, or its operation takes."""
    return node.given if node.layers else node.inputs


def _called(graph: Graph) -> list[Node]:
    """Return the results of outermost layers, and of operations outside of layers, each after those that it takes."""
    needed = set(graph.outputs)
    # Backwards, so that all that take a node have been met before it.
    for node in reversed(graph.nodes):
        if node in needed:
            needed.update(value for value in taken(node) if isinstance(value, Node))
    return [node for node in graph.nodes if node in needed]


def _callee(node: Node) -> Any:
    if node.layers:
        return node.layers[-1]
    operation = node.operation
    if isinstance(operation, Configurable):
        return operation
    kind = type(operation)
    # By the object and not by the name alone: a user's class may bear the name of one of the package.
    if kind.__name__ not in nn.operation.__all__ or getattr(nn.operation, kind.__name__) is not kind:
        raise TypeError(
            f"a file names operations of nn only, got {kind.__name__} outside of a layer; put it into a layer's call()"
        )
    return [kind.__name__, [[name, _plain(operation, name)] for name in _parameters(kind)]]


def _parameters(kind: type[Operation]) -> list[str]:
    if kind.__init__ is object.__init__:
        return []
    return list(signature_of(kind.__init__).parameters)[1:]


def _plain(operation: Operation, name: str) -> Any:
    """Return an argument of an operation as numbers, texts and lists; of a slice, or a list of numbers, a marked list."""
    # Some operations keep an argument under a private name.
    found = getattr(operation, name, getattr(operation, f"_{name}", None))
    if callable(found):
        return None  # the text for messages of a layer
    return _coded(found)


def _coded(found: Any) -> Any:
    if isinstance(found, slice):
        return ["slice", found.start, found.stop, found.step]
    if found is Ellipsis:
        return ["ellipsis"]
    if isinstance(found, np.ndarray):
        return ["array", found.tolist()]
    if isinstance(found, (list, tuple)):
        # Marked as well: a list of texts could be taken for one of the marks above.
        return ["list", *map(_coded, found)]
    if isinstance(found, np.generic):
        return found.item()
    return found


def _decoded(coded: Any) -> Any:
    if not isinstance(coded, list):
        return coded
    kind, *rest = coded or [""]
    if kind == "slice" and len(rest) == 3:
        return slice(*rest)
    if kind == "ellipsis" and not rest:
        return Ellipsis
    if kind == "array" and len(rest) == 1:
        return np.asarray(rest[0])
    if kind == "list":
        return tuple([_decoded(each) for each in rest])
    raise ValueError(f"an argument of an operation must be a number, a text or a list, got {arguments.short(coded)}")


def _operation(callee: Any) -> Operation:
    if isinstance(callee, Operation):
        return callee
    name, given = _pair("calls", callee)
    if not isinstance(name, str) or name not in nn.operation.__all__:
        raise ValueError(f"Model 'calls' must name operations of nn, got {arguments.short(name)}")
    kind = getattr(nn.operation, name)
    if not isinstance(kind, type) or not issubclass(kind, Operation) or inspect.isabstract(kind):
        raise ValueError(f"Model 'calls' must name operations of nn, got {name!r}")
    pairs = dict(_pair("calls", each) for each in given) if isinstance(given, list) else {}
    if sorted(pairs) != sorted(_parameters(kind)):
        raise ValueError(f"{name} takes {', '.join(_parameters(kind)) or 'nothing'}, got {arguments.short(list(pairs))}")
    made: Operation = kind(**{each: _decoded(value) for each, value in pairs.items()})
    return made


def _reference(value: Value, numbers: dict[Value, int]) -> Any:
    if value in numbers:
        return numbers[value]
    if isinstance(value, Constant) and value.array.size <= MOST_NUMBERS:
        return [value.array.tolist()]
    if isinstance(value, Constant):
        raise TypeError(
            f"a file holds arrays in expressions of at most {MOST_NUMBERS} numbers, got one of shape {value.shape}; make it a "
            "variable of a layer, add_variable(.., trainable=False)"
        )
    kind = f"variable '{value.name}'" if isinstance(value, Variable) else f"value of shape {value.shape}"
    raise TypeError(f"a file names layers, got the {kind} outside of one; make it a variable of a layer, add_variable()")


def _pair(what: str, given: Any) -> Any:
    if not isinstance(given, (list, tuple)) or len(given) != 2:
        raise ValueError(f"Model '{what}' must be pairs, got {arguments.short(given)}")
    return given


def _text(given: Any) -> str:
    if not isinstance(given, str):
        raise ValueError(f"Model names of inputs and outputs must be texts, got {arguments.short(given)}")
    return given
