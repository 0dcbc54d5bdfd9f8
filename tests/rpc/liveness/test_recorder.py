"""The flight recorder: every signal arrives once, also from the dead, and nothing that a process writes harms its agent."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
import timeit
from collections.abc import Iterator

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from network.testing import VirtualClock
from rpc.liveness.recorder import CAPACITY, SIZE, Kind, Reader, Recorder, Signal, make_memory
from rpc.monitor import Monitor

from ...statements import covers


class Bench:
    """Both ends of a recorder on a virtual clock."""

    def __init__(self) -> None:
        self.clock = VirtualClock(100.0)
        self.memory = make_memory()
        self.recorder = Recorder(self.memory, self.clock.monotonic)
        self.reader = Reader(self.memory)
        self.monitor = Monitor()
        self.monitor.attach(self.recorder)

    def read(self, most: int = CAPACITY) -> list[Signal]:
        return self.reader.read(self.clock.monotonic(), most)

    def signs(self) -> tuple[float, float]:
        return self.reader.signs(self.clock.monotonic())

    def close(self) -> None:
        self.recorder.close()
        self.reader.close()


@pytest.fixture
def bench() -> Iterator[Bench]:
    made = Bench()
    yield made
    made.close()


@covers("FLT-27")
def test_links_are_counted_after_a_wait_in_vain(bench: Bench) -> None:
    """Not in a wait that brings something, which costs no more than before; nothing that the process writes harms."""
    asked: list[float] = []

    def links() -> list[tuple[int, int, int]]:
        asked.append(bench.clock.monotonic())
        return [(-2, 5, 4), (1, 7, 9)]

    bench.recorder.links = links
    for seconds in (0.1, 0.1, 0.25):
        assert bench.reader.links() == []
        bench.recorder.waits()
        bench.clock.advance(seconds)
        bench.recorder.resumes()
    assert len(asked) == 1 and bench.reader.links() == [(-2, 5, 4), (1, 7, 9)]
    os.pwrite(bench.memory, b"\xff" * (SIZE - 64 - CAPACITY * 32), 64 + CAPACITY * 32)
    assert bench.reader.links() == []


@covers("FD-1")
def test_each_call_is_one_signal(bench: Bench) -> None:
    """The four calls need no argument, return nothing, and each is one signal: begin and end alternate."""
    for _ in range(2):
        for _ in range(3):
            assert bench.monitor.batch_begin() is None and bench.monitor.batch_end() is None  # type: ignore[func-returns-value]
        assert bench.monitor.epoch_end() is None  # type: ignore[func-returns-value]
    assert bench.monitor.train_end() is None  # type: ignore[func-returns-value]
    steps = [(kind, epoch, batch) for epoch in range(2) for batch in range(3) for kind in (Kind.BEGIN, Kind.END)]
    expected = [*steps[:6], (Kind.EPOCH, 0, 2), *steps[6:], (Kind.EPOCH, 1, 2), (Kind.TRAIN_END, 1, 2)]
    assert [signal[:3] for signal in bench.read()] == expected
    assert bench.read() == []


@covers("FD-1")
def test_an_epoch_may_end_within_its_last_batch(bench: Bench) -> None:
    """Saving and `monitor_epoch_end` before `monitor_batch_end` count the same batches."""
    for _ in range(2):
        bench.monitor.batch_begin()
        bench.monitor.epoch_end()
        bench.monitor.batch_end()
    kinds = [(Kind.BEGIN, 0), (Kind.EPOCH, 0), (Kind.END, 0), (Kind.BEGIN, 1), (Kind.EPOCH, 1), (Kind.END, 1)]
    assert [(signal.kind, signal.epoch) for signal in bench.read()] == kinds


@covers("EL-27")
def test_a_library_signals_until_the_program_does(bench: Bench) -> None:
    """Group operations count as progress, where the program does not tell of its batches itself."""
    for _ in range(2):
        bench.monitor.progress()
    bench.monitor.batch_begin()
    bench.monitor.progress()
    steps = [(signal.kind, signal.epoch, signal.batch) for signal in bench.read()]
    assert steps == [(Kind.BEGIN, 0, 0), (Kind.BEGIN, 0, 1), (Kind.BEGIN, 0, 0)]


@covers("FD-1")
def test_outside_a_job_nothing_happens() -> None:
    """a program that signals runs anywhere."""
    monitor = Monitor()
    for call in (monitor.batch_begin, monitor.batch_end, monitor.epoch_end, monitor.train_end, monitor.alive, monitor.progress):
        call()
    monitor.batch_begin(-1, -1)


@pytest.mark.parametrize("position", [(-1, 0), (0, -1), (1 << 31, 0), (0, 1 << 40)])
def test_impossible_positions_are_refused(bench: Bench, position: tuple[int, int]) -> None:
    with pytest.raises(ValueError, match=r"'epoch' and 'batch' must be numbers from 0 to"):
        bench.monitor.batch_begin(*position)
    assert bench.read() == []


@covers("FD-9")
def test_signals_outlive_the_process() -> None:
    """After SIGKILL the agent reads all that was signalled before."""
    program = (
        "import os, sys\nfrom rpc.liveness.recorder import Recorder\nfrom rpc import monitor\n"
        "monitor.attach(Recorder(int(sys.argv[1])))\n"
        "for epoch in range(3):\n    for batch in range(4):\n        monitor.monitor_batch_begin(epoch, batch)\n"
        "        if (epoch, batch) == (2, 1):\n            os.kill(os.getpid(), 9)\n        monitor.monitor_batch_end()\n"
    )
    memory = make_memory()
    reader = Reader(memory)
    ended = subprocess.run([sys.executable, "-c", program, str(memory)], pass_fds=[memory], check=False)
    assert ended.returncode == -signal.SIGKILL
    import time

    signals = reader.read(time.monotonic())
    reader.close()
    assert len(signals) == 2 * 9 + 1 and signals[-1][:3] == (Kind.BEGIN, 2, 1)


@covers("FD-15")
def test_overrun_is_counted(bench: Bench) -> None:
    """Who is read too late is read from its newest signals, and what was lost is counted."""
    for number in range(CAPACITY + 100):
        bench.recorder.note(Kind.BEGIN, 0, number)
    assert [signal.batch for signal in bench.read()] == list(range(100, CAPACITY + 100))
    assert (bench.reader.overrun, bench.reader.garbage) == (100, 0)


@settings(deadline=None)
@given(counts=st.lists(st.integers(0, 2 * CAPACITY), max_size=5), most=st.integers(1, CAPACITY))
def test_the_newest_are_read_in_order(counts: list[int], most: int) -> None:
    bench = Bench()
    number = 0
    for count in counts:
        for _ in range(count):
            bench.recorder.note(Kind.BEGIN, 0, number)
            number += 1
        expected = range(max(number - count, number - most, number - CAPACITY), number)
        assert [signal.batch for signal in bench.read(most)] == list(expected)
    bench.close()


@covers("FD-15")
@settings(deadline=None)
@given(st.lists(st.tuples(st.integers(0, SIZE - 1), st.binary(min_size=1, max_size=200)), max_size=20))
def test_garbage_is_ignored(junk: list[tuple[int, bytes]]) -> None:
    """Whatever is written over the memory, reading goes on, and what it gives is possible."""
    bench = Bench()
    for number in range(50):
        bench.recorder.note(Kind.BEGIN, 1, number)
    for place, data in junk:
        os.pwrite(bench.memory, data, place)
    for signal_ in bench.read():
        assert signal_.kind in Kind and 0 <= signal_.epoch < 1 << 31 and 0 <= signal_.batch < 1 << 31
        assert signal_.time <= bench.clock.monotonic() + 1.0
    alive, moved = bench.signs()
    assert 0.0 <= alive <= 101.0 and 0.0 <= moved <= 101.0
    bench.close()


@covers("FD-15")
def test_entries_that_make_no_sense_are_counted(bench: Bench) -> None:
    """An unknown kind, a time to come, a time gone by and a foreign number are garbage; what follows is read."""
    import struct

    entries = [(0, 100.0, 2, 0, 0), (1, 100.0, 99, 0, 0), (2, 500.0, 2, 0, 0), (3, 50.0, 2, 0, 0), (9, 100.0, 2, 0, 0)]
    entries += [(5, float("nan"), 2, 0, 0), (6, 100.0, 2, 1 << 31, 0), (7, 100.0, 3, 0, 7)]
    for place, entry in enumerate(entries):
        os.pwrite(bench.memory, struct.pack("=QdIIQ", *entry), 64 + 32 * place)
    os.pwrite(bench.memory, struct.pack("=Q", len(entries)), 8)
    assert [signal.batch for signal in bench.read()] == [0, 7]
    assert bench.reader.garbage == 6


@covers("FD-15")
def test_memory_that_was_taken_away(bench: Bench) -> None:
    """a process that shortens the memory harms itself alone."""
    bench.recorder.note(Kind.BEGIN, 0, 0)
    os.ftruncate(bench.memory, 0)
    assert bench.read() == [] and bench.signs() == (0.0, 0.0) and bench.reader.stack() == ""
    os.ftruncate(bench.memory, SIZE)  # also lets the recorder be unmapped without harm


@covers("FD-2")
def test_a_wait_shows_life_and_bytes(bench: Bench) -> None:
    """Each slice of a wait is a sign of life; only one that ended early has brought bytes."""
    bench.recorder.waits()
    bench.clock.advance(0.25)
    bench.recorder.resumes()
    assert bench.signs() == (100.25, 100.0)
    bench.recorder.waits()
    bench.clock.advance(0.01)
    bench.recorder.resumes()
    assert bench.signs() == (100.26, 100.26)


@covers("FD-16")
def test_cost() -> None:
    """a signal costs less than 20 us, and a pair of them less than 1 % of a step of 5 ms; so does a wait's sign."""
    memory = make_memory()
    recorder, monitor = Recorder(memory), Monitor()
    monitor.attach(recorder)

    def pair() -> None:
        monitor.batch_begin()
        monitor.batch_end()

    def wait() -> None:
        recorder.waits()
        recorder.resumes()

    costs = [min(timeit.repeat(call, number=2000, repeat=7)) / 2000 for call in (pair, wait)]
    recorder.close()
    os.close(memory)
    assert costs[0] < 20e-6 and costs[0] < 0.01 * 5e-3 and costs[1] < 10e-6
