"""The flight recorder and the agent's guard of one process: every signal arrives once, also from the dead; beats, notices,
verdicts with evidence from real processes, on a virtual clock; and nothing that a process writes harms its agent.
"""

from __future__ import annotations

import os
import signal
import struct
import subprocess
import sys
import time
import timeit
from collections.abc import Callable, Iterator
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from network.testing import VirtualClock
from network.transport import wait_sockets
from rpc.liveness.heartbeat import HELD_UP_SECONDS, AgentStates, ProcessStatus, Pulse, process_status, this_host
from rpc.liveness.limits import HEARTBEAT_SECONDS, STACK_SECONDS, Limits
from rpc.liveness.process_monitor import ProcessMonitor, log_tail
from rpc.liveness.recorder import CAPACITY, SIZE, Kind, Reader, Recorder, Signal, make_memory
from rpc.liveness.stall_detector import StallDetector
from rpc.messages import CanCommit, Heartbeat, Notice, Operation, Verdict, parse
from rpc.monitor import Monitor
from rpc.verdict import LOG_LINES
from tests.processes.harness import wait_for

from ...statements import covers


class Memory:
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

    def wait(self, seconds: float, moved: bool) -> None:
        self.recorder.waits()
        self.clock.advance(seconds)
        self.recorder.resumes(moved)

    def close(self) -> None:
        self.recorder.close()
        self.reader.close()


@pytest.fixture
def memory() -> Iterator[Memory]:
    made = Memory()
    yield made
    made.close()


@covers("FD-1", "EL-27")
def test_each_call_is_one_signal(memory: Memory) -> None:
    """The four calls need no argument, return nothing, and each is one signal: begin and end alternate. An epoch may end
    within its last batch. A library's operations count as progress until the program tells of its batches itself."""
    monitor = memory.monitor
    for _ in range(2):
        for _ in range(3):
            assert monitor.batch_begin() is None and monitor.batch_end() is None  # type: ignore[func-returns-value]
        assert monitor.epoch_end() is None  # type: ignore[func-returns-value]
    assert monitor.train_end() is None  # type: ignore[func-returns-value]
    steps = [(kind, epoch, batch) for epoch in range(2) for batch in range(3) for kind in (Kind.BEGIN, Kind.END)]
    expected = [*steps[:6], (Kind.EPOCH, 0, 2), *steps[6:], (Kind.EPOCH, 1, 2), (Kind.TRAIN_END, 1, 2)]
    assert [signal[:3] for signal in memory.read()] == expected
    assert memory.read() == []
    monitor = Monitor()
    monitor.attach(memory.recorder)
    calls: list[Callable[[], None]] = [monitor.batch_begin, monitor.epoch_end, monitor.batch_end]
    for call in 2 * calls:
        call()
    assert [signal[:2] for signal in memory.read()] == [
        (kind, epoch) for epoch in range(2) for kind in (Kind.BEGIN, Kind.EPOCH, Kind.END)
    ]
    monitor = Monitor()
    monitor.attach(memory.recorder)
    for call in (monitor.progress, monitor.progress, monitor.batch_begin, monitor.progress):
        call()
    assert [signal[:3] for signal in memory.read()] == [(Kind.BEGIN, 0, 0), (Kind.BEGIN, 0, 1), (Kind.BEGIN, 0, 0)]
    monitor = Monitor()  # outside a job nothing happens: a program that signals runs anywhere
    for call in (monitor.batch_begin, monitor.batch_end, monitor.epoch_end, monitor.train_end, monitor.alive, monitor.progress):
        call()
    monitor.batch_begin(-1, -1)
    assert memory.read() == []


@pytest.mark.parametrize("position", [(-1, 0), (0, -1), (1 << 31, 0), (0, 1 << 40)])
def test_impossible_positions_are_refused(memory: Memory, position: tuple[int, int]) -> None:
    with pytest.raises(ValueError, match=r"'epoch' and 'batch' must be numbers from 0 to"):
        memory.monitor.batch_begin(*position)
    assert memory.read() == []


