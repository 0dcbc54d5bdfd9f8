"""Folders of jobs at an agent: one per job and node, with its record, log and reports; kept for a while, then removed.

<work>/placed/<job>                      a link, made by the program that has started this agent, to the place of that job's
folders
<work>/jobs/<job>.<node>/job.json            the record: title, state, times, registered reports
                         Fit-<node> <date>.log
                         out/                files that the executor wrote
                         manifest, attempt.json   input of a standby driver (see `standby`), until the job is over
                         Drive-<node>.log    log of standby drivers that ran here
"""

from __future__ import annotations

import contextlib
import fcntl
import json
import os
import shutil
import tempfile
import time
from collections.abc import Collection, Iterator, Sequence
from dataclasses import asdict, dataclass, field, replace
from pathlib import Path

from network.clock import Clock, SystemClock
from network.errors import NetworkError

from ..support.disk import at_disk
from ..support.files import is_safe_name, parsed, read_regular, write_private
from ..support.identity import process_name

KEEP_SECONDS = 14 * 86400.0
KEEP_BYTES = 1 << 30
KEEP_TAKEN_BACK = 2  # whoever attaches to a refused job is told so for a while
RETRY_SECONDS = 1.0  # between two tries to write a record that the disk has refused
_UNFINISHED = ("starting", "running")
_RECORD = "job.json"
_TRIED_BYTES = 4096


@dataclass
class JobRecord:
    """Record of a job; times in seconds since 1970.

    `state` is that of the process here, `outcome` that of the whole job as its last `driver` has told it.
    """

    job: str
    node: int
    title: str
    state: str = "starting"
    detail: str = ""
    started: float = field(default_factory=time.time)
    ended: float = 0.0
    files: list[str] = field(default_factory=list)
    log: str = ""
    attempt: int = 0
    driver: str = ""
    outcome: str = ""
    outcome_detail: str = ""
    nodes: list[int] = field(default_factory=list)
    """Nodes of the attempt, this one among them."""

    @classmethod
    def read(cls, path: Path) -> JobRecord:
        """Read the record in the file `path`.

        Raises: OSError, ValueError when it is none, or not of the folder that it lies in.
        """
        try:
            record = cls(**parsed(json.loads, read_regular(path)))
            texts = (record.job, record.title, record.state, record.detail, record.log, *record.files)
            texts += (record.driver, record.outcome, record.outcome_detail)
        except TypeError as error:
            raise ValueError(f"{path} is no record of a job: {error}.") from error
        whole = type(record.node) is int and type(record.attempt) is int
        right = whole and type(record.started) is float and type(record.ended) is float
        right = right and type(record.nodes) is list and all(type(node) is int for node in record.nodes)
        if not right or not all(type(text) is str for text in texts):
            raise ValueError(f"{path} has a field of a wrong type.")
        # a folder that was copied or renamed by hand must not pass for another job
        if record.name != path.parent.name:
            raise ValueError(f"{path} is the record of {record.name}.")
        return record

    @property
    def name(self) -> str:
        return process_name(self.job, self.node)


