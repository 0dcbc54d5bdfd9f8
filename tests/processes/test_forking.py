"""Job processes are forked from one that has imported what they need, and are as good as started ones."""

from __future__ import annotations

import os
import random
import signal
import subprocess
import sys
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from rpc import AbsSimpleExecutor, Communication
from tests.proc import children_of, is_fork_server, is_gone, is_job

from .executors import Stepping
from .harness import LIMIT, ROOT, AgentProcess, Cluster, start_job, wait_for

pytestmark = pytest.mark.skipif(sys.platform != "linux", reason="elsewhere job processes are started")


class Tells(AbsSimpleExecutor):
    """What a process is, and the next random numbers of the generators that all parts of a program share."""

    def run(self, com: Communication) -> Any:
        me = os.getpid()
        inherited = sorted(os.readlink(f"/proc/self/fd/{number}") for number in os.listdir("/proc/self/fd") if int(number) < 3)
        return {
            "parent": os.getppid(),
            "leads": os.getsid(0) == os.getpgrp() == me,
            "named": is_job(me),
            "inherited": inherited,
            "place": os.getcwd(),
            "threads": os.environ["OMP_NUM_THREADS"],
            "random": (random.random(), float(np.random.rand())),  # noqa: NPY002  the global generator
            "inspected": Path("/proc/self/environ").stat().st_uid == os.getuid(),
        }


def fork_servers(agent: AgentProcess) -> list[int]:
    return [pid for pid in children_of(agent.pid) if is_fork_server(pid)]


def test_what_a_job_process_is(own: Cluster, tmp_path: Path) -> None:
    """A child of its agent, leader of its session, in its folder, with its own output; no random numbers come twice. It is one
    process that all are forked from; BLAS threads, which must be set before NumPy is imported, take another one."""
    (agent,) = own.start(1)
    told = [own.run(Tells, tmp_path).results[0] for _ in range(2)]
    servers = fork_servers(agent)
    told.append(own.run(Tells, tmp_path, blas_threads=2).results[0])
    others = wait_for(lambda: len(found := fork_servers(agent)) == 1 and found, "the first fork server to end")
    assert len(servers) == 1 and others != servers
    for each in told:
        assert each["parent"] == agent.pid and each["leads"] and each["named"] and each["inspected"]
        assert Path(each["place"]).parent == agent.work / "jobs"
        assert each["inherited"][0] == "/dev/null" and all(link.startswith("pipe:") for link in each["inherited"][1:])
    assert [each["threads"] for each in told] == ["1", "1", "2"]
    assert len({number for each in told for number in each["random"]}) == 6


LATE = """
import os, select, socket
from rpc.job import fork_server, hardening

hardening.adopt_orphans()
mine, told = os.pipe()
# the process between ends when the new one has told its parent, or half a second later
fork_server._answer = lambda control, number: select.select([mine], [], [], 0.5)
if os.fork() == 0:
    if fork_server._fork(socket.socket()):
        os.write(told, b"%d" % os.getppid())
    os._exit(0)
print(int(os.read(mine, 20)) == os.getpid())
"""


def test_a_job_process_begins_as_child_of_its_agent(tmp_path: Path) -> None:
    """Also where the process that has forked it ends late: a parent that changes means to programs that theirs has died."""
    done = subprocess.run([sys.executable, "-c", LATE], cwd=ROOT, capture_output=True, text=True, timeout=LIMIT)
    assert (done.stdout, done.stderr) == ("True\n", "")


def test_a_fork_server_that_was_killed(own: Cluster, tmp_path: Path) -> None:
    """Jobs go on without it, and the next one gets a new one."""
    (agent,) = own.start(1)
    with own.running(Stepping, tmp_path) as coordinator:
        own.begun(coordinator, 1)
        (server,) = fork_servers(agent)
        os.kill(server, signal.SIGKILL)
        wait_for(lambda: is_gone(server), "the fork server to end")
        (job,) = agent.job_pids()
        assert not is_gone(job)
    wait_for(own.is_free, "the agent to be free")
    assert not own.run(Tells, tmp_path).error
    assert fork_servers(agent) != [server]


