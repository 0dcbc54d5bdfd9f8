"""What an agent keeps: folders and records of jobs, for how long and after restarts; logs, audit, events; full disks."""

from __future__ import annotations

import json
import os
import stat
import time
from pathlib import Path
from typing import Any

import pytest

from network.testing import VirtualClock
from rpc.agent import event_log
from rpc.agent.event_log import (
    EVENT_LOG,
    KEPT,
    LINES_IN_ALL,
    LINES_PER_PEER,
    WINDOW_SECONDS,
    EventLog,
    RateLimit,
    SecurityLog,
    logs_between,
    new_log,
)
from rpc.agent.store import KEEP_SECONDS, RETRY_SECONDS, JobFolders, JobRecord
from rpc.liveness.recorder import Kind, Signal
from tests.fulldisk import FullDisk

from ...statements import covers


class Store(JobFolders):
    """Folders on a clock of their own; `add` a job that takes a second."""

    def __init__(self, root: Path, keep: int = 20, clock: VirtualClock | None = None) -> None:
        self.clock = clock or VirtualClock()
        super().__init__(root, keep, self.clock)

    def add(self, name: str, state: str = "done", mib: int = 0, node: int = 0) -> JobRecord:
        record = self.create(name, node, f"title of {name}")
        with open(self.folder(record) / "out" / "data", "wb") as file:
            file.truncate(mib << 20)  # sparse
        self.clock.advance(1.0)
        record.state = state
        record.ended = 0.0 if state in ("starting", "running") else self.clock.time()
        self.save(record)
        return record

    def restarted(self) -> Store:
        return Store(self.root, 20, self.clock)

    def removed(self, *needed: str) -> list[str]:
        """What a look removes; a second one finds nothing."""
        gone = self.clean_up(*needed)
        assert self.clean_up(*needed) == [] and len(list(self)) == len(list(self.root.glob("*/job.json")))
        return gone


@pytest.fixture
def store(tmp_path: Path) -> Store:
    return Store(tmp_path / "jobs")


@pytest.fixture
def disk(monkeypatch: pytest.MonkeyPatch) -> FullDisk:
    return FullDisk(monkeypatch)


@covers("SUB-15", "SUB-18", "SEC-14")
def test_records_survive_a_restart(store: Store) -> None:
    """Private ones of finished jobs, in order; a job that had not ended is lost, with an end, so that its files can be fetched
    and are removed in time."""
    first, second = store.add("b"), store.add("a", "failed", node=-2)
    first.files, first.detail = ["EV.csv"], "text \x1b ä"
    store.save(first)
    again = store.restarted()
    assert list(again) == [first, second] and again.folder(second).name == "a.ps2"
    assert first.log == f"Fit-0 {first.log[6:]}"
    assert (again.find(""), again.find("b"), again.find("b", 0)) == (second, first, first)
    assert again.find("b", 1) is None and again.find("c") is None
    folder = store.folder(first)
    paths = (store.root, folder, folder / "out", folder / "job.json")
    assert [stat.S_IMODE(path.stat().st_mode) for path in paths] == [0o700, 0o700, 0o700, 0o600]
    for state in ("starting", "running"):
        store.add(state, state)
        for _ in range(2):
            lost = store.restarted().find(state)
            assert lost is not None and (lost.state, lost.ended) == ("lost", store.clock.time())
            assert lost.detail == "The agent ended while this job ran."


@covers("FD-10")
def test_a_later_attempt_goes_on_in_the_same_folder(store: Store) -> None:
    """With what the earlier ones have left there; an attempt that was here before, or while one runs, is refused."""
    first = store.add("a", "failed")
    began, log = first.started, first.log
    (store.folder(first) / "checkpoint").touch()
    again = store.create("a", 0, "title of a", attempt=2)
    assert (again.attempt, again.state, again.ended, again.started, again.log) == (2, "starting", 0.0, began, log)
    assert (store.folder(again) / "checkpoint").exists()
    for ended, attempts in ((0.0, (1, 2, 3)), (store.clock.time(), (0, 1, 2))):  # it is still running; it has ended
        again.ended = ended
        again.state = "failed" if ended else "starting"
        for attempt in attempts:
            with pytest.raises(FileExistsError):
                store.create("a", 0, "title of a", attempt)
    assert store.create("a", 0, "title of a", 3) is again
    assert store.create("a", 1, "title of a", 3).attempt == 3  # a node that was not part of it before
    assert [record.job for record in store] == ["a", "a"]


