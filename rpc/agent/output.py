"""Output of a job: taken by the agent as it comes, and kept in the job's log, the beginning and the newest of it."""

from __future__ import annotations

import contextlib
import fcntl
import os
from collections.abc import Sequence
from io import BufferedReader
from pathlib import Path
from typing import Final, NamedTuple

from ..support.disk import at_disk
from ..support.files import open_to_write, open_unlinked

DEFAULT_LIMIT: Final = 64 << 20
_PIPE_BYTES: Final = 1 << 20  # so much a job may print while its agent is busy
_TURN_BYTES: Final = 1 << 20  # of one job in a row, so that a talkative one cannot hold up the others
_READ_BYTES: Final = 1 << 16
_MOST_PARTS: Final = 16  # where the disk was full again and again


class JobOutput:
    """Output of a job: a pipe, whose writing end `theirs` the job process has, and the log of it.

    The log holds at most `limit` bytes and, in each of its parts, the line that goes beyond (see `log_parts`). The first
    quarter of the limit is kept for good, and of later output two parts of three eighths, the newest. An attempt continues the
    log of those before. Output that the disk refuses is left out, and the job does not notice.

    Args:
        path: of the log's first part.
        limit: bytes of the log.

    Raises: OSError when there is no pipe, or no log can be made.
    """

    @at_disk
    def __init__(self, path: Path, limit: int = DEFAULT_LIMIT) -> None:
        self._path, self._first, self._later = path, limit // 4, limit * 3 // 8
        # an attempt that continues the job finds the parts of those before
        known = parts_of(path)
        self._begin = known[-1].begin if known else 0  # of the part that is written
        self._file = self._open(self._begin)
        self._size = os.fstat(self._file).st_size
        self._lost = 0  # bytes behind the part's end that the disk has refused
        try:
            self._ours, self.theirs = os.pipe()
        except BaseException:
            os.close(self._file)
            raise
        # ours only: the job blocks on a full pipe, which is its own back-pressure
        os.set_blocking(self._ours, False)
        if hasattr(fcntl, "F_SETPIPE_SZ"):  # not on macOS
            # the user's share of pipe memory may be used up; 64 KiB do then
            with contextlib.suppress(OSError):
                fcntl.fcntl(self._ours, fcntl.F_SETPIPE_SZ, _PIPE_BYTES)

    def _open(self, begin: int) -> int:
        path = self._path if not begin else self._path.with_name(f"{self._path.name}.{begin}")
        return open_to_write(path, os.O_APPEND)

    @property
    def is_open(self) -> bool:
        return self._ours >= 0

    def fileno(self) -> int:
        return self._ours

    def started(self) -> None:
        """Close our copy of the pipe's other end: the job has its own."""
        if self.theirs >= 0:
            os.close(self.theirs)
            self.theirs = -1

    @at_disk
    def take(self) -> None:
        taken = 0
        while self._ours >= 0 and taken < _TURN_BYTES:
            try:
                data = os.read(self._ours, _READ_BYTES)
            except BlockingIOError:
                return
            if not data:
                self._hang_up()
                return
            taken += len(data)
            self._keep(data)

    @at_disk
    def close(self) -> None:
        """Take the output that the job, which is gone, has left, and none of processes that it may have left behind;
        idempotent.
        """
        self.started()
        # what a full pipe holds, and no more: a process left behind could go on printing for ever
        for _ in range(1 + _PIPE_BYTES // _TURN_BYTES):
            self.take()
        self._hang_up()
        if self._file >= 0:
            os.close(self._file)
            self._file = -1

    def _hang_up(self) -> None:
        if self._ours >= 0:
            os.close(self._ours)
            self._ours = -1

    def _keep(self, data: bytes) -> None:
        while data:
            room = max(0, (self._later if self._begin else self._first) - self._size)
            if len(data) <= room:
                self._write(data)
                return
            end = data.find(b"\n", max(0, room - 1)) + 1 or room  # the line that reaches the limit is the last
            self._write(data[:end])
            data = data[end:]
            self._next_part()

    def _next_part(self) -> None:
        """Go on with a new part, in place of the oldest of those that are not kept for good."""
        begin = self._begin + self._size + self._lost
        with contextlib.suppress(OSError):  # the job may have changed or removed its folder
            self._make_room()
        if self._file >= 0:
            os.close(self._file)
        self._begin, self._size, self._lost, self._file = begin, 0, 0, -1

    def _make_room(self) -> None:
        later = [part for part in parts_of(self._path) if part.begin]
        sizes = [part.path.lstat().st_size for part in later]
        if later and not sizes[-1]:  # the disk has refused it as a whole
            sizes.pop()
            later.pop().path.unlink()
        while len(later) > 1 and (sum(sizes) > self._later or len(later) >= _MOST_PARTS):
            sizes.pop(0)
            later.pop(0).path.unlink()

    def _write(self, data: bytes) -> None:
        """Add to the part, or lose the data: then later output goes into a part of its own, whose name tells the gap."""
        if not data:
            return
        if self._lost:
            self._next_part()
        written = 0
        try:
            if self._file < 0:
                self._file = self._open(self._begin)
            while written < len(data):
                # may write less than asked on a disk that fills up
                written += os.write(self._file, data[written:])
        except OSError:
            self._lost = len(data) - written
        self._size += written


# The log of a job in parts: the first is `Fit-0 <date>.log`, each other one is named for its begin in the output.
#
# `Fit-0 <date>.log.33554432` holds the output from its byte 33,554,432 on. The bytes between the end of one part and the
# beginning of the next were left out.


class Part(NamedTuple):
    """Part of a log.

    Args:
        begin: the byte of the output with which it begins.
        path: its file.
    """

    begin: int
    path: Path


def parts_of(log: Path) -> list[Part]:
    found = [Part(0, log)] if os.path.lexists(log) else []
    with contextlib.suppress(OSError):
        for name in os.listdir(log.parent):
            suffix = name[len(log.name) + 1 :]
            # 18 digits at most: a name that a job has made up must not become a huge number
            if name.startswith(f"{log.name}.") and suffix.isascii() and suffix.isdigit() and len(suffix) < 18:
                found.append(Part(int(suffix), log.parent / name))
    return sorted(found)


@at_disk
def last_bytes(log: Path, most: int) -> tuple[bytes, bool]:
    """Read the end of a log, over its newest parts, and whether that is all of it; nothing of a file that is not regular."""
    data = b""
    for part in reversed(parts_of(log)):
        with contextlib.suppress(OSError), open_unlinked(part.path) as file:
            begin = max(0, os.fstat(file.fileno()).st_size - (most - len(data)))
            data = os.pread(file.fileno(), most - len(data), begin) + data
            if begin:
                return data, False
    return data, True


class JoinedParts:
    """Reader of a log's parts, which are open, as one text; a line in place of each gap tells its size.

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

    def end_at(self, size: int) -> None:
        """Leave out the bytes beyond `size` of a log of one part."""
        ((file, _),) = self._pieces
        self._pieces, self.size = [(file, size)], size

    @at_disk
    def read(self, most: int) -> bytes:
        """Read the next bytes, at most `most`; zeros where a part has become shorter, nothing at the end."""
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
        for file in self._files:
            file.close()
