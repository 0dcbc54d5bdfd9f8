"""Files of a job that an agent sends: those that are fetched, and all that is known of a job that has failed."""

from __future__ import annotations

import contextlib
import errno
import hashlib
import json
import os
import struct
from collections.abc import Generator, Iterator, Mapping, Sequence
from dataclasses import asdict, dataclass, field
from io import BufferedReader, BytesIO
from pathlib import Path
from typing import Any, Final, NamedTuple

from ..messages import MAX_BYTES, MAX_FILES, FetchEnd, FileBegin, FileChunk, FileEnd, Operation, Tailed
from ..support.disk import at_disk
from ..support.files import (
    CONFIGURATION,
    NOT_REGULAR,
    closed_on_error,
    end_of_rows,
    is_safe_name,
    open_below,
    open_unlinked,
    sample,
)
from ..support.logs import clean
from .event_log import EVENT_LOG
from .output import JoinedParts, parts_of
from .standby import log_name
from .store import JobRecord

CHUNK = 1 << 20
_read = at_disk(os.pread)
OUT: Final = "out"


class Source(NamedTuple):
    """Source of a file to send: a trusted folder, and the way below it. A log that is kept `in_parts` goes as one file; of a
    table its `whole_rows` alone.
    """

    root: Path
    way: tuple[str, ...]
    in_parts: bool = False
    whole_rows: bool = False


def send_files(record: JobRecord, folder: Path, logs: Sequence[Path]) -> Iterator[Operation]:
    """Send the files of a job: its log at any time, its reports once it has ended, and the agent's own `logs`.

    Files that the job registered and that cannot be sent are named in the `problem` of the last operation.

    Args:
        record: the record of the job.
        folder: its folder.
        logs: those of the agent.
    """
    yield from send_sources(record, log_sources(record, folder, logs) + report_sources(record, folder))


@at_disk
def log_sources(record: JobRecord, folder: Path, logs: Sequence[Path]) -> list[Source]:
    """List the logs: the agent's own, the job's, and that of a driver if one was started here."""
    driven = [name] if (folder / (name := log_name(record.node))).exists() else []
    return [
        *(Source(log.parent, (log.name,)) for log in logs),
        Source(folder.parent, (folder.name, record.log), in_parts=True),
        *(Source(folder.parent, (folder.name, log)) for log in driven),
    ]


@at_disk
def report_sources(record: JobRecord, folder: Path) -> list[Source]:
    """List the reports of a job that has ended: those it registered; of a process that was killed, the tables it had begun."""
    if not record.ended:
        return []
    found = [Source(folder.parent, (folder.name, OUT, name)) for name in record.files]
    if record.state != "done" and not any(name.endswith(".csv") for name in record.files):
        # half-written rows of a killed process would not parse at the submitter
        found += [Source(folder.parent, (folder.name, OUT, name), whole_rows=True) for name in _tables(folder)]
    return found


def _tables(folder: Path) -> list[str]:
    """List the tables that a job writes, by name; none where they cannot be listed."""
    with contextlib.suppress(OSError):
        return sorted(path.name for path in (folder / OUT).glob("*.csv") if is_safe_name(path.name))[:MAX_FILES]
    return []


def send_sources(record: JobRecord, sources: Sequence[Source]) -> Iterator[Operation]:
    problems: list[str] = []
    seen: set[str] = set()
    total = 0
    for source in sources:
        name = source.way[-1]
        # without case: a submitter's disk may take a.csv and A.csv for one file
        if not is_safe_name(name) or name.casefold() in seen:
            problems.append(f"{clean(name, 80)} has no name that may travel, or one that was used before.")
            # named at the end, not raised: one file that cannot travel must not keep the others back
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
            size = file.size  # a log may grow while it is read; its present content is sent
            if total + size > MAX_BYTES:
                problems.append(f"The files of the job exceed {MAX_BYTES} bytes; {name} was left out.")
                continue
            total += size
            seen.add(name.casefold())
            yield FileBegin(name, size)
            yield from _contents(file, size)
    yield FetchEnd(record.job, record.state, " ".join(problems)[:4096], record.title)


def _contents(file: JoinedParts | BytesIO, size: int) -> Iterator[Operation]:
    """Yield exactly `size` bytes; where the file has become shorter meanwhile, zeros take the place of the missing ones."""
    digest = hashlib.sha256()
    while size > 0:
        # the size was announced: the receiver counts bytes, and the hash shows that they are right
        data = file.read(min(CHUNK, size)) or bytes(min(CHUNK, size))
        size -= len(data)
        digest.update(data)
        yield FileChunk(data)
    yield FileEnd(digest.hexdigest())


