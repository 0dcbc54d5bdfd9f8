"""Checkpoints on a disk that fills up, refuses, and loses its machine at any moment."""

from __future__ import annotations

import errno
import logging
import os
import resource
import subprocess
import sys
from collections.abc import Iterable
from pathlib import Path

import pytest

from parallel_sgd.checkpoint import CheckpointError, Position, Store
from parallel_sgd.checkpoint.disk import Disk
from parallel_sgd.checkpoint.store import file_name, read_checkpoint
from tests.parallel_sgd.checkpoint.states import content, snapshot

from ...statements import covers


def names(folder: Path) -> list[str]:
    return sorted(path.name for path in folder.iterdir())


@covers("FD-13")
def test_the_newest_valid_one_counts(tmp_path: Path, caplog: pytest.LogCaptureFixture) -> None:
    """Truncated by one byte, flipped, empty or of the future, it is passed over, once with a message."""
    store = Store(tmp_path, "a-job", keep_last=5)
    for epoch in range(1, 6):
        store.save(snapshot(epoch))
    path = tmp_path / file_name(Position(5, 0))
    os.truncate(path, path.stat().st_size - 1)
    (tmp_path / file_name(Position(4, 0))).write_bytes(b"")
    flipped = bytearray(content(snapshot(3)))
    flipped[-1] ^= 1
    (tmp_path / file_name(Position(3, 0))).write_bytes(flipped)
    for _ in range(2):
        newest = Store(tmp_path, "a-job").newest() if not caplog.records else store.newest()
        assert newest is not None and newest.header.position == Position(2, 0)
        assert newest.arrays["value/dense_1/kernel"][0, 0] == 200
    store.newest()
    messages = [record.getMessage() for record in caplog.records if record.name == "parallel_sgd.checkpoint"]
    assert len(messages) == 6  # three of each store
    assert f"The checkpoint {path} cannot be used: the arrays must fill the file" in messages[0]
    assert messages[0].endswith("It is skipped.") and all(record.levelno == logging.WARNING for record in caplog.records)


def test_checkpoints_of_another_job_are_none(tmp_path: Path, caplog: pytest.LogCaptureFixture) -> None:
    """Who looks for a state to go on from is told of one that is passed over; who begins in its place is not."""
    Store(tmp_path, "a-job").save(snapshot(4))
    assert Store(tmp_path, "b-job").newest() is None
    (told,) = [record.getMessage() for record in caplog.records]
    assert told.endswith(f"{file_name(Position(4, 0))} cannot be used: it is of job 'a-job', not of 'b-job'. It is skipped.")
    caplog.clear()
    other = Store(tmp_path, "b-job")
    with pytest.raises(CheckpointError, match="it is of job 'a-job', not of 'b-job'"):
        read_checkpoint(tmp_path / file_name(Position(4, 0)), "b-job")
    other.save(snapshot(1, job="b-job"))  # a new run in the same folder replaces what was there
    assert names(tmp_path) == [file_name(Position(1, 0))] and not caplog.records


def test_no_file_and_no_folder(tmp_path: Path) -> None:
    assert Store(tmp_path / "nowhere").newest() is None
    with pytest.raises(CheckpointError, match="cannot be read: No such file"):
        read_checkpoint(tmp_path / "nowhere")
    os.mkfifo(tmp_path / file_name(Position(1, 0)))
    assert Store(tmp_path).newest() is None


def test_old_ones_go_and_the_best_stays(tmp_path: Path) -> None:
    """The last three, and the one with the lowest loss; those between two evaluations have none."""
    store = Store(tmp_path, "a-job")
    for epoch, loss in enumerate([0.9, 0.2, 0.7, float("nan"), 0.3, 0.25], start=1):
        store.save(snapshot(epoch, loss=loss))
        store.save(snapshot(epoch, 1))
    kept = [Position(2, 0), Position(5, 1), Position(6, 0), Position(6, 1)]
    assert names(tmp_path) == [file_name(position) for position in kept]
    again = Store(tmp_path, "a-job")  # a later attempt knows what is there
    again.save(snapshot(7, loss=0.5))
    assert names(tmp_path) == [file_name(p) for p in (Position(2, 0), Position(6, 0), Position(6, 1), Position(7, 0))]


@covers("FD-14")
def test_a_past_that_is_given_up(tmp_path: Path) -> None:
    """Going on from an earlier position, what came after it is no checkpoint of this job any more."""
    store = Store(tmp_path, "a-job")
    for epoch in (1, 2, 3):
        store.save(snapshot(epoch))
    store.cut(Position(2, 0))
    newest = store.newest()
    assert newest is not None and newest.header.position == Position(2, 0)
    store.save(snapshot(2, 4))
    assert names(tmp_path) == [file_name(p) for p in (Position(1, 0), Position(2, 0), Position(2, 4))]


class FailingDisk(Disk):
    """Refuses one operation, as often as it is asked for."""

    def __init__(self, operation: str, code: int) -> None:
        self.operation, self.code, self.fired = operation, code, 0

    def fail(self, operation: str) -> None:
        if operation == self.operation:
            self.fired += 1
            raise OSError(self.code, os.strerror(self.code))

    def make_folder(self, path: Path) -> None:
        self.fail("make_folder")
        super().make_folder(path)

    def write(self, path: Path, pieces: Iterable[bytes | memoryview]) -> None:
        parts = list(pieces)
        if self.operation == "write":
            super().write(path, parts[:1])  # what a full disk leaves
        self.fail("write")
        super().write(path, parts)
        self.fail("fsync")

    def replace(self, source: Path, target: Path) -> None:
        self.fail("replace")
        super().replace(source, target)

    def sync_folder(self, folder: Path) -> None:
        self.fail("sync_folder")
        super().sync_folder(folder)


