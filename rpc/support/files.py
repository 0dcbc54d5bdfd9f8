"""Files that are changed wholly or not at all, on a disk that may be full for a moment; the result of an executor among them.

A failed write stands in the way of no later try, neither on the disk, as half a line or half a draft, nor in memory. Nothing is
written through a link. And files and names of others, taken so that they can do no harm.
"""

from __future__ import annotations

import codecs
import contextlib
import errno
import fcntl
import json
import logging
import os
import re
import secrets
import select
import stat
import sys
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from io import SEEK_END, BufferedReader, BytesIO
from pathlib import Path
from typing import Any, Final, TypeVar

from network.errors import ProtocolError
from network.frames import FrameReader
from network.wire import Kind, Limits, pack

from .logs import DISK_REFUSES, DISK_TAKES

if sys.version_info >= (3, 11):
    import tomllib
else:  # pragma: no cover
    import tomli as tomllib

PRIVATE: Final = 0o600
ROOM_SECONDS: Final = 20.0
"""How long the end of a job waits for room on the disk, for files that could not be fetched afterwards."""
MOST_BYTES: Final = 4 << 20
"""Of a file that lists hosts, sets up an agent or describes a job."""
PIPE_SECONDS: Final = 10.0
"""How long a pipe that is named in place of a file may be without a writer."""
_MOST_HEAD: Final = 1 << 12
_UTF_16: Final = (codecs.BOM_UTF16_LE, codecs.BOM_UTF16_BE)
NOT_REGULAR: Final = "it is no regular file of its own"
PAUSE_SECONDS: Final = 0.5
"""Between two tries to write to a full disk."""
_NAME = re.compile(r"[A-Za-z0-9][A-Za-z0-9._ ()+-]{0,127}")
_DRAFT = re.compile(r"\..+\.[0-9a-f]{16}")
_WINDOWS_DEVICE = re.compile(r"(con|prn|aux|nul|com[0-9]|lpt[0-9]) *(\..*)?", re.IGNORECASE)
_FULL = (errno.ENOSPC, errno.EDQUOT)

Result = TypeVar("Result")


def is_safe_name(name: str) -> bool:
    """Tell if a peer may choose this file name: one plain component that means the same on every system."""
    return (
        _NAME.fullmatch(name) is not None
        and ".." not in name
        and not name.endswith((".", " "))
        and _WINDOWS_DEVICE.fullmatch(name) is None
    )


def write_private(path: Path, text: str, *, lasting: bool = False) -> None:
    """Write a file that its owner alone can read, in place of the one before.

    Args:
        path: the file.
        text: its content.
        lasting: whether to wait until the disk has it, so that it outlives a loss of power.

    Raises: OSError when the disk refuses; then the one before is still there.
    """
    # one name for all drafts: what a process left that was killed is overwritten
    _replace(path, path.with_suffix(".new"), text, os.O_TRUNC, PRIVATE, lasting)
    if lasting:
        sync_folder(path.parent)


def publish(path: Path, text: str | bytes, mode: int = PRIVATE, *, lasting: bool = True) -> None:
    """Write a file that appears with its whole content, in a folder in which others may write, too; a link in its place goes.

    Args:
        path: the file.
        text: its content; a text is written in UTF-8.
        mode: its permissions.
        lasting: whether to wait until the disk has the content, so that it outlives a loss of power.

    Raises: OSError; then nothing is left behind.
    """
    while True:
        draft = path.with_name(f".{path.name}.{secrets.token_hex(8)}")  # which no other user can have made before us
        if _replace(path, draft, text, os.O_EXCL, mode, lasting):
            return


def remove_drafts(folder: Path) -> None:
    """Remove the drafts of `publish` in `folder` whose process was killed, by its lock: the kernel lets go of it then."""
    with contextlib.suppress(OSError), os.scandir(folder) as entries:
        found = [Path(entry.path) for entry in entries if _DRAFT.fullmatch(entry.name) and entry.is_file(follow_symlinks=False)]
        for path in found:
            with contextlib.suppress(OSError):
                descriptor = os.open(path, os.O_WRONLY | os.O_NOFOLLOW | os.O_NONBLOCK | os.O_CLOEXEC)
                try:
                    fcntl.flock(descriptor, fcntl.LOCK_EX | fcntl.LOCK_NB)
                    path.unlink()
                finally:
                    os.close(descriptor)


