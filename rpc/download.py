"""Receiving the files of a job: nothing that an agent sends can be written outside the node's folder.

./Node-<i>-Retrieve/        replaced by each run of the same title; runs of other titles keep their files
"""

from __future__ import annotations

import hashlib
import json
import os
import re
import secrets
import shutil
from io import BufferedWriter
from pathlib import Path

from network.errors import ProtocolError

from .messages import FetchEnd, FileBegin, FileChunk, FileEnd, Operation

MAX_FILES = 256
MAX_BYTES = 1 << 30
MARKER = "job.json"
_NAME = re.compile(r"[A-Za-z0-9][A-Za-z0-9._ ()+-]{0,127}")
_WINDOWS_DEVICE = re.compile(r"(con|prn|aux|nul|com[0-9]|lpt[0-9])(\..*)?", re.IGNORECASE)


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
        self._names: list[str] = []
        self._file: BufferedWriter | None = None
        self._digest = hashlib.sha256()
        self._left = 0
        self._total = 0

    def take(self, operation: Operation, title: str = "") -> None:
        """Take in the next operation of the agent.

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
        elif isinstance(operation, FetchEnd):
            if self._file is not None:
                raise ProtocolError(f"Node {self.node} ended its transfer within a file.")
            self.state, self.problem, self.job = operation.state, operation.problem, operation.job
            self._publish(title)
            self.done = True
        else:
            raise ProtocolError(f"Node {self.node} sent {type(operation).__name__} among its files.")

    def _begin(self, begin: FileBegin) -> None:
        if self._file is not None or not is_safe_name(begin.name) or begin.name.casefold() in map(str.casefold, self._names):
            raise ProtocolError(f"Node {self.node} wants to write a file named {begin.name[:80]!r}, which is not allowed.")
        self._total += begin.size
        if begin.size < 0 or self._total > MAX_BYTES or len(self._names) >= MAX_FILES:
            raise ProtocolError(f"Node {self.node} sends more than {MAX_FILES} files or {MAX_BYTES} bytes.")
        self._partial.mkdir(mode=0o700, exist_ok=True)
        flags = os.O_WRONLY | os.O_CREAT | os.O_EXCL | os.O_NOFOLLOW | os.O_CLOEXEC
        self._file = open(os.open(self._partial / begin.name, flags, 0o644), "wb")  # noqa: SIM115  closed in _end or abandon
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
        """Move the complete files into the folder, in place of the last run of this title."""
        if not self._names:
            return
        marker = self.folder / MARKER
        if self.folder.is_symlink():
            raise ProtocolError(f"{self.folder} is a link; remove it.")
        if self.folder.is_dir() and _title_of(marker) in (title, None):
            shutil.rmtree(self.folder)
        self.folder.mkdir(exist_ok=True)
        for name in self._names:
            os.replace(self._partial / name, self.folder / name)
            self.files.append(self.folder / name)
        marker.write_text(json.dumps({"job": self.job, "title": title, "node": self.node, "state": self.state}), "utf-8")
        self._partial.rmdir()

    def abandon(self) -> None:
        """Drop what has arrived so far."""
        if self._file is not None:
            self._file.close()
            self._file = None
        shutil.rmtree(self._partial, ignore_errors=True)


def _title_of(marker: Path) -> str | None:
    try:
        return str(json.loads(marker.read_text("utf-8")).get("title"))
    except (OSError, ValueError, AttributeError):
        return None
