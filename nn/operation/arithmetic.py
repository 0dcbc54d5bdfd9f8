"""Arithmetic of two arrays, masks by comparison, and choices between arrays, element by element."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from types import MappingProxyType
from typing import Any, ClassVar

import numpy as np

from nn import arguments
from nn.arrays import Array, Shape
from nn.operation.broadcasting import Broadcasting, ShortBuffer, repeated_row


class Arithmetic(Broadcasting):
    """One universal function of NumPy, computed from two arrays."""

    function: ClassVar[np.ufunc]

    def allocate(self, shapes: Sequence[Shape], output: Shape, dtype: np.dtype[Any]) -> None:
        super().allocate(shapes, output, dtype)
        buffer = ShortBuffer(repeated_row(*shapes), math.prod(output))
        # Every bias of a small network is one of these: a context that changes nothing takes as long as its numbers.
        self._buffer = buffer if buffer.gains else None

    def forward(self, inputs: Sequence[Array], out: Array) -> None:
        if self._buffer is None:
            self.function(inputs[0], inputs[1], out=out)
        else:
            with self._buffer:
                self.function(inputs[0], inputs[1], out=out)


class Add(Arithmetic):
    """a + b."""

    function: ClassVar[np.ufunc] = np.add
    # Both derivatives are 1, so a plan may overwrite the inputs before backward.
    reads_inputs: ClassVar[bool] = False
    # `partial` hands the gradient on as it is, so it needs no work space of the broadcast shape.
    computes: ClassVar[bool] = False

    def __init_subclass__(cls, **more: Any) -> None:
        super().__init_subclass__(**more)
        if cls.partial is not Add.partial and cls.backward is Add.backward:
            cls.backward = Arithmetic.backward  # type: ignore[method-assign] # below, its own derivatives would not be asked for

    def backward(self, inputs: Sequence[Array], output: Array, gradient: Array, wanted: Sequence[Array | None]) -> None:
        # what the base does with `partial`, in a third of the time: every bias of a small network is one of these
        for side in (1, 0):
            target = wanted[side]
            if target is not None and target is not gradient:
                self._sides[side].reduce(gradient, target)

    def partial(self, side: int, inputs: Sequence[Array], output: Array, gradient: Array, out: Array) -> Array:
        return gradient


class Subtract(Arithmetic):
    """a - b."""

    function: ClassVar[np.ufunc] = np.subtract
    # Not `computes = False`, as `Add` says it: the second side is negated in the memory that `partial` is given.
    reads_inputs: ClassVar[bool] = False

    def partial(self, side: int, inputs: Sequence[Array], output: Array, gradient: Array, out: Array) -> Array:
        return gradient if side == 0 else np.negative(gradient, out=out)


class Multiply(Arithmetic):
    """a * b."""

    function: ClassVar[np.ufunc] = np.multiply

    def partial(self, side: int, inputs: Sequence[Array], output: Array, gradient: Array, out: Array) -> Array:
        return np.multiply(gradient, inputs[1 - side], out=out)


class Divide(Arithmetic):
    """a / b."""

    function: ClassVar[np.ufunc] = np.divide
    reads_output: ClassVar[bool] = True

    def partial(self, side: int, inputs: Sequence[Array], output: Array, gradient: Array, out: Array) -> Array:
        if side == 0:
            return np.divide(gradient, inputs[1], out=out)
        # d/db = -a / b^2 = -y / b, by the quotient that forward has computed.
        np.multiply(gradient, output, out=out)
        np.divide(out, inputs[1], out=out)
        return np.negative(out, out=out)


class Power(Arithmetic):
    """a ** b; a gradient of the exponent exists for a >= 0 only.

    At the border the gradients are those of torch: for a it is 0 where b is 0, for b it is 0 where a is 0 and b >= 0.
    """

    function: ClassVar[np.ufunc] = np.power
    reads_output: ClassVar[bool] = True

    def allocate(self, shapes: Sequence[Shape], output: Shape, dtype: np.dtype[Any]) -> None:
        super().allocate(shapes, output, dtype)
        # Apart from `out`, which may be the memory of the gradient: that is read last.
        self._factor = self.scratch.empty(output, dtype)
        self._constant = self.scratch.empty(shapes[1], np.dtype(bool))
        self._nothing = self.scratch.empty(shapes[0], np.dtype(bool))
        self._border = self.scratch.empty(output, np.dtype(bool))

    def partial(self, side: int, inputs: Sequence[Array], output: Array, gradient: Array, out: Array) -> Array:
        base, exponent = inputs
        if side == 0:
            np.subtract(exponent, 1, out=self._factor)
            # Where b is 0 the power a ** -1 is infinite at a = 0, and 0 times it NaN; a ** 0 makes the product 0.
            np.equal(exponent, 0, out=self._constant)
            # The exponent is mostly one number: a look at it is less than a pass with a mask over the whole.
            if self._constant.any():
                np.copyto(self._factor, 0, where=self._constant)
            np.power(base, self._factor, out=self._factor)
            np.multiply(self._factor, exponent, out=self._factor)
        else:
            # d/db = y ln a. Where a is 0 and b not negative ln 1 stands for ln 0, or 0 times -inf would be NaN.
            np.copyto(self._factor, base)
            np.equal(base, 0, out=self._nothing)
            if self._nothing.any():
                np.greater_equal(exponent, 0, out=self._constant)
                np.logical_and(self._nothing, self._constant, out=self._border)
                np.copyto(self._factor, 1, where=self._border)
            np.log(self._factor, out=self._factor)
            np.multiply(self._factor, output, out=self._factor)
        return np.multiply(gradient, self._factor, out=out)


class Compare(Broadcasting):
    """1 where a stands in the relation to b, else 0. A mask has no gradient: it is 0 almost everywhere.

    `relation` is one of >, >=, <, <=, == and !=.
    """

    in_place: ClassVar[bool] = False
    reads_inputs: ClassVar[bool] = False
    differentiable: ClassVar[bool] = False
    computes: ClassVar[bool] = False

    relations: ClassVar[Mapping[str, np.ufunc]] = MappingProxyType(
        {
            ">": np.greater, ">=": np.greater_equal, "<": np.less, "<=": np.less_equal, "==": np.equal, "!=": np.not_equal,
        }
    )  # fmt: skip

    def __init__(self, relation: str) -> None:
        arguments.one_of(self, "relation", relation, self.relations)
        self.relation = relation

    def forward(self, inputs: Sequence[Array], out: Array) -> None:
        self.relations[self.relation](inputs[0], inputs[1], out=out)

    def partial(self, side: int, inputs: Sequence[Array], output: Array, gradient: Array, out: Array) -> Array:
        out.fill(0)
        return out


class Where(Broadcasting):
    """a where the condition is not 0, else b; inputs (a, b, condition), which has no gradient.

    Elements that are not chosen may be infinite or NaN: neither value nor gradient looks at them.
    """

    reads_inputs: ClassVar[bool] = False

    def allocate(self, shapes: Sequence[Shape], output: Shape, dtype: np.dtype[Any]) -> None:
        super().allocate(shapes, output, dtype)
        # Own memory, not scratch: backward reads the masks, because the condition may have been overwritten by then.
        self._chosen = self._lasting.empty(shapes[2], np.dtype(bool))
        self._other = self._lasting.empty(shapes[2], np.dtype(bool))

    def forward(self, inputs: Sequence[Array], out: Array) -> None:
        a, b, condition = inputs
        np.not_equal(condition, 0, out=self._chosen)
        np.logical_not(self._chosen, out=self._other)
        # Where they share memory forward works in place, and a lies in `out` already.
        if not np.may_share_memory(a, out):
            np.copyto(out, a)
        np.copyto(out, b, where=self._other)

    def partial(self, side: int, inputs: Sequence[Array], output: Array, gradient: Array, out: Array) -> Array:
        if side == 2:
            out.fill(0)
            return out
        left_out = self._other if side == 0 else self._chosen
        if not np.may_share_memory(gradient, out):
            np.copyto(out, gradient)
        # Zeros are written, not multiplied in: 0 times a gradient that is infinite would be NaN.
        np.copyto(out, 0, where=left_out)
        return out


class Maximum(Arithmetic):
    """The greater of a and b, element by element; the gradient goes to the one that was taken.

    Where they are equal each gets half of it, as in torch, and as `Max` and `Min` share theirs.
    """

    function: ClassVar[np.ufunc] = np.maximum

    loses: ClassVar[np.ufunc] = np.less
    """Where its first argument is not taken because the second one is."""

    def allocate(self, shapes: Sequence[Shape], output: Shape, dtype: np.dtype[Any]) -> None:
        super().allocate(shapes, output, dtype)
        self._taken = self.scratch.empty(output, np.dtype(bool))
        self._tied = self.scratch.empty(output, np.dtype(bool))

    def partial(self, side: int, inputs: Sequence[Array], output: Array, gradient: Array, out: Array) -> Array:
        a, b = inputs
        self.loses(inputs[side], inputs[1 - side], out=self._taken)
        # Found by negation: NaN loses no comparison, so the gradient reaches the side that made the output NaN.
        np.logical_not(self._taken, out=self._taken)
        np.multiply(gradient, self._taken, out=out)
        np.equal(a, b, out=self._tied)
        # Neither side loses a tie, so both have the whole gradient up to here.
        if self._tied.any():
            np.multiply(out, 0.5, out=out, where=self._tied)
        return out


class Minimum(Maximum):
    """The lesser of a and b, element by element; where they are equal each gets half of the gradient."""

    function: ClassVar[np.ufunc] = np.minimum
    loses: ClassVar[np.ufunc] = np.greater
