"""Values to predict brought to mean 0 and standard deviation 1, and predictions brought back."""

from __future__ import annotations

from typing import Any

import numpy as np
from numpy.typing import ArrayLike, NDArray

from nn.arrays import Array, refuse_masked
from nn.dataset.checksum import Arrays
from nn.dataset.interface import AbsDataset
from nn.dataset.transforms.abstract import AbsTransformer
from nn.dataset.transforms.normalize import Normalize, check_fits, normalized, statistics

__all__ = ["NormalizeLabels"]


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