@covers("FD-9")
def test_signals_outlive_the_process() -> None:
    """After SIGKILL the agent reads all that was signalled before."""
    program = (
        "import os, sys\nfrom rpc.liveness.recorder import Recorder\nfrom rpc import monitor\n"
        "monitor.attach(Recorder(int(sys.argv[1])))\n"
        "for epoch in range(3):\n    for batch in range(4):\n        monitor.monitor_batch_begin(epoch, batch)\n"
        "        if (epoch, batch) == (2, 1):\n            os.kill(os.getpid(), 9)\n        monitor.monitor_batch_end()\n"
    )
    descriptor = make_memory()
    reader = Reader(descriptor)
    ended = subprocess.run([sys.executable, "-c", program, str(descriptor)], pass_fds=[descriptor], check=False)
    assert ended.returncode == -signal.SIGKILL
    signals = reader.read(time.monotonic())
    reader.close()
    assert len(signals) == 2 * 9 + 1 and signals[-1][:3] == (Kind.BEGIN, 2, 1)


@pytest.mark.long
@covers("FD-15")
@settings(deadline=None)
@given(counts=st.lists(st.integers(0, 2 * CAPACITY), max_size=5), most=st.integers(1, CAPACITY))
def test_the_newest_are_read_in_order(counts: list[int], most: int) -> None:
    """Who is read too late is read from its newest signals, and what was lost is counted."""
    bench = Memory()
    number = lost = 0
    for count in counts:
        for _ in range(count):
            bench.recorder.note(Kind.BEGIN, 0, number)
            number += 1
        lost += max(0, count - CAPACITY)
        expected = range(max(number - count, number - most, number - CAPACITY), number)
        assert [signal.batch for signal in bench.read(most)] == list(expected)
        assert (bench.reader.overrun, bench.reader.garbage) == (lost, 0)
    bench.close()


@covers("FD-15")
@settings(deadline=None)
@given(st.lists(st.tuples(st.integers(0, SIZE - 1), st.binary(min_size=1, max_size=200)), max_size=20))
def test_garbage_is_ignored(junk: list[tuple[int, bytes]]) -> None:
    """Whatever is written over the memory, reading goes on, and what it gives is possible."""
    bench = Memory()
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
def test_entries_that_make_no_sense_are_counted(memory: Memory) -> None:
    """An unknown kind, a time to come, a time gone by and a foreign number are garbage; what follows is read. A process that
    shortens the memory harms itself alone."""
    entries = [(0, 100.0, 2, 0, 0), (1, 100.0, 99, 0, 0), (2, 500.0, 2, 0, 0), (3, 50.0, 2, 0, 0), (9, 100.0, 2, 0, 0)]
    entries += [(5, float("nan"), 2, 0, 0), (6, 100.0, 2, 1 << 31, 0), (7, 100.0, 3, 0, 7)]
    for place, entry in enumerate(entries):
        os.pwrite(memory.memory, struct.pack("=QdIIQ", *entry), 64 + 32 * place)
    os.pwrite(memory.memory, struct.pack("=Q", len(entries)), 8)
    assert [signal.batch for signal in memory.read()] == [0, 7]
    assert memory.reader.garbage == 6
    os.pwrite(memory.memory, b"File \xff\0", SIZE)
    assert memory.reader.stack() == "File \ufffd"
    os.ftruncate(memory.memory, 0)
    assert memory.read() == [] and memory.signs() == (0.0, 0.0) and memory.reader.stack() == ""
    os.ftruncate(memory.memory, SIZE)  # also lets the recorder be unmapped without harm


@covers("FD-2", "FLT-27")
def test_a_wait_shows_life_and_bytes(memory: Memory) -> None:
    """Each slice of a wait is a sign of life; bytes are told of, however late in a slice they come. Links are counted after a
    wait in vain, not in one that brings something; nothing that the process writes harms."""
    asked: list[float] = []

    def links() -> list[tuple[int, int, int]]:
        asked.append(memory.clock.monotonic())
        return [(-2, 5, 4), (1, 7, 9)]

    memory.wait(0.25, False)
    assert memory.signs() == (100.25, 100.0)
    memory.wait(0.24, True)
    assert memory.signs() == (100.49, 100.49)
    memory.recorder.links = links
    for seconds, moved in ((0.1, True), (0.24, True), (0.25, False)):
        assert memory.reader.links() == []
        memory.wait(seconds, moved)
    assert len(asked) == 1 and memory.reader.links() == [(-2, 5, 4), (1, 7, 9)]
    os.pwrite(memory.memory, b"\xff" * (SIZE - 64 - CAPACITY * 32), 64 + CAPACITY * 32)
    assert memory.reader.links() == []


