"""Temporary folders that go with their process, or, where it was killed, with a later one of the same user.

A folder holds a file on which its process keeps a lock. The kernel lets go of the lock however the process ends, so no number
of a process is looked at, which another one may have by then. Its name has that of the host: some file systems that hosts share
keep locks on each host for itself.
"""

from __future__ import annotations

import contextlib
import fcntl
import os
import shutil
import stat
import tempfile
from pathlib import Path
from typing import Final

from .forks import OwnProcess, close_in_children

__all__ = ["TemporaryFolder", "remove_abandoned"]

PREFIX: Final = "psgd-"
#: File that a worker locks in its work directory, which may lie in such a folder.
LOCK: Final = "lock"
_looked: set[str] = set()


class TemporaryFolder:
    """Temporary folder of this process, for it alone; in a `with` block its path, which goes with the block.

    The first one of a process removes those that killed processes have left.

    Args:
        purpose: a word for its name.
        parent: where it is made, by default the place of temporary files.
    """

    def __init__(self, purpose: str = "", parent: str | None = None) -> None:
        root = tempfile.gettempdir() if parent is None else parent
        if root not in _looked:
            _looked.add(root)
            remove_abandoned(Path(root))
        self.path: Final = Path(tempfile.mkdtemp(prefix=f"{PREFIX}{purpose}-" if purpose else PREFIX, dir=parent))
        self._process, self._owner = OwnProcess(), owner_file()
        self._lock = _Lock()
        # a file system without locks, or a full disk: what a killed process leaves then stays
        with contextlib.suppress(OSError):
            draft = self.path / f"{self._owner}.new"
            self._lock.take(draft, os.O_CREAT | os.O_EXCL)
            # under its name once it is locked: nobody finds it before
            draft.rename(self.path / self._owner)

    def close(self) -> None:
        """Remove the folder with all that is in it; in a child that was forked nothing."""
        if self._process.is_here:
            with contextlib.suppress(OSError):
                _remove(self.path, self._owner)
            self._lock.close()

    def __enter__(self) -> Path:
        return self.path

    def __exit__(self, *_: object) -> None:
        self.close()


class _Lock:
    """Lock on a file, until it is closed or this process ends."""

    def __init__(self) -> None:
        self._descriptor = -1
        close_in_children(self)

    def take(self, path: Path, flags: int = 0) -> bool:
        """Lock the file; return whether it is a regular one, and that of the path still. Raises: OSError, also where another
        process has the lock.
        """
        self._descriptor = os.open(path, os.O_RDWR | os.O_NOFOLLOW | os.O_NONBLOCK | os.O_CLOEXEC | flags, 0o600)
        fcntl.flock(self._descriptor, fcntl.LOCK_EX | fcntl.LOCK_NB)
        opened = os.fstat(self._descriptor)
        return stat.S_ISREG(opened.st_mode) and os.path.samestat(opened, os.lstat(path))

    def close(self) -> None:
        """Let go of it."""
        descriptor, self._descriptor = self._descriptor, -1
        if descriptor >= 0:
            os.close(descriptor)


def owner_file() -> str:
    """Return the name of the file that a process of this host locks in its folder."""
    return f".owner-{os.uname().nodename}"


def remove_abandoned(root: Path) -> None:
    """Remove the temporary folders of this user and host the processes of which have ended, and the workers in them, too.

    Args:
        root: where they lie.
    """
    owner = owner_file()
    with contextlib.suppress(OSError), os.scandir(root) as entries:
        found = [Path(entry.path) for entry in entries if entry.name.startswith(PREFIX) and _is_own(entry)]
        for folder in found:
            with contextlib.closing(_Lock()) as lock, contextlib.suppress(OSError):
                if lock.take(folder / owner) and not _is_in_use(folder):
                    _remove(folder, owner)


def _is_own(entry: os.DirEntry[str]) -> bool:
    try:
        # anybody may have made one under /tmp
        return entry.is_dir(follow_symlinks=False) and entry.stat(follow_symlinks=False).st_uid == os.geteuid()
    except OSError:
        return False


def _is_in_use(folder: Path) -> bool:
    """Tell if a worker still has a work directory there: it ends soon after its parent, not with it. Raises: OSError."""
    for path in (folder / LOCK, *folder.glob(f"*/{LOCK}")):
        if path.is_file():
            with contextlib.closing(_Lock()) as lock:
                try:
                    lock.take(path)
                except BlockingIOError:
                    return True
    return False


def _remove(folder: Path, owner: str) -> None:
    """Remove a folder, the file of its owner at last: what is left of it is found again. Raises: OSError."""
    for name in os.listdir(folder):
        path = folder / name
        if name == owner:
            continue
        if path.is_dir() and not path.is_symlink():
            shutil.rmtree(path, ignore_errors=True)
        else:
            with contextlib.suppress(OSError):
                path.unlink()
    if os.listdir(folder) in ([], [owner]):
        shutil.rmtree(folder, ignore_errors=True)
