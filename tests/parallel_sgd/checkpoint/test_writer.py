"""Saving beside training: in turn, the newest wins, nothing is lost at the end, and a disk that refuses stops nobody."""

from __future__ import annotations

import errno
import logging
import threading
import time
from collections.abc import Iterable
from pathlib import Path

import numpy as np
import pytest

from parallel_sgd.checkpoint import Keeper, Position, Progress, Snapshot, Store
from parallel_sgd.checkpoint.disk import Disk
from parallel_sgd.checkpoint.writer import Copies, Writer
from tests.parallel_sgd.checkpoint.states import header, snapshot
from tests.parallel_sgd.checkpoint.test_store import FailingDisk

from ...statements import covers


class GatedDisk(Disk):
    """Writes when it is let."""

    def __init__(self) -> None:
        self.gate, self.entered = threading.Semaphore(0), threading.Semaphore(0)

    def write(self, path: Path, pieces: Iterable[bytes | memoryview]) -> None:
        self.entered.release()
        assert self.gate.acquire(timeout=20)
        super().write(path, pieces)


def held(folder: Path) -> list[int]:
    return sorted(h.position.epoch for h in Store(folder, "a-job").headers())


def test_the_newest_waits_its_turn(tmp_path: Path) -> None:
    """While 1 is written, 2 and 3 come: 2 is left out, and its memory is free at once."""
    disk, done = GatedDisk(), []
    writer = Writer(Store(tmp_path, "a-job", disk=disk), lambda s: done.append(s.header.position.epoch))
    writer.submit(snapshot(1))
    assert disk.entered.acquire(timeout=20)
    writer.submit(snapshot(2))
    writer.submit(snapshot(3))
    assert done == [2] and writer.saved is None
    disk.gate.release(2)
    writer.close()
    assert held(tmp_path) == [1, 3] and done == [2, 1, 3] and writer.saved == Position(3, 0)
    writer.close()
    with pytest.raises(RuntimeError, match="closed"):
        writer.submit(snapshot(4))


def test_a_disk_that_hangs_is_given_up(tmp_path: Path, caplog: pytest.LogCaptureFixture) -> None:
    """design.md decision 6: the end of training waits for so long and says for what."""
    disk = GatedDisk()
    writer = Writer(Store(tmp_path, "a-job", disk=disk), lambda s: None)
    writer.submit(snapshot(1))
    assert disk.entered.acquire(timeout=20)
    assert not writer.flush(0.05)
    assert f"The checkpoint in {tmp_path} is not saved after 0.05 s and is given up." in caplog.text
    disk.gate.release()
    writer.close()
    assert held(tmp_path) == [1]


@covers("FLT-13")
def test_training_goes_on_when_the_disk_is_full(tmp_path: Path, caplog: pytest.LogCaptureFixture) -> None:
    """a warning says so; what was saved before stays, and the position counts as tried."""
    Store(tmp_path, "a-job").save(snapshot(1))
    disk = FailingDisk("fsync", errno.ENOSPC)
    writer = Writer(Store(tmp_path, "a-job", disk=disk), lambda s: None)
    writer.submit(snapshot(2))
    writer.close()
    (warning,) = [r.getMessage() for r in caplog.records if r.levelno == logging.WARNING]
    assert warning.startswith("The checkpoint after 2 epochs could not be saved, training goes on: ")
    assert "No space left" in warning and disk.fired == writer.failures == 1
    assert held(tmp_path) == [1] and writer.saved is None and writer.tried == Position(2, 0)


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


def test_a_checkpoint_of_100_megabytes_pauses_training_for_the_copy(tmp_path: Path) -> None:
    """At most 60 ms on an idle machine; here with slack for a busy one. The file is written meanwhile."""
    keeper = Keeper(Store(tmp_path, "a-job", keep_last=1, keep_best=0), header())
    live = {f"value/{number}": np.ones(5 << 20, np.float32) for number in range(5)}
    pauses = []
    keeper.prepare((live, {}))
    keeper._copies.close()
    for epoch in range(1, 4):
        start = time.perf_counter()
        keeper.keep(Progress(Position(epoch, 0)), False, (live, {}))
        pauses.append(time.perf_counter() - start)
        assert keeper.writer.flush(60)
    keeper.close()
    assert held(tmp_path) == [3]
    assert min(pauses) < 0.15, pauses


def test_nothing_is_started_without_a_checkpoint(tmp_path: Path) -> None:
    before = threading.active_count()
    keeper = Keeper(Store(tmp_path / "never", "a-job"), header())
    keeper.close()
    assert threading.active_count() == before and not (tmp_path / "never").exists()


def test_an_unstorable_array_is_a_warning(tmp_path: Path, caplog: pytest.LogCaptureFixture) -> None:
    writer = Writer(Store(tmp_path, "a-job"), lambda s: None)
    writer.submit(Snapshot(header(), {"codec/0.z": np.zeros(2, np.complex128)}, {}))
    writer.close()
    assert "could not be saved, training goes on: tensor 'codec/0.z' must be one of" in caplog.text
