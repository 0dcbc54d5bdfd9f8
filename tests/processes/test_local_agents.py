"""Agents that live as long as a block of a program, and the example programs that use them."""

from __future__ import annotations

import json
import os
import signal
import subprocess
import sys
import threading
import time
from collections.abc import Callable
from pathlib import Path

import pytest

from network import NetworkError, NodeAssignment, Request, TimedOut
from network.nodes import Address
from rpc.agent.children import project_root
from rpc.launch import LocalAgents, local_agents
from tests.proc import is_gone

from .executors import Stepping, Sum
from .harness import LIMIT, Cluster, processes_below, seconds_to_import, start_job, wait_for

EXAMPLES = Path(project_root()) / "examples" / "rpc"


def nodes_of(agents: LocalAgents) -> NodeAssignment:
    nodes = NodeAssignment(agents.key_file)
    for number, address in enumerate(agents.addresses):
        nodes.add(number, address)
    return nodes


def test_they_serve_and_go(tmp_path: Path) -> None:
    with local_agents(2) as agents:
        directory = agents.directory
        assert len(agents.pids) == len(agents.addresses) == 2
        with Request().request(nodes_of(agents)) as com:
            results, error = start_job(com, Sum, tmp_path).join()
        assert not error and len(results) == 2
        assert [path.name for path in directory.glob("agent-*/log/Worker-127.0.0.1 *.log")]
    assert not directory.exists() and all(is_gone(pid) for pid in agents.pids)


def test_they_go_after_an_error_within_a_job(tmp_path: Path) -> None:
    with pytest.raises(KeyError), local_agents(2, slots=2) as agents, Request().request(nodes_of(agents)) as com:
        start_job(com, Stepping, tmp_path)
        raise KeyError("the program's own")
    assert all(is_gone(pid) for pid in agents.pids) and not processes_below(agents.directory)


def holds_in_fork(told: Callable[[], bool]) -> bool:
    """Whether something holds in a process that is forked from this one, as a run of a sweep is."""
    child = os.fork()
    if not child:
        os._exit(3 if told() else 4)
    code = os.waitstatus_to_exitcode(os.waitpid(child, 0)[1])
    assert code in (3, 4)
    return code == 3


def test_one_that_runs_is_waited_for() -> None:
    """An agent without a processor answers nothing: its process tells that it is there; a stopped or ended one is late soon."""
    with local_agents(1) as agents:
        nodes, (pid,), (address,) = nodes_of(agents), agents.pids, agents.addresses
        assert agents.lives(address) and not agents.lives(Address("127.0.0.1", 1))
        assert holds_in_fork(lambda: agents.lives(address))
        os.kill(pid, signal.SIGSTOP)
        wait_for(lambda: not agents.lives(address), "the process to be seen as stopped")
        assert holds_in_fork(lambda: not agents.lives(address))
        nodes.lives = agents.lives
        with pytest.raises(NetworkError, match=r"Timed out after 0\.2 s waiting for node 0 at"):
            Request().request(nodes, 0.2)
        # as of a process that only waits for a processor
        nodes.lives = lambda at: at == address
        again = threading.Timer(1.0, os.kill, (pid, signal.SIGCONT))
        again.start()
        with Request().request(nodes, 0.2) as com:
            assert com.available_clients == [0] and com.lives is nodes.lives
        again.join()
        os.kill(pid, signal.SIGKILL)
        wait_for(lambda: not agents.lives(address), "the process to be seen as ended")
        assert holds_in_fork(lambda: not agents.lives(address))
        agents.processes[0].wait()
        assert not agents.lives(address)


def test_one_that_runs_and_never_answers(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("network.request.OWN_SECONDS", 1.0)
    with local_agents(1) as agents:
        nodes = nodes_of(agents)
        nodes.lives = lambda _: True
        os.kill(agents.pids[0], signal.SIGSTOP)
        with pytest.raises(TimedOut, match=r"after 1 s waiting for node 0 at 127\.0\.0\.1:\d+, whose process runs, to answer"):
            Request().request(nodes, 0.2)
        os.kill(agents.pids[0], signal.SIGCONT)


@pytest.mark.parametrize("count", [0, -1, True, 1.5, "2"])
def test_counts(count: object) -> None:
    with pytest.raises(ValueError, match=r"local_agents 'count' must be a positive integer, got"), local_agents(count):  # type: ignore[arg-type]
        pass


def test_agents_that_cannot_start() -> None:
    with pytest.raises(NetworkError, match="Local worker 0 ended with exit code 2"), local_agents(1, slots=0):
        pass


def test_they_end_with_their_program(tmp_path: Path) -> None:
    """However the program ends: here by SIGKILL."""
    program = "\n".join(
        [
            "import time",
            "from rpc.launch import local_agents",
            "with local_agents(2) as agents:",
            "    print(*agents.pids, flush=True)",
            "    time.sleep(60)",
        ]
    )
    environ = {**os.environ, "PYTHONPATH": project_root(), "TMPDIR": str(tmp_path)}
    with subprocess.Popen([sys.executable, "-c", program], env=environ, stdout=subprocess.PIPE) as process:
        assert process.stdout is not None
        pids = [int(word) for word in process.stdout.readline().split()]
        assert len(pids) == 2 and not any(is_gone(pid) for pid in pids)
        process.send_signal(signal.SIGKILL)
    wait_for(lambda: all(is_gone(pid) for pid in pids), "the agents to end")


@pytest.mark.alone
def test_start_is_quick() -> None:
    """Two agents listen within 0.5 s (best of three), or on a busy machine as soon as two Pythons have imported them."""
    took = []
    for _ in range(3):
        begin = time.monotonic()
        with local_agents(2):
            took.append(time.monotonic() - begin)
        if took[-1] <= 0.5 or took[-1] <= seconds_to_import("rpc.agent.cli"):
            return
    pytest.fail(f"it took {took} s")


@pytest.mark.parametrize(
    ("program", "option", "says"),
    [
        ("helloworld.py", "--local", [f"Hello from node {node}, one of 3." for node in range(3)]),
        ("reduce_sum.py", "-n", ["The sum of 0 to 999999 is 499999500000, say nodes 0, 1, 2."]),
    ],
)
@pytest.mark.long
def test_examples(trio: Cluster, tmp_path: Path, program: str, option: str, says: list[str]) -> None:
    """The examples run as documented: on started workers, and on those of worker.json."""
    addresses = [str(agent.address) for agent in trio.agents]
    (tmp_path / "worker.json").write_text(json.dumps({"Worker": addresses}))
    environ = {**os.environ, "PYTHONPATH": project_root(), "PSGD_KEY_FILE": str(trio.key_file)}
    command = [sys.executable, str(EXAMPLES / program), option, "3"]
    done = subprocess.run(command, env=environ, cwd=tmp_path, capture_output=True, text=True, timeout=LIMIT, check=False)
    assert done.returncode == 0, done.stderr
    assert done.stdout.splitlines() == says
