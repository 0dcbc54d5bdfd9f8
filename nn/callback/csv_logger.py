"""Callback that writes the results of each epoch into a text file."""

from __future__ import annotations

import csv
import io
import os
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

from nn import arguments
from nn.callback.callback import Callback
from nn.tensor_files import write_file


class CSVLogger(Callback, configured=True):
    """Log with one line per epoch, comma and header: `epoch` (from 1), `Loss`, the metrics and the `val_...` results.

    Numbers are written so that reading them gives the same bits. A line is written when its epoch has ended. A continued file
    loses the lines of epochs that the model has not trained, and a last line that a killed run left half written, so that the
    file of a continued run equals that of a run never stopped. Raises ValueError where the columns are others than those of
    the file, or change from epoch to epoch.

    Args:
        path: the file, in a job within the folder of the node; `filename` is the name that Keras gives it.
        append: whether a file that is there is continued (True) or replaced (False); by default (None) it is continued if the
            model was trained before.

    >>> model = nn.model.SequentialModel([-1, 4], [nn.layer.Dense(3)])
    >>> model.setup(nn.loss.Cross_Entropy_With_Softmax())
    >>> model.compile(nn.gradient_descent.SGDOptimizer(0.1))
    >>> logger = nn.callback.CSVLogger("log.csv")
    >>> history = model.fit(np.eye(4), [0, 1, 2, 0], epoch=2, callbacks=[logger], verbose=0)
    >>> np.loadtxt("log.csv", delimiter=",", skiprows=1).shape
    (2, 2)
    """

    @arguments.also(filename="path")
    def __init__(self, path: str | os.PathLike[str], append: bool | None = None) -> None:
        self.path = Path(arguments.new_path(self, "path", path, "a file"))
        self.append: bool | None = None if append is None else arguments.instance(self, "append", append, bool)
        self._columns: list[str] = []

    def on_train_begin(self) -> None:
        """Begin the file, or cut a continued one after the epochs that the model has trained."""
        self._columns = []
        kept: list[list[str]] = []
        goes_on = self.model.epochs_trained > 0 if self.append is None else self.append
        if goes_on and self._place.exists():
            kept = self._whole_lines()
            self._columns = kept[0] if kept else []
        # In one step, so that a run that is killed here keeps the old lines.
        write_file(self._place, _text(kept).encode())

    def on_epoch_end(self, epoch: int, logs: Mapping[str, float]) -> None:
        """Append a line."""
        names = ["epoch", *logs]
        lines: list[Sequence[object]] = []
        # With the first line, because the names of the results are known then.
        if not self._columns:
            self._columns = names
            lines.append(names)
        if names != self._columns:
            raise ValueError(
                f"CSVLogger writes the columns {', '.join(self._columns)} to {str(self.path)!r}, got {', '.join(names)}"
            )
        lines.append([self.model.epochs_trained, *(repr(float(value)) for value in logs.values())])
        # For each line, so that a killed run leaves all lines but perhaps the last one whole.
        with open(self._place, "a", encoding="utf-8", newline="") as file:
            file.write(_text(lines))

    def argument(self, name: str) -> Any:
        """Return one argument as `get_config` gives it."""
        return str(self.path) if name == "path" else super().argument(name)

    @property
    def _place(self) -> Path:
        return self._job_folder / self.path

    def _whole_lines(self) -> list[list[str]]:
        """Return the header and the lines of epochs that were trained."""
        text = self._place.read_text("utf-8")
        # Behind the last end of a line is what a killed run has left half written.
        rows = list(csv.reader(io.StringIO(text[: text.rfind("\n") + 1])))
        if rows and rows[0][:1] != ["epoch"]:
            raise ValueError(f"CSVLogger can continue a file that begins with the column 'epoch', got {str(self.path)!r}")
        trained = self.model.epochs_trained
        return [row for number, row in enumerate(rows) if not number or (row[0].isdecimal() and int(row[0]) <= trained)]


def _text(rows: Sequence[Sequence[object]]) -> str:
    buffer = io.StringIO()
    # The default of `csv` is the end of lines of Windows.
    csv.writer(buffer, lineterminator="\n").writerows(rows)
    return buffer.getvalue()
