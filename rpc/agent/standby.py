"""Preparation of a node for the loss of its job's driver: its promises, the manifest of the job, a standby driver."""

from __future__ import annotations

import contextlib
import hashlib
import json
import os
import socket
import sys
from dataclasses import asdict, fields
from pathlib import Path
from typing import Final

from network.errors import ProtocolError
from network.keys import Key
from network.session import Session

from ..job.hardening import REFUSE_INSPECTION
from ..lease.lease import DriverLease, Promise
from ..messages import Denied, KeepManifest
from ..support.disk import at_disk
from ..support.files import open_to_write, open_unlinked, parsed, read_regular, write_private
from .children import ChildProcesses, child_environment, kill_group

MANIFEST, ATTEMPT_STATE = "manifest", "attempt.json"
MOST_BYTES = 4 << 30
_READ_BYTES = 1 << 20


def log_name(node: int) -> str:
    return f"Drive-{node}.log"


class Standby:
    """Preparation of one node for the loss of its job's driver.

    `order` is the last manifest order of the driver, `whole` the hash of the manifest that is here, `process` the standby
    driver that was started here. Methods raise OSError when the disk refuses.

    Args:
        folder: of the job.
        node: id of the node.
        cache: folder for the standby driver's data.
        children: starts it.
    """

    def __init__(self, folder: Path, node: int, cache: Path, children: ChildProcesses) -> None:
        self._folder, self._node, self._cache, self._children = folder, node, cache, children
        self._upload: ManifestUpload | None = None
        self._uploader: Session | None = None  # whose parts make up the upload
        self.order: KeepManifest | None = None
        self.whole = ""
        self.process: StandbyProcess | None = None

    @at_disk
    def keep(self, order: KeepManifest, session: Session) -> bool:
        """Keep the order, which changes from attempt to attempt.

        Returns: whether the manifest is here, too: else its parts come by `session`.
        """
        write_private(self._folder / ATTEMPT_STATE, json.dumps(asdict(order)))
        self.order = order  # where the disk is full, the file before is the one that a standby driver reads
        # read again only where this agent has not seen it whole, as after a restart: it may be gigabytes
        if self.whole != order.sha256 and not _is_there(self._folder / MANIFEST, order.sha256, order.size):
            self.abandon_upload()
            self._upload, self._uploader = ManifestUpload(self._folder / MANIFEST, order.sha256, order.size), session
            return False
        self.whole = order.sha256
        return True

    @at_disk
    def add(self, data: bytes, session: Session) -> bool:
        """Take the next bytes of the manifest. Those that still come on the connection of an earlier attempt are left out.

        Returns: whether it is whole now.

        Raises: ProtocolError for bytes that do not fit the announcement.
        """
        if self._upload is None or self.order is None or self._uploader is not session:
            return False  # the disk is full, or the driver was replaced meanwhile
        try:
            if not self._upload.take(data):
                return False
        except OSError:
            # a full disk: parts that still come are dropped, and the driver's answer never says whole
            self.abandon_upload()
            raise
        self._upload, self.whole = None, self.order.sha256
        return True

    def abandon_upload(self) -> None:
        if self._upload is not None:
            self._upload.abandon()
            self._upload = None

    def start(self, key: Key) -> StandbyProcess | None:
        """Start a standby driver, unless no driver has ever named its module."""
        if self.order is not None:
            self.process = StandbyProcess(self.order.standby, self._folder, self._node, self._cache, key, self._children)
        return self.process

    def close(self) -> None:
        self.abandon_upload()
        if self.process is not None:
            self.process.end()


@at_disk
def remove_manifest(folder: Path) -> None:
    """Remove the files for standby drivers; the job is over, or goes on without this node."""
    for name in (MANIFEST, ATTEMPT_STATE):
        (folder / name).unlink(missing_ok=True)


class ManifestUpload:
    """Upload of a manifest into a file, which is there wholly or not at all, readable by its owner only.

    Args:
        path: the file.
        sha256: hash that the bytes must have, in hex.
        size: how many bytes there must be.

    Raises: OSError when the disk refuses; then nothing is there.
    """

    def __init__(self, path: Path, sha256: str, size: int) -> None:
        self._path, self._sha256, self._left = path, sha256, size
        self._draft = path.with_suffix(".new")
        self._digest = hashlib.sha256()
        self._file = open(open_to_write(self._draft, os.O_TRUNC), "wb")  # noqa: SIM115  see `take`, `abandon`

    def take(self, data: bytes) -> bool:
        """Take the next bytes; return whether it is complete now, and in its place.

        Raises: ProtocolError for too many bytes, or others than the hash says.
        """
        # counted before they are written: more than announced never reaches the disk
        self._left -= len(data)
        try:
            if self._left < 0:
                raise ProtocolError("A manifest came with more bytes than announced.")
            self._digest.update(data)
            self._file.write(data)
            if self._left:
                return False
            if self._digest.hexdigest() != self._sha256:
                raise ProtocolError("A manifest came with a wrong hash.")
            # written out before it gets its name: a standby driver must never find a part
            self._file.close()
            os.replace(self._draft, self._path)
        except BaseException:
            self.abandon()
            raise
        return True

    def abandon(self) -> None:
        with contextlib.suppress(OSError):
            self._file.close()
        with contextlib.suppress(OSError):
            self._draft.unlink(missing_ok=True)


