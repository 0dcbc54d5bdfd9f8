"""What an agent sends of a job's folder: registered regular files, whatever the job has put there."""

from __future__ import annotations

import os
import socket
from pathlib import Path

import pytest

from rpc.agent import retrieval
from rpc.agent.jobs import JobFolders, JobRecord
from rpc.agent.retrieval import send_files
from rpc.download import Download
from rpc.messages import FROM_AGENT, MAX_FILES, FetchEnd, FileBegin, parse


class Job:
    """A job at an agent, with what its process has written and registered."""

    def __init__(self, base: Path) -> None:
        self.folders = JobFolders(base / "jobs", 20)
        self.record: JobRecord = self.folders.create("job", 0, "T")
        self.folder = self.folders.folder(self.record)
        self.out = self.folder / "out"
        (self.folder / self.record.log).write_text("a log")
        self.record.state, self.record.ended = "done", 1.0

    def bring(self, directory: Path, *registered: str, logs: tuple[Path, ...] = ()) -> Download:
        """Through the messages, to a submitter."""
        self.record.files = list(registered)
        directory.mkdir(exist_ok=True)
        download = Download(directory, 0)
        for operation in send_files(self.record, self.folder, logs):
            download.take(parse(operation.to_value(), FROM_AGENT))
        assert download.done
        return download


@pytest.fixture
def job(tmp_path: Path) -> Job:
    return Job(tmp_path)


def names(download: Download) -> list[str]:
    return [path.name for path in download.files]


def test_logs_first_and_reports_after_the_end(job: Job, tmp_path: Path) -> None:
    """SUB-17, SUB-18: the agent's log, the job's log at any time, CSV files only after the end."""
    agent_log = tmp_path / "Worker-127.0.0.1 2026-11-20 1200.log"
    agent_log.write_bytes(b"agent")
    (job.out / "EV.csv").write_bytes(b"1,2\n" * 1_000_000)  # more than one chunk
    download = job.bring(tmp_path / "to", "EV.csv", logs=(agent_log,))
    assert names(download) == [agent_log.name, job.record.log, "EV.csv"]
    assert download.files[-1].read_bytes() == b"1,2\n" * 1_000_000
    assert download.problem == ""
    job.record.ended = 0.0
    assert names(job.bring(tmp_path / "to", "EV.csv")) == [job.record.log]


def test_only_regular_files_of_its_own(job: Job, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """SEC-10: links, second names, pipes, sockets, devices and folders are left out and named; nobody waits for a pipe."""
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


@pytest.mark.parametrize("name", ["../job.json", "/etc/passwd", "..", "", "a/b", "a\0b", "\x1b[2J", "x" * 200])
def test_registered_names_cannot_lead_elsewhere(job: Job, tmp_path: Path, name: str) -> None:
    """SEC-10, SEC-17: they are left out and named without control characters; the other files come."""
    (job.out / "good").write_text("1")
    download = job.bring(tmp_path / "to", name, "good", "good", "GOOD")
    assert names(download) == [job.record.log, "good"]
    assert "has no name that may travel, or one that was used before" in download.problem
    assert download.problem.isprintable()


@pytest.mark.parametrize("swapped", ["out", ""])
def test_a_folder_swapped_for_a_link(job: Job, tmp_path: Path, swapped: str) -> None:
    """SEC-10: also when the job has replaced its own folder."""
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


def test_a_file_that_shrinks_while_it_is_read(job: Job, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """SUB-18: a transfer keeps the size that it announced, so the other files still come."""
    monkeypatch.setattr(retrieval, "CHUNK", 4)
    (job.out / "a").write_bytes(b"0123456789")
    (job.out / "b").write_bytes(b"b")
    job.record.files = ["a", "b"]
    download = Download(tmp_path, 0)
    for operation in send_files(job.record, job.folder, ()):
        if operation == FileBegin("a", 10):
            os.truncate(job.out / "a", 6)
        download.take(operation)
    assert [path.read_bytes() for path in download.files[1:]] == [b"012345\0\0\0\0", b"b"]


def test_too_many_and_too_large(job: Job, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """SEC-10: at most 256 files and 1 GiB leave; what was left out is named."""
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