@at_disk
def _open_parts(source: Source) -> JoinedParts:
    """Open a file with the parts that continue it.

    Raises: OSError when there is nothing to send.
    """
    root, way, in_parts, whole_rows = source
    parts = parts_of(root.joinpath(*way)) if in_parts else []
    with contextlib.ExitStack() as opened:
        files = [(begin, opened.enter_context(_open(root, (*way[:-1], path.name)))) for begin, path in parts]
        files = files or [(0, opened.enter_context(_open(root, way)))]
        # the reader closes them from here on
        opened.pop_all()
    joined = JoinedParts(files)
    if whole_rows:
        joined.end_at(end_of_rows(files[0][1].fileno()))
    return joined


def _open(root: Path, path: Sequence[str]) -> BufferedReader:
    """Open `root/path...`, refusing links on the way below `root`, special files and files with a second name."""
    with closed_on_error(open_below(root, path)) as file:
        # a second name could be in a folder of ours: user code must not have the agent read its own files for it
        if os.fstat(file.fileno()).st_nlink != 1:
            raise OSError(errno.EINVAL, NOT_REGULAR)
    return file


_MOST_TAIL: Final = 1 << 20  # bytes of one answer; the asker asks again
_MOST_LOG: Final = 1 << 15
_MOST_PARTS: Final = 64
_NUMBERS: Final = (1 << 53) - 1


@at_disk
def tail(
    record: JobRecord, folder: Path, known: Mapping[str, Sequence[int]], samples: Mapping[str, Sequence[int]] | None = None
) -> Tailed:
    """Read the bytes of a job's tables and the end of its log behind the known ones.

    Files that cannot be read are left out.

    Args:
        record: the job.
        folder: its folder.
        known: file: the number and the place that the asker has reached.
        samples: kind of table: the most bytes, and the number of parts that a sample of it has; None for all.
    """
    places: dict[str, list[int]] = {}
    data: dict[str, bytes] = {}
    room = _MOST_TAIL
    beside = [(name, (name,)) for name in (record.log, *({EVENT_LOG} & {*(samples or ())}))]
    for name, way in [*beside, *((name, (OUT, name)) for name in _tables(folder))]:
        with contextlib.suppress(OSError), _open(folder.parent, (folder.name, *way)) as file:
            status = os.fstat(file.fileno())
            # the inode tells a file that was written anew from one that has grown
            number, size = status.st_ino & _NUMBERS, status.st_size
            before, at = known.get(name, (number, 0))
            at = at if before == number and at <= size else 0
            # of a log only the newest is of interest: it may print faster than the line to the asker
            at = max(at, size - _MOST_LOG) if name == record.log else at
            if samples and name != record.log:
                most, parts = samples.get(name.partition("-")[0], (0, 0))
                wanted = at < size and 0 < parts <= min(most, _MOST_PARTS)
                content = sample(file.fileno(), size, min(most, room), parts) if wanted else b""
                at = size - len(content)
            else:
                # pread: the place in the file is nobody else's
                content = _read(file.fileno(), min(size - at, room), at)
            if content:
                places[name], data[name] = [number, at], content
                room -= len(content)
    return Tailed(record.job, record.node, places, data)


# Diagnostics of a failure: all that an agent knows of one job on one node.
#
# record.json     state, times, attempts
# events.jsonl    events, verdicts and the last signals included (see `event_log`)
# kept.json       the checkpoints and other files that the job keeps here, and whether they are whole (see `sealed`)
# configuration.json, logs, tables    the configuration that the job process has reported, the logs of both, and its reports
# unless they are large

RECORD_COPY: Final = "record.json"
KEPT: Final = "kept.json"
_MOST_REPORT: Final = 8 << 20  # bytes; trained models tell nothing about a failure


def send_diagnostics(record: JobRecord, folder: Path, logs: Sequence[Path]) -> Iterator[Operation | None]:
    """Send the files for a diagnosis (listed above) at any time; None where the next step comes later: others are served first.

    Args:
        record: the record of the job.
        folder: its folder.
        logs: those of the agent.
    """
    # first: it may take minutes of steps, and the record is to be as new as the logs
    kept = yield from kept_files(folder, OUT)
    yield from _text(RECORD_COPY, asdict(record))
    yield from _text(KEPT, [asdict(file) for file in kept])
    sources = log_sources(record, folder, logs)
    sources += [Source(folder.parent, (folder.name, name)) for name in (EVENT_LOG, CONFIGURATION)]
    sources += [source for source in report_sources(record, folder) if _is_small(source.root.joinpath(*source.way))]
    yield from send_sources(record, sources)


