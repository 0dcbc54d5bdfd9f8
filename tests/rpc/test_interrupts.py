"""Ctrl-C as an event."""

import os
import select
import signal
import subprocess
import sys
import threading

import pytest

from rpc.agent.environment import project_root
from rpc.interrupts import Interrupts


def test_it_is_noted_and_wakes() -> None:
    """Between any two statements of the block it is kept until somebody looks."""
    with Interrupts() as interrupts:
        assert not interrupts.take()
        os.kill(os.getpid(), signal.SIGINT)
        assert select.select([interrupts.sock], [], [], 5)[0]
        assert interrupts.take()
        assert not interrupts.take()
        assert not select.select([interrupts.sock], [], [], 0)[0]


def test_afterwards_it_raises_again() -> None:
    """The program's Ctrl-C is as it was."""
    with Interrupts():
        pass
    with pytest.raises(KeyboardInterrupt):
        os.kill(os.getpid(), signal.SIGINT)


def test_a_handler_of_the_program_stays() -> None:
    """Whoever handles SIGINT goes on handling it."""
    heard: list[int] = []
    before = signal.signal(signal.SIGINT, lambda number, _frame: heard.append(number))
    try:
        with Interrupts() as interrupts:
            os.kill(os.getpid(), signal.SIGINT)
            assert not interrupts.take()
    finally:
        signal.signal(signal.SIGINT, before)
    assert heard == [signal.SIGINT]


def test_in_another_thread_nothing_is_installed() -> None:
    """Signals arrive in the main thread only."""
    noted: list[bool] = []

    def look() -> None:
        with Interrupts() as interrupts:
            noted.append(interrupts.take())

    thread = threading.Thread(target=look)
    thread.start()
    thread.join()
    assert noted == [False]
    assert signal.getsignal(signal.SIGINT) is signal.default_int_handler


@pytest.mark.parametrize(
    ("program", "shown"),
    [
        ("raise interrupted()", ""),
        ("try: raise interrupted()\nexcept KeyboardInterrupt: raise KeyboardInterrupt from None", "KeyboardInterrupt"),
        ("sys.excepthook = lambda *_: print('mine', file=sys.stderr)\nraise interrupted()", "mine"),
    ],
)
def test_what_was_told_ends_a_program_without_a_traceback(program: str, shown: str) -> None:
    """By the signal, as Python ends on Ctrl-C. Other interrupts are shown, and a program that shows errors itself does that."""
    command = [sys.executable, "-c", f"import sys\nfrom rpc.interrupts import interrupted\n{program}"]
    done = subprocess.run(command, cwd=project_root(), capture_output=True, text=True, timeout=60)
    assert done.returncode == -signal.SIGINT
    assert (done.stderr.strip().rpartition("\n")[2], "Traceback" in done.stderr) == (shown, shown == "KeyboardInterrupt")
