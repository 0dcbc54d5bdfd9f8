"""What a metric is."""

from abc import ABC, abstractmethod

from nn.arrays import Array
from nn.configurable import Configurable


class Metric(Configurable, ABC):
    """A number that tells people how well a model does, exact over batches of any sizes.

    It adds up what it needs in `update` and gives the value for all samples since `reset` in `result`.
    """

    name: str
    """The key of the value in the results of `evaluate` and `fit`."""

    @abstractmethod
    def reset(self) -> None:
        """Forget all samples."""

    @abstractmethod
    def update(self, label: Array, prediction: Array) -> None:
        """Take in one batch: labels as the loss takes them, and the model's predictions (batch, ...)."""

    @abstractmethod
    def result(self) -> float:
        """Return the value over all samples since `reset`; NaN without any."""
