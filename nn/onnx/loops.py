"""Loops of ONNX: the body is read once for each step, of which the number is known while reading."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import Any, Final, TypeAlias

import numpy as np

from nn import function
from nn.arrays import BATCH
from nn.onnx.builder import Operand
from nn.onnx.call import Call
from nn.onnx.messages import GraphProto
from nn.tensor_files import ModelFileError
from nn.value.value import Value

MOST_STEPS: Final = 512
"""Steps of a loop, each of which makes operations of its own."""

ADVICE: Final = (
    "; a cell that is exported as LSTM, GRU or RNN, as layers of torch and Keras are, is read for any number of steps, and "
    "'shapes' gives lengths that a file leaves open"
)
Step: TypeAlias = Callable[[GraphProto, dict[str, Operand]], list[Operand]]
"""Reads a body with the values of its inputs by name, and returns its outputs."""


def scanned(call: Call, step: Step) -> list[Operand]:
    """Return the results of a `Scan`: the states after the last step, and the other outputs of all steps side by side."""
    body = _body(call)
    count = int(call.given.get("num_scan_inputs", 0))
    given = [call.operand(place) for place in range(len(call.inputs))]
    states, taken = given[: len(given) - count], given[len(given) - count :]
    # That of version 8 has an axis for the batch and lengths of the sequences.
    if call.version < 9 or not taken:
        raise call.refuse(f"a Scan must be that of version 9, with 'num_scan_inputs' of at least 1{ADVICE}", call.version)
    axes = _numbers(call, "scan_input_axes", count)
    back = _numbers(call, "scan_input_directions", count)
    steps = {each.shape[axis] for each, axis in zip(taken, axes, strict=True)}
    if len(steps) != 1 or not _is_count(next(iter(steps))):
        raise call.refuse(f"the number of steps must be known, from 1 to {MOST_STEPS}{ADVICE}", sorted(map(str, steps)))
    number = steps.pop()
    rows: list[list[Operand]] = []
    for place in range(number):
        read = [
            _part(call, each, axis, number - 1 - place if reverse else place)
            for each, axis, reverse in zip(taken, axes, back, strict=True)
        ]
        found = step(body, dict(zip(_names(body), [*states, *read], strict=True)))
        states = found[: len(states)]
        rows.append(found[len(states) :])
    further = len(rows[0])
    along = _numbers(call, "scan_output_axes", further)
    reversed_ones = _numbers(call, "scan_output_directions", further)
    outputs = [
        _stacked(call, list(each)[:: -1 if reverse else 1], axis)
        for each, axis, reverse in zip(zip(*rows, strict=True), along, reversed_ones, strict=True)
    ]
    return [*states, *outputs]


def looped(call: Call, step: Step) -> list[Operand]:
    """Return the results of a `Loop` as `scanned` does; the number of steps, or the condition after each, must be known."""
    body = _body(call)
    # One more than a loop may have, by which one that goes on is told from one that ends there.
    most = MOST_STEPS + 1
    if call.has(0):
        most = min(most, int(np.asarray(call.array(0)).reshape(-1)[0]))
    goes_on = not call.has(1) or bool(_known(call, call.operand(1)))
    states = [call.operand(place) for place in range(2, len(call.inputs))]
    rows: list[list[Operand]] = []
    place = 0
    while goes_on and place < most:
        if place == MOST_STEPS:
            raise call.refuse(f"a loop must end after at most {MOST_STEPS} steps{ADVICE}", f"more than {MOST_STEPS}")
        # A body is given the number of the step and the condition first, whether it reads them or not.
        entries: list[Operand] = [np.asarray(place, np.int64), np.asarray(True), *states]
        found = step(body, dict(zip(_names(body), entries, strict=True)))
        goes_on = bool(_known(call, found[0]))
        states, further = found[1 : 1 + len(states)], found[1 + len(states) :]
        rows.append(further)
        place += 1
    if not rows:
        raise call.refuse(f"a loop must have a step{ADVICE}", most)
    return [*states, *(_stacked(call, list(each), 0) for each in zip(*rows, strict=True))]


def nodes_of(graph: GraphProto) -> Iterator[Any]:
    """Yield the nodes of a graph, and those of graphs within it."""
    for node in graph.node:
        yield node
        for attribute in node.attribute:
            if attribute.g is not None:
                yield from nodes_of(attribute.g)


def _body(call: Call) -> GraphProto:
    body = call.given.get("body")
    if not isinstance(body, GraphProto):
        raise call.refuse("must have a graph, 'body'", sorted(call.given))
    return body


def _names(body: GraphProto) -> list[str]:
    return [info.name or "" for info in body.input]


def _numbers(call: Call, name: str, count: int) -> list[int]:
    found = [int(each) for each in call.given.get(name) or [0] * count]
    if len(found) != count:
        raise call.refuse(f"'{name}' must have {count} numbers", found)
    return found


def _is_count(length: object) -> bool:
    return isinstance(length, (int, np.integer)) and 0 < int(length) <= MOST_STEPS


def _known(call: Call, found: Operand) -> Any:
    if isinstance(found, Value):
        raise ModelFileError(f"{call.title}: a loop must end by a condition that is known, got one that samples decide{ADVICE}")
    return found.reshape(-1)[0]


def _part(call: Call, x: Operand, axis: int, place: int) -> Operand:
    """Return one step of x."""
    key: tuple[Any, ...] = (slice(None),) * call.axis(axis, len(x.shape)) + (place,)
    return call.builder.value(x)[key] if isinstance(x, Value) else np.asarray(x[key])


def _stacked(call: Call, parts: list[Operand], axis: int) -> Operand:
    if not any(isinstance(each, Value) for each in parts):
        return np.stack(parts, axis)  # type: ignore[arg-type]
    values = [call.builder.value(each) for each in parts]
    shape = next(each.shape for each in values if BATCH in each.shape or each is values[-1])
    # What no sample has changed yet has one row for all of them; to it 0 is added for each, also where numbers overflow.
    whole = [each if each.shape == shape else each + (values[-1] > values[-1]) for each in values]
    return function.stack(whole, axis)
