"""The timeline of a job: every event at its time, private, bounded, and never in the way of the agent."""

from __future__ import annotations

import json
import stat
from pathlib import Path
from typing import Any

import pytest

from rpc.agent import timeline
from rpc.agent.timeline import TIMELINE, Timeline
from rpc.liveness.recorder import Kind, Signal


def lines(folder: Path) -> list[dict[str, Any]]:
    return [json.loads(line) for line in (folder / TIMELINE).read_text().splitlines()]


def test_events_and_signals_at_their_time(tmp_path: Path) -> None:
    made = Timeline(tmp_path, 1, clock=lambda: 1000.0, monotonic=lambda: 50.0)
    made.note("state", state="failed", detail="a\nb")
    made.note_signals([Signal(Kind.BEGIN, 0, 6, 47.5)])
    assert lines(tmp_path) == [
        {"time": 1000.0, "attempt": 1, "event": "state", "state": "failed", "detail": "a\nb"},
        {"time": 997.5, "attempt": 1, "event": "signal", "kind": "BEGIN", "epoch": 1, "batch": 7},
    ]
    assert stat.S_IMODE((tmp_path / TIMELINE).stat().st_mode) == 0o600


def test_a_full_disk_and_a_full_file_are_nobodys_business(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    Timeline(tmp_path / "gone", 0).note("state")
    monkeypatch.setattr(timeline, "MAX_BYTES", 120)
    made = Timeline(tmp_path, 0)
    for _ in range(10):
        made.note("state", detail="x" * 20)
    assert 0 < (tmp_path / TIMELINE).stat().st_size <= 120
    assert lines(tmp_path)


def test_a_link_in_its_place_is_not_followed(tmp_path: Path) -> None:
    """INV-8: the job process could leave one, to have the agent write elsewhere."""
    (tmp_path / "other").write_text("")
    (tmp_path / TIMELINE).symlink_to(tmp_path / "other")
    Timeline(tmp_path, 0).note("state")
    assert (tmp_path / "other").read_text() == ""
