"""Base class of metrics, and checks for those that compare labels with predictions of classes, two or several."""

from __future__ import annotations

from abc import abstractmethod
from collections.abc import Iterator, Sequence
from numbers import Real
from typing import Any, NoReturn, TypeVar

import numpy as np
from numpy.typing import ArrayLike

from nn.arguments import Configurable
from nn.arrays import Array, as_array, described_labels
from nn.extension import described

_Kind = TypeVar("_Kind", bound="Metric")


class Metric(Configurable):
    """A number that tells people how well a model does, exact over batches of any sizes.

    It adds up its numbers in `update` and gives the value for all samples since `reset` in `result`. However the samples
    were cut into batches, and whether one metric saw them all or several did that were merged, the result has the same bits.

    A NaN among the predictions makes the result NaN until `reset`, for it is neither right nor wrong. `name` replaces the
    usual key of the value, so that two metrics of one kind can stand side by side.

    To add one: a class with `reset`, `update` and `result`, its name and its word in `nn/metric/__init__.py`, its name in the
    table of nn/README.md, and a row in `tests/contract/nn_rows/metrics.py`, which a test demands.

    >>> class Bias(nn.metric.Metric):
    ...     name = "bias"
    ...     def reset(self):
    ...         self.sum, self.samples = 0.0, 0
    ...     def update(self, label, prediction):
    ...         self.sum += float(np.subtract(prediction, label).sum())
    ...         self.samples += len(label)
    ...     def result(self):
    ...         return self.sum / self.samples if self.samples else np.nan
    >>> metric = Bias()
    >>> metric.update([1.0, 2.0], [2.0, 4.0])
    >>> metric.result()
    1.5
    """

    name: str
    """The key of the value in the results of `evaluate` and `fit`."""

    _given_name: str | None = None

    #: The word of the metric that this one holds, where it was given by its word.
    _word: str = ""

    def __init__(self, name: str | None = None) -> None:
        if name is not None:
            if not isinstance(name, str):
                raise TypeError(f"{type(self).__name__} 'name' must be a text, got {name!r}")
            if not name:
                raise ValueError(f"{type(self).__name__} 'name' must not be empty")
            self.name = self._given_name = name
        if getattr(self, "name", None) is None:
            raise TypeError(f"{type(self).__name__} must tell its key in the results: name = '..' in the body of the class")
        self.reset()

    def __call__(self, *_: object, **__: object) -> NoReturn:
        """Raise TypeError with the remedy: `update` takes batches."""
        raise TypeError(
            f"{type(self).__name__} is not called: update(label, prediction) takes a batch, result() gives the value"
        )

    @abstractmethod
    def reset(self) -> None:
        """Forget all samples."""

    @abstractmethod
    def update(self, label: ArrayLike, prediction: ArrayLike) -> None:
        """Take in one batch.

        Args:
            label: labels as the loss takes them, an array or a list.
            prediction: the model's predictions (batch, ...), alike.
        """

    @abstractmethod
    def result(self) -> float:
        """Return the value over all samples since `reset`; NaN without any."""

    def _number(self, found: object) -> float:
        """Return the result that was found; raise TypeError where it is no number."""
        if not isinstance(found, Real) and not (isinstance(found, np.ndarray) and found.ndim == 0):
            raise TypeError(f"{type(self).__name__}.result() must return a number, got {described(found)}")
        return found  # type: ignore[return-value]

    def _weigh(self, label: ArrayLike, prediction: ArrayLike, weight: ArrayLike | None) -> None:
        """Take in one batch, with the weights of its samples where the metric knows them."""
        self.update(label, prediction)

    def _inner(self) -> Metric:
        """Return the metric that looks at labels and predictions: this one, or the one that it holds."""
        return self

    def _terms(self, label: ArrayLike, prediction: ArrayLike) -> tuple[Array, ...]:
        """Return, for `Weighted`, the numbers of each sample (batch, ...) of which the metric adds up the sums."""
        raise TypeError(f"{type(self).__name__} knows no weights of samples")

    def _settle(self, sums: Sequence[float], total: float) -> None:
        """Take sums of these numbers, and that of the weights, for those of all samples."""
        raise TypeError(f"{type(self).__name__} knows no weights of samples")

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


