"""What a task forks ends as it would anywhere, and an executor is its own process's alone."""

from __future__ import annotations

import atexit
import contextlib
import multiprocessing
import os
import pickle
import signal
import socket
import struct
import subprocess
import sys
import threading
import time
from collections.abc import Callable, Iterator
from concurrent.futures import ProcessPoolExecutor, wait
from pathlib import Path
from typing import Any

import pytest

from executor import ClusterExecutor
from network.nodes import NodeAssignment
from parallel_sgd import local_workers
from parallel_sgd.nodes import LocalWorkers
from tests.programs import environment

from .calls import LIMIT

pytestmark = pytest.mark.processes


@pytest.fixture(scope="module")
def nodes() -> Iterator[LocalWorkers]:
    with local_workers(1) as made:
        yield made


@pytest.fixture(scope="module")
def executor(nodes: NodeAssignment) -> Iterator[ClusterExecutor]:
    with ClusterExecutor(nodes) as made:
        yield made


def end_of(pid: int, reading: int) -> tuple[int, str]:
    """The exit code of a child, and what it has written into a pipe."""
    with os.fdopen(reading) as told:
        text = told.read()
    return os.waitstatus_to_exitcode(os.waitpid(pid, 0)[1]), text


def outcome_of(act: Callable[[], object]) -> tuple[int, str]:
    """The exit code of a forked process that does this, and what it writes into its pipe."""
    reading, writing = os.pipe()
    pid = os.fork()
    if pid:
        os.close(writing)
        return end_of(pid, reading)
    os.close(reading)
    os.dup2(writing, 9)
    act()
    os._exit(0)


def ended_by(number: int) -> int:
    """How a forked process ends that is sent a signal."""
    reading, writing = os.pipe()
    pid = os.fork()
    if not pid:
        os.write(writing, b"!")
        for _ in range(1200):  # Python looks between sleeps at a signal that came just before one
            time.sleep(0.05)
        os._exit(3)
    os.read(reading, 1)
    os.kill(pid, number)
    os.close(reading)
    os.close(writing)
    return os.waitstatus_to_exitcode(os.waitpid(pid, 0)[1])


def terminated() -> int | None:
    process = multiprocessing.get_context("fork").Process(target=time.sleep, args=(60,))
    process.start()
    process.terminate()
    process.join(LIMIT)
    code = process.exitcode
    process.kill()
    process.join()
    return code


def with_a_pool() -> list[int]:
    with multiprocessing.get_context("fork").Pool(2) as pool:
        return pool.map(abs, [-1, -2, 3])


def with_an_executor() -> list[int]:
    with ProcessPoolExecutor(2, mp_context=multiprocessing.get_context("fork")) as pool:
        return list(pool.map(abs, [-1, -2, 3]))


def in_a_thread() -> list[int]:
    found: list[int] = []
    thread = threading.Thread(target=lambda: found.append(ended_by(signal.SIGTERM)))
    thread.start()
    thread.join()
    return found


def test_signals_end_what_a_task_forks(executor: ClusterExecutor) -> None:
    """Every one that a program may be ended with, as it ends what plain Python has forked."""
    deadly = (signal.SIGTERM, signal.SIGHUP, signal.SIGUSR1, signal.SIGUSR2, signal.SIGALRM, signal.SIGQUIT)
    # under nohup, for example, every program of this session ignores SIGHUP
    numbers = [int(number) for number in deadly if signal.getsignal(number) is not signal.SIG_IGN]
    assert list(executor.map(ended_by, numbers, timeout=LIMIT)) == [-number for number in numbers]
    limited = executor.with_options(timeout=20)  # which handles SIGINT in the process of the task
    assert limited.submit(ended_by, int(signal.SIGTERM)).result(LIMIT) == -signal.SIGTERM
    assert executor.submit(ended_by, int(signal.SIGINT)).result(LIMIT) in (1, -signal.SIGINT)  # KeyboardInterrupt
    assert executor.submit(in_a_thread).result(LIMIT) == [-signal.SIGTERM]


def test_pools_of_processes_in_a_task(executor: ClusterExecutor) -> None:
    assert executor.submit(terminated).result(LIMIT) == -signal.SIGTERM
    assert executor.submit(with_a_pool).result(LIMIT) == [1, 2, 3]
    assert executor.submit(with_an_executor).result(LIMIT) == [1, 2, 3]