@covers("FD-16")
def test_cost() -> None:
    """a signal costs less than 20 us, and a pair of them less than 1 % of a step of 5 ms; so does a wait's sign."""
    descriptor = make_memory()
    recorder, monitor = Recorder(descriptor), Monitor()
    monitor.attach(recorder)

    def pair() -> None:
        monitor.batch_begin()
        monitor.batch_end()

    def wait() -> None:
        recorder.waits()
        recorder.resumes(False)

    costs = [min(timeit.repeat(call, number=2000, repeat=7)) / 2000 for call in (pair, wait)]
    recorder.close()
    os.close(descriptor)
    assert costs[0] < 20e-6 and costs[0] < 0.01 * 5e-3 and costs[1] < 10e-6


# ---- the guard


N = 2.0
ORDER = CanCommit("job", "title", 1, [0, 1], 3, "3.11", "1.0", 1, 1, 5.0, 5.0, stall=N)
PROGRAM = """
import faulthandler, os, sys, time
from rpc.liveness.recorder import STACK_SIGNAL
from rpc.liveness.recorder import SIZE
os.lseek(int(sys.argv[1]), SIZE, os.SEEK_SET)
faulthandler.register(STACK_SIGNAL, file=int(sys.argv[1]), all_threads=True, chain=False)
def where_it_is_stuck():
    print("here", flush=True)
    while True:
        time.sleep(0.01)
where_it_is_stuck()
"""
DEAF = "import signal\nsignal.signal(signal.SIGUSR1, signal.SIG_IGN)\nprint('here', flush=True)\nwhile True: signal.pause()"
# more than the hundredths of a second in which the system counts, and then none
SPENT = "import signal, time\nwhile time.process_time() < 0.1: pass\nprint('here', flush=True)\nwhile True: signal.pause()"


class Bench(Memory):
    """A guard over a real process, whose signals come from here."""

    def __init__(self, folder: Path, program: str, order: CanCommit = ORDER) -> None:
        super().__init__()
        log = folder / "Fit.log"
        log.write_text("".join(f"line {number}\n" for number in range(30)))
        self.guard = ProcessMonitor(order, self.reader, log, self.clock.monotonic())
        command = [sys.executable, "-c", program, str(self.memory)]
        self.process = subprocess.Popen(command, pass_fds=[self.memory], stdout=subprocess.PIPE)
        assert self.process.stdout is not None and self.process.stdout.readline() == b"here\n"
        wait_for(lambda: process_status(self.process.pid).state == "S", "the process to sleep")
        self.guard.begin(self.process.pid)
        self.told: list[Operation] = []

    def pass_time(self, seconds: float) -> None:
        """Let virtual time go by; the process gets real time while its answer is awaited."""
        end = self.clock.monotonic() + seconds
        while self.guard.deadline <= end:
            self.clock.advance_to(self.guard.deadline + 1e-6)
            wait_sockets([], [], 0.01)
            self.told += self.guard.look(self.clock.monotonic())
        self.clock.advance_to(end)

    def of(self, kind: type) -> list[Any]:
        return [operation for operation in self.told if isinstance(operation, kind)]

    def kill(self, number: int) -> None:
        """Send the process SIGSTOP or SIGCONT, and wait until it has it."""
        os.kill(self.process.pid, number)
        stops = number == signal.SIGSTOP
        wait_for(lambda: (process_status(self.process.pid).state == "T") is stops, f"signal {number} to arrive")

    def close(self) -> None:
        self.process.kill()
        self.process.communicate()
        self.recorder.close()
        self.guard.close()


@pytest.fixture
def bench(request: pytest.FixtureRequest, tmp_path: Path) -> Iterator[Bench]:
    made = Bench(tmp_path, *getattr(request, "param", (PROGRAM,)))
    yield made
    made.close()


def test_what_is_due_at_a_moment_is_told_at_that_moment(bench: Bench) -> None:
    """An agent that waits until a deadline, and looks then, need not look twice."""
    for look in (bench.guard.look_at_start, bench.guard.look):
        due = bench.guard.deadline
        assert look(due - 1e-6) == []
        assert [type(operation) for operation in look(due)] == [Heartbeat] and bench.guard.deadline > due


