"""The audit log: one line of JSON per event, private, bounded, and clean."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from rpc.agent import audit
from rpc.agent.audit import AuditLog


def test_entries(tmp_path: Path) -> None:
    """SEC-17: what a peer says cannot forge a line or bring escape codes in."""
    log = AuditLog(tmp_path / "audit.jsonl")
    log.write("admitted", "10.0.0.1 as submitter")
    log.write("turned away", 'x\n{"event": "admitted"}\x1b[2J' + "y" * 1000)
    first, second = [json.loads(line) for line in (tmp_path / "audit.jsonl").read_text().splitlines()]
    assert first["event"] == "admitted" and first["detail"] == "10.0.0.1 as submitter" and first["time"] > 1e9
    assert "\x1b" not in second["detail"] and "\n" not in second["detail"] and len(second["detail"]) < 600
    assert (tmp_path / "audit.jsonl").stat().st_mode & 0o777 == 0o600


def test_bounded(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(audit, "MAX_BYTES", 2000)
    log = AuditLog(tmp_path / "audit.jsonl")
    for number in range(200):
        log.write("turned away", f"visitor {number}")
    files = sorted(tmp_path.iterdir())
    assert [path.name for path in files] == ["audit.jsonl", "audit.jsonl.1"]
    assert all(path.stat().st_size < 2200 for path in files)
    assert "visitor 199" in "".join(path.read_text() for path in files)


def test_a_disk_that_refuses_is_survived(tmp_path: Path) -> None:
    AuditLog(tmp_path / "missing" / "audit.jsonl").write("admitted", "")
    (tmp_path / "link").symlink_to(tmp_path / "target")
    AuditLog(tmp_path / "link").write("admitted", "")
    assert not (tmp_path / "target").exists()
