"""What an agent writes down: rotated logs, the audit log, events of jobs; and the limit on lines of strangers."""

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
from rpc.liveness.recorder import Kind, Signal

from ...statements import covers


def lines(folder: Path) -> list[dict[str, Any]]:
    return [json.loads(line) for line in (folder / EVENT_LOG).read_text().splitlines()]


def test_events_and_signals_at_their_time(tmp_path: Path) -> None:
    made = EventLog(tmp_path, 1, clock=lambda: 1000.0, monotonic=lambda: 50.0)
    made.note("state", state="failed", detail="a\nb")
    made.note_signals([Signal(Kind.BEGIN, 0, 6, 47.5)])
    assert lines(tmp_path) == [
        {"time": 1000.0, "attempt": 1, "event": "state", "state": "failed", "detail": "a\nb"},
        {"time": 997.5, "attempt": 1, "event": "signal", "kind": "BEGIN", "epoch": 1, "batch": 7},
    ]
    assert stat.S_IMODE((tmp_path / EVENT_LOG).stat().st_mode) == 0o600


def test_a_full_disk_and_a_full_file_are_nobodys_business(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    EventLog(tmp_path / "gone", 0).note("state")
    monkeypatch.setattr(event_log, "MAX_EVENT_BYTES", 120)
    made = EventLog(tmp_path, 0)
    for _ in range(10):
        made.note("state", detail="x" * 20)
    assert 0 < (tmp_path / EVENT_LOG).stat().st_size <= 120
    assert lines(tmp_path)


@covers("INV-8")
def test_a_link_in_its_place_is_not_followed(tmp_path: Path) -> None:
    """The job process could leave one, to have the agent write elsewhere."""
    (tmp_path / "other").write_text("")
    (tmp_path / EVENT_LOG).symlink_to(tmp_path / "other")
    EventLog(tmp_path, 0).note("state")
    assert (tmp_path / "other").read_text() == ""


@covers("SEC-17")
def test_entries(tmp_path: Path) -> None:
    """What a peer says cannot forge a line or bring escape codes in."""
    log = SecurityLog(tmp_path / "audit.jsonl")
    log.write("admitted", "10.0.0.1 as submitter")
    log.write("turned away", 'x\n{"event": "admitted"}\x1b[2J' + "y" * 1000)
    first, second = [json.loads(line) for line in (tmp_path / "audit.jsonl").read_text().splitlines()]
    assert first["event"] == "admitted" and first["detail"] == "10.0.0.1 as submitter" and first["time"] > 1e9
    assert "\x1b" not in second["detail"] and "\n" not in second["detail"] and len(second["detail"]) < 600
    assert (tmp_path / "audit.jsonl").stat().st_mode & 0o777 == 0o600


def test_bounded(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(event_log, "MAX_AUDIT_BYTES", 2000)
    log = SecurityLog(tmp_path / "audit.jsonl")
    for number in range(200):
        log.write("turned away", f"visitor {number}")
    files = sorted(tmp_path.iterdir())
    assert [path.name for path in files] == ["audit.jsonl", "audit.jsonl.1"]
    assert all(path.stat().st_size < 2200 for path in files)
    assert "visitor 199" in "".join(path.read_text() for path in files)


def test_a_disk_that_refuses_is_survived(tmp_path: Path) -> None:
    SecurityLog(tmp_path / "missing" / "audit.jsonl").write("admitted", "")
    (tmp_path / "link").symlink_to(tmp_path / "target")
    SecurityLog(tmp_path / "link").write("admitted", "")
    assert not (tmp_path / "target").exists()


MINUTE = 60.0


def log(folder: Path, begun: float, written: float, suffix: str = "") -> Path:
    stamp = time.strftime("%Y-%m-%d %H%M", time.localtime(begun))
    path = folder / f"Worker-127.0.0.1 {stamp}.log{suffix}"
    path.touch()
    os.utime(path, (written, written))
    return path


@covers("SUB-18")
def test_logs_of_the_time_of_a_job(tmp_path: Path) -> None:
    """After a restart the log of the agent that ran the job comes, not only that of the one that answers."""
    now = time.time() // MINUTE * MINUTE
    log(tmp_path, now - 90 * MINUTE, now - 80 * MINUTE)
    rotated = log(tmp_path, now - 60 * MINUTE, now - 40 * MINUTE, ".1")
    running = log(tmp_path, now - 60 * MINUTE, now - 20 * MINUTE)
    later = log(tmp_path, now - 10 * MINUTE, now)
    assert logs_between(tmp_path, now - 50 * MINUTE, now - 30 * MINUTE) == [rotated, running]
    assert logs_between(tmp_path, now - 30 * MINUTE, float("inf")) == [running, later]
    assert logs_between(tmp_path, now - 5 * MINUTE, float("inf")) == [later]


def test_only_the_newest_are_kept(tmp_path: Path) -> None:
    """Security 8: an agent that is started again and again does not fill the disk with logs."""
    now = time.time()
    made = [log(tmp_path, now - age * MINUTE, now - age * MINUTE) for age in range(30, 0, -1)]
    path = new_log(tmp_path, "Worker-127.0.0.1")
    assert path not in made
    assert [p for p in made if p.exists()] == made[-KEPT + 1 :]


def test_one_host() -> None:
    """Whatever port it calls from, a host causes ten lines a minute; the number of the others is told afterwards."""
    clock = VirtualClock()
    throttle = RateLimit(clock)
    written = [line for port in range(50) for line in throttle.pass_on(f"10.0.0.1:{port}", f"line {port}")]
    assert written == [f"line {port}" for port in range(LINES_PER_PEER)]
    assert throttle.pass_on("10.0.0.2:1", "another host") == ["another host"]
    clock.advance(WINDOW_SECONDS)
    assert throttle.pass_on("10.0.0.1:1", "again") == [f"{50 - LINES_PER_PEER} more lines of this kind were left out.", "again"]


def test_many_hosts() -> None:
    throttle = RateLimit(VirtualClock())
    written = [line for host in range(1000) for line in throttle.pass_on(f"[::{host:x}]:1", "x")]
    assert len(written) == LINES_IN_ALL
