"""Processes as Linux tells of them; those of another system are not seen."""

from __future__ import annotations

import contextlib
import os
from pathlib import Path

JOB = "psgd-job"  # as which `ps -o comm` shows job processes


def children_of(pid: int | None = None, *, with_ended: bool = False) -> set[int]:
    """The living children of a process, by default this one; also those that have ended and for whose exit code it has not
    asked yet."""
    found: set[int] = set()
    for path in Path(f"/proc/{pid or os.getpid()}/task").glob("*/children"):
        with contextlib.suppress(OSError):  # a thread that has ended meanwhile
            found.update(map(int, path.read_text().split()))
    return {child for child in found if with_ended or not is_gone(child)}


def at_work_for(agent: int) -> set[int]:
    """The living children of an agent but the one that it forks them from, which stays."""
    return {pid for pid in children_of(agent) if not is_fork_server(pid)}


def is_fork_server(pid: int) -> bool:
    """Whether it is what an agent forks job processes from; it ends with the agent and is of no job."""
    try:
        place = Path(f"/proc/{pid}")
        forked = b"rpc.job.fork_server" in place.joinpath("cmdline").read_bytes()
        return forked and place.joinpath("comm").read_text().strip() != JOB
    except OSError:
        return False


def is_job(pid: int) -> bool:
    """Whether it is a job process."""
    try:
        return Path(f"/proc/{pid}/comm").read_text().strip() == JOB
    except OSError:
        return False


def is_gone(pid: int) -> bool:
    """Whether a process has ended, though its parent may not have asked for its exit code."""
    try:
        return Path(f"/proc/{pid}/stat").read_text(errors="replace").rpartition(")")[2].split()[0] in "ZX"
    except OSError:
        return True
