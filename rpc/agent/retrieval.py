"""What an agent sends when a job's files are fetched: the registered reports and the logs, as operations in order.

Only regular files with one link, opened below their folder without following links, at most 256 and 1 GiB in all.
"""

from __future__ import annotations

import contextlib
import hashlib
import os
import stat
from collections.abc import Iterator, Sequence
from pathlib import Path

from ..messages import FetchEnd, FileBegin, FileChunk, FileEnd, Operation
from .jobs import JobRecord

MAX_FILES = 256
MAX_BYTES = 1 << 30
CHUNK = 1 << 20


def send_files(record: JobRecord, folder: Path, logs: Sequence[Path]) -> Iterator[Operation]:
    """The files of a job: its log at any time, its reports once it has ended, and the agent's own `logs`."""
    sources: list[tuple[Path, str]] = [(log.parent, log.name) for log in logs]
    sources.append((folder, record.log))
    if record.ended:
        sources += [(folder / "out", name) for name in record.files]
    problem, total = "", 0
    for directory, name in sources[:MAX_FILES]:
        try:
            descriptor = _open(directory, name)
        except OSError as error:
            problem = f"{name} cannot be read: {error.strerror}."
            continue
        with open(descriptor, "rb") as file:
            size = os.fstat(descriptor).st_size  # a log may grow while it is read; what is there now is sent
            total += size
            if total > MAX_BYTES:
                problem = f"The files of the job exceed {MAX_BYTES} bytes; {name} and what follows was left out."
                break
            yield FileBegin(name, size)
            digest = hashlib.sha256()
            while size > 0:
                data = file.read(min(CHUNK, size))
                if not data:
                    break
                size -= len(data)
                digest.update(data)
                yield FileChunk(data)
            yield FileEnd(digest.hexdigest())
    if len(sources) > MAX_FILES:
        problem = f"The job registered {len(sources)} files, more than {MAX_FILES}; the rest was left out."
    yield FetchEnd(record.job, record.state, problem)


def _open(directory: Path, name: str) -> int:
    """Open `name` directly in `directory`, refusing links, special files and files with a second name."""
    if "/" in name or name in ("", ".", ".."):
        raise OSError(0, "it is no plain file name")
    folder = os.open(directory, os.O_RDONLY | os.O_DIRECTORY | os.O_NOFOLLOW | os.O_CLOEXEC)
    try:
        descriptor = os.open(name, os.O_RDONLY | os.O_NOFOLLOW | os.O_NONBLOCK | os.O_CLOEXEC, dir_fd=folder)
    finally:
        os.close(folder)
    status = os.fstat(descriptor)
    if not stat.S_ISREG(status.st_mode) or status.st_nlink != 1:
        with contextlib.suppress(OSError):
            os.close(descriptor)
        raise OSError(0, "it is no regular file of its own")
    return descriptor