class JobFolders:
    """Folders of all jobs below `root`, oldest first. Jobs that had not ended when the last agent did are recorded as lost.

    Args:
        root: the folder of all.
        keep: most ended jobs that are kept, none longer or more than the limits above.
        clock: tells times and ages.
        placed: holds links by job id: the folders of such a job lie where its link leads, and belong to the program that has
            set it: they are not removed here.
    """

    def __init__(self, root: Path, keep: int, clock: Clock | None = None, placed: Path | None = None) -> None:
        self.root = root
        self._placed = placed
        self._keep = keep
        self._clock = clock or SystemClock()
        self._unsaved: dict[str, JobRecord] = {}  # by name
        self._next_try = 0.0
        root.mkdir(mode=0o700, parents=True, exist_ok=True)
        self._records = sorted(self._read_all(), key=lambda r: r.started)
        for record in self._records:
            if record.state in _UNFINISHED:
                # the agent before was killed: nothing else writes an end of these
                record.state, record.detail, record.ended = "lost", "The agent ended while this job ran.", self._clock.time()
                with contextlib.suppress(OSError):  # a full disk does not keep the agent from serving
                    self.save(record)

    def _read_all(self) -> Iterator[JobRecord]:
        for path in self.root.glob(f"*/{_RECORD}"):
            with contextlib.suppress(OSError, ValueError):  # half a record of a machine that lost power; see clean_up
                yield JobRecord.read(path)

    def __iter__(self) -> Iterator[JobRecord]:
        return iter(self._records)

    def find(self, job: str, node: int | None = None) -> JobRecord | None:
        """Find the newest record of `job` ("" for any job)."""
        for record in reversed(self._records):
            if job in ("", record.job) and node in (None, record.node):
                return record
        return None

    def newest(self, job: str, node: int | None) -> JobRecord | None:
        """Find the record of the newest attempt at `job` ("" for any job) here: that of `node`, if it took part in it."""
        found = self.find(job)
        same = [] if found is None else [record for record in self._records if record.job == found.job]
        last = max((record.attempt for record in same), default=0)
        # an agent may have had another number in an earlier attempt
        took_part = [record for record in same if record.attempt == last]
        return next((record for record in took_part if record.node == node), took_part[-1] if took_part else None)

    @at_disk
    def create(self, job: str, node: int, title: str, attempt: int = 0, nodes: Sequence[int] = ()) -> JobRecord:
        """Make a new folder and its record; a later attempt of a job goes on in the folder of the earlier ones, with its log.

        Args:
            job: id of the job.
            node: number of the node.
            title: title of the job.
            attempt: number of the attempt.
            nodes: numbers of all nodes of the attempt.

        Raises: FileExistsError when this attempt, or a later one, was here before; OSError when the disk refuses.
        """
        earlier = next((known for known in self._records if (known.job, known.node) == (job, node)), None)
        if earlier is not None and earlier.attempt < attempt and earlier.state not in _UNFINISHED:
            # a copy: the record in memory changes only when the disk has taken the new one
            begun = replace(earlier, state="starting", detail="", ended=0.0, files=[], attempt=attempt, nodes=list(nodes))
            self._write(begun)  # first: an attempt that the disk refuses has not been here, and may be tried again
            vars(earlier).update(vars(begun))
            return earlier
        record = JobRecord(job, node, title, started=self._clock.time(), attempt=attempt, nodes=list(nodes))
        record.log = f"Fit-{node} {time.strftime('%Y-%m-%d %H%M', time.localtime(record.started))}.log"
        folder = self.folder(record)
        # without exist_ok: an attempt that was here before must not be mixed with this one
        folder.mkdir(mode=0o700)
        try:
            (folder / "out").mkdir(mode=0o700)
            self._write(record)
        except OSError:
            shutil.rmtree(folder, ignore_errors=True)
            raise
        self._records.append(record)
        return record

    def folder(self, record: JobRecord) -> Path:
        return (self._place(record.job) or self.root) / record.name

    def _place(self, job: str) -> Path | None:
        if self._placed is not None:
            with contextlib.suppress(OSError):
                # one step, not resolve(): the link says where, and what is behind it is the program's
                return Path(os.readlink(self._placed / job))
        return None

    @at_disk
    def save(self, record: JobRecord) -> None:
        """Write the record, wholly or not at all; one that the disk refuses is written later, by `save_again`.

        Raises: OSError when the disk refuses.
        """
        # first: where writing raises it stays listed for the next try
        self._unsaved[record.name] = record
        self._write(record)
        del self._unsaved[record.name]

    @property
    def deadline(self) -> float | None:
        return self._next_try if self._unsaved else None

    @at_disk
    def save_again(self) -> None:
        """Write again the records that the disk has refused before, if it is time for that."""
        now = self._clock.monotonic()
        if not self._unsaved or now < self._next_try:
            return
        self._next_try = now + RETRY_SECONDS
        for record in list(self._unsaved.values()):
            with contextlib.suppress(OSError):  # it was told of the first time
                self.save(record)

    def _write(self, record: JobRecord) -> None:
        write_private(self.folder(record) / _RECORD, json.dumps(asdict(record)))

    @at_disk
    def clean_up(self, needed: Collection[str] = ()) -> list[str]:
        """Remove the oldest ended jobs beyond number, age and size; return their names. A running job stays, and so does one
        of `needed`, which may be started again from its files, until it is too old. Those that were taken back before their
        first start have no files, so only the newest stay, beside the others.
        """
        removed: list[str] = []
        now, total, number, taken_back = self._clock.time(), 0, 0, 0
        # newest first: what is beyond the limits is the oldest
        for record in [record for record in reversed(self._records) if record.state not in _UNFINISHED]:
            is_old = now - record.ended > KEEP_SECONDS
            if record.job in needed and not is_old:
                continue
            placed = self._place(record.job) is not None
            if record.state == "aborted" and not record.attempt:
                # a submitter that waits for a busy node leaves one with each try, which must cost no job its files
                taken_back += 1
                is_beyond = taken_back > KEEP_TAKEN_BACK
            else:
                total += 0 if placed else _size(self.folder(record))
                # the newest stays whatever its size: its user may not have fetched it yet
                is_beyond = number >= self._keep or (total > KEEP_BYTES and number > 0)
                number += 1
            if is_beyond or is_old:
                if not placed:
                    shutil.rmtree(self.folder(record), ignore_errors=True)
                self._records.remove(record)
                self._unsaved.pop(record.name, None)
                removed.append(record.name)
        return removed + self._remove_unknown(now)

    def _remove_unknown(self, now: float) -> list[str]:
        """Remove old folders without a readable record; they stay as long as a job does, for people to look into them."""
        known = {record.name for record in self._records}
        removed: list[str] = []
        for folder in self.root.iterdir():
            # folders being made have no record either, but are new
            if folder.name not in known and now - folder.lstat().st_mtime > KEEP_SECONDS:
                shutil.rmtree(folder, ignore_errors=True)
                removed.append(folder.name)
        return removed