def _text(name: str, content: Any) -> Iterator[Operation]:
    data = json.dumps(content, indent=1).encode()
    yield FileBegin(name, len(data))
    yield from _contents(BytesIO(data), len(data))


def _is_small(path: Path) -> bool:
    with contextlib.suppress(OSError):
        return path.lstat().st_size <= _MOST_REPORT
    return True  # so that it is named as one that cannot be read


# Files in the folders of a job that carry a SHA-256 over themselves, and whether they are whole.
#
# The hash is taken over the whole file with its own field as zeros; that field is the first of a header of JSON, behind the
# header's length (`nn.tensor_files`, which this package does not know; a test compares the two). Texts in the header
# travel as they are; this package does not read them.

_LENGTH = struct.Struct("<Q")
_PREFIX = b'{"__metadata__":{"sha256":"'
_HASH_BYTES: Final = 64
_MOST_HEADER: Final = 1 << 20
_MOST_TEXT: Final = 32 << 10
MOST_FILES: Final = 64
_MOST_NAMES: Final = 8  # per job; an answer tells them of every job
MOST_CHECKED: Final = 8 << 30  # bytes in all; reading more would keep the asker waiting for minutes
STEP: Final = 1 << 20


@dataclass
class KeptFile:
    """File that a job has kept; `whole` is None where that was not checked, and `why` names the fault, or why it was not
    checked.
    """

    folder: str
    name: str
    size: int
    modified: float
    whole: bool | None = None
    why: str = ""
    about: dict[str, str] = field(default_factory=dict)


def kept_files(folder: Path, left_out: str) -> Generator[None, None, list[KeptFile]]:
    """List the files in the folders of a job but `left_out`, newest first; yields between steps, so that others can be
    served.
    """
    found: list[KeptFile] = []
    checked = 0
    # newest first: the limit of bytes leaves out old checkpoints, which matter least
    for path in _files(folder, left_out):
        with contextlib.suppress(OSError), open_unlinked(path) as file:  # it may have been replaced meanwhile
            status = os.fstat(file.fileno())
            kept = KeptFile(path.parent.name, path.name, status.st_size, status.st_mtime)
            checked += status.st_size
            if checked > MOST_CHECKED:
                # still listed: that a file is there tells something, too
                kept.why = f"it was not read: the files of this job here exceed {MOST_CHECKED >> 30} GiB"
            else:
                yield from _check(file.fileno(), kept)
            found.append(kept)
    return found


@at_disk
def kept_names(folder: Path) -> list[str]:
    """List the names of the newest files that a job keeps in its folder, newest first."""
    return [path.name for path in _files(folder, OUT)[:_MOST_NAMES] if is_safe_name(path.name)]


def _files(folder: Path, left_out: str) -> list[Path]:
    """List the newest files one level below `folder`, without those that are being written."""
    with contextlib.suppress(OSError):
        inner = [path for path in folder.iterdir() if path.is_dir() and not path.is_symlink() and path.name != left_out]
        files = [path for each in inner for path in each.iterdir() if not path.name.startswith(".")]
        return sorted(files, key=lambda path: path.lstat().st_mtime, reverse=True)[:MOST_FILES]
    return []


def _check(descriptor: int, kept: KeptFile) -> Generator[None, None, None]:
    begin = _LENGTH.size + len(_PREFIX)
    head = _read(descriptor, begin + _HASH_BYTES, 0)
    if head[_LENGTH.size : begin] != _PREFIX or len(head) < begin + _HASH_BYTES:
        kept.whole, kept.why = False, "it does not begin like a file that carries its SHA-256"
        return
    (length,) = _LENGTH.unpack_from(head)
    kept.about = _about(_read(descriptor, min(length, _MOST_HEADER), _LENGTH.size))
    # its own field as zeros, as when the hash was taken
    digest = hashlib.sha256(head[:begin] + b"0" * _HASH_BYTES)
    at = len(head)
    while data := _read(descriptor, STEP, at):
        digest.update(data)
        at += len(data)
        # others are served between two MiB
        yield
    kept.whole = digest.hexdigest().encode() == head[begin:]
    if not kept.whole:
        kept.why = "its content does not match its SHA-256: it was cut off, damaged or changed"


def _about(header: bytes) -> dict[str, str]:
    with contextlib.suppress(ValueError, RecursionError):
        content: Any = json.loads(header)
        texts = content.get("__metadata__") if isinstance(content, dict) else None
        if isinstance(texts, dict):
            return {str(key): value[:_MOST_TEXT] for key, value in texts.items() if isinstance(value, str) and key != "sha256"}
    return {}
