"""The two tables that a worker writes: one row per block step (TR), one row per epoch (EV)."""

from __future__ import annotations

import csv
from collections.abc import Sequence
from pathlib import Path

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
    """Writes `TR-<title>-N(i).csv` and `EV-<title>-N(i).csv` into `directory`; numbers read back equal.

    Files of that name are replaced. Rows of block steps are kept until `save`, so that a step costs no file access; no file
    stays open.
    """

    def __init__(self, directory: Path, title: str, node_id: int, metrics: Sequence[str]) -> None:
        check_title(title)
        self.steps_path = directory / f"TR-{title}-N({node_id}).csv"
        self.evaluations_path = directory / f"EV-{title}-N({node_id}).csv"
        self._rows: list[tuple[float | int, ...]] = []
        _write(self.steps_path, "w", [("Time", "Epochs", "Batches", "in", "Total", "Loss", *metrics)])
        _write(self.evaluations_path, "w", [("Loss", *metrics)])

    def step(self, row: tuple[float | int, ...]) -> None:
        """One block step: seconds since the first batch, epoch and batch (from 1), block steps per epoch of this worker,
        block steps so far, loss, metrics.
        """
        self._rows.append(row)

    def evaluation(self, values: Sequence[float]) -> None:
        """One epoch: loss and metrics on the test set."""
        _write(self.evaluations_path, "a", [values])

    def save(self) -> None:
        """Bring the rows of block steps into the file."""
        _write(self.steps_path, "a", self._rows)
        self._rows.clear()


def _write(path: Path, mode: str, rows: Sequence[Sequence[object]]) -> None:
    with path.open(mode, newline="", encoding="utf-8") as file:
        csv.writer(file, lineterminator="\n").writerows(rows)
