"""From the files that the workers of a job have left to its ledger."""

from __future__ import annotations

from collections.abc import Mapping
from io import BytesIO
from pathlib import Path

import numpy as np

from rpc.logs import SUBMIT_LOGGER, get_logger

from .history import COLUMNS
from .ledger import Grid, Ledger, Table

_log = get_logger(SUBMIT_LOGGER)


def collect(title: str, files: Mapping[int, list[Path]], grid: Grid) -> Ledger | None:
    """Write `LEDGER-<title>.csv` beside the first worker's own, add it to that one's `files`, and warn of what it lacks.

    None where the workers keep no ledger, because each trains a model of its own.
    """
    found: dict[int, Path] = {}
    for node, paths in sorted(files.items()):
        for folder in {path.parent for path in paths}:
            (folder / f"LEDGER-{title}.csv").unlink(missing_ok=True)  # of the last run of this title
        found.update((node, path) for path in paths if path.name == f"LEDGER-{title}-N({node}).csv")
    if not found:
        return None
    contents: dict[bytes, int] = {}  # most workers have the same
    for node, path in found.items():
        contents.setdefault(path.read_bytes(), node)
    tables = []
    for content, node in contents.items():
        try:
            tables.append(_table(content))
        except ValueError as error:
            _log.warning("The ledger of node(%s) cannot be read: %s", node, str(error)[:100])
    home = min(found)
    ledger = Ledger.of(tables, grid, found[home].parent / f"LEDGER-{title}.csv")
    ledger.save()
    files[home].append(ledger.path)
    if ledger.problems:
        _log.warning("Not every block was applied exactly once (%s): %s.", ledger.path, "; ".join(ledger.problems))
    return ledger


def _table(content: bytes) -> Table:
    """The rows of a file, without one that was not written to its end.

    Raises: ValueError for what is no ledger.
    """
    end = content.rfind(b"\n") + 1
    file = BytesIO(content[:end])
    head = file.readline(200).decode("utf-8").rstrip("\r\n")
    if tuple(head.split(",")) != COLUMNS:
        raise ValueError(f"it begins with {head[:80]!r}, not with {','.join(COLUMNS)!r}")
    if file.tell() == end:
        return np.empty((0, len(COLUMNS)), np.int64)
    table = np.loadtxt(file, np.int64, delimiter=",", ndmin=2)  # line by line: a list of all takes 30 times the file
    if table.shape[1] != len(COLUMNS):
        raise ValueError(f"its rows have {table.shape[1]} columns, not {len(COLUMNS)}")
    return table
