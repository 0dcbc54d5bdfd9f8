"""What an agent sends of a job: only what it may, and whether kept files are whole."""

from __future__ import annotations

import json
import os
import socket
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from nn.tensor_files import dump
from rpc.agent import files
from rpc.agent.event_log import EventLog
from rpc.agent.files import KeptFile, kept_files, send_diagnostics, send_files
from rpc.agent.store import JobFolders, JobRecord
from rpc.files import keep_configuration
from rpc.messages import FROM_AGENT, MAX_FILES, FetchEnd, FileBegin, parse
from rpc.submit.downloads import Download

from ...statements import covers


class Job:
    """A job at an agent, with what its process has written and registered."""

    def __init__(self, base: Path) -> None:
        self.folders = JobFolders(base / "jobs", 20)
        self.record: JobRecord = self.folders.create("job", 0, "T")
        self.folder = self.folders.folder(self.record)
        self.out = self.folder / "out"
        (self.folder / self.record.log).write_text("a log")
        self.record.state, self.record.ended = "done", 1.0

    def bring(self, directory: Path, *registered: str, logs: tuple[Path, ...] = (), send: Any = send_files) -> Download:
        """Through the messages, to a submitter."""
        self.record.files = list(registered)
        directory.mkdir(exist_ok=True)
        download = Download(directory, 0)
        for operation in send(self.record, self.folder, logs):
            if operation is not None:  # None: others are served first
                download.take(parse(operation.to_value(), FROM_AGENT))
        assert download.done
        return download


@pytest.fixture
def job(tmp_path: Path) -> Job:
    return Job(tmp_path)


def names(download: Download) -> list[str]:
    return [path.name for path in download.files]


@covers("SUB-17", "SUB-18")
def test_logs_first_and_reports_after_the_end(job: Job, tmp_path: Path) -> None:
    """The agent's log, the job's log at any time, CSV files only after the end."""
    agent_log = tmp_path / "Worker-127.0.0.1 2026-11-20 1200.log"
    agent_log.write_bytes(b"agent")
    (job.out / "EV.csv").write_bytes(b"1,2\n" * 1_000_000)  # more than one chunk
    download = job.bring(tmp_path / "to", "EV.csv", logs=(agent_log,))
    assert names(download) == [agent_log.name, job.record.log, "EV.csv"]
    assert download.files[-1].read_bytes() == b"1,2\n" * 1_000_000
    assert download.problem == ""
    job.record.ended = 0.0
    assert names(job.bring(tmp_path / "to", "EV.csv")) == [job.record.log]


