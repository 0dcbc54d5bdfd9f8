"""A disk without room, for as long as a test wants it: every write takes its first bytes, and no more."""

from __future__ import annotations

import errno
import os

import pytest

from rpc.support import files


class FullDisk:
    """In place of `os.write`; `refused` counts the writes that failed while `full` was set."""

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
