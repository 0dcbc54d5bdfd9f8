"""The child processes of an agent: those that it starts, and those of jobs that it adopts."""

from __future__ import annotations

import os
import subprocess
import time
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import network

from ..job.hardening import adopt_orphans, children, kill_and_wait
from ..job.kernels import KERNEL_VARIABLES

_MOST_ROUNDS = 100  # in one go, against who forks faster than it is killed
_CLOSE_SECONDS = 2.0
_LOOK_SECONDS = 0.005


class ChildProcesses:
    """Starts the agent's children, each the leader of a session, and ends those that it did not start.

    With `adopts` this process becomes the parent of whatever a job has left behind. Any child that it has not started and
    that was not there before is taken for that, so say so only for a process that is an agent and nothing else.
    """

    def __init__(self, adopts: bool) -> None:
        self._adopts = adopts
        self._spared = children() if adopts else set()
        self._started: list[subprocess.Popen[bytes]] = []
        if adopts:
            adopt_orphans()

    def start(self, command: list[str], **options: Any) -> subprocess.Popen[bytes]:
        """`subprocess.Popen` with `options`, in a new session and under a private umask.

        Raises: OSError.
        """
        self._started = [process for process in self._started if process.returncode is None]
        process = subprocess.Popen(command, start_new_session=True, umask=0o077, **options)
        self._started.append(process)
        return process

    def end_adopted(self) -> set[int]:
        """Kill what has been adopted; returns what is still there of it, which takes some milliseconds to end.

        Job processes adopt what they have started themselves, so what comes here is of a job process that has ended.
        """
        if not self._adopts:
            return set()
        started = {process.pid for process in self._started if process.returncode is None}
        last: set[int] = set()
        for _ in range(_MOST_ROUNDS):
            present = children()
            self._spared &= present  # a number that is free again may be given to a stranger
            left = present - self._spared - started
            if left == last:
                break
            kill_and_wait(left)
            last = left
        return last

    def give_up(self, pids: set[int]) -> None:
        """Nobody waits any more for the end of these, which have been adopted and cannot be killed."""
        self._spared |= pids

    def close(self) -> None:
        deadline = time.monotonic() + _CLOSE_SECONDS
        while self.end_adopted() and time.monotonic() < deadline:
            time.sleep(_LOOK_SECONDS)


_KEPT = (
    *("PATH", "HOME", "USER", "LANG", "TZ", "TMPDIR", "VIRTUAL_ENV", "LD_LIBRARY_PATH", "DYLD_LIBRARY_PATH"),
    *("PSGD_DATA", "XDG_CACHE_HOME"),
    *KERNEL_VARIABLES,
)
_BLAS_THREADS = ("OMP_NUM_THREADS", "OPENBLAS_NUM_THREADS", "MKL_NUM_THREADS", "BLIS_NUM_THREADS", "VECLIB_MAXIMUM_THREADS")


def project_root() -> str:
    return str(Path(network.__file__).resolve().parent.parent)


def child_environment(environ: Mapping[str, str], blas_threads: int) -> dict[str, str]:
    kept = {name: environ[name] for name in _KEPT if name in environ}
    kept.update({name: value for name, value in environ.items() if name.startswith("LC_")})
    kept["PYTHONPATH"] = os.pathsep.join([project_root(), *filter(None, [environ.get("PYTHONPATH")])])
    kept["PYTHONSAFEPATH"] = "1"
    kept.update(dict.fromkeys(_BLAS_THREADS, str(blas_threads)))
    return kept
