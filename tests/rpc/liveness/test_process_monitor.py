"""The agent's guard of one process: beats, notices, verdicts with evidence from real processes, on a virtual clock."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from network.testing import VirtualClock
from network.transport import wait_sockets
from rpc.liveness.limits import HEARTBEAT_SECONDS, STACK_SECONDS
from rpc.liveness.process_monitor import ProcessMonitor, log_tail, process_status
from rpc.liveness.recorder import Reader, Recorder, make_memory
from rpc.messages import CanCommit, Heartbeat, Notice, Operation, Verdict, parse
from rpc.monitor import Monitor
from rpc.verdict import LOG_LINES
from tests.processes.harness import wait_for

from ...statements import covers

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


class Bench:
    """A guard over a real process, whose signals come from here."""

    def __init__(self, folder: Path, program: str, order: CanCommit = ORDER) -> None:
        self.clock = VirtualClock(100.0)
        memory = make_memory()
        self.log = folder / "Fit.log"
        self.log.write_text("".join(f"line {number}\n" for number in range(30)))
        self.recorder = Recorder(memory, self.clock.monotonic)
        self.monitor = Monitor()
        self.monitor.attach(self.recorder)
        self.guard = ProcessMonitor(order, Reader(memory), self.log, self.clock.monotonic())
        command = [sys.executable, "-c", program, str(memory)]
        self.process = subprocess.Popen(command, pass_fds=[memory], stdout=subprocess.PIPE)
        assert self.process.stdout is not None and self.process.stdout.readline() == b"here\n"
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


@covers("FD-16")
def test_beats_tell_where_it_is(bench: Bench) -> None:
    """One each `HEARTBEAT_SECONDS`, with node, attempt, phase, epoch and batch, and nothing else while all is well."""
    for batch in range(20):
        bench.monitor.batch_begin(2, batch)
        bench.pass_time(0.25)
        bench.monitor.batch_end()
    beats = bench.of(Heartbeat)
    assert len(beats) == len(bench.told)
    assert (
        5.0 / HEARTBEAT_SECONDS <= len(beats) + 1 <= 5.0 / HEARTBEAT_SECONDS + 2
    )  # the first at once, and a look may come late
    last = beats[-1]
    assert (last.job, last.node, last.attempt, last.pid, last.phase) == ("job", 1, 3, bench.process.pid, "step")
    assert last.epoch == 3 and last.batch in (19, 20) and last.limit == N and last.waiting == 0.0


@covers("FD-2")
@pytest.mark.parametrize("bench", [(PROGRAM, replace(ORDER, standstill=8.0))], indirect=True)
def test_a_process_that_is_stopped_by_a_signal(bench: Bench) -> None:
    """Also one that gives no signals of its progress. One that is only silent may be so for ever."""
    bench.monitor.work_begins(7)
    bench.pass_time(100.0)
    assert bench.of(Verdict) == []
    os.kill(bench.process.pid, signal.SIGSTOP)
    wait_for(lambda: process_status(bench.process.pid).state == "T", "the process to stop")
    bench.pass_time(5.0)
    os.kill(bench.process.pid, signal.SIGCONT)
    wait_for(lambda: process_status(bench.process.pid).state != "T", "the process to go on")
    bench.pass_time(5.0)
    assert bench.of(Verdict) == []
    os.kill(bench.process.pid, signal.SIGSTOP)
    wait_for(lambda: process_status(bench.process.pid).state == "T", "the process to stop again")
    bench.pass_time(10.0)
    (verdict,) = bench.of(Verdict)
    assert (verdict.kind, verdict.phase, verdict.work) == ("stuck", "unwatched", 7)
    assert 8.0 <= verdict.seconds <= 9.0
    assert "The limit was 8 s. It is stopped by a signal (state T)" in verdict.detail


@covers("FD-2")
def test_waiting_shows_in_the_beats(bench: Bench) -> None:
    """Seconds of waiting without a byte; enough for others to find a deadlock."""
    bench.monitor.batch_begin()
    for _ in range(40):
        bench.recorder.waits()
        bench.pass_time(0.25)
        bench.recorder.resumes()
    assert bench.of(Verdict) == [] and bench.of(Heartbeat)[-1].waiting == pytest.approx(9.5, abs=0.6)


@covers("FD-2", "FD-18")
def test_a_stuck_process_says_where_it_is(bench: Bench) -> None:
    """The verdict has the stack, the last lines of the log, and comes within half a second after N."""
    bench.monitor.batch_begin(2, 16)
    begun = bench.clock.monotonic()
    bench.pass_time(10.0)
    (verdict,) = bench.of(Verdict)
    assert verdict is bench.guard.verdict and parse(verdict.to_value(), (Verdict,)) == verdict
    assert N < verdict.seconds <= N + 0.5 and bench.clock.monotonic() - begun == pytest.approx(10.0)
    assert (verdict.kind, verdict.node, verdict.attempt, verdict.phase) == ("stuck", 1, 3, "step")
    assert (verdict.epoch, verdict.batch, verdict.pid) == (3, 17, bench.process.pid)
    assert "in where_it_is_stuck" in verdict.trace
    assert verdict.log == [f"line {number}" for number in range(10, 30)]
    assert len(bench.of(Heartbeat)) == pytest.approx(10.0 / HEARTBEAT_SECONDS, abs=1)  # the agent lives


@covers("FD-18")
def test_a_stopped_process_cannot_say_where_it_is(bench: Bench) -> None:
    """SIGSTOP is told as what it is, at once."""
    bench.monitor.batch_begin()
    os.kill(bench.process.pid, signal.SIGSTOP)
    while process_status(bench.process.pid).state != "T":
        wait_sockets([], [], 0.001)
    bench.pass_time(3.0)
    (verdict,) = bench.of(Verdict)
    assert "stopped by a signal (state T)" in verdict.detail and verdict.trace == ""
    assert N < verdict.seconds < N + 0.01


@covers("FD-18")
@pytest.mark.parametrize("bench", [(DEAF,)], indirect=True)
def test_a_process_that_does_not_answer(bench: Bench) -> None:
    """After 0.3 s the verdict goes without a stack."""
    bench.monitor.batch_begin()
    bench.pass_time(3.0)
    (verdict,) = bench.of(Verdict)
    assert "did not say where it is within 0.3 s (state S)" in verdict.trace
    assert N + STACK_SECONDS <= verdict.seconds <= N + 0.5


@covers("FD-19")
def test_notices(bench: Bench) -> None:
    """Warned at N / 2, recovered with the end of the batch, both naming the batch."""
    bench.monitor.batch_begin(0, 4)
    bench.pass_time(1.5)
    bench.monitor.batch_end()
    bench.monitor.batch_begin(0, 5)
    bench.pass_time(0.3)
    warned, recovered = bench.of(Notice)
    assert (warned.kind, warned.batch, recovered.kind, recovered.batch) == ("warned", 5, "recovered", 5)
    assert recovered.describe() == "Node(1), epoch 1, batch 5: recovered after 1.5 s."
    assert warned.describe().startswith("Node(1), epoch 1, batch 5: silent for 1.0 s in phase 'step'")


@covers("FD-9", "FD-18")
@pytest.mark.parametrize(
    ("detail", "code", "exit_code", "kind", "number", "left_with"),
    [
        ("killed by signal 9 (SIGKILL)", -9, -1, "crashed", 9, -1),
        ("Traceback\nValueError: no", 0, -1, "crashed", 0, -1),
        ("Traceback\nSystemExit: 3", 0, 3, "exited", 0, 3),
        ("The executor called sys.exit() before its work was done.", 0, 0, "exited", 0, 0),
        ("The job process ended without a report: exit code 5.", 5, -1, "exited", 0, 5),
    ],
)
def test_how_a_process_ended(
    bench: Bench, detail: str, code: int, exit_code: int, kind: str, number: int, left_with: int
) -> None:
    """How a process ended, and in which batch, although nobody had looked since it began."""
    bench.monitor.batch_begin(4, 9)
    bench.clock.advance(0.5)
    verdict = bench.guard.failed(bench.clock.monotonic(), detail, code, exit_code)
    assert (verdict.kind, verdict.signal, verdict.exit_code, verdict.epoch, verdict.batch) == (kind, number, left_with, 5, 10)
    assert verdict.trace == (detail if "\n" in detail else "") and verdict.seconds == pytest.approx(0.5)


@covers("FD-9")
def test_a_process_that_is_leaving_only_beats(bench: Bench) -> None:
    """While a job is being ended its node is not silent, and not stuck either."""
    bench.monitor.batch_begin()
    told = []
    for _ in range(40):
        bench.clock.advance(0.125)
        told += bench.guard.look(bench.clock.monotonic(), leaving=True)
    assert [type(operation) for operation in told] == [Heartbeat] * 10


@covers("FD-18")
def test_log_tail(tmp_path: Path) -> None:
    """The last lines, harmless for a terminal; the dump of a crash apart; nothing but regular files."""
    log = tmp_path / "Fit.log"
    assert log_tail(log).lines == []
    log.write_bytes(b"x" * 20_000 + b"\nred \x1b[31m\xff\n" + b"Fatal Python error: Segmentation fault\n\nStack\n")
    tail = log_tail(log)
    assert tail.lines == [r"red \x1b[31m\ufffd".replace(r"\ufffd", "\ufffd")] and tail.dump.startswith(
        "Fatal Python error: Seg"
    )
    log.write_text("".join(f"{number}\n" for number in range(100)))
    assert log_tail(log).lines == [str(number) for number in range(100 - LOG_LINES, 100)] and log_tail(log).dump == ""
    link = tmp_path / "link"
    link.symlink_to(log)
    os.mkfifo(tmp_path / "pipe")
    assert log_tail(link).lines == log_tail(tmp_path / "pipe").lines == []
