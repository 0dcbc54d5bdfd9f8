"""A table in a CSV file as a data set."""

import os
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from nn import arguments
from nn.arrays import Array
from nn.dataset.checksum import Arrays
from nn.dataset.csv_table import MISSING_POLICIES, TextNumbers, holds_text, read_columns, read_header
from nn.dataset.directories import find_given
from nn.dataset.interface import AbsDataset
from nn.dataset.split import check_fraction, split

__all__ = ["CSVDataset"]

_LABEL_KINDS = ("auto", "class", "number")


class CSVDataset(AbsDataset):
    """Rows of numbers in a CSV file (UTF-8) whose first line names the columns.

    `label` is the column to predict; the others, or those in `features`, are x: float32 ``(n, features)``. A list of names as
    `label` gives float32 ``(n, labels)``. One name gives labels ``(n,)``, whose type `label_kind` says:

    * 'class': class numbers, int64. Texts (a column whose first cell is no number) are numbered from 0 in sorted order; their
      list is `classes`. Numbers must be whole and stay as they are.
    * 'number': values to predict, float32, also where all of them happen to be whole.
    * 'auto': class numbers where the column holds texts, or where all numbers in it are whole; else float32. So it depends on
      the data: say 'number' where a regression may meet a file of whole numbers.

    What to evaluate on is the file `test_path`, whose columns may stand in another order, or else the share `test_fraction`
    of the rows, drawn by `seed` (see `nn.dataset.split`). A relative path counts from the working directory, else from
    ``$PSGD_DATA``.

    A cell that is empty or says NA, NaN or null is missing. With ``missing='error'`` that is an error, with 'drop' its row is
    left out, with 'nan' a feature becomes NaN (a label may not).

    >>> data = CSVDataset("iris.csv", label="species", features=["sepal_length", "sepal_width"])
    >>> data.label_kind
    'auto'

    Raises TypeError or ValueError for arguments that are not as said, and for features that hold the label. `load` raises
    FileNotFoundError for a missing file; ValueError naming file, line and column for a row of another length, a cell that is
    no finite number, or a missing one.
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
        missing: str = "error",
        label_kind: str = "auto",
    ) -> None:
        self.path = os.fspath(path)
        self.test_path = None if test_path is None else os.fspath(test_path)
        self.label = label if isinstance(label, str) else _names("label", label)
        self.features = None if features is None else _names("features", features)
        for name in [self.label] if isinstance(self.label, str) else self.label:
            if name in (self.features or ()):
                raise ValueError(f"CSVDataset 'features' must not hold what is to be predicted, got {name!r}")
        self.test_fraction = check_fraction(self, test_fraction)
        self.seed = arguments.integer(self, "seed", seed, minimum=0)
        if not isinstance(delimiter, str) or len(delimiter) != 1 or delimiter in '"\r\n':
            raise ValueError(f"CSVDataset 'delimiter' must be one character, no quote and no line end, got {delimiter!r}")
        if missing not in MISSING_POLICIES:
            raise ValueError(f"CSVDataset 'missing' must be one of {', '.join(MISSING_POLICIES)}, got {missing!r}")
        if label_kind not in _LABEL_KINDS:
            raise ValueError(f"CSVDataset 'label_kind' must be one of {', '.join(_LABEL_KINDS)}, got {label_kind!r}")
        if label_kind == "class" and not isinstance(self.label, str):
            raise ValueError(f"CSVDataset 'label' must be one column for label_kind='class', got {self.label!r}")
        self.delimiter = delimiter
        self.missing = missing
        self.label_kind = label_kind

    def get_config(self) -> dict[str, Any]:
        """Return the constructor's keywords."""
        return {
            "path": self.path,
            "label": self.label,
            "features": self.features,
            "test_path": self.test_path,
            "test_fraction": self.test_fraction,
            "seed": self.seed,
            "delimiter": self.delimiter,
            "missing": self.missing,
            "label_kind": self.label_kind,
        }

    @property
    def classes(self) -> list[str] | None:
        """The texts that the class numbers stand for, in their order; None where the labels are numbers. Reads the files."""
        return self._load()[1]

    def load(self, download: bool = True) -> Arrays:
        """Return the four arrays; nothing is ever downloaded."""
        return self._load()[0]

    def _load(self) -> tuple[Arrays, list[str] | None]:
        """Return the four arrays, and the names of the classes."""
        path = find_given(self.path, self)
        labels = [self.label] if isinstance(self.label, str) else self.label
        features = self.features
        if features is None:
            features = [name for name in read_header(path, self.delimiter) if name not in labels]
            if not features:
                raise ValueError(f"CSVDataset: '{path}' must have columns besides {', '.join(labels)}")
        numbers = self._text_numbers(path)
        x, y = self._read(path, features, labels, numbers)
        if self.test_path is None:
            found, classes = self._labels(y, numbers)
            return split(x, found, self.test_fraction, self.seed), classes
        test_x, test_y = self._read(find_given(self.test_path, self), features, labels, numbers)
        both, classes = self._labels(np.concatenate([y, test_y]), numbers)
        return (x, both[: len(y)], test_x, both[len(y) :]), classes

    def _text_numbers(self, path: Path) -> TextNumbers | None:
        """Return what numbers the labels of both files if they are texts, else None."""
        if not isinstance(self.label, str) or self.label_kind == "number":
            return None
        known = self.label in read_header(path, self.delimiter)
        return TextNumbers() if known and holds_text(path, self.label, self.delimiter) else None

    def _read(
        self, path: Path, features: Sequence[str], labels: Sequence[str], numbers: TextNumbers | None
    ) -> tuple[NDArray[np.float32], NDArray[np.float64]]:
        """Return features and labels ``(n, labels)`` of one file."""
        header = read_header(path, self.delimiter)
        for argument, names in (("label", labels), ("features", features)):
            for name in names:
                if name not in header:
                    held = ", ".join(header)[:400]
                    raise ValueError(f"CSVDataset '{argument}' must name columns of '{path}' ({held}), got {name!r}")
        texts = {} if numbers is None else {labels[0]: numbers}
        table = read_columns(path, [*features, *labels], labels, self.delimiter, self.missing, texts)
        if not len(table):
            raise ValueError(f"CSVDataset: '{path}' must have rows of numbers below its header")
        x, y = table[:, : len(features)], table[:, len(features) :]
        limit = float(np.finfo(np.float32).max)
        for name, column in zip([*features, *labels], table.T, strict=True):
            largest = float(np.abs(column).max(initial=0.0, where=~np.isnan(column)))
            if largest > limit:
                raise ValueError(f"CSVDataset: column {name!r} of '{path}' must fit float32, its largest value is {largest:g}")
        return x.astype(np.float32), y

    def _labels(self, y: NDArray[np.float64], numbers: TextNumbers | None) -> tuple[Array, list[str] | None]:
        """Return labels as the class says, from columns ``(n, labels)``, and the names of the classes."""
        if not isinstance(self.label, str):
            return y.astype(np.float32), None
        column = y[:, 0]
        if numbers is not None:
            appeared, places = np.unique(column.astype(np.intp), return_inverse=True)
            texts = np.array(list(numbers.texts))[appeared]
            order = texts.argsort()
            return order.argsort()[places].astype(np.int64), texts[order].tolist()
        whole = (column == np.rint(column)) & (np.abs(column) < 2**53)
        if self.label_kind == "class" and not whole.all():
            wrong = column[~whole][0]
            raise ValueError(f"CSVDataset: column {self.label!r} must hold whole numbers for label_kind='class', got {wrong:g}")
        return column.astype(np.int64 if self.label_kind != "number" and whole.all() else np.float32), None


def _names(argument: str, value: Sequence[str]) -> list[str]:
    """Return `value` as a list of different names, at least one."""
    if isinstance(value, (str, bytes)) or not isinstance(value, Sequence) or not all(isinstance(name, str) for name in value):
        raise TypeError(f"CSVDataset '{argument}' must be a list of column names, got {value!r}")
    if not value or len(set(value)) != len(value):
        raise ValueError(f"CSVDataset '{argument}' must be a list of different column names, got {value!r}")
    return list(value)