# Numbers of a block, 32 KiB in float64.
_BLOCK = 4096


def as_arrays(owner: object, label: ArrayLike, prediction: ArrayLike) -> tuple[Array, Array]:
    """Return both as arrays; raise ValueError where one of them masks numbers."""
    # mostly: an array that masks numbers is of a class of its own
    if type(label) is np.ndarray and type(prediction) is np.ndarray:
        return label, prediction
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
            found = described_labels(array) if what == "labels" else array.dtype
            raise ValueError(f"{name} {what} must be numbers, got {found}")
    # Also without samples.
    outputs = max(label.size, 1) // max(len(label), 1)
    return _blocks(label.reshape(-1, outputs), prediction.reshape(-1, outputs), max(_BLOCK // outputs, 1))


def _blocks(label: Array, prediction: Array, rows: int) -> Iterator[tuple[Array, Array]]:
    for start in range(0, len(label), rows):
        stop = start + rows
        # Copies, also of float64, in which the metric may compute.
        yield label[start:stop].astype(np.float64), prediction[start:stop].astype(np.float64)


def has_nan(array: Array) -> bool:
    """Return whether there is a NaN, in one pass and without memory for a mask: a maximum stops at the first NaN."""
    if not array.size:
        return False
    largest: float = array.item(array.argmax())
    return largest != largest


def class_numbers(owner: object, label: Array, prediction: Array) -> Array:
    """Return the class of every row of predictions (batch, ..., classes), in the shape (batch, ...).

    Args:
        owner: metric named by its class in errors.
        label: class numbers (batch, ...) or (batch, ..., 1), or rows (batch, ..., classes), of which the first largest element
            counts.
        prediction: the rows.

    Raises ValueError for predictions that are no rows of at least two classes, for labels of any other shape, and for class
    numbers that are not whole or not in 0..classes - 1.
    """
    shape = prediction.shape
    if len(shape) < 2 or shape[-1] < 2 or prediction.dtype.kind not in "fiub":
        raise ValueError(
            f"{type(owner).__name__} takes predictions (batch, ..., classes), got {prediction.dtype} of shape {shape}"
        )
    rows = shape[:-1]
    if label.shape == rows:
        return check_range(owner, label, shape[-1])
    if label.shape == (*rows, 1):
        return check_range(owner, label.reshape(rows), shape[-1])
    if label.shape != shape or label.dtype.kind not in "iufb":
        raise ValueError(
            f"{type(owner).__name__} takes labels of shape {rows} or rows of shape {shape} for predictions of shape {shape}, "
            f"got {label.dtype} of shape {label.shape}"
        )
    if has_nan(label):
        raise ValueError(f"{type(owner).__name__} label rows must not hold NaN")
    return np.asarray(label.argmax(axis=-1))


def check_range(owner: object, label: Array, classes: int) -> Array:
    """Return class numbers as integers; raise ValueError unless all are whole and in 0..classes - 1."""
    kind = label.dtype.kind
    if kind in "iu":
        # of all searches of NumPy this is the fastest
        if label.size and (label.item(label.argmax()) >= classes or label.item(label.argmin()) < 0):
            raise ValueError(f"{_classes(owner, classes)}, got {label.min()}..{label.max()}")
        return label
    if kind == "b":
        # Without a copy: a byte each, 0 or 1.
        return label.view(np.uint8)
    if kind != "f":
        raise ValueError(f"{_classes(owner, classes)}, got {label.dtype}")
    whole = np.rint(label)
    # Negated, so that NaN counts as wrong.
    wrong = label[~((whole == label) & (label >= 0) & (label < classes))]
    if wrong.size:
        raise ValueError(f"{_classes(owner, classes)}, got {wrong[0]:g}")
    return whole.astype(np.intp)


def _classes(owner: object, classes: int) -> str:
    return f"{type(owner).__name__} labels must be classes in 0..{classes - 1}"


# How far from 1 the sum of two probabilities may lie.
_ROUNDING = 1e-3


class TwoClassMetric(Metric):
    """A metric of two classes, positive and negative, of each sample or, of models with several labels, of each output.

    Predictions (batch,) or (batch, 1) are scores, such as probabilities of being positive; labels of either shape hold 1 for
    positive and 0 for negative, or -1 as `Hinge` takes it. Predictions (batch, 2) are the probabilities of class 0 and 1, as
    `Softmax` gives them, of which the second is the score; labels are class numbers as above, or one-hot rows (batch, 2).
    Predictions of any other shape (batch, ...) with labels of that shape are decisions, each of its own, and all are counted
    alike, as in Keras. So are rows of two beside a loss of decisions, of which `setup` tells the metric.
    """

    #: The number that a score must exceed to be taken for positive, where no threshold is given.
    _boundary: float = 0.5
    #: Whether each output is a decision of its own, also where there are two.
    _each: bool = False

    def look_at(self, *, decisions: bool, each: bool) -> None:
        """Take in the meaning that the model's loss gives its outputs.

        Args:
            decisions: the outputs are scores with the decision as their sign, those of two classes included; else
                probabilities.
            each: every output is a decision of its own where labels have the shape of the outputs.
        """
        self._boundary, self._each = 0.0 if decisions else 0.5, each

    def truth_and_scores(self, label: ArrayLike, prediction: ArrayLike) -> tuple[Array, Array]:
        """Return which samples or outputs are positive, bool (n,), and the score of each, (n,): the larger, the more positive.

        Raises ValueError for other shapes, and for labels that are neither 0 nor 1 (or -1 and 1).
        """
        label, prediction = as_arrays(self, label, prediction)
        name, shape = type(self).__name__, prediction.shape
        samples = shape[0] if shape else 0
        two_classes = shape == (samples, 2)
        each = bool(shape) and label.shape == shape and (self._each or not two_classes)
        if prediction.dtype.kind not in "iufb" or not (each or shape in ((samples,), (samples, 1), (samples, 2))):
            raise ValueError(
                f"{name} takes numbers (batch,) or (batch, 1), probabilities (batch, 2), or numbers of the labels' shape, "
                f"as predictions, got {prediction.dtype} of shape {shape}"
            )
        if each:
            return _positive(name, label.reshape(-1)), prediction.reshape(-1)
        one_hot_rows = two_classes and label.shape == shape
        if not one_hot_rows and label.shape not in ((samples,), (samples, 1)):
            one_hot = f" or {shape}" if two_classes else ""
            raise ValueError(f"{name} takes labels of shape ({samples},), ({samples}, 1){one_hot}, got {label.shape}")
        truth = _one_hot(name, label) if one_hot_rows else _positive(name, label.reshape(samples))
        if not two_classes:
            return truth, prediction.reshape(samples)
        # Of two scores the difference is positive where the second class wins.
        if self._boundary == 0:
            return truth, np.subtract(prediction[:, 1], prediction[:, 0])
        return truth, _second(name, prediction)


def _positive(name: str, label: Array) -> Array:
    if label.dtype.kind not in "iufb":
        raise ValueError(f"{name} labels must be numbers, got {described_labels(label)}")
    truth = label == 1
    wrong = ~(truth | (label == 0) | (label == -1))
    if wrong.any():
        raise ValueError(f"{name} labels must be 0 or 1 (or -1 and 1), got {label[wrong][0]}")
    return np.asarray(truth)


def _one_hot(name: str, label: Array) -> Array:
    if label.dtype.kind not in "iufb":
        raise ValueError(f"{name} labels must be numbers, got {described_labels(label)}")
    truth = label[:, 1] == 1
    # True equals 1 and False 0, so numbers are compared with masks.
    wrong = (label[:, 0] != ~truth) | (label[:, 1] != truth)
    if wrong.any():
        raise ValueError(f"{name} label rows must be one-hot, [1, 0] or [0, 1], got {label[wrong][0].tolist()}")
    return np.asarray(truth)


def _second(name: str, prediction: Array) -> Array:
    sums = prediction.sum(axis=1)
    # False for NaN, which is no mistake of the shape.
    wrong = np.abs(sums - 1) > _ROUNDING
    if wrong.any():
        raise ValueError(
            f"{name} takes rows of two probabilities that sum to 1, got {prediction[wrong][0].tolist()}; "
            "a model that ends in scores needs a Softmax"
        )
    score = prediction[:, 1]
    # a row with NaN is NaN as a whole
    return np.where(np.isnan(sums), np.nan, score) if has_nan(prediction) else score