def _is_locked(descriptor: int) -> bool:
    """Lock a new draft; return False where `remove_drafts` of another process has met it before."""
    try:
        fcntl.flock(descriptor, fcntl.LOCK_EX | fcntl.LOCK_NB)
    except BlockingIOError:
        return False
    except OSError:  # a file system without locks, on which none is removed
        return True
    return os.fstat(descriptor).st_nlink > 0


def _replace(path: Path, draft: Path, text: str | bytes, flags: int, mode: int, lasting: bool) -> bool:
    """Replace a file by a draft; return False, and do nothing, where another process has removed the draft of its own name."""
    try:
        descriptor = open_to_write(draft, flags, mode)
        try:
            if flags & os.O_EXCL and not _is_locked(descriptor):
                return False
            _write(descriptor, text)
            if lasting:
                os.fsync(descriptor)  # before it has its name
            # the old content or the new one, never a part; within the lock
            os.replace(draft, path)
        finally:
            os.close(descriptor)
    except OSError as error:
        with contextlib.suppress(OSError):
            draft.unlink()
        error.filename = str(path)  # not that of the draft, of which no caller knows
        # deleted: None would be told, as "-> None"
        del error.filename2
        raise
    return True


def read_text(path: Path, most: int = MOST_BYTES) -> str:
    """Read the text of a file of at most `most` bytes; a pipe that a shell has made of a command's output is one, too.

    A byte order mark before it, which some editors write, is no part of it. A pipe to which no program writes holds this one up
    for `PIPE_SECONDS`.

    Raises: OSError, also for a folder, a socket or a device; ValueError when it is longer, or not UTF-8.
    """
    with _opened(path) as descriptor:
        kind = os.fstat(descriptor).st_mode
        if stat.S_ISDIR(kind):
            raise IsADirectoryError(errno.EISDIR, os.strerror(errno.EISDIR), str(path))
        if not stat.S_ISREG(kind) and not stat.S_ISFIFO(kind):
            raise OSError(errno.EINVAL, "it is a device", str(path))
        # one byte more than may be there tells that there is more, and no large file is read for that
        return _text(_content(descriptor, most + 1), most)


def read_regular(path: Path, most: int = MOST_BYTES) -> str:
    """Read as `read_text` does, where another user may have put a pipe in the file's place: none holds this program up."""
    with _opened(path) as descriptor:
        if not stat.S_ISREG(os.fstat(descriptor).st_mode):
            raise ValueError("it is no regular file")
        return _text(_content(descriptor, most + 1), most)


@contextlib.contextmanager
def _opened(path: Path) -> Iterator[int]:
    """Open a file of any kind to be read, and yield its descriptor. Raises: OSError."""
    try:
        # O_NONBLOCK: opening a pipe without a writer would wait for one
        descriptor = os.open(path, os.O_RDONLY | os.O_NONBLOCK | os.O_CLOEXEC)
    except OSError as error:
        if error.errno == errno.ENXIO:
            raise OSError(error.errno, "it is a socket", str(path)) from error
        raise
    try:
        yield descriptor
    finally:
        os.close(descriptor)


def _content(descriptor: int, most: int) -> bytes:
    """Read a file or a pipe to its end, or up to `most` bytes.

    Raises: OSError; TimeoutError for a pipe that no program opens to write for `PIPE_SECONDS`.
    """
    poll, content = select.poll(), bytearray()
    poll.register(descriptor, select.POLLIN)
    while len(content) < most:
        # a regular file is always ready
        ready = poll.poll(1000 * PIPE_SECONDS)
        try:
            part = os.read(descriptor, most - len(content))
        except BlockingIOError:
            continue  # from a pipe with a writer, as of a command that takes its time
        if not part and not ready:
            what = f"it is a pipe, into which no program has written for {PIPE_SECONDS:g} s"
            raise TimeoutError(errno.ETIMEDOUT, what)
        if not part:
            break
        content += part
    return bytes(content)


