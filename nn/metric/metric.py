"""What a metric is."""

from __future__ import annotations

from abc import ABC, abstractmethod
from typing import Any, TypeVar

from numpy.typing import ArrayLike

from nn.configurable import Configurable

_Kind = TypeVar("_Kind", bound="Metric")


class Metric(Configurable, ABC):
    """A number that tells people how well a model does, exact over batches of any sizes.

    It adds up what it needs in `update` and gives the value for all samples since `reset` in `result`. However the samples
    were cut into batches, and whether one metric saw them all or several did that were merged, the result has the same bits.

    A NaN among the predictions makes the result NaN until `reset`, for it is neither right nor wrong. `name` replaces the
    usual key of the value, so that two metrics of one kind can stand side by side.

    >>> class Bias(nn.metric.Metric):
    ...     name = "bias"
    ...     def reset(self):
    ...         self.sum, self.samples = 0.0, 0
    ...     def update(self, label, prediction):
    ...         self.sum += float(np.subtract(prediction, label).sum())
    ...         self.samples += len(label)
    ...     def result(self):
    ...         return self.sum / self.samples
    >>> metric = Bias()
    >>> metric.update([1.0, 2.0], [2.0, 4.0])
    >>> metric.result()
    1.5
    """

    name: str
    """The key of the value in the results of `evaluate` and `fit`."""

    _given_name: str | None = None

    def __init__(self, name: str | None = None) -> None:
        if name is not None:
            if not isinstance(name, str):
                raise TypeError(f"{type(self).__name__} 'name' must be a text, got {name!r}")
            if not name:
                raise ValueError(f"{type(self).__name__} 'name' must not be empty")
            self.name = self._given_name = name
        self.reset()

    @abstractmethod
    def reset(self) -> None:
        """Forget all samples."""

    @abstractmethod
    def update(self, label: ArrayLike, prediction: ArrayLike) -> None:
        """Take in one batch: labels as the loss takes them, and the model's predictions (batch, ...); arrays or lists."""

    @abstractmethod
    def result(self) -> float:
        """Return the value over all samples since `reset`; NaN without any."""

    def merge(self, other: Metric) -> None:
        """Take in all samples that `other`, a metric of the same kind and arguments, has seen; it stays as it is.

        Raises TypeError or ValueError where it is not. Optional: TypeError for a kind that does not define it.
        """
        raise TypeError(f"{type(self).__name__} cannot be merged: it does not define merge(other)")

    def mergeable(self: _Kind, other: Metric) -> _Kind:
        """Return `other` if it has the kind of this metric and the same arguments but for the name, else raise."""
        if type(other) is not type(self):
            raise TypeError(f"{type(self).__name__} merges with its own kind only, got {type(other).__name__}")
        if {**other.get_config(), "name": None} != {**self.get_config(), "name": None}:
            raise ValueError(f"{type(self).__name__} merges with metrics of equal arguments only: {self} and {other}")
        return other

    def get_config(self) -> dict[str, Any]:
        """Return the constructor's arguments: the name where one was given."""
        return {} if self._given_name is None else {"name": self._given_name}
