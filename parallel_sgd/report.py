"""The two tables that a worker writes: one row per block step (TR), one row per epoch (EV)."""

from __future__ import annotations

import csv
from collections.abc import Sequence
from pathlib import Path
from typing import IO

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

    Rows are kept until `save`, which the training calls after every epoch, so that a step costs no file access.
    """

    def __init__(self, directory: Path, title: str, node_id: int, metrics: Sequence[str]) -> None:
        check_title(title)
        self.steps_path = directory / f"TR-{title}-N({node_id}).csv"
        self.evaluations_path = directory / f"EV-{title}-N({node_id}).csv"
        self._steps = self.steps_path.open("w", newline="", encoding="utf-8")
        self._evaluations = self.evaluations_path.open("w", newline="", encoding="utf-8")
        self._rows: list[tuple[float | int, ...]] = []
        _write(self._steps, [("Time", "Epochs", "Batches", "in", "Total", "Loss", *metrics)])
        _write(self._evaluations, [("Loss", *metrics)])

    def step(self, row: tuple[float | int, ...]) -> None:
        """One block step: seconds since the first batch, epoch and batch (from 1), block steps per epoch of this worker,
        block steps so far, loss, metrics.
        """
        self._rows.append(row)

    def evaluation(self, values: Sequence[float]) -> None:
        """One epoch: loss and metrics on the test set."""
        _write(self._evaluations, [values])

    def save(self) -> None:
        """Bring everything into the files."""
        _write(self._steps, self._rows)
        self._rows.clear()

    def close(self) -> None:
        """Save and close the files; harmless when closed already."""
        if not self._steps.closed:
            self.save()
            self._steps.close()
            self._evaluations.close()


def _write(file: IO[str], rows: Sequence[Sequence[object]]) -> None:
    csv.writer(file, lineterminator="\n").writerows(rows)
    file.flush()
