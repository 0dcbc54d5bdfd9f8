"""Files that are changed wholly or not at all, on a disk that may be full for a moment.

What could not be written then stands in the way of no later try, neither on the disk, as half a line or half a draft, nor in
memory. Nothing is written through a link.
"""

from __future__ import annotations

import contextlib
import errno
import logging
import os
import time
from collections.abc import Callable
from pathlib import Path
from typing import Final, TypeVar

PRIVATE: Final = 0o600
ROOM_SECONDS: Final = 20.0
"""How long the end of a job waits for room on the disk, for what nobody could get afterwards."""
_PAUSE_SECONDS = 0.5
_FULL = (errno.ENOSPC, errno.EDQUOT)

Result = TypeVar("Result")


def write_private(path: Path, text: str) -> None:
    """Write a file that its owner alone can read, in place of the one before.

    Raises: OSError when the disk refuses; then the one before is still there.
    """
    draft = path.with_suffix(".new")
    try:
        descriptor = _open(draft, os.O_TRUNC)
        try:
            _write(descriptor, text)
        finally:
            os.close(descriptor)
        os.replace(draft, path)
    except OSError:
        with contextlib.suppress(OSError):
            draft.unlink(missing_ok=True)
        raise


def append(path: Path, text: str, mode: int = PRIVATE) -> int:
    """Add to the end of a file, which is made with `mode` where there is none; returns its size in bytes.

    Raises: OSError when the disk refuses; then nothing has been added.
    """
    descriptor = _open(path, os.O_APPEND, mode)
    try:
        size = os.fstat(descriptor).st_size
        try:
            return size + _write(descriptor, text)
        except OSError:
            with contextlib.suppress(OSError):
                os.ftruncate(descriptor, size)
            raise
    finally:
        os.close(descriptor)


def when_there_is_room(write: Callable[[], Result], what: str, logger: logging.Logger, seconds: float = ROOM_SECONDS) -> Result:
    """Call `write`, again and again for up to `seconds` while the disk is full; `what` is written, in words.

    Raises: what `write` raised last.
    """
    deadline = time.monotonic() + seconds
    warned = False
    while True:
        try:
            return write()
        except OSError as error:
            if error.errno not in _FULL or time.monotonic() >= deadline:
                raise
            if not warned:
                logger.warning("%s cannot be written: %s. Trying again for up to %g s.", what, error.strerror, seconds)
            warned = True
        time.sleep(_PAUSE_SECONDS)


def _open(path: Path, flags: int, mode: int = PRIVATE) -> int:
    return os.open(path, os.O_WRONLY | os.O_CREAT | os.O_NOFOLLOW | os.O_CLOEXEC | flags, mode)


def _write(descriptor: int, text: str) -> int:
    """Write all of it; a disk that becomes full takes a part first. Returns the number of bytes."""
    data = text.encode("utf-8", "backslashreplace")
    written = 0
    while written < len(data):
        written += os.write(descriptor, data[written:])
    return written
