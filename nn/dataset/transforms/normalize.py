"""Samples, or values to predict, brought to mean 0 and standard deviation 1."""

from __future__ import annotations

import math
from typing import Any

import numpy as np
from numpy.typing import ArrayLike, NDArray

from nn import arguments
from nn.arrays import Array, refuse_masked
from nn.dataset.interface import AbsDataset, Arrays
from nn.dataset.transforms.abstract import AbsTransformer

__all__ = ["Normalize", "NormalizeLabels", "check_fits", "normalized", "statistics"]

_PER = ("feature", "channel", "all")
_CHUNK = 1 << 16  # values that are in hand at a time, as float64


class Normalize(AbsTransformer):
    """``(x - mean) / std``, with the statistics of the training part for both parts.

    `per` says over what the statistics are taken: with 'channel' there is one mean per entry of the last axis, that is per
    feature of rows ``(n, features)`` and per colour of images ``(n, height, width, channels)``; with 'feature' one per entry
    of a sample of any shape; with 'all' a single one, which suits grey images ``(n, height, width)``. A standard deviation is
    that of the population (divided by n). Where all training samples are equal it counts as 1, so constants become 0.

    `mean` and `std` may be given in place of the training part's: a number, or (nested) lists that broadcast to a sample.
    Floats keep their dtype, other samples become float32; the arithmetic is in float64 throughout.

    `of` takes the statistics of a data set beforehand, so that `apply` makes the samples of a later `predict` alike.

    Raises ValueError for a `std` that is not positive, statistics that do not fit the samples, and training samples with NaN
    or infinity (unless both are given); TypeError for samples that are no numbers.

    >>> x, y = np.array([[1.0], [3.0]]), np.array([0, 1])
    >>> nn.dataset.transforms.Normalize()(x, y, x + 1, y)[2].tolist()
    [[0.0], [2.0]]
    """

    def __init__(self, mean: ArrayLike | None = None, std: ArrayLike | None = None, per: str = "channel") -> None:
        arguments.one_of(self, "per", per, _PER)
        self._mean = _statistic("mean", mean)
        self._std = _statistic("std", std)
        if self._std is not None and not (self._std > 0).all():
            raise ValueError(f"Normalize 'std' must be positive, got {self._std.tolist()}")
        self.per = per

    def get_config(self) -> dict[str, Any]:
        """Return the constructor's keywords."""
        return {
            "mean": None if self._mean is None else self._mean.tolist(),
            "std": None if self._std is None else self._std.tolist(),
            "per": self.per,
        }

    @classmethod
    def of(cls, data: AbsDataset, per: str = "channel") -> Normalize:
        """Return the transform with the statistics of a data set's training part, in whose place it is: of equal bits."""
        mean, std = statistics("Normalize", "training samples", data.load()[0], cls(per=per).per)
        return cls(mean, std, per)

    def apply(self, x: Array) -> Array:
        """Return samples ``(n, ...)`` normalised by the mean and std that this was made with.

        Raises ValueError where it was made without them; else as a call.
        """
        if self._mean is None or self._std is None:
            raise ValueError("Normalize must have 'mean' and 'std' to apply them: make it by Normalize.of(data)")
        return self(x, x[:0], x[:0], x[:0])[0]

    def __call__(self, train_x: Array, train_y: Array, test_x: Array, test_y: Array, seed: int = 0) -> Arrays:
        """Return both parts normalised; labels stay, nothing is random here."""
        refuse_masked("Normalize samples", train_x, test_x)
        for x in (train_x, test_x):
            if x.dtype.kind not in "biuf":
                raise TypeError(f"Normalize needs samples that are numbers, got dtype {x.dtype}")
        for name, given in (("mean", self._mean), ("std", self._std)):
            if given is not None:
                check_fits("Normalize", "samples", name, given, train_x)
        mean, std = self._mean, self._std
        if mean is None or std is None:
            found_mean, found_std = statistics("Normalize", "training samples", train_x, self.per)
            mean = found_mean if mean is None else mean
            std = found_std if std is None else std
        return normalized(train_x, mean, std), train_y, normalized(test_x, mean, std), test_y


def statistics(owner: str, what: str, x: Array, per: str) -> tuple[NDArray[np.float64], NDArray[np.float64]]:
    """Return mean and standard deviation by `per`, in a shape that fits a sample; 1 where there is no deviation.

    Raises ValueError naming `owner` and `what` it needs to be finite.
    """
    if not x.size:
        raise ValueError(f"{owner} needs {what} to take mean and deviation of, got shape {x.shape}")
    # first per feature, along contiguous rows, then over the features that count as one
    rows, sample = _rows(x), x.shape[1:]
    axes = {"feature": (), "channel": tuple(range(len(sample) - 1)), "all": tuple(range(len(sample)))}[per]
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
        shift = np.broadcast_to(mean, sample).reshape(-1)
        for part in _parts(rows):
            deviation = rows[part] - shift
            deviation *= deviation
            squares += deviation.sum(axis=0)
        std = np.sqrt((squares / len(x)).reshape(sample).mean(axis=axes, keepdims=True))
    highest, lowest = (extreme.reshape(sample) for extreme in (rows.max(axis=0), rows.min(axis=0)))
    constant = highest.max(axis=axes, keepdims=True) == lowest.min(axis=axes, keepdims=True)
    std = np.where(constant | (std == 0), 1.0, std)  # a rounding error of the mean is no deviation
    if not np.isfinite(std).all():
        raise ValueError(f"{owner} needs {what} whose squares are finite, got larger ones")
    return mean, std