def _size(folder: Path) -> int:
    """Sum the bytes of all files below `folder`; those that vanish meanwhile or cannot be read count nothing."""
    total = 0
    for base, _, names in os.walk(folder):
        for name in names:
            with contextlib.suppress(OSError):
                total += os.lstat(os.path.join(base, name)).st_size
    return total


@at_disk
def keep_verdict(record: JobRecord, folder: Path, detail: str, report: str) -> None:
    """Write `VERDICT-<title>-N(<node>).json` and register it; `report` is a text in JSON.

    Args:
        record: the record of the job.
        folder: its folder.
        detail: how the job has ended, in words.
        report: the verdicts, a text in JSON.

    Raises: OSError when the disk refuses.
    """
    name = f"VERDICT-{record.title}-N({record.node}).json"
    # a title is the submitter's text
    if not is_safe_name(name):
        name = f"VERDICT-N({record.node}).json"
    try:
        verdicts = json.loads(report)
    except (ValueError, RecursionError):
        verdicts = []
    content = {"job": record.job, "outcome": record.outcome, "detail": detail, "verdicts": verdicts}
    write_private(folder / "out" / name, json.dumps(content, indent=1))
    if name not in record.files:
        record.files.append(name)


# An agent's work directory: private, and used by one agent at a time.
#
# <work>/lock  agent.sock  audit.jsonl  log/  jobs/  placed/  cache/

PLACED = "placed"


class WorkDirectory:
    """Work directory of an agent: makes `path` and its folders with mode 0700 and holds it until `close`.

    Raises: NetworkError when another agent uses it or it cannot be made.
    """

    def __init__(self, path: Path) -> None:
        self.path = path.absolute()
        self.log, self.jobs, self.placed, self.cache = (self.path / name for name in ("log", "jobs", PLACED, "cache"))
        self.socket = self.path / "agent.sock"
        self.audit = self.path / "audit.jsonl"
        self._lock = -1
        try:
            self.path.mkdir(mode=0o700, parents=True, exist_ok=True)
            # also of a directory that was there: anybody may have made it under /tmp
            status = self.path.stat()
            if status.st_uid != os.getuid() or status.st_mode & 0o077:
                raise NetworkError(
                    f"The work directory {self.path} must belong to this user and be closed to others (mode 0700); "
                    f"choose another one, or 'chmod 700' it if it is meant for this alone."
                )
            self._lock = os.open(self.path / "lock", os.O_RDWR | os.O_CREAT | os.O_NOFOLLOW | os.O_CLOEXEC, 0o600)
            # held for life: the kernel lets go of it however this process ends
            fcntl.flock(self._lock, fcntl.LOCK_EX | fcntl.LOCK_NB)
            for folder in (self.log, self.jobs, self.placed, self.cache):
                folder.mkdir(mode=0o700, exist_ok=True)
        except BlockingIOError:
            self.close()
            raise NetworkError(f"The work directory {self.path} is used by another worker; choose another one.") from None
        except OSError as error:
            self.close()
            # `mkdir` tells of a file in its place that it exists
            why = "it is no directory" if isinstance(error, FileExistsError) else error.strerror
            raise NetworkError(f"The work directory {self.path} cannot be used: {why}.") from error

    @at_disk
    def room(self) -> tuple[int, str]:
        """Return the free bytes at the jobs' folder, and why no file can be written there, "" where one can: it is tried."""
        free = 0
        try:
            disk = os.statvfs(self.jobs)
            free = disk.f_bavail * disk.f_frsize
            # tried, as quotas and read-only mounts do not show in the free bytes
            with tempfile.TemporaryFile(dir=self.jobs) as file:
                file.write(bytes(_TRIED_BYTES))
        except OSError as error:
            return free, error.strerror or str(error)
        return free, ""

    def close(self) -> None:
        if self._lock >= 0:
            os.close(self._lock)
            self._lock = -1
