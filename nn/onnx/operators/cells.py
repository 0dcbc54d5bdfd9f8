"""Operators of recurrent layers: one for a kind of cell, or a loop over the steps."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from types import MappingProxyType
from typing import Any

import numpy as np

from nn import activation
from nn.activation.activation import Activation
from nn.arrays import Array
from nn.onnx.exporter import Exporter
from nn.onnx.messages import BOOL, ValueInfo
from nn.onnx.operators.elements import apply
from nn.operation.recurrent import cells
from nn.operation.recurrent.recurrence import Recurrence
from nn.value.value import Node, Variable

CELLS: Mapping[type[Recurrence], tuple[str, Sequence[int]]] = MappingProxyType({
    cells.LSTMOperation: ("LSTM", (0, 3, 1, 2)), cells.DroppingLSTM: ("LSTM", (0, 3, 1, 2)),
    cells.GRUOperation: ("GRU", (0, 1, 2)), cells.DroppingGRU: ("GRU", (0, 1, 2)),
    cells.SimpleRNNOperation: ("RNN", (0,)), cells.DroppingSimpleRNN: ("RNN", (0,)),
})  # fmt: skip
"""Operator of a kind of cell, and the order of its gates by their numbers in nn."""

_STEP_FUNCTIONS: Mapping[type[Activation], str] = MappingProxyType(
    {activation.Tanh: "Tanh", activation.ReLU: "Relu", activation.Sigmoid: "Sigmoid"}
)


def recurrent(out: Exporter, node: Node, found: Recurrence) -> str:
    plain = not isinstance(found, cells.SimpleRNNOperation) or type(found.activation) in _STEP_FUNCTIONS
    weights = node.inputs[1 : len(node.inputs) - found.extras]
    variables = [value for value in weights if isinstance(value, Variable)]
    if plain and not found.masked and len(variables) == len(weights):
        sequence, last = _by_operator(out, node, found, variables)
    else:
        sequence, last = _by_loop(out, node, found)
    if not found.with_cell:
        return sequence if found.return_sequences else last[0]
    whole = sequence if found.return_sequences else out.add("Unsqueeze", last[0], out.integers([1]))
    return out.add("Concat", whole, out.add("Unsqueeze", last[1], out.integers([1])), axis=1)


def _by_operator(out: Exporter, node: Node, found: Recurrence, variables: Sequence[Variable]) -> tuple[str, list[str]]:
    """Return the states of all steps and the last ones, by the operator for this kind of cell."""
    kind, order = CELLS[type(found)]
    kernel, recurrent, *bias = variables
    inputs = [out.tensor(_gates(each.value.T, order)[np.newaxis], each.name) for each in (kernel, recurrent)]
    given: dict[str, Any] = {"hidden_size": recurrent.shape[0]}
    # In nn the reset gate stands behind the recurrent product.
    if kind == "GRU":
        given["linear_before_reset"] = 1
    if isinstance(found, cells.SimpleRNNOperation):
        given["activations"] = [_STEP_FUNCTIONS[type(found.activation)]]
    if bias:
        # ONNX has two, of which most cells of nn have the first.
        both = np.zeros((2, kernel.shape[1]), out.dtype)
        both[: found.biases] = bias[0].value.reshape(found.biases, -1)
        inputs.append(out.tensor(np.concatenate([_gates(each, order) for each in both])[np.newaxis], bias[0].name))
    states = [out.add("Unsqueeze", out.name(each), out.integers([0])) for each in node.inputs[len(variables) + 1 :]]
    if states:
        # Between bias and states there may be lengths.
        inputs += [*[""] * (4 - len(inputs)), *states]
    steps = out.orders.turned(out.name(node.inputs[0]), (1, 0, 2))
    results = out.add_several(kind, 1 + found.states, steps, *inputs, **given)
    sequence = out.orders.turned(out.add("Squeeze", results[0], out.integers([1])), (1, 0, 2))
    return sequence, [out.add("Squeeze", each, out.integers([0])) for each in results[1:]]


def _gates(array: Array, order: Sequence[int]) -> Array:
    """Return the blocks of rows for gates in another order."""
    blocks = np.split(array, len(order))
    return np.concatenate([blocks[number] for number in order])


def _by_loop(out: Exporter, node: Node, found: Recurrence) -> tuple[str, list[str]]:
    """Return the states of all steps and the last ones, by a loop over the steps: for masks, and most functions."""
    x, kernel, recurrent, *rest = out.inputs(node)
    bias, extra = rest[: len(rest) - found.extras], rest[len(rest) - found.extras :]
    scores, second = out.add("MatMul", x, kernel), ""
    if bias and found.biases == 2:
        first, second = (out.add("Gather", bias[0], out.integers(number), axis=0) for number in range(2))
        scores = out.add("Add", scores, first)
    elif bias:
        scores = out.add("Add", scores, bias[0])
    masks = [out.add("Unsqueeze", out.add("Cast", mask, to=BOOL), out.integers([2])) for mask in extra[: found.masked]]
    units = node.inputs[2].shape[0]
    states = extra[found.masked :] or [out.zeros_per_sample(scores, units)] * found.states

    def body() -> tuple[list[ValueInfo], list[str]]:
        before, (step,) = [out.entry("state", out.elements) for _ in states], [out.entry("step", out.elements)]
        seen = [out.entry("seen", BOOL) for _ in masks]
        names = [each.name or "" for each in before]
        product = out.add("MatMul", names[0], recurrent)
        after = _step(out, found, step.name or "", out.add("Add", product, second) if second else product, names)
        for mask in seen:
            after = [out.add("Where", mask.name or "", new, old) for new, old in zip(after, names, strict=True)]
        # An output of each step besides the state that goes on.
        return [*before, step, *seen], [*after, out.add("Identity", after[0])]

    loop = out.body("step", body)
    taken = [scores, *masks]
    given = {"num_scan_inputs": len(taken), "scan_input_axes": [1] * len(taken), "scan_output_axes": [1]}
    results = out.add_several("Scan", len(states) + 1, *states, *taken, body=loop, **given)
    return results[-1], results[:-1]


def _step(out: Exporter, found: Recurrence, x: str, product: str, states: Sequence[str]) -> list[str]:
    """Return the states after a step, for the product with x and that with the state before."""
    if isinstance(found, cells.SimpleRNNOperation):
        return [apply(out, found.activation, out.add("Add", x, product))]
    if isinstance(found, cells.GRUOperation):
        # From version 18 on a split into equal parts must say how many.
        (xz, xr, xa), (hz, hr, hq) = (out.add_several("Split", 3, each, axis=-1, num_outputs=3) for each in (x, product))
        z, r = (out.add("Sigmoid", out.add("Add", a, b)) for a, b in ((xz, hz), (xr, hr)))
        g = out.add("Tanh", out.add("Add", xa, out.add("Mul", r, hq)))
        return [out.add("Add", g, out.add("Mul", z, out.add("Sub", states[0], g)))]
    i, f, g, o = out.add_several("Split", 4, out.add("Add", x, product), axis=-1, num_outputs=4)
    kept = out.add("Mul", out.add("Sigmoid", f), states[1])
    cell = out.add("Add", kept, out.add("Mul", out.add("Sigmoid", i), out.add("Tanh", g)))
    return [out.add("Mul", out.add("Sigmoid", o), out.add("Tanh", cell)), cell]