@contextlib.contextmanager
def published(path: Path, text: str, mode: int = PRIVATE) -> Iterator[None]:
    """Keep a file with `text` for as long as the block lasts; one that a successor has put in its place stays.

    Args:
        path: that of the file, which appears with its whole content.
        text: the content, up to `MOST_BYTES`, by which the file is known again at the end.
        mode: its mode.

    Raises: OSError when it cannot be written; none at the end.
    """
    publish(path, text, mode)
    try:
        yield
    finally:
        with contextlib.suppress(OSError, ValueError):
            # by content: a successor has the same file name
            if read_regular(path) == text:
                path.unlink()


def read_toml(path: Path) -> dict[str, Any]:
    """Read the content of a TOML file.

    Raises: OSError, ValueError naming the faulty place.
    """
    return parsed_toml(read_text(path))


def parsed_toml(text: str) -> dict[str, Any]:
    """Parse a text in TOML. Raises: ValueError naming the faulty place."""
    return parsed(tomllib.loads, text)


@contextlib.contextmanager
def closed_on_error(file: BufferedReader) -> Iterator[BufferedReader]:
    """Close a file that was opened to be given away where the block, which examines it, ends by an error."""
    try:
        yield file
    except BaseException:
        file.close()
        raise


def open_unlinked(path: Path | str, folder: int | None = None) -> BufferedReader:
    """Open a regular file that others may have replaced by a link, a pipe or a device: none of these is followed or waited for.

    With `folder`, a descriptor, the path begins there. Raises: OSError, also for a file that is not regular.
    """
    try:
        descriptor = os.open(path, os.O_RDONLY | os.O_NOFOLLOW | os.O_NONBLOCK | os.O_CLOEXEC, dir_fd=folder)
    except OSError as error:
        if error.errno in (errno.ELOOP, errno.ENXIO):  # a link, a socket
            raise OSError(error.errno, NOT_REGULAR) from error
        raise
    try:
        # of the opened file, as its name may lead to another one by now
        if not stat.S_ISREG(os.fstat(descriptor).st_mode):
            raise OSError(errno.EINVAL, NOT_REGULAR)
        return open(descriptor, "rb")
    except BaseException:
        os.close(descriptor)
        raise


_FOLDER: Final = os.O_RDONLY | os.O_DIRECTORY | os.O_CLOEXEC


def open_folder(root: Path | str, way: Sequence[str] = ()) -> int:
    """Open the folder at the end of a way below `root` and return its descriptor.

    The root may be named by a link, because its owner has chosen the name; folders below it may not.

    Raises: OSError, also for a link or no folder on the way, and for a step that leads elsewhere than one folder down.
    """
    folder = os.open(root, _FOLDER)
    for name in way:
        outer = folder
        try:
            # step by step, each below the descriptor of the one before: no folder can be swapped on the way
            folder = os.open(_plain(name), _FOLDER | os.O_NOFOLLOW, dir_fd=outer)
        finally:
            os.close(outer)
    return folder


def open_below(root: Path | str, way: Sequence[str]) -> BufferedReader:
    """Open a regular file by the way to it below `root`: no link below the root is followed, no pipe or device is waited for.

    Raises: OSError, also for a file that is not regular, and for a way that leads elsewhere than down.
    """
    folder = open_folder(root, way[:-1])
    try:
        file = open_unlinked(_plain(way[-1] if way else ""), folder)
    except BaseException:
        os.close(folder)
        raise
    # an error of closing leaves neither open
    with closed_on_error(file):
        os.close(folder)
    return file


def read_below(root: Path | str, way: Sequence[str], most: int = MOST_BYTES) -> str:
    """Return the text of a file of at most `most` bytes, opened as by `open_below`. Raises: OSError, ValueError."""
    with open_below(root, way) as file:
        return _text(file.read(most + 1), most)


def _plain(name: str) -> str:
    """Return the name, if it is that of something in a folder. Raises: OSError."""
    if name in ("", ".", "..") or "/" in name or "\0" in name:
        raise OSError(errno.EINVAL, "it must be a plain path below the folder")
    return name


