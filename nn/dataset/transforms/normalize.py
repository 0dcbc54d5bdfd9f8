"""Samples, or values to predict, brought to mean 0 and standard deviation 1."""

from __future__ import annotations

import math
from typing import Any, ClassVar, Literal, TypeAlias, get_args

import numpy as np
from numpy.typing import ArrayLike, NDArray

from nn import arguments
from nn.arrays import Array, Shape, refuse_masked
from nn.dataset.interface import AbsDataset, Arrays
from nn.dataset.transforms.abstract import AbsTransformer, as_parts
from nn.extension import checked_call

__all__ = ["Normalize", "NormalizeLabels", "Standardization", "normalized", "statistics"]

Per: TypeAlias = Literal["feature", "channel", "all"]
_FAR = 10.0  # standard deviations
_CHUNK = 1 << 16  # values that are in hand at a time, as float64


class Standardization(AbsTransformer, configured=True):
    """``(x - mean) / std`` of samples or of labels.

    Args:
        mean, std: the statistics; None for those of the training part, by `per`.
    """

    what: ClassVar[str]
    """Name of the numbers it works on, for messages."""

    per: Per = "channel"

    def __init__(self, mean: ArrayLike | None = None, std: ArrayLike | None = None) -> None:
        self.mean = self._statistic("mean", mean)
        self.std = self._statistic("std", std)
        if self.std is not None and not (self.std > 0).all():
            raise ValueError(f"{type(self).__name__} 'std' must be positive, got {self.std.tolist()}")

    def argument(self, name: str) -> Any:
        value = super().argument(name)
        return value.tolist() if isinstance(value, np.ndarray) else value

    def standardized(self, train: Array, test: Array) -> tuple[Array, Array]:
        """Return both parts standardized.

        Args:
            train: numbers ``(n, ...)`` of the training part, of which statistics that are not given are taken.
            test: numbers ``(n, ...)`` of the test part.

        Raises TypeError or ValueError where they are no numbers or the given statistics do not fit.
        """
        owner = type(self).__name__
        refuse_masked(f"{owner} {self.what}", train, test)
        for x in (train, test):
            if x.dtype.kind not in "biuf":
                raise TypeError(f"{owner} needs {self.what} that are numbers, got dtype {x.dtype}")
        if train.shape[1:] != test.shape[1:]:
            raise ValueError(
                f"{owner} needs training and test {self.what} of one shape each, got {train.shape[1:]} and {test.shape[1:]}"
            )
        mean, std = self._with_statistics(train)
        return normalized(train, mean, std), normalized(test, mean, std)

    def _with_statistics(self, train: Array) -> tuple[NDArray[np.float64], NDArray[np.float64]]:
        """Return the given mean and std, or those of the training part; raise where they do not fit."""
        owner, sample = type(self).__name__, train.shape[1:]
        for name, given in (("mean", self.mean), ("std", self.std)):
            if given is not None and not _fits(given.shape, sample):
                raise ValueError(f"{owner} '{name}' must fit {self.what} of shape {sample}, got shape {given.shape}")
        mean, std = self.mean, self.std
        if mean is None or std is None:
            found_mean, found_std = statistics(owner, f"training {self.what}", train, self.per)
            mean, std = found_mean if mean is None else mean, found_std if std is None else std
        return mean, std

    def _statistic(self, name: str, value: ArrayLike | None) -> NDArray[np.float64] | None:
        if value is None:
            return None
        owner = type(self).__name__
        refuse_masked(f"{owner} '{name}'", value)
        try:
            # Truth values and times would become numbers without a word.
            given = np.asarray(value)
            if given.dtype.kind not in "iufO":
                raise TypeError
            array = np.array(given, dtype=np.float64)
        except (TypeError, ValueError):
            raise TypeError(f"{owner} '{name}' must be a number or a list of numbers, got {value!r}") from None
        if not array.size or not np.isfinite(array).all():
            raise ValueError(f"{owner} '{name}' must be finite numbers, got {value!r}")
        return array


