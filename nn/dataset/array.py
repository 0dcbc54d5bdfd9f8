"""A data set made of arrays that are already in memory."""

from __future__ import annotations

import sys
from collections.abc import Sequence
from typing import Any

import numpy as np
from numpy.typing import ArrayLike, NDArray

from nn import arguments
from nn.arrays import Array, refuse_masked
from nn.dataset.interface import AbsDataset, Arrays, check_fraction, split
from nn.dataset.table import CATEGORY, Column, DataFrame, encode, other_rows, plan_columns

__all__ = ["ArrayDataset"]


class ArrayDataset(AbsDataset):
    """One's own samples: ``x`` and ``y`` to train on, ``test_x`` and ``test_y`` to evaluate on.

    Each is an array (or nested lists) of booleans, integers or floats with samples along the first axis. They are not
    copied, so leave them as they are from here on; `load` returns read-only views. Without `test_x` and `test_y` the share
    `test_fraction` of the samples, drawn by `seed` (see `nn.dataset.interface`), is set aside to evaluate on.

    Each may be a DataFrame or a Series of pandas, too; the index does not count. Where all columns of x are numbers of one
    kind, these are taken as they are; else x becomes float32: numbers and truth values stay, categories and texts become one
    number for each that either part has, 1 for that of the row, dates become days since 1970-01-01. `columns` names what x
    has then, and `encode` makes x of other rows. Labels that are texts or categories, also in an array, a list, an Index or a
    Categorical, become class numbers, int64; `classes` lists what they stand for.

    Raises TypeError for another dtype; ValueError for a scalar, an empty part, a label count that differs from the
    sample count, test samples or labels of another shape than those for training, frames of other columns, and a cell of a
    frame that is missing, infinite or of another kind than most of its column, with row (from 0) and column.

    >>> x = np.random.default_rng(0).normal(size=(100, 4))
    >>> data = ArrayDataset(x[:80], x[:80, 0] > 0, x[80:], x[80:, 0] > 0)
    >>> len(ArrayDataset(x, x[:, 0] > 0, test_fraction=0.25).load()[2])
    25
    """

    def __init__(
        self,
        x: ArrayLike | DataFrame,
        y: ArrayLike | DataFrame,
        test_x: ArrayLike | DataFrame | None = None,
        test_y: ArrayLike | DataFrame | None = None,
        test_fraction: float = 0.2,
        seed: int = 0,
    ) -> None:
        if (test_x is None) != (test_y is None):
            raise ValueError("ArrayDataset 'test_x' and 'test_y' must be given together, or neither, to set samples aside")
        self.draws_rows = test_x is None
        self.test_fraction = check_fraction(self, test_fraction)
        self.seed = arguments.integer(self, "seed", seed, minimum=0)
        self.columns: list[str] | None = None
        self.classes: list[str] | None = None
        self._columns: list[Column] | None = None
        parts_x = self._samples(("x", "test_x"), [x] if test_x is None else [x, test_x])
        parts_y = self._labels(("y", "test_y"), [y] if test_y is None else [y, test_y])
        _same("y", len(parts_y[0]), "x", len(parts_x[0]), "length")
        if test_x is None:
            arrays = split(parts_x[0], parts_y[0], self.test_fraction, self.seed)
        else:
            arrays = (parts_x[0], parts_y[0], parts_x[1], parts_y[1])
        train_x, train_y, held_x, held_y = self._arrays = _read_only(arrays)
        _same("test_y", len(held_y), "test_x", len(held_x), "length")
        _same("test_x", held_x.shape[1:], "x", train_x.shape[1:], "sample shape")
        _same("test_y", held_y.shape[1:], "y", train_y.shape[1:], "label shape")

    def load(self, download: bool = True) -> Arrays:
        return self._arrays

    def encode(self, rows: DataFrame) -> Array:
        """Return x ``(n, numbers)`` for other rows, to predict: a DataFrame with the columns of x, or a Series where x is one.

        Raises TypeError where x is no DataFrame or Series; ValueError naming row and column for a text that x does not hold,
        and for a missing or infinite cell.
        """
        if self._columns is None:
            raise TypeError("ArrayDataset encode() is for samples given as a DataFrame; rows of arrays are taken as they are")
        x = self._arrays[0]
        if x.ndim == 1 and _is_table(rows) and rows.ndim == 1:
            rows = rows.to_frame(name=self._columns[0].name)
        frame = other_rows("encode() 'rows'", rows, self._columns)
        numbers = encode("ArrayDataset 'rows'", frame, self._columns)
        _refuse_missing("rows", numbers, self._columns)
        encoded: Array = numbers.astype(np.result_type(x.dtype, np.float32))
        return encoded[:, 0] if x.ndim == 1 else encoded

    def _samples(self, names: Sequence[str], values: Sequence[DataFrame]) -> list[Array]:
        if not any(map(_is_table, values)):
            return [_numbers(name, value) for name, value in zip(names, values, strict=False)]
        frames = _frames(names, values)
        columns = self._columns = plan_columns(_owners(names), frames)
        self.columns = [name for column in columns for name in column.names]
        return [_encoded(*part, columns) for part in zip(names, frames, values, strict=False)]

    def _labels(self, names: Sequence[str], values: Sequence[DataFrame]) -> list[Array]:
        """The labels of both parts, or of one; texts as numbers."""
        if any(map(_is_table, values)) or any(map(_holds_texts, values)):
            values = [_as_series(value) for value in values]
        else:
            return [_numbers(name, value) for name, value in zip(names, values, strict=False)]
        frames = _frames(names, values)
        columns = plan_columns(_owners(names), frames)
        if not any(column.kind == CATEGORY for column in columns):
            return [_encoded(*part, columns) for part in zip(names, frames, values, strict=False)]
        if len(columns) > 1:
            raise ValueError(f"ArrayDataset 'y' must be one column where it holds texts, got {len(columns)}")
        self.classes = list(columns[0].categories)
        found = []
        for name, frame in zip(names, frames, strict=False):
            rows = encode(f"ArrayDataset '{name}'", frame, columns)
            _refuse_missing(name, rows, columns)
            found.append(rows.argmax(axis=1))
        return found


