"""What an agent sends of a job: only what it may, and whether kept files are whole; and how much it keeps of its output."""

from __future__ import annotations

import json
import os
import re
import socket
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from nn.tensor_files import dump
from rpc.agent import files
from rpc.agent.event_log import EventLog
from rpc.agent.files import KeptFile, kept_files, send_diagnostics, send_files
from rpc.agent.output import JobOutput, parts_of
from rpc.agent.store import JobFolders, JobRecord
from rpc.liveness.process_monitor import log_tail
from rpc.messages import FROM_AGENT, MAX_FILES, FetchEnd, FileBegin, parse
from rpc.submit.downloads import Download
from rpc.support.files import keep_configuration
from tests.fulldisk import FullDisk

from ...statements import covers


class Job:
    """A job at an agent, with what its process has written and registered."""

    def __init__(self, base: Path) -> None:
        self.record: JobRecord = (folders := JobFolders(base / "jobs", 20)).create("job", 0, "T")
        self.folder = folders.folder(self.record)
        self.out, self.log = self.folder / "out", self.folder / self.record.log
        self.log.write_text("a log")
        self.record.state, self.record.ended = "done", 1.0
        self._home = base / "home"

    def bring(self, *registered: str, logs: tuple[Path, ...] = (), send: Any = send_files) -> Download:
        """Through the messages, to a submitter."""
        self.record.files = list(registered)
        self._home.mkdir(exist_ok=True)
        download = Download(self._home, 0)
        for operation in send(self.record, self.folder, logs):
            if operation is not None:  # None: others are served first
                download.take(parse(operation.to_value(), FROM_AGENT))
        assert download.done and download.problem.isprintable()
        return download


@pytest.fixture
def job(tmp_path: Path) -> Job:
    return Job(tmp_path)


def names(download: Download) -> list[str]:
    return [path.name for path in download.files]


@covers("SUB-17", "SUB-18")
def test_logs_first_and_reports_after_the_end(job: Job, tmp_path: Path) -> None:
    """The agent's log, the job's log at any time, CSV files only after the end; then state and title."""
    agent_log = tmp_path / "Worker-127.0.0.1 2026-11-20 1200.log"
    agent_log.write_bytes(b"agent")
    (job.out / "EV.csv").write_bytes(b"1,2\n" * 1_000_000)  # more than one chunk
    download = job.bring("EV.csv", logs=(agent_log,))
    assert names(download) == [agent_log.name, job.log.name, "EV.csv"] and download.problem == ""
    assert download.files[-1].read_bytes() == b"1,2\n" * 1_000_000
    job.record.ended = 0.0
    assert names(job.bring("EV.csv")) == [job.log.name]
    assert list(send_files(job.record, job.folder, ()))[-1] == FetchEnd("job", "done", "", "T")


@pytest.mark.parametrize("send", [send_files, send_diagnostics])
def test_who_was_killed_leaves_the_whole_rows_of_its_tables(job: Job, send: Any) -> None:
    """It has registered nothing; other files may be half done, and links lead elsewhere."""
    (job.out / "TR-T-N(0).csv").write_text("A,B\n1,2\n" + "3,4\n" * 5_000 + "5," + "6" * 5_000)
    (job.out / "BA-T-N(0).csv").write_text("A,B")
    (job.out / "MODEL-T-N(0).model").write_text("half")
    (job.out / "X.csv").symlink_to(job.log)
    assert not [name for name in names(job.bring(send=send)) if name.endswith(".csv")]
    job.record.state = "failed"
    download = job.bring(send=send)
    found = {path.name: path.read_text() for path in download.files if path.suffix in (".csv", ".model")}
    assert found == {"TR-T-N(0).csv": "A,B\n1,2\n" + "3,4\n" * 5_000, "BA-T-N(0).csv": ""}
    assert "X.csv" in download.problem


