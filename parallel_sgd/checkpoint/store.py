"""The checkpoints of one node on its disk: each appears whole or not at all, the newest valid one counts, old ones go."""

from __future__ import annotations

import contextlib
import math
import os
import re
import secrets
from collections.abc import Iterable, Iterator
from pathlib import Path
from typing import Final

from nn.tensor_files import TEMPORARY_SUFFIX, ModelFileError, read_opened
from rpc.support import files
from rpc.support.logs import get_logger

from ..engine.progress import Position
from .schedule import Kept, keeps
from .snapshot import CheckpointError, Header, OtherJob, Snapshot

KEEP_LAST: Final = 3
KEEP_BEST: Final = 1
# zero-padded, so that names sort by position; longer numbers are allowed
_NAME = re.compile(r"checkpoint-(\d{6,})-(\d{8,})\.safetensors")
# a bound for what is read into memory, far above any model that trains on CPUs
_MOST_BYTES: Final = 64 << 30
_CHUNK: Final = 8 << 20
_log = get_logger("parallel_sgd.checkpoint")


class Disk:
    """The file system as checkpoints use it: an argument, so that each of its failures can be tried.

    Every method may raise OSError.
    """

    def make_folder(self, path: Path) -> None:
        """Make a folder that is closed to others, where there is none."""
        path.mkdir(mode=0o700, parents=True, exist_ok=True)

    def names(self, folder: Path) -> list[str]:
        # before the first checkpoint there is no folder, which is no error
        return os.listdir(folder) if folder.is_dir() else []

    def write(self, path: Path, pieces: Iterable[bytes | memoryview]) -> None:
        # nothing that lies at the draft's name is written into or followed (RUN-7)
        descriptor = os.open(path, os.O_WRONLY | os.O_CREAT | os.O_EXCL | os.O_NOFOLLOW | os.O_CLOEXEC, 0o600)
        try:
            for piece in pieces:
                rest = memoryview(piece).cast("B")
                # a write may take less than it is given
                while rest:
                    rest = rest[os.write(descriptor, rest[:_CHUNK]) :]
            os.fsync(descriptor)
        finally:
            os.close(descriptor)

    def put(self, target: Path, pieces: Iterable[bytes | memoryview], draft: Path) -> None:
        """Make a file, in place of an older one of its name; it is written as `draft`, in the same folder.

        It takes its name in one step when the device has all of it: a crash at any moment leaves the old content or the new.
        """
        try:
            self.write(draft, pieces)
            self.replace(draft, target)
        finally:
            with contextlib.suppress(OSError):  # after an error that says more
                # after success the draft has another name, and there is nothing to remove
                self.remove(draft)
        # the name is durable only with the folder: after a crash the old name may be back otherwise (INV-5)
        self.sync_folder(target.parent)

    def replace(self, source: Path, target: Path) -> None:
        os.replace(source, target)

    def sync_folder(self, folder: Path) -> None:
        files.sync_folder(folder)

    def remove(self, path: Path) -> None:
        path.unlink(missing_ok=True)

    def read(self, path: Path) -> bytes:
        """Return the content of a regular file in a folder of its own; neither may be a link.

        Raises: ValueError (ModelFileError) for a path that is no such file, OSError.
        """
        place = path.absolute()
        # the folder is opened as a name below its parent, so that neither it nor the file can be a link (RUN-7)
        way = [name for name in (place.parent.name, place.name) if name]
        with files.open_below(place.parent.parent, way) as file:
            return read_opened(file, str(path), _MOST_BYTES)


def file_name(position: Position) -> str:
    """Return `checkpoint-<completed epochs>-<completed batches of the next one>.safetensors`."""
    return f"checkpoint-{position.epoch:06d}-{position.batch:08d}.safetensors"


def position_of(name: str) -> Position | None:
    match = _NAME.fullmatch(name)
    return Position(int(match[1]), int(match[2])) if match else None