def _is_table(value: object) -> bool:
    """Whether it is a DataFrame or a Series; without pandas there are none."""
    pandas = sys.modules.get("pandas")
    return pandas is not None and isinstance(value, (pandas.DataFrame, pandas.Series))


def _holds_texts(value: object) -> bool:
    """Whether these are texts or categories of one axis: an array, a list, an Index or a Categorical."""
    pandas = sys.modules.get("pandas")
    if pandas is not None and isinstance(value, (pandas.Index, pandas.api.extensions.ExtensionArray)):
        return not isinstance(value, pandas.MultiIndex)
    if isinstance(value, (list, tuple)):
        return any(isinstance(each, str) for each in value)
    if not isinstance(value, np.ndarray) or value.ndim != 1 or np.ma.isMaskedArray(value):
        return False
    return value.dtype.kind in "UT" or (value.dtype.kind == "O" and any(isinstance(each, str) for each in value))


def _as_series(value: Any) -> DataFrame:
    """A Series of what has one axis; else as it is."""
    import pandas  # noqa: PLC0415 - here only, so that `import nn` stays quick

    if _is_table(value):
        return value
    if isinstance(value, (list, tuple)):
        return pandas.Series(list(value), dtype=object if _holds_texts(value) else None)
    if isinstance(value, np.ndarray):
        return pandas.Series(value.astype(object) if value.dtype.kind in "UT" else value) if value.ndim == 1 else value
    return pandas.Series(value) if _holds_texts(value) else value


def _owners(names: Sequence[str]) -> list[str]:
    return [f"ArrayDataset '{name}'" for name in names]


