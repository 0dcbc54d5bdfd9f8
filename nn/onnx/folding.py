"""Operators on values that are known when a file is read: shapes, axes and other numbers by which its nodes are decided."""

from __future__ import annotations

import math
import operator
from collections.abc import Callable, Mapping, Sequence
from types import MappingProxyType
from typing import Any, TypeAlias

import numpy as np

from nn.arrays import Array
from nn.onnx import messages
from nn.tensor_files import ModelFileError

MOST = 1 << 24
"""Numbers that an array may have which a file says how to compute: a few bytes could ask for more than there is memory."""


class Unknown:
    """A length that comes with the data, times a whole number; among the numbers of a shape.

    Args:
        axis: word for the length, in errors.
        times: the number.
    """

    def __init__(self, axis: str, times: int = 1) -> None:
        self.axis, self.times = axis, times

    def __mul__(self, other: object) -> Unknown:
        if isinstance(other, (int, np.integer)) and other > 0:
            return Unknown(self.axis, self.times * int(other))
        raise self._refused("a product")

    __rmul__ = __mul__

    def __floordiv__(self, other: object) -> Unknown:
        # Only what is a whole number for every length: a reshape must not depend on rounding.
        if isinstance(other, (int, np.integer)) and other > 0 and self.times % int(other) == 0:
            return Unknown(self.axis, self.times // int(other))
        raise self._refused("a quotient")

    def __eq__(self, other: object) -> bool:
        if isinstance(other, Unknown) and (self.axis, self.times) == (other.axis, other.times):
            return True
        # A length is at least 1.
        if isinstance(other, (int, np.integer)) and other <= 0:
            return False
        raise self._refused("a comparison")

    def __hash__(self) -> int:
        return hash((self.axis, self.times))

    def __repr__(self) -> str:
        return f"the {self.axis}"

    def _refused(self, what: str) -> ValueError:
        return ValueError(f"{what} depends on the {self.axis}, which comes with the data; give 'shapes' to have it known")


Fold: TypeAlias = Callable[[list[Any], Mapping[str, Any]], Any]


def has_unknown(array: Array) -> bool:
    """Return whether any number of an array is a length that comes with the data."""
    return array.dtype == object and any(isinstance(each, Unknown) for each in array.flat)


def integers(array: Array) -> list[int]:
    """Return an array of whole numbers as a list; raise ValueError for a length that comes with the data."""
    for each in array.flat:
        if isinstance(each, Unknown):
            raise each._refused("an argument")
    return [int(each) for each in array.flat]


def made(values: Sequence[Any]) -> Array:
    """Return a list of lengths as an array, of objects where one comes with the data."""
    if any(isinstance(each, Unknown) for each in values):
        found = np.empty(len(values), object)
        found[:] = values
        return found
    return np.asarray(values, np.int64)


def bounded(shape: Sequence[int]) -> tuple[int, ...]:
    """Return a shape that an array may have; raise ModelFileError for one that is too large."""
    if any(length < 0 for length in shape) or math.prod(shape) > MOST:
        # Cut, as the numbers are those of a file, which may be a stranger's.
        raise ModelFileError(f"asks for an array of shape {tuple(shape)}, above {MOST} numbers"[:200])
    return tuple(shape)


def slices(rank: int, shape: Sequence[Any], given: Sequence[Any]) -> dict[int, slice]:
    """Return the slice along each axis that an operator `Slice` cuts.

    Args:
        rank: number of axes.
        shape: their lengths.
        given: starts, ends, and axes and steps, None where they are left out.
    """
    starts, ends, axes, steps = (None if each is None else integers(np.asarray(each)) for each in given)
    if starts is None or ends is None or len(starts) != len(ends):
        raise ValueError("takes as many starts as ends")
    axes = list(range(len(starts))) if axes is None else axes
    if any(not -rank <= axis < rank for axis in axes):
        raise ValueError(f"an axis must be from {-rank} to {rank - 1}, got {axes}")
    axes = [axis % rank for axis in axes]
    found = {}
    for axis, start, end, step in zip(axes, starts, ends, steps or [1] * len(starts), strict=True):
        # A bound far out is that of the axis; backwards the end may lie before the first element.
        # Exporters write the largest number of 32 bits, or of 64, for an open end.
        far = 1 << 31
        first = None if (step > 0 and start == 0) or (step < 0 and start >= far) else start
        last = None if (step > 0 and end >= far) or (step < 0 and end <= -far) else end
        length = shape[axis]
        if isinstance(length, (int, np.integer)):
            cut = slice(first, last, step)
            whole = range(int(length))[cut]
            # Exporters cut whole axes, too: left out, they cost no operation.
            if step == 1 and len(whole) == length:
                continue
            found[axis] = cut
        elif (first, last, step) != (None, None, 1):
            found[axis] = slice(first, last, step)
    return found


def _broadcast(inputs: Sequence[Array]) -> None:
    """Raise ValueError for shapes that do not broadcast, and for a result that is too large."""
    bounded(np.broadcast_shapes(*(each.shape for each in inputs)))


def _matmul(inputs: list[Any], given: Mapping[str, Any]) -> Array:
    a, b = inputs
    # Before it is computed: the result may be larger than the memory.
    bounded((math.prod(a.shape[:-1]), math.prod((*b.shape[:-2], *b.shape[-1:]))))
    return np.asarray(np.matmul(a, b))


def _axes(inputs: list[Any], given: Mapping[str, Any], place: int = 1) -> list[int] | None:
    if len(inputs) > place and inputs[place] is not None:
        return integers(inputs[place])
    axes = given.get("axes")
    return None if axes is None else list(axes)


def _reshape(inputs: list[Any], given: Mapping[str, Any]) -> Array:
    data, wanted = inputs[0], integers(inputs[1])
    keep = not given.get("allowzero", 0)
    # A 0 stands for the length of the input, unless `allowzero`, of version 14 on, says otherwise.
    shape = [data.shape[place] if keep and length == 0 else length for place, length in enumerate(wanted)]
    found: Array = data.reshape(shape)
    return found


def _unsqueeze(inputs: list[Any], given: Mapping[str, Any]) -> Array:
    return np.expand_dims(inputs[0], tuple(_axes(inputs, given) or ()))


def _squeeze(inputs: list[Any], given: Mapping[str, Any]) -> Array:
    axes = _axes(inputs, given)
    found: Array = np.squeeze(inputs[0], None if axes is None else tuple(axes))
    return found


def _slice(inputs: list[Any], given: Mapping[str, Any]) -> Array:
    data = inputs[0]
    rest = (
        [*inputs[1:], None, None][:4] if len(inputs) > 1 else [given.get(name) for name in ("starts", "ends", "axes", "steps")]
    )
    cuts = slices(data.ndim, data.shape, rest)
    found: Array = data[tuple(cuts.get(axis, slice(None)) for axis in range(data.ndim))]
    return found


def _gather(inputs: list[Any], given: Mapping[str, Any]) -> Array:
    axis = given.get("axis", 0)
    bounded((inputs[1].size, inputs[0].size // max(inputs[0].shape[axis], 1)))
    return np.take(inputs[0], np.asarray(inputs[1], np.int64), axis=axis)


def _cast(inputs: list[Any], given: Mapping[str, Any]) -> Array:
    dtype = messages.dtype_of(given.get("to"), "Cast 'to'")
    found: Array = inputs[0] if has_unknown(inputs[0]) else inputs[0].astype(dtype)
    return found


def _divide(inputs: list[Any], given: Mapping[str, Any]) -> Array:
    a, b = inputs
    _broadcast(inputs)
    if a.dtype.kind in "iuO" and b.dtype.kind in "iuO":
        if not has_unknown(b) and (b == 0).any():
            raise ValueError("divides by 0")
        # ONNX cuts towards zero; lengths are not negative.
        return np.asarray(a // b) if a.dtype == object else np.trunc(np.divide(a, b)).astype(a.dtype)
    return np.asarray(np.divide(a, b))


def _constant_of_shape(inputs: list[Any], given: Mapping[str, Any]) -> Array:
    # The default of the operator is a 0 of float32.
    value = given.get("value", np.zeros(1, np.float32))
    return np.full(bounded(_of_one_sample(inputs[0])), value.reshape(-1)[0], value.dtype)


def _of_one_sample(shape: Array) -> tuple[int, ...]:
    """Return a shape with 1 for lengths that come with the data: equal numbers for each sample broadcast along the batch."""
    return tuple([1 if isinstance(each, Unknown) else int(each) for each in shape.flat])


def _range(inputs: list[Any], given: Mapping[str, Any]) -> Array:
    start, stop, step = (each.reshape(-1)[0] for each in inputs)
    for each in (start, stop, step):
        if isinstance(each, Unknown):
            raise each._refused("a range")
    bounded((max(0, math.ceil((stop - start) / step)),))
    return np.arange(start, stop, step, dtype=inputs[0].dtype)


def _expand(inputs: list[Any], given: Mapping[str, Any]) -> Array:
    shape = np.broadcast_shapes(inputs[0].shape, _of_one_sample(inputs[1]))
    return np.broadcast_to(inputs[0], bounded(shape)).copy()


def _tile(inputs: list[Any], given: Mapping[str, Any]) -> Array:
    times = integers(inputs[1])
    bounded([length * count for length, count in zip(inputs[0].shape, times, strict=True)])
    return np.tile(inputs[0], times)


def _where(inputs: list[Any], given: Mapping[str, Any]) -> Array:
    _broadcast(inputs)
    found: Array = np.where(np.asarray(inputs[0], bool), inputs[1], inputs[2])
    return found


def _compared(compare: Callable[[Any, Any], Any]) -> Fold:
    def fold(inputs: list[Any], given: Mapping[str, Any]) -> Array:
        _broadcast(inputs)
        a, b = np.broadcast_arrays(*inputs)
        # One by one, so that a length that comes with the data can refuse.
        return np.asarray([bool(compare(x, y)) for x, y in zip(a.flat, b.flat, strict=True)], bool).reshape(a.shape)

    return fold


def _reduced(function: Callable[..., Any]) -> Fold:
    def fold(inputs: list[Any], given: Mapping[str, Any]) -> Array:
        axes = _axes(inputs, given)
        if not axes and given.get("noop_with_empty_axes", 0):
            found: Array = inputs[0]
            return found
        return np.asarray(function(inputs[0], axis=tuple(axes) if axes else None, keepdims=bool(given.get("keepdims", 1))))

    return fold


def _split(inputs: list[Any], given: Mapping[str, Any]) -> list[Array]:
    axis = given.get("axis", 0)
    sizes = split_sizes(inputs[0].shape[axis], inputs, given)
    return np.split(inputs[0], np.cumsum(sizes[:-1]).tolist(), axis)


def split_sizes(length: int, inputs: Sequence[Any], given: Mapping[str, Any]) -> list[int]:
    """Return the lengths of the parts into which an operator `Split` cuts an axis.

    Args:
        length: of the axis.
        inputs: of the operator.
        given: its arguments, with `outputs`, the number of parts.
    """
    sizes = integers(inputs[1]) if len(inputs) > 1 and inputs[1] is not None else list(given.get("split", []))
    if not sizes:
        count = int(given["outputs"])
        # The last part may be smaller.
        size = -(-length // count)
        sizes = [min(size, length - size * place) for place in range(count)]
    if sum(sizes) != length or any(size < 0 for size in sizes):
        raise ValueError(f"must cut an axis of length {length} into parts, got {sizes}"[:200])
    return sizes


def _clip(inputs: list[Any], given: Mapping[str, Any]) -> Array:
    low, high = [*inputs[1:], None, None][:2]
    low, high = given.get("min") if low is None else low, given.get("max") if high is None else high
    found: Array = inputs[0] if low is None and high is None else np.clip(inputs[0], low, high)
    return found


def _single(function: Callable[[Any], Any]) -> Fold:
    return lambda inputs, given: np.asarray(function(inputs[0]))


def _several(function: Callable[[Any, Any], Any]) -> Fold:
    def fold(inputs: list[Any], given: Mapping[str, Any]) -> Array:
        _broadcast(inputs)
        found = inputs[0]
        for each in inputs[1:]:
            found = function(found, each)
        return np.asarray(found)

    return fold


FOLDS: Mapping[str, Fold] = MappingProxyType({
    "Abs": _single(np.abs), "Acos": _single(np.arccos), "Acosh": _single(np.arccosh), "Add": _several(operator.add),
    "And": _several(np.logical_and), "Asin": _single(np.arcsin), "Asinh": _single(np.arcsinh),
    "Atan": _single(np.arctan), "Atanh": _single(np.arctanh), "Cast": _cast, "Ceil": _single(np.ceil), "Clip": _clip,
    "Concat": lambda inputs, given: np.concatenate(inputs, axis=given["axis"]),
    "ConstantOfShape": _constant_of_shape, "Cos": _single(np.cos), "Cosh": _single(np.cosh),
    "Div": _divide, "Dropout": lambda inputs, given: inputs[0],
    # NumPy has no error function; the type is told for arrays without elements.
    "Equal": _compared(operator.eq), "Erf": _single(lambda x: np.vectorize(math.erf, [float])(x).astype(x.dtype)),
    "Exp": _single(np.exp), "Expand": _expand, "Floor": _single(np.floor), "Gather": _gather,
    "Greater": _compared(operator.gt), "GreaterOrEqual": _compared(operator.ge), "Identity": lambda inputs, given: inputs[0],
    "Less": _compared(operator.lt), "LessOrEqual": _compared(operator.le), "Log": _single(np.log),
    "MatMul": _matmul, "Max": _several(np.maximum), "Min": _several(np.minimum),
    "Mod": lambda inputs, given: _several(np.fmod if given.get("fmod", 0) else np.mod)(inputs, given),
    "Mul": _several(operator.mul), "Neg": _single(np.negative), "Not": _single(np.logical_not), "Or": _several(np.logical_or),
    # A power has the type of its base.
    "Pow": lambda inputs, given: _several(np.power)(inputs, given).astype(inputs[0].dtype), "Range": _range,
    "Reciprocal": _single(lambda x: 1 / x), "ReduceMax": _reduced(np.max), "ReduceMean": _reduced(np.mean),
    "ReduceMin": _reduced(np.min), "ReduceProd": _reduced(np.prod), "ReduceSum": _reduced(np.sum), "Reshape": _reshape,
    # Halves to the even number, as ONNX rounds.
    "Round": _single(np.rint), "Sign": _single(np.sign),
    "Sin": _single(np.sin), "Sinh": _single(np.sinh), "Slice": _slice, "Split": _split, "Sqrt": _single(np.sqrt),
    "Squeeze": _squeeze, "Sub": _several(operator.sub), "Tan": _single(np.tan), "Tile": _tile,
    "Transpose": lambda inputs, given: np.transpose(inputs[0], given.get("perm")),
    "Trilu": lambda inputs, given: (np.triu if given.get("upper", 1) else np.tril)(
        inputs[0], int(inputs[1]) if len(inputs) > 1 and inputs[1] is not None else 0
    ),
    "Unsqueeze": _unsqueeze, "Where": _where, "Xor": _several(np.logical_xor),
})  # fmt: skip
"""Operators on arrays, by their names: of the inputs and the arguments."""

SAME_NUMBERS = frozenset({"Cast", "Identity", "Reshape", "Squeeze", "Transpose", "Unsqueeze"})
"""Operators that leave a weight a weight."""
