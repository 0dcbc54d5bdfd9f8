"""Downloads of a job's files, from several nodes at once; nothing is written outside the folder of a node."""

from __future__ import annotations

import contextlib
import errno
import hashlib
import logging
import os
import re
import secrets
import shutil
from collections import Counter
from collections.abc import Callable
from io import BufferedWriter
from pathlib import Path
from typing import Final

from network.clock import Clock
from network.errors import ProtocolError

from ..liveness.limits import DOWNLOAD_SECONDS
from ..messages import MAX_BYTES, MAX_FILES, FetchEnd, FileBegin, FileChunk, FileEnd, Operation
from ..support.files import PAUSE_SECONDS, ROOM_SECONDS, is_full, is_safe_name
from ..support.logs import clean
from .run_folder import RUNS, RunFolder, node_folder, shown

FILE_OPERATIONS = (FileBegin, FileChunk, FileEnd, FetchEnd)

OF_RUN: Final = "RUN-"
"""Begin of the names of files that belong to the run, not to the node: they do not stay in its folder."""


NOT_SAVED: Final = "its files cannot be saved here"
"""Begin of the reason for which the files of a node are not here, where it is the disk of this program that refuses them."""


class Downloads:
    """Downloads by node, into the folder of the run.

    Attributes: `files`, the saved paths of each node; `missing`, the nodes whose files will not come, and why; `problems`,
    reports of nodes on files that they could not send; `states`, the state of the job at each.

    Args:
        directory: where they wait until they are complete; it is made where it does not exist.
        run_of: returns the folder of the run for the last message of an agent.
        ask: requests the files of a node; while the disk is full they are requested again, for up to `ROOM_SECONDS`.
        logger: of the job.
        clock: measures time-outs.

    Raises: OSError when `directory` cannot be made.
    """

    def __init__(
        self,
        directory: Path,
        run_of: Callable[[FetchEnd], RunFolder],
        ask: Callable[[int], None],
        logger: logging.Logger,
        clock: Clock,
    ) -> None:
        self.files: dict[int, list[Path]] = {}
        self.missing: dict[int, str] = {}
        self.problems: dict[int, str] = {}
        self.states: dict[int, str] = {}
        # at once: a folder that cannot be made is told before anything is asked for
        directory.mkdir(parents=True, exist_ok=True)
        self._directory, self._run_of, self._ask = directory, run_of, ask
        self._logger, self._clock = logger, clock
        self._downloads: dict[int, Download] = {}
        self._heard: dict[int, float] = {}
        self._full_since: dict[int, float] = {}
        self._spoiled: set[int] = set()  # nodes whose bytes on the way are of no use
        self._again: dict[int, float] = {}  # when to request it once more
        self._unread: Counter[int] = Counter()  # transfers that were given up before their end: the rest of them may come

    def expect(self, node: int) -> None:
        self._downloads[node] = Download(self._directory / RUNS, node, lambda end: self._run_of(end).path)
        # from the question on: an agent that never answers is silent, too
        self._heard[node] = self._clock.monotonic()
        self._ask(node)

    @property
    def open(self) -> list[int]:
        return list(self._downloads)

    @property
    def deadline(self) -> float | None:
        silent = [heard + DOWNLOAD_SECONDS for heard in self._heard.values()]
        return min([*silent, *self._again.values()], default=None)

    def take(self, node: int, operation: Operation) -> bool:
        """Take in the next operation of `node`; True when its files are complete.

        Raises: ProtocolError for a peer that breaks the rules; its download is then given up.
        """
        download = self._downloads.get(node)
        if download is not None:
            self._heard[node] = self._clock.monotonic()
        if node in self._unread:  # it comes before files that were requested later
            if isinstance(operation, FetchEnd):
                self._unread -= Counter([node])
            return False
        if download is None:
            return False
        if node in self._spoiled:
            self._end_spoiled(node, operation)
            return False
        try:
            download.take(operation)
            # after they are in their folder: the link must not lead to a folder without them
            if isinstance(operation, FetchEnd) and download.files:
                self._run_of(operation).has(node)
        except ProtocolError as error:
            self.give_up(node, str(error))
            raise
        except OSError as error:
            self._refuse(node, operation, error)
            return False
        if not download.done:
            return False
        self.states[node] = download.state
        if download.problem:
            self.problems[node] = clean(download.problem)
            # a worker that had no part in the job, of those that were asked: what lacks is told where its files are needed
            level = logging.INFO if download.state == "unknown" else logging.WARNING
            self._logger.log(level, "Node(%s): %s", node, self.problems[node])
        if download.state in ("starting", "running"):
            self._logger.info("Node(%s): the job is still running, so only its logs are here yet.", node)
        self.files[node] = download.files
        self._forget(node)
        return True

    def _refuse(self, node: int, operation: Operation, error: OSError) -> None:
        """Refuse files that the disk does not take: a full one may have room in a moment."""
        now = self._clock.monotonic()
        # only room comes back by itself; any other refusal is final
        if not is_full(error) or now >= self._full_since.setdefault(node, now) + ROOM_SECONDS:
            self.give_up(node, f"{NOT_SAVED}: {error.strerror}")
            # the agent goes on sending what it was asked for
            if not isinstance(operation, FetchEnd):
                self._unread[node] += 1
            return
        if self._full_since[node] == now:
            words = "Node(%s): %s: %s. Trying again for up to %g s."
            self._logger.warning(words, node, NOT_SAVED, error.strerror, ROOM_SECONDS)
        self._spoiled.add(node)
        self._end_spoiled(node, operation)

    def _end_spoiled(self, node: int, operation: Operation) -> None:
        if isinstance(operation, FetchEnd):
            self._spoiled.discard(node)
            # only at the end of this transfer: a session has one at a time
            self._again[node] = self._clock.monotonic() + PAUSE_SECONDS

    def give_up(self, node: int, reason: str) -> None:
        """Note that the files of `node` will not come, if they have not come already."""
        if node in self._downloads:
            self._downloads[node].abandon()
            told, self.missing[node] = self.missing.get(node), clean(reason)
            # once: at the end of a job files that have not come are asked for again
            if self.missing[node] != told:
                self._logger.warning("Node(%s): its files have not come: %s", node, self.missing[node])
            self._forget(node)

    def _forget(self, node: int) -> None:
        del self._downloads[node], self._heard[node]
        self._spoiled.discard(node)
        self._again.pop(node, None)

    def check(self) -> None:
        """Give up the nodes that have sent nothing for a minute, request again the files for which the disk had no room."""
        now = self._clock.monotonic()
        for node in [node for node, due in self._again.items() if now >= due]:
            del self._again[node]
            self.expect(node)
        # after the requests: a node that is asked again has its whole minute
        for node in [node for node, heard in self._heard.items() if now >= heard + DOWNLOAD_SECONDS]:
            self.give_up(node, f"it has sent nothing for {DOWNLOAD_SECONDS:g} s")
            self._unread[node] += 1

    def remedy(self, job: str) -> str:
        """Return a sentence on the way to those files of a job that the disk did not take, "" where it took all.

        Args:
            job: its id, "" for the newest of each node.
        """
        reasons = [why for node, why in self.missing.items() if node not in self.files and why.startswith(NOT_SAVED)]
        if not reasons:
            return ""
        full = tuple(map(os.strerror, (errno.ENOSPC, errno.EDQUOT)))
        task = "make room" if all(why.rstrip(".").endswith(full) for why in reasons) else "mend that"
        command = f"psgd fetch {job}".rstrip()
        return f"The workers keep their files: {task}, then '{command}' brings them."

    def close(self) -> None:
        for node in self.open:
            self.give_up(node, "the program does not wait for them")

    def report(self, node: int) -> None:
        files = [path for path in self.files.get(node, []) if not path.name.startswith(OF_RUN)]
        if files:
            tables = [table for path in files if (table := _TABLE.fullmatch(path.name)) and table[1] not in _LISTED_TABLES]
            further = {table[0] for table in tables}
            lines = "".join(f"\n\t\t--> {shown(path)}" for path in files if path.name not in further)
            if tables:
                lines += f"\n\t\t--> {shown(files[0].parent)}: tables {', '.join(table[1] for table in tables)}"
            self._logger.info("Save file for %s.\n\tList:%s", node, lines)


