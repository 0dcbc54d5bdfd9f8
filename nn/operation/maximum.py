"""The greater of two arrays, element by element."""

from collections.abc import Sequence

import numpy as np

from nn.arrays import Array
from nn.operation.choice import Choice


class Maximum(Choice):
    """The greater of a and b, element by element; where they are equal the gradient is a's."""

    def forward(self, inputs: Sequence[Array], out: Array) -> None:
        """Write the greater elements."""
        np.maximum(inputs[0], inputs[1], out=out)

    def takes_first(self, a: Array, b: Array, out: Array) -> None:
        """Write where a is not the other one."""
        np.greater_equal(a, b, out=out)