@pytest.mark.parametrize("bench", [(SPENT,)], indirect=True)
def test_a_process_that_starts_tells_all_processor_time_that_it_has_used(bench: Bench) -> None:
    """From its first moment: nothing else shows that it imports. Later heartbeats tell what has come since."""
    used: list[float] = []
    for _ in range(2):
        (beat,) = bench.guard.look_at_start(bench.guard.deadline)
        assert isinstance(beat, Heartbeat)
        used.append(beat.worked)
    assert used[0] >= 0.05 and sum(used) <= process_status(bench.process.pid).seconds + 1e-6
    assert used[1] < used[0]


@pytest.mark.parametrize(("state", "works"), [("R", True), ("D", True), ("S", False), ("T", False), ("Z", False), ("", False)])
def test_a_process_that_starts_works_as_well_without_a_processor(bench: Bench, state: str, works: bool) -> None:
    """On a machine with more to do than processors it may get none for seconds: it is waited for as if it had."""
    pulse, place = Pulse("job", 1, 0, StallDetector(Limits(), 100.0), bench.reader, 100.0), ("host", 7, "unwatched", 0, 0)
    found = [pulse.heartbeat(place, 100.0 + turn, ProcessStatus(state, 1.5)).worked for turn in range(3)]
    assert found == [1.5, *[HELD_UP_SECONDS if works else 0.0] * 2]
    (accepted,) = [parse(pulse.heartbeat(place, 103.0, ProcessStatus(state, 1.5)).to_value(), (Heartbeat,))]
    assert isinstance(accepted, Heartbeat) and (accepted.worked > 0.0) is works


@covers("FD-2", "FD-9", "FD-16", "FD-19")
def test_beats_tell_where_it_is(bench: Bench) -> None:
    """One each `HEARTBEAT_SECONDS`, with node, attempt, phase, epoch and batch, and nothing else while all is well. A wait
    shows in them, enough for others to find a deadlock. A process that is leaving only beats."""
    for batch in range(20):
        bench.monitor.batch_begin(2, batch)
        bench.pass_time(0.25)
        bench.monitor.batch_end()
    beats = bench.of(Heartbeat)
    assert len(beats) == len(bench.told)
    most = 5.0 / HEARTBEAT_SECONDS + 2  # the first at once, and a look may come late
    assert most - 2 <= len(beats) + 1 <= most
    last = beats[-1]
    assert (last.job, last.node, last.attempt, last.pid, last.phase) == ("job", 1, 3, bench.process.pid, "step")
    assert last.epoch == 3 and last.batch in (19, 20) and last.limit == N and last.waiting == 0.0
    bench.monitor.batch_begin()
    for _ in range(40):
        bench.recorder.waits()
        bench.pass_time(0.25)
        bench.recorder.resumes(False)
    assert bench.of(Verdict) == [] and bench.of(Heartbeat)[-1].waiting == pytest.approx(9.5, abs=0.6)
    told = []
    for _ in range(40):  # for 5 s: while a job is being ended its node is not silent, and not stuck either
        bench.clock.advance(0.125)
        told += bench.guard.look(bench.clock.monotonic(), leaving=True)
    assert [type(operation) for operation in told] == [Heartbeat] * round(5.0 / HEARTBEAT_SECONDS)


@covers("FD-2")
@pytest.mark.parametrize("bench", [(PROGRAM, replace(ORDER, standstill=8.0))], indirect=True)
def test_a_process_that_is_stopped_by_a_signal(bench: Bench) -> None:
    """Also one that gives no signals of its progress. One that is only silent may be so for ever."""
    bench.monitor.work_begins(7)
    bench.pass_time(100.0)
    for number in (signal.SIGSTOP, signal.SIGCONT):
        bench.kill(number)
        bench.pass_time(5.0)
    assert bench.of(Verdict) == []
    bench.kill(signal.SIGSTOP)
    bench.pass_time(10.0)
    (verdict,) = bench.of(Verdict)
    assert (verdict.kind, verdict.phase, verdict.work) == ("stuck", "unwatched", 7)
    assert 8.0 <= verdict.seconds <= 9.0
    assert "The limit was 8 s. It is stopped by a signal (state T)" in verdict.detail


