"""Processes as Linux tells of them; those of another system are not seen."""

from __future__ import annotations

import contextlib
import os
from pathlib import Path


def children_of(pid: int | None = None) -> set[int]:
    """The living children of a process, by default this one."""
    found: set[int] = set()
    for path in Path(f"/proc/{pid or os.getpid()}/task").glob("*/children"):
        with contextlib.suppress(OSError):  # a thread that has ended meanwhile
            found.update(map(int, path.read_text().split()))
    return {child for child in found if not is_gone(child)}


def is_gone(pid: int) -> bool:
    """Whether a process has ended, though its parent may not have asked for its exit code."""
    try:
        return Path(f"/proc/{pid}/stat").read_text(errors="replace").rpartition(")")[2].split()[0] in "ZX"
    except OSError:
        return True