def daemon() -> int:
    process = multiprocessing.get_context("fork").Process(target=time.sleep, args=(600,), daemon=True)
    process.start()
    return process.pid or 0


@pytest.mark.long
def test_a_daemon_of_a_task_ends_with_its_process(nodes: NodeAssignment) -> None:
    """And holds up neither the executor nor the node."""
    with local_workers(1) as own:
        with ClusterExecutor(own) as made:
            pid = made.submit(daemon).result(LIMIT)
            assert Path(f"/proc/{pid}").exists()
        deadline = time.monotonic() + 10
        while Path(f"/proc/{pid}").exists() and time.monotonic() < deadline:
            time.sleep(0.01)
        assert not Path(f"/proc/{pid}").exists()
        with ClusterExecutor(own) as made:
            assert made.submit(abs, -1).result(LIMIT) == 1


def comes_back(how: str) -> tuple[str, int, str]:
    """A task that forks; the child returns from it, raises, exits, or does so with an exit handler and a thread."""
    reading, writing = os.pipe()
    pid = os.fork()
    if pid:
        os.close(writing)
        return "parent", *end_of(pid, reading)
    os.close(reading)
    if how == "raises":
        raise ValueError("in the child")
    if how == "exits":
        atexit.register(os.write, writing, b"exit handler ")
        threading.Thread(target=lambda: os.write(writing, b"thread ")).start()
        sys.exit(7)
    return "child", 0, ""


@pytest.mark.parametrize(("how", "code", "text"), [("returns", 0, ""), ("raises", 1, ""), ("exits", 7, "thread exit handler ")])
@pytest.mark.share(3)
def test_a_forked_process_that_comes_back_from_a_task(executor: ClusterExecutor, how: str, code: int, text: str) -> None:
    """It ends as the end of a program: it serves no task, and says nothing to the submitter; its parent goes on."""
    assert executor.submit(comes_back, how).result(LIMIT) == ("parent", code, text)
    assert list(executor.map(abs, [-1, -2], timeout=LIMIT)) == [1, 2]


def connections() -> tuple[int, int]:
    """How many sockets lead from this process to another one, and how many from a process that it forks."""
    me = os.getpid()
    code, text = outcome_of(lambda: os.write(9, str(_leading_away_from(me)).encode()))
    assert code == 0
    return _leading_away_from(me), int(text)


def _leading_away_from(process: int) -> int:
    """Sockets of this process whose other end `process` has not made itself."""
    count = 0
    for name in os.listdir("/proc/self/fd"):
        with contextlib.suppress(OSError), socket.socket(fileno=os.dup(int(name))) as found:
            peer, _, _ = struct.unpack("3i", found.getsockopt(socket.SOL_SOCKET, socket.SO_PEERCRED, 12))
            count += found.family != socket.AF_UNIX or peer != process
    return count


@pytest.mark.skipif(sys.platform != "linux", reason="the sockets of a process are seen in /proc")
def test_a_forked_process_holds_no_connection(executor: ClusterExecutor) -> None:
    """Else agent and submitter would not see the end of the process while a child of it lives."""
    ours, theirs = executor.submit(connections).result(LIMIT)
    assert ours >= 2 and theirs == 0


# ---- at the submitter


def in_child(act: Callable[[], object]) -> str:
    """What an act raises in a process that is forked from this one, or gives."""

    def told() -> None:
        try:
            text = repr(act())
        except BaseException as error:
            text = f"{type(error).__name__}: {error}"
        os.write(9, text.encode())

    code, text = outcome_of(told)
    assert code == 0
    return text


def read_whole(path: str) -> str:
    """Wait for the end of the text that comes through a named pipe."""
    with open(path) as pipe:
        return pipe.read()