@covers("SEC-10")
def test_only_regular_files_of_its_own(job: Job, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Links, second names, pipes, sockets, devices and folders are left out and named; nobody waits for a pipe."""
    (tmp_path / "secret").write_text("key")
    (job.out / "link").symlink_to(tmp_path / "secret")
    (job.out / "dangling").symlink_to("nowhere")
    (job.out / "second").hardlink_to(tmp_path / "secret")
    os.mkfifo(job.out / "pipe")
    (job.out / "folder").mkdir()
    (job.out / "zero").symlink_to("/dev/zero")
    with socket.socket(socket.AF_UNIX) as listener:
        with monkeypatch.context() as there:
            there.chdir(job.out)  # its whole path may be too long for a socket
            listener.bind("socket")
        (job.out / "good").write_text("1")
        odd = ["link", "dangling", "second", "pipe", "folder", "zero", "socket", "absent"]
        download = job.bring(tmp_path / "to", *odd, "good")
    assert names(download) == [job.record.log, "good"]
    for name in odd:
        assert f"{name} cannot be read: " in download.problem


@covers("SEC-10", "SEC-17")
@pytest.mark.parametrize("name", ["../job.json", "/etc/passwd", "..", "", "a/b", "a\0b", "\x1b[2J", "x" * 200])
def test_registered_names_cannot_lead_elsewhere(job: Job, tmp_path: Path, name: str) -> None:
    """They are left out and named without control characters; the other files come."""
    (job.out / "good").write_text("1")
    download = job.bring(tmp_path / "to", name, "good", "good", "GOOD")
    assert names(download) == [job.record.log, "good"]
    assert "has no name that may travel, or one that was used before" in download.problem
    assert download.problem.isprintable()


@covers("SEC-10")
@pytest.mark.parametrize("swapped", ["out", ""])
def test_a_folder_swapped_for_a_link(job: Job, tmp_path: Path, swapped: str) -> None:
    """Also when the job has replaced its own folder."""
    other = tmp_path / "other"
    (other / "out").mkdir(parents=True)
    for place in (other, other / "out"):
        (place / "EV.csv").write_text("secret")
        (place / job.record.log).write_text("secret")
    target = job.folder / swapped
    target.rename(tmp_path / "moved")
    target.symlink_to(other / swapped)
    download = job.bring(tmp_path / "to", "EV.csv")
    assert "EV.csv cannot be read" in download.problem
    assert all(path.read_text() != "secret" for path in download.files)


@covers("SUB-18")
def test_a_file_that_shrinks_while_it_is_read(job: Job, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """a transfer keeps the size that it announced, so the other files still come."""
    monkeypatch.setattr(files, "CHUNK", 4)
    (job.out / "a").write_bytes(b"0123456789")
    (job.out / "b").write_bytes(b"b")
    job.record.files = ["a", "b"]
    download = Download(tmp_path, 0)
    for operation in send_files(job.record, job.folder, ()):
        if operation == FileBegin("a", 10):
            os.truncate(job.out / "a", 6)
        download.take(operation)
    assert [path.read_bytes() for path in download.files[1:]] == [b"012345\0\0\0\0", b"b"]


@covers("SEC-10")
def test_too_many_and_too_large(job: Job, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """At most 256 files and 1 GiB leave; what was left out is named."""
    for number in range(300):
        (job.out / f"f{number}").touch()
    download = job.bring(tmp_path / "to", *(f"f{number}" for number in range(300)))
    assert len(download.files) == MAX_FILES
    assert "more than 256; the rest was left out" in download.problem
    with open(job.out / "big", "wb") as file:
        file.truncate((1 << 30) + 1)  # sparse
    (job.out / "small").write_text("1")
    download = job.bring(tmp_path / "to2", "big", "small")
    assert names(download) == [job.record.log, "small"]
    assert "exceed 1073741824 bytes; big was left out" in download.problem


def test_the_end_tells_state_and_title(job: Job) -> None:
    *_, end = send_files(job.record, job.folder, ())
    assert end == FetchEnd("job", "done", "", "T")


def test_all_that_is_there(job: Job, tmp_path: Path) -> None:
    (tmp_path / "agent.log").write_text("another")
    for name, size in (("TR.csv", 10), ("large.model", 9 << 20)):
        (job.out / name).write_bytes(bytes(size))
    EventLog(job.folder, 0).note("state", state="failed")
    keep_configuration(job.folder, {"settings": {"epochs": 3, "odd": {1}}})
    job.record.state = "failed"
    home, logs = tmp_path / "home", (tmp_path / "agent.log",)
    download = job.bring(home, "TR.csv", "large.model", logs=logs, send=send_diagnostics)
    expected = {"record.json", "kept.json", "agent.log", job.record.log, "events.jsonl", "configuration.json", "TR.csv"}
    assert set(names(download)) == expected and download.problem == ""
    texts = {path.name: path.read_text() for path in download.files}
    assert json.loads(texts["record.json"])["state"] == "failed"
    assert json.loads(texts["configuration.json"])["settings"] == {"epochs": 3, "odd": "{1}"}
    assert json.loads(texts["kept.json"]) == []


def test_a_job_that_has_just_begun(job: Job, tmp_path: Path) -> None:
    """What is not there yet is named, and the rest comes."""
    (job.folder / job.record.log).unlink()
    job.record.ended = 0.0
    download = job.bring(tmp_path / "home", send=send_diagnostics)
    assert set(names(download)) == {"record.json", "kept.json"}
    for missing in ("Fit-0", "events.jsonl", "configuration.json"):
        assert missing in download.problem


CONTENT = dump({"a": np.arange(600_000, dtype=np.float32)}, {"format": "psgd.test/1", "note": "hello"})


def look(folder: Path) -> tuple[list[KeptFile], int]:
    """What is found, and how often others could be served meanwhile."""
    work, pauses = kept_files(folder, "out"), 0
    while True:
        try:
            next(work)
        except StopIteration as end:
            return end.value, pauses
        pauses += 1


def place(folder: Path, content: bytes, name: str = "checkpoint") -> Path:
    (folder / "checkpoints").mkdir(exist_ok=True)
    (folder / "checkpoints" / name).write_bytes(content)
    return folder


def test_a_whole_file(tmp_path: Path) -> None:
    (kept,), pauses = look(place(tmp_path, CONTENT))
    assert (kept.folder, kept.name, kept.size, kept.whole, kept.why) == ("checkpoints", "checkpoint", len(CONTENT), True, "")
    assert kept.about == {"format": "psgd.test/1", "note": "hello"}
    assert pauses >= 2  # the file has more than two steps


@covers("FD-13")
@pytest.mark.parametrize(
    "content",
    [
        pytest.param(CONTENT[:-1], id="truncated by a byte"),
        pytest.param(CONTENT[:-1] + bytes([CONTENT[-1] ^ 1]), id="flipped bit at the end"),
        pytest.param(CONTENT[:200] + bytes([CONTENT[200] ^ 4]) + CONTENT[201:], id="flipped bit in the header"),
        pytest.param(CONTENT + b"x", id="a byte too many"),
        pytest.param(CONTENT[:50], id="cut within the hash"),
        pytest.param(b"", id="empty"),
        pytest.param(b"\xff" * 300, id="another format"),
    ],
)
def test_a_damaged_file(tmp_path: Path, content: bytes) -> None:
    """Whatever is wrong with it, it is listed and called so."""
    (kept,), _ = look(place(tmp_path, content))
    assert kept.whole is False and kept.why and kept.size == len(content)


@covers("SEC-10")
def test_what_is_no_file_of_the_job_is_left_out(tmp_path: Path) -> None:
    """No links, no special files, nothing of the reports, nothing half written."""
    place(place(tmp_path, CONTENT), CONTENT, ".half.psgd-tmp")
    (tmp_path / "out").mkdir()
    (tmp_path / "out" / "report").write_bytes(CONTENT)
    (tmp_path / "checkpoints" / "link").symlink_to("/etc/passwd")
    (tmp_path / "elsewhere").symlink_to("/etc")
    found, _ = look(tmp_path)
    assert [kept.name for kept in found] == ["checkpoint"]
    assert look(tmp_path / "nowhere") == ([], 0)


def test_what_is_too_large_is_not_read(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(files, "MOST_CHECKED", len(CONTENT) - 1)
    (kept,), pauses = look(place(tmp_path, CONTENT))
    assert (kept.whole, pauses) == (None, 0) and "not read" in kept.why
