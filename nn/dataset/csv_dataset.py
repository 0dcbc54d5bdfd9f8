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
from nn.dataset.csv_table import MISSING_POLICIES, read_columns, read_header
from nn.dataset.directories import find_given
from nn.dataset.interface import AbsDataset
from nn.dataset.split import check_fraction, split

__all__ = ["CSVDataset"]


class CSVDataset(AbsDataset):
    """Rows of numbers in a CSV file (UTF-8) whose first line names the columns.

    `label` is the column to predict; the others, or those in `features`, are x: float32 ``(n, features)``. One name gives
    labels ``(n,)``: class numbers (int64) where all of them are whole numbers, else float32. A list of names gives float32
    ``(n, labels)``, as a regression wants it, also for whole numbers.

    What to evaluate on is the file `test_path`, whose columns may stand in another order, or else the share `test_fraction`
    of the rows, drawn by `seed` (see `nn.dataset.split`). A relative path counts from the working directory, else from
    ``$PSGD_DATA``.

    A cell that is empty or says NA, NaN or null is missing. With ``missing='error'`` that is an error, with 'drop' its row is
    left out, with 'nan' a feature becomes NaN (a label may not).

    >>> data = CSVDataset("iris.csv", label="species", features=["sepal_length", "sepal_width"])

    Raises TypeError or ValueError for arguments that are not as said. `load` raises FileNotFoundError for a missing file;
    ValueError naming file, line and column for a row of another length, a cell that is no finite number, or a missing one.
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
    ) -> None:
        self.path = os.fspath(path)
        self.test_path = None if test_path is None else os.fspath(test_path)
        self.label = label if isinstance(label, str) else _names("label", label)
        self.features = None if features is None else _names("features", features)
        self.test_fraction = check_fraction(self, test_fraction)
        self.seed = arguments.integer(self, "seed", seed, minimum=0)
        if not isinstance(delimiter, str) or len(delimiter) != 1 or delimiter in '"\r\n':
            raise ValueError(f"CSVDataset 'delimiter' must be one character, no quote and no line end, got {delimiter!r}")
        if missing not in MISSING_POLICIES:
            raise ValueError(f"CSVDataset 'missing' must be one of {', '.join(MISSING_POLICIES)}, got {missing!r}")
        self.delimiter = delimiter
        self.missing = missing

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
        }

    def load(self, download: bool = True) -> Arrays:
        """Return the four arrays; nothing is ever downloaded."""
        path = find_given(self.path, self)
        labels = [self.label] if isinstance(self.label, str) else self.label
        features = self.features
        if features is None:
            features = [name for name in read_header(path, self.delimiter) if name not in labels]
            if not features:
                raise ValueError(f"CSVDataset: '{path}' must have columns besides {', '.join(labels)}")
        x, y = self._read(path, features, labels)
        if self.test_path is None:
            return split(x, self._labels(y), self.test_fraction, self.seed)
        test_x, test_y = self._read(find_given(self.test_path, self), features, labels)
        both = self._labels(np.concatenate([y, test_y]))
        return x, both[: len(y)], test_x, both[len(y) :]

    def _read(
        self, path: Path, features: Sequence[str], labels: Sequence[str]
    ) -> tuple[NDArray[np.float32], NDArray[np.float64]]:
        """Return features and labels ``(n, labels)`` of one file."""
        header = read_header(path, self.delimiter)
        for argument, names in (("label", labels), ("features", features)):
            for name in names:
                if name not in header:
                    held = ", ".join(header)[:400]
                    raise ValueError(f"CSVDataset '{argument}' must name columns of '{path}' ({held}), got {name!r}")
        table = read_columns(path, [*features, *labels], labels, self.delimiter, self.missing)
        if not len(table):
            raise ValueError(f"CSVDataset: '{path}' must have rows of numbers below its header")
        x, y = table[:, : len(features)], table[:, len(features) :]
        limit = float(np.finfo(np.float32).max)
        for name, column in zip([*features, *labels], table.T, strict=True):
            largest = float(np.abs(column).max(initial=0.0, where=~np.isnan(column)))
            if largest > limit:
                raise ValueError(f"CSVDataset: column {name!r} of '{path}' must fit float32, its largest value is {largest:g}")
        return x.astype(np.float32), y

    def _labels(self, y: NDArray[np.float64]) -> Array:
        """Return labels ``(n, labels)`` as the class says."""
        if not isinstance(self.label, str):
            return y.astype(np.float32)
        column = y[:, 0]
        whole = bool(np.all(column == np.rint(column))) and float(np.abs(column).max()) < 2**53
        return column.astype(np.int64 if whole else np.float32)


def _names(argument: str, value: Sequence[str]) -> list[str]:
    """Return `value` as a list of different names, at least one."""
    if isinstance(value, (str, bytes)) or not isinstance(value, Sequence) or not all(isinstance(name, str) for name in value):
        raise TypeError(f"CSVDataset '{argument}' must be a list of column names, got {value!r}")
    if not value or len(set(value)) != len(value):
        raise ValueError(f"CSVDataset '{argument}' must be a list of different column names, got {value!r}")
    return list(value)