class Normalize(Standardization, configured=True):
    """``(x - mean) / std``, with the statistics of the training part for both parts.

    `per` gives the axes of the statistics: with 'channel' there is one mean per entry of the last axis, that is per
    feature of rows ``(n, features)`` and per colour of images ``(n, height, width, channels)``; with 'feature' one per entry
    of a sample of any shape; with 'all' a single one, which suits grey images ``(n, height, width)``. A standard deviation is
    that of the population (divided by n). Where all training samples are equal it counts as 1, so constants become 0.

    `mean` and `std` may be given in place of the training part's: a number, or (nested) lists that broadcast to a sample.
    Floats keep their dtype, other samples become float32; the arithmetic is in float64 throughout.

    `of` takes the statistics of a data set beforehand, so that `apply` makes the samples of a later `predict` alike.

    Args:
        mean: to be subtracted; default: that of the training part.
        std: to divide by, above 0; default: that of the training part.
        per: 'channel', 'feature' or 'all'.

    Raises ValueError for a `std` that is not positive, statistics that do not fit the samples, and training samples with NaN
    or infinity (unless both are given); TypeError for samples that are no numbers.

    >>> x, y = np.array([[1.0], [3.0]]), np.array([0, 1])
    >>> nn.dataset.transforms.Normalize()(x, y, x + 1, y)[2].tolist()
    [[0.0], [2.0]]
    """

    takes_parts: ClassVar[bool] = False

    what: ClassVar[str] = "samples"

    def __init__(self, mean: ArrayLike | None = None, std: ArrayLike | None = None, per: Per = "channel") -> None:
        self.per = arguments.one_of(self, "per", per, get_args(Per))
        super().__init__(mean, std)

    @classmethod
    @checked_call
    def of(cls, data: AbsDataset, per: Per = "channel") -> Normalize:
        """Return the transform with the statistics of a data set's training part; of equal bits as one that takes them.

        Args:
            data: the data set.
            per: as of the class.
        """
        mean, std = statistics("Normalize", "training samples", data.load()[0], cls(per=per).per)
        return cls(mean, std, per)

    def apply(self, x: Array) -> Array:
        """Return samples ``(n, ...)`` normalised by the mean and std that this was made with.

        Raises ValueError where it was made without them; else as a call.
        """
        if self.mean is None or self.std is None:
            raise ValueError("Normalize must have 'mean' and 'std' to apply them: make it by Normalize.of(data)")
        # An empty test part.
        return self.standardized(x, x[:0])[0]

    def fitted(self, train_x: Array, train_y: Array) -> Normalize:
        """Return the transform with the statistics of these training samples, of equal bits in their place."""
        mean, std = self._with_statistics(train_x)
        return Normalize(mean, std, self.per)

    def _left_out(self, x: Array) -> str:
        if self.mean is None or self.std is None or x.ndim != 2 or not len(x):
            return ""
        mean, std = np.asarray(self.mean, np.float64), np.asarray(self.std, np.float64)
        if mean.size not in (1, x.shape[1]) or std.size not in (1, x.shape[1]):
            return ""
        # No sample is that far from the mean of what was normalised, and each is near to that of what was not.
        strange = (np.abs(x) > _FAR).all(axis=0) & (np.abs(x - mean) <= _FAR * std).all(axis=0)
        return "Normalize" if strange.any() else ""

    def at_prediction(self, x: Array, y: Array | None) -> tuple[Array, Array | None]:
        """Return normalised samples; raises as `apply`."""
        return self.apply(x), y

    def __call__(self, train_x: Array, train_y: Array, test_x: Array, test_y: Array, seed: int = 0) -> Arrays:
        refuse_masked(f"{type(self).__name__} {self.what}", train_x, test_x)
        train_x, train_y, test_x, test_y = as_parts(self, train_x, train_y, test_x, test_y)
        train_x, test_x = self.standardized(train_x, test_x)
        return train_x, train_y, test_x, test_y


def statistics(owner: str, what: str, x: Array, per: Per | tuple[int, ...]) -> tuple[NDArray[np.float64], NDArray[np.float64]]:
    """Return mean and standard deviation in a shape that fits a sample; 1 where there is no deviation.

    Args:
        owner: name of the transform, for errors.
        what: name of the numbers, for errors.
        x: numbers ``(n, ...)``, which must be finite.
        per: 'channel', 'feature' or 'all', as in `Normalize`, or the axes of a sample that have a mean for each entry.

    Raises ValueError naming `owner` and the numbers, `what`, that it needs to be finite.
    """
    if not x.size:
        raise ValueError(f"{owner} needs {what} to take mean and deviation of, got shape {x.shape}")
    # first per feature, along contiguous rows, then over the features that count as one
    rows, sample = _rows(x), x.shape[1:]
    every = tuple(range(len(sample)))
    kept = {"feature": every, "channel": every[-1:], "all": ()}[per] if isinstance(per, str) else per
    axes = tuple(axis for axis in every if axis not in kept)
    # In float64: the sum of many float32 numbers would lose digits.
    totals = np.zeros(rows.shape[1])
    with np.errstate(invalid="ignore"):  # infinities of both signs; reported below
        for part in _parts(rows):
            totals += rows[part].sum(axis=0, dtype=np.float64)
        means = (totals / len(x)).reshape(sample)
        mean = means.mean(axis=axes, keepdims=True)
    if not np.isfinite(mean).all():
        raise ValueError(f"{owner} needs {what} that are finite, got NaN or infinity")
    squares = np.zeros_like(totals)
    with np.errstate(over="ignore"):  # reported below, unless it comes of rounding the mean of a huge constant
        # The second pass takes differences from the mean, because the squares of the numbers themselves would cancel.
        shift = np.broadcast_to(mean, sample).reshape(-1)
        for part in _parts(rows):
            deviation = rows[part] - shift
            deviation *= deviation
            squares += deviation.sum(axis=0)
        std = np.sqrt((squares / len(x)).reshape(sample).mean(axis=axes, keepdims=True))
    # Compared exactly: of equal numbers rounding may leave a deviation.
    highest, lowest = (extreme.reshape(sample) for extreme in (rows.max(axis=0), rows.min(axis=0)))
    constant = highest.max(axis=axes, keepdims=True) == lowest.min(axis=axes, keepdims=True)
    std = np.where(constant | (std == 0), 1.0, std)  # a rounding error of the mean is no deviation
    if not np.isfinite(std).all():
        raise ValueError(f"{owner} needs {what} whose squares are finite, got larger ones")
    return mean, std