@pytest.mark.long
def test_a_fork_server_that_is_stopped(own: Cluster, tmp_path: Path) -> None:
    """No job starts from it; once the job that waits for it is to be ended, it is killed, and the next job starts."""
    (agent,) = own.start(1)
    own.run(Tells, tmp_path)
    (server,) = fork_servers(agent)
    os.kill(server, signal.SIGSTOP)
    with own.request() as com, pytest.raises(Exception, match="did not finish canCommit in time"):
        start_job(com, Tells, tmp_path)
    assert is_gone(server) and not own.run(Tells, tmp_path).error


@pytest.mark.parametrize("number", [signal.SIGKILL, signal.SIGTERM])
@pytest.mark.share(2)
def test_it_ends_with_its_agent(own: Cluster, tmp_path: Path, number: int) -> None:
    """Also where it was stopped."""
    (agent,) = own.start(1)
    own.run(Tells, tmp_path)
    (server,) = fork_servers(agent)
    if number == signal.SIGKILL:
        os.kill(server, signal.SIGSTOP)
        wait_for(
            lambda: Path(f"/proc/{server}/stat").read_text().rpartition(")")[2].split()[0] == "T", "the fork server to stop"
        )
    agent.end(number)
    wait_for(lambda: is_gone(server), "the fork server to end")


_PROGRAM = """
import os, resource, socket, sys, time
from pathlib import Path
from rpc.agent.children import ChildProcesses, child_environment
from rpc.process_channel import make_channel
from rpc.liveness.recorder import make_memory
mine = ChildProcesses(adopts=True)
environment = child_environment(os.environ, 1)
folder = Path(sys.argv[2])
memory, null = make_memory(), os.open(os.devnull, os.O_WRONLY)

def fork():
    ours, theirs = make_channel()
    process = mine.start_job(environment, [], folder, theirs.fileno(), memory, null)
    theirs.close()
    return process, ours

if sys.argv[1] == "adopts":  # whatever comes between, a job process is not taken for what a job has left behind
    for _ in range(10):
        pairs = [fork() for _ in range(3)]
        while not all(process.pid for process, _ in pairs):
            mine.end_adopted()
        for _ in range(20):
            mine.end_adopted()
        assert [process.poll() for process, _ in pairs] == [None] * 3, "killed"
        for process, ours in pairs:
            ours.close()  # as if the agent were gone
            print(process.wait())
else:  # no process may be added, for an ordinary user
    first, ours = fork()
    while not first.pid:
        time.sleep(0.01)
    resource.prlimit(mine._fork_server.pid, resource.RLIMIT_NPROC, (1, 1))
    process, _ = fork()
    print(process.wait())
mine.close()
"""


@pytest.mark.parametrize("how", ["adopts", pytest.param("fails", marks=pytest.mark.ordinary_user)])
@pytest.mark.share(4)
def test_an_agent_and_its_fork_server(tmp_path: Path, how: str) -> None:
    """Looks for what jobs have left behind kill no job process that is being forked; an error is told."""
    environ = {"PATH": os.environ["PATH"], "PYTHONPATH": str(ROOT)}
    command = [sys.executable, "-c", _PROGRAM, how, str(tmp_path)]
    done = subprocess.run(command, env=environ, stdout=subprocess.PIPE, text=True, check=True)
    assert done.stdout.split() == (["70"] * 30 if how == "adopts" else ["71"])


EARLY = """
import sys
from rpc.job import fork_server

names = ["nn.dataset.plan.fitting", "nn.no_such", "json.tool", "parallel_sgd.batch_sync.sync.synchronized"]
fork_server._import(names)
print(*[name for name in names if name in sys.modules])
"""


def test_modules_of_ours_alone_are_imported_before_the_fork() -> None:
    """All that the order names and there are; those of a user may start threads or open files."""
    done = subprocess.run([sys.executable, "-c", EARLY], cwd=ROOT, capture_output=True, text=True, timeout=LIMIT)
    assert (done.stdout, done.stderr) == ("nn.dataset.plan.fitting parallel_sgd.batch_sync.sync.synchronized\n", "")