@covers("INV-5")
@pytest.mark.parametrize(
    "content",
    [
        "", "{", "[]", "null", '{"job": "a"}', "\0\0\0", '{"job": "a", "node": 0, "title": "t", "unknown": 1}',
        '{"job": "a", "node": "0", "title": "t"}', '{"job": "a", "node": 0, "title": 5}',
        '{"job": "a", "node": 0, "title": "t", "started": "now"}', '{"job": "a", "node": 0, "title": "t", "files": [1]}',
        '{"job": "a", "node": 0, "title": "t", "nodes": ["x"]}',
        '{"job": "a", "node": 0, "title": "t", "files": 5}',
        '{"job": "../../x", "node": 0, "title": "t"}', '{"job": "b", "node": 0, "title": "t"}', "\ud800", "[" * 100_000,
    ],
    ids=lambda text: text[:60].encode("ascii", "backslashreplace").decode(),
)  # fmt: skip
def test_broken_records_are_ignored(store: Store, content: str) -> None:
    """Half a record, or one that a job has tampered with, neither stops the agent nor leads it to another folder."""
    store.add("a")
    good, root = store.add("good"), store.root
    (root / "a.0" / "job.json").write_text(content, encoding="utf-8", errors="surrogatepass")
    assert list(again := store.restarted()) == [good]
    (root / "good.0" / "job.new").write_text(content[:5], encoding="utf-8", errors="surrogatepass")  # nor does half a draft
    assert list(store.restarted()) == [good]
    os.utime(root / "a.0", (store.clock.time(), store.clock.time()))
    store.clock.advance(KEEP_SECONDS - 1)
    assert again.clean_up() == []
    store.clock.advance(2)
    assert sorted(again.clean_up()) == ["a.0", "good.0"] and list(root.iterdir()) == []


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
        # nor do jobs that were taken back before their start, as each try of a submitter that waits for another node
        (2, [ended("a", 1), ended("b"), *(ended(name, state="aborted") for name in "pqrst"), RUN], "", "rqp"),
    ],
)
def test_what_is_kept(tmp_path: Path, keep: int, jobs: list[tuple[str, str, int, float]], needed: str, removed: str) -> None:
    store = Store(tmp_path, keep)
    for name, state, mib, then in jobs:
        store.add(name, state, mib)
        store.clock.advance(then)
    assert store.removed(needed) == [f"{name}.0" for name in removed]
    assert [record.job for record in store] == [name for name, *_ in jobs if name not in removed]


@covers("INV-8")
def test_links_are_neither_followed_nor_counted(store: Store, tmp_path: Path) -> None:
    """Their targets' size does not count, and they stay; a link where the draft of the record goes gains a job nothing."""
    precious = tmp_path / "precious"
    precious.mkdir()
    with open(precious / "file", "wb") as file:
        file.truncate(3 << 30)
    for name in ("a", "b"):
        record = store.add(name)
        (store.folder(record) / "out" / "link").symlink_to(precious / "file")
        (store.folder(record) / "out" / "folder").symlink_to(precious)
    (store.folder(record) / "job.new").symlink_to(precious / "new")
    with pytest.raises(OSError, match="symbolic links"):
        store.save(record)
    assert not (precious / "new").exists()
    assert store.clean_up() == []
    store.clock.advance(KEEP_SECONDS + 10)
    assert store.removed() == ["b.0", "a.0"] and (precious / "file").exists()


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
    first.state, first.ended = "failed", time.time()
    assert folders.create("a", 0, "T", 1) is first and JobRecord.read(tmp_path / "run" / "a.0" / "job.json").attempt == 1
    for record in (first, other, folders.create("c", 0, "T")):
        record.state, record.ended = "done", time.time()
    assert sorted(folders.clean_up()) == ["a.0", "b.0"]
    assert (tmp_path / "run" / "a.0" / "out").is_dir() and not (tmp_path / "jobs" / "b.0").exists()


