"""Sums of products over named axes."""

from __future__ import annotations

import math
from collections.abc import Sequence
from string import ascii_letters

import numpy as np

from nn import layer, operation
from nn.arrays import BATCH, Array
from nn.onnx.builder import Operand
from nn.onnx.call import Call
from nn.onnx.nodes.shapes import reduced
from nn.value.value import Value


def einsum(call: Call) -> Operand:
    """Return the sum of products that 'equation' says: transposes, and products of matrices, of two operands at a time."""
    operands = [call.operand(place) for place in range(len(call.inputs))]
    terms, result = _terms(call, [len(each.shape) for each in operands])
    found, left = call.builder.value(operands[0]), terms[0]
    if len(terms) == 1:
        return _ordered(call, *_alone(call, found, left, result), result)
    for place, operand in enumerate(operands[1:], start=1):
        later = "".join(terms[place + 1 :]) + result
        # Of the product so far those axes that a later operand, or the result, has.
        wanted = "".join(letter for letter in dict.fromkeys(left + terms[place]) if letter in later)
        wanted = result if place == len(terms) - 1 else wanted
        found, left = _product(call, (found, left), (operand, terms[place]), wanted), wanted
    return found


def _product(call: Call, first: tuple[Value, str], second: tuple[Operand, str], result: str) -> Value:
    """Return the sum of the products of two operands, each with the letters of its axes, that has the axes `result`."""
    a, left = _alone(call, *first, second[1] + result)
    stored, right = second
    both = [letter for letter in left if letter in right]
    along = "".join(letter for letter in both if letter in result)
    summed = "".join(letter for letter in both if letter not in result)
    if isinstance(stored, np.ndarray) and not along and set(right) <= set(left) | set(result):
        return _by_layer(call, a, left, stored, right, summed, result)
    b, right = _alone(call, call.builder.value(stored), right, left + result)
    rows = "".join(letter for letter in left if letter not in right)
    columns = "".join(letter for letter in right if letter not in left)
    lengths = {**dict(zip(right, b.shape, strict=True)), **dict(zip(left, a.shape, strict=True))}
    _refuse_samples(call, summed, lengths)
    a = _matrices(call, _ordered(call, a, left, along + rows + summed), along, rows, summed, lengths)
    b = _matrices(call, _ordered(call, b, right, along + summed + columns), along, summed, columns, lengths)
    made = call.builder.shaped(a @ b, [lengths[letter] for letter in along + rows + columns])
    return _ordered(call, made, along + rows + columns, result)


def _terms(call: Call, ranks: Sequence[int]) -> tuple[list[str], str]:
    """Return the letters of the axes of each operand, and those of the result."""
    equation = str(call.given.get("equation", "")).replace(" ", "")
    front, arrow, result = equation.partition("->")
    terms = front.split(",")
    if len(terms) != len(ranks):
        raise call.refuse(f"'equation' must have as many operands as there are, {len(ranks)}", equation)
    # For the axes of "...", counted from the last one, as axes that broadcast are.
    spare = [letter for letter in ascii_letters if letter not in equation]
    counts = [rank - len(term.replace("...", "")) for term, rank in zip(terms, ranks, strict=True)]
    most = max(counts)
    if any(count < 0 or (count > 0) != ("..." in term) for term, count in zip(terms, counts, strict=True)):
        raise call.refuse("'equation' must name each axis", equation)
    terms = [term.replace("...", "".join(spare[most - count : most])) for term, count in zip(terms, counts, strict=True)]
    letters = "".join(terms)
    if not arrow:
        # Without an arrow, as in NumPy: the letters that stand once, in the order of the alphabet.
        result = ("..." if most else "") + "".join(
            sorted(each for each in front if each.isalpha() and letters.count(each) == 1)
        )
    result = result.replace("...", "".join(spare[:most]))
    if any(len(set(each)) < len(each) for each in [*terms, result]) or not set(result) <= set(letters):
        raise call.refuse("'equation' must name each axis of an operand, and of the result, once", equation)
    return terms, result


def _alone(call: Call, x: Value, letters: str, others: str) -> tuple[Value, str]:
    """Return an operand without the axes that nothing else has, over which it is summed, and the letters that are left."""
    gone = [axis for axis, letter in enumerate(letters) if letter not in others]
    made = reduced(call, x, gone, operation.Sum, keep=False) if gone else x
    return made, "".join(letter for letter in letters if letter in others)


def _ordered(call: Call, x: Value, letters: str, wanted: str) -> Value:
    return call.builder.orders.turned(x, [letters.index(letter) for letter in wanted])


def _refuse_samples(call: Call, summed: str, lengths: dict[str, int]) -> None:
    for letter in summed:
        if lengths[letter] == BATCH:
            raise call.refuse("a sum must leave the samples apart", f"{letter!r} of {call.given.get('equation')!r}")


def _matrices(call: Call, x: Value, along: str, rows: str, columns: str, lengths: dict[str, int]) -> Value:
    """Return x (along..., rows..., columns...) with one axis for rows and one for columns."""
    if not along and BATCH in (lengths[letter] for letter in rows):
        # Axes in front of the last one are rows as they stand.
        front = [lengths[letter] for letter in rows]
    else:
        front = [*(lengths[letter] for letter in along), math.prod(lengths[letter] for letter in rows)]
    return call.builder.shaped(x, [*front, math.prod(lengths[letter] for letter in columns)])


def _by_layer(call: Call, a: Value, left: str, stored: Array, right: str, summed: str, result: str) -> Value:
    """Return the product with stored numbers, which are the kernel of a layer."""
    lengths = {**dict(zip(right, stored.shape, strict=True)), **dict(zip(left, a.shape, strict=True))}
    _refuse_samples(call, summed, lengths)
    rows = "".join(letter for letter in left if letter not in summed)
    columns = "".join(letter for letter in right if letter not in summed)
    sizes = [math.prod(lengths[letter] for letter in letters) for letters in (summed, columns)]
    kernel = stored.transpose([right.index(letter) for letter in summed + columns]).reshape(sizes)
    flat = call.builder.shaped(_ordered(call, a, left, rows + summed), [*(lengths[letter] for letter in rows), sizes[0]])
    found = call.builder.layer(layer.Dense, {"kernel": kernel}, [stored], units=sizes[1], use_bias=False)
    made = call.builder.shaped(found(flat), [lengths[letter] for letter in rows + columns])
    return _ordered(call, made, rows + columns, result)
