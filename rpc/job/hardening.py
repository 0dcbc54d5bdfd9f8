"""Hardening of the processes of agents and jobs by the kernel, and the end of all processes that jobs have started.

All of it is Linux's; elsewhere these functions do nothing, and a job's processes are ended as far as they stay in its group.
"""

from __future__ import annotations

import contextlib
import ctypes
import os
import resource
import signal
import sys
import time
from pathlib import Path
from typing import Final

_PR_SET_PDEATHSIG, _PR_SET_DUMPABLE, _PR_SET_NAME, _PR_SET_CHILD_SUBREAPER = 1, 4, 15, 36
REFUSE_INSPECTION: Final = (
    f"import ctypes, sys; sys.platform == 'linux' and ctypes.CDLL(None).prctl({_PR_SET_DUMPABLE}, 0, 0, 0, 0)"
)
"""`refuse_inspection` as the first line of a program, because to import anything of ours takes a tenth of a second."""
_END_SECONDS, _ORPHANED_SECONDS = 1.0, 5.0
_LOOK_SECONDS = 0.002


def refuse_inspection() -> None:
    """Keep other processes of the same user out of this one's memory, environment and descriptors: it holds a key.

    Job processes run as the agent's user. Without this they could read all that through /proc, or attach as a debugger. It
    lasts until the next exec, so children start without it; a job process must, because its peers map its memory through /proc.
    macOS needs nothing: there another process' memory is for root and authorised debuggers only, and PT_DENY_ATTACH would
    forbid no more than the system forbids already.
    """
    _prctl(_PR_SET_DUMPABLE, 0)


def allow_inspection() -> None:
    """Take `refuse_inspection` back, in a process that was forked and holds no key."""
    _prctl(_PR_SET_DUMPABLE, 1)


def name_process(name: str) -> None:
    """Let `ps` and `top` show `name`, of at most 15 characters."""
    _prctl(_PR_SET_NAME, name.encode())


def wake_when_orphaned() -> None:
    """Let the system send SIGCONT when the agent dies (elsewhere a stopped process stays stopped).

    To a process that runs the signal means nothing: it sees its agent's end by itself.
    """
    _prctl(_PR_SET_PDEATHSIG, int(signal.SIGCONT))


def adopt_orphans() -> None:
    """Make this process the parent of every descendant that loses its own, in any session and group.

    A job process adopts the processes it has started, its agent adopts these when the job process is gone: so none can hide,
    and its job is known. One that has ended stays a zombie until the job process ends.
    """
    _prctl(_PR_SET_CHILD_SUBREAPER, 1)


def children() -> set[int]:
    """List the children of this process, also those that have ended and were not waited for; none where that cannot be seen."""
    found: set[int] = set()
    # one file for each thread, as a child is listed with the thread that started it
    for path in Path("/proc/self/task").glob("*/children"):
        with contextlib.suppress(OSError):  # a thread that has ended meanwhile
            found.update(map(int, path.read_text("ascii").split()))
    return found


def kill_and_wait(pids: set[int]) -> None:
    """Kill these children, and wait for those that have ended already: the processes that they have started become ours."""
    # all are killed before any is waited for: one could start others meanwhile
    for pid in pids:
        with contextlib.suppress(ProcessLookupError, PermissionError):  # gone, or of another user
            os.kill(pid, signal.SIGKILL)
    for pid in pids:
        with contextlib.suppress(ChildProcessError):
            # without waiting: one in an uninterruptible wait must not hold us
            os.waitpid(pid, os.WNOHANG)


def end_descendants(seconds: float = _END_SECONDS) -> None:
    """End all processes that this one, which is about to end, has started; those that live after `seconds` are given up.

    Its agent goes on with these, if there is one.
    """
    deadline = time.monotonic() + seconds
    while (left := children()) and time.monotonic() < deadline:
        # again and again: orphans of a killed process become ours in the next round
        kill_and_wait(left)
        time.sleep(_LOOK_SECONDS)


def end_process(code: int) -> None:
    """End this job process at once, and everything that it has started."""
    end_descendants(_ORPHANED_SECONDS)
    # only where it leads its group: else the starter's terminal group would be killed
    if os.getpgrp() == os.getpid():
        os.killpg(0, signal.SIGKILL)
    os._exit(code)


def _prctl(option: int, value: int | bytes) -> None:
    if sys.platform == "linux":
        with contextlib.suppress(OSError, AttributeError):  # a C library that does not know of it
            ctypes.CDLL(None).prctl(option, value, 0, 0, 0)


MAX_FILE_BYTES = 64 << 30
_OPEN_FILES = 4096


def set_limits() -> None:
    """Set limits: no core dumps, which would hold keys; no endless file; room for a connection with every node of a large
    job.
    """
    resource.setrlimit(resource.RLIMIT_CORE, (0, 0))
    _lower(resource.RLIMIT_FSIZE, MAX_FILE_BYTES)
    soft, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
    wanted = _OPEN_FILES if hard == resource.RLIM_INFINITY else min(_OPEN_FILES, hard)
    if soft != resource.RLIM_INFINITY and soft < wanted:
        resource.setrlimit(resource.RLIMIT_NOFILE, (wanted, hard))


def _lower(kind: int, most: int) -> None:
    soft, hard = resource.getrlimit(kind)
    # never raised: the user may have set less
    if soft == resource.RLIM_INFINITY or soft > most:
        resource.setrlimit(kind, (most, hard))