class Store:
    """Checkpoints of one node in a folder.

    Kept are the last ones, the best ones, those after some epochs, and two that were left beside the schedule
    (`Header.commit`), which must not take the place of those that all nodes have. A temporary file is written and synchronised,
    takes its name in one step, then the folder is synchronised: a crash at any moment leaves the old checkpoints and perhaps
    the new one, all whole. Files that cannot be used are named in a warning, once.

    Args:
        folder: the folder; made with the first checkpoint.
        job: id of the job of the checkpoints; None for any.
        keep_last: number of the newest checkpoints that stay.
        keep_best: number of the checkpoints with the lowest loss at an evaluation that stay.
        disk: the file system.
        keep_every: epochs from one checkpoint that stays to the next; None: none stays for its epoch.
    """

    def __init__(
        self,
        folder: Path,
        job: str | None = None,
        keep_last: int = KEEP_LAST,
        keep_best: int = KEEP_BEST,
        disk: Disk | None = None,
        keep_every: Kept = None,
    ) -> None:
        self.folder, self.keep_every = folder, keep_every
        self._job = job
        self._keep_last, self._keep_best = keep_last, keep_best
        self._disk = disk or Disk()
        self._losses: dict[Position, float] | None = None  # of all that are here; not a number where there is none
        self._commits: set[Position] = set()
        self._refused: set[str] = set()

    def save(self, snapshot: Snapshot) -> Path:
        """Write `snapshot`, in place of a checkpoint of the same position; then remove checkpoints that are not kept.

        Returns: the file.

        Raises: OSError when the disk refuses; all checkpoints before are there still.
        """
        disk, header = self._disk, snapshot.header
        disk.make_folder(self.folder)
        known = self._known()
        target = self.folder / file_name(header.position)
        temporary = self.folder / f".{secrets.token_hex(8)}{TEMPORARY_SUFFIX}"
        # drafts end with the suffix that `_remove_others` cleans up after a kill
        disk.put(target, snapshot.pieces(), temporary)
        known[header.position] = math.nan if header.loss is None else header.loss
        # saved again by the schedule, a position is a commit no more
        (self._commits.add if header.commit else self._commits.discard)(header.position)
        self._remove_others()
        return target

    def headers(self) -> list[Header]:
        """Return the headers of all valid checkpoints, the newest first. Each file is read and checked as a whole."""
        return [snapshot.header for snapshot in self.snapshots()]

    def snapshots(self, *, warns_of_others: bool = True) -> Iterator[Snapshot]:
        """Yield all valid checkpoints, the newest first; `warns_of_others` as in `load`."""
        for position in self._positions():
            # a damaged file is warned of in `load`, and the next older one counts (FD-13)
            with contextlib.suppress(CheckpointError):
                yield self.load(position, warns_of_others=warns_of_others)

    def newest(self) -> Snapshot | None:
        return next(self.snapshots(), None)

    def load(self, position: Position, *, warns_of_others: bool = True) -> Snapshot:
        """Read the checkpoint of a position.

        Args:
            position: of the checkpoint.
            warns_of_others: whether a warning tells of a checkpoint of another job.

        Raises: CheckpointError when it is not there or cannot be used; a warning tells that too, the first time.
        """
        path = self.folder / file_name(position)
        try:
            return read_checkpoint(path, self._job, self._disk)
        except CheckpointError as error:
            # once per file: every look at the folder would tell it again
            if path.name not in self._refused and (warns_of_others or not isinstance(error, OtherJob)):
                self._refused.add(path.name)
                _log.warning("%s It is skipped.", error)
            raise

    def cut(self, position: Position) -> None:
        """Remove the checkpoints after a position from which training goes on: they belong to a past that is given up."""
        with contextlib.suppress(OSError):  # they are then replaced one by one
            for late in self._positions():
                if late > position:
                    self._disk.remove(self.folder / file_name(late))
        # to be read again: some of the files may not have gone
        self._losses = None

    def _positions(self) -> list[Position]:
        try:
            names = self._disk.names(self.folder)
        except OSError as error:
            _log.warning("The checkpoints in %s cannot be listed: %s.", self.folder, error.strerror)
            return []
        # sorted by number, newest first
        return sorted((position for name in names if (position := position_of(name)) is not None), reverse=True)

    def _known(self) -> dict[Position, float]:
        """Return the losses of the valid checkpoints; those of earlier attempts are read before the first save."""
        if self._losses is None:
            # a run that begins where another one has left its own replaces them, and need not say so
            headers = [snapshot.header for snapshot in self.snapshots(warns_of_others=False)]
            self._losses = {h.position: math.nan if h.loss is None else h.loss for h in headers}
            self._commits = {h.position for h in headers if h.commit}
        return self._losses

    def _remove_others(self) -> None:
        """Remove checkpoints that are not kept, broken and foreign ones too, and temporary files of a killed process."""
        known = self._known()
        # commits apart: those of a single node must not push out what all nodes have in common; two, as `Commits` has
        kept = set(sorted(known.keys() - self._commits)[-self._keep_last :]) | set(sorted(known.keys() & self._commits)[-2:])
        judged = [position for position in known if not math.isnan(known[position])]
        # the lowest loss, and of equal ones the earliest
        kept.update(sorted(judged, key=lambda position: (known[position], position))[: self._keep_best])
        kept.update(filter(keeps(self.keep_every), known))
        names = {file_name(position) for position in kept}
        for position in known.keys() - kept:
            del known[position]
        with contextlib.suppress(OSError):  # the checkpoint is safe; the next one tries again
            for name in self._disk.names(self.folder):
                # by name: a checkpoint that could not be read is not in `known` and goes, too
                if (_NAME.fullmatch(name) and name not in names) or name.endswith(TEMPORARY_SUFFIX):
                    self._disk.remove(self.folder / name)


def read_checkpoint(path: Path, job: str | None = None, disk: Disk | None = None) -> Snapshot:
    """Read the checkpoint in a file; with `job`, only one of that job.

    Raises: CheckpointError naming the file and its fault.
    """
    try:
        return Snapshot.read((disk or Disk()).read(path), job)
    except OSError as error:
        raise CheckpointError(f"The checkpoint {path} cannot be read: {error.strerror}.") from error
    except (CheckpointError, ModelFileError) as error:
        kind = OtherJob if isinstance(error, OtherJob) else CheckpointError
        raise kind(f"The checkpoint {path} cannot be used: {error}.") from error
