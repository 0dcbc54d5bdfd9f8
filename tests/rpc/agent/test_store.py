"""The memory of an agent: what it keeps of jobs, for how long, and what it makes of it after a restart."""

from __future__ import annotations

import json
import os
import stat
import time
from pathlib import Path

import pytest

from network.testing import VirtualClock
from rpc.agent.event_log import EVENT_LOG, EventLog, SecurityLog
from rpc.agent.store import KEEP_SECONDS, RETRY_SECONDS, JobFolders, JobRecord
from tests.fulldisk import FullDisk

from ...statements import covers


def add(folders: JobFolders, clock: VirtualClock, name: str, state: str = "done", size: int = 0, node: int = 0) -> JobRecord:
    """A job that takes a second."""
    record = folders.create(name, node, f"title of {name}")
    with open(folders.folder(record) / "out" / "data", "wb") as file:
        file.truncate(size)  # sparse
    clock.advance(1.0)
    record.state = state
    record.ended = 0.0 if state in ("starting", "running") else clock.time()
    folders.save(record)
    return record


@pytest.fixture
def clock() -> VirtualClock:
    return VirtualClock()


@pytest.fixture
def root(tmp_path: Path) -> Path:
    return tmp_path / "jobs"


def names(folders: JobFolders) -> list[str]:
    return [record.job for record in folders]


@covers("SUB-15", "SUB-18")
def test_records_survive_a_restart(root: Path, clock: VirtualClock) -> None:
    """An agent that restarts finds its finished jobs and their logs again, in order."""
    folders = JobFolders(root, 20, clock)
    first, second = add(folders, clock, "b"), add(folders, clock, "a", "failed", node=-2)
    first.files, first.detail = ["EV.csv"], "text \x1b ä"
    folders.save(first)
    again = JobFolders(root, 20, clock)
    assert list(again) == [first, second]
    assert again.folder(second).name == "a.ps2"
    assert first.log == f"Fit-0 {first.log[6:]}"
    assert again.find("") == second
    assert again.find("b") == first
    assert again.find("b", 0) == first
    assert again.find("b", 1) is None
    assert again.find("c") is None


@covers("FD-10")
def test_a_later_attempt_goes_on_in_the_same_folder(root: Path, clock: VirtualClock) -> None:
    """With what the earlier ones have left there; an attempt that was here before, or while one runs, is refused."""
    folders = JobFolders(root, 20, clock)
    first = add(folders, clock, "a", "failed")
    began, log = first.started, first.log
    (folders.folder(first) / "checkpoint").touch()
    again = folders.create("a", 0, "title of a", attempt=2)
    assert (again.attempt, again.state, again.ended, again.started, again.log) == (2, "starting", 0.0, began, log)
    assert (folders.folder(again) / "checkpoint").exists()
    for attempt in (1, 2, 3):  # it is still running
        with pytest.raises(FileExistsError):
            folders.create("a", 0, "title of a", attempt)
    again.state, again.ended = "failed", clock.time()
    for attempt in (0, 1, 2):
        with pytest.raises(FileExistsError):
            folders.create("a", 0, "title of a", attempt)
    assert folders.create("a", 0, "title of a", 3) is again
    assert folders.create("a", 1, "title of a", 3).attempt == 3  # a node that was not part of it before
    assert names(folders) == ["a", "a"]


@covers("SUB-18")
@pytest.mark.parametrize("state", ["starting", "running"])
def test_unfinished_jobs_are_lost_after_a_restart(root: Path, clock: VirtualClock, state: str) -> None:
    """Reported as lost, with an end, so that its files can be fetched and are removed in time."""
    add(JobFolders(root, 20, clock), clock, "a", state)
    for _ in range(2):
        (record,) = JobFolders(root, 20, clock)
        assert (record.state, record.detail) == ("lost", "The agent ended while this job ran.")
        assert record.ended == clock.time()


@covers("INV-5")
@pytest.mark.parametrize(
    "content",
    [
        "", "{", "[]", "null", '{"job": "a"}', "\0\0\0", '{"job": "a", "node": 0, "title": "t", "unknown": 1}',
        '{"job": "a", "node": "0", "title": "t"}', '{"job": "a", "node": 0, "title": 5}',
        '{"job": "a", "node": 0, "title": "t", "started": "now"}', '{"job": "a", "node": 0, "title": "t", "files": [1]}',
        '{"job": "a", "node": 0, "title": "t", "files": 5}',
        '{"job": "../../x", "node": 0, "title": "t"}', '{"job": "b", "node": 0, "title": "t"}', "\ud800", "[" * 100_000,
    ],
    ids=lambda text: text[:60].encode("ascii", "backslashreplace").decode(),
)  # fmt: skip
def test_broken_records_are_ignored(root: Path, clock: VirtualClock, content: str) -> None:
    """Half a record, or one that a job has tampered with, neither stops the agent nor leads it to another folder."""
    folders = JobFolders(root, 20, clock)
    add(folders, clock, "a")
    good = add(folders, clock, "good")
    (root / "a.0" / "job.json").write_text(content, encoding="utf-8", errors="surrogatepass")
    again = JobFolders(root, 20, clock)
    assert list(again) == [good]
    (root / "good.0" / "job.new").write_text(content[:5], encoding="utf-8", errors="surrogatepass")  # nor does half a draft
    assert list(JobFolders(root, 20, clock)) == [good]
    os.utime(root / "a.0", (clock.time(), clock.time()))
    clock.advance(KEEP_SECONDS - 1)
    assert again.clean_up() == []
    clock.advance(2)
    assert sorted(again.clean_up()) == ["a.0", "good.0"]
    assert list(root.iterdir()) == []


