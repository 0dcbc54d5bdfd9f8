"""The least element along axes."""

from collections.abc import Sequence

import numpy as np

from nn.arrays import Array
from nn.operation.extremum import Extremum


class Min(Extremum):
    """The least element over some axes; equal ones share its gradient equally."""

    def forward(self, inputs: Sequence[Array], out: Array) -> None:
        """Write the least elements."""
        np.min(inputs[0], axis=self._reduced, keepdims=self.keepdims, out=out)
