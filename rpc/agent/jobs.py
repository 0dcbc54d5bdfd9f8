"""The folders of jobs at an agent: one per job and node, with its record, log and reports; kept for a while, then removed.

<work>/jobs/<job>.<node>/job.json            the record: title, state, times, registered reports
                         Fit-<node> <date>.log
                         out/                what the executor wrote
"""

from __future__ import annotations

import json
import os
import shutil
import time
from collections.abc import Iterator
from dataclasses import asdict, dataclass, field
from pathlib import Path

from ..identity import process_name

KEEP_SECONDS = 14 * 86400.0
KEEP_BYTES = 1 << 30
_UNFINISHED = ("starting", "running")


@dataclass
class JobRecord:
    """What is remembered of a job; times in seconds since 1970."""

    job: str
    node: int
    title: str
    state: str = "starting"
    detail: str = ""
    started: float = field(default_factory=time.time)
    ended: float = 0.0
    files: list[str] = field(default_factory=list)
    log: str = ""

    @property
    def name(self) -> str:
        """Name of its process and folder."""
        return process_name(self.job, self.node)


class JobFolders:
    """All jobs below `root`, newest last."""

    def __init__(self, root: Path, keep: int) -> None:
        self.root = root
        self._keep = keep
        root.mkdir(mode=0o700, parents=True, exist_ok=True)
        self._records = sorted(self._read_all(), key=lambda r: r.started)
        for record in self._records:
            if record.state in _UNFINISHED:
                record.state, record.detail, record.ended = "lost", "The agent ended while this job ran.", time.time()
                self.save(record)

    def _read_all(self) -> Iterator[JobRecord]:
        for path in self.root.glob("*/job.json"):
            try:
                record = JobRecord(**json.loads(path.read_text(encoding="utf-8")))
            except (OSError, ValueError, TypeError):
                continue  # half a record of a machine that lost power; retention removes the folder
            yield record

    def __iter__(self) -> Iterator[JobRecord]:
        return iter(self._records)

    def find(self, job: str, node: int | None = None) -> JobRecord | None:
        """The newest record of `job` ("" for any job)."""
        for record in reversed(self._records):
            if job in ("", record.job) and node in (None, record.node):
                return record
        return None

    def create(self, job: str, node: int, title: str) -> JobRecord:
        """A new folder and its record.

        Raises: FileExistsError when this job was here before, OSError when the disk refuses.
        """
        record = JobRecord(job, node, title)
        record.log = f"Fit-{node} {time.strftime('%Y-%m-%d %H%M', time.localtime(record.started))}.log"
        folder = self.folder(record)
        folder.mkdir(mode=0o700)
        (folder / "out").mkdir(mode=0o700)
        self._records.append(record)
        self.save(record)
        return record

    def folder(self, record: JobRecord) -> Path:
        """Where the files of a job are."""
        return self.root / record.name

    def save(self, record: JobRecord) -> None:
        """Write the record, wholly or not at all."""
        target = self.folder(record) / "job.json"
        draft = target.with_suffix(".new")
        with open(draft, "w", encoding="utf-8", opener=_private) as file:
            json.dump(asdict(record), file)
        os.replace(draft, target)

    def clean_up(self) -> list[str]:
        """Remove the oldest ended jobs beyond number, age and size; returns their names. A running job stays."""
        removed: list[str] = []
        now, total = time.time(), 0
        for number, record in enumerate(reversed(list(self._records))):
            if record.state in _UNFINISHED:
                continue
            total += _size(self.folder(record))
            if number >= self._keep or now - record.ended > KEEP_SECONDS or (total > KEEP_BYTES and number):
                shutil.rmtree(self.folder(record), ignore_errors=True)
                self._records.remove(record)
                removed.append(record.name)
        return removed


def _private(path: str, flags: int) -> int:
    return os.open(path, flags, 0o600)


def _size(folder: Path) -> int:
    return sum(p.lstat().st_size for p in folder.rglob("*") if p.is_file() and not p.is_symlink())
