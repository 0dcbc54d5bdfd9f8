"""The leak check itself: it sees what it must see, and nothing else."""

from __future__ import annotations

import os
import signal
import socket
import subprocess
import sys
import threading
from pathlib import Path

import pytest

from tests.leaks import no_leaks

GRACE = 0.05


def test_a_clean_block_passes() -> None:
    with no_leaks(GRACE):
        thread = threading.Thread(target=lambda: None)
        thread.start()
        thread.join()
        left, right = socket.socketpair()
        left.close()
        right.close()
        subprocess.run([sys.executable, "-S", "-c", ""], check=True)


def test_a_thread_that_stays_fails() -> None:
    stop = threading.Event()
    thread = threading.Thread(target=stop.wait, name="lingering", daemon=True)
    with pytest.raises(pytest.fail.Exception, match="leaves behind: thread 'lingering'"), no_leaks(GRACE):
        thread.start()
    stop.set()
    thread.join()


def test_a_thread_that_is_about_to_end_passes() -> None:
    timer = threading.Timer(0.1, lambda: None)
    with no_leaks():
        timer.start()


def test_an_open_socket_fails() -> None:
    left, right = None, None
    with pytest.raises(pytest.fail.Exception, match="socket with descriptor"), no_leaks(GRACE):
        left, right = socket.socketpair()
    for end in (left, right):
        assert end is not None
        end.close()


@pytest.mark.skipif(sys.platform != "linux", reason="children are found through /proc")
def test_a_child_that_stays_fails_and_is_killed() -> None:
    with pytest.raises(pytest.fail.Exception, match="child process"), no_leaks(GRACE):
        child = subprocess.Popen([sys.executable, "-S", "-c", "input()"], stdin=subprocess.PIPE)
    assert child.wait() in (-signal.SIGKILL, 0)  # 0 when the check has collected it already
    assert child.stdin is not None
    child.stdin.close()
    assert not Path(f"/proc/{child.pid}").exists()


@pytest.mark.skipif(sys.platform != "linux", reason="orphans are adopted through prctl")
def test_an_orphan_fails_and_is_killed() -> None:
    program = "import os\nr, w = os.pipe()\npid = os.fork()\nif pid: print(pid, flush=True)\nelse: os.read(r, 1)"
    with pytest.raises(pytest.fail.Exception, match="child process"), no_leaks(GRACE):
        child = subprocess.Popen(
            [sys.executable, "-S", "-c", program], stdout=subprocess.PIPE, start_new_session=True, text=True
        )
        assert child.stdout is not None
        orphan = int(child.stdout.readline())
        child.stdout.close()
        child.wait()
    with pytest.raises(ProcessLookupError):
        os.kill(orphan, 0)


def test_what_was_there_before_is_no_leak() -> None:
    with socket.socket(), no_leaks(GRACE):
        pass
