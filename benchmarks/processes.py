"""Processor seconds of processes, as Linux tells them under /proc."""

from __future__ import annotations

import os
from pathlib import Path

_TICKS = os.sysconf("SC_CLK_TCK")


def children_of(pid: int) -> list[int]:
    return [int(each) for path in Path(f"/proc/{pid}/task").glob("*/children") for each in path.read_text("ascii").split()]


def cpu_seconds(pid: int, and_ended_children: bool = False) -> float:
    """Return the seconds of a core that a process has used, and on request its children that have ended."""
    fields = Path(f"/proc/{pid}/stat").read_text("ascii", errors="replace").rpartition(")")[2].split()
    return sum(map(int, fields[11 : 15 if and_ended_children else 13])) / _TICKS


def tree_seconds(pid: int) -> float:
    """Return the seconds of a core that a process and all its descendants have used.

    A process that ends meanwhile counts where it is waited for. What its parent does not wait for is lost.
    """
    try:
        return cpu_seconds(pid, and_ended_children=True) + sum(map(tree_seconds, children_of(pid)))
    except (FileNotFoundError, ProcessLookupError):
        return 0.0
