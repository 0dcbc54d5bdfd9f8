"""A table in a CSV file as a data set."""

from __future__ import annotations

import codecs
import hashlib
import os
from collections.abc import Mapping, Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any, Final, NoReturn, get_args

import numpy as np
from numpy.typing import NDArray

from nn import arguments
from nn.arrays import Array
from nn.dataset.csv_table import Table, read_table
from nn.dataset.files import find_given
from nn.dataset.interface import Arrays, DrawingDataset, Rows, SplitKind, check_fraction, check_split, draw
from nn.dataset.plan.cells import Cells, Spelling
from nn.dataset.plan.decide import LabelKind, Wishes, is_row_number
from nn.dataset.plan.kinds import CellError, Column, Label, LeftOut, UnknownTexts, missing_rows
from nn.dataset.plan.making import PartError, completed, label_of, left_out, opened, plan_columns
from nn.dataset.plan.marks import check_delimiter, check_encoding
from nn.dataset.plan.plan import Plan, Policy
from nn.dataset.plan.rows import check_columns
from nn.dataset.plan.wishes import forms_of, given_plan, names_of, spelling_of

__all__ = ["CSVDataset"]

_AUTO: Final = "auto"


class CSVDataset(DrawingDataset, configured=True):
    """Rows of a CSV file with the names of the columns on its first line; it may be packed by gzip, bzip2, xz or zip.

    `label` is the column to predict; the others, or those in `features`, are x ``(n, numbers)``. The numbers for each are given
    by the `plan`, which is made of all cells of all files when they are first read, shown by ``data.plan``, and never changes:

    * a number where all cells are numbers, also where they are the words true and false, 1 and 0;
    * for texts one number for each different one, in sorted order: 1 for that of the row, 0 for the others;
    * for dates, ISO 8601 or of one usual form that all cells have, the days since 1970-01-01;
    * nothing, for a first column without a name, or that counts the rows from 0 or 1: a line in the log says so.

    A column of which half of the cells or more are numbers, or dates, and some are not is refused, with the first odd line
    and the argument that takes it; so is one of numbers with leading zeros (007), until `numbers` or `categories` names it. x
    is float32, or float64 where float32 would make equal numbers of different ones, or change whole numbers or times; labels,
    too.

    `columns` names the numbers of x then, and `encode` makes x of other rows; both, and `classes`, need no file once it was
    read. A file that has changed since is an error of `load`; ``CSVDataset(path, label, plan=data.plan)`` reads the new one by
    the same plan.

    A list of names as `label` gives float32 ``(n, labels)``. One name gives labels ``(n,)`` of the type that `label_kind` says:

    * 'class': class numbers, int64. Texts are numbered from 0 in sorted order; their list is `classes`. Numbers must be whole
      and stay as they are.
    * 'number': values to predict, float32, also where all of them happen to be whole.
    * 'auto': class numbers where the column holds texts, or where all numbers in it are whole; else float32. So it depends on
      the data: say 'number' where a regression may meet a file of whole numbers.

    A cell that is empty or holds a word that pandas takes for missing (NA, NaN, null, None, N/A ..) is missing.

    Args:
        path: the file; a relative path counts from the working directory, else from ``$PSGD_DATA``.
        label: the column to predict, or a list of such.
        features: the columns of x, in their order; by default all but labels and row numbers.
        test_path: a file to evaluate on, with the columns in any order; else a share of the rows is set aside.
        test_fraction: that share.
        seed: of the draw of that share.
        delimiter: the mark between cells, "," by default.
        missing: 'error' refuses a missing cell (the default), 'drop' leaves its row out, 'nan' makes a feature NaN, 'fill' a
            number or a date the median of the training rows and a text none of the categories. A label may be missing with
            'drop' only.
        label_kind: as above.
        categories: columns to take as texts, even if all cells look like numbers or dates.
        dates: columns of dates: a dict of their forms as `datetime.strptime` takes them, or a list of names for ISO 8601.
        encoding: that of the file, "utf-8" by default.
        index: the column that numbers the rows, which is left out: "auto" for a first column as above, None for none.
        numbers: columns to take as numbers; a cell that is none is a missing cell.
        na_values: further texts for a missing cell.
        decimal: the mark before the fraction of a number, "." by default.
        thousands: the mark between groups of digits, none by default.
        split: which rows are set aside: "random", "stratified" (each class its share), "last" (of a series in time).
        unknown: treatment, in `encode` and a prediction, of a category that the plan does not have: "error", or "none" of
            the categories.
        plan: a plan to go by, a file of one, or its content (`Plan.to_dict`); a column that `Plan.change` has opened is
            completed by the files. `features`, `categories`, `dates`, `numbers` and `index` are then not taken.

    >>> data = CSVDataset("houses.csv.gz", label="price", label_kind="number", missing="fill", delimiter=";", decimal=",")
    >>> data.label_kind
    'number'

    Raises TypeError or ValueError for arguments that are not as said, and for features that hold the label. `load` raises
    FileNotFoundError for a missing file; ValueError naming file, line and column for a row of another length, a cell that is
    no finite number, or a missing one, and for a column of more than 1000 different texts.
    """

    def __init__(
        self,
        path: str | os.PathLike[str],
        label: str | Sequence[str],
        features: Sequence[str] | None = None,
        test_path: str | os.PathLike[str] | None = None,
        test_fraction: float = 0.2,
        seed: int = 0,
        delimiter: str | None = None,
        missing: Policy | None = None,
        label_kind: LabelKind = "auto",
        categories: Sequence[str] | None = None,
        dates: Mapping[str, str] | Sequence[str] | None = None,
        encoding: str | None = None,
        index: str | None = _AUTO,
        numbers: Sequence[str] | None = None,
        na_values: Sequence[str] | str | None = None,
        decimal: str | None = None,
        thousands: str | None = None,
        split: SplitKind = "random",
        unknown: UnknownTexts | None = None,
        plan: Plan | Mapping[str, Any] | str | os.PathLike[str] | None = None,
    ) -> None:
        if hasattr(path, "iloc"):
            raise TypeError(
                f"CSVDataset 'path' must be the path of a file, got {type(path).__name__}; "
                "ArrayDataset(frame.drop(columns='y'), frame['y'], test_fraction=0.2) takes frames"
            )
        self.path = arguments.path(self, "path", path, "a file")
        self.test_path = None if test_path is None else arguments.path(self, "test_path", test_path, "a file")
        self.label = label if isinstance(label, str) else names_of(self, "label", label)
        self.features = None if features is None else names_of(self, "features", features)
        self.categories = names_of(self, "categories", categories, empty=True)
        self.numbers = names_of(self, "numbers", numbers, empty=True)
        self.dates = forms_of(self, dates)
        self.index = index
        self._check_names()
        self._given = given = given_plan(self, plan)
        self._plan_argument = (
            plan.to_dict() if isinstance(plan, Plan) else os.fspath(plan) if isinstance(plan, os.PathLike) else plan
        )
        self.test_fraction = check_fraction(self, test_fraction)
        self.seed = arguments.integer(self, "seed", seed, minimum=0)
        self.delimiter = check_delimiter("CSVDataset", given.delimiter if delimiter is None else delimiter)
        self.missing = given.missing if missing is None else arguments.one_of(self, "missing", missing, get_args(Policy))
        self.unknown = given.unknown if unknown is None else arguments.one_of(self, "unknown", unknown, get_args(UnknownTexts))
        self.label_kind = arguments.one_of(self, "label_kind", label_kind, get_args(LabelKind))
        if label_kind == "class" and not isinstance(self.label, str):
            raise ValueError(f"CSVDataset 'label' must be one column for label_kind='class', got {self.label!r}")
        self.split = check_split(self, split)
        self.na_values, self.decimal, self.thousands = spelling = spelling_of(
            self, na_values, decimal, thousands, given.spelling
        )
        self._spelling = Spelling(self.decimal, self.thousands, tuple(spelling[0]))
        # One name for each encoding, so that equal plans are equal.
        self.encoding = codecs.lookup(check_encoding("CSVDataset", given.encoding if encoding is None else encoding)).name
        self._seen: list[str] = []
        self._plan: Plan | None = None
        if plan is not None:
            self._check_plan()

    def argument(self, name: str) -> Any:
        """Return one argument as `get_config` gives it."""
        return self._plan_argument if name == "plan" else super().argument(name)

    @property
    def plan(self) -> Plan:
        """The plan of columns; reads the files if that is not known yet."""
        return self._plan or self._load()[1]

    @property
    def classes(self) -> list[str] | None:
        """The texts that the class numbers stand for, in their order; None where the labels are numbers."""
        return self.plan.classes

    @property
    def columns(self) -> list[str]:
        """The names of the numbers in x: a column, or ``column=text`` for one of its categories."""
        return self.plan.names

    def source_of(self, part: str) -> str:
        return self.test_path if part.startswith("test") and self.test_path else self.path

    def load(self, download: bool = True) -> Arrays:
        return self._load()[0]

    def encode(self, rows: Any, unknown: UnknownTexts | None = None) -> Array:
        """Return x ``(n, numbers)`` for other rows, to predict. Reads no file if one was read.

        Args:
            rows, unknown: as of `Plan.encode`.
        """
        return self.plan.encode(rows, unknown)

    @property
    def _labels(self) -> list[str]:
        return [self.label] if isinstance(self.label, str) else self.label

    def _check_names(self) -> None:
        for name in self._labels:
            for argument in ("features", "categories", "dates", "numbers"):
                if name in (getattr(self, argument) or ()):
                    raise ValueError(f"CSVDataset '{argument}' must not hold what is to be predicted, got {name!r}")
        if self.index is not None and not isinstance(self.index, str):
            raise TypeError(f"CSVDataset 'index' must be the name of a column, 'auto' or None, got {self.index!r}")
        if self.index != _AUTO and self.index in (self.features or ()):
            raise ValueError(f"CSVDataset 'index' must be no feature, got {self.index!r}")
        for name in self.categories:
            for argument in ("dates", "numbers"):
                if name in getattr(self, argument):
                    raise ValueError(f"CSVDataset '{argument}' must not hold a column of 'categories', got {name!r}")

    def _check_plan(self) -> None:
        """Take over the given plan, where it needs nothing of the files."""
        for argument in ("features", "categories", "dates", "numbers"):
            if getattr(self, argument):
                raise ValueError(f"CSVDataset '{argument}' cannot be given beside 'plan'; Plan.change() changes one column")
        labels = [label.name for label in self._given.labels]
        if labels and labels != self._labels:
            raise ValueError(f"CSVDataset 'label' must be that of the plan, {', '.join(labels)}, got {', '.join(self._labels)}")
        kept = self._own(self._given)
        unfilled = self.missing == "fill" and any(getattr(column, "fill", 0.0) is None for column in kept.features)
        # Medians that are not known yet are found in the files.
        if labels and not kept.is_open and not unfilled:
            self._plan = kept

    def _own(self, plan: Plan) -> Plan:
        """Return the plan with the arguments about files, gaps and unknown categories."""
        return replace(
            plan, missing=self.missing, unknown=self.unknown, spelling=self._spelling, delimiter=self.delimiter,
            encoding=self.encoding,
        )  # fmt: skip

    def _load(self) -> tuple[Arrays, Plan]:
        """Read the files, decide the kinds of columns unless these are known, and set rows aside to evaluate on."""
        paths = [find_given(path, self) for path in (self.path, self.test_path) if path is not None]
        # Before the files are read: a file that changes meanwhile differs the next time.
        seen = [_digest(path) for path in paths]
        if self._seen and seen != self._seen:
            changed = next(path for path, was, now in zip(paths, self._seen, seen, strict=True) if was != now)
            raise ValueError(
                f"CSVDataset: '{changed}' has changed since this data set has read it, and its plan stays; "
                f"CSVDataset(.., plan=data.plan) reads the file of today by it"
            )
        tables = self._tables(paths)
        columns = self._chosen(tables)
        names = [*(column if isinstance(column, str) else column.name for column in columns), *self._labels]
        out = {column.name for column in columns if isinstance(column, LeftOut)}
        used = [name for name in names if name not in out]
        parts, places = self._parts(tables, used)
        try:
            plan, raw, y = self._planned(tables, columns, parts)
            train: Any = slice(None)
            test: Any = slice(None)
            if len(tables) == 1:
                train, test = draw(y[0], self.test_fraction, self.seed, self.split)
                self._drawn = places[0][train], places[0][test]
            # Medians come of the training rows alone, which are known now: those to evaluate on must not count.
            plan = self._plan or completed(plan, parts, raw, train)
            for part, x in enumerate(raw):
                try:
                    plan.close("CSVDataset", x)
                except CellError as error:
                    raise PartError(part, error.row, error.wrong) from error
        except PartError as error:
            self._tell(tables, places, error)
        except ValueError as error:
            said = str(error)
            if said.startswith("column "):
                where = f" of '{self.path}' must fit float32" if " must fit float32" in said else ""
                said = f"CSVDataset: {said.replace(' must fit float32', where)}" if where else f"'{self.path}': {said}"
            raise ValueError(said) from None  # the same sentence, in frames that are not the user's
        x = [part.astype(plan.dtype, copy=False) for part in raw]
        # Only when all went well; a failed attempt leaves the data set as it was.
        self._plan, self._seen = plan, seen
        last = 0 if len(tables) == 1 else 1
        return (x[0][train], y[0][train], x[last][test], y[last][test]), plan

    def _tables(self, paths: Sequence[Path]) -> list[Table]:
        """Return the cells of each file; a column that is of numbers in one of them only is read as texts in all."""
        plan = self._plan or self._given
        texts = plan.of_texts.union(self.categories, self.dates)
        tables = [read_table(path, self.delimiter, self.encoding, self._spelling, texts) for path in paths]
        kinds = [{name: cells.dtype == object for name, cells in zip(t.header, t.columns, strict=True)} for t in tables]
        mixed = {name for name in kinds[0] if len({each[name] for each in kinds if name in each}) > 1}
        if not mixed:
            return tables
        # Again, since numbers that are parsed have lost their texts (007, 1.50).
        return [read_table(path, self.delimiter, self.encoding, self._spelling, texts | mixed) for path in paths]

    def _planned(
        self, tables: Sequence[Table], columns: Sequence[str | Column], parts: Sequence[Mapping[str, Cells]]
    ) -> tuple[Plan, list[Any], list[Array]]:
        """Return the plan without ranges and medians, the numbers of each part with NaN for gaps, and its labels."""
        plan = self._plan
        if plan is None:
            wishes = Wishes(self.categories, self.dates, self.numbers, self._spelling)
            labels = self._given.labels or tuple(self._label(parts, name, wishes) for name in self._labels)
            made: tuple[Column, ...] = tuple(
                column if not isinstance(column, str) else plan_columns(parts, [column], wishes)[0] for column in columns
            )
            plan = replace(self._own(self._given), columns=made, labels=labels, label_axis=not isinstance(self.label, str))
            plan = opened(plan, parts)
        raw, y = [], []
        for part, cells in enumerate(parts):
            try:
                raw.append(plan.raw("CSVDataset", [cells[column.name] for column in plan.features]))
                y.append(plan.label_numbers("CSVDataset", [cells[label.name] for label in plan.labels]))
            except CellError as error:
                raise PartError(part, error.row, error.wrong) from error
        return plan, raw, y

    def _label(self, parts: Sequence[Mapping[str, Cells]], name: str, wishes: Wishes) -> Label:
        kind: LabelKind = self.label_kind if isinstance(self.label, str) else "number"
        return label_of(parts, name, kind, wishes)

    def _chosen(self, tables: Sequence[Table]) -> list[str | Column]:
        """Return the columns that are asked for, in the order of x; those that are decided already, or left out, as columns."""
        table = tables[0]
        given = self._given.columns
        features = [column.name for column in given] if given else self.features
        if features is None:
            features = [name for name in table.header if name not in self._labels]
            if not features:
                mark = next((mark for mark in ";\t|, " if mark in self._labels[0] and mark != self.delimiter), "")
                hint = f"; is delimiter={mark!r} meant?" if mark else ""
                raise ValueError(f"CSVDataset: '{table.path}' must have columns besides {', '.join(self._labels)}{hint}")
        index = () if self.index in (None, _AUTO) else (self.index,)
        for each in tables:
            for argument, names in (
                ("label", self._labels), ("features", features), ("categories", self.categories), ("dates", list(self.dates)),
                ("numbers", self.numbers), ("index", index),
            ):  # fmt: skip
                if given and argument == "features":
                    names, argument = [column.name for column in given if not isinstance(column, LeftOut)], "plan"
                check_columns(f"CSVDataset '{argument}'", names, each.header, f" of '{each.path}'")
            if not len(each):
                raise ValueError(f"CSVDataset: '{each.path}' must have rows below its header")
        if given:
            return list(given)
        columns: list[str | Column] = list(features)
        why = self._row_number(table)
        if why is not None and why[0] in columns:
            # said once: another reading decides nothing
            columns[columns.index(why[0])] = (
                left_out(*why, self.index != _AUTO) if self._plan is None else LeftOut(why[0], note=why[1])
            )
        if why is not None and all(isinstance(column, LeftOut) for column in columns):
            raise ValueError(
                f"CSVDataset: '{table.path}' must have columns besides {', '.join(self._labels)} and {why[0]!r}, which {why[1]}"
            )
        return columns

    def _row_number(self, table: Table) -> tuple[str, str] | None:
        """Return the column that numbers the rows, and the reason; None where there is none."""
        # Only the first column is taken for row numbers: anywhere else such numbers may mean something.
        first = table.header[0]
        if self.index is None or (self.index == _AUTO and (self.features is not None or first in self._labels)):
            return None
        if self.index != _AUTO:
            return self.index, "is the index"
        if first in (*self.categories, *self.dates, *self.numbers):
            return None
        if not first or first.startswith("Unnamed: "):
            return first, "is a first column without a name, as of row numbers; index=None keeps it"
        if is_row_number(table.columns[0], self._spelling):
            return first, f"counts the rows from {int(table.columns[0][0])}; index=None keeps it"
        return None

    def _parts(self, tables: Sequence[Table], names: Sequence[str]) -> tuple[list[dict[str, Cells]], list[Rows]]:
        """Return the cells of the columns that are used, and their rows in each file; refuse a gap where it must not be."""
        parts, places = [], []
        for table in tables:
            cells = {name: table.columns[table.header.index(name)] for name in names}
            gaps = {name: missing_rows(each, self._spelling) for name, each in cells.items()}
            rows = np.arange(len(table))
            if self.missing == "drop":
                rows = np.flatnonzero(~np.any(list(gaps.values()), axis=0))
                cells = {name: each[rows] for name, each in cells.items()}
                if not len(rows):
                    raise ValueError(
                        f"CSVDataset: '{table.path}' must have rows without missing cells, {self._most_gaps(gaps)}"
                    )
            else:
                # A label is never filled: it would be made up.
                strict = names if self.missing == "error" else self._labels
                found = [
                    (int(gaps[name].argmax()), place, name)
                    for place, name in enumerate(names)
                    if name in strict and gaps[name].any()
                ]
                if found:
                    # The first row, and in it the first column.
                    row, _, name = min(found)
                    line, texts = table.texts_of(row)
                    raise ValueError(
                        f"'{table.path}' line {line}, column {name!r} is missing, got {texts[table.header.index(name)]!r}"
                        f"{_ways(name in self._labels)}"
                    )
            parts.append(cells)
            places.append(rows)
        return parts, places

    def _most_gaps(self, gaps: Mapping[str, NDArray[np.bool_]]) -> str:
        """Describe the column with most gaps, and the arguments that help."""
        label = next((name for name in self._labels if gaps[name].all()), None)
        if label is not None:
            return f"got none: column {label!r}, the label, is missing in all of them"
        worst = max((name for name in gaps if name not in self._labels), key=lambda name: int(gaps[name].sum()))
        several = f"{int(gaps[worst].sum())} of {len(gaps[worst])}"
        return f"got none: column {worst!r} is missing in {several}; features= leaves it out, index={worst!r} does, too"

    def _tell(self, tables: Sequence[Table], places: Sequence[Rows], error: PartError) -> NoReturn:
        table = tables[error.part]
        line = table.line_of(int(places[error.part][error.row]))
        raise ValueError(f"'{table.path}' line {line}, {error.wrong}") from None


def _digest(path: Path) -> str:
    digest = hashlib.sha256()
    with path.open("rb") as file:
        while block := file.read(1 << 20):
            digest.update(block)
    return digest.hexdigest()


def _ways(label: bool) -> str:
    return "; missing='drop' leaves such rows out" + ("" if label else ", 'fill' fills the gap, 'nan' keeps it")