def _is_there(path: Path, sha256: str, size: int) -> bool:
    try:
        with open_unlinked(path) as file:
            # the size first: it saves hashing a draft
            if os.fstat(file.fileno()).st_size != size:
                return False
            digest = hashlib.sha256()
            while data := file.read(_READ_BYTES):
                digest.update(data)
            return digest.hexdigest() == sha256
    except OSError:
        return False


class StandbyProcess:
    """Process that calls `main` of `module` in a fresh interpreter, with the folder of the job and that of the cache as
    arguments.

    Its standard input gives it the cluster's key, each that follows in its place, and ends when the agent does. Raises: OSError
    when it cannot be started.

    Args:
        module: name of a module.
        folder: folder of the job; the log is written there.
        node: number of the node, in the name of the log.
        cache: folder of data that outlives jobs.
        key: the cluster's key.
        children: starts the process.
    """

    def __init__(self, module: str, folder: Path, node: int, cache: Path, key: Key, children: ChildProcesses) -> None:
        with contextlib.ExitStack() as held:
            log = open_to_write(folder / log_name(node), os.O_APPEND)
            held.callback(os.close, log)
            # not a pipe: until the process refuses inspection, a pipe could be opened through /proc, and the key read from it
            self._line, theirs = socket.socketpair()
            held.callback(theirs.close)
            try:
                self._process = children.start(
                    [sys.executable, "-c", f"{REFUSE_INSPECTION}; from {module} import main; main()", str(folder), str(cache)],
                    cwd=folder,
                    # one thread: a driver computes nothing, and must not take cores from jobs
                    env=child_environment(os.environ, 1),
                    stdin=theirs,
                    stdout=log,
                    stderr=log,
                )
            except BaseException:
                self._line.close()
                raise
        self._key = key
        with contextlib.suppress(OSError):  # it has ended already, which `ended` will tell
            self._line.send(key.secret, _NO_SIGNAL)

    def offer(self, key: Key) -> None:
        """Give the process another key, which it offers from its next call on; nothing for the one that it has."""
        if key.id != self._key.id:
            self._key = key
            with contextlib.suppress(OSError):
                self._line.send(key.secret, _NO_SIGNAL | socket.MSG_DONTWAIT)

    @property
    def pid(self) -> int:
        return self._process.pid

    @property
    def ended(self) -> bool:
        if self._process.poll() is None:
            return False
        self._line.close()
        return True

    def end(self) -> None:
        kill_group(self._process)
        self._process.wait()
        self._line.close()


# a process that ended at once must not end the agent by SIGPIPE
_NO_SIGNAL: Final = getattr(socket, "MSG_NOSIGNAL", 0)
LEASE = "lease.json"


@at_disk
def write_promise(folder: Path, promise: Promise) -> None:
    """Write a promise so that it outlasts a loss of power.

    Raises: OSError when the disk refuses; then the one before is kept.
    """
    write_private(folder / LEASE, json.dumps(asdict(promise)), lasting=True)


@at_disk
def read_promise(folder: Path) -> Promise:
    """Read the last promise; an empty one where there is none, or none that can be read."""
    try:
        promise = Promise(**parsed(json.loads, read_regular(folder / LEASE)))
    except (OSError, ValueError, TypeError):
        return Promise()
    # not by asdict, which goes down into nested values: a file may be nested deeper than the stack allows
    # by exact type: a file that was tampered with or cut must not make a promise of other types
    right = all(type(getattr(promise, each.name)) is type(each.default) for each in fields(Promise))
    return promise if right else Promise()


def content_of(promise: Promise) -> tuple[int, int, bool, str, int, int, str]:
    """Return the fields of a promise for an answer to a driver."""
    own = (promise.own, promise.own_attempt, promise.own_state)
    return promise.attempt, promise.agreed, promise.begun, promise.attempt_state, *own


def denied(job: str, node: int, lease: DriverLease, reason: str, outcome: str = "") -> Denied:
    return Denied(job, node, *content_of(lease.promise), lease.promise.term, lease.driver != "", reason, outcome)
