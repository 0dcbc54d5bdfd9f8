"""Metrics of numbers to predict, added up without rounding."""

from __future__ import annotations

import math
from abc import abstractmethod
from collections.abc import Sequence

import numpy as np
from numpy.typing import ArrayLike

from nn.arrays import Array
from nn.metric.metric import Metric, as_arrays, check_range, number_pairs


class MeanError(Metric):
    """The mean of an error over all elements, without rounding."""

    def reset(self) -> None:
        self._sum = ExactSum()
        self._elements = 0

    def _arrays(self, label: ArrayLike, prediction: ArrayLike) -> tuple[Array, Array]:
        return as_arrays(self, label, prediction)

    def update(self, label: ArrayLike, prediction: ArrayLike) -> None:
        label, prediction = self._arrays(label, prediction)
        # An overflow becomes infinity, which the sum tells.
        with np.errstate(over="ignore", invalid="ignore"):
            for true, predicted in number_pairs(self, label, prediction):
                self._sum.add(self.errors(true, predicted).reshape(-1, 1))
        # After the checks in `number_pairs`: a batch that is refused counts nowhere.
        self._elements += prediction.size

    @abstractmethod
    def errors(self, label: Array, prediction: Array) -> Array:
        """Return the errors of some rows.

        Args:
            label, prediction: rows of float64; their memory may be used.
        """

    def _terms(self, label: ArrayLike, prediction: ArrayLike) -> tuple[Array, ...]:
        label, prediction = self._arrays(label, prediction)
        with np.errstate(over="ignore", invalid="ignore"):
            found = [self.errors(true, predicted) for true, predicted in number_pairs(self, label, prediction)]
        return (np.concatenate(found or [np.empty(0)]).reshape(len(prediction), -1),)

    def _settle(self, sums: Sequence[float], total: float) -> None:
        # One element with the weighted mean, so that `result` of a subclass, such as a root, follows as without
        # weights.
        self._sum, self._elements = ExactSum(), 1
        self._sum.add(np.array([[sums[0] / total]]))

    def result(self) -> float:
        return self._sum.mean(self._elements) if self._elements else math.nan

    def merge(self, other: Metric) -> None:
        other = self.mergeable(other)
        self._sum.merge(other._sum)
        self._elements += other._elements


class ElementError(MeanError):
    """A mean error that takes class numbers beside rows of numbers as one-hot rows."""

    def _arrays(self, label: ArrayLike, prediction: ArrayLike) -> tuple[Array, Array]:
        label, prediction = as_arrays(self, label, prediction)
        if label.ndim == 1 and prediction.ndim == 2 and prediction.shape[1] > 1 and label.dtype.kind in "iu":
            classes = check_range(self, label, prediction.shape[1])
            # Masks, which become 0 and 1 in the blocks.
            label = np.equal(classes.reshape(-1, 1), np.arange(prediction.shape[1]))
        return label, prediction


class MeanSquareError(ElementError):
    """Mean of (p - y)^2 over all elements, each computed in double precision, their sum exact.

    Labels have the shape of the predictions, (batch,) and (batch, 1) being the same; class numbers (batch,) beside predictions
    (batch, classes) count as one-hot rows. `update` raises ValueError for other shapes and for labels that are no class.

    >>> metric = nn.metric.MeanSquareError()
    >>> metric.update([1.0, 2.0], [1.0, 4.0])
    >>> metric.result()
    2.0
    """

    name = "mse"

    def errors(self, label: Array, prediction: Array) -> Array:
        return np.square(np.subtract(prediction, label, out=prediction), out=prediction)


class RootMeanSquareError(MeanSquareError):
    """Root of the mean of (p - y)^2 over all elements, in the unit of the labels; labels as in `MeanSquareError`.

    >>> metric = nn.metric.RootMeanSquareError()
    >>> metric.update([1.0, 2.0], [1.0, 4.0])
    >>> round(metric.result(), 4)
    1.4142
    """

    name = "rmse"

    def result(self) -> float:
        return math.sqrt(super().result())


