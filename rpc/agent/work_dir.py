"""An agent's work directory: private, and used by one agent at a time.

<work>/lock  agent.sock  audit.jsonl  log/  jobs/  placed/  cache/
"""

from __future__ import annotations

import fcntl
import os
from pathlib import Path

from network.errors import NetworkError

PLACED = "placed"


class WorkDirectory:
    """Makes `path` and its folders with mode 0700 and holds it until `close`.

    Raises: NetworkError when another agent uses it or it cannot be made.
    """

    def __init__(self, path: Path) -> None:
        self.path = path.absolute()
        self.log, self.jobs, self.placed, self.cache = (self.path / name for name in ("log", "jobs", PLACED, "cache"))
        self.socket = self.path / "agent.sock"
        self.audit = self.path / "audit.jsonl"
        self._lock = -1
        try:
            self.path.mkdir(mode=0o700, parents=True, exist_ok=True)
            status = self.path.stat()
            if status.st_uid != os.getuid() or status.st_mode & 0o077:
                raise NetworkError(
                    f"The work directory {self.path} must belong to this user and be closed to others (mode 0700); "
                    f"choose another --work-dir, or 'chmod 700' it if it is meant for this alone."
                )
            self._lock = os.open(self.path / "lock", os.O_RDWR | os.O_CREAT | os.O_NOFOLLOW | os.O_CLOEXEC, 0o600)
            fcntl.flock(self._lock, fcntl.LOCK_EX | fcntl.LOCK_NB)
            for folder in (self.log, self.jobs, self.placed, self.cache):
                folder.mkdir(mode=0o700, exist_ok=True)
        except BlockingIOError:
            self.close()
            raise NetworkError(
                f"The work directory {self.path} is used by another worker; choose another --work-dir."
            ) from None
        except OSError as error:
            self.close()
            raise NetworkError(f"The work directory {self.path} cannot be used: {error.strerror}.") from error

    def close(self) -> None:
        """Let another agent have it; idempotent."""
        if self._lock >= 0:
            os.close(self._lock)
            self._lock = -1