def _statistic(name: str, value: ArrayLike | None) -> NDArray[np.float64] | None:
    if value is None:
        return None
    try:
        array = np.array(value, dtype=np.float64)
    except (TypeError, ValueError):
        raise TypeError(f"Normalize '{name}' must be a number or a list of numbers, got {value!r}") from None
    if not array.size or not np.isfinite(array).all():
        raise ValueError(f"Normalize '{name}' must be finite numbers, got {value!r}")
    return array


def check_fits(owner: str, what: str, name: str, given: NDArray[np.float64], x: Array) -> None:
    """Raise ValueError unless a given statistic broadcasts to each of `what`."""
    sample = x.shape[1:]
    try:
        fits = np.broadcast_shapes(given.shape, sample) == sample
    except ValueError:
        fits = False
    if not fits:
        raise ValueError(f"{owner} '{name}' must fit {what} of shape {sample}, got shape {given.shape}")


def _rows(x: Array) -> Array:
    return x.reshape(len(x), math.prod(x.shape[1:]))


def _parts(rows: Array) -> list[slice]:
    """Return slices of rows that hold about `_CHUNK` values each, so that the work on them stays in cache."""
    step = max(_CHUNK // max(rows.shape[1], 1), 1)
    return [slice(start, start + step) for start in range(0, len(rows), step)]


def normalized(x: Array, mean: NDArray[np.float64], std: NDArray[np.float64]) -> Array:
    """Return ``(x - mean) / std``, in the dtype of floats, else in float32."""
    result = np.empty(x.shape, x.dtype if x.dtype.kind == "f" else np.float32)
    rows, out = _rows(x), _rows(result)
    shift, scale = (np.broadcast_to(statistic, x.shape[1:]).reshape(-1) for statistic in (mean, std))
    for part in _parts(rows):
        centred = rows[part] - shift
        centred /= scale
        out[part] = centred
    return result


class NormalizeLabels(AbsTransformer):
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

    def __init__(self, mean: ArrayLike | None = None, std: ArrayLike | None = None) -> None:
        self._statistics = Normalize(mean, std)  # which checks and keeps them

    @classmethod
    def of(cls, data: AbsDataset) -> NormalizeLabels:
        """Return the transform with the statistics of the labels in a data set's training part: of equal bits."""
        return cls(*_of(data.load()[1]))

    def get_config(self) -> dict[str, Any]:
        """Return the constructor's keywords."""
        config = self._statistics.get_config()
        return {"mean": config["mean"], "std": config["std"]}

    def __call__(self, train_x: Array, train_y: Array, test_x: Array, test_y: Array, seed: int = 0) -> Arrays:
        """Return the labels of both parts normalised; nothing is random here."""
        refuse_masked("NormalizeLabels labels", train_y, test_y)
        for labels in (train_y, test_y):
            if labels.dtype.kind not in "biuf":
                raise TypeError(f"NormalizeLabels needs labels that are numbers, got dtype {labels.dtype}")
        mean, std = _of(train_y)
        config = self.get_config()
        if config["mean"] is not None:
            mean = _given("mean", config["mean"], train_y)
        if config["std"] is not None:
            std = _given("std", config["std"], train_y)
        return train_x, normalized(train_y, mean, std), test_x, normalized(test_y, mean, std)

    def restore(self, prediction: Array) -> Array:
        """Return predictions ``(n,)`` or ``(n, labels)`` as values of the labels, of the same dtype.

        Raises ValueError where this was made without mean and std.
        """
        config = self.get_config()
        if config["mean"] is None or config["std"] is None:
            raise ValueError("NormalizeLabels must have 'mean' and 'std' to restore: make it by NormalizeLabels.of(data)")
        values: Array = np.asarray(prediction, np.float64) * config["std"] + config["mean"]
        return values.astype(prediction.dtype if prediction.dtype.kind == "f" else np.float32)


def _of(labels: Array) -> tuple[NDArray[np.float64], NDArray[np.float64]]:
    return statistics("NormalizeLabels", "training labels", labels, "channel")


def _given(name: str, value: ArrayLike, labels: Array) -> NDArray[np.float64]:
    found = np.asarray(value, np.float64)
    check_fits("NormalizeLabels", "labels", name, found, labels)
    return found