def _frames(names: Sequence[str], values: Sequence[DataFrame]) -> list[DataFrame]:
    """Both parts as DataFrames of the same columns, whose names are texts."""
    frames: list[DataFrame] = []
    for name, value in zip(names, values, strict=False):
        if not _is_table(value):
            raise TypeError(
                f"ArrayDataset '{name}' must be of pandas as '{names[0]}' is, or none of them, got {type(value).__name__}"
            )
        frame = value.to_frame(name=names[0] if value.name is None else value.name) if value.ndim == 1 else value
        frame = frame.set_axis([str(column) for column in frame.columns], axis=1)
        if not frame.columns.is_unique:
            repeated = list(dict.fromkeys(frame.columns[frame.columns.duplicated()]))
            raise ValueError(f"ArrayDataset '{name}' must have different column names, got more than once: {repeated}")
        if not frame.size:
            raise ValueError(f"ArrayDataset '{name}' must hold at least one sample, got shape {value.shape}")
        if frames and value.ndim == 2:
            here, there = set(frame.columns), set(frames[0].columns)
            if here != there:
                raise ValueError(
                    f"ArrayDataset '{name}' must have the columns of '{names[0]}', got {sorted(here - there)} beyond these and "
                    f"no {sorted(there - here)}"
                )
        elif frames:
            frame = frame.set_axis(frames[0].columns[:1], axis=1)
        frames.append(frame if not frames else frame[list(frames[0].columns)])
    return frames


def _encoded(name: str, frame: DataFrame, value: DataFrame, columns: Sequence[Column]) -> Array:
    """Numbers of one kind as they are, others float32: ``(n,)`` for a Series of one number each, else ``(n, numbers)``."""
    array: Array = np.asarray(frame) if all(dtype.kind in "biuf" for dtype in frame.dtypes) else np.empty(0, object)
    if array.dtype.kind not in "biuf":
        array = encode(f"ArrayDataset '{name}'", frame, columns).astype(np.float32)
    _refuse_missing(name, array, columns)
    return array[:, 0] if value.ndim == 1 and array.shape[1] == 1 else array


def _refuse_missing(name: str, array: NDArray[np.generic], columns: Sequence[Column]) -> None:
    if array.dtype.kind != "f":
        return
    bad = np.argwhere(~np.isfinite(array))
    if len(bad):
        row, place = (int(part) for part in bad[0])
        column = [column.name for column in columns for _ in column.names][place]
        value = "missing" if np.isnan(array[row, place]) else f"{array[row, place]:g}"
        raise ValueError(
            f"ArrayDataset '{name}' must hold finite numbers and no missing cells: row {row}, column {column!r} is "
            f"{value}; fillna() or dropna() of pandas help"
        )


def _numbers(name: str, value: ArrayLike) -> Array:
    refuse_masked(f"ArrayDataset '{name}'", value)
    try:
        array = np.asarray(value)
    except ValueError as error:
        raise ValueError(f"ArrayDataset '{name}' must be a rectangular array: {error}") from error
    if array.dtype.kind not in "biuf" or array.dtype.itemsize > 8:
        raise TypeError(
            f"ArrayDataset '{name}' must hold booleans, integers or floats of at most 64 bits, got dtype {array.dtype}"
        )
    if array.ndim == 0 or len(array) == 0:
        raise ValueError(f"ArrayDataset '{name}' must hold at least one sample, got shape {array.shape}")
    return array


def _read_only(arrays: Arrays) -> Arrays:
    train_x, train_y, test_x, test_y = (array.view() for array in arrays)
    for view in (train_x, train_y, test_x, test_y):
        view.flags.writeable = False
    return train_x, train_y, test_x, test_y


def _same(name: str, value: object, other: str, expected: object, what: str) -> None:
    if value != expected:
        raise ValueError(f"ArrayDataset '{name}' must have the {what} of '{other}', {expected}, got {value}")
