"""Tables in files: one with rows that wait in memory while the disk refuses them, and those of a run that goes on."""

from __future__ import annotations

import csv
import io
import re
from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from io import BufferedReader
from itertools import takewhile
from pathlib import Path
from typing import Final

from rpc.support.files import append, continued, open_below, publish
from rpc.support.logs import DISK_REFUSES, DISK_TAKES, get_logger

NODE: Final = "Node"
"""Column of tables that several workers share: the number of the worker."""
_MODE = 0o666  # less the bits of the user's mask
_OF_STEPS: Final = re.compile(r"TR-.*-N\(([0-9]{1,9})\)\.csv")
_OF_ONE: Final = re.compile(r"-N\(-?[0-9]{1,9}\)\.csv$")
_NUMBER: Final = re.compile(r"[0-9]{1,9}")
#: By kind of a table, columns that those of earlier releases lack; rows that go on have _UNTOLD there.
_LATER: Final[Mapping[str, tuple[str, ...]]] = {"CL": ("of",)}
_UNTOLD: Final = "0"
_log = get_logger("parallel_sgd.record.report")


class Table:
    """Writer of CSV into a new file, in place of one that is there.

    Args:
        path: the file.
        rows: the first rows.
        lasting: whether these outlive a loss of power, as those of a part that is over do, where they come from another file.
            Rows that are added do not, so that a table which has only its head need not wait for the disk.

    A disk that is full for a moment costs nothing: the file that is there stays until the first rows of this one are written,
    and rows that are refused are kept, with a warning, and go out with a later `save`. No file stays open.
    """

    def __init__(self, path: Path, rows: Iterable[Sequence[object]], *, lasting: bool = True) -> None:
        self._path, self._lasting = path, lasting
        self._text = ""  # of rows that were refused
        self._refused = False
        self.begin_again(rows)

    def begin_again(self, rows: Iterable[Sequence[object]]) -> None:
        """Replace all rows, also those that are in the file."""
        self._rows, self._text, self._begun = list(rows), "", False
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
                _log.warning(words, self._path, error.strerror, extra={DISK_REFUSES: self._path})

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
        # a worker that starts again keeps most rows of its tables, or all
        elif not (self._lasting and continued(self._path, self._text, _MODE)):
            publish(self._path, self._text, _MODE, lasting=self._lasting)
        self._begun, self._text = True, ""
        if self._refused:
            self._refused = False
            _log.info("%s is written again.", self._path, extra={DISK_TAKES: self._path})


@dataclass(frozen=True)
class Earlier:
    """Tables of a part of a run that is over, which goes on after a position.

    Args:
        folder: that of the tables that the node has left; None where it has left none here.
        position: completed epochs, and completed batches of the next one.
        others: folders of tables that no node of the next part continues, as of workers that have another number by now.
        splits: whether rows of a table that several workers shared go on in tables of these; else the next part has such a
            table, too, which goes on.
    """

    folder: Path | None
    position: tuple[int, int]
    others: Sequence[Path] = ()
    splits: bool = True

    @property
    def _folders(self) -> list[Path]:
        return [*([] if self.folder is None else [self.folder]), *self.others]

    def numbers(self) -> list[int]:
        """List the workers of which there are rows of steps."""
        matches = (_OF_STEPS.fullmatch(file.name) for folder in self._folders for file in folder.glob("TR-*.csv"))
        return sorted({int(match[1]) for match in matches if match})

    def rows(self, path: Path, node_id: int, head: Sequence[str]) -> list[list[str]]:
        """Return the rows of the table that `path` continues, up to the position, of a ledger all; none where it has other
        columns.

        Args:
            path: the table.
            node_id: number of its node.
            head: its columns.
        """
        found: list[list[str]] = []
        for folder in self._folders:
            # a worker that has changed its number twice has left rows of one number in two places, and some in both
            known = Counter(map(tuple, found))
            for row in self._rows_in(folder, path, node_id, head):
                if known[tuple(row)] > 0:
                    known[tuple(row)] -= 1
                else:
                    found.append(row)
        return found

    def shared(self, kind: str, head: Sequence[str]) -> dict[int, list[list[str]]]:
        """Return the rows up to the position of tables that several workers shared, by number of the worker, where they are to
        go on in tables of these.

        Args:
            kind: that of the tables.
            head: the columns of the table of one worker.
        """
        found: dict[int, list[list[str]]] = {}
        for folder in self._folders if self.splits else ():
            for file in sorted(folder.glob(f"{kind}-*.csv")):
                # that of one worker, the most by far, is not opened
                if not _OF_ONE.search(file.name) and (opened := _opened(folder, file.name)) is not None:
                    for *row, number in self._kept(opened, kind, [*head, NODE]):
                        if _NUMBER.fullmatch(number):
                            found.setdefault(int(number), []).append(row)
        return found

    def _rows_in(self, folder: Path, path: Path, node_id: int, head: Sequence[str]) -> list[list[str]]:
        kind = path.name.partition("-")[0]
        # a run that goes on may have another title, so a table of its kind will do
        names = [folder / path.name, *sorted(folder.glob(f"{kind}-*-N({node_id}).csv"))]
        opened = next(filter(None, (_opened(folder, file.name) for file in names)), None)
        return [] if opened is None else self._kept(opened, kind, head)

    def _kept(self, opened: BufferedReader, kind: str, head: Sequence[str]) -> list[list[str]]:
        """Return the rows of a table up to the position; none where it has other columns."""
        with io.TextIOWrapper(opened, "utf-8", "replace", newline="") as file:
            rows = csv.reader(file)
            found, later = next(rows, None), _LATER.get(kind, ())
            before = [name for name in head if name not in later]
            # metrics have changed: rows of other columns cannot be continued
            if found is None or found not in (before, list(head)):
                return []
            kept = takewhile(lambda numbered: self._keeps(kind, *numbered, len(found)), enumerate(rows))
            if found == list(head):
                return [row for _, row in kept]
            values = (iter(row) for _, row in kept)
            return [[_UNTOLD if name in later else next(row) for name in head] for row in values]

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
