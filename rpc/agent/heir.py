"""The process that takes over a job: a child of the agent that ends with it. It runs no user code, so it may hold the key."""

from __future__ import annotations

import contextlib
import os
import signal
import socket
import sys
from pathlib import Path

from network.keyring import Key

from ..hardening import REFUSE_INSPECTION
from .children import ChildProcesses
from .environment import child_environment

ESTATE, CHARTER = "estate", "charter.json"


def log_name(node: int) -> str:
    """The heir's log in the folder of the job."""
    return f"Drive-{node}.log"


class Heir:
    """Calls `main` of `module` in a fresh interpreter, with the folder of the job and that of the cache as arguments.

    Its standard input gives it the cluster's key, and ends when the agent does. Raises: OSError when it cannot be started.
    """

    def __init__(self, module: str, folder: Path, node: int, cache: Path, key: Key, children: ChildProcesses) -> None:
        with contextlib.ExitStack() as held:
            log = os.open(folder / log_name(node), os.O_WRONLY | os.O_CREAT | os.O_APPEND | os.O_NOFOLLOW | os.O_CLOEXEC, 0o600)
            held.callback(os.close, log)
            # not a pipe: until the heir refuses inspection, a pipe could be opened through /proc, and the key read from it
            self._line, theirs = socket.socketpair()
            held.callback(theirs.close)
            try:
                self._process = children.start(
                    [sys.executable, "-c", f"{REFUSE_INSPECTION}; from {module} import main; main()", str(folder), str(cache)],
                    cwd=folder,
                    env=child_environment(os.environ, 1),
                    stdin=theirs,
                    stdout=log,
                    stderr=log,
                )
            except BaseException:
                self._line.close()
                raise
        with contextlib.suppress(OSError):  # it has ended already, which `ended` will tell
            self._line.send(key.secret, getattr(socket, "MSG_NOSIGNAL", 0))

    @property
    def pid(self) -> int:
        """Its process id."""
        return self._process.pid

    @property
    def ended(self) -> bool:
        """Whether it is gone; then nothing is left of it."""
        if self._process.poll() is None:
            return False
        self._line.close()
        return True

    def end(self) -> None:
        """End it, and wait for that."""
        with contextlib.suppress(ProcessLookupError, PermissionError):
            os.killpg(self._process.pid, signal.SIGKILL)
        self._process.wait()
        self._line.close()
