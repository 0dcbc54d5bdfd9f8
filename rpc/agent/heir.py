"""The process that takes over a job: a child of the agent that ends with it. It runs no user code, so it may hold the key."""

from __future__ import annotations

import contextlib
import os
import signal
import subprocess
import sys
from pathlib import Path

from network.keyring import Key

from .environment import child_environment

ESTATE, CHARTER = "estate", "charter.json"


def log_name(node: int) -> str:
    """The heir's log in the folder of the job."""
    return f"Drive-{node}.log"


class Heir:
    """Calls `main` of `module` in a fresh interpreter, with the folder of the job and that of the cache as arguments.

    Its standard input gives it the cluster's key, and ends when the agent does. Raises: OSError when it cannot be started.
    """

    def __init__(self, module: str, folder: Path, node: int, cache: Path, key: Key) -> None:
        log = os.open(folder / log_name(node), os.O_WRONLY | os.O_CREAT | os.O_APPEND | os.O_NOFOLLOW | os.O_CLOEXEC, 0o600)
        try:
            self._process = subprocess.Popen(
                [sys.executable, "-c", f"from {module} import main; main()", str(folder), str(cache)],
                cwd=folder,
                env=child_environment(os.environ, 1),
                stdin=subprocess.PIPE,
                stdout=log,
                stderr=log,
                start_new_session=True,
                umask=0o077,
            )
        finally:
            os.close(log)
        if self._process.stdin is not None:
            with contextlib.suppress(OSError):  # it has ended already, which `ended` will tell
                os.write(self._process.stdin.fileno(), key.secret)

    @property
    def pid(self) -> int:
        """Its process id."""
        return self._process.pid

    @property
    def ended(self) -> bool:
        """Whether it is gone; then nothing is left of it."""
        if self._process.poll() is None:
            return False
        self._let_go()
        return True

    def end(self) -> None:
        """End it, and wait for that."""
        with contextlib.suppress(ProcessLookupError, PermissionError):
            os.killpg(self._process.pid, signal.SIGKILL)
        self._process.wait()
        self._let_go()

    def _let_go(self) -> None:
        if self._process.stdin is not None:
            with contextlib.suppress(OSError):
                self._process.stdin.close()