class Mean(MeanError):
    """Mean of numbers, without rounding: of values that a loop of one's own gives, or of the predictions of a model.

    `update(values)` takes numbers or arrays of them. As a metric of a model it is the mean of all elements of its outputs, such
    as distances; labels have their shape and are not looked at.

    >>> metric = nn.metric.Mean()
    >>> metric.update([1.0, 2.0])
    >>> metric.update(6.0)
    >>> metric.result()
    3.0
    """

    name = "mean"

    def update(self, label: ArrayLike, prediction: ArrayLike | None = None) -> None:
        """Add values.

        Args:
            label: the values, where nothing else is given.
            prediction: the values, where a model calls with labels as well.
        """
        if prediction is None:
            label = prediction = np.atleast_1d(as_arrays(self, label, label)[0])
        super().update(label, prediction)

    def errors(self, label: Array, prediction: Array) -> Array:
        return prediction


class MeanAbsoluteError(ElementError):
    """Mean of |p - y| over all elements, each computed in double precision, their sum exact; labels as `MeanSquareError` takes.

    >>> metric = nn.metric.MeanAbsoluteError()
    >>> metric.update([1.0, 2.0], [1.0, 4.0])
    >>> metric.result()
    1.0
    """

    name = "mae"

    def errors(self, label: Array, prediction: Array) -> Array:
        return np.abs(np.subtract(prediction, label, out=prediction), out=prediction)


_LEAST = float(np.finfo(np.float64).eps)


class RelativeError(MeanError):
    """Mean of |p - y| / max(|y|, 2.2e-16) over all elements: 0.1 is a mistake of a tenth of the label.

    The bound stands in for a label of 0, as in scikit-learn's `mean_absolute_percentage_error`: a prediction of 0 is right
    there, and any other mistake shows as a huge number. Labels have the shape of the predictions, (batch,) and (batch, 1)
    being the same; `update` raises ValueError otherwise.

    >>> metric = nn.metric.RelativeError()
    >>> metric.update([1.0, 2.0], [1.0, 4.0])
    >>> metric.result()
    0.5
    """

    name = "relative_error"

    def errors(self, label: Array, prediction: Array) -> Array:
        np.abs(np.subtract(prediction, label, out=prediction), out=prediction)
        # In place: blocks are copies.
        size = np.abs(label, out=label)
        np.divide(prediction, np.maximum(size, _LEAST, out=size), out=prediction)
        return prediction


# Dekker's constant: a product with it splits the 53 digits of a double into two halves.
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
        self._errors, self._squares = ExactSum(), ExactSum()
        self._labels: ExactSum | None = None
        self._samples = 0

    def update(self, label: ArrayLike, prediction: ArrayLike) -> None:
        """Add one batch; raise ValueError also for another number of outputs than before."""
        label, prediction = as_arrays(self, label, prediction)
        blocks = number_pairs(self, label, prediction)
        # By the shape: a batch may be empty.
        outputs = math.prod(label.shape[1:])
        # A copy, because `add` overwrites its terms.
        self._labels_of(outputs).add(label.astype(np.float64).reshape(len(label), outputs))
        with np.errstate(over="ignore", invalid="ignore"):
            for true, predicted in blocks:
                # In the memory of the predictions of the block, a copy.
                error = np.subtract(predicted, true, out=predicted)
                self._errors.add(np.square(error, out=error).reshape(-1, 1))
                # y^2 in parts that are exact, of 26 digits each (Dekker, 1971): the mean may be large beside the spread
                high = _SPLITTER * true
                # Not `high = true` by algebra: the rounding of both steps cuts the lower digits off.
                high -= high - true
                low = true - high
                for part in (high * high, 2 * high * low, low * low):
                    self._squares.add(part.reshape(-1, 1))
        self._samples += len(prediction)

    def result(self) -> float:
        """Return the ratio of the exact sums, rounded once."""
        if self._labels is None or not math.isfinite(self._squares.not_finite):
            return math.nan
        # n and the unit of the squares, so that both terms are whole numbers of one unit.
        scale = self._samples << UNIT_BITS
        spread = self._squares.units[0] * scale - sum(units * units for units in self._labels.units)
        if not spread:
            return math.nan
        if not math.isfinite(self._errors.not_finite):
            return self._errors.not_finite
        try:
            return self._errors.units[0] * scale / spread
        # Python divides integers of any size, but the result may be beyond a float.
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
            raise ValueError(f"{type(self).__name__} has seen {len(self._labels.units)} outputs so far, got {outputs}")
        return self._labels


