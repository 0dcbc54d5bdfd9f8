"""The file system as checkpoints use it: an argument of the store, so that each of its failures can be tried."""

from __future__ import annotations

import contextlib
import os
from collections.abc import Iterable
from pathlib import Path
from typing import Final

from nn.tensor_files import read_file

MOST_BYTES: Final = 64 << 30
_CHUNK: Final = 8 << 20


class Disk:
    """The real one. Every method may raise OSError."""

    def make_folder(self, path: Path) -> None:
        """Make a folder that is closed to others, where there is none."""
        path.mkdir(mode=0o700, parents=True, exist_ok=True)

    def names(self, folder: Path) -> list[str]:
        return os.listdir(folder) if folder.is_dir() else []

    def write(self, path: Path, pieces: Iterable[bytes | memoryview]) -> None:
        descriptor = os.open(path, os.O_WRONLY | os.O_CREAT | os.O_EXCL | os.O_NOFOLLOW | os.O_CLOEXEC, 0o600)
        try:
            for piece in pieces:
                rest = memoryview(piece).cast("B")
                while rest:
                    rest = rest[os.write(descriptor, rest[:_CHUNK]) :]
            os.fsync(descriptor)
        finally:
            os.close(descriptor)

    def put(self, target: Path, pieces: Iterable[bytes | memoryview], draft: Path) -> None:
        """Make a file, in place of what had its name; `draft`, in the same folder, is where it is written.

        It takes its name in one step when the device has all of it: a crash at any moment leaves the old content or the new.
        """
        try:
            self.write(draft, pieces)
            self.replace(draft, target)
        finally:
            with contextlib.suppress(OSError):  # after an error that says more
                self.remove(draft)
        self.sync_folder(target.parent)

    def replace(self, source: Path, target: Path) -> None:
        os.replace(source, target)

    def sync_folder(self, folder: Path) -> None:
        descriptor = os.open(folder, os.O_RDONLY | os.O_DIRECTORY | os.O_CLOEXEC)
        try:
            os.fsync(descriptor)
        finally:
            os.close(descriptor)

    def remove(self, path: Path) -> None:
        path.unlink(missing_ok=True)

    def read(self, path: Path) -> bytes:
        """The content of a regular file.

        Raises: ValueError (ModelFileError) for what is none, OSError.
        """
        return read_file(path, MOST_BYTES)