DAY = 86400.0
RUN, NEW = ("run", "running", 2048, 0.0), ("new", "starting", 0, 0.0)


def ended(name: str, mib: int = 0, then: float = 0.0, state: str = "done") -> tuple[str, str, int, float]:
    """A job of so many MiB, and the seconds that pass after it."""
    return name, state, mib, then


@covers("SUB-15")
@pytest.mark.parametrize(
    ("keep", "jobs", "needed", "removed"),
    [
        # the last k jobs that have ended; running ones do not count and stay, however old
        (2, [("run", "running", 0, 0.0), ended("a"), ended("b", state="failed"), ended("c", state="stopped"), NEW], "", "a"),
        # Security 8: 14 days after the end; a job that has run for a month is not touched
        (20, [("run", "running", 0, 0.0), ended("a", then=DAY), ended("b", then=KEEP_SECONDS - DAY)], "", "a"),
        (20, [("run", "running", 0, 0.0), ended("a", then=DAY), ended("b", then=KEEP_SECONDS + 30 * DAY)], "", "ba"),
        # Security 8: 1 GiB in all, oldest first; the newest stays even if it is larger, and so does a running one
        (20, [ended("a", 1), ended("b", 600), RUN, ended("c", 500)], "", "ba"),
        (20, [RUN, ended("c", 500), ended("d", 3072)], "", "c"),
        # between two attempts neither number nor size of newer jobs costs a job its checkpoints; age does
        (2, [ended("x", 2048), ended("a"), ended("b"), ended("c")], "x", "a"),
        (2, [ended("x", 2048), ended("a"), ended("b"), ended("c", then=KEEP_SECONDS + 1)], "x", "cbax"),
    ],
)
def test_what_is_kept(
    root: Path, clock: VirtualClock, keep: int, jobs: list[tuple[str, str, int, float]], needed: str, removed: str
) -> None:
    folders = JobFolders(root, keep, clock)
    for name, state, mib, then in jobs:
        add(folders, clock, name, state, mib << 20)
        clock.advance(then)
    assert folders.clean_up(needed) == [f"{name}.0" for name in removed]
    left = [name for name, *_ in jobs if name not in removed]
    assert names(folders) == left and sorted(path.name for path in root.iterdir()) == sorted(f"{name}.0" for name in left)
    assert folders.clean_up(needed) == []


@covers("INV-8")
def test_links_count_for_themselves(root: Path, clock: VirtualClock, tmp_path: Path) -> None:
    """Neither their targets' size nor their targets are touched."""
    precious = tmp_path / "precious"
    precious.mkdir()
    with open(precious / "file", "wb") as file:
        file.truncate(3 << 30)
    folders = JobFolders(root, 20, clock)
    for name in ("a", "b"):
        record = add(folders, clock, name)
        (folders.folder(record) / "out" / "link").symlink_to(precious / "file")
        (folders.folder(record) / "out" / "folder").symlink_to(precious)
    assert folders.clean_up() == []
    clock.advance(KEEP_SECONDS + 10)
    assert folders.clean_up() == ["b.0", "a.0"]
    assert (precious / "file").exists()


@covers("SEC-14")
def test_private(root: Path, clock: VirtualClock) -> None:
    """Folders 0700, records 0600."""
    folders = JobFolders(root, 20, clock)
    folder = folders.folder(add(folders, clock, "a"))
    modes = {path.name: stat.S_IMODE(path.stat().st_mode) for path in (root, folder, folder / "out", folder / "job.json")}
    assert modes == {"jobs": 0o700, "a.0": 0o700, "out": 0o700, "job.json": 0o600}


@covers("INV-8")
def test_saving_does_not_follow_links(root: Path, clock: VirtualClock, tmp_path: Path) -> None:
    """a job that puts a link where the record's draft goes gains nothing."""
    folders = JobFolders(root, 20, clock)
    record = add(folders, clock, "a")
    (tmp_path / "precious").write_text("precious")
    (folders.folder(record) / "job.new").symlink_to(tmp_path / "precious")
    with pytest.raises(OSError, match="symbolic links"):
        folders.save(record)
    assert (tmp_path / "precious").read_text() == "precious"


