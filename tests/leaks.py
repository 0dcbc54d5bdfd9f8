"""What a test may leave behind: nothing. Threads, child processes and open sockets are compared before and after."""

from __future__ import annotations

import contextlib
import ctypes
import gc
import os
import signal
import stat
import sys
import threading
import time
from collections.abc import Iterator
from pathlib import Path
from typing import NamedTuple

import pytest

from tests.proc import children_of

GRACE_SECONDS = 10.0  # for what is on its way out when the test returns
_PR_SET_CHILD_SUBREAPER = 36
# helpers that tools start once per process and keep: pytest-timeout's timer, tqdm's monitor, the tracker of multiprocessing,
# the thread in which Dask packs large messages
_KEPT_THREADS = ("pytest_timeout", "Dask-Offload")
_KEPT_COMMANDS = (b"multiprocessing.resource_tracker", b"multiprocessing.forkserver")


class State(NamedTuple):
    """What this process holds at one moment."""

    threads: frozenset[threading.Thread]
    children: frozenset[int]
    sockets: frozenset[tuple[int, int]]  # descriptor and inode


def adopt_orphans() -> None:
    """Make this process the parent of every descendant that loses its own, so that none can hide (Linux)."""
    if sys.platform == "linux":
        ctypes.CDLL(None, use_errno=True).prctl(_PR_SET_CHILD_SUBREAPER, 1, 0, 0, 0)


def state() -> State:
    """The threads, children and sockets of this process."""
    return State(frozenset(threading.enumerate()), frozenset(_children()), frozenset(_sockets()))


def _children() -> Iterator[int]:
    """Running children (Linux; none elsewhere). Those that have ended are no leak."""
    return (pid for pid in children_of() if _counts(pid))


def _counts(pid: int) -> bool:
    try:
        command = Path(f"/proc/{pid}/cmdline").read_bytes()
    except OSError:
        return False
    return not any(kept in command for kept in _KEPT_COMMANDS)


def _sockets() -> Iterator[tuple[int, int]]:
    for name in os.listdir("/dev/fd"):
        with contextlib.suppress(OSError):  # the descriptor of the listing itself is gone by now
            status = os.fstat(int(name))
            if stat.S_ISSOCK(status.st_mode):
                yield int(name), status.st_ino


def difference(before: State, after: State) -> list[str]:
    """What is new in `after`, one phrase each."""
    threads = [t for t in after.threads - before.threads if not type(t).__module__.startswith("tqdm")]
    found = [f"thread {t.name!r}" for t in threads if t.is_alive() and not t.name.startswith(_KEPT_THREADS)]
    found += [f"child process {pid}: {_command(pid)}" for pid in sorted(after.children - before.children)]
    return found + [f"socket with descriptor {number}" for number, _ in sorted(after.sockets - before.sockets)]


def _command(pid: int) -> str:
    try:
        return Path(f"/proc/{pid}/cmdline").read_bytes().replace(b"\0", b" ").decode(errors="replace").strip()[:200]
    except OSError:
        return "ended"


@contextlib.contextmanager
def no_leaks(grace: float = GRACE_SECONDS) -> Iterator[None]:
    """Fail when the block leaves something behind; what ends within `grace` seconds is none. Left children are killed."""
    before = state()
    yield
    left = difference(before, state())
    deadline = time.monotonic() + grace
    while left and time.monotonic() < deadline:
        gc.collect()  # whatever only a cycle keeps warns about itself
        threading.Event().wait(0.01)
        left = difference(before, state())
    if left:
        _kill_new(before)
        pytest.fail(f"This test leaves behind: {'; '.join(left)}.", pytrace=False)


def _kill_new(before: State) -> None:
    """Kill new children until there are none: those of a killed one become ours."""
    for _ in range(16):
        new = frozenset(_children()) - before.children
        if not new:
            return
        for pid in new:
            with contextlib.suppress(ProcessLookupError):
                os.kill(pid, signal.SIGKILL)
        for pid in new:
            with contextlib.suppress(ChildProcessError):
                os.waitpid(pid, 0)
