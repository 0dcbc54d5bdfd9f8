"""When checkpoints are taken, their files, and a disk that fills up, refuses, and loses its machine at any moment."""

from __future__ import annotations

import errno
import json
import logging
import math
import os
import subprocess
import sys
import threading
import time
from collections.abc import Iterable
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import safetensors.numpy

from network.testing import VirtualClock
from nn.tensor_files import dump, parse
from parallel_sgd.checkpoint import CheckpointError, Keeper, Position, Progress, Schedule, Snapshot, Store, checked_every
from parallel_sgd.checkpoint.schedule import keeps
from parallel_sgd.checkpoint.snapshot import FORMAT
from parallel_sgd.checkpoint.state import state_of
from parallel_sgd.checkpoint.store import Disk, file_name, read_checkpoint
from parallel_sgd.checkpoint.writer import Copies, Writer
from parallel_sgd.engine.progress import History, Stretch
from tests.parallel_sgd.checkpoint.states import FailingDisk, content, header, newest, snapshot
from tests.programs import python
from tests.sources import ROOT

from ...statements import covers

# the description of a state, and its file

LONG = tuple(Stretch(0, n // 1000, n % 1000, n % 1000 + 1, (n % 2, 1, 2 + n % 2, 3)) for n in range(60_000))
TWO = History(3, (Stretch(3, 0, 0, 11, (0, 1)), Stretch(4, 1, 0, 3, (1, 1))))


@pytest.mark.parametrize("history", [History(), TWO, History(0, LONG)], ids=["none", "two attempts", "60,000 batches"])
def test_everything_comes_back(history: History) -> None:
    """Where blocks are redundant each batch may have other nodes: a long training still fits into a checkpoint."""
    progress = Progress(Position(2, 3), 7, 1.5, {}, history)
    made = snapshot(2, 3, progress=progress, batch_size=128, batches=11, optimizer="PSGDOptimizer", rule="SGDOptimizer")
    read = Snapshot.read(content(made), job="a-job")
    assert (read.header, read.numbers) == (made.header, made.numbers)
    assert (read.header.position, read.header.workers, read.header.batches) == (Position(2, 3), 2, 11)
    assert {name: (a.dtype, a.tolist()) for name, a in read.arrays.items()} == {
        name: (a.dtype, a.tolist()) for name, a in made.arrays.items()
    }
    assert read.part("codec").keys() == {"0.up.0,0.residual", "0.age", "1.name", "1.none", "1.on"}


def test_what_else_a_file_may_hold() -> None:
    """The loss of a model that diverged; another library reads the tensors (README of safetensors, "Format")."""
    whole = content(snapshot(1, loss=math.nan))
    assert math.isnan(Snapshot.read(whole).header.loss or 0.0)
    tensors = safetensors.numpy.load(whole)
    assert tensors["value/dense_1/kernel"].shape == (5, 3) and tensors["optimizer/rule:momentum"].dtype == np.float64
    with pytest.raises(TypeError, match=r"The state 'codec/3.history' must be an array, a number, a text or None .* got list"):
        state_of({"codec": {"3.history": [1, 2]}})
    arrays, numbers = state_of({"codec": {"0.a": np.float32(0.1), "0.b": np.zeros(()), "0.c": np.int64(3)}})
    assert numbers == {"codec/0.a": float(np.float32(0.1)), "codec/0.c": 3} and arrays["codec/0.b"].shape == ()


@covers("INV-5", "FLT-11")
def test_damage_anywhere_is_refused() -> None:
    """The SHA-256 covers all bytes: cut anywhere, longer, one bit in each of 200 places and in the hash itself."""
    whole = content(snapshot())
    damaged = [whole[:cut] for cut in (0, 1, 8, 100, len(whole) // 2, len(whole) - 1)] + [whole + b"\0"]
    for place in [*range(0, len(whole), max(1, len(whole) // 200)), whole.index(b'"sha256":"') + 12]:
        damaged.append(whole[:place] + bytes([whole[place] ^ 1 << (place % 8)]) + whole[place + 1 :])
    for file in damaged:
        with pytest.raises(CheckpointError):
            Snapshot.read(file)


def test_other_formats_versions_and_jobs_are_refused() -> None:
    """The reason says what it is and what was expected."""
    tensors, metadata = parse(content(snapshot()))
    for file, job, words in (
        ("psgd.checkpoint/2", None, r"its format is 'psgd.checkpoint/2', of another version than 'psgd.checkpoint/1'"),
        ("psgd.model/2", None, r"it is no checkpoint: its format is 'psgd.model/2'"),
        (FORMAT, "another", r"it is of job 'a-job', not of 'another'"),
    ):
        with pytest.raises(CheckpointError, match=words):
            Snapshot.read(dump(tensors, {"snapshot": metadata["snapshot"], "format": file}), job)


@pytest.mark.parametrize(
    "change",
    [
        lambda d: d.pop("header"),
        lambda d: d["header"].pop("job"),
        lambda d: d["header"].update(surprise=1),
        lambda d: d["header"].update(node="0"),
        lambda d: d["header"].update(personal=1),
        lambda d: d["header"].update(blocks=[["0"]]),
        lambda d: d["header"]["progress"].update(position=[-1, 0]),
        lambda d: d["header"]["progress"].update(position=7),
        lambda d: d["header"]["progress"].update(steps=None),
        lambda d: d["header"]["progress"].update(evaluation={"Loss": "low"}),
        lambda d: d["header"]["progress"].pop("history"),
        lambda d: d.update(numbers={"codec/0.a": [1]}),
        lambda d: d.update(numbers=3),
    ],
)
def test_a_malformed_description_is_refused(change: Any) -> None:
    """Sealed or not: what others wrote is checked field by field; one that says nothing of batches or commits has none."""
    tensors, metadata = parse(content(snapshot(progress=Progress(Position(1, 3), 7, 1.5, {}, TWO))))
    description = json.loads(metadata["snapshot"])
    change(description)
    with pytest.raises(CheckpointError, match="its description is malformed"):
        Snapshot.read(dump(tensors, {"format": FORMAT, "snapshot": json.dumps(description)}))
    description = json.loads(metadata["snapshot"])
    del description["header"]["progress"]["history"], description["header"]["commit"], tensors["history"]
    bare = Snapshot.read(dump(tensors, {"format": FORMAT, "snapshot": json.dumps(description)}))
    assert bare.header.progress.history == History() and not bare.header.commit


# a folder of files


def names(folder: Path) -> list[str]:
    return sorted(path.name for path in folder.iterdir())


def files(*positions: tuple[int, int]) -> list[str]:
    return [file_name(Position(*at)) for at in positions]


@covers("FD-13")
def test_the_newest_valid_one_counts(tmp_path: Path, caplog: pytest.LogCaptureFixture) -> None:
    """Truncated by one byte, flipped, empty or of the future, it is passed over, once with a message."""
    store = Store(tmp_path / "of" / "a-job", "a-job", keep_last=5)
    for epoch in range(1, 6):
        path = store.save(snapshot(epoch))
    assert path.stat().st_mode & 0o077 == 0 and path.parent.stat().st_mode & 0o077 == 0  # security.md: for its user alone
    os.truncate(path, path.stat().st_size - 1)
    (path.parent / file_name(Position(4, 0))).write_bytes(b"")
    flipped = content(snapshot(3))
    (path.parent / file_name(Position(3, 0))).write_bytes(flipped[:-1] + bytes([flipped[-1] ^ 1]))
    for asked in (store, store, Store(path.parent, "a-job")):
        found = asked.newest()
        assert found is not None and found.header.position == Position(2, 0)
        assert found.arrays["value/dense_1/kernel"][0, 0] == 200
    messages = [record.getMessage() for record in caplog.records if record.name == "parallel_sgd.checkpoint"]
    assert len(messages) == 6  # three of each store
    assert f"The checkpoint {path} cannot be used: the arrays must fill the file" in messages[0]
    assert messages[0].endswith("It is skipped.") and all(record.levelno == logging.WARNING for record in caplog.records)


def test_what_is_none_of_the_job_s(tmp_path: Path, caplog: pytest.LogCaptureFixture) -> None:
    """Who looks for a state to go on from is told of another job's that is passed over; who begins in its place is not."""
    Store(tmp_path, "a-job").save(snapshot(4))
    assert Store(tmp_path, "b-job").newest() is None
    (told,) = caplog.messages
    assert told.endswith(f"{file_name(Position(4, 0))} cannot be used: it is of job 'a-job', not of 'b-job'. It is skipped.")
    caplog.clear()
    with pytest.raises(CheckpointError, match="it is of job 'a-job', not of 'b-job'"):
        read_checkpoint(tmp_path / file_name(Position(4, 0)), "b-job")
    Store(tmp_path, "b-job").save(snapshot(1, job="b-job"))  # a new run in the same folder replaces what was there
    assert names(tmp_path) == files((1, 0)) and not caplog.records
    assert Store(tmp_path / "nowhere").newest() is None
    with pytest.raises(CheckpointError, match="cannot be read: No such file"):
        read_checkpoint(tmp_path / "nowhere")
    (tmp_path / "pipes").mkdir()
    os.mkfifo(tmp_path / "pipes" / file_name(Position(1, 0)))
    assert Store(tmp_path / "pipes").newest() is None


@covers("FD-14")
def test_what_stays(tmp_path: Path) -> None:
    """The last three, and the one with the lowest loss; those between two evaluations have none. Of a past that is given up
    nothing. What a training leaves that ends too early is another's nowhere, so it takes no place of the schedule's."""
    store = Store(tmp_path, "a-job")
    for epoch, loss in enumerate([0.9, 0.2, 0.7, float("nan"), 0.3, 0.25], start=1):
        store.save(snapshot(epoch, loss=loss))
        store.save(snapshot(epoch, 1))
    assert names(tmp_path) == files((2, 0), (5, 1), (6, 0), (6, 1))
    again = Store(tmp_path, "a-job")  # a later attempt knows what is there
    again.save(snapshot(7, loss=0.5))
    assert names(tmp_path) == files((2, 0), (6, 0), (6, 1), (7, 0))
    again.cut(Position(6, 0))
    assert newest(tmp_path).header.position == Position(6, 0)
    again.save(snapshot(6, 4))
    assert names(tmp_path) == files((2, 0), (6, 0), (6, 4))
    store = Store(tmp_path / "commits", "a-job", keep_last=2, keep_best=0)
    for epoch in (1, 2, 3):
        store.save(snapshot(epoch))
    for batch in (4, 5, 6):
        store.save(snapshot(3, batch, commit=True))
    assert names(store.folder) == files((2, 0), (3, 0), (3, 5), (3, 6))
    Store(store.folder, "a-job", keep_last=2, keep_best=0).save(snapshot(4))
    assert names(store.folder) == files((3, 0), (3, 5), (3, 6), (4, 0))


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
    assert names(tmp_path) == files(*((epoch, 0) for epoch in expected))
    assert newest(tmp_path).header.position.epoch == expected[-1]


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
KILLED = """
import signal
signal.pthread_sigmask(signal.SIG_BLOCK, [signal.SIGALRM])
import os, random, sys
from pathlib import Path
from parallel_sgd.checkpoint import Position, Store
from tests.parallel_sgd.checkpoint.states import snapshot

folder, draw = Path(sys.argv[1]), random.Random(20261121)
is_writing = lambda: any(name.endswith(".psgd-tmp") for name in os.listdir(folder))
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
            while turn % 2 and not is_writing():  # of all moments, few may be within a file
                pass
        finally:
            os.kill(child, signal.SIGKILL)
            os.waitpid(child, 0)
        saved = [last, *map(int, told.read().split())]
    interrupted += is_writing()
    newest = Store(folder, "a-job").newest()
    found = newest.header.position.epoch if newest else 0
    assert found in (saved[-1], saved[-1] + 1), (turn, found, saved)
    if newest:
        assert newest.arrays["value/dense_1/kernel"][0, 0] == 100 * found
        assert len(newest.arrays["value/dense_1/kernel"]) == 20_000 + found
    last = found
print(last, interrupted)
"""


def ended(program: str, folder: Path) -> str:
    done = subprocess.run([sys.executable, "-c", program, str(folder)], capture_output=True, text=True, timeout=250)
    assert done.returncode == 0, done.stderr
    return done.stdout.strip()


@covers("FLT-13")
def test_a_file_that_may_not_grow(tmp_path: Path) -> None:
    """With the real file system: RLIMIT_FSIZE in the middle of the file; the next one that fits is saved."""
    assert ended(SMALL_FILES, tmp_path) == os.strerror(errno.EFBIG)
    assert names(tmp_path) == files((1, 0), (3, 0))


@pytest.mark.long
@covers("FD-13", "FLT-12", "INV-5")
def test_killed_at_fifty_moments(tmp_path: Path) -> None:
    """The newest complete checkpoint loads, and it is never older than the last save that returned."""
    last, interrupted = map(int, ended(KILLED, tmp_path).split())
    assert last > 5 and interrupted > 5  # some kills came in the middle of a file


# saving beside training


class GatedDisk(Disk):
    """Writes when it is let."""

    def __init__(self) -> None:
        self.gate, self.entered = threading.Semaphore(0), threading.Semaphore(0)

    def write(self, path: Path, pieces: Iterable[bytes | memoryview]) -> None:
        self.entered.release()
        assert self.gate.acquire(timeout=100)
        super().write(path, pieces)


def held(folder: Path) -> list[int]:
    return sorted(h.position.epoch for h in Store(folder, "a-job").headers())


def test_the_newest_waits_its_turn(tmp_path: Path, caplog: pytest.LogCaptureFixture) -> None:
    """While 1 is written, 2 and 3 come: 2 is left out, and its memory is free at once. The end of training waits for so long,
    and says for what."""
    disk, done = GatedDisk(), []
    writer = Writer(Store(tmp_path, "a-job", disk=disk), lambda s: done.append(s.header.position.epoch))
    writer.submit(snapshot(1))
    assert disk.entered.acquire(timeout=100)
    assert not writer.flush(0.05)
    assert f"The checkpoint in {tmp_path} is not saved after 0.05 s and is given up." in caplog.text
    writer.submit(snapshot(2))
    writer.submit(snapshot(3))
    assert done == [2] and writer.saved is None
    disk.gate.release(2)
    writer.close()
    assert held(tmp_path) == [1, 3] and done == [2, 1, 3] and writer.saved == Position(3, 0)
    writer.close()
    with pytest.raises(RuntimeError, match="closed"):
        writer.submit(snapshot(4))


@covers("FLT-13")
def test_training_goes_on_when_the_disk_is_full(tmp_path: Path, caplog: pytest.LogCaptureFixture) -> None:
    """A warning says so, as of an array that no file can hold; what was saved stays, and the position counts as tried."""
    Store(tmp_path, "a-job").save(snapshot(1))
    disk = FailingDisk("fsync", errno.ENOSPC)
    writer = Writer(Store(tmp_path, "a-job", disk=disk), lambda s: None)
    writer.submit(snapshot(2))
    writer.close()
    (warning,) = [r.getMessage() for r in caplog.records if r.levelno == logging.WARNING]
    assert warning.startswith("The checkpoint after 2 epochs could not be saved, training goes on: ")
    assert "No space left" in warning and disk.fired == writer.failures == 1
    assert held(tmp_path) == [1] and writer.saved is None and writer.tried == Position(2, 0)
    writer = Writer(Store(tmp_path, "a-job"), lambda s: None)
    writer.submit(Snapshot(header(), {"codec/0.z": np.zeros(2, np.complex128)}, {}))
    writer.close()
    assert "could not be saved, training goes on: tensor 'codec/0.z' must be one of" in caplog.text


def test_a_personal_state_is_not_left_out(tmp_path: Path) -> None:
    """Nodes that leave out different ones would have none in common: training waits for the disk instead."""
    disk = GatedDisk()
    keeper = Keeper(Store(tmp_path, "a-job", disk=disk), header())
    live = {"value/w": np.zeros(3, np.float32)}
    disk.gate.release(2)
    for epoch in (1, 2, 3):
        if epoch == 3:
            threading.Timer(0.05, disk.gate.release).start()
        keeper.keep(Progress(Position(epoch, 0)), True, (live, {}))
        live["value/w"] += 1
    keeper.close()
    assert held(tmp_path) == [1, 2, 3]
    for epoch in (1, 2, 3):  # each is a copy of its own moment
        assert Store(tmp_path).load(Position(epoch, 0)).arrays["value/w"].tolist() == [epoch - 1.0] * 3


def test_memory_is_used_again() -> None:
    """Two sets of buffers suffice for any number of checkpoints; other shapes get new ones."""
    copies = Copies()
    live = {"a": np.arange(4.0), "b": np.ones((2, 2), np.float32)}
    first = copies.take(live)
    copies.put_back(first)
    live["a"][:] = 7
    second = copies.take(live)
    assert second["a"] is first["a"] and second["a"].tolist() == [7.0] * 4
    third = copies.take(live)
    assert third["a"] is not second["a"]
    copies.put_back(third)
    other = copies.take({"a": np.arange(5.0)})
    assert other["a"].shape == (5,) and other.keys() == {"a"}


@pytest.mark.long
def test_a_checkpoint_of_100_megabytes_pauses_training_for_the_copy(tmp_path: Path) -> None:
    """Not for much longer than a copy takes, for the file is written meanwhile. Without any checkpoint nothing is started."""
    before = set(threading.enumerate())
    Keeper(Store(tmp_path / "never", "a-job"), header()).close()
    assert set(threading.enumerate()) <= before and not (tmp_path / "never").exists()
    keeper = Keeper(Store(tmp_path, "a-job", keep_last=1, keep_best=0), header())
    live = {f"value/{number}": np.ones(5 << 20, np.float32) for number in range(5)}
    pauses, copies = [], []
    keeper.prepare((live, {}))
    keeper._copies.close()
    for epoch in range(1, 4):
        start = time.perf_counter()
        keeper.keep(Progress(Position(epoch, 0)), False, (live, {}))
        pauses.append(time.perf_counter() - start)
        assert keeper.writer.flush(60)
        start = time.perf_counter()
        [array.copy() for array in live.values()]
        copies.append(time.perf_counter() - start)
    keeper.close()
    assert held(tmp_path) == [3]
    assert min(pauses) < 5 * min(copies), (pauses, copies)


# when

EPOCHS, BATCHES = 3, 10


def due(every: Any, start: tuple[int, int] = (0, 0), seconds: float = 0.0, keep: int | None = None) -> list[tuple[int, int]]:
    """The positions of a run whose batches take so long each."""
    clock = VirtualClock()
    schedule = Schedule(every, EPOCHS, BATCHES, clock.monotonic, keeps(keep))
    found = []
    for done in range(start[0] * BATCHES + start[1] + 1, EPOCHS * BATCHES + 1):
        clock.advance(seconds)
        position = Position(*divmod(done, BATCHES))
        if schedule.due(position):
            found.append(position)
    assert schedule.fixed == (not str(every).endswith("s"))  # equal on all workers
    return [(at.epoch, at.batch) for at in found]


@pytest.mark.parametrize(
    ("every", "start", "found"),
    [
        ("epoch", (0, 0), [(1, 0), (2, 0), (3, 0)]),
        ("epoch", (1, 4), [(2, 0), (3, 0)]),
        (7, (0, 0), [(0, 7), (1, 4), (2, 1), (2, 8), (3, 0)]),  # counted from the job's begin wherever training goes on
        (7, (1, 4), [(2, 1), (2, 8), (3, 0)]),
        (1000, (0, 0), [(3, 0)]),
    ],
)
def test_at_fixed_positions_and_at_the_end(every: Any, start: tuple[int, int], found: list[tuple[int, int]]) -> None:
    assert due(every, start) == found


@pytest.mark.parametrize(("seconds", "stride"), [(1.0, 4), (0.99, 4), (1.2, 4), (0.5, 8), (2.9, 1), (60.0, 1)])
def test_every_so_many_seconds(seconds: float, stride: int) -> None:
    """Every 2^k-th batch, never later than asked for: workers of slightly different speed save at the same positions."""
    found = [epoch * BATCHES + batch for epoch, batch in due("5s", seconds=seconds)][2:-1]
    assert found and found == [done for done in range(found[0], EPOCHS * BATCHES) if done % stride == 0]


def test_what_stays_is_taken_on_all_workers_whatever_else_is_due(tmp_path: Path) -> None:
    assert due("1000s", seconds=1.0, keep=2) == [(2, 0), (3, 0)] and (2, 0) in due(7, keep=2)
    schedule = Schedule("1000s", EPOCHS, BATCHES, time.monotonic, keeps(2))
    assert schedule.on_all(Position(2, 0)) and not schedule.on_all(Position(1, 0)) and not schedule.on_all(Position(2, 1))
    store = Store(tmp_path, "a-job", keep_last=1, keep_best=0, keep_every=2)
    for epoch in range(1, 6):
        store.save(snapshot(epoch))
    assert held(tmp_path) == [2, 4, 5]


@pytest.mark.parametrize("given", [0, -1, True, 2.0, "often", "0s", "-1s", "s", "1 m", [], "epoch "])
def test_what_may_be_asked_for(given: Any) -> None:
    plain = {"epoch": "epoch", 1: 1, "2.5s": "2.5s", None: None, "off": None}
    assert [checked_every(every) for every in plain] == list(plain.values())
    with pytest.raises(ValueError, match=r"'checkpoint_every' must be 'epoch', a positive number of batches, seconds such as"):
        checked_every(given)


@pytest.mark.long
@pytest.mark.parametrize(("verbose", "lines"), [(0, 0), (2, 4)])
def test_a_quiet_job_shows_no_checkpoints(verbose: int, lines: int, tmp_path: Path) -> None:
    """A thread of its own saves them, and goes by the job's `verbose`, too."""
    program = "from tests.parallel_sgd.record.runs import train\n"
    program += f"train(directory='.', epoch=2, checkpoint_every='epoch', keep_every=1, verbose={verbose})"
    ran = python(tmp_path, "-c", program, PYTHONPATH=str(ROOT))
    assert ran.returncode == 0 and ran.stderr.count(": Checkpoint after ") == lines, ran.stderr
    assert verbose or not ran.stderr
