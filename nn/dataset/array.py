"""A data set made of arrays that are already in memory."""

from __future__ import annotations

import sys
from collections.abc import Mapping, Sequence
from dataclasses import replace
from typing import Any, get_args

import numpy as np
from numpy.typing import ArrayLike, NDArray

from nn import arguments
from nn.arrays import Array, MaybeNone, refuse_masked
from nn.dataset.interface import Arrays, DrawingDataset, SplitKind, check_fraction, check_split, draw, joined
from nn.dataset.plan.cells import Cells, text_of
from nn.dataset.plan.decide import Wishes
from nn.dataset.plan.kinds import CellError, Column, LeftOut, UnknownTexts
from nn.dataset.plan.making import PartError, completed, label_of_frame, left_out, opened, plan_columns
from nn.dataset.plan.plan import Plan, Policy
from nn.dataset.plan.rows import DataFrame, cells_of
from nn.dataset.plan.wishes import forms_of, given_plan, names_of

__all__ = ["ArrayDataset"]


class ArrayDataset(DrawingDataset):
    """Samples of a program: ``x`` and ``y`` to train on, ``test_x`` and ``test_y`` to evaluate on.

    Each is an array (or nested lists) of booleans, integers or floats with samples along the first axis. They are not
    copied, so leave them as they are from here on; `load` returns read-only views. Without `test_x` and `test_y` the share
    `test_fraction` of the samples is set aside to evaluate on.

    Each may be a DataFrame or a Series of pandas, too; the index does not count. Where all columns of x are numbers of one
    kind, these are taken as they are; else the `plan` makes numbers of them as that of `CSVDataset` does, by all cells of both
    parts, and x becomes float32, or float64 where float32 would make equal numbers of different ones. A column without a name
    (``Unnamed: 0``), as of row numbers, is left out. `columns` names the numbers of x then, and `encode` makes x of other rows.
    Labels that are texts or categories, also in an array, a list, an Index or a Categorical, become class numbers, int64;
    `classes` lists the texts by class number.

    Args:
        x: samples to train on ``(n, ...)``.
        y: their labels ``(n, ...)``.
        test_x: samples to evaluate on, together with `test_y`.
        test_y: their labels.
        test_fraction: the share that is set aside without them.
        seed: of the draw of that share.
        split: which samples are set aside: "random", "stratified" (each class its share), "last" (of a series in time).
        missing: of a frame 'error' refuses a missing cell, 'nan' makes a feature NaN, 'fill' a number or a date the median of
            the training rows and a text none of the categories.
        categories: columns to take as texts, even if all cells look like numbers or dates.
        dates: columns of dates, a dict of their forms or a list of names for ISO 8601.
        numbers: columns to take as numbers; a cell that is none is a missing cell.
        index: a column that is left out; None keeps also one without a name.
        unknown: treatment, in `encode` and a prediction, of a category that the plan does not have: "error" or "none".
        plan: a plan to go by, a file of one, or its content; a column that `Plan.change` has opened is completed.

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
        *,
        split: SplitKind = "random",
        missing: Policy | None = None,
        categories: Sequence[str] | None = None,
        dates: Mapping[str, str] | Sequence[str] | None = None,
        numbers: Sequence[str] | None = None,
        index: str | None = "auto",
        unknown: UnknownTexts | None = None,
        plan: Plan | Mapping[str, Any] | str | None = None,
    ) -> None:
        if (test_x is None) != (test_y is None):
            raise ValueError("ArrayDataset 'test_x' and 'test_y' must be given together, or neither, to set samples aside")
        self.test_fraction = check_fraction(self, test_fraction)
        self.seed = arguments.integer(self, "seed", seed, minimum=0)
        self.split = check_split(self, split)
        self._given = given_plan(self, plan)
        self._index = index
        self._wishes = Wishes(
            names_of(self, "categories", categories, empty=True),
            forms_of(self, dates),
            names_of(self, "numbers", numbers, empty=True),
            self._given.spelling,
            "frame",
        )
        if plan is not None and any(self._wishes[:3]):
            raise ValueError("ArrayDataset 'plan' cannot be given beside 'categories', 'dates' or 'numbers'")
        if missing is not None and arguments.one_of(self, "missing", missing, get_args(Policy)) == "drop":
            raise ValueError(
                "ArrayDataset 'missing' must be one of error, nan, fill, got 'drop'; dropna() of pandas leaves rows out"
            )
        if unknown is not None:
            arguments.one_of(self, "unknown", unknown, get_args(UnknownTexts))
        self._plan = replace(self._given, missing=missing or self._given.missing, unknown=unknown or self._given.unknown)
        self._series = False
        for name, value, frame in (("y", y, x), ("test_y", test_y, test_x)):
            if isinstance(value, str):
                column = ", such as x.drop(columns='name') and x['name'] of a DataFrame" if _is_table(frame) else ""
                raise TypeError(f"ArrayDataset {name!r} must hold the labels of the samples{column}, got {value!r:.80}")
        x, y, test_x, test_y = (
            _by_name(name, value) for name, value in zip(("x", "y", "test_x", "test_y"), (x, y, test_x, test_y), strict=True)
        )
        values_x: list[Any] = [x] if test_x is None else [x, test_x]
        if not any(map(_is_table, values_x)):
            # Arrays are checked before labels are read, so that errors come in the order of the arguments.
            values_x = [_numbers(name, value) for name, value in zip(("x", "test_x"), values_x, strict=False)]
        parts_y = self._labels(("y", "test_y"), [y] if test_y is None else [y, test_y])
        train: Any = slice(None)
        test: Any = slice(None)
        if test_x is None:
            _same("y", len(parts_y[0]), "x", len(values_x[0]), "length")
            # By the labels, which a stratified draw looks at.
            train, test = self._drawn = draw(parts_y[0], self.test_fraction, self.seed, self.split)
        parts_x = self._samples(("x", "test_x"), values_x, train)
        _same("y", len(parts_y[0]), "x", len(parts_x[0]), "length")
        # Without test samples both parts are rows of the same arrays.
        last = len(parts_x) - 1
        self._arrays = _read_only((parts_x[0][train], parts_y[0][train], parts_x[last][test], parts_y[last][test]))
        train_x, train_y, held_x, held_y = self._arrays
        _same("test_y", len(held_y), "test_x", len(held_x), "length")
        _same("test_x", held_x.shape[1:], "x", train_x.shape[1:], "sample shape")
        _same("test_y", held_y.shape[1:], "y", train_y.shape[1:], "label shape")

    def load(self, download: bool = True) -> Arrays:
        return self._arrays

    @property
    def plan(self) -> Plan:
        """Plan of the columns of a frame, the numbers that each becomes; of arrays it has no columns."""
        return self._plan

    @property
    def columns(self) -> list[str] | MaybeNone:
        """The names of the numbers in x; None of arrays."""
        return self._plan.names if self._plan.columns else None

    @property
    def classes(self) -> list[str] | MaybeNone:
        """The texts that the class numbers stand for, in their order; None where the labels are numbers."""
        return self._plan.classes

    def encode(self, rows: Any, unknown: UnknownTexts | None = None) -> Array:
        """Return x for other rows, to predict.

        Args:
            rows: rows as `Plan.encode` takes them, or a Series where x is one.
            unknown: as of `Plan.encode`.

        Raises TypeError where x is no DataFrame or Series; else as `Plan.encode`.
        """
        if not self._plan.columns:
            raise TypeError("ArrayDataset encode() is for samples given as a DataFrame; rows of arrays are taken as they are")
        if self._series and _is_table(rows) and rows.ndim == 1:
            rows = rows.to_frame(name=self._plan.features[0].name)
        encoded = self._plan.encode(rows, unknown)
        return encoded[:, 0] if self._series else encoded

    def _samples(self, names: Sequence[str], values: Sequence[DataFrame], train: Any) -> list[Array]:
        if not any(map(_is_table, values)):
            return list(values)
        frames = _frames(names, values)
        self._series = values[0].ndim == 1
        plan, parts = self._columns(names, frames), _parts(names, frames)
        try:
            plan = opened(plan, parts)
            kinds = {dtype for frame in frames for dtype in frame[[column.name for column in plan.features]].dtypes}
            # Types of pandas' own may hold gaps beside numbers.
            if all(getattr(dtype, "kind", "") in "biuf" and isinstance(dtype, np.dtype) for dtype in kinds):
                return self._as_they_are(names, frames, plan, parts, train)
            raw = self._raw(names, plan, parts)
            self._plan = plan = self._completed(plan, parts, raw, train)
        except PartError as error:
            came = error.wrong
            raise ValueError(f"ArrayDataset '{names[error.part]}': row {error.row}, {came}") from None
        except ValueError as error:
            raise ValueError(f"ArrayDataset: {error}" if str(error).startswith("column ") else str(error)) from None
        found = []
        for name, part in zip(names, raw, strict=False):
            _refuse_missing(name, part, plan)
            x = part.astype(plan.dtype, copy=False)
            found.append(x[:, 0] if self._series and x.shape[1] == 1 else x)
        self._series = self._series and found[0].ndim == 1
        return found

    def _as_they_are(
        self, names: Sequence[str], frames: Sequence[DataFrame], plan: Plan, parts: Sequence[Mapping[str, Cells]], train: Any
    ) -> list[Array]:
        """Numbers of one kind, which no conversion may change."""
        features = [column.name for column in plan.features]
        raw = self._raw(names, plan, parts)
        plan = self._completed(plan, parts, raw, train)
        found = []
        for name, frame, numbers in zip(names, frames, raw, strict=False):
            _refuse_missing(name, numbers, plan)
            array: Array = np.asarray(frame[features])
            # Filled gaps, where the plan fills them; without gaps the array is the caller's.
            if array.dtype.kind == "f" and np.isnan(array).any():
                array = numbers.astype(array.dtype)
            found.append(array[:, 0] if self._series else array)
        self._plan = replace(plan, dtype=found[0].dtype.name)
        return found

    def _completed(self, plan: Plan, parts: Sequence[Mapping[str, Cells]], raw: Sequence[Any], train: Any) -> Plan:
        """Return the plan with ranges and medians, and replace NaN of `raw` in place as it says."""
        if not self._given.columns or self._given.is_open:
            plan = completed(plan, parts, raw, train)
        if plan.missing == "fill":
            for part in raw:
                plan.close("ArrayDataset", part)
        return plan

    def _raw(self, names: Sequence[str], plan: Plan, parts: Sequence[Mapping[str, Cells]]) -> list[Any]:
        found = []
        for part, cells in enumerate(parts):
            try:
                found.append(plan.raw(f"ArrayDataset '{names[part]}'", [cells[column.name] for column in plan.features]))
            except CellError as error:
                raise PartError(part, error.row, error.wrong) from error
        return found

    def _columns(self, names: Sequence[str], frames: Sequence[DataFrame]) -> Plan:
        """Return the plan with the kind of each column, without ranges and medians."""
        if self._given.columns:
            return self._plan
        columns: list[Column] = []
        parts = _parts(names, frames)
        orders = {name: order for name in frames[0].columns if (order := _order(frames, name)) is not None}
        for place, name in enumerate(frames[0].columns):
            unnamed = self._index == "auto" and not place and (not name or name.startswith("Unnamed: "))
            if (unnamed or name == self._index) and not self._series:
                why = "is a first column without a name, as of row numbers; index=None keeps it"
                columns.append(left_out(name, why if unnamed else "is the index", asked=not unnamed))
                continue
            try:
                columns += plan_columns(parts, [name], self._wishes, orders)
            except PartError as error:
                raise ValueError(f"ArrayDataset '{names[error.part]}': row {error.row}, {error.wrong}") from None
            except ValueError as error:
                raise ValueError(f"ArrayDataset '{names[0]}': {error}") from None
        if all(isinstance(column, LeftOut) for column in columns):
            raise ValueError(f"ArrayDataset 'x' must have a column besides {columns[0].name!r}, which {columns[0].note}")
        return replace(self._plan, columns=tuple(columns))

    def _labels(self, names: Sequence[str], values: Sequence[DataFrame]) -> list[Array]:
        """Return the labels of both parts, or of one; texts as numbers."""
        if any(map(_is_table, values)) or any(map(_holds_texts, values)):
            values = [_as_series(value) for value in values]
        else:
            return [_numbers(name, value) for name, value in zip(names, values, strict=False)]
        frames = _frames(names, values)
        parts, header = _parts(names, frames), list(frames[0].columns)
        try:
            labels = self._given.labels or tuple(label_of_frame(parts, name, _order(frames, name)) for name in header)
            if len(header) > 1 and any(label.classes is not None for label in labels):
                raise ValueError(f"ArrayDataset 'y' must be one column where it holds texts, got {len(header)}")
            plan = replace(self._plan, labels=labels, label_axis=values[0].ndim == 2)
            found = []
            for part, cells in enumerate(parts):
                try:
                    found.append(plan.label_numbers("ArrayDataset", [cells[label.name] for label in labels]))
                except CellError as error:
                    raise PartError(part, error.row, error.wrong + _IF_MISSING * error.wrong.endswith("missing")) from error
        except PartError as error:
            raise ValueError(f"ArrayDataset '{names[error.part]}': row {error.row}, {error.wrong}") from None
        self._plan = plan
        return found


_IF_MISSING = "; fillna() or dropna() of pandas help"


def _is_table(value: object) -> bool:
    """Return whether it is a DataFrame or a Series; without pandas there are none."""
    # Without importing it: where it is not loaded no value is one of its types.
    pandas = sys.modules.get("pandas")
    return pandas is not None and isinstance(value, (pandas.DataFrame, pandas.Series))


def _holds_texts(value: object) -> bool:
    """Return whether these are texts or categories of one axis: an array, a list, an Index or a Categorical."""
    pandas = sys.modules.get("pandas")
    if pandas is not None and isinstance(value, (pandas.Index, pandas.api.extensions.ExtensionArray)):
        return not isinstance(value, pandas.MultiIndex)
    if isinstance(value, (list, tuple)):
        return any(isinstance(each, str) for each in value)
    if not isinstance(value, np.ndarray) or value.ndim != 1 or np.ma.isMaskedArray(value):
        return False
    return value.dtype.kind in "UT" or (value.dtype.kind == "O" and any(isinstance(each, str) for each in value))


def _as_series(value: Any) -> DataFrame:
    """Return a Series for a value with one axis; any other value as it is."""
    import pandas  # noqa: PLC0415 - here only, so that `import nn` stays quick

    if _is_table(value):
        return value
    if isinstance(value, (list, tuple)):
        return pandas.Series(list(value), dtype=object if _holds_texts(value) else None)
    if isinstance(value, np.ndarray):
        return pandas.Series(value.astype(object) if value.dtype.kind in "UT" else value) if value.ndim == 1 else value
    return pandas.Series(value) if _holds_texts(value) else value


def _frames(names: Sequence[str], values: Sequence[DataFrame]) -> list[DataFrame]:
    """Return both parts as DataFrames of the same columns, with names that are texts."""
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
        # A Series has no name that counts, so the second one takes that of the first.
        elif frames:
            frame = frame.set_axis(frames[0].columns[:1], axis=1)
        # In the order of the first part.
        frames.append(frame if not frames else frame[list(frames[0].columns)])
    return frames


def _parts(names: Sequence[str], frames: Sequence[DataFrame]) -> list[dict[str, Cells]]:
    """Return the cells of each column of each part, by name."""
    return [
        {name: cells_of(f"ArrayDataset '{argument}'", frame[name]) for name in frame.columns}
        for argument, frame in zip(names, frames, strict=False)
    ]


def _order(frames: Sequence[DataFrame], name: str) -> list[str] | None:
    """Return the categories of a column in the order of its type; None where its type has none."""
    found = [getattr(frame[name].dtype, "categories", None) for frame in frames]
    if any(categories is None for categories in found):
        return None
    known = dict.fromkeys(category for categories in found if categories is not None for category in categories)
    texts = list(map(text_of, known))
    if len(set(texts)) < len(texts):
        twice = next(text for text in texts if texts.count(text) > 1)
        kinds = " and ".join(type(each).__name__ for each in known if text_of(each) == twice)
        raise ValueError(f"ArrayDataset: column {name!r} must have categories of different texts, got {twice!r} as {kinds}")
    return texts


def _refuse_missing(name: str, array: NDArray[np.generic], plan: Plan) -> None:
    if array.dtype.kind != "f":
        return
    # With 'nan' a gap may stay, an infinite number may not.
    bad = np.argwhere(np.isinf(array) if plan.missing == "nan" else ~np.isfinite(array))
    if len(bad):
        row, place = (int(part) for part in bad[0])
        # A category is several numbers of x, so a place is not the number of a column.
        column = [column.name for column in plan.features for _ in column.names][place]
        value = "missing" if np.isnan(array[row, place]) else f"{array[row, place]:g}"
        raise ValueError(
            f"ArrayDataset '{name}' must hold finite numbers and no missing cells: row {row}, column {column!r} is "
            f"{value}; fillna() or dropna() of pandas help, and missing='fill'"
        )


def _by_name(name: str, value: Any) -> Any:
    """Return arrays by name as one array with fields, all else as it is."""
    if isinstance(value, np.ndarray) and value.dtype.names is not None:
        value = {field: value[field] for field in value.dtype.names}  # without gaps between the fields
    if not isinstance(value, Mapping):
        return value
    return joined(f"ArrayDataset '{name}'", {field: _numbers(f"{name}['{field}']", part) for field, part in value.items()})


def _numbers(name: str, value: ArrayLike) -> Array:
    refuse_masked(f"ArrayDataset '{name}'", value)
    try:
        array = np.asarray(value)
    except ValueError as error:
        raise ValueError(f"ArrayDataset '{name}' must be a rectangular array: {error}") from error
    if array.dtype.names is not None:
        return array
    if array.dtype.kind not in "biuf" or array.dtype.itemsize > 8:
        raise TypeError(
            f"ArrayDataset '{name}' must hold booleans, integers or floats of at most 64 bits, got dtype {array.dtype}"
            + ("; apply() of TextVectorization or StringLookup makes numbers of texts" if array.dtype.kind in "UO" else "")
        )
    if array.ndim == 0 or len(array) == 0:
        raise ValueError(f"ArrayDataset '{name}' must hold at least one sample, got shape {array.shape}")
    return array


def _read_only(arrays: Arrays) -> Arrays:
    # Views, so that the caller's arrays can still be written.
    train_x, train_y, test_x, test_y = (array.view() for array in arrays)
    for view in (train_x, train_y, test_x, test_y):
        view.flags.writeable = False
    return train_x, train_y, test_x, test_y


def _same(name: str, value: object, other: str, expected: object, what: str) -> None:
    if value != expected:
        raise ValueError(f"ArrayDataset '{name}' must have the {what} of '{other}', {expected}, got {value}")
