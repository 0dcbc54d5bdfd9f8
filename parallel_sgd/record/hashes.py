"""SHA-256 of files."""

from __future__ import annotations

import hashlib
from io import BufferedReader
from pathlib import Path
from typing import Final

from rpc.support.files import open_unlinked

__all__ = ["digest_of", "sha256_of"]

# large enough for the hash to be the bottleneck, small enough for any memory
_CHUNK: Final = 1 << 20


def sha256_of(path: Path) -> str:
    """Return the SHA-256 of the regular file at `path`, 64 hexadecimal digits; a link in its place is not followed. Raises:
    OSError.
    """
    with open_unlinked(path) as file:
        return digest_of(file)


def digest_of(file: BufferedReader) -> str:
    """Return the SHA-256 of the bytes of an opened file from where it stands. Raises: OSError."""
    digest = hashlib.sha256()
    while part := file.read(_CHUNK):
        digest.update(part)
    return digest.hexdigest()
