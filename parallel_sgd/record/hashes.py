"""The SHA-256 of files."""

from __future__ import annotations

import hashlib
from pathlib import Path
from typing import Final

__all__ = ["sha256_of"]

_CHUNK: Final = 1 << 20


def sha256_of(path: Path) -> str:
    """Return the SHA-256 of a file, 64 hexadecimal digits. Raises: OSError."""
    digest = hashlib.sha256()
    with path.open("rb") as file:
        while part := file.read(_CHUNK):
            digest.update(part)
    return digest.hexdigest()
