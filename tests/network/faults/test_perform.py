"""What a fault does to its process, seen from outside."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
from pathlib import Path

import pytest

from network.faults import FaultPlan, InjectedFault, ProcessFault, perform
from tests.proc import is_gone
from tests.processes.harness import LIMIT, wait_for

from ...statements import covers

ROOT = Path(__file__).parents[3]
needs_proc = pytest.mark.skipif(not Path("/proc/self/stat").exists(), reason="needs /proc")
PROGRAM = """
import sys, time
from network.testing import FaultPlan, perform
plan = FaultPlan.parse(sys.argv[1])
for batch in range(3):
    for fault in plan.at(0, 0, batch):
        print("now", flush=True)
        begin = time.monotonic()
        perform(fault, poison=lambda: print("poisoned", flush=True))
        end = time.monotonic()
    print(batch + 1, flush=True)
"""


def process(plan: str, more: str = "") -> subprocess.Popen[str]:
    command = [sys.executable, "-c", PROGRAM + more, plan]
    return subprocess.Popen(command, cwd=ROOT, text=True, stdout=subprocess.PIPE, stderr=subprocess.PIPE)


def state(pid: int) -> str:
    return Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()[0]


def await_state(pid: int, expected: str) -> None:
    wait_for(lambda: state(pid) == expected, f"the process to come into state {expected!r}")


@covers("FLT-1", "FLT-5", "FLT-6")
@pytest.mark.parametrize(
    ("plan", "code", "out", "err"),
    [
        ("kill 0@e1.b2", -signal.SIGKILL, "1\nnow\n", "Injected fault in attempt 1, e1.b2: kill 0@e1.b2."),
        ("exit 0@e1.b2 code 3", 3, "1\nnow\n", ""),
        ("exit 0@e1.b3", 1, "1\n2\nnow\n", ""),
        ("raise 0@e1.b1", 1, "now\n", "network.faults.plan.InjectedFault: Injected fault: raise 0@e1.b1."),
        ("nan 0@e1.b2; hang 0@e1.b3 for 1ms", 0, "1\nnow\npoisoned\n2\nnow\n3\n", ""),
    ],
)
def test_processes_end_as_planned(plan: str, code: int, out: str, err: str) -> None:
    """At BEGIN of that batch, after what came before it."""
    with process(plan) as ended:
        said, errors = ended.communicate(timeout=LIMIT)
    assert (ended.returncode, said) == (code, out)
    assert err in errors


@covers("FLT-2", "FLT-4")
@needs_proc
def test_a_stop_lasts_as_long_as_it_says() -> None:
    """SIGSTOP at the step, SIGCONT after the time, and nobody else is left."""
    with process("stop 0@e1.b2 for 300ms", "print(begin, end)") as stopped:
        said, errors = stopped.communicate(timeout=LIMIT)
    *told, begin, end = said.split()
    assert (stopped.returncode, told) == (0, ["1", "now", "2", "3"]), errors
    assert float(end) - float(begin) >= 0.3, "by its own clock, for nobody else need see it stopped"


@covers("FLT-2")
@needs_proc
def test_a_stopped_process_that_is_killed_leaves_nobody() -> None:
    """Who ends a stuck process need not know about the one that would have woken it up."""
    with process("stop 0@e1.b1 for 500s") as stopped:
        await_state(stopped.pid, "T")
        children = Path(f"/proc/{stopped.pid}/task/{stopped.pid}/children").read_text().split()
        assert len(children) == 1
        os.kill(stopped.pid, signal.SIGKILL)
        stopped.communicate(timeout=LIMIT)
    wait_for(lambda: is_gone(int(children[0])), "the waker to end")


@covers("FLT-3")
@needs_proc
def test_a_stop_without_an_end() -> None:
    """Until somebody else wakes it up."""
    with process("stop 0@e1.b3") as stopped:
        await_state(stopped.pid, "T")
        os.kill(stopped.pid, signal.SIGCONT)
        said, _ = stopped.communicate(timeout=LIMIT)
    assert (stopped.returncode, said) == (0, "1\n2\nnow\n3\n")


def test_hangs_take_their_time() -> None:
    """A hang is a wait of this thread; one without an end goes on and on."""
    slept: list[float] = []

    def sleep(seconds: float) -> None:
        slept.append(seconds)
        if len(slept) == 4:
            raise InterruptedError

    timed, endless = FaultPlan.parse("hang 0@e1.b1 for 4s; hang 0@e1.b1").at(0, 0, 0)
    perform(timed, sleep=sleep)
    assert slept == [4.0]
    with pytest.raises(InterruptedError):
        perform(endless, sleep=sleep)
    assert len(slept) == 4


@covers("FLT-5", "FLT-6")
def test_what_is_raised_here() -> None:
    """Exceptions say which fault they are; `nan` needs somebody who makes it."""
    faults = FaultPlan.parse("raise 0@e1.b1; exit 0@e1.b1; exit 0@e1.b1 code 0; nan 0@e1.b1").at(0, 0, 0)
    injected, left, well, poisoned = faults
    with pytest.raises(InjectedFault, match=r"^Injected fault: raise 0@e1\.b1\.$"):
        perform(injected)
    for fault, code in ((left, 1), (well, 0)):
        with pytest.raises(SystemExit) as caught:
            perform(fault)
        assert caught.value.code == code
    with pytest.raises(ValueError, match=r"perform needs 'poison' for the fault 'nan 0@e1\.b1', got None"):
        perform(poisoned)
    with pytest.raises(ValueError, match="sneeze"):  # a kind without an action cannot pass silently
        perform(ProcessFault("sneeze", 0, FaultPlan.parse("kill 0@e1").at(0, 0, 0)[0].step))
