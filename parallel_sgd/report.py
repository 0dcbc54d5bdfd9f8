"""The tables that a worker writes: a row per block step (TR); per epoch (EV, and its seconds, TI); per account (AC)."""

from __future__ import annotations

import csv
from collections.abc import Iterable, Sequence
from pathlib import Path

from .accounts import Entry
from .times import Times

_ACCOUNT_COLUMNS = ("Codec", "Variable", "Name", "Peer", "Direction", "Packets", "Raw", "Wire", "Overhead")
_SEPARATORS = frozenset('/\\:*?"<>|')


def check_title(title: str) -> str:
    """The title, which becomes part of file names.

    Raises: ValueError when it cannot.
    """
    if not title or title in (".", "..") or len(title.encode()) > 200 or not title.isprintable() or _SEPARATORS & set(title):
        raise ValueError(
            f"'mission_title' must be able to stand in a file name (1 to 200 bytes, printable, "
            f"none of {' '.join(sorted(_SEPARATORS))}), got {title!r}"
        )
    return title


class TrainingReport:
    """Writes `TR-`, `EV-`, `TI-` and `AC-<title>-N(i).csv` into `directory`; numbers read back equal.

    Files of that name are replaced. Rows of block steps are kept until `save`, so that a step costs no file access; no file
    stays open.
    """

    def __init__(self, directory: Path, title: str, node_id: int, metrics: Sequence[str]) -> None:
        check_title(title)
        self.paths = [directory / f"{kind}-{title}-N({node_id}).csv" for kind in ("TR", "EV", "TI", "AC")]
        self.steps_path, self.evaluations_path, self.times_path, self.accounts_path = self.paths
        self._times = Times(0.0, 0.0, 0.0, 0.0, 0.0)
        self._rows: list[tuple[float | int, ...]] = []
        _write(self.steps_path, "w", [("Time", "Epochs", "Batches", "in", "Total", "Loss", *metrics)])
        _write(self.evaluations_path, "w", [("Loss", *metrics)])
        _write(self.times_path, "w", [("Epochs", "Total", *(name.capitalize() for name in Times._fields))])
        _write(self.accounts_path, "w", [_ACCOUNT_COLUMNS])

    def step(self, row: tuple[float | int, ...]) -> None:
        """One block step: seconds since the first batch, epoch and batch (from 1), block steps per epoch of this worker,
        block steps so far, loss, metrics.
        """
        self._rows.append(row)

    def evaluation(self, values: Sequence[float]) -> None:
        """One epoch: loss and metrics on the test set."""
        _write(self.evaluations_path, "a", [values])

    def times(self, epoch: int, times: Times) -> None:
        """One epoch, from 1: the seconds that it took, and what for. `times` are those until now, of all epochs together."""
        passed = Times(*(now - before for now, before in zip(times, self._times, strict=True)))
        self._times = times
        _write(self.times_path, "a", [(epoch, round(passed.total, 6), *(round(seconds, 6) for seconds in passed))])

    def accounts(self, entries: Iterable[Entry], names: Sequence[str]) -> None:
        """All packets, one row per variable, peer and direction; sizes in bytes. `names` are those of the variables."""
        rows = [(e.codec, e.variable, names[e.variable] if e.variable < len(names) else "", *e[2:]) for e in entries]
        _write(self.accounts_path, "a", rows)

    def save(self) -> None:
        """Bring the rows of block steps into the file."""
        _write(self.steps_path, "a", self._rows)
        self._rows.clear()


def _write(path: Path, mode: str, rows: Sequence[Sequence[object]]) -> None:
    with path.open(mode, newline="", encoding="utf-8") as file:
        csv.writer(file, lineterminator="\n").writerows(rows)
