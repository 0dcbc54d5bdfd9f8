"""An estate on its way into the folder of a job: in parts, checked against its hash, there wholly or not at all."""

from __future__ import annotations

import contextlib
import hashlib
import os
from pathlib import Path

from network.errors import ProtocolError

MOST_BYTES = 4 << 30
_READ_BYTES = 1 << 20


class Deposit:
    """What becomes the file `path`, readable by its owner only. OSError when the disk refuses: then nothing is there."""

    def __init__(self, path: Path, sha256: str, size: int) -> None:
        self._path, self._sha256, self._left = path, sha256, size
        self._draft = path.with_suffix(".new")
        self._digest = hashlib.sha256()
        flags = os.O_WRONLY | os.O_CREAT | os.O_TRUNC | os.O_NOFOLLOW | os.O_CLOEXEC
        self._file = open(os.open(self._draft, flags, 0o600), "wb")  # noqa: SIM115  see `take`, `abandon`

    def take(self, data: bytes) -> bool:
        """Take the next bytes; whether it is complete now, and in its place.

        Raises: ProtocolError for too many bytes, or others than the hash says.
        """
        self._left -= len(data)
        try:
            if self._left < 0:
                raise ProtocolError("An estate came with more bytes than announced.")
            self._digest.update(data)
            self._file.write(data)
            if self._left:
                return False
            if self._digest.hexdigest() != self._sha256:
                raise ProtocolError("An estate came with a wrong hash.")
            self._file.close()
            os.replace(self._draft, self._path)
        except BaseException:
            self.abandon()
            raise
        return True

    def abandon(self) -> None:
        """Drop what has come; idempotent."""
        with contextlib.suppress(OSError):
            self._file.close()
        with contextlib.suppress(OSError):
            self._draft.unlink(missing_ok=True)


def is_there(path: Path, sha256: str, size: int) -> bool:
    """Whether the whole estate is at `path` already."""
    try:
        with open(os.open(path, os.O_RDONLY | os.O_NOFOLLOW | os.O_CLOEXEC), "rb") as file:
            if os.fstat(file.fileno()).st_size != size:
                return False
            digest = hashlib.sha256()
            while data := file.read(_READ_BYTES):
                digest.update(data)
            return digest.hexdigest() == sha256
    except OSError:
        return False
