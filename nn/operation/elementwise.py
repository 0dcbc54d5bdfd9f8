"""Functions of single elements."""

from abc import abstractmethod
from collections.abc import Sequence
from typing import ClassVar

from nn.arrays import Array, Shape
from nn.operation.batch_axis import batch_leads
from nn.operation.operation import Operation


class Elementwise(Operation):
    """y_i = f(a_i); a subclass gives f and its derivative and says by `reads_inputs` and `reads_output` what that looks at."""

    in_place: ClassVar[bool] = True

    def infer(self, *shapes: Shape) -> Shape:
        """Return the shape of the input."""
        return shapes[0]

    def splits(self, shapes: Sequence[Shape]) -> bool:
        """Whether the batch is the first axis."""
        return batch_leads(shapes[0])

    def backward(self, inputs: Sequence[Array], output: Array, gradient: Array, wanted: Sequence[Array | None]) -> None:
        """Write the gradient of the input, unless nobody wants it."""
        if wanted[0] is not None:
            self.derive(inputs[0], output, gradient, wanted[0])

    @abstractmethod
    def derive(self, a: Array, output: Array, gradient: Array, out: Array) -> None:
        """Write gradient * f'(a) into `out`, which may be the memory of `gradient`."""
