"""Reading chosen files out of a ``.tar.gz`` archive, into memory and within limits.

The archive is read from front to back, once. Nothing is written to disk and no name in it is ever used as a path. The
standard library's ``tarfile`` is not used: it reads extended headers into memory at whatever length they claim.

Layout: blocks of 512 bytes; a file is one header block and its content, filled up with zeros; a zero block ends it all.
Source: POSIX.1-2017, ``pax``, section "ustar Interchange Format".
"""

import gzip
import os
import zlib
from collections.abc import Collection
from typing import BinaryIO

__all__ = ["read_members"]

_BLOCK = 512
_CHUNK = 1 << 20
_MAX_BYTES = 512 << 20  # of the whole archive, unpacked; a small compressed file may claim anything
_MAX_MEMBERS = 1000
_REGULAR = (b"0", b"\0")


def read_members(path: str | os.PathLike[str], names: Collection[str]) -> dict[str, bytes]:
    """Return the content of the files `names` of the archive at `path`; directories before a name do not count.

    Raises OSError where the file cannot be opened, ValueError naming it where it is no gzip or tar file, is damaged, lacks
    one of `names` or has it twice, or has more than 1,000 members or 512 MiB unpacked.
    """
    shown = repr(os.fspath(path))
    with open(path, "rb") as file:
        try:
            with gzip.GzipFile(fileobj=file) as content:
                found = _Reader(content, shown).members(names)
        except (EOFError, zlib.error, gzip.BadGzipFile) as error:
            raise ValueError(f"{shown} is a damaged gzip file: {error}") from error
    missing = [name for name in names if name not in found]
    if missing:
        raise ValueError(f"{shown} must contain {', '.join(names)}, it lacks {', '.join(missing)}")
    return found


class _Reader:
    """One pass over an unpacked archive."""

    def __init__(self, file: BinaryIO | gzip.GzipFile, shown: str) -> None:
        self._file = file
        self._shown = shown
        self._left = _MAX_BYTES

    def members(self, names: Collection[str]) -> dict[str, bytes]:
        """Return the files among `names`, then read on to the end, where gzip keeps its checksum."""
        found: dict[str, bytes] = {}
        count = 0
        while any(header := self._exactly(_BLOCK)):
            count += 1
            if count > _MAX_MEMBERS:
                raise ValueError(f"{self._shown} must have at most {_MAX_MEMBERS} members")
            name, size, regular = self._parse(header)
            if regular and name in names:
                if name in found:
                    raise ValueError(f"{self._shown} contains {name!r} twice")
                found[name] = self._exactly(size)
            else:
                self._skip(size)
            self._skip(-size % _BLOCK)
        while self._read(_CHUNK):
            pass
        return found

    def _parse(self, header: bytes) -> tuple[str, int, bool]:
        """Return the last part of a file's name, its size, and whether it is a regular file."""
        unsigned = sum(header[:148]) + 8 * ord(" ") + sum(header[156:])
        try:
            checksum, size = (
                int(header[start:end].strip(b"\0 ").decode("ascii"), 8) for start, end in ((148, 156), (124, 136))
            )
        except ValueError:
            raise ValueError(f"{self._shown} is not a tar archive, or a damaged one") from None
        if checksum != unsigned or size < 0:
            raise ValueError(f"{self._shown} is not a tar archive, or a damaged one")
        name = header[:100].partition(b"\0")[0].decode("utf-8", "replace")
        return name.rpartition("/")[2], size, header[156:157] in _REGULAR

    def _exactly(self, size: int) -> bytes:
        """Return the next `size` bytes; memory grows with what is really there."""
        content = bytearray()
        while len(content) < size:
            chunk = self._read(min(_CHUNK, size - len(content)))
            if not chunk:
                raise ValueError(f"{self._shown} ends within a file of its archive")
            content += chunk
        return bytes(content)

    def _skip(self, size: int) -> None:
        while size:
            chunk = self._read(min(_CHUNK, size))
            if not chunk:
                raise ValueError(f"{self._shown} ends within a file of its archive")
            size -= len(chunk)

    def _read(self, size: int) -> bytes:
        chunk = self._file.read(size)
        self._left -= len(chunk)
        if self._left < 0:
            raise ValueError(f"{self._shown} must have at most {_MAX_BYTES} bytes unpacked")
        return chunk
