"""Where data enters a graph."""

from collections.abc import Sequence

from nn import arguments
from nn.arrays import BATCH
from nn.value.value import Value


class Placeholder(Value):
    """The input of a model, of shape (-1, ...): the first axis is the batch, its length comes with the data."""

    def __init__(self, shape: Sequence[int | None]) -> None:
        axes = arguments.shape("Model", "input_shape", shape, unknown=1)
        if not axes or axes[0] != BATCH:
            raise ValueError(f"Model 'input_shape' must begin with -1, the batch, got {list(shape)}")
        super().__init__(axes)
