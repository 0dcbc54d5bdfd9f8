"""Cores that this process may use, less those that affinity and control groups take away, and the limit of its processes."""

from __future__ import annotations

import contextlib
import errno
import math
import os
import resource
import threading
import traceback
from collections.abc import Iterator
from pathlib import Path, PurePosixPath

CAP = "cores"
"""Under this name an agent tells which cores it may use."""
_MOST_DIGITS = 1024
_ROOT = Path("/")


def usable_cores(root: Path = _ROOT) -> int:
    """Count the cores that this process may use: those of its affinity, but no more than the quota of its control group.

    A quota that is no whole number of cores counts as the next lower one: a thread more would use the quota up before the end
    of each period, and then all threads stand still together.

    Args:
        root: where `proc` and `sys` are; another folder than `/` is for tests.

    Returns: at least 1.
    """
    # affinity first: `os.cpu_count` counts the cores that this process may not use
    cores = len(os.sched_getaffinity(0)) if hasattr(os, "sched_getaffinity") else os.cpu_count() or 1
    return max(1, min([cores, *map(math.floor, _quotas(root))]))


def load_per_core() -> float:
    """Return how many processes wanted to run in the last minute, for each core of the machine; NaN where it tells none."""
    # of the machine, as the load is: others may use the cores that this process may not
    return os.getloadavg()[0] / (os.cpu_count() or 1) if hasattr(os, "getloadavg") else math.nan


def cores_as_cap() -> str:
    """Write the cores of this process's affinity as the bits of a hexadecimal number; "" where the system has none."""
    cores = os.sched_getaffinity(0) if hasattr(os, "sched_getaffinity") else ()
    return f"{sum(1 << core for core in cores):x}" if cores else ""


def share_cores(one: object, other: object) -> bool:
    """Tell if two agents of one host, by the texts of `cores_as_cap` of each, may use the same core; True where it is
    unknown.
    """
    sets = []
    for cap in (one, other):
        try:
            # the word of an agent: a number of bounded length
            sets.append(int(cap, 16) if isinstance(cap, str) and len(cap) <= _MOST_DIGITS else 0)
        except ValueError:
            sets.append(0)
    return not all(sets) or bool(sets[0] & sets[1])


def _quotas(root: Path) -> Iterator[float]:
    """Yield each limit on the cores of this process, in cores; a group has those of the groups around it, too."""
    for folder, top, is_unified in _groups(root):
        # a group is bounded by those around it
        for group in (folder, *folder.parents):
            quota = _unified_quota(group) if is_unified else _first_quota(group)
            if quota is not None:
                yield quota
            if group == top:
                break


def _groups(root: Path) -> Iterator[tuple[Path, Path, bool]]:
    """Yield the group of this process in each hierarchy that limits cores, the top of that, and whether it is of version 2."""
    groups: dict[bool, str] = {}
    for line in _lines(root / "proc/self/cgroup"):
        _, controllers, path = [*line.split(":", 2), "", ""][:3]
        # version 2 has one line without controllers; of version 1 the one with `cpu` counts
        if not controllers or "cpu" in controllers.split(","):
            groups[not controllers] = path
    for line in _lines(root / "proc/self/mountinfo"):
        mount, _, system = line.partition(" - ")
        fields, about = mount.split(" "), system.split(" ")
        if len(fields) < 5 or len(about) < 3:
            continue
        is_unified = about[0] == "cgroup2"
        if is_unified in groups and (is_unified or (about[0] == "cgroup" and "cpu" in about[2].split(","))):
            top = root / fields[4].lstrip("/")
            inside = PurePosixPath(groups[is_unified])
            # in a container the path is that on the host, of which only a part is mounted, or none that can be seen
            with contextlib.suppress(ValueError):
                inside = inside.relative_to(fields[3])
            folder = top / str(inside).lstrip("/")
            yield (folder if ".." not in inside.parts and folder.is_dir() else top), top, is_unified


def _unified_quota(group: Path) -> float | None:
    """Read the quota of a group of version 2: microseconds or `max`, and the period."""
    words = " ".join(_lines(group / "cpu.max")).split()
    return _ratio(words[0], words[1]) if len(words) == 2 else None


def _first_quota(group: Path) -> float | None:
    """Read the quota of a group of version 1, where -1 is none."""
    quota, period = (" ".join(_lines(group / f"cpu.cfs_{name}_us")) for name in ("quota", "period"))
    return _ratio(quota, period)


def _ratio(quota: str, period: str) -> float | None:
    # `max` and -1 are no limit, and no decimals; an empty text is a file that is not there
    if not (quota.isdecimal() and period.isdecimal()) or not int(period):
        return None
    return int(quota) / int(period)


def _lines(path: Path) -> list[str]:
    try:
        return path.read_text("utf-8", "replace").splitlines()
    except OSError:
        return []


def limit_met(error: BaseException) -> str:
    """Return that no more processes or threads may be started here, where `error` comes of that; "" for any other error."""
    # fork and clone say EAGAIN at the limit of processes
    process = isinstance(error, OSError) and error.errno == errno.EAGAIN
    return process_limit() if process or _is_no_thread(error) else ""


def _is_no_thread(error: BaseException) -> bool:
    """Tell if the system has refused a new thread, for which Python has no class of errors and in each version other words.

    Such an error comes out of `Thread.start`, of a thread that has not been started before.
    """
    if type(error) is not RuntimeError:
        return False
    frames = [frame for frame, _ in traceback.walk_tb(error.__traceback__)]
    if not frames or frames[-1].f_code is not threading.Thread.start.__code__:
        return False
    thread = frames[-1].f_locals["self"]
    return bool(vars(thread).get("_initialized")) and thread.ident is None


def process_limit() -> str:
    """Return that no more processes or threads may be started here, and the limit."""
    soft, _ = resource.getrlimit(resource.RLIMIT_NPROC)
    if soft == resource.RLIM_INFINITY:
        return "no more processes or threads, by a limit of this machine or container"
    return f"no more processes or threads (ulimit -u {soft})"
