"""Workers that die, hang or are stopped in every phase, submitters that die, and programs that end without a word."""

from __future__ import annotations

import gc
import logging
import os
import re
import signal
import subprocess
import sys
from concurrent.futures import BrokenExecutor, Future
from pathlib import Path

import pytest

from executor import ClusterExecutor, NodeLost
from network import NodeAssignment, Rejected, Request
from rpc import Reclaimer
from tests.proc import at_work_for, is_gone
from tests.processes.harness import cluster, wait_for
from tests.sources import ROOT

from .calls import LIMIT, add, alone, await_path, begin_and_await, die, end_after, own_pid

pytestmark = pytest.mark.processes


def begin(executor: ClusterExecutor, folder: Path) -> tuple[Future[int], int]:
    """A task that runs until `gate` is there, and the process that it runs in."""
    future = executor.submit(begin_and_await, str(folder / "begun"), str(folder / "gate"))
    await_path(folder / "begun")
    return future, int((folder / "begun").read_text())


def test_a_worker_that_dies_while_it_works(agents: NodeAssignment, tmp_path: Path) -> None:
    """With one retry the other node does it; a task that kills every worker fails when it has had two, naming the last."""
    with ClusterExecutor(agents, retries=1) as executor:
        future, pid = begin(executor, tmp_path)
        os.kill(pid, signal.SIGKILL)
        (tmp_path / "gate").touch()
        assert future.result(LIMIT) != pid
        error = executor.submit(die).exception(LIMIT)
        assert isinstance(error, NodeLost) and isinstance(error, BrokenExecutor)
        assert error.node in (0, 1)
        assert f"Node({error.node}) at {agents[error.node]} was lost with this task" in str(error)
        assert executor.submit(add, 1, 1).result(LIMIT) == 2


