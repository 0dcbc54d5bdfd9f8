"""The log files of an agent: one for each time it was started, in rotated parts; the last twenty are kept."""

from __future__ import annotations

import contextlib
import time
from pathlib import Path

KEPT = 20
_STAMP = "%Y-%m-%d %H%M"


def new_log(folder: Path, name: str) -> Path:
    """Where an agent that starts now writes; the oldest files beyond those that are kept are removed."""
    for path in sorted(folder.glob("*.log*"), key=_last_written)[: -KEPT + 1]:
        path.unlink(missing_ok=True)
    return folder / f"{name} {time.strftime(_STAMP)}.log"


def logs_between(folder: Path, begin: float, end: float) -> list[Path]:
    """The files that were written while a job ran, oldest first; times in seconds since 1970."""
    found = [path for path in folder.glob("*.log*") if _last_written(path) >= begin and _begun(path) <= end]
    return sorted(found, key=_last_written)


def _last_written(path: Path) -> float:
    with contextlib.suppress(OSError):
        return path.stat().st_mtime
    return 0.0


def _begun(path: Path) -> float:
    """When the agent that wrote `path` was started: its name says it, to the minute."""
    stamp = path.name.partition(".log")[0].rpartition(" ")
    day = stamp[0].rpartition(" ")[2]
    with contextlib.suppress(ValueError, OverflowError):
        return time.mktime(time.strptime(f"{day} {stamp[2]}", _STAMP))
    return 0.0
