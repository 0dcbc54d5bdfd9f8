"""A table in a CSV file as a data set."""

from __future__ import annotations

import codecs
import os
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Literal, NamedTuple, TypeAlias, get_args

import numpy as np
from numpy.typing import NDArray

from nn import arguments
from nn.arrays import Array
from nn.dataset.csv_table import check_rows, line_of, read_table
from nn.dataset.files import find_given
from nn.dataset.interface import AbsDataset, Arrays, check_fraction, split
from nn.dataset.table import (
    NUMBER,
    CellError,
    Column,
    DataFrame,
    Series,
    as_texts,
    check_columns,
    encode,
    fill,
    other_rows,
    plan_columns,
)

__all__ = ["CSVDataset"]

_LabelKind: TypeAlias = Literal["auto", "class", "number"]
_Policy: TypeAlias = Literal["error", "drop", "nan", "fill"]


class _Table(NamedTuple):
    """What the files hold: the four arrays, in float64, and what they stand for."""

    arrays: Arrays
    classes: list[str] | None
    columns: list[Column]


class CSVDataset(AbsDataset, configured=True):
    """Rows of a CSV file whose first line names the columns; it may be packed by gzip, bzip2 or xz (.gz, .bz2, .xz).

    `label` is the column to predict; the others, or those in `features`, are x: float32 ``(n, numbers)``. What becomes of a
    column depends on all rows of all files, so that it is the same for both parts and on every worker:

    * numbers stay as they are, and the words true and false become 1 and 0;
    * texts (a column whose first cell is no number) and the columns in `categories` become one number for each different text,
      in sorted order: 1 for that of the row, 0 for the others;
    * ISO 8601 dates, and the columns in `dates`, a dict of their formats as `datetime.strptime` takes them, become days since
      1970-01-01.

    `columns` names what x has then, and `encode` makes x of other rows. A list of names as `label` gives float32
    ``(n, labels)``. One name gives labels ``(n,)``, whose type `label_kind` says:

    * 'class': class numbers, int64. Texts are numbered from 0 in sorted order; their list is `classes`. Numbers must be whole
      and stay as they are.
    * 'number': values to predict, float32, also where all of them happen to be whole.
    * 'auto': class numbers where the column holds texts, or where all numbers in it are whole; else float32. So it depends on
      the data: say 'number' where a regression may meet a file of whole numbers.

    What to evaluate on is the file `test_path`, whose columns may stand in another order, or else the share `test_fraction`
    of the rows, drawn by `seed` (see `nn.dataset.interface`). A relative path counts from the working directory, else from
    ``$PSGD_DATA``.

    A cell that is empty or says NA, NaN or null is missing. With ``missing='error'`` that is an error, with 'drop' its row is
    left out, with 'nan' a feature becomes NaN, with 'fill' a number or a date becomes the median of the training rows and a
    text none of the categories. A label may be missing with 'drop' only.

    >>> data = CSVDataset("houses.csv.gz", label="price", label_kind="number", missing="fill", delimiter=";")
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
        delimiter: str = ",",
        missing: _Policy = "error",
        label_kind: _LabelKind = "auto",
        categories: Sequence[str] | None = None,
        dates: Mapping[str, str] | None = None,
        encoding: str = "utf-8",
    ) -> None:
        self.path = os.fspath(path)
        self.test_path = None if test_path is None else os.fspath(test_path)
        self.label = label if isinstance(label, str) else _names("label", label)
        self.features = None if features is None else _names("features", features)
        self.categories = [] if not categories else _names("categories", categories)
        self.dates = _formats(dates or {})
        for name in self._labels:
            for argument in ("features", "categories", "dates"):
                if name in (getattr(self, argument) or ()):
                    raise ValueError(f"CSVDataset '{argument}' must not hold what is to be predicted, got {name!r}")
        self.draws_rows = test_path is None and missing != "drop"  # of rows that are left out there is no account
        self.test_fraction = check_fraction(self, test_fraction)
        self.seed = arguments.integer(self, "seed", seed, minimum=0)
        if not isinstance(delimiter, str) or len(delimiter) != 1 or delimiter in '"\r\n':
            raise ValueError(f"CSVDataset 'delimiter' must be one character, no quote and no line end, got {delimiter!r}")
        self.missing = arguments.one_of(self, "missing", missing, get_args(_Policy))
        self.label_kind = arguments.one_of(self, "label_kind", label_kind, get_args(_LabelKind))
        if label_kind == "class" and not isinstance(self.label, str):
            raise ValueError(f"CSVDataset 'label' must be one column for label_kind='class', got {self.label!r}")
        self.delimiter = delimiter
        try:
            self.encoding = codecs.lookup(encoding).name
        except (LookupError, TypeError):
            raise ValueError(f"CSVDataset 'encoding' must be the name of one, such as utf-8, got {encoding!r}") from None

    @property
    def classes(self) -> list[str] | None:
        """The texts that the class numbers stand for, in their order; None where the labels are numbers. Reads the files."""
        return self._load().classes

    @property
    def columns(self) -> list[str]:
        """The names of the numbers in x: a column, or ``column=text`` for one of its categories. Reads the files."""
        return [name for column in self._load().columns for name in column.names]

    def source_of(self, part: str) -> str:
        return self.test_path if part.startswith("test") and self.test_path else self.path

    def load(self, download: bool = True) -> Arrays:
        train_x, train_y, test_x, test_y = self._load().arrays
        return train_x.astype(np.float32), train_y, test_x.astype(np.float32), test_y

    def encode(self, rows: DataFrame) -> NDArray[np.float32]:
        """Return x ``(n, numbers)`` for other rows, to predict: a DataFrame with the columns of the features. Reads the files.

        Raises ValueError naming row and column for a text that the files do not hold, and for a missing cell, which only
        ``missing='fill'`` and 'nan' take.
        """
        table = self._load()
        x = encode("CSVDataset", other_rows("encode() 'rows'", rows, table.columns), table.columns)
        if self.missing == "fill":
            fill(table.arrays[0], [x], table.columns)
        elif self.missing != "nan" and np.isnan(x).any():
            row, column = (int(place) for place in np.argwhere(np.isnan(x))[0])
            name = [column.name for column in table.columns for _ in column.names][column]
            raise ValueError(f"CSVDataset: row {row}, column {name!r} is missing")
        return x.astype(np.float32)

    @property
    def _labels(self) -> list[str]:
        return [self.label] if isinstance(self.label, str) else self.label

    def _load(self) -> _Table:
        """Read the files, decide what becomes of each column, and set aside what to evaluate on."""
        paths = [find_given(path, self) for path in (self.path, self.test_path) if path is not None]
        frames = [self._used(path, read_table(path, self.delimiter, self.encoding)) for path in paths]
        if self.missing == "drop":
            frames = [frame.dropna() for frame in frames]
        for path, frame in zip(paths, frames, strict=True):
            if not len(frame):
                raise ValueError(f"CSVDataset: '{path}' must have rows below its header")
        features = [name for name in frames[0].columns if name not in self._labels]
        self._check_numbers(paths, frames, features)
        owners = ["CSVDataset"] * len(frames)
        columns = plan_columns(owners, [frame[features] for frame in frames], self.categories, self.dates)
        x = [self._encoded(path, frame, columns) for path, frame in zip(paths, frames, strict=True)]
        y, classes = self._read_labels(frames)
        arrays: Arrays
        if len(paths) == 1:
            arrays = split(x[0], y[0], self.test_fraction, self.seed)
        else:
            arrays = (x[0], y[0], x[1], y[1])
        if self.missing == "fill":
            fill(arrays[0], [arrays[2]], columns)
        self._check_size(arrays, columns)
        return _Table(arrays, classes, columns)

    def _encoded(self, path: Path, frame: DataFrame, columns: Sequence[Column]) -> NDArray[np.float64]:
        """The features of a file; what is wrong with a cell is told with its line."""
        try:
            return encode("CSVDataset", frame, columns)
        except CellError as error:
            row = int(frame.index[error.row])  # rows that were left out count
            line = line_of(path, row, self.delimiter, self.encoding)
            raise ValueError(f"'{path}' line {line}, {error.wrong}") from error

    def _used(self, path: Path, frame: DataFrame) -> DataFrame:
        """The columns that are asked for: features in their order, then labels."""
        header = [str(name) for name in frame.columns]
        features = self.features
        if features is None:
            features = [name for name in header if name not in self._labels]
            if not features:
                raise ValueError(f"CSVDataset: '{path}' must have columns besides {', '.join(self._labels)}")
        for argument in ("label", "features", "categories", "dates"):
            names = self._labels if argument == "label" else list(getattr(self, argument) or ())
            check_columns(f"CSVDataset '{argument}'", names, header, f" of '{path}'")
        return frame[[*features, *self._labels]]

    def _check_numbers(self, paths: Sequence[Path], frames: Sequence[DataFrame], features: Sequence[str]) -> None:
        """Name the line of a cell that is missing, or no number in a column whose first cell is one."""
        strict = {"error": list(frames[0].columns), "drop": []}.get(self.missing, self._labels)
        numbers = {name for name in features if name not in (*self.categories, *self.dates) and _begins(frames, name)}
        numbers |= {name for name in self._labels if not self._is_text(frames, name)}
        for path, frame in zip(paths, frames, strict=True):
            wrong = any(not _holds_numbers(frame[name]) for name in numbers)
            if wrong or any(frame[name].isna().any() for name in strict):
                check_rows(path, numbers, strict, self.delimiter, self.encoding)

    def _is_text(self, frames: Sequence[DataFrame], name: str) -> bool:
        """Whether the labels are texts: the first is no number, and they are not to be numbers."""
        if self.label_kind == "number" or not isinstance(self.label, str):
            return False
        return any(frame[name].dtype.kind not in "iuf" for frame in frames) and not _begins(frames, name)

    def _read_labels(self, frames: Sequence[DataFrame]) -> tuple[list[Array], list[str] | None]:
        """The labels of each file as the class says, and the names of the classes."""
        if isinstance(self.label, str) and self._is_text(frames, self.label):
            texts = [as_texts(frame[self.label]).to_numpy(dtype=str) for frame in frames]
            classes, numbers = np.unique(np.concatenate(texts), return_inverse=True)
            first = len(texts[0])
            parts: list[Array] = [numbers[:first], numbers[first:]]
            return [part.astype(np.int64) for part in parts[: len(frames)]], classes.tolist()
        columns = [Column(name, NUMBER) for name in self._labels]
        values = [encode("CSVDataset", frame, columns) for frame in frames]
        if not isinstance(self.label, str):
            return [part.astype(np.float32) for part in values], None
        every = np.concatenate(values)[:, 0]
        whole = (every == np.rint(every)) & (np.abs(every) < 2**53)
        if self.label_kind == "class" and not whole.all():
            raise ValueError(
                f"CSVDataset: column {self.label!r} must hold whole numbers for label_kind='class', got {every[~whole][0]:g}"
            )
        kind = np.int64 if self.label_kind != "number" and whole.all() else np.float32
        return [part[:, 0].astype(kind) for part in values], None

    def _check_size(self, arrays: Arrays, columns: Sequence[Column]) -> None:
        names = [column.name for column in columns for _ in column.names]
        limit = float(np.finfo(np.float32).max)
        for x in (arrays[0], arrays[2]):
            largest = np.abs(x).max(axis=0, initial=0.0, where=~np.isnan(x))
            for name, value in zip(names, largest, strict=True):
                if value > limit:
                    raise ValueError(
                        f"CSVDataset: column {name!r} of '{self.path}' must fit float32, its largest value is {value:g}"
                    )


def _holds_numbers(cells: Series) -> bool:
    return cells.dtype.kind in "biu" or (cells.dtype.kind == "f" and not np.isinf(cells.to_numpy()).any())


def _begins(frames: Sequence[DataFrame], name: str) -> bool:
    """Whether the first cell of a column that is not missing is a number."""
    cells = next((cells for frame in frames if len(cells := frame[name].dropna())), None)
    if cells is None or cells.dtype.kind == "b":
        return False
    try:
        float(cells.iloc[0])
    except (TypeError, ValueError):
        return False
    return True


def _formats(dates: Mapping[str, str]) -> dict[str, str]:
    if not isinstance(dates, Mapping) or not all(isinstance(part, str) for pair in dates.items() for part in pair):
        raise TypeError(f"CSVDataset 'dates' must map column names to formats, as {{'built': '%d.%m.%Y'}}, got {dates!r}")
    return dict(dates)


def _names(argument: str, value: Sequence[str]) -> list[str]:
    if isinstance(value, (str, bytes)) or not isinstance(value, Sequence) or not all(isinstance(name, str) for name in value):
        raise TypeError(f"CSVDataset '{argument}' must be a list of column names, got {value!r}")
    if not value or len(set(value)) != len(value):
        raise ValueError(f"CSVDataset '{argument}' must be a list of different column names, got {value!r}")
    return list(value)
