"""Functions of single elements."""

from __future__ import annotations

from abc import abstractmethod
from collections.abc import Sequence
from typing import Any, ClassVar

import numpy as np

from nn.arrays import Array, Shape
from nn.operation.operation import Operation, batch_leads


class Elementwise(Operation):
    """y_i = f(a_i); a subclass gives f and its derivative and says by `reads_inputs` and `reads_output` what that looks at."""

    in_place: ClassVar[bool] = True

    def infer(self, *shapes: Shape) -> Shape:
        return shapes[0]

    def splits(self, shapes: Sequence[Shape]) -> bool:
        return batch_leads(shapes[0])

    def backward(self, inputs: Sequence[Array], output: Array, gradient: Array, wanted: Sequence[Array | None]) -> None:
        """Write the gradient of the input, unless nobody wants it."""
        if wanted[0] is not None:
            self.derive(inputs[0], output, gradient, wanted[0])

    @abstractmethod
    def derive(self, a: Array, output: Array, gradient: Array, out: Array) -> None:
        """Write gradient * f'(a) into `out`, which may be the memory of `gradient`."""


class Absolute(Elementwise):
    """|a|; the derivative at 0 is taken as 0."""

    def allocate(self, shapes: Sequence[Shape], output: Shape, dtype: np.dtype[Any]) -> None:
        self._derivative = self.scratch.empty(output, dtype)

    def forward(self, inputs: Sequence[Array], out: Array) -> None:
        np.absolute(inputs[0], out=out)

    def derive(self, a: Array, output: Array, gradient: Array, out: Array) -> None:
        np.sign(a, out=self._derivative)
        np.multiply(gradient, self._derivative, out=out)


class Exp(Elementwise):
    """e ** a."""

    reads_inputs: ClassVar[bool] = False
    reads_output: ClassVar[bool] = True

    def forward(self, inputs: Sequence[Array], out: Array) -> None:
        np.exp(inputs[0], out=out)

    def derive(self, a: Array, output: Array, gradient: Array, out: Array) -> None:
        np.multiply(gradient, output, out=out)


class Log(Elementwise):
    """ln a, for positive a."""

    def forward(self, inputs: Sequence[Array], out: Array) -> None:
        np.log(inputs[0], out=out)

    def derive(self, a: Array, output: Array, gradient: Array, out: Array) -> None:
        np.divide(gradient, a, out=out)


class Negative(Elementwise):
    """-a."""

    reads_inputs: ClassVar[bool] = False

    def forward(self, inputs: Sequence[Array], out: Array) -> None:
        np.negative(inputs[0], out=out)

    def derive(self, a: Array, output: Array, gradient: Array, out: Array) -> None:
        np.negative(gradient, out=out)


class Sqrt(Elementwise):
    """The square root of a, for positive a: at 0 the derivative is infinite."""

    reads_inputs: ClassVar[bool] = False
    reads_output: ClassVar[bool] = True

    def forward(self, inputs: Sequence[Array], out: Array) -> None:
        np.sqrt(inputs[0], out=out)

    def derive(self, a: Array, output: Array, gradient: Array, out: Array) -> None:
        np.divide(gradient, output, out=out)
        np.multiply(out, 0.5, out=out)


class Square(Elementwise):
    """a * a."""

    def forward(self, inputs: Sequence[Array], out: Array) -> None:
        np.square(inputs[0], out=out)

    def derive(self, a: Array, output: Array, gradient: Array, out: Array) -> None:
        np.multiply(gradient, a, out=out)
        np.multiply(out, 2, out=out)
