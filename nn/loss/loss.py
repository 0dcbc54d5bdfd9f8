"""What a loss is."""

from abc import ABC, abstractmethod
from typing import Any, ClassVar

import numpy as np

from nn.arrays import Array, Shape
from nn.configurable import Configurable
from nn.operation import Operation


class Loss(Configurable, ABC):
    """The number that training makes small, a mean over the samples of a batch.

    An instance in a model holds its configuration only. Each plan works with a copy, tells it the shape once (`allocate`)
    and then calls `value` and, in training, `gradient` with the same arguments.
    """

    absorbs: ClassVar[type[Operation] | None] = None
    """An operation that the loss contains. A model that ends in it hands the loss what stands before it."""

    @abstractmethod
    def prepare(self, label: Array, shape: Shape, dtype: np.dtype[Any]) -> Array:
        """Return the labels in the form `value` takes, for outputs of this shape; raise ValueError naming what is wrong."""

    def allocate(self, shape: Shape, dtype: np.dtype[Any]) -> None:
        """Prepare work space for outputs of this shape. Called once for each copy."""

    @abstractmethod
    def value(self, label: Array, output: Array) -> float:
        """Return the mean loss of the batch."""

    @abstractmethod
    def gradient(self, label: Array, output: Array, out: Array) -> None:
        """Write d value / d output into `out`, after `value` with the same arguments."""

    def prediction(self, output: Array) -> Array:
        """Return what the absorbed operation would give, after `value` with the same output. Valid until the next run."""
        raise NotImplementedError(f"{type(self).__name__} absorbs {self.absorbs}, but does not tell its value")


def check_length(label: Array, samples: int) -> None:
    """Raise ValueError unless there is one label for each sample."""
    if label.ndim == 0 or len(label) != samples:
        count = len(label) if label.ndim else "a single number"
        raise ValueError(f"'label' must hold one label for each of the {samples} samples, got {count}")