@covers("FLT-13", "FLT-26")
def test_a_full_disk_costs_a_job_nothing_but_time(store: Store, disk: FullDisk) -> None:
    """No folder that would seem to run for ever; a job that is known stays what it was, on the disk and in memory, and begins
    when there is room again; an end that could not be written is written later."""

    def kept() -> JobRecord:
        return JobRecord.read(store.root / "a.0" / "job.json")

    disk.full = True
    with pytest.raises(OSError, match="No space"):
        store.create("a", 0, "t")
    assert list(store.root.iterdir()) == list(store) == []
    disk.full = False
    record = store.add("a", "failed")
    before = (record.state, record.attempt, record.ended)
    disk.full = True
    for attempt in (1, 2):
        with pytest.raises(OSError, match="No space"):
            store.create("a", 0, "title of a", attempt)
    assert (record.state, record.attempt, record.ended) == before and list(store.restarted()) == [record]
    assert sorted(path.name for path in (store.root / "a.0").iterdir()) == ["job.json", "out"]
    disk.full = False
    assert store.create("a", 0, "title of a", 2) is record
    assert (record.state, record.attempt) == ("starting", 2) and kept() == record
    record.state, record.ended = "done", store.clock.time()
    assert store.deadline is None
    disk.full = True
    with pytest.raises(OSError, match="No space"):
        store.save(record)
    store.save_again()  # still no room
    assert store.deadline == store.clock.monotonic() + RETRY_SECONDS
    disk.full = False
    store.save_again()  # not yet
    assert kept().state == "starting"
    store.clock.advance(RETRY_SECONDS)
    store.save_again()
    assert (store.deadline, kept()) == (None, record)


def lines(path: Path) -> list[dict[str, Any]]:
    return [json.loads(line) for line in path.read_text().splitlines()]


