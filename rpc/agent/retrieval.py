"""What an agent sends when a job's files are fetched: the registered reports and the logs, as operations in order.

Only regular files with one link, opened component by component without following links, at most 256 and 1 GiB in all.
"""

from __future__ import annotations

import contextlib
import hashlib
import os
import stat
from collections.abc import Iterator, Sequence
from io import BufferedReader
from pathlib import Path
from typing import NamedTuple

from ..files import is_safe_name
from ..log_parts import JoinedParts, parts_of
from ..logs import clean
from ..messages import MAX_BYTES, MAX_FILES, FetchEnd, FileBegin, FileChunk, FileEnd, Operation
from .jobs import JobRecord
from .standby import log_name

CHUNK = 1 << 20
_FOLDER = os.O_RDONLY | os.O_DIRECTORY | os.O_NOFOLLOW | os.O_CLOEXEC
_FILE = os.O_RDONLY | os.O_NOFOLLOW | os.O_NONBLOCK | os.O_CLOEXEC


class Source(NamedTuple):
    """A file: a folder that is trusted, and the way below it. A log that is kept `in_parts` goes as one file."""

    root: Path
    way: tuple[str, ...]
    in_parts: bool = False


def send_files(record: JobRecord, folder: Path, logs: Sequence[Path]) -> Iterator[Operation]:
    """The files of a job: its log at any time, its reports once it has ended, and the agent's own `logs`.

    What the job registered and cannot be sent is named in the `problem` of the last operation.
    """
    sources = log_sources(record, folder, logs)
    if record.ended:
        sources += [Source(folder.parent, (folder.name, "out", name)) for name in record.files]
    yield from send_sources(record, sources)


def log_sources(record: JobRecord, folder: Path, logs: Sequence[Path]) -> list[Source]:
    """Where the logs are: the agent's own, the job's, and that of a driver if one was started here."""
    driven = [name] if (folder / (name := log_name(record.node))).exists() else []
    return [
        *(Source(log.parent, (log.name,)) for log in logs),
        Source(folder.parent, (folder.name, record.log), in_parts=True),
        *(Source(folder.parent, (folder.name, log)) for log in driven),
    ]


def send_sources(record: JobRecord, sources: Sequence[Source]) -> Iterator[Operation]:
    """The files at `sources`, and the end."""
    problems: list[str] = []
    seen: set[str] = set()
    total = 0
    for source in sources:
        name = source.way[-1]
        if not is_safe_name(name) or name.casefold() in seen:
            problems.append(f"{clean(name, 80)} has no name that may travel, or one that was used before.")
            continue
        if len(seen) >= MAX_FILES:
            problems.append(f"The job has {len(sources)} files, more than {MAX_FILES}; the rest was left out.")
            break
        try:
            file = _open_parts(source)
        except OSError as error:
            problems.append(f"{name} cannot be read: {error.strerror}.")
            continue
        with contextlib.closing(file):
            size = file.size  # a log may grow while it is read; what is there now is sent
            if total + size > MAX_BYTES:
                problems.append(f"The files of the job exceed {MAX_BYTES} bytes; {name} was left out.")
                continue
            total += size
            seen.add(name.casefold())
            yield FileBegin(name, size)
            yield from _contents(file, size)
    yield FetchEnd(record.job, record.state, " ".join(problems)[:4096], record.title)


def _contents(file: JoinedParts, size: int) -> Iterator[Operation]:
    """Exactly `size` bytes; where the file has become shorter meanwhile, zeros take the place of what is gone."""
    digest = hashlib.sha256()
    while size > 0:
        data = file.read(min(CHUNK, size)) or bytes(min(CHUNK, size))
        size -= len(data)
        digest.update(data)
        yield FileChunk(data)
    yield FileEnd(digest.hexdigest())


def _open_parts(source: Source) -> JoinedParts:
    """A file with what continues it.

    Raises: OSError when there is nothing to send.
    """
    root, way, in_parts = source
    parts = parts_of(root.joinpath(*way)) if in_parts else []
    with contextlib.ExitStack() as opened:
        files = [(begin, opened.enter_context(_open(root, (*way[:-1], path.name)))) for begin, path in parts]
        files = files or [(0, opened.enter_context(_open(root, way)))]
        opened.pop_all()
    return JoinedParts(files)


def _open(root: Path, path: Sequence[str]) -> BufferedReader:
    """Open `root/path...`, refusing links on the way below `root`, special files and files with a second name."""
    folder = os.open(root, _FOLDER)
    try:
        for name in path[:-1]:
            outer, folder = folder, os.open(name, _FOLDER, dir_fd=folder)
            os.close(outer)
        descriptor = os.open(path[-1], _FILE, dir_fd=folder)
    finally:
        os.close(folder)
    status = os.fstat(descriptor)
    if not stat.S_ISREG(status.st_mode) or status.st_nlink != 1:
        os.close(descriptor)
        raise OSError(0, "it is no regular file of its own")
    return open(descriptor, "rb")