def open_to_write(path: Path, flags: int, mode: int = PRIVATE) -> int:
    """Open a file that is made if need be, but not through a link, and that children do not inherit; return its descriptor."""
    return os.open(path, os.O_WRONLY | os.O_CREAT | os.O_NOFOLLOW | os.O_CLOEXEC | flags, mode)


def private(path: str, flags: int) -> int:
    """Open a file that its owner alone can read, as the `opener` of `open`."""
    return open_to_write(Path(path), flags)


def parsed(parse: Callable[[str], Result], text: str) -> Result:
    """Return `parse(text)`, for the parsers of JSON and TOML, which follow nested brackets until the stack ends.

    Raises: the errors of `parse`, ValueError for text that is nested too deeply.
    """
    try:
        return parse(text)
    except RecursionError:
        raise ValueError("it is nested too deeply") from None


def append(path: Path, text: str, mode: int = PRIVATE) -> int:
    """Add to the end of a file, which is made with `mode` where there is none; return its size in bytes.

    Args:
        path: the file.
        text: the text to add, in UTF-8.
        mode: permissions of a new file.

    Raises: OSError when the disk refuses; then nothing has been added.
    """
    descriptor = open_to_write(path, os.O_APPEND, mode)
    try:
        size = os.fstat(descriptor).st_size
        try:
            return size + _write(descriptor, text)
        except OSError:
            with contextlib.suppress(OSError):
                # half a line would spoil the next one, too
                os.ftruncate(descriptor, size)
            raise
    finally:
        os.close(descriptor)


def continued(path: Path, text: str, mode: int = PRIVATE) -> bool:
    """Change a file to `text` in its place, where its content begins with the text or the text with its content; return whether
    that was so. What stays is not written again, so that nothing has to wait for the disk.

    Args:
        path: the file.
        text: the content that it is to have, in UTF-8.
        mode: permissions of a new file.

    Raises: OSError when the disk refuses; then the file is as it was.
    """
    try:
        descriptor = os.open(path, os.O_RDWR | os.O_NOFOLLOW | os.O_NONBLOCK | os.O_CLOEXEC)
    except OSError:
        return False
    with open(descriptor, "rb") as file:
        found = os.fstat(descriptor)
        # under its other name a file of several names keeps its content
        if not stat.S_ISREG(found.st_mode) or found.st_nlink != 1 or not found.st_size:
            return False
        content, before = text.encode(), file.read()
        if before.startswith(content):
            os.ftruncate(descriptor, len(content))
        elif content.startswith(before):
            append(path, content[len(before) :].decode(), mode)
        else:
            return False
    return True


def end_of_rows(descriptor: int) -> int:
    """Find the end of the last whole line of a file: of a table whose writer was killed the rest is half a row. Raises:
    OSError.
    """
    at = os.fstat(descriptor).st_size
    while at:
        begin = max(0, at - _MOST_HEAD)
        # from the end, as the half row is short and the table may be long
        found = os.pread(descriptor, at - begin, begin).rfind(b"\n")
        if found >= 0:
            return begin + found + 1
        at = begin
    return 0


