"""Functions of single elements."""

from __future__ import annotations

from abc import abstractmethod
from collections.abc import Mapping, Sequence
from types import MappingProxyType
from typing import Any, ClassVar

import numpy as np

from nn import arguments
from nn.arrays import Array, Shape
from nn.operation.operation import MaskOf, Operation, batch_leads


class Elementwise(Operation):
    """y_i = f(x_i); a subclass gives f and its derivative, and says by `reads_inputs` and `reads_output` the arrays read."""

    mask_of: ClassVar[MaskOf] = "first"
    in_place: ClassVar[bool] = True

    def infer(self, *shapes: Shape) -> Shape:
        return shapes[0]

    def splits(self, shapes: Sequence[Shape]) -> bool:
        return batch_leads(shapes[0])

    def backward(self, inputs: Sequence[Array], output: Array, gradient: Array, wanted: Sequence[Array | None]) -> None:
        """Write the gradient of the input, unless it needs none."""
        if wanted[0] is not None:
            self.derive(inputs[0], output, gradient, wanted[0])

    @abstractmethod
    def derive(self, x: Array, output: Array, gradient: Array, out: Array) -> None:
        """Write gradient * f'(x) into `out`, which may be the memory of `gradient`.

        Args:
            x: input of forward; its content counts only with `reads_inputs`.
            output: result of forward; its content counts only with `reads_output`.
            gradient: gradient of the loss for the output.
            out: memory for that for the input.
        """


class StopGradient(Elementwise):
    """The same elements, through which no gradient goes back."""

    aliases: ClassVar[bool] = True
    reads_inputs: ClassVar[bool] = False
    differentiable: ClassVar[bool] = False

    def forward(self, inputs: Sequence[Array], out: Array) -> None:
        """Copy, unless the output already is the input's memory."""
        if not np.may_share_memory(inputs[0], out):
            np.copyto(out, inputs[0])

    def derive(self, x: Array, output: Array, gradient: Array, out: Array) -> None:
        out.fill(0)


class Rounding(Elementwise):
    """a rounded to a whole number; the gradient is 0, as it is almost everywhere.

    `to` is "down", "up", "nearest" (of two the even one), or "zero".
    """

    reads_inputs: ClassVar[bool] = False
    differentiable: ClassVar[bool] = False

    directions: ClassVar[Mapping[str, np.ufunc]] = MappingProxyType(
        {"down": np.floor, "up": np.ceil, "nearest": np.rint, "zero": np.trunc}
    )

    def __init__(self, to: str) -> None:
        arguments.one_of(self, "to", to, self.directions)
        self.to = to

    def forward(self, inputs: Sequence[Array], out: Array) -> None:
        self.directions[self.to](inputs[0], out=out)

    def derive(self, x: Array, output: Array, gradient: Array, out: Array) -> None:
        out.fill(0)


class Universal(Elementwise):
    """One universal function of NumPy, computed from one array."""

    function: ClassVar[np.ufunc]

    def forward(self, inputs: Sequence[Array], out: Array) -> None:
        self.function(inputs[0], out=out)


class Sloped(Universal):
    """A universal function whose derivative is computed anew from its input; a subclass gives both."""

    def allocate(self, shapes: Sequence[Shape], output: Shape, dtype: np.dtype[Any]) -> None:
        # Of its own: `out` of `derive` may be the memory of the gradient, which the last product reads.
        self._slope = self.scratch.empty(output, dtype)

    @abstractmethod
    def slope(self, x: Array, out: Array) -> None:
        """Write f'(x).

        Args:
            x: input of forward.
            out: other memory, of the same shape.
        """

    def derive(self, x: Array, output: Array, gradient: Array, out: Array) -> None:
        self.slope(x, self._slope)
        np.multiply(gradient, self._slope, out=out)


class Absolute(Sloped):
    """|a|; the derivative at 0 is taken as 0."""

    function: ClassVar[np.ufunc] = np.absolute

    def slope(self, x: Array, out: Array) -> None:
        # `np.sign` is 0 at 0.
        np.sign(x, out=out)


class Exp(Universal):
    """e ** a."""

    function: ClassVar[np.ufunc] = np.exp
    reads_inputs: ClassVar[bool] = False
    reads_output: ClassVar[bool] = True

    def derive(self, x: Array, output: Array, gradient: Array, out: Array) -> None:
        np.multiply(gradient, output, out=out)


class Log(Universal):
    """ln a, for positive a."""

    function: ClassVar[np.ufunc] = np.log

    def derive(self, x: Array, output: Array, gradient: Array, out: Array) -> None:
        np.divide(gradient, x, out=out)


class Negative(Universal):
    """-a."""

    function: ClassVar[np.ufunc] = np.negative
    reads_inputs: ClassVar[bool] = False

    def derive(self, x: Array, output: Array, gradient: Array, out: Array) -> None:
        np.negative(gradient, out=out)


class Sqrt(Universal):
    """The square root of a, for positive a: at 0 the derivative is infinite."""

    function: ClassVar[np.ufunc] = np.sqrt
    reads_inputs: ClassVar[bool] = False
    reads_output: ClassVar[bool] = True

    def derive(self, x: Array, output: Array, gradient: Array, out: Array) -> None:
        # 1 / (2 y): the root that forward has computed is kept instead of x.
        np.divide(gradient, output, out=out)
        np.multiply(out, 0.5, out=out)


class Square(Universal):
    """a * a."""

    function: ClassVar[np.ufunc] = np.square

    def derive(self, x: Array, output: Array, gradient: Array, out: Array) -> None:
        # The gradient before the 2: no array beside `out` is needed, even where that is the gradient's memory.
        np.multiply(gradient, x, out=out)
        np.multiply(out, 2, out=out)