@covers("FLT-13", "INV-11")
@pytest.mark.parametrize(
    ("operation", "code"),
    [
        ("make_folder", errno.EROFS),
        ("write", errno.ENOSPC),
        ("fsync", errno.EIO),
        ("replace", errno.EIO),
        ("sync_folder", errno.EIO),
    ],
)
def test_a_disk_that_refuses(tmp_path: Path, operation: str, code: int) -> None:
    """The error is told, the old ones stay, nothing temporary is left."""
    Store(tmp_path, "a-job").save(snapshot(1))
    disk = FailingDisk(operation, code)
    with pytest.raises(OSError, match=os.strerror(code)):
        Store(tmp_path, "a-job", disk=disk).save(snapshot(2))
    assert disk.fired == 1
    expected = [1, 2] if operation == "sync_folder" else [1]  # it is there, but not certain to outlive the machine
    assert names(tmp_path) == [file_name(Position(epoch, 0)) for epoch in expected]
    newest = Store(tmp_path, "a-job").newest()
    assert newest is not None and newest.header.position.epoch == expected[-1]


SMALL_FILES = """
import resource, sys
from pathlib import Path
from parallel_sgd.checkpoint import Store
from tests.parallel_sgd.checkpoint.states import snapshot
store = Store(Path(sys.argv[1]), "a-job")
store.save(snapshot(1))
resource.setrlimit(resource.RLIMIT_FSIZE, (60_000, resource.RLIM_INFINITY))
try:
    store.save(snapshot(2, size=50_000))
except OSError as error:
    print(error.strerror)
store.save(snapshot(3))
"""


@covers("FLT-13")
def test_a_file_that_may_not_grow(tmp_path: Path) -> None:
    """With the real file system: RLIMIT_FSIZE in the middle of the file; the next one that fits is saved."""
    assert resource.RLIMIT_FSIZE is not None
    done = subprocess.run([sys.executable, "-c", SMALL_FILES, str(tmp_path)], capture_output=True, text=True, timeout=60)
    assert done.stdout.strip() == os.strerror(errno.EFBIG), done.stderr
    assert names(tmp_path) == [file_name(Position(1, 0)), file_name(Position(3, 0))]


def test_files_are_closed_to_others(tmp_path: Path) -> None:
    """security.md: what a job leaves is for its user alone."""
    path = Store(tmp_path / "checkpoints", "a-job").save(snapshot())
    assert path.stat().st_mode & 0o077 == 0 and path.parent.stat().st_mode & 0o077 == 0


KILLED = """
import os, random, signal, sys
from pathlib import Path
from parallel_sgd.checkpoint import Position, Store
from tests.parallel_sgd.checkpoint.states import snapshot

folder, draw = Path(sys.argv[1]), random.Random(20261121)
interrupted = 0
last = 0
for turn in range(50):
    reading, writing = os.pipe()
    child = os.fork()
    if child == 0:
        store = Store(folder, "a-job")
        os.write(writing, b"begin\\n")
        number = last
        while True:
            number += 1
            store.save(snapshot(number, size=20_000 + number))
            os.write(writing, b"%d\\n" % number)
    os.close(writing)
    with os.fdopen(reading) as told:
        told.readline()
        try:
            signal.setitimer(signal.ITIMER_REAL, draw.uniform(0.002, 0.06))
            signal.sigwait([signal.SIGALRM])
        finally:
            os.kill(child, signal.SIGKILL)
            os.waitpid(child, 0)
        saved = [last, *map(int, told.read().split())]
    interrupted += any(name.endswith(".psgd-tmp") for name in os.listdir(folder))
    newest = Store(folder, "a-job").newest()
    found = newest.header.position.epoch if newest else 0
    assert found in (saved[-1], saved[-1] + 1), (turn, found, saved)
    if newest:
        assert newest.arrays["value/dense_1/kernel"][0, 0] == 100 * found
        assert len(newest.arrays["value/dense_1/kernel"]) == 20_000 + found
    last = found
print(last, interrupted)
"""


@covers("FD-13", "FLT-12", "INV-5")
def test_killed_at_fifty_moments(tmp_path: Path) -> None:
    """The newest complete checkpoint loads, and it is never older than the last save that returned."""
    program = "import signal\nsignal.pthread_sigmask(signal.SIG_BLOCK, [signal.SIGALRM])\n" + KILLED
    done = subprocess.run([sys.executable, "-c", program, str(tmp_path)], capture_output=True, text=True, timeout=100)
    assert done.returncode == 0, done.stderr
    last, interrupted = map(int, done.stdout.split())
    assert last > 5 and interrupted > 5  # some kills came in the middle of a file


def test_commits_do_not_take_the_place_of_checkpoints(tmp_path: Path) -> None:
    """What a training leaves that ends too early is another's nowhere; the last ones of the schedule are what all have."""
    store = Store(tmp_path, "a-job", keep_last=2, keep_best=0)
    for epoch in (1, 2, 3):
        store.save(snapshot(epoch))
    for batch in (4, 5, 6):
        store.save(snapshot(3, batch, commit=True))
    assert names(tmp_path) == [file_name(Position(*at)) for at in [(2, 0), (3, 0), (3, 5), (3, 6)]]
    again = Store(tmp_path, "a-job", keep_last=2, keep_best=0)
    again.save(snapshot(4))
    assert names(tmp_path) == [file_name(Position(*at)) for at in [(3, 0), (3, 5), (3, 6), (4, 0)]]
