"""What a job prints, and how much of it is kept."""

from __future__ import annotations

import os
import re
from collections.abc import Iterator
from pathlib import Path

import pytest

from rpc.agent.files import send_files
from rpc.agent.output import JobOutput, parts_of
from rpc.agent.store import JobRecord
from rpc.liveness.process_monitor import log_tail
from rpc.messages import FileBegin, FileChunk
from tests.fulldisk import FullDisk

from ...statements import covers

LIMIT = 64 << 10
LINE = 19  # bytes, of which no power of two is a multiple
NOTE = re.compile(r"\n\[([\d,]+) bytes were left out here: .*\]\n")


@pytest.fixture
def log(tmp_path: Path) -> Path:
    (tmp_path / "job.0").mkdir()
    return tmp_path / "job.0" / "Fit-0.log"


@pytest.fixture
def output(log: Path) -> Iterator[JobOutput]:
    made = JobOutput(log, LIMIT)
    yield made
    made.close()


def put(output: JobOutput, begin: int, end: int) -> None:
    """Print numbered lines, as a job does that is read now and then."""
    for number in range(begin, end):
        os.write(output.theirs, f"line {number:0{LINE - 6}d}\n".encode())
        if number % 50 == 0:
            output.take()
    output.take()


def fetched(log: Path) -> str:
    """The log as it comes to whoever fetches it."""
    record = JobRecord("job", 0, "title", "running", log=log.name)
    told = list(send_files(record, log.parent, []))
    (begin,) = [operation for operation in told if isinstance(operation, FileBegin)]
    data = b"".join(operation.data for operation in told if isinstance(operation, FileChunk))
    assert (begin.name, begin.size) == (log.name, len(data))
    return data.decode()


def numbers(text: str) -> list[int]:
    return [int(line[5:]) for line in text.splitlines() if line.startswith("line ")]


@covers("SUB-19")
def test_below_the_limit_nothing_is_left_out(output: JobOutput, log: Path) -> None:
    """Whatever parts it lies in."""
    count = LIMIT * 5 // 8 // LINE - 10
    put(output, 0, count)
    assert len(parts_of(log)) == 2
    assert numbers(fetched(log)) == list(range(count)) and not NOTE.search(fetched(log))


@covers("SUB-19")
def test_the_first_and_the_newest_are_kept(output: JobOutput, log: Path) -> None:
    """Of 20 times as much as the log may hold, with a line that says what is missing, to the byte."""
    count = 20 * LIMIT // LINE
    put(output, 0, count)
    assert sum(part.path.stat().st_size for part in parts_of(log)) <= LIMIT + 3 * LINE
    text = fetched(log)
    (note,) = NOTE.finditer(text)
    first, newest = numbers(text[: note.start() + 1]), numbers(text[note.end() :])
    assert first == list(range(len(first))) and newest == list(range(count - len(newest), count))
    assert len(first) >= LIMIT // 4 // LINE and len(newest) >= LIMIT * 3 // 8 // LINE
    assert int(note[1].replace(",", "")) == (count - len(first) - len(newest)) * LINE


def test_a_later_attempt_goes_on_in_the_same_log(output: JobOutput, log: Path) -> None:
    count = 4 * LIMIT // LINE
    put(output, 0, count)
    output.close()
    again = JobOutput(log, LIMIT)
    put(again, count, count + 100)
    again.close()
    assert numbers(fetched(log))[-200:] == list(range(count - 100, count + 100))
    assert len(NOTE.findall(fetched(log))) == 1


@covers("FLT-26")
def test_a_disk_that_is_full_for_a_moment(output: JobOutput, log: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """The job does not notice; what found no room is told of, and no empty file is left."""
    pipe, disk = output.theirs, FullDisk(monkeypatch)
    for number, is_full in enumerate([False, True, True, True, False]):
        disk.full = False
        os.write(pipe, b"x" * 99 + b"%d" % number)
        disk.full = is_full
        output.take()
    assert disk.refused == 3
    text = NOTE.sub(lambda note: f"<{note[1]}>", fetched(log))
    kept = "x" * 4
    assert text == "x" * 99 + "0" + kept + "<96>" + kept + "<96>" + kept + "<96>" + "x" * 99 + "4"


@covers("FD-18")
def test_the_end_of_a_log_over_its_parts(output: JobOutput, log: Path) -> None:
    """The last lines are there also when a part has just begun."""
    room = -(-LIMIT // 4 // LINE)
    put(output, 0, room + 2)
    assert len(parts_of(log)) == 2
    assert numbers("\n".join(log_tail(log).lines)) == list(range(room - 18, room + 2))


@covers("INV-8")
def test_a_link_in_the_place_of_a_part_is_not_followed(output: JobOutput, log: Path, tmp_path: Path) -> None:
    """Neither written through nor sent."""
    (tmp_path / "precious").write_text("precious")
    put(output, 0, 10)
    begin = -(-LIMIT // 4 // LINE) * LINE  # the line that reaches the limit is the last of its part
    log.with_name(f"{log.name}.{begin}").symlink_to(tmp_path / "precious")
    put(output, 10, begin // LINE + 10)
    output.close()
    assert (tmp_path / "precious").read_text() == "precious"
    record = JobRecord("job", 0, "title", "running", log=log.name)
    assert not any(isinstance(said, FileChunk) and b"precious" in said.data for said in send_files(record, log.parent, []))


@covers("SUB-18")
def test_what_was_printed_last_is_kept_and_nobody_waited_for(output: JobOutput, log: Path) -> None:
    """Also where somebody else has the other end of the pipe still open."""
    left_behind = os.dup(output.theirs)
    os.write(output.theirs, b"the last words")
    output.close()
    assert not output.is_open and log.read_bytes() == b"the last words"
    with pytest.raises(BrokenPipeError):
        os.write(left_behind, b"nobody hears this")
    os.close(left_behind)
