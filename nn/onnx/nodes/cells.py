"""Operators that read sequences step by step."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from types import MappingProxyType
from typing import Any, Final

import numpy as np

from nn import function, layer
from nn.arrays import Array
from nn.onnx.builder import Operand
from nn.onnx.call import Call
from nn.onnx.nodes.shapes import cut, squeezed
from nn.value.value import Value

#: Layer of an operator, the order of its gates by their numbers in ONNX, and the functions that nn has.
_GATES: Final[Mapping[str, tuple[type[Any], Sequence[int], list[str]]]] = MappingProxyType({
    "LSTM": (layer.LSTM, (0, 2, 3, 1), ["Sigmoid", "Tanh", "Tanh"]),
    "GRU": (layer.GRU, (0, 1, 2), ["Sigmoid", "Tanh"]),
    "RNN": (layer.SimpleRNN, (0,), ["Tanh"]),
})  # fmt: skip


def recurrent(call: Call) -> list[Operand]:
    kind, order, functions = _GATES[call.node.op_type or ""]
    direction = call.given.get("direction", "forward")
    directions = 2 if direction == "bidirectional" else 1
    steps_first = not call.given.get("layout", 0)
    asked = call.given.get("activations") or functions * directions
    words = asked if call.node.op_type == "RNN" else functions * directions
    if asked != words or set(words) - {"Sigmoid", "Tanh", "Relu"}:
        raise call.refuse(f"'activations' must be {functions}", asked)
    for name, usual in (("clip", None), ("input_forget", 0)):
        if call.given.get(name, usual) != usual:
            raise call.refuse(f"nn has cells without '{name}'", call.given[name])
    if call.node.op_type == "GRU" and not call.given.get("linear_before_reset", 0):
        raise call.refuse("nn has the reset gate behind the recurrent product, 'linear_before_reset' 1", 0)
    x = call.value(0)
    x = call.builder.orders.turned(x, (1, 0, 2)) if steps_first else x
    # Inputs of the operators: x, kernels of x and of the state, biases, lengths, first h, first c, peepholes.
    lengths = call.array(4) if call.has(4) else None
    if call.has(7) or (lengths is not None and any(each != x.shape[1] for each in lengths.flat)):
        raise call.refuse("nn reads all steps, without peepholes", "lengths of sequences, or peepholes")
    first = [_first_state(call, number, directions, steps_first) for number in range(5, 7) if call.has(number)]
    given = None if not first or all(each is None for each in first) else [each for each in first if each is not None]
    if given is not None and len(given) != len(first):
        raise call.refuse("must have all states or none", len(given))
    results = []
    for number in range(directions):
        words_here = words[number * len(functions) : (number + 1) * len(functions)]
        back = direction == "reverse" or number == 1
        states = None if given is None else [each[number] for each in given]
        results.append(_direction(call, x, kind, order, number, states, words_here, back=back))
    return _gathered(call, results, steps_first)


def _first_state(call: Call, place_of: int, directions: int, steps_first: bool) -> list[Value] | None:
    """Return the states before the first step for each direction; None where they are zeros."""
    found = call.operand(place_of)
    if isinstance(found, np.ndarray):
        if not found.any():
            return None
        raise call.refuse("the first state must be computed from samples, or zeros", found.shape)
    axis = 0 if steps_first else 1
    return [squeezed(call, cut(call, found, _one(found, axis, number)), [axis]) for number in range(directions)]


def _one(x: Value, axis: int, number: int) -> dict[int, slice]:
    # A cut of a whole axis would be one more operation.
    return {axis: slice(number, number + 1)} if x.shape[axis] != 1 else {}


def _direction(
    call: Call, x: Value, kind: type[Any], order: Sequence[int], number: int, states: list[Value] | None, words: list[str],
    *, back: bool,
) -> list[Value]:  # fmt: skip
    """Return the states of all steps (batch, time, units) and the last ones (batch, units), for one direction."""
    kernel, recurrent = call.array(1), call.array(2)
    units = recurrent.shape[2]
    weights = {"kernel": _gates(kernel[number], order).T, "recurrent_kernel": _gates(recurrent[number], order).T}
    sources, bias = [kernel, recurrent], np.zeros(2 * len(order) * units, kernel.dtype)
    if call.has(3):
        bias = call.array(3)[number]
        sources.append(call.array(3))
    both = np.stack([_gates(each, order) for each in np.split(bias, 2)])
    # The second bias of GRU is inside the reset gate's product; elsewhere both are added to the same sum.
    weights["bias"] = both if kind is layer.GRU else both[0] + both[1]
    given: dict[str, Any] = {"activation": words[0].lower()} if kind is layer.SimpleRNN else {}
    found = call.builder.layer(kind, weights, sources, number, units=units, return_sequences=True, return_state=True, **given)
    steps, *last = found(x[:, ::-1] if back else x, initial_state=states)
    # In the order of x, as ONNX wants the states of the reverse direction, too.
    return [steps[:, ::-1] if back else steps, *last]


def _gates(rows: Array, order: Sequence[int]) -> Array:
    blocks = np.split(rows, len(order))
    return np.concatenate([blocks[number] for number in order])


def _gathered(call: Call, results: Sequence[Sequence[Value]], steps_first: bool) -> list[Operand]:
    """Return the outputs as ONNX has them, with an axis for directions."""
    orders, reader = call.builder.orders, call.builder
    # (batch, time, directions, units) and (batch, directions, units).
    parts = []
    for number, each in enumerate(zip(*results, strict=True)):
        spread = [reader.shaped(one, [*one.shape[:-1], 1, one.shape[-1]]) for one in each]
        whole = spread[0] if len(spread) == 1 else function.concatenate(spread, -2)
        if steps_first:
            whole = orders.turned(whole, (1, 2, 0, 3) if number == 0 else (1, 0, 2))
        parts.append(whole)
    return list(parts)
