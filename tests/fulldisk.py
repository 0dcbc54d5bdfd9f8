"""Disks without room, for as long as a test wants it."""

from __future__ import annotations

import contextlib
import errno
import os
import subprocess
from collections.abc import Iterator
from pathlib import Path

import pytest

from rpc.support import files


class FullDisk:
    """In place of `os.write`: every write takes its first bytes, and no more. `refused` counts the writes that failed while
    `full` was set.
    """

    def __init__(self, monkeypatch: pytest.MonkeyPatch) -> None:
        self._write = os.write
        self.full = False
        self.refused = 0
        self._took_some = False
        monkeypatch.setattr(files.os, "write", self)

    def __call__(self, descriptor: int, data: bytes) -> int:
        if not self.full:
            return self._write(descriptor, data)
        self._took_some = not self._took_some and len(data) > 4
        if self._took_some:
            return self._write(descriptor, data[:4])
        self.refused += 1
        raise OSError(errno.ENOSPC, "No space left on device")


@contextlib.contextmanager
def small_disk(folder: Path, kibibytes: int) -> Iterator[Path]:
    """A real disk of this size, where the test may mount one."""
    folder.mkdir()
    mount = ["mount", "-t", "tmpfs", "-o", f"size={kibibytes}k", "tmpfs", str(folder)]
    if subprocess.run(mount, capture_output=True, check=False).returncode:
        pytest.skip("needs the right to mount a disk")
    try:
        yield folder
    finally:
        subprocess.run(["umount", "-l", folder], check=True)


def fill(file: Path) -> None:
    """Have a file take all the room that its disk has."""
    with contextlib.suppress(OSError), open(file, "ab", buffering=0) as other:
        while other.write(bytes(4096)):
            pass
