"""Windows over the rows of a time series."""

from __future__ import annotations

from typing import Any, ClassVar

import numpy as np
from numpy.lib.stride_tricks import sliding_window_view

from nn import arguments
from nn.arrays import Array, refuse_masked
from nn.dataset.interface import Arrays
from nn.dataset.transforms.abstract import AbsTransformer, as_parts
from nn.dataset.transforms.order import check_pairs

__all__ = ["Windows"]


class Windows(AbsTransformer, configured=True):
    """Windows of consecutive rows of a time series, each with the label that lies `horizon` rows behind its last row.

    Samples ``(n, ...)``, such as rows ``(n, features)``, become ``(windows, steps, ...)``, labels one for each window.
    Rows must stand in the order of time, and the test part must be the last one: ``split="last"`` of a data set, or parts of
    a program's own.
    No window looks ahead: those to train on, with their labels, lie in the training part; those to evaluate on have their
    label in the test part, and begin with the last rows of training, which are past by then. A job refuses data sets with
    another split, and `Shuffle` before it.

    At prediction n rows give ``n - steps + 1`` windows, so the last `steps` rows give one.

    Args:
        steps: the rows of a window.
        horizon: how many rows behind the last row of a window its label stands, 1 for the next row.
        past: whether the labels of the rows of a window are features, too, behind the others, as a series has that is
            predicted from itself. Labels must then be numbers.
        stride: how many rows later the next window begins, of those to train and to evaluate on; a prediction has all.
        rate: how many rows lie between one row of a window and the next, 1 for none left out.

    Raises:
        TypeError: for training and test parts of different kinds, such as dates and numbers, and with `past` for samples or
            labels that are no numbers.
        ValueError: for fewer rows than a window and its label take, with `past` for samples that are no rows, for another
            number of labels than of samples, and for training and test parts of different shapes.

    >>> x, y = np.arange(6.0)[:, None], np.arange(6.0) * 10
    >>> train_x, train_y, test_x, test_y = nn.dataset.transforms.Windows(3)(x[:5], y[:5], x[5:], y[5:])
    >>> train_x[:, :, 0].tolist(), train_y.tolist(), test_x[:, :, 0].tolist(), test_y.tolist()
    ([[0.0, 1.0, 2.0], [1.0, 2.0, 3.0]], [30.0, 40.0], [[2.0, 3.0, 4.0]], [50.0])
    """

    takes_parts: ClassVar[bool] = False

    in_order = True

    def __init__(self, steps: int, horizon: int = 1, past: bool = False, stride: int = 1, rate: int = 1) -> None:
        self.window = arguments.integer(self, "steps", steps, minimum=1)
        self.horizon = arguments.integer(self, "horizon", horizon, minimum=1)
        self.past = bool(arguments.instance(self, "past", past, bool))
        self.stride = arguments.integer(self, "stride", stride, minimum=1)
        self.rate = arguments.integer(self, "rate", rate, minimum=1)

    def argument(self, name: str) -> Any:
        """Return one argument as `get_config` gives it; `steps` of a transform are something else."""
        return self.window if name == "steps" else super().argument(name)

    @property
    def _span(self) -> int:
        """Number of rows from the first to the last one of a window."""
        return (self.window - 1) * self.rate + 1

    @property
    def needs_labels(self) -> bool:
        """Whether labels of the rows are features."""
        return self.past

    def fitted(self, train_x: Array, train_y: Array) -> Windows:
        """Return this transform, which has no statistics."""
        return self

    def at_prediction(self, x: Array, y: Array | None) -> tuple[Array, Array | None]:
        """Return the windows of rows; raises ValueError for fewer rows than a window spans."""
        if len(x) < self._span:
            apart = "" if self.rate == 1 else f" of every {self.rate} rows"
            raise ValueError(f"Windows 'steps' must be at most the number of rows, {len(x)}, got {self.window}{apart}")
        return self._windows(self._with_past(x, y)), None

    def at_evaluation(self, x: Array, y: Array) -> tuple[Array, Array]:
        """Return the windows of rows that have a label, and these.

        Args:
            x: the rows ``(n, ...)``.
            y: their labels.

        Raises ValueError for fewer rows than a window takes.
        """
        reach = self._span + self.horizon
        if len(x) < reach:
            raise ValueError(f"Windows needs {reach} rows for a window and its label, got {len(x)}")
        return self._labelled(x, y)

    def __call__(self, train_x: Array, train_y: Array, test_x: Array, test_y: Array, seed: int = 0) -> Arrays:
        """Return windows and labels of both parts; nothing is random here."""
        refuse_masked("Windows samples and labels", train_x, train_y, test_x, test_y)
        train_x, train_y, test_x, test_y = as_parts(self, train_x, train_y, test_x, test_y)
        for x, y in ((train_x, train_y), (test_x, test_y)):
            if x.ndim != 2 and self.past:
                raise ValueError(f"Windows 'past' needs rows of features, (rows, features), got shape {x.shape}")
            check_pairs(self, x, y)
        # The first windows to evaluate on begin in the training part.
        for what, first, second in (("samples", train_x, test_x), ("labels", train_y, test_y)):
            if not _are_alike(first.dtype, second.dtype):
                raise TypeError(f"Windows needs training and test {what} of one kind, got {first.dtype} and {second.dtype}")
            if first.shape[1:] != second.shape[1:]:
                raise ValueError(
                    f"Windows needs training and test {what} of one shape each, got {first.shape[1:]} and {second.shape[1:]}"
                )
        reach = self._span + self.horizon
        if len(train_x) < reach:
            apart = "" if self.rate == 1 else f", rate={self.rate}"
            raise ValueError(
                f"Windows needs training rows for a window and its label, {reach} for steps={self.window}{apart} and "
                f"horizon={self.horizon}, got {len(train_x)}"
            )
        # Rows of training that the first window to evaluate on reaches back.
        before = reach - 1
        test_x, seen_y = np.concatenate([train_x[-before:], test_x]), np.concatenate([train_y[-before:], test_y])
        return *self._labelled(train_x, train_y), *self._labelled(test_x, seen_y)

    def _labelled(self, x: Array, y: Array) -> tuple[Array, Array]:
        """Return every window of rows that has a label already, from the first one on by `stride`, and these labels."""
        windows = self._windows(self._with_past(x, y), self.stride, len(x) - self.horizon)
        return windows, y[self._span + self.horizon - 1 :: self.stride]

    def _with_past(self, x: Array, y: Array | None) -> Array:
        if not self.past or y is None:
            return x
        for what, array in (("samples", x), ("labels", y)):
            if array.dtype.kind not in "biuf":
                raise TypeError(f"Windows 'past' needs {what} that are numbers, got dtype {array.dtype}")
        # At least float32, so that whole numbers of both do not stay integers.
        return np.concatenate([x, y.reshape(len(y), -1).astype(np.result_type(x.dtype, y.dtype, np.float32))], axis=1)

    def _windows(self, x: Array, stride: int = 1, rows: int | None = None) -> Array:
        """Return the windows of the first `rows`, each `stride` rows behind the one before."""
        view = sliding_window_view(x[:rows], self._span, axis=0)[::stride, ..., :: self.rate]
        # A copy, since windows overlap in the view.
        windows: Array = np.ascontiguousarray(np.moveaxis(view, -1, 1))
        return windows


def _are_alike(first: np.dtype[Any], second: np.dtype[Any]) -> bool:
    """Tell whether arrays of two types make one array in which each element keeps its value."""
    kinds = {first.kind, second.kind}
    # Fields of a structure have names, which both must share. Objects hold anything else.
    return first == second or kinds <= set("biufc") or (first.kind == second.kind != "V") or ("O" in kinds and "V" not in kinds)
