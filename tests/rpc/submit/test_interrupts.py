"""Ctrl-C as an event."""

import logging
import os
import select
import signal
import subprocess
import sys
import threading
from pathlib import Path

import pytest

from rpc.agent.children import project_root
from rpc.submit.terminal import Interrupts, interrupted, telling

from ...statements import covers


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
    command = [sys.executable, "-c", f"import sys\nfrom rpc.submit.terminal import interrupted\n{program}"]
    done = subprocess.run(command, cwd=project_root(), capture_output=True, text=True, timeout=60)
    assert done.returncode == -signal.SIGINT
    assert (done.stderr.strip().rpartition("\n")[2], "Traceback" in done.stderr) == (shown, shown == "KeyboardInterrupt")


@covers("SUB-44")
def test_where_it_comes_unexpectedly_a_line_tells_what_it_has_ended(caplog: pytest.LogCaptureFixture) -> None:
    """Once, also where an outer block would tell it again."""
    logger = logging.getLogger("interrupts test")
    with pytest.raises(KeyboardInterrupt), telling("The job", logger), telling("Its start", logger):
        os.kill(os.getpid(), signal.SIGINT)
        signal.pause()
    assert [record.getMessage() for record in caplog.records] == ["Its start was interrupted."]
    with pytest.raises(KeyboardInterrupt), telling("The job", logger):
        raise interrupted()
    assert len(caplog.records) == 1


@covers("SUB-44")
@pytest.mark.processes
def test_ctrl_c_while_local_workers_start(tmp_path: Path) -> None:
    """They end, and the program ends without a traceback."""
    lines = (
        "from rpc.launch.local import local_agents\nprint('now', flush=True)\nwith local_agents(8): print('here', flush=True)"
    )
    command = [sys.executable, "-c", lines]
    environ = {**os.environ, "TMPDIR": str(tmp_path)}
    process = subprocess.Popen(
        command, cwd=project_root(), env=environ, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True
    )
    assert process.stdout is not None and process.stdout.readline() == "now\n"
    while not list(tmp_path.glob("psgd-*/agent-0")):  # the first one is under way
        assert process.poll() is None
    process.send_signal(signal.SIGINT)
    output, errors = process.communicate(timeout=60)
    assert (process.returncode, output, errors.strip()) == (-signal.SIGINT, "", "The start of local workers was interrupted.")
    assert not list(tmp_path.iterdir())
