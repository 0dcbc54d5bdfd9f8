"""What a loss is."""

from abc import ABC, abstractmethod
from typing import Any, ClassVar

import numpy as np

from nn.arrays import Array, Shape, as_array
from nn.configurable import Configurable
from nn.operation import Operation


class Loss(Configurable, ABC):
    """The number that training makes small: sum_i w_i l_i / batch, with l_i the loss of sample i and w_i its weight, else 1.

    An instance in a model holds its configuration only. Each plan works with a copy, tells it the shape once (`allocate`)
    and then calls `value` and, in training, `gradient` with the same arguments.

    To add one: check the labels in `prepare`, compute l_i in `each` and its derivative in `derive`; what is allocated is
    allocated in `allocate`, after `super().allocate(...)`.

    >>> class Mean(nn.loss.Loss):
    ...     def prepare(self, label, shape, dtype):
    ...         return label
    ...     def each(self, label, output):
    ...         return output.mean(axis=1)
    ...     def derive(self, label, output, share, out):
    ...         out[:] = share / output.shape[1]
    >>> nn.testing.check_loss_gradient(Mean(), np.zeros(5), np.ones((5, 2)))
    """

    absorbs: ClassVar[type[Operation] | None] = None
    """An operation that the loss contains. A model that ends in it hands the loss what stands before it, and takes its value
    for the metrics from `prediction`, which such a loss has to define."""

    def __init_subclass__(cls, **kwargs: Any) -> None:
        super().__init_subclass__(**kwargs)
        if cls.absorbs is not None and cls.prediction is Loss.prediction:
            raise TypeError(f"{cls.__name__} absorbs {cls.absorbs.__name__}, so it must define prediction(), its value")

    @abstractmethod
    def prepare(self, label: Array, shape: Shape, dtype: np.dtype[Any]) -> Array:
        """Return the labels in the form `value` takes, for outputs of this shape; raise ValueError naming what is wrong."""

    def check_weights(self, weight: Array, samples: int, dtype: np.dtype[Any]) -> Array:
        """Return the weights of the samples, shape (samples,), as `value` takes them.

        Raises ValueError unless there is one finite number of at least 0 for each sample.
        """
        name = f"{type(self).__name__} 'weight'"
        weight = as_array(name, weight)
        if weight.shape != (samples,) or weight.dtype.kind not in "iufb":
            raise ValueError(
                f"{name} must hold one number for each of the {samples} samples, got {weight.dtype} of shape {weight.shape}"
            )
        with np.errstate(over="ignore"):
            weight = np.asarray(weight, dtype)
        # written so that NaN counts as wrong
        wrong = np.flatnonzero(~((weight >= 0) & (weight < np.inf)))
        if wrong.size:
            raise ValueError(f"{name} must hold finite numbers of at least 0, got {weight[wrong[0]]:g} for sample {wrong[0]}")
        return weight

    def allocate(self, shape: Shape, dtype: np.dtype[Any]) -> None:
        """Prepare work space for outputs of this shape. Called once for each copy."""
        self._share = np.empty((shape[0], *(1 for _ in shape[1:])), dtype)

    def value(self, label: Array, output: Array, weight: Array | None = None) -> float:
        """Return the mean loss of the batch, each sample's counted `weight` (batch,) times."""
        if weight is None:
            return self.total(label, output) / len(output)
        return float(np.dot(self.each(label, output), weight)) / len(output)

    def gradient(self, label: Array, output: Array, out: Array, weight: Array | None = None) -> None:
        """Write d value / d output into `out`, after `value` with the same arguments."""
        share = 1 / len(output)
        if weight is None:
            self.derive(label, output, share, out)
        else:
            np.multiply(weight.reshape(self._share.shape), share, out=self._share)
            self.derive(label, output, self._share, out)

    @abstractmethod
    def each(self, label: Array, output: Array) -> Array:
        """Return the loss of each sample, (batch,). Valid until the next call."""

    def total(self, label: Array, output: Array) -> float:
        """Return the sum of `each`, and leave behind what `derive` needs. For a loss that has a faster way."""
        return float(np.add.reduce(self.each(label, output)))

    @abstractmethod
    def derive(self, label: Array, output: Array, share: float | Array, out: Array) -> None:
        """Write share * d l_i / d output_i into `out`, after `each` or `total` with the same arguments.

        `share` is a number, or work space (batch, 1, ...) with one for each sample, which may be changed in place.
        """

    def prediction(self, output: Array) -> Array:
        """Return what the absorbed operation would give, after `value` with the same output. Valid until the next run."""
        return output
