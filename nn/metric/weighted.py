"""Metric of samples that weigh differently."""

from __future__ import annotations

import math

import numpy as np
from numpy.typing import ArrayLike

from nn.arguments import part
from nn.arrays import as_array
from nn.metric.metric import Metric
from nn.metric.regression import ExactSum


class Weighted(Metric, configured=True):
    """A metric in which each sample counts as often as its weight says: `sample_weight` and `class_weight` of the model.

    Models make it of the words in `compile(weighted_metrics=[...])`. It takes metrics that are means over samples or follow
    from counts of them: accuracies, precision and its kin, mean errors, `Mean`. The sums are exact, so that the result has the
    same bits however the samples were cut into batches. Where nothing weighs, as on the workers of a job, it is that of the
    metric. The key is `weighted_<name>`.

    Args:
        metric: the metric, or its word.
        name: the key in the results.

    Raises TypeError for a metric that knows no weights.

    >>> metric = nn.metric.Weighted("mse")
    >>> metric.update([1.0, 2.0], [1.0, 4.0], [3.0, 1.0])
    >>> metric.result()
    1.0
    """

    def __init__(self, metric: Metric | str, name: str | None = None) -> None:
        self._word = metric if isinstance(metric, str) else ""
        self.metric: Metric = part("Weighted", "metric", metric, Metric, "nn.metric")
        if type(self.metric)._terms is Metric._terms:
            raise TypeError(
                f"Weighted 'metric' must be one of accuracies, decisions or mean errors, got {type(self.metric).__name__}, "
                "which knows no weights"
            )
        self.name = f"weighted_{self.metric.name}"
        super().__init__(name)

    def reset(self) -> None:
        self.metric.reset()
        self._sums: list[ExactSum] = []
        self._total = ExactSum()
        self._seen = False

    def update(self, label: ArrayLike, prediction: ArrayLike, weight: ArrayLike | None = None) -> None:
        """Take in one batch.

        Args:
            label: labels as the metric takes them.
            prediction: predictions of the model (batch, ...).
            weight: weights of the samples (batch,), or of their positions (batch, ...); None: all 1.

        Raises:
            ValueError: for weights of another shape, and unless all are finite numbers of at least 0.
        """
        if np.shape(prediction)[:1] == (0,):
            # The metric looks at the shapes.
            self.metric.update(label, prediction)
            return
        terms = self.metric._terms(label, prediction)
        count = len(terms[0])
        given = np.ones(count) if weight is None else as_array("Weighted 'weight'", weight)
        if given.shape[:1] != (count,) or given.dtype.kind not in "iufb" or not given.size or terms[0].size % given.size:
            raise ValueError(
                f"Weighted 'weight' must hold one number for each of the {count} samples, got {given.dtype} of shape "
                f"{given.shape}"
            )
        weights = given.astype(np.float64).reshape(-1)
        # Written so that NaN counts as wrong.
        wrong = weights[~((weights >= 0) & (weights < np.inf))]
        if wrong.size:
            raise ValueError(f"Weighted 'weight' must hold finite numbers of at least 0, got {wrong[0]:g}")
        # One row for each weight: that of a sample goes to all its positions, that of a position to its outputs.
        rows = (weights.size, -1)
        each = np.broadcast_to(weights[:, None], terms[0].reshape(rows).shape)
        self._sums = self._sums or [ExactSum() for _ in terms]
        for found, term in zip(self._sums, terms, strict=True):
            found.add((term.reshape(rows) * each).reshape(-1, 1))
        # A copy, because `add` overwrites its terms and these are a view that cannot be written.
        self._total.add(each.reshape(-1, 1).copy())
        self._seen = True

    def _weigh(self, label: ArrayLike, prediction: ArrayLike, weight: ArrayLike | None) -> None:
        self.update(label, prediction, weight)

    def _inner(self) -> Metric:
        return self.metric

    def result(self) -> float:
        total = self._total.mean(1)
        if not self._seen or total == 0:
            return math.nan
        self.metric._settle([found.mean(1) for found in self._sums], total)
        return self.metric.result()

    def merge(self, other: Metric) -> None:
        if type(other) is not type(self):
            # Raises: only the metrics within may differ in their arguments' objects.
            other = self.mergeable(other)
        # Metrics are objects, of which the arguments are compared.
        self.metric.mergeable(other.metric)
        if other._seen:
            self._sums = self._sums or [ExactSum() for _ in other._sums]
            for mine, its in zip(self._sums, other._sums, strict=True):
                mine.merge(its)
            self._total.merge(other._total)
            self._seen = True