@covers("FD-2", "FD-18")
def test_a_stuck_process_says_where_it_is(bench: Bench, monkeypatch: pytest.MonkeyPatch) -> None:
    """The verdict has the stack, the last lines of the log, and comes within half a second after N."""
    stack = bench.reader.stack  # virtual time is past before a busy machine has let the process write it
    whole = "the process to write its stack"
    monkeypatch.setattr(bench.reader, "stack", lambda: wait_for(lambda: "<module>" in (text := stack()) and text, whole))
    bench.monitor.batch_begin(2, 16)
    begun = bench.clock.monotonic()
    bench.pass_time(10.0)
    (verdict,) = bench.of(Verdict)
    assert verdict == bench.guard.verdict and parse(verdict.to_value(), (Verdict,)) == verdict
    assert N < verdict.seconds <= N + 0.5 and bench.clock.monotonic() - begun == pytest.approx(10.0)
    assert (verdict.kind, verdict.node, verdict.attempt, verdict.phase) == ("stuck", 1, 3, "step")
    assert (verdict.epoch, verdict.batch, verdict.pid) == (3, 17, bench.process.pid)
    assert "in where_it_is_stuck" in verdict.trace
    assert verdict.log == [f"line {number}" for number in range(10, 30)]
    assert len(bench.of(Heartbeat)) == pytest.approx(10.0 / HEARTBEAT_SECONDS, abs=1)  # the agent lives


@covers("FD-18")
@pytest.mark.parametrize(
    ("bench", "is_stopped", "detail", "trace", "late"),
    [
        # SIGSTOP is told as what it is, at once; after 0.3 s the verdict goes without a stack
        ((PROGRAM,), True, "stopped by a signal (state T)", "", (0.0, 0.01)),
        ((DEAF,), False, "The limit was 2 s.", "It did not say where it is within 0.3 s (state S).", (STACK_SECONDS, 0.5)),
    ],
    indirect=["bench"],
)
def test_a_process_that_cannot_say_where_it_is(
    bench: Bench, is_stopped: bool, detail: str, trace: str, late: tuple[float, float]
) -> None:
    bench.monitor.batch_begin()
    if is_stopped:
        bench.kill(signal.SIGSTOP)
    bench.pass_time(3.0)
    (verdict,) = bench.of(Verdict)
    assert detail in verdict.detail and verdict.trace == trace
    assert late[0] <= verdict.seconds - N <= late[1]


@covers("FD-19")
def test_notices(bench: Bench) -> None:
    """Warned at N / 2, recovered with the end of the batch, both naming the batch, or with that of the process."""
    bench.monitor.batch_begin(0, 4)
    bench.pass_time(1.5)
    bench.monitor.batch_end()
    bench.monitor.batch_begin(0, 5)
    bench.pass_time(1.5)
    bench.monitor.batch_end()
    bench.told += bench.guard.farewell(bench.clock.monotonic())
    warned, recovered, *later = bench.of(Notice)
    assert [(notice.kind, notice.batch) for notice in later] == [("warned", 6), ("recovered", 6)]
    assert (warned.kind, warned.batch, recovered.kind, recovered.batch) == ("warned", 5, "recovered", 5)
    assert recovered.describe() == "Node(1), in epoch 1, batch 5: recovered after 1.5 s."
    assert warned.describe().startswith("Node(1), in epoch 1, batch 5: silent for 1.0 s")


@covers("FD-9", "FD-18")
def test_how_a_process_ended(bench: Bench) -> None:
    """How a process ended, and in which batch, although nobody had looked since it began."""
    bench.monitor.batch_begin(4, 9)
    bench.clock.advance(0.5)
    for detail, code, exit_code, kind, number, left_with in [
        ("killed by signal 9 (SIGKILL)", -9, -1, "crashed", 9, -1),
        ("Traceback\nValueError: no", 0, -1, "crashed", 0, -1),
        ("Traceback\nSystemExit: 3", 0, 3, "exited", 0, 3),
        ("The executor called sys.exit() before its work was done.", 0, 0, "exited", 0, 0),
        ("The job process ended without a report: exit code 5.", 5, -1, "exited", 0, 5),
    ]:
        verdict = bench.guard.failed(bench.clock.monotonic(), detail, code, exit_code)
        assert (verdict.kind, verdict.signal, verdict.exit_code) == (kind, number, left_with)
        assert (verdict.epoch, verdict.batch) == (5, 10) and verdict.seconds == pytest.approx(0.5)
        assert verdict.trace == (detail if "\n" in detail else "")