class R2(RelativeMeanSquareError):
    """Share of the spread of the labels that the predictions explain, 1 - `RelativeMeanSquareError`: the coefficient of
    determination (Draper and Smith, "Applied Regression Analysis", 1998).

    1 is perfect, 0 no better than the mean of the labels. With several outputs the sums go over all of them, scikit-learn's
    `r2_score(..., multioutput="variance_weighted")`; Keras takes the mean over the outputs. Labels as there.

    >>> metric = nn.metric.R2()
    >>> metric.update([1.0, 3.0, 5.0], [1.0, 2.0, 5.0])
    >>> metric.result()
    0.875
    """

    name = "r2"

    def result(self) -> float:
        return 1 - super().result()


UNIT_BITS = 1074
"""Every double is a whole multiple of 2^-UNIT_BITS, the unit in which sums are held."""


class ExactSum:
    """Sums of double precision numbers without any rounding, so that batches of any sizes and in any order give the same.

    The terms of a batch are cut at a power of two that leaves the leading parts so few digits that adding them rounds
    nothing; the parts cut off are treated in the same way until nothing is left (Rump, Ogita and Oishi, "Accurate
    Floating-Point Summation Part I: Faithful Rounding", 2008). The few exact numbers per batch are added up as integers,
    `units`, one for each column. `not_finite` is 0, or the infinity or NaN that some term was.
    """

    def __init__(self, columns: int = 1) -> None:
        self.units = [0] * columns
        self.not_finite = 0.0

    def add(self, terms: Array) -> None:
        """Add float64 terms (n, columns), which are overwritten. Fastest in blocks that stay in the nearest cache."""
        largest = _largest(terms)
        if not math.isfinite(largest):
            self.not_finite += sum(terms[~np.isfinite(terms)].tolist())
            return
        # Room for the sum of all leading parts: log2 of their number, and one bit for the sign.
        growth = (len(terms) - 1).bit_length() + 1
        leading = np.empty_like(terms)
        while largest:
            # `frexp` gives the power of two above the largest term.
            exponent = math.frexp(largest)[1] + growth
            # The cut would be infinite: terms as large as that are added one by one.
            if exponent >= 1023:
                for row in terms.tolist():
                    self._collect(row)
                return
            # below the smallest normal number all doubles have the same spacing, and nothing is cut off
            cut = math.ldexp(1.0, max(exponent, -1022))
            # The sum rounds to the digits of the cut; taking it away again leaves the leading digits of each term.
            np.add(terms, cut, out=leading)
            np.subtract(leading, cut, out=leading)
            self._collect(leading.sum(axis=0).tolist())
            largest = _largest(np.subtract(terms, leading, out=terms))

    def merge(self, other: ExactSum) -> None:
        """Add all terms of the other."""
        self.units = [mine + its for mine, its in zip(self.units, other.units, strict=True)]
        self.not_finite += other.not_finite

    def mean(self, count: int) -> float:
        """Return the sum of the first column / count, rounded once; infinite or NaN where a term was."""
        return self.units[0] / (count << UNIT_BITS) if math.isfinite(self.not_finite) else self.not_finite

    def _collect(self, numbers: list[float]) -> None:
        for column, number in enumerate(numbers):
            if number:
                numerator, denominator = number.as_integer_ratio()
                # A double is numerator / 2^k: in units of 2^-UNIT_BITS it is an integer.
                self.units[column] += numerator << (UNIT_BITS + 1 - denominator.bit_length())


def _largest(terms: Array) -> float:
    """Return the largest absolute value, 0 without any, NaN or infinity where there is one."""
    if not terms.size:
        return 0.0
    # NumPy finds the place of an extreme, or of the first NaN, faster than its value
    high, low = terms.item(terms.argmax()), terms.item(terms.argmin())
    return float(max(high, -low))