_TABLE: Final = re.compile(r"([A-Z]+)-.+-N\(-?[0-9]+\)\.csv")
#: Of the tables of a node those that the list of its files names one by one.
_LISTED_TABLES: Final = ("TR", "EV")
_NEW_FILE = os.O_WRONLY | os.O_CREAT | os.O_EXCL | os.O_NOFOLLOW | os.O_CLOEXEC
_FOLDER = os.O_RDONLY | os.O_DIRECTORY | os.O_NOFOLLOW | os.O_CLOEXEC


class Download:
    """Download of one node's files into its folder. Feed it the operations of the agent until `done`.

    They wait below `directory`, which is made if need be, until all have come; then they replace files of the same name in the
    folder of the node, and nothing else is touched. `files` are the paths after the end, `state` the job's state at the agent,
    `problem` tells which files could not be sent. A peer that breaks the rules ends the download with ProtocolError; the folder
    is then as it was.

    Args:
        directory: see above.
        node: id of the node.
        place: returns the folder of the run for the last message of the agent (default: `directory`; on the same file system).
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
        # a name that nobody can foresee, as the folder may be shared
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
        # without case, as on the disks of macOS and Windows
        if not is_safe_name(begin.name) or begin.name.casefold() in map(str.casefold, self._names):
            raise ProtocolError(f"Node {self.node} wants to write a file named {begin.name[:80]!r}, which is not allowed.")
        # before a byte comes: what is announced counts
        self._total += begin.size
        if begin.size < 0 or self._total > MAX_BYTES or len(self._names) >= MAX_FILES:
            raise ProtocolError(f"Node {self.node} sends more than {MAX_FILES} files or {MAX_BYTES} bytes.")
        # made for the first file, so that a transfer without files leaves nothing behind
        if self._partial_fd < 0:
            self._directory.mkdir(exist_ok=True)
            self._partial.mkdir()
            self._partial_fd = os.open(self._partial, _FOLDER)
        # O_EXCL, and no link followed: nothing that is there can be written over
        self._file = open(os.open(begin.name, _NEW_FILE, 0o644, dir_fd=self._partial_fd), "wb")  # noqa: SIM115  see _end, abandon
        self._names.append(begin.name)
        self._left = begin.size
        self._digest = hashlib.sha256()

    def _write(self, data: bytes) -> None:
        # counted by what was announced, so that a disk cannot be filled beyond it
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
                # one after the other, each at once: a reader finds the old file or the new one
                os.replace(name, name, src_dir_fd=self._partial_fd, dst_dir_fd=target)
        finally:
            os.close(target)
        self.files = [folder / name for name in self._names]
        self.abandon()

    def abandon(self) -> None:
        """Drop the files that have arrived and are not in the folder."""
        if self._file is not None:
            with contextlib.suppress(OSError):  # the unwritten bytes do not matter any more
                self._file.close()
            self._file = None
        if self._partial_fd >= 0:
            os.close(self._partial_fd)
            self._partial_fd = -1
            shutil.rmtree(self._partial, ignore_errors=True)
