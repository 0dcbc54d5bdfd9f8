"""Files that people write, or that others may have put there: read within limits, published past planted links."""

from __future__ import annotations

import os
import stat
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from parallel_sgd import parse_worker
from rpc.agent.registration import registrations
from rpc.agent.scheduler_env import announced
from rpc.agent.settings import gather
from rpc.agent.store import JobRecord
from rpc.elastic.discovery import DiscoveryError, FileDiscovery
from rpc.errors import SettingsError
from rpc.files import MOST_BYTES, publish
from rpc.submit.run_folder import Run

DEEP = "[" * 90_000
READERS: dict[str, tuple[str, Callable[[Path], Any], type[Exception] | None]] = {
    "worker.json": ("", lambda path: parse_worker(1, filename=path), ValueError),
    "discovery": ("", lambda path: FileDiscovery(path).find(), DiscoveryError),
    "job.json": ("", JobRecord.read, ValueError),
    "worker.toml": ("a = ", lambda path: gather({}, {}, path), SettingsError),
    "x.agent.json": ("", lambda path: registrations(path.parent), None),  # left out
    "runs/x-1/job.json": ("", lambda path: Run.read(path.parent), None),  # no run that has begun
}


@pytest.mark.parametrize("content", ["nested", "long", "not text"])
@pytest.mark.parametrize("name", READERS)
def test_no_content_gets_past_a_reader(tmp_path: Path, name: str, content: str) -> None:
    """90,000 brackets in 90 kB, more bytes than it may have, bytes that are no text: one kind of error that names the fault."""
    begin, read, error = READERS[name]
    path = tmp_path / name
    path.parent.mkdir(parents=True, exist_ok=True)
    said = {"nested": "nested too deeply", "long": f"at most {MOST_BYTES} bytes", "not text": "utf-8"}[content]
    path.write_bytes({"nested": (begin + DEEP).encode(), "long": b" " * (MOST_BYTES + 1), "not text": b"\xff\xfe"}[content])
    if error is None:
        assert not read(path)
        return
    with pytest.raises(error, match=said):
        read(path)


@pytest.mark.parametrize("name", ["job.json", "x.agent.json", "runs/x-1/job.json"])
def test_a_pipe_in_the_place_of_a_file_holds_nobody_up(tmp_path: Path, name: str) -> None:
    _, read, error = READERS[name]
    (tmp_path / name).parent.mkdir(parents=True, exist_ok=True)
    os.mkfifo(tmp_path / name)
    if error is None:
        assert not read(tmp_path / name)
        return
    with pytest.raises(error, match="no regular file"):
        read(tmp_path / name)


def test_worker_json_may_come_from_a_command() -> None:
    """As a shell does it: worker.json is <(a command)."""
    end, other = os.pipe()
    try:
        os.write(other, b'{"Worker": ["127.0.0.1:1"]}')
        os.close(other)
        assert len(parse_worker(1, filename=f"/dev/fd/{end}")) == 1
    finally:
        os.close(end)


def test_an_address_is_announced_past_what_others_have_planted(tmp_path: Path) -> None:
    """In a folder in which others write: a link at the name is replaced and not followed, one at the name of a draft that could
    be foreseen is not met; the file is its owner's alone, whatever the umask."""
    victim = tmp_path / "victim"
    victim.write_text("precious")
    path = tmp_path / "address"
    path.symlink_to(victim)
    for name in (f"address.{os.getpid()}", "address.new"):
        (tmp_path / name).symlink_to(victim)
    before = os.umask(0)
    try:
        with announced(str(path), "127.0.0.1:7", lambda _: None):
            assert path.read_text() == "127.0.0.1:7\n" and not path.is_symlink()
            assert stat.S_IMODE(path.stat().st_mode) == 0o600
    finally:
        os.umask(before)
    assert victim.read_text() == "precious" and not path.exists()
    assert {each.name for each in tmp_path.iterdir()} == {"address.new", f"address.{os.getpid()}", "victim"}


def test_a_file_that_cannot_be_published_leaves_nothing(tmp_path: Path) -> None:
    (tmp_path / "folder").mkdir()
    with pytest.raises(OSError, match="directory"):
        publish(tmp_path / "folder", "text")
    assert [each.name for each in tmp_path.iterdir()] == ["folder"]