def test_an_executor_in_a_forked_process(executor: ClusterExecutor, tmp_path: Path) -> None:
    """It is refused at once, in one sentence; the parent's goes on, also when the child leaves its block."""
    os.mkfifo(tmp_path / "pipe")
    running = executor.submit(read_whole, str(tmp_path / "pipe"))
    acts: list[Callable[[], Any]] = [
        lambda: executor.submit(abs, -1),
        lambda: list(executor.map(abs, [-1])),
        lambda: executor.broadcast([1]),
        lambda: running.result(),
        lambda: [future.result() for future in wait([running]).done],
    ]
    for act in acts:
        told = in_child(act)
        assert told.startswith(f"RuntimeError: This executor belongs to process {os.getpid()}, and process "), told
        assert told.endswith("was forked from it: use it there, or make one of its own here.")
    assert in_child(lambda: executor.shutdown()) == "None"
    (tmp_path / "pipe").write_text("go on")
    assert running.result(LIMIT) == "go on" and executor.submit(abs, -2).result(LIMIT) == 2


@pytest.mark.long
def test_local_workers_in_a_forked_process(nodes: LocalWorkers) -> None:
    """They are nodes there, too; but only their own process ends them."""
    assert in_child(nodes.close) == "None"
    assert in_child(lambda: nodes.scale(2)).startswith(
        f"RuntimeError: This set of local workers belongs to process {os.getpid()}"
    )
    with local_workers(1) as own:

        def submits() -> int:
            with ClusterExecutor(own) as made:
                return made.submit(abs, -3).result(LIMIT)

        assert in_child(submits) == "3"
        with ClusterExecutor(own) as made:
            assert made.submit(abs, -4).result(LIMIT) == 4


LEAVES = """
import os, sys, signal
import parallel_sgd
from executor import ClusterExecutor

with parallel_sgd.local_workers(1) as nodes, ClusterExecutor(nodes) as executor:
    assert executor.submit(abs, -1).result(120) == 1
    pid = os.fork()
    if not pid:
        {act}
    code = os.waitstatus_to_exitcode(os.waitpid(pid, 0)[1])
    print(code, executor.submit(abs, -2).result(120), os.path.exists(nodes.key_file))
"""


@pytest.mark.parametrize(
    ("act", "code"), [("sys.exit(5)", 5), ("raise ValueError", 1), ("os.kill(os.getpid(), signal.SIGTERM)", -15)]
)
@pytest.mark.share(6)
def test_a_child_that_leaves_the_blocks_of_its_parent(tmp_path: Path, act: str, code: int) -> None:
    """It ends neither workers nor executor, and waits for nothing."""
    (tmp_path / "program.py").write_text(LEAVES.format(act=act))
    command = [sys.executable, "program.py"]
    done = subprocess.run(
        command, cwd=tmp_path, env=environment(tmp_path), capture_output=True, text=True, timeout=LIMIT, check=False
    )
    assert (done.returncode, done.stdout) == (0, f"{code} 2 True\n"), done.stderr


def helper(number: int) -> int:
    return number


def spawns(function: Callable[[int], int], how: str) -> list[int]:
    context = multiprocessing.get_context("spawn")
    if how == "pool":
        with context.Pool(1) as pool:
            return pool.map(function, [1])
    with ProcessPoolExecutor(1, mp_context=context) as pool:
        return list(pool.map(function, [1]))


SPAWNS = """
import sys
import parallel_sgd
from executor import ClusterExecutor
from tests.executor.test_forks import spawns

def helper(number):
    return number

if __name__ == "__main__":
    with parallel_sgd.local_workers(1) as nodes, ClusterExecutor(nodes) as executor:
        for how in ("pool", "executor"):
            error = executor.submit(lambda: spawns(helper, how)).exception(120)
            print(type(error).__name__, error)
"""


def test_a_function_of_the_program_in_a_spawned_process_of_a_task(tmp_path: Path) -> None:
    """A spawned process imports what it runs, and finds no program to import there: that is told, with the remedy."""
    (tmp_path / "program.py").write_text(SPAWNS)
    command = [sys.executable, "program.py"]
    done = subprocess.run(
        command, cwd=tmp_path, env=environment(tmp_path), capture_output=True, text=True, timeout=LIMIT, check=False
    )
    lines = done.stdout.splitlines()
    assert len(lines) == 2, done.stderr
    for line in lines:
        assert line.startswith(f"{pickle.PicklingError.__name__} Can't pickle <function helper at "), line
        assert "belongs into a module that is installed on the workers" in line and "'fork' runs any function" in line