def _fits(given: Shape, sample: Shape) -> bool:
    try:
        return np.broadcast_shapes(given, sample) == sample
    except ValueError:
        return False


def _rows(x: Array) -> Array:
    return x.reshape(len(x), math.prod(x.shape[1:]))


def _parts(rows: Array) -> list[slice]:
    """Return slices of rows that hold about `_CHUNK` values each, so that the work on them stays in cache."""
    step = max(_CHUNK // max(rows.shape[1], 1), 1)
    return [slice(start, start + step) for start in range(0, len(rows), step)]


def normalized(x: Array, mean: NDArray[np.float64], std: NDArray[np.float64]) -> Array:
    """Return ``(x - mean) / std``, in the dtype of floats, else in float32.

    Args:
        x: numbers ``(n, ...)``.
        mean, std: the statistics, of a shape that `x` broadcasts with.
    """
    result = np.empty(x.shape, x.dtype if x.dtype.kind == "f" else np.float32)
    rows, out = _rows(x), _rows(result)
    shift, scale = (np.broadcast_to(statistic, x.shape[1:]).reshape(-1) for statistic in (mean, std))
    for part in _parts(rows):
        # float64 through the mean, and rounded once when it is stored.
        centred = rows[part] - shift
        centred /= scale
        out[part] = centred
    return result


class NormalizeLabels(Standardization):
    """``(y - mean) / std`` for labels ``(n,)`` or ``(n, labels)``, with the statistics of the training part, one per column.

    A regression on values far from 0 and 1 learns much faster so; loss and metrics are those of the normalised values. `of`
    takes the statistics of a data set, and `restore` brings predictions back:

    >>> x = np.arange(8.0)[:, None]
    >>> data = nn.dataset.ArrayDataset(x, 1000 * x[:, 0], x, 1000 * x[:, 0])
    >>> labels = nn.dataset.transforms.NormalizeLabels.of(data)
    >>> labels.restore(labels(*data.load())[1])[:3].round(6).tolist()
    [0.0, 1000.0, 2000.0]

    Floats keep their dtype, other labels become float32. Raises as `Normalize` does, for labels.
    """

    takes_parts: ClassVar[bool] = False

    what: ClassVar[str] = "labels"

    @classmethod
    @checked_call
    def of(cls, data: AbsDataset) -> NormalizeLabels:
        """Return the transform with the statistics of the labels in a data set's training part: of equal bits."""
        return cls(*statistics("NormalizeLabels", "training labels", data.load()[1], cls.per))

    def fitted(self, train_x: Array, train_y: Array) -> NormalizeLabels:
        """Return the transform with the statistics of these labels, of equal bits in their place."""
        return NormalizeLabels(*self._with_statistics(train_y))

    def at_prediction(self, x: Array, y: Array | None) -> tuple[Array, Array | None]:
        """Return normalised labels, where there are some."""
        return x, None if y is None else self.standardized(y, y[:0])[0]

    def __call__(self, train_x: Array, train_y: Array, test_x: Array, test_y: Array, seed: int = 0) -> Arrays:
        refuse_masked(f"{type(self).__name__} {self.what}", train_y, test_y)
        train_x, train_y, test_x, test_y = as_parts(self, train_x, train_y, test_x, test_y)
        train_y, test_y = self.standardized(train_y, test_y)
        return train_x, train_y, test_x, test_y

    def restore(self, prediction: Array) -> Array:
        """Return `prediction` ``(n,)`` or ``(n, labels)`` as values of the labels, of the same dtype.

        Raises ValueError where this was made without mean and std.
        """
        if self.mean is None or self.std is None:
            raise ValueError("NormalizeLabels must have 'mean' and 'std' to restore: make it by NormalizeLabels.of(data)")
        values: Array = np.asarray(prediction, np.float64) * self.std + self.mean
        return values.astype(prediction.dtype if prediction.dtype.kind == "f" else np.float32)