def sample(descriptor: int, size: int, most: int, parts: int) -> bytes:
    """Read a sample of a file of lines.

    It is the first `size` bytes, or, where that is more than `most`, the first line and `parts` parts of whole lines, evenly
    from all of it, the first one from its begin, the last one up to the end: about `most` bytes in all. One part alone is the
    last one. The last line is left out until it is whole. Raises:
    OSError.
    """
    if size <= most:
        content = os.pread(descriptor, size, 0)
        return content[: content.rfind(b"\n") + 1]
    each = most // parts
    head, _, _ = os.pread(descriptor, min(size, _MOST_HEAD), 0).partition(b"\n")
    found = [head, b"\n"]
    gaps = max(1, parts - 1)
    for number in range(gaps + 1 - parts, gaps + 1):
        part = os.pread(descriptor, each, (size - each) * number // gaps)
        # a part may begin and end within a line
        found.append(part[part.find(b"\n") + 1 : part.rfind(b"\n") + 1])
    return b"".join(found)


def is_full(error: OSError) -> bool:
    return error.errno in _FULL


def when_there_is_room(write: Callable[[], Result], what: str, logger: logging.Logger) -> Result:
    """Call `write`, again and again for up to `ROOM_SECONDS` while the disk is full; `what` names the content, in words.

    Raises: the last error of `write`.
    """
    deadline = time.monotonic() + ROOM_SECONDS
    warned = False
    while True:
        try:
            result = write()
        except OSError as error:
            if not is_full(error) or time.monotonic() >= deadline:
                raise
            if not warned:
                words = "%s cannot be written: %s. Trying again for up to %g s."
                logger.warning(words, what, error.strerror, ROOM_SECONDS, extra={DISK_REFUSES: what})
            warned = True
        else:
            if warned:
                logger.info("%s is written after all.", what, extra={DISK_TAKES: what})
            return result
        time.sleep(PAUSE_SECONDS)


def _text(content: bytes, most: int) -> str:
    if len(content) > most:
        raise ValueError(f"it must have at most {most} bytes")
    # as PowerShell writes what is redirected into a file
    if content.startswith(_UTF_16):
        raise ValueError("it is UTF-16 text; save it as UTF-8")
    try:
        return content.decode("utf-8-sig")
    except UnicodeDecodeError as error:
        what = f"byte 0x{content[error.start]:02x} at position {error.start} is no UTF-8 text"
        raise ValueError(f"{what}; save it as UTF-8") from error


def sync_folder(folder: Path) -> None:
    """Make the names in the folder last, too."""
    # fsync of a file makes its content last, not its name
    descriptor = os.open(folder, os.O_RDONLY | os.O_DIRECTORY | os.O_CLOEXEC)
    try:
        os.fsync(descriptor)
    finally:
        os.close(descriptor)


def _write(descriptor: int, text: str | bytes) -> int:
    """Write all of it; a disk that becomes full takes a part first. Return the number of bytes."""
    data = text.encode("utf-8", "backslashreplace") if isinstance(text, str) else text
    written = 0
    while written < len(data):
        written += os.write(descriptor, data[written:])
    return written


def read_one(file: BufferedReader | BytesIO, classes: Sequence[type] = ()) -> Any:
    """Read the value of the one message that `file` holds, with instances of `classes`; reading ends at a second one.

    Raises: ProtocolError when there is none that is complete, or a second one; OSError.
    """
    begin, end = file.tell(), file.seek(0, SEEK_END)
    reader = FrameReader(limits=Limits(message=end - file.seek(begin)))  # no memory for arrays that the file does not hold
    reader.classes = classes
    # two are enough to know that it is not one
    while len(reader.messages) < 2 and (size := file.readinto(reader.buffer())):
        reader.advance(size)
    if len(reader.messages) != 1:
        what = "more than one message" if reader.messages else "no message that is complete"
        raise ProtocolError(f"A file must hold one message, and this one holds {what}.")
    return reader.messages[0].value


RESULT_FILE = "result.psgd"


def write_result(path: Path, content: object, classes: Sequence[type]) -> None:
    """Write `content`, whose instances may be of `classes`.

    Raises: TypeError for a value that cannot travel, ValueError for more than a message may hold, OSError from the disk, which
    leaves no file.
    """
    # in the form of a message: its reader has the bounds and checks of a peer's messages
    packed = pack(Kind.MESSAGE, (), content, False, classes)
    try:
        with open(path, "wb") as file:
            for part in packed.buffers():
                file.write(part)
    except OSError:
        # half of it would be taken for the work of a node that breaks the protocol
        path.unlink(missing_ok=True)
        raise


def read_result(path: Path, classes: Sequence[type]) -> Any:
    """Read the value that `write_result` wrote with the same `classes`.

    Raises: ProtocolError when the file is no complete result, OSError.
    """
    with open(path, "rb") as file:
        try:
            return read_one(file, classes)
        except ProtocolError as error:
            raise ProtocolError(f"{path} holds no result that can be read: {error}") from error


CONFIGURATION: Final = "configuration.json"


def keep_configuration(folder: Path, content: Mapping[str, Any]) -> None:
    """Write `content` into `folder`, in place of that of an earlier attempt; values that JSON does not know are written as
    text.

    Raises: OSError when the disk refuses; the old content is there still.
    """
    publish(folder / CONFIGURATION, json.dumps(content, indent=1, default=str))
