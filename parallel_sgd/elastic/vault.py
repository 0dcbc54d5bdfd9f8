"""Where the program that drives an elastic job keeps the state: a file, whole or not there, that only data can come out of."""

from __future__ import annotations

import contextlib
import hashlib
from io import BytesIO
from pathlib import Path
from typing import Any

from network.errors import ProtocolError
from network.frames import read_one
from network.wire import Kind, pack
from rpc.logs import SUBMIT_LOGGER, get_logger

from ..checkpoint.disk import Disk

KEEP_SECONDS = 30.0  # from one writing to the next
_MAGIC = b"PSGD elastic state 1\n"
_DIGEST = 32  # bytes of SHA-256 over what follows
_log = get_logger(SUBMIT_LOGGER)


class Vault:
    """`content` is what the file held, or what was kept since, None for nothing; `digest` tells one content from another.

    Raises: ValueError for a file that is no such state, or a damaged one; OSError when it cannot be read.
    """

    def __init__(self, path: str | Path, disk: Disk | None = None) -> None:
        self._path, self._disk = Path(path).absolute(), disk or Disk()
        self.digest = ""
        self.content: Any = self._read() if self._path.exists() else None

    def keep(self, content: Any) -> bool:
        """Write `content`; False when the disk refuses, and the file is what it was."""
        parts = [bytes(part) for part in pack(Kind.MESSAGE, (), content).buffers]
        digest = hashlib.sha256(b"".join(parts)).digest()
        draft = self._path.with_name(self._path.name + ".new")
        try:
            self._disk.remove(draft)
            self._disk.write(draft, [_MAGIC, digest, *parts])
            self._disk.replace(draft, self._path)
            self._disk.sync_folder(self._path.parent)
        except OSError as error:
            with contextlib.suppress(OSError):
                self._disk.remove(draft)
            _log.warning("The state cannot be kept in %s: %s", self._path, error.strerror or error)
            return False
        self.content, self.digest = content, digest.hex()
        return True

    def _read(self) -> Any:
        data = self._path.read_bytes()
        begin = len(_MAGIC) + _DIGEST
        if not data.startswith(_MAGIC):
            raise ValueError(
                f"'checkpoint' must be a file that elastic.launch has written, or none yet; {self._path} is another"
            )
        digest = hashlib.sha256(data[begin:])
        if digest.digest() != data[len(_MAGIC) : begin]:
            raise ValueError(f"The checkpoint {self._path} is damaged")
        self.digest = digest.hexdigest()
        try:
            file = BytesIO(data)
            file.seek(begin)
            return read_one(file)
        except ProtocolError as error:
            raise ValueError(f"The checkpoint {self._path} cannot be read: {error}") from error
