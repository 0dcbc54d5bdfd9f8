"""Attention as one operator, which it is from version 23 of the operators on."""

from __future__ import annotations

import math

import numpy as np

from nn import activation, function, operation
from nn.arrays import BATCH, LENGTH
from nn.onnx.builder import Operand
from nn.onnx.call import Call
from nn.onnx.folding import bounded
from nn.value.value import Value, as_value

HEADS_FIRST = (0, 2, 1, 3)
"""Order that turns (batch, positions, heads, features) into (batch, heads, positions, features), and back."""


def attention(call: Call) -> list[Operand]:
    """Return the result for queries, keys and values, and the keys and values that the next call begins with."""
    outputs = int(call.given["outputs"])
    if outputs > 3:
        raise call.refuse("nn reads Attention without its scores as an output, with at most 3 outputs", outputs)
    if call.has(6):
        raise call.refuse("nn reads Attention without lengths of its keys", "nonpad_kv_seqlen")
    joined = len(call.operand(0).shape) == 3
    q, k, v = (_by_heads(call, place, call.given.get("q_num_heads" if place == 0 else "kv_num_heads")) for place in range(3))
    causal = bool(call.given.get("is_causal", 0))
    if call.has(4) or call.has(5):
        if causal:
            raise call.refuse("'is_causal' must be 0 beside keys and values of positions before", 1)
        before = [call.builder.orders.turned(call.value(place), HEADS_FIRST) for place in (4, 5)]
        k, v = (function.concatenate(pair, 1) for pair in ((before[0], k), (before[1], v)))
    present = [call.builder.orders.turned(each, HEADS_FIRST) for each in (k, v)]
    k, v = (_for_each_head(call, each, q.shape[2]) for each in (k, v))
    made = call.builder.orders.turned(_attended(call, q, k, v, causal), HEADS_FIRST)
    if joined:
        made = call.builder.orders.turned(made, HEADS_FIRST)
        made = call.builder.shaped(made, [*made.shape[:2], made.shape[2] * made.shape[3]])
    results: list[Operand] = [made, *present]
    return results[:outputs]


def _by_heads(call: Call, place: int, heads: int | None) -> Value:
    """Return an input as (batch, positions, heads, features)."""
    x = call.value(place)
    if len(x.shape) == 4:
        return call.builder.orders.turned(x, HEADS_FIRST)
    if len(x.shape) != 3 or x.shape[2] in (BATCH, LENGTH) or not heads or x.shape[2] % heads:
        raise call.refuse(
            "inputs must be (batch, heads, positions, features), or (batch, positions, features) with a number of heads that "
            "divides the features", [*x.shape, heads],
        )  # fmt: skip
    return call.builder.shaped(x, [*x.shape[:2], heads, x.shape[2] // heads])


def _for_each_head(call: Call, x: Value, heads: int) -> Value:
    """Return keys or values with as many heads as there are queries: of fewer ones each serves several neighbours."""
    own = x.shape[2]
    if own == heads:
        return x
    if heads % own:
        raise call.refuse(f"the heads of keys and values must divide the {heads} of the queries", own)
    return x[:, :, np.repeat(np.arange(own), heads // own)]


def _attended(call: Call, q: Value, k: Value, v: Value, causal: bool) -> Value:
    depth = q.shape[3]
    scale, cap = float(call.given.get("scale", 1 / math.sqrt(depth))), float(call.given.get("softcap", 0.0))
    if not call.has(3) and not cap:
        # Of the scale that the operation of nn has by itself.
        factor = scale * math.sqrt(depth)
        # A file holds the scale as float32.
        q = q if math.isclose(factor, 1, rel_tol=1e-6) else q * factor
        return q.apply(operation.Attention(causal), k, v)
    if cap and (causal or call.has(3)):
        raise call.refuse("'softcap' must be 0 beside a mask", cap)
    q, k, v = (call.builder.orders.turned(each, HEADS_FIRST) for each in (q, k, v))
    scores = (q * scale) @ k.swapaxes(2, 3)
    # Finite, so that a row in which nothing is left does not become NaN.
    low = float(np.finfo(np.float32).min) / 2
    kept: Value | None = None
    if call.has(3):
        mask = call.value(3)
        if call.builder.is_whole(call.operand(3)):
            kept = mask
        else:
            scores = scores + mask
    if causal:
        targets, sources = scores.shape[2:]
        if LENGTH in (targets, sources):
            raise call.refuse("must know the numbers of positions beside a mask; give 'shapes'", list(scores.shape))
        seen = as_value(np.tril(np.ones(bounded((targets, sources)))))
        kept = seen if kept is None else kept * seen
    if kept is not None:
        scores = function.where(kept, scores, low)
    if cap:
        scores = (scores / cap).apply(activation.Tanh()) * cap
    weights = scores.apply(activation.Softmax())
    # A query that sees nothing has zeros, and not the mean over all values.
    weights = weights if kept is None else weights * kept
    return call.builder.orders.turned(weights @ v, HEADS_FIRST)
