"""What an operation keeps track of while a model trains."""

from collections.abc import Sequence

from nn.initializer import Initializer, Zeros
from nn.value.variable import Variable


class Buffer(Variable):
    """A statistic, such as the moving mean of a batch normalisation: not trained, but changed by training.

    An operation that takes a buffer writes, in backward, how this block wants it changed where other inputs get their
    gradients. The changes of the blocks of a batch are averaged and added once (`VariableStore.apply_changes`), so that
    replicas stay equal.
    """

    def __init__(self, shape: Sequence[int], initializer: Initializer | None = None, name: str | None = None) -> None:
        super().__init__(shape, Zeros() if initializer is None else initializer, name, trainable=False)