def test_a_page_gets_samples_of_its_tables_once_they_have_grown(job: Job) -> None:
    rows = "A,B\n" + "".join(f"{n},{n}\n" for n in range(10_000))
    for kind in ("BA", "TR", "LEDGER"):
        (job.out / f"{kind}-T-N(0).csv").write_text(rows + "7,")
    samples, known = {"BA": (1 << 10, 1), "TR": (1 << 14, 16)}, {}
    told = files.tail(job.record, job.folder, known, samples)
    assert {*told.data} == {job.record.log, "BA-T-N(0).csv", "TR-T-N(0).csv"}
    for name, (most, parts) in (("BA-T-N(0).csv", samples["BA"]), ("TR-T-N(0).csv", samples["TR"])):
        head, *lines = told.data[name].decode().splitlines(keepends=True)
        assert head == "A,B\n" and lines[-1] == "9999,9999\n" and {*lines} < {*rows.splitlines(keepends=True)}
        assert most / 2 < len(told.data[name]) < 1.1 * most and (parts == 1 or int(lines[0].partition(",")[0]) < 1_000)
    known = {name: [number, at + len(told.data[name])] for name, (number, at) in told.places.items()}
    assert not files.tail(job.record, job.folder, known, samples).data
    with (job.out / "BA-T-N(0).csv").open("a") as file:
        file.write("7\n")
    assert files.tail(job.record, job.folder, known, samples).data["BA-T-N(0).csv"].endswith(b"9999,9999\n7,7\n")
    assert not files.tail(job.record, job.folder, {}, {"BA": (10, 1 << 20), "TR": (0, 0)}).data.keys() - {job.record.log}


