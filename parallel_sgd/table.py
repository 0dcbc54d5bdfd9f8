"""A table in a file, whose rows wait in memory while the disk refuses them."""

from __future__ import annotations

import csv
import io
from collections.abc import Iterable, Sequence
from pathlib import Path

from rpc.files import append, publish
from rpc.logs import get_logger

_MODE = 0o666  # less what the user's mask takes away
_log = get_logger("parallel_sgd.report")


class Table:
    """Writes CSV into a new file at `path`, in place of one that is there; its first rows are `rows`.

    A disk that is full for a moment costs nothing: the file that is there stays until the first rows of this one are written,
    and rows that are refused are kept, with a warning, and go out with a later `save`. No file stays open.
    """

    def __init__(self, path: Path, rows: Iterable[Sequence[object]]) -> None:
        self._path = path
        self._rows = list(rows)
        self._text = ""  # of rows that were refused
        self._begun = self._refused = False
        self.save()

    def add(self, rows: Iterable[Sequence[object]]) -> None:
        """More rows, for the next `save`."""
        self._rows.extend(rows)

    def save(self) -> None:
        """Bring the rows into the file, or keep them for the next time."""
        try:
            self.close()
        except OSError as error:
            if not self._refused:
                self._refused = True
                _log.warning("%s cannot be written, training goes on and its rows are kept: %s.", self._path, error.strerror)

    def close(self) -> None:
        """Bring the rows into the file.

        Raises: OSError when the disk refuses; they are kept, and whole rows only are in the file.
        """
        if not self._rows and not self._text:
            return
        text = io.StringIO(newline="")
        csv.writer(text, lineterminator="\n").writerows(self._rows)
        self._rows.clear()
        self._text += text.getvalue()
        if self._begun:
            append(self._path, self._text, _MODE)
        else:  # the one before is there until this has its place
            publish(self._path, self._text, _MODE)
        self._begun, self._text = True, ""
        if self._refused:
            self._refused = False
            _log.info("%s is written again.", self._path)
