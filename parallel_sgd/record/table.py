"""Tables in files: one with rows that wait in memory while the disk refuses them, and those of a run that goes on."""

from __future__ import annotations

import csv
import io
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from io import BufferedReader
from itertools import takewhile
from pathlib import Path
from typing import Final

from rpc.support.files import append, open_below, publish
from rpc.support.logs import DISK_REFUSES, DISK_TAKES, get_logger

NODE: Final = "Node"
"""Column of tables that several workers share: the number of the worker."""
_MODE = 0o666  # less the bits of the user's mask
_log = get_logger("parallel_sgd.record.report")


class Table:
    """Writer of CSV into a new file, in place of one that is there.

    Args:
        path: the file.
        rows: the first rows.
        lasting: whether these outlive a loss of power, as those of a part that is over do. Rows that are added do not, so that
            a table which has only its head need not wait for the disk.

    A disk that is full for a moment costs nothing: the file that is there stays until the first rows of this one are written,
    and rows that are refused are kept, with a warning, and go out with a later `save`. No file stays open.
    """

    def __init__(self, path: Path, rows: Iterable[Sequence[object]], *, lasting: bool = True) -> None:
        self._path, self._lasting = path, lasting
        self._rows = list(rows)
        self._text = ""  # of rows that were refused
        self._begun = self._refused = False
        self.save()

    def add(self, rows: Iterable[Sequence[object]]) -> None:
        self._rows.extend(rows)

    def add_text(self, lines: str) -> None:
        """Add rows that are text already, `lines` with their ends."""
        self._take_rows()
        self._text += lines

    def _take_rows(self) -> None:
        text = io.StringIO(newline="")
        csv.writer(text, lineterminator="\n").writerows(self._rows)
        self._rows.clear()
        self._text += text.getvalue()

    def save(self) -> None:
        """Bring the rows into the file, or keep them for the next time."""
        try:
            self.close()
        except OSError as error:
            # told once while the disk is full, not with every save
            if not self._refused:
                self._refused = True
                words = "%s cannot be written, training goes on and its rows are kept: %s."
                _log.warning(words, self._path, error.strerror, extra=DISK_REFUSES)

    def close(self) -> None:
        """Bring the rows into the file.

        Raises: OSError when the disk refuses; they are kept, and whole rows only are in the file.
        """
        if not self._rows and not self._text:
            return
        self._take_rows()
        # a file of an earlier run stays until the first rows of this one are written
        if self._begun:
            append(self._path, self._text, _MODE)
        else:
            publish(self._path, self._text, _MODE, lasting=self._lasting)
        self._begun, self._text = True, ""
        if self._refused:
            self._refused = False
            _log.info("%s is written again.", self._path, extra=DISK_TAKES)


@dataclass(frozen=True)
class Earlier:
    """Tables in `folder` of a run that goes on after `position`, (epochs, batches of the next one) completed."""

    folder: Path
    position: tuple[int, int]

    def rows(self, path: Path, node_id: int, head: Sequence[str]) -> list[list[str]]:
        """Return the rows of the table that `path` continues, up to the position, of a ledger all; none where it has other
        columns.
        """
        kind = path.name.partition("-")[0]
        # a run that goes on may have another title, so a table of its kind will do
        found = [self.folder / path.name, *sorted(self.folder.glob(f"{kind}-*-N({node_id}).csv"))]
        opened = next(filter(None, (_opened(self.folder, file.name) for file in found)), None)
        if opened is None:
            return []
        with io.TextIOWrapper(opened, "utf-8", "replace", newline="") as file:
            rows = csv.reader(file)
            # metrics have changed: rows of other columns cannot be continued
            if next(rows, None) != list(head):
                return []
            kept = takewhile(lambda numbered: self._keeps(kind, *numbered, len(head)), enumerate(rows))
            return [row for _, row in kept]

    def _keeps(self, kind: str, number: int, row: list[str], columns: int) -> bool:
        """Tell if a row stays; False for the first row that is beyond the position, or was not written as a whole."""
        if len(row) != columns:
            return False
        # `LedgerTable` decides which of its rows stand, by the state itself
        if kind == "LEDGER":
            return True
        if kind == "EV":
            return number < self.position[0]
        by_epoch = kind in ("TI", "WH", "ID", "CT")
        epoch = row[0] if by_epoch else row[1]
        if not (epoch.isdecimal() and (by_epoch or row[2].isdecimal())):
            return False
        if kind == "ID" and self.position[1]:  # a process that has begun the epoch that goes on
            return int(epoch) <= self.position[0] + 1
        return int(epoch) <= self.position[0] if by_epoch else (int(epoch) - 1, int(row[2]) - 1) < self.position


def _opened(folder: Path, name: str) -> BufferedReader | None:
    """Open a table of an earlier run, if it is a regular file."""
    try:
        return open_below(folder, [name])
    except OSError:
        return None