def test_a_worker_that_dies_is_told_in_one_sentence(
    agents: NodeAssignment, tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    with ClusterExecutor(agents, retries=1) as executor:
        future, pid = begin(executor, tmp_path)
        os.kill(pid, signal.SIGKILL)
        (tmp_path / "gate").touch()
        assert future.result(LIMIT) != pid
    told = [text for _, level, text in caplog.record_tuples if level >= logging.WARNING]
    assert len(told) == 1 and "is lost, and started again: its process was killed by signal 9 (SIGKILL)" in told[0], told


@pytest.mark.parametrize(
    ("end", "told"),
    [("exit", "exit code 3"), ("signal", r"killed by signal 11 \(SIGSEGV\)"), ("kill", r"signal 9 \(SIGKILL\)")],
)
def test_why_a_worker_was_lost(agents: NodeAssignment, tmp_path: Path, end: str, told: str) -> None:
    """The error names exit code or signal. Its agent starts a new process, which is told what the first one was; the tasks in
    the line of the first one had not begun, and lose nothing."""
    with ClusterExecutor(alone(agents)) as executor:
        table = executor.broadcast({"a": 5})
        assert executor.submit(lambda: table.value["a"]).result(LIMIT) == 5
        first = executor.submit(own_pid).result(LIMIT)
        fatal = executor.submit(end_after, str(tmp_path / "gate"), end)
        innocent = [executor.submit(lambda: table.value["a"]) for _ in range(30)]
        (tmp_path / "gate").touch()
        error = fatal.exception(LIMIT)
        assert isinstance(error, NodeLost)
        assert re.search(told, str(error)), error
        assert [future.result(LIMIT) for future in innocent] == [5] * 30
        assert executor.live_nodes == [0]
        assert executor.submit(own_pid).result(LIMIT) != first


def test_a_worker_that_stands_still(agents: NodeAssignment, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Its agent sees that a signal has stopped it, and ends it: what it had begun fails, the tasks in its line go elsewhere."""
    monkeypatch.setattr("executor.job.STOPPED_SECONDS", 1.0)
    with ClusterExecutor(agents) as executor:
        future, pid = begin(executor, tmp_path)
        others = [executor.submit(own_pid) for _ in range(20)]
        os.kill(pid, signal.SIGSTOP)
        assert pid not in {other.result(LIMIT) for other in others}
        error = future.exception(LIMIT)
        assert isinstance(error, NodeLost)
        assert "its process stood still" in str(error)
        wait_for(lambda: executor.live_nodes == [0, 1], "a new process to take its place")


@pytest.mark.long
def test_every_worker_dies_one_after_the_other(agents: NodeAssignment, tmp_path: Path) -> None:
    """While idle, and while it loads a function: others take their places."""

    class DiesWhenLoaded:
        def __init__(self, path: str) -> None:
            self.path = path

        def __call__(self) -> None:
            return

        def __reduce__(self) -> tuple[object, ...]:
            return os._exit, (7,)

    with ClusterExecutor(agents) as executor:
        idle = executor.submit(own_pid).result(LIMIT)
        os.kill(idle, signal.SIGKILL)
        wait_for(lambda: is_gone(idle), "the idle worker to be gone")
        wait_for(lambda: executor.submit(own_pid).exception(LIMIT) is None, "the other to get the tasks")
        assert list(executor.map(add, range(10), timeout=LIMIT)) == list(range(10))
        for _ in range(3):
            assert isinstance(executor.submit(DiesWhenLoaded("")).exception(LIMIT), BrokenExecutor)
        assert executor.submit(add, 1).result(LIMIT) == 1


@pytest.mark.long
def test_processes_that_die_before_they_begin_a_task(tmp_path: Path) -> None:
    """After the third in a row their node is lost; when there is no other one, nothing waits: futures and submit raise, and
    shutdown returns."""
    with cluster(tmp_path / "cluster") as made:
        made.start(1)
        agent = made.agents[0].process.pid
        with ClusterExecutor(made.nodes()) as executor:
            killed: set[int] = set()
            for _ in range(3):
                wait_for(lambda: executor.live_nodes == [0] and at_work_for(agent) - killed, "a process to be there")
                for pid in at_work_for(agent) - killed:
                    os.kill(pid, signal.SIGKILL)
                    killed.add(pid)
            wait_for(lambda: executor._dispatcher.broken, "the executor to know that no node is left")
            with pytest.raises(BrokenExecutor, match=r"No node is left: Node.*3 of its processes one after the other"):
                executor.submit(add, 1)
            with pytest.raises(BrokenExecutor):
                executor.map(add, [1])


def test_a_pure_task_of_a_stopped_worker_runs_elsewhere(agents: NodeAssignment, tmp_path: Path) -> None:
    """A process that is stopped holds nobody up: a second copy of its task ends first."""
    with ClusterExecutor(agents, pure=True) as executor:
        pid = executor.submit(own_pid).result(LIMIT)
        try:
            os.kill(pid, signal.SIGSTOP)
            found = {executor.submit(own_pid).result(LIMIT) for _ in range(4)}
            assert found
            assert pid not in found
        finally:
            os.kill(pid, signal.SIGCONT)


def test_a_host_that_falls_silent(tmp_path: Path) -> None:
    """Agent and process stand still, their connections stand; the task runs elsewhere before the kernel gives up."""
    with cluster(tmp_path / "cluster") as made:
        made.start(2)
        agents = {agent.process.pid for agent in made.agents}
        with ClusterExecutor(made.nodes(), retries=1) as executor:
            future, pid = begin(executor, tmp_path)
            (agent,) = [agent for agent in agents if pid in at_work_for(agent)]
            try:
                os.kill(agent, signal.SIGSTOP)
                os.kill(pid, signal.SIGSTOP)
                (tmp_path / "gate").touch()
                assert future.result(LIMIT) != pid
                assert executor.submit(add, 1, 1).result(LIMIT) == 2
            finally:
                for stopped in (agent, pid):
                    os.kill(stopped, signal.SIGCONT)
        wait_for(lambda: is_gone(pid), "the process of a node that was given up to end")


def test_a_job_that_is_stopped_from_outside(agents: NodeAssignment, tmp_path: Path) -> None:
    """Stopping its job frees the node though the task would go on; its future raises NodeLost."""
    nodes = alone(agents)
    with ClusterExecutor(nodes) as executor:
        future, pid = begin(executor, tmp_path)
        with Request().request(nodes) as com:
            Reclaimer(com).stop(executor.job)
        assert isinstance(future.exception(LIMIT), NodeLost)
        wait_for(lambda: is_gone(pid), "the process of the task to end")


def program(text: str, agents: NodeAssignment) -> subprocess.Popen[str]:
    """A program of its own that uses the first agent."""
    start = (
        "import os, sys, time\n"
        "from executor import ClusterExecutor\n"
        "from network import NodeAssignment\n"
        f"nodes = NodeAssignment(key_file={str(agents.key_file)!r}).add(0, {str(agents[0])!r})\n"
        "executor = ClusterExecutor(nodes)\n"
    )
    environment = {**os.environ, "PYTHONPATH": str(ROOT)}
    return subprocess.Popen([sys.executable, "-c", start + text], env=environment, text=True, stdout=subprocess.PIPE)


def test_the_node_is_free_when_the_submitter_dies(agents: NodeAssignment, tmp_path: Path) -> None:
    """Nobody would ever take the results: a running task is interrupted, and its process ends."""
    text = f"""
def wait_long(path):
    with open(path + ".new", "w") as file:
        file.write(str(os.getpid()))
    os.replace(path + ".new", path)
    time.sleep(600)
executor.submit(wait_long, {str(tmp_path / "begun")!r}).result()
"""
    with program(text, agents) as process:
        await_path(tmp_path / "begun")
        process.kill()
        assert process.wait(LIMIT) == -signal.SIGKILL
    pid = int((tmp_path / "begun").read_text())
    wait_for(lambda: is_gone(pid), "the task to be ended")


def test_a_program_that_ends_without_shutdown(agents: NodeAssignment) -> None:
    """What was submitted is executed first, as with the executors of the standard library."""
    text = """
def slow(x):
    time.sleep(0.02)
    return x
for number in range(5):
    executor.submit(slow, number).add_done_callback(lambda done: print(done.result(), flush=True))
"""
    with program(text, agents) as process:
        told, _ = process.communicate(timeout=LIMIT)
    assert told.split() == ["0", "1", "2", "3", "4"]
    assert process.returncode == 0


@pytest.mark.long
def test_an_executor_that_nobody_holds_frees_its_nodes(agents: NodeAssignment) -> None:
    """Tasks end, the thread and the processes, too (the fixture against leaks looks for the thread)."""
    future = ClusterExecutor(alone(agents)).submit(own_pid)
    pid = future.result(LIMIT)
    gc.collect()
    wait_for(lambda: is_gone(pid), "the node to be free")


def test_nodes_that_take_no_code(tmp_path: Path) -> None:
    """With --no-shipped-code every function is refused, and the future says so; the node goes on."""
    with cluster(tmp_path / "cluster") as made:
        made.start(1, "--no-shipped-code")
        with ClusterExecutor(made.nodes()) as executor:
            error = executor.submit(add, 1).exception(LIMIT)
            assert isinstance(error, Rejected)
            assert "--no-shipped-code" in str(error)
            assert isinstance(executor.submit(add, 2).exception(LIMIT), Rejected)
