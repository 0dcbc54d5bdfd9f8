"""Receiving the files of a job: nothing that an agent sends can be written outside the node's folder."""

from __future__ import annotations

import contextlib
import hashlib
import os
import secrets
import shutil
from collections.abc import Callable
from io import BufferedWriter
from pathlib import Path

from network.errors import ProtocolError

from .files import is_safe_name
from .messages import MAX_BYTES, MAX_FILES, FetchEnd, FileBegin, FileChunk, FileEnd, Operation
from .run_folder import node_folder

_NEW_FILE = os.O_WRONLY | os.O_CREAT | os.O_EXCL | os.O_NOFOLLOW | os.O_CLOEXEC
_FOLDER = os.O_RDONLY | os.O_DIRECTORY | os.O_NOFOLLOW | os.O_CLOEXEC


class Download:
    """The files of one node on their way into its folder. Feed it the operations of the agent until `done`.

    They wait below `directory`, which is made if need be, until all have come; then `place` says, from what the agent tells
    of the job, where the folder of the node is (default: `directory`; on the same file system). In it they replace files of
    the same name, and nothing else is touched.

    `files` are the paths after the end, `state` the job's state at the agent, `problem` what could not be sent.
    A peer that breaks the rules ends the download with ProtocolError; the folder is then as it was.
    """

    def __init__(self, directory: Path, node: int, place: Callable[[FetchEnd], Path] | None = None) -> None:
        self.node = node
        self.job = ""
        self.done = False
        self.state = ""
        self.problem = ""
        self.files: list[Path] = []
        self._directory = directory
        self._place = place or (lambda _: directory)
        self._partial = directory / f".Node-{node}-{secrets.token_hex(6)}.partial"
        self._partial_fd = -1  # all files are made below this descriptor, whatever becomes of the path
        self._names: list[str] = []
        self._file: BufferedWriter | None = None
        self._digest = hashlib.sha256()
        self._left = 0
        self._total = 0

    def take(self, operation: Operation) -> None:
        """Take in the next operation of the agent.

        Raises: ProtocolError for a forbidden name, a wrong size or hash, too many files or bytes; OSError from the disk.
        """
        try:
            self._take(operation)
        except BaseException:
            self.abandon()
            raise

    def _take(self, operation: Operation) -> None:
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
                self._publish(self._place(operation) / node_folder(self.node))
            self.done = True
        else:
            raise ProtocolError(f"Node {self.node} sent {type(operation).__name__} among its files.")

    def _begin(self, begin: FileBegin) -> None:
        if self.done or self._file is not None:
            raise ProtocolError(f"Node {self.node} began a file where none can begin.")
        if not is_safe_name(begin.name) or begin.name.casefold() in map(str.casefold, self._names):
            raise ProtocolError(f"Node {self.node} wants to write a file named {begin.name[:80]!r}, which is not allowed.")
        self._total += begin.size
        if begin.size < 0 or self._total > MAX_BYTES or len(self._names) >= MAX_FILES:
            raise ProtocolError(f"Node {self.node} sends more than {MAX_FILES} files or {MAX_BYTES} bytes.")
        if self._partial_fd < 0:
            self._directory.mkdir(exist_ok=True)
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

    def _publish(self, folder: Path) -> None:
        """Put the complete files into the folder; nothing else in it is touched."""
        folder.mkdir(exist_ok=True)
        target = os.open(folder, _FOLDER)  # an error if there is a link in its place
        try:
            for name in self._names:
                os.replace(name, name, src_dir_fd=self._partial_fd, dst_dir_fd=target)
        finally:
            os.close(target)
        self.files = [folder / name for name in self._names]
        self.abandon()

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
