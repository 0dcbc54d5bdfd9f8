"""Relative mean square error."""

import math

import numpy as np
from numpy.typing import ArrayLike

from nn.metric.exact_sum import UNIT_BITS, ExactSum
from nn.metric.metric import Metric
from nn.metric.pairs import as_arrays, number_pairs

_SPLITTER = 2.0**27 + 1


class RelativeMeanSquareError(Metric):
    """Square error beside that of a model which always predicts the mean: sum (p - y)^2 / sum (y - mean y)^2.

    0 is perfect, 1 no better than the mean of each output over all samples since `reset`. It is 1 - R^2, the coefficient of
    determination (Witten and Frank, "Data Mining", 2005: relative squared error), with both sums over samples and outputs:
    scikit-learn's `1 - r2_score(..., multioutput="variance_weighted")` where all outputs vary. NaN where no output's label
    varies. Labels have the shape of the predictions, (batch,) and (batch, 1) being the same; `update` raises ValueError
    otherwise.

    >>> metric = nn.metric.RelativeMeanSquareError()
    >>> metric.update([1.0, 3.0], [1.0, 2.0])
    >>> metric.result()
    0.5
    """

    name = "relative_mse"

    def reset(self) -> None:
        """Forget all samples."""
        self._errors, self._squares = ExactSum(), ExactSum()
        self._labels: ExactSum | None = None
        self._samples = 0

    def update(self, label: ArrayLike, prediction: ArrayLike) -> None:
        """Add one batch; raise ValueError also for another number of outputs than before."""
        label, prediction = as_arrays(self, label, prediction)
        blocks = number_pairs(self, label, prediction)
        outputs = label.size // len(label) if label.size else 1
        self._labels_of(outputs).add(label.astype(np.float64).reshape(len(label), outputs))
        with np.errstate(over="ignore", invalid="ignore"):
            for true, predicted in blocks:
                error = np.subtract(predicted, true, out=predicted)
                self._errors.add(np.square(error, out=error).reshape(-1, 1))
                # y^2 in parts that are exact, of 26 digits each (Dekker, 1971): the mean may be large beside the spread
                high = _SPLITTER * true
                high -= high - true
                low = true - high
                for part in (high * high, 2 * high * low, low * low):
                    self._squares.add(part.reshape(-1, 1))
        self._samples += len(prediction)

    def result(self) -> float:
        """Return the ratio of the exact sums, rounded once."""
        if self._labels is None or not math.isfinite(self._squares.not_finite):
            return math.nan
        scale = self._samples << UNIT_BITS
        spread = self._squares.units[0] * scale - sum(units * units for units in self._labels.units)
        if not spread:
            return math.nan
        if not math.isfinite(self._errors.not_finite):
            return self._errors.not_finite
        try:
            return self._errors.units[0] * scale / spread
        except OverflowError:
            return math.inf

    def merge(self, other: Metric) -> None:
        """Add the sums of the other, which must have seen the same number of outputs, if any."""
        other = self.mergeable(other)
        if other._labels is not None:
            self._labels_of(len(other._labels.units)).merge(other._labels)
        self._errors.merge(other._errors)
        self._squares.merge(other._squares)
        self._samples += other._samples

    def _labels_of(self, outputs: int) -> ExactSum:
        if self._labels is None:
            self._labels = ExactSum(outputs)
        elif len(self._labels.units) != outputs:
            raise ValueError(f"RelativeMeanSquareError has seen {len(self._labels.units)} outputs so far, got {outputs}")
        return self._labels