@covers("FD-18")
def test_log_tail(tmp_path: Path) -> None:
    """The last lines, harmless for a terminal; the dump of a crash apart; nothing but regular files."""
    log, link = tmp_path / "Fit.log", tmp_path / "link"
    assert log_tail(log).lines == []
    log.write_bytes(b"x" * 20_000 + b"\nred \x1b[31m\xff\n" + b"Fatal Python error: Segmentation fault\n\nStack\n")
    tail = log_tail(log)
    assert tail.lines == ["red \\x1b[31m\ufffd"] and tail.dump.startswith("Fatal Python error: Seg")
    log.write_text("".join(f"{number}\n" for number in range(100)))
    assert log_tail(log).lines == [str(number) for number in range(100 - LOG_LINES, 100)] and log_tail(log).dump == ""
    link.symlink_to(log)
    os.mkfifo(tmp_path / "pipe")
    assert log_tail(link).lines == log_tail(tmp_path / "pipe").lines == []


@pytest.mark.skipif(sys.platform != "linux", reason="looks into /proc")
def test_a_job_process_that_lost_its_agent_to_this_program_has_none() -> None:
    """As where the program is the first process of a container, which gets all orphans: it runs whenever it looks."""
    program = "from rpc.job.hardening import name_process; name_process('psgd-job'); print(flush=True); input()"
    with subprocess.Popen([sys.executable, "-c", program], stdin=subprocess.PIPE, stdout=subprocess.PIPE) as orphan:
        assert orphan.stdout is not None and orphan.stdout.readline() == b"\n"
        assert Path(f"/proc/{orphan.pid}/comm").read_text() == "psgd-job\n"
        assert AgentStates()(this_host(), orphan.pid) == ""
        orphan.kill()


AGENT = """
import os, signal, sys, threading
from rpc.job.hardening import name_process

asked = threading.Event()

def compute():
    asked.wait()
    while True:
        pass

threading.Thread(target=compute, daemon=True).start()
begun, told = os.pipe()
if (pid := os.fork()) == 0:
    name_process("psgd-job")
    os.write(told, b".")
    while True:
        signal.pause()
os.read(begun, 1)
print(pid, flush=True)
sys.stdin.readline()
asked.set()
os.waitpid(pid, 0)
threading.Event().wait()
"""


@pytest.mark.skipif(sys.platform != "linux", reason="looks into /proc")
def test_an_agent_runs_where_any_of_its_threads_does() -> None:
    """One that waits for a processor may hold the lock that the thread of the agent's loop waits for. An agent that was seen is
    known when its job process has ended, too, until it ends itself."""
    states = AgentStates()
    with subprocess.Popen([sys.executable, "-c", AGENT], stdin=subprocess.PIPE, stdout=subprocess.PIPE) as agent:
        assert agent.stdout is not None and agent.stdin is not None
        job = int(agent.stdout.readline())
        try:
            wait_for(lambda: states(this_host(), job) == "S", "all threads to wait for events")
            agent.stdin.write(b"\n")
            agent.stdin.flush()
            wait_for(lambda: process_status(agent.pid).state == "S" and states(this_host(), job) == "R", "one to compute")
            os.kill(job, signal.SIGKILL)
            wait_for(lambda: not process_status(job).state, "the job process to be gone")
            assert states(this_host(), job) in ("R", "S") and AgentStates()(this_host(), job) == ""
        finally:
            agent.kill()
    assert states(this_host(), job) == ""


@pytest.mark.skipif(sys.platform != "linux", reason="looks into /proc")
def test_a_number_of_a_job_process_that_is_given_again_tells_of_its_new_agent(monkeypatch: pytest.MonkeyPatch) -> None:
    states = AgentStates()
    with subprocess.Popen([sys.executable, "-c", AGENT], stdin=subprocess.PIPE, stdout=subprocess.PIPE) as agent:
        assert agent.stdout is not None and agent.stdin is not None
        job = int(agent.stdout.readline())
        with subprocess.Popen([sys.executable, "-c", "input()"], stdin=subprocess.PIPE) as other:
            try:
                wait_for(lambda: states(this_host(), job) == "S", "the agent to wait for events")
                other.send_signal(signal.SIGSTOP)
                wait_for(lambda: process_status(other.pid).is_stopped, "the other one to stand still")

                def later(pid: int) -> ProcessStatus:
                    found = process_status(pid)
                    return found._replace(parent=other.pid, begun=found.begun + 1) if pid == job else found

                monkeypatch.setattr("rpc.liveness.heartbeat.process_status", later)
                assert states(this_host(), job) == "T"
            finally:
                os.kill(job, signal.SIGKILL)
                for each in (agent, other):
                    each.kill()
