"""The log of a job in parts: the first is `Fit-0 <date>.log`, each other one is named for where it begins in the output.

`Fit-0 <date>.log.33554432` holds the output from its byte 33,554,432 on. What lies between the end of one part and the
beginning of the next was left out.
"""

from __future__ import annotations

import contextlib
import os
import stat
from collections.abc import Sequence
from io import BufferedReader
from pathlib import Path
from typing import NamedTuple


class Part(NamedTuple):
    """A part of a log; it begins at the byte `begin` of the output."""

    begin: int
    path: Path


def parts_of(log: Path) -> list[Part]:
    """The parts that are there, in order."""
    found = [Part(0, log)] if os.path.lexists(log) else []
    with contextlib.suppress(OSError):
        for name in os.listdir(log.parent):
            suffix = name[len(log.name) + 1 :]
            if name.startswith(f"{log.name}.") and suffix.isascii() and suffix.isdigit() and len(suffix) < 18:
                found.append(Part(int(suffix), log.parent / name))
    return sorted(found)


def last_bytes(log: Path, most: int) -> tuple[bytes, bool]:
    """The end of a log, over its newest parts, and whether that is all of it; nothing of what is no regular file."""
    data = b""
    for part in reversed(parts_of(log)):
        with contextlib.suppress(OSError):
            descriptor = os.open(part.path, os.O_RDONLY | os.O_NOFOLLOW | os.O_NONBLOCK | os.O_CLOEXEC)
            try:
                status = os.fstat(descriptor)
                if stat.S_ISREG(status.st_mode):
                    begin = max(0, status.st_size - (most - len(data)))
                    data = os.pread(descriptor, most - len(data), begin) + data
                    if begin:
                        return data, False
            finally:
                os.close(descriptor)
    return data, True


class JoinedParts:
    """Reads the parts of a log, which are open, as one text; in place of what was left out is a line that says how much.

    `size` bytes in all, as the parts are now: they may grow.
    """

    def __init__(self, parts: Sequence[tuple[int, BufferedReader]]) -> None:
        self._files = [file for _, file in parts]
        self._pieces: list[tuple[bytes | BufferedReader, int]] = []
        end = 0
        for begin, file in parts:
            if begin > end:
                note = (
                    f"\n[{begin - end:,} bytes were left out here: more than the log may hold, or than its disk had room for]\n"
                )
                self._pieces.append((note.encode(), len(note)))
            length = os.fstat(file.fileno()).st_size
            self._pieces.append((file, length))
            end = begin + length
        self.size = sum(length for _, length in self._pieces)

    def read(self, most: int) -> bytes:
        """The next bytes, at most so many; zeros where a part has become shorter, nothing at the end."""
        while self._pieces:
            source, left = self._pieces[0]
            if not left:
                self._pieces.pop(0)
                continue
            if isinstance(source, bytes):
                data = source[-left:][:most]
            else:
                data = source.read(min(most, left)) or bytes(min(most, left))
            self._pieces[0] = (source, left - len(data))
            return data
        return b""

    def close(self) -> None:
        """Close the parts."""
        for file in self._files:
            file.close()