@covers("SEC-10", "SEC-17")
def test_only_regular_files_of_its_own(job: Job, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Links, second names, pipes, sockets, devices and folders are left out, as are names that lead elsewhere or were used; all
    are named, without control characters. Nobody waits for a pipe."""
    (tmp_path / "secret").write_text("key")
    for name, target in (("link", str(tmp_path / "secret")), ("dangling", "nowhere"), ("zero", "/dev/zero")):
        (job.out / name).symlink_to(target)
    (job.out / "second").hardlink_to(tmp_path / "secret")
    os.mkfifo(job.out / "pipe")
    (job.out / "folder").mkdir()
    with socket.socket(socket.AF_UNIX) as listener:
        with monkeypatch.context() as there:
            there.chdir(job.out)  # its whole path may be too long for a socket
            listener.bind("socket")
        (job.out / "good").write_text("1")
        odd = ["link", "dangling", "second", "pipe", "folder", "zero", "socket", "absent"]
        download = job.bring(*odd, "good")
    assert names(download) == [job.log.name, "good"]
    assert [name for name in odd if f"{name} cannot be read: " not in download.problem] == []
    for name in ("../job.json", "/etc/passwd", "..", "", "a/b", "a\0b", "\x1b[2J", "x" * 200, "GOOD"):
        download = job.bring("good", name, "good")
        assert names(download) == [job.log.name, "good"]
        assert "has no name that may travel, or one that was used before" in download.problem


@covers("SEC-10")
@pytest.mark.parametrize("swapped", ["out", ""])
def test_a_folder_swapped_for_a_link(job: Job, tmp_path: Path, swapped: str) -> None:
    """Also when the job has replaced its own folder."""
    other = tmp_path / "other"
    (other / "out").mkdir(parents=True)
    for place in (other, other / "out"):
        (place / "EV.csv").write_text("secret")
        (place / job.log.name).write_text("secret")
    target = job.folder / swapped
    target.rename(tmp_path / "moved")
    target.symlink_to(other / swapped)
    download = job.bring("EV.csv")
    assert "EV.csv cannot be read" in download.problem and "secret" not in [path.read_text() for path in download.files]


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
def test_too_many_and_too_large(job: Job) -> None:
    """At most 256 files and 1 GiB leave; what was left out is named."""
    many = [f"f{number}" for number in range(300)]
    for name in (*many, "big", "small"):
        (job.out / name).touch()
    download = job.bring(*many)
    assert len(download.files) == MAX_FILES and "more than 256; the rest was left out" in download.problem
    os.truncate(job.out / "big", (1 << 30) + 1)  # sparse
    download = job.bring("big", "small")
    assert names(download) == [job.log.name, "small"]
    assert "exceed 1073741824 bytes; big was left out" in download.problem


def test_all_that_is_known_of_a_failure(job: Job, tmp_path: Path) -> None:
    """At any time: what is not there yet is named, and the rest comes; large reports tell nothing."""
    (tmp_path / "agent.log").write_text("another")
    for name, size in (("TR.csv", 10), ("large.model", 9 << 20)):
        (job.out / name).write_bytes(bytes(size))
    EventLog(job.folder, 0).note("state", state="failed")
    keep_configuration(job.folder, {"settings": {"epochs": 3, "odd": {1}}})
    job.record.state = "failed"
    download = job.bring("TR.csv", "large.model", logs=(tmp_path / "agent.log",), send=send_diagnostics)
    expected = {"record.json", "kept.json", "agent.log", job.log.name, "events.jsonl", "configuration.json", "TR.csv"}
    assert set(names(download)) == expected and download.problem == ""
    texts = {path.name: path.read_text() for path in download.files}
    assert json.loads(texts["record.json"])["state"] == "failed" and json.loads(texts["kept.json"]) == []
    assert json.loads(texts["configuration.json"])["settings"] == {"epochs": 3, "odd": "{1}"}
    job.record.ended = 0.0
    for missing in (job.log, job.folder / "events.jsonl", job.folder / "configuration.json"):
        missing.unlink()
    download = job.bring(send=send_diagnostics)
    assert set(names(download)) == {"record.json", "kept.json"}
    assert all(missing in download.problem for missing in ("Fit-0", "events.jsonl", "configuration.json"))


CONTENT = dump({"a": np.arange(600_000, dtype=np.float32)}, {"format": "psgd.test/1", "note": "hello"})


def look(folder: Path, content: bytes | None = None, name: str = "checkpoint") -> tuple[list[KeptFile], int]:
    """What is found, perhaps of a checkpoint with this content, and how often others could be served meanwhile."""
    if content is not None:
        (folder / "checkpoints").mkdir(exist_ok=True)
        (folder / "checkpoints" / name).write_bytes(content)
    work, pauses = kept_files(folder, "out"), 0
    while True:
        try:
            next(work)
        except StopIteration as end:
            return end.value, pauses
        pauses += 1


@covers("SEC-10")
def test_kept_files(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """A whole one is called so; no links, no special files, nothing of the reports, nothing half written; and what is too large
    is not read."""
    assert look(tmp_path / "nowhere") == ([], 0)
    (tmp_path / "out").mkdir()
    (tmp_path / "out" / "report").write_bytes(CONTENT)
    look(tmp_path, CONTENT, ".half.psgd-tmp")
    (tmp_path / "checkpoints" / "link").symlink_to("/etc/passwd")
    (tmp_path / "elsewhere").symlink_to("/etc")
    (kept,), pauses = look(tmp_path, CONTENT)
    assert (kept.folder, kept.name, kept.size, kept.whole, kept.why) == ("checkpoints", "checkpoint", len(CONTENT), True, "")
    assert kept.about == {"format": "psgd.test/1", "note": "hello"}
    assert pauses >= 2  # the file has more than two steps
    monkeypatch.setattr(files, "MOST_CHECKED", len(CONTENT) - 1)
    (kept,), pauses = look(tmp_path)
    assert (kept.whole, pauses) == (None, 0) and "not read" in kept.why


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
    (kept,), _ = look(tmp_path, content)
    assert kept.whole is False and kept.why and kept.size == len(content)


LIMIT = 64 << 10
LINE = 19  # bytes, of which no power of two is a multiple
ROOM = -(-LIMIT // 4 // LINE)  # lines of a part
NOTE = re.compile(r"\n\[([\d,]+) bytes were left out here: .*\]\n")


@pytest.fixture
def output(job: Job) -> Iterator[JobOutput]:
    job.log.unlink()
    made = JobOutput(job.log, LIMIT)
    yield made
    made.close()


def put(output: JobOutput, begin: int, end: int) -> None:
    """Print numbered lines, as a job does that is read now and then."""
    for number in range(begin, end):
        os.write(output.theirs, f"line {number:0{LINE - 6}d}\n".encode())
        if number % 50 == 0:
            output.take()
    output.take()


def fetched(job: Job) -> str:
    """The log as it comes to whoever fetches it."""
    return job.bring().files[0].read_text()


def numbers(text: str) -> list[int]:
    return [int(line[5:]) for line in text.splitlines() if line.startswith("line ")]


@covers("SUB-19", "FD-18")
def test_the_first_and_the_newest_lines_are_kept(output: JobOutput, job: Job) -> None:
    """Below the limit nothing is left out, whatever parts it lies in. Of 20 times as much as the log may hold the first and the
    newest stay, with a line that says what is missing, to the byte; a later attempt goes on in the same log."""
    put(output, 0, ROOM + 2)
    assert len(parts_of(job.log)) == 2
    assert numbers("\n".join(log_tail(job.log).lines)) == list(range(ROOM - 18, ROOM + 2))
    count = LIMIT * 5 // 8 // LINE - 10
    put(output, ROOM + 2, count)
    assert len(parts_of(job.log)) == 2
    assert numbers(fetched(job)) == list(range(count)) and not NOTE.search(fetched(job))
    put(output, count, count := 20 * LIMIT // LINE)
    assert sum(part.path.stat().st_size for part in parts_of(job.log)) <= LIMIT + 3 * LINE
    text = fetched(job)
    (note,) = NOTE.finditer(text)
    first, newest = numbers(text[: note.start() + 1]), numbers(text[note.end() :])
    assert first == list(range(len(first))) and newest == list(range(count - len(newest), count))
    assert len(first) >= LIMIT // 4 // LINE and len(newest) >= LIMIT * 3 // 8 // LINE
    assert int(note[1].replace(",", "")) == (count - len(first) - len(newest)) * LINE
    output.close()
    again = JobOutput(job.log, LIMIT)
    put(again, count, count + 100)
    again.close()
    assert numbers(fetched(job))[-200:] == list(range(count - 100, count + 100))
    assert len(NOTE.findall(fetched(job))) == 1


@covers("FLT-26")
def test_a_disk_that_is_full_for_a_moment(output: JobOutput, job: Job, monkeypatch: pytest.MonkeyPatch) -> None:
    """The job does not notice; what found no room is told of, and no empty file is left."""
    pipe, disk = output.theirs, FullDisk(monkeypatch)
    for number, is_full in enumerate([False, True, True, True, False]):
        disk.full = False
        os.write(pipe, b"x" * 99 + b"%d" % number)
        disk.full = is_full
        output.take()
    assert disk.refused == 3
    assert NOTE.sub(lambda note: f"<{note[1]}>", fetched(job)) == "x" * 99 + "0" + 3 * "xxxx<96>" + "x" * 99 + "4"


@covers("INV-8")
def test_a_link_in_the_place_of_a_part_is_not_followed(output: JobOutput, job: Job, tmp_path: Path) -> None:
    """Neither written through nor sent."""
    (tmp_path / "precious").write_text("precious")
    put(output, 0, 10)
    # the line that reaches the limit is the last of its part
    job.log.with_name(f"{job.log.name}.{ROOM * LINE}").symlink_to(tmp_path / "precious")
    put(output, 10, ROOM + 10)
    output.close()
    assert (tmp_path / "precious").read_text() == "precious"
    assert not any("precious" in path.read_text() for path in job.bring().files)


@covers("SUB-18")
def test_what_was_printed_last_is_kept_and_nobody_waited_for(output: JobOutput, job: Job) -> None:
    """Also where somebody else has the other end of the pipe still open."""
    left_behind = os.dup(output.theirs)
    os.write(output.theirs, b"the last words")
    output.close()
    assert not output.is_open and job.log.read_bytes() == b"the last words"
    with pytest.raises(BrokenPipeError):
        os.write(left_behind, b"nobody hears this")
    os.close(left_behind)