@covers("INV-8")
def test_the_events_of_a_job(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """At their time, in a private file. A link in its place, which the process could leave, is not followed; a missing folder
    and a full file are nobody's business."""
    (tmp_path / "other").touch()
    (tmp_path / EVENT_LOG).symlink_to(tmp_path / "other")
    EventLog(tmp_path, 0).note("state")
    assert (tmp_path / "other").read_text() == ""
    EventLog(tmp_path / "gone", 0).note("state")
    (tmp_path / EVENT_LOG).unlink()
    made = EventLog(tmp_path, 1, clock=lambda: 1000.0, monotonic=lambda: 50.0)
    made.note("state", state="failed", detail="a\nb")
    made.note_signals([Signal(Kind.BEGIN, 0, 6, 47.5)])
    expected = [
        {"time": 1000.0, "attempt": 1, "event": "state", "state": "failed", "detail": "a\nb"},
        {"time": 997.5, "attempt": 1, "event": "signal", "kind": "BEGIN", "epoch": 1, "batch": 7},
    ]
    assert lines(tmp_path / EVENT_LOG) == expected
    assert stat.S_IMODE((tmp_path / EVENT_LOG).stat().st_mode) == 0o600
    monkeypatch.setattr(event_log, "MAX_EVENT_BYTES", limit := (tmp_path / EVENT_LOG).stat().st_size + 120)
    for _ in range(10):
        made.note("state", detail="x" * 20)
    assert lines(tmp_path / EVENT_LOG)[:2] == expected and limit - 120 < (tmp_path / EVENT_LOG).stat().st_size <= limit


@covers("SEC-17")
def test_the_audit_log(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """What a peer says cannot forge a line or bring escape codes in, and not fill the disk; a disk that refuses is survived."""
    path = tmp_path / "logs" / "audit.jsonl"
    log = SecurityLog(path)
    log.write("admitted", "")
    path.parent.mkdir()
    path.symlink_to(tmp_path / "target")
    log.write("admitted", "")
    assert not (tmp_path / "target").exists()
    path.unlink()
    log.write("admitted", "10.0.0.1 as submitter")
    log.write("turned away", 'x\n{"event": "admitted"}\x1b[2J' + "y" * 1000)
    first, second = lines(path)
    assert first["event"] == "admitted" and first["detail"] == "10.0.0.1 as submitter" and first["time"] > 1e9
    assert "\x1b" not in second["detail"] and "\n" not in second["detail"] and len(second["detail"]) < 600
    assert path.stat().st_mode & 0o777 == 0o600
    monkeypatch.setattr(event_log, "MAX_AUDIT_BYTES", 2000)
    for number in range(200):
        log.write("turned away", f"visitor {number}")
    files = sorted(path.parent.iterdir())
    assert [file.name for file in files] == ["audit.jsonl", "audit.jsonl.1"]
    assert all(file.stat().st_size < 2200 for file in files) and "visitor 199" in "".join(map(Path.read_text, files))


@covers("FLT-26")
@pytest.mark.parametrize("kind", ["audit", "timeline"])
def test_logs_of_events_have_whole_lines_only(tmp_path: Path, disk: FullDisk, kind: str) -> None:
    """What came while the disk was full is missing, what comes afterwards begins on a line of its own."""
    events, path = EventLog(tmp_path, 0), tmp_path / (EVENT_LOG if kind == "timeline" else "log")
    note = SecurityLog(path).write if kind == "audit" else lambda event, detail: events.note(event, detail=detail)
    for number, disk.full in enumerate([False, True, True, False]):
        note("event", f"number {number}")
    assert [line["detail"] for line in lines(path)] == ["number 0", "number 3"]


MINUTE = 60.0


def log_file(folder: Path, begun: float, written: float, suffix: str = "") -> Path:
    """Of an agent that was started, and has last written, at these times."""
    path = folder / f"Worker-127.0.0.1 {time.strftime('%Y-%m-%d %H%M', time.localtime(begun))}.log{suffix}"
    path.touch()
    os.utime(path, (written, written))
    return path


@covers("SUB-18")
def test_logs_of_the_time_of_a_job(tmp_path: Path) -> None:
    """After a restart the log of the agent that ran the job comes, not only that of the one that answers."""
    now = time.time() // MINUTE * MINUTE
    log_file(tmp_path, now - 90 * MINUTE, now - 80 * MINUTE)
    rotated = log_file(tmp_path, now - 60 * MINUTE, now - 40 * MINUTE, ".1")
    running = log_file(tmp_path, now - 60 * MINUTE, now - 20 * MINUTE)
    later = log_file(tmp_path, now - 10 * MINUTE, now)
    assert logs_between(tmp_path, now - 50 * MINUTE, now - 30 * MINUTE) == [rotated, running]
    assert logs_between(tmp_path, now - 30 * MINUTE, float("inf")) == [running, later]
    assert logs_between(tmp_path, now - 5 * MINUTE, float("inf")) == [later]


def test_only_the_newest_logs_are_kept(tmp_path: Path) -> None:
    """Security 8: an agent that is started again and again does not fill the disk with logs."""
    made = [log_file(tmp_path, *[time.time() - age * MINUTE] * 2) for age in range(30, 0, -1)]
    path = new_log(tmp_path, "Worker-127.0.0.1")
    assert path not in made and [p for p in made if p.exists()] == made[-KEPT + 1 :]


def test_how_many_lines_strangers_cause() -> None:
    """Whatever port it calls from, a host causes ten lines a minute; the number of the others is told afterwards."""
    clock = VirtualClock()
    limit = RateLimit(clock)
    written = [line for port in range(50) for line in limit.pass_on(f"10.0.0.1:{port}", f"line {port}")]
    assert written == [f"line {port}" for port in range(LINES_PER_PEER)]
    assert limit.pass_on("10.0.0.2:1", "another host") == ["another host"]
    clock.advance(WINDOW_SECONDS)
    assert limit.pass_on("10.0.0.1:1", "again") == [f"{50 - LINES_PER_PEER} more lines of this kind were left out.", "again"]
    many = RateLimit(clock)
    assert len([line for host in range(1000) for line in many.pass_on(f"[::{host:x}]:1", "x")]) == LINES_IN_ALL
