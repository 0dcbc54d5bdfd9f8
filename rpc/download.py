"""Receiving the files of a job: nothing that an agent sends can be written outside the node's folder.

./Node-<i>-Retrieve/        replaced by each run of the same title; runs of other titles keep their files
"""

from __future__ import annotations

import contextlib
import hashlib
import json
import os
import re
import secrets
import shutil
from collections.abc import Iterable
from io import BufferedWriter
from pathlib import Path
from typing import Any

from network.errors import ProtocolError

from .files import parsed, read_regular
from .messages import FetchEnd, FileBegin, FileChunk, FileEnd, Operation

MAX_FILES = 256
MAX_BYTES = 1 << 30
MARKER = "job.json"
_NAME = re.compile(r"[A-Za-z0-9][A-Za-z0-9._ ()+-]{0,127}")
_WINDOWS_DEVICE = re.compile(r"(con|prn|aux|nul|com[0-9]|lpt[0-9]) *(\..*)?", re.IGNORECASE)
_NEW_FILE = os.O_WRONLY | os.O_CREAT | os.O_EXCL | os.O_NOFOLLOW | os.O_CLOEXEC
_FOLDER = os.O_RDONLY | os.O_DIRECTORY | os.O_NOFOLLOW | os.O_CLOEXEC


def is_safe_name(name: str) -> bool:
    """Whether a peer may choose this file name: one plain component that means the same on every system."""
    return (
        _NAME.fullmatch(name) is not None
        and ".." not in name
        and not name.endswith((".", " "))
        and _WINDOWS_DEVICE.fullmatch(name) is None
    )


class Download:
    """The files of one node on their way into its folder. Feed it the operations of the agent until `done`.

    `files` are the paths after the end, `state` the job's state at the agent, `problem` what could not be sent.
    A peer that breaks the rules ends the download with ProtocolError; the old folder is then as it was.
    """

    def __init__(self, directory: Path, node: int) -> None:
        self.folder = directory / f"Node-{node}-Retrieve"
        self.node = node
        self.job = ""
        self.done = False
        self.state = ""
        self.problem = ""
        self.files: list[Path] = []
        self._partial = directory / f".Node-{node}-{secrets.token_hex(6)}.partial"
        self._partial_fd = -1  # all files are made below this descriptor, whatever becomes of the path
        self._names: list[str] = []
        self._file: BufferedWriter | None = None
        self._digest = hashlib.sha256()
        self._left = 0
        self._total = 0

    def take(self, operation: Operation, title: str = "") -> None:
        """Take in the next operation of the agent; `title` of the run, in case the agent does not know it.

        Raises: ProtocolError for a forbidden name, a wrong size or hash, too many files or bytes; OSError from the disk.
        """
        try:
            self._take(operation, title)
        except BaseException:
            self.abandon()
            raise

    def _take(self, operation: Operation, title: str) -> None:
        if isinstance(operation, FileBegin):
            self._begin(operation)
        elif isinstance(operation, FileChunk):
            self._write(operation.data)
        elif isinstance(operation, FileEnd):
            self._end(operation.sha256)
        elif isinstance(operation, FetchEnd) and not self.done:
            if self._file is not None:
                raise ProtocolError(f"Node {self.node} ended its transfer within a file.")
            self.state, self.problem, self.job = operation.state, operation.problem, operation.job
            if self._names:
                self._publish(operation.title or title)
            self.done = True
        else:
            raise ProtocolError(f"Node {self.node} sent {type(operation).__name__} among its files.")

    def _begin(self, begin: FileBegin) -> None:
        if self.done or self._file is not None:
            raise ProtocolError(f"Node {self.node} began a file where none can begin.")
        taken = {MARKER, *map(str.casefold, self._names)}
        if not is_safe_name(begin.name) or begin.name.casefold() in taken:
            raise ProtocolError(f"Node {self.node} wants to write a file named {begin.name[:80]!r}, which is not allowed.")
        self._total += begin.size
        if begin.size < 0 or self._total > MAX_BYTES or len(self._names) >= MAX_FILES:
            raise ProtocolError(f"Node {self.node} sends more than {MAX_FILES} files or {MAX_BYTES} bytes.")
        if self._partial_fd < 0:
            self._partial.mkdir()
            self._partial_fd = os.open(self._partial, _FOLDER)
        self._file = open(os.open(begin.name, _NEW_FILE, 0o644, dir_fd=self._partial_fd), "wb")  # noqa: SIM115  see _end, abandon
        self._names.append(begin.name)
        self._left = begin.size
        self._digest = hashlib.sha256()

    def _write(self, data: bytes) -> None:
        if self._file is None or len(data) > self._left:
            raise ProtocolError(f"Node {self.node} sends more of a file than it announced.")
        self._left -= len(data)
        self._digest.update(data)
        self._file.write(data)

    def _end(self, sha256: str) -> None:
        if self._file is None or self._left or self._digest.hexdigest() != sha256:
            raise ProtocolError(f"Node {self.node} sent a file whose size or hash is wrong.")
        self._file.close()
        self._file = None

    def _publish(self, title: str) -> None:
        """Put the complete files in place of those of the last run of this title; nothing else in the folder is touched.

        What a good run left and a failed one does not bring (the model) stays.
        """
        last = _last_run(self.folder / MARKER, title)
        marker = {"job": self.job, "title": title, "node": self.node, "state": self.state, "files": self._names}
        with open(os.open(MARKER, _NEW_FILE, 0o644, dir_fd=self._partial_fd), "w", encoding="utf-8") as file:
            json.dump(marker, file)
        self._move_in((*self._names, MARKER))
        if self.state == "done" or last.get("state") != "done":
            for name in last.get("files", []):
                if isinstance(name, str) and is_safe_name(name) and name not in self._names:
                    (self.folder / name).unlink(missing_ok=True)
        self.files = [self.folder / name for name in self._names]
        self.abandon()

    def _move_in(self, names: Iterable[str]) -> None:
        self.folder.mkdir(exist_ok=True)
        target = os.open(self.folder, _FOLDER)  # an error if there is a link in its place
        try:
            for name in names:
                os.replace(name, name, src_dir_fd=self._partial_fd, dst_dir_fd=target)
        finally:
            os.close(target)

    def abandon(self) -> None:
        """Drop what has arrived and is not in the folder."""
        if self._file is not None:
            with contextlib.suppress(OSError):  # what could not be written does not matter any more
                self._file.close()
            self._file = None
        if self._partial_fd >= 0:
            os.close(self._partial_fd)
            self._partial_fd = -1
            shutil.rmtree(self._partial, ignore_errors=True)


def _last_run(marker: Path, title: str) -> dict[str, Any]:
    """What `marker` says of the last run, if that had this title."""
    try:
        content = parsed(json.loads, read_regular(marker))
    except (OSError, ValueError):
        return {}
    fits = isinstance(content, dict) and content.get("title") == title and isinstance(content.get("files"), list)
    return content if fits else {}
