"""Files that carry a SHA-256 over themselves: what lies in the folders of a job, and whether it is whole.

The hash is taken over the whole file with its own field as zeros; that field is the first of a header of JSON, behind the
header's length (`nn.model.tensors`, which this package does not know; a test compares the two). What stands in the header
travels as text; nobody here reads it.
"""

from __future__ import annotations

import contextlib
import hashlib
import json
import os
import stat
import struct
from collections.abc import Generator
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, Final

_LENGTH = struct.Struct("<Q")
_PREFIX = b'{"__metadata__":{"sha256":"'
_HASH_BYTES: Final = 64
_MOST_HEADER: Final = 1 << 20
_MOST_TEXT: Final = 32 << 10
MOST_FILES: Final = 64
MOST_CHECKED: Final = 8 << 30  # bytes in all; reading more would keep the asker waiting for minutes
STEP: Final = 1 << 20


@dataclass
class Kept:
    """A file that a job has kept; `whole` is None where that was not checked, and `why` says what is wrong or was not done."""

    folder: str
    name: str
    size: int
    modified: float
    whole: bool | None = None
    why: str = ""
    about: dict[str, str] = field(default_factory=dict)


def kept_files(folder: Path, left_out: str) -> Generator[None, None, list[Kept]]:
    """The files in the folders of a job but `left_out`, newest first; yields between steps, so that others can be served."""
    found: list[Kept] = []
    checked = 0
    for path in _files(folder, left_out):
        with contextlib.suppress(OSError):  # it has been replaced meanwhile
            descriptor = os.open(path, os.O_RDONLY | os.O_NOFOLLOW | os.O_NONBLOCK | os.O_CLOEXEC)
            try:
                status = os.fstat(descriptor)
                kept = Kept(path.parent.name, path.name, status.st_size, status.st_mtime)
                if not stat.S_ISREG(status.st_mode):
                    continue
                checked += status.st_size
                if checked > MOST_CHECKED:
                    kept.why = f"it was not read: the files of this job here exceed {MOST_CHECKED >> 30} GiB"
                else:
                    yield from _check(descriptor, kept)
                found.append(kept)
            finally:
                os.close(descriptor)
    return found


def _files(folder: Path, left_out: str) -> list[Path]:
    """The newest files one level below `folder`, without those that are being written."""
    with contextlib.suppress(OSError):
        inner = [path for path in folder.iterdir() if path.is_dir() and not path.is_symlink() and path.name != left_out]
        files = [path for each in inner for path in each.iterdir() if not path.name.startswith(".")]
        return sorted(files, key=lambda path: path.lstat().st_mtime, reverse=True)[:MOST_FILES]
    return []


def _check(descriptor: int, kept: Kept) -> Generator[None, None, None]:
    """Fill in `whole`, `why` and `about`."""
    begin = _LENGTH.size + len(_PREFIX)
    head = os.pread(descriptor, begin + _HASH_BYTES, 0)
    if head[_LENGTH.size : begin] != _PREFIX or len(head) < begin + _HASH_BYTES:
        kept.whole, kept.why = False, "it does not begin like a file that carries its SHA-256"
        return
    (length,) = _LENGTH.unpack_from(head)
    kept.about = _about(os.pread(descriptor, min(length, _MOST_HEADER), _LENGTH.size))
    digest = hashlib.sha256(head[:begin] + b"0" * _HASH_BYTES)
    at = len(head)
    while data := os.pread(descriptor, STEP, at):
        digest.update(data)
        at += len(data)
        yield
    kept.whole = digest.hexdigest().encode() == head[begin:]
    if not kept.whole:
        kept.why = "its content does not match its SHA-256: it was cut off, damaged or changed"


def _about(header: bytes) -> dict[str, str]:
    """The texts in the header, unless it is no JSON."""
    with contextlib.suppress(ValueError, RecursionError):
        content: Any = json.loads(header)
        texts = content.get("__metadata__") if isinstance(content, dict) else None
        if isinstance(texts, dict):
            return {str(key): value[:_MOST_TEXT] for key, value in texts.items() if isinstance(value, str) and key != "sha256"}
    return {}
