"""What a metric is, and what metrics share that compare labels with predictions."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Iterator
from typing import Any, TypeVar

import numpy as np
from numpy.typing import ArrayLike

from nn.arguments import Configurable
from nn.arrays import Array, as_array

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
        own = {name: value for name, value in super().get_config().items() if name != "name"}
        return own if self._given_name is None else {**own, "name": self._given_name}


_BLOCK = 4096


def as_arrays(owner: object, label: ArrayLike, prediction: ArrayLike) -> tuple[Array, Array]:
    """Return both as arrays; raise ValueError where one of them masks numbers."""
    name = type(owner).__name__
    return as_array(f"{name} 'label'", label), as_array(f"{name} 'prediction'", prediction)


def number_pairs(owner: object, label: Array, prediction: Array) -> Iterator[tuple[Array, Array]]:
    """Return an iterator over blocks of label and prediction, new float64 arrays (rows, outputs) that stay in the cache.

    Both have one shape, or one is (batch,) and the other (batch, 1). Raises ValueError otherwise.
    """
    name = type(owner).__name__
    equal = label.shape == prediction.shape
    if not equal and not (label.shape == (*prediction.shape, 1) or prediction.shape == (*label.shape, 1)):
        raise ValueError(f"{name} takes labels of the shape {prediction.shape} of the predictions, got {label.shape}")
    if not prediction.ndim:
        raise ValueError(f"{name} takes predictions (batch, ...), got a single number")
    for what, array in (("labels", label), ("predictions", prediction)):
        if array.dtype.kind not in "iufb":
            raise ValueError(f"{name} {what} must be numbers, got {array.dtype}")
    outputs = max(label.size, 1) // max(len(label), 1)
    return _blocks(label.reshape(-1, outputs), prediction.reshape(-1, outputs), max(_BLOCK // outputs, 1))


def _blocks(label: Array, prediction: Array, rows: int) -> Iterator[tuple[Array, Array]]:
    for start in range(0, len(label), rows):
        stop = start + rows
        yield label[start:stop].astype(np.float64), prediction[start:stop].astype(np.float64)


def has_nan(array: Array) -> bool:
    """Return whether there is a NaN, in one pass and without memory for a mask: a maximum stops at the first NaN."""
    if not array.size:
        return False
    largest: float = array.item(array.argmax())
    return largest != largest
