"""The greater of two arrays, element by element."""

from collections.abc import Sequence

import numpy as np

from nn.arrays import Array
from nn.operation.choice import Choice


class Maximum(Choice):
    """The greater of a and b, element by element; where they are equal each gets half of the gradient."""

    def forward(self, inputs: Sequence[Array], out: Array) -> None:
        """Write the greater elements."""
        np.maximum(inputs[0], inputs[1], out=out)

    def loses(self, own: Array, other: Array, out: Array) -> None:
        """Write where the own element is less."""
        np.less(own, other, out=out)