@pytest.fixture
def disk(monkeypatch: pytest.MonkeyPatch) -> FullDisk:
    return FullDisk(monkeypatch)


@covers("FLT-13")
def test_a_refusing_disk_leaves_nothing(root: Path, clock: VirtualClock, disk: FullDisk) -> None:
    """No folder, no record that would seem to run for ever."""
    folders = JobFolders(root, 20, clock)
    disk.full = True
    with pytest.raises(OSError, match="No space"):
        folders.create("a", 0, "t")
    assert list(root.iterdir()) == []
    assert list(folders) == []
    disk.full = False
    assert folders.create("a", 0, "t").state == "starting"


@covers("FLT-26")
def test_an_attempt_that_the_disk_refuses_may_be_tried_again(root: Path, clock: VirtualClock, disk: FullDisk) -> None:
    """a job that is known here stays what it was, on the disk and in memory; when there is room again it begins."""
    folders = JobFolders(root, 20, clock)
    record = add(folders, clock, "a", "failed")
    before = (record.state, record.attempt, record.ended)
    disk.full = True
    for attempt in (1, 2):
        with pytest.raises(OSError, match="No space"):
            folders.create("a", 0, "title of a", attempt)
    assert (record.state, record.attempt, record.ended) == before
    assert list(JobFolders(root, 20, clock)) == [record]
    assert sorted(path.name for path in (root / "a.0").iterdir()) == ["job.json", "out"]
    disk.full = False
    assert folders.create("a", 0, "title of a", 2) is record
    assert (record.state, record.attempt) == ("starting", 2)
    assert JobRecord.read(root / "a.0" / "job.json") == record


@covers("FLT-26")
def test_what_the_disk_refuses_is_written_later(root: Path, clock: VirtualClock, disk: FullDisk) -> None:
    """The end of a job that came while the disk was full is known to the next agent, once there was room."""
    folders = JobFolders(root, 20, clock)
    record = folders.create("a", 0, "title of a")
    record.state, record.ended = "done", clock.time()
    assert folders.deadline is None
    disk.full = True
    with pytest.raises(OSError, match="No space"):
        folders.save(record)
    folders.save_again()  # still no room
    deadline = folders.deadline
    assert deadline == clock.monotonic() + RETRY_SECONDS
    assert JobRecord.read(root / "a.0" / "job.json").state == "starting"
    disk.full = False
    folders.save_again()  # not yet
    assert JobRecord.read(root / "a.0" / "job.json").state == "starting"
    clock.advance(RETRY_SECONDS)
    folders.save_again()
    assert (folders.deadline, JobRecord.read(root / "a.0" / "job.json")) == (None, record)


@covers("FLT-26")
@pytest.mark.parametrize("kind", ["audit", "timeline"])
def test_logs_of_events_have_whole_lines_only(root: Path, clock: VirtualClock, disk: FullDisk, kind: str) -> None:
    """What came while the disk was full is missing, what comes afterwards begins on a line of its own."""
    root.mkdir(parents=True)
    log, events = SecurityLog(root / "log"), EventLog(root, 0)
    note = log.write if kind == "audit" else lambda event, detail: events.note(event, detail=detail)
    path = root / ("log" if kind == "audit" else EVENT_LOG)
    for number, disk.full in enumerate([False, True, True, False]):
        note("event", f"number {number}")
    told = [json.loads(line)["detail"] for line in path.read_text().splitlines()]
    assert told == ["number 0", "number 3"]


@covers("SUB-44")
def test_folders_where_a_link_leads(tmp_path: Path) -> None:
    """Those of a job with a link lie where it leads, also those of later attempts, and are never removed."""
    (tmp_path / "placed").mkdir()
    (tmp_path / "run").mkdir()
    (tmp_path / "placed" / "a").symlink_to(tmp_path / "run")
    folders = JobFolders(tmp_path / "jobs", 1, placed=tmp_path / "placed")
    first, other = folders.create("a", 0, "T"), folders.create("b", 0, "T")
    assert folders.folder(first) == tmp_path / "run" / "a.0" and (tmp_path / "run" / "a.0" / "out").is_dir()
    assert folders.folder(other) == tmp_path / "jobs" / "b.0"
    first.state, first.detail, first.ended = "failed", "", time.time()
    folders.save(first)
    assert folders.create("a", 0, "T", 1) is first and JobRecord.read(tmp_path / "run" / "a.0" / "job.json").attempt == 1
    for record in (first, other):
        record.state, record.ended = "done", time.time()
    third = folders.create("c", 0, "T")
    third.state, third.ended = "done", time.time()
    assert sorted(folders.clean_up()) == ["a.0", "b.0"]
    assert (tmp_path / "run" / "a.0" / "out").is_dir() and not (tmp_path / "jobs" / "b.0").exists()
