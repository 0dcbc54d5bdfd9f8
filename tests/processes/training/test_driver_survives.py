"""A job whose submitter has gone: it is watched, started again, shown and stopped without it."""

from __future__ import annotations

import json
import os
import re
import signal
import subprocess
import sys
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

import parallel_sgd
from nn.model import Model
from parallel_sgd import JobFailed, attempts
from parallel_sgd.codec.plain import Plain
from rpc import Coordinator
from rpc.errors import Deposed
from rpc.succession.will import new_driver
from tests.processes.executors import Sum
from tests.processes.harness import AgentProcess, Cluster, cluster, wait_for
from tests.processes.training import lonely_submitter
from tests.processes.training.jobs import line_job

pytestmark = pytest.mark.processes
ROOT = Path(__file__).parents[3]


@pytest.fixture
def trio(tmp_path: Path) -> Iterator[Cluster]:
    """Three agents of this test alone, since it kills some."""
    with cluster(tmp_path / "trio") as made:
        made.start(3)
        yield made


@pytest.fixture
def left(trio: Cluster, tmp_path: Path) -> Iterator[Left]:
    made = Left(trio, tmp_path)
    try:
        yield made
    finally:
        made.end()


class Command:
    """A process with its output in files, so that it can be read while it runs."""

    def __init__(self, command: list[str], environ: dict[str, str], place: Path) -> None:
        self._out, self._err = (place / f"{command[2].strip('-')}.{kind}" for kind in ("out", "err"))
        with open(self._out, "wb") as out, open(self._err, "wb") as err:
            self.process = subprocess.Popen(command, env=environ, cwd=place, stdout=out, stderr=err)

    @property
    def complaints(self) -> str:
        return self._err.read_text(errors="replace")

    def wait(self) -> tuple[int, str, str]:
        code = self.process.wait(60)
        return code, self._out.read_text(), self.complaints


class Left:
    """A job on the agents of `trio` whose submitter is the process `submitter`; commands run in the folder `place`."""

    def __init__(self, trio: Cluster, place: Path) -> None:
        self.trio, self.place, self.hurry = trio, place, place / "hurry"
        self.environ = {**os.environ, "PYTHONPATH": str(ROOT), "PSGD_KEY_FILE": str(trio.key_file)}
        addresses = [str(agent.address) for agent in trio.agents]
        (place / "worker.json").write_text(json.dumps({"Worker": addresses}))
        self._said = place / "submitter.txt"
        module = "tests.processes.training.lonely_submitter"
        command = [sys.executable, "-m", module, str(trio.key_file), str(place / "away"), str(self.hurry), *addresses]
        with open(self._said, "wb") as console:
            self.submitter = subprocess.Popen(command, env=self.environ, cwd=place, stderr=console)
        self._processes = [self.submitter]
        wait_for(lambda: "Waiting for" in self.said, "the job to run")
        match = re.search(r"Job id: (\S+)\.", self.said)
        assert match is not None
        self.job = match[1]

    def end(self) -> None:
        """Whatever a failed test has left."""
        for process in self._processes:
            if process.poll() is None:
                process.kill()
                process.wait()

    @property
    def said(self) -> str:
        return self._said.read_text(errors="replace")

    def folder(self, node: int) -> Path:
        return self.trio.agents[node].work / "jobs" / f"{self.job}.{node}"

    def record(self, node: int) -> dict[str, Any]:
        content: dict[str, Any] = json.loads((self.folder(node) / "job.json").read_text())
        return content

    def await_estates(self) -> None:
        wait_for(lambda: all((self.folder(n) / "estate").exists() for n in range(3)), "the agents to have the estate")

    def await_driver(self, name: str, nodes: list[int]) -> None:
        for node in nodes:
            wait_for(lambda: f"{name} drives it now" in self.trio.agents[node].console, f"{name} to drive")  # noqa: B023

    def await_attempt(self, number: int, nodes: list[int]) -> None:
        def runs(node: int) -> bool:
            record = self.record(node)
            return (record["attempt"], record["state"]) == (number, "running")

        wait_for(lambda: all(map(runs, nodes)), f"attempt {number} to run")

    def job_process(self, node: int) -> int:
        agent = self.trio.agents[node]
        commands = {pid: Path(f"/proc/{pid}/cmdline").read_bytes() for pid in agent.job_pids()}
        return next(pid for pid, command in commands.items() if b"rpc.job.process" in command)

    def command(self, *arguments: str) -> Command:
        command = Command([sys.executable, str(ROOT / "job_submit.py"), *arguments], self.environ, self.place)
        self._processes.append(command.process)
        return command

    def run(self, *arguments: str) -> tuple[int, str, str]:
        return self.command(*arguments).wait()


def seconds_to_start(left: Left) -> float:
    """What an heir costs here and now before it can say anything."""
    begin = time.monotonic()
    subprocess.run([sys.executable, "-c", "import parallel_sgd.heir"], env=left.environ, check=True)
    return time.monotonic() - begin


def come_back(agent: AgentProcess) -> AgentProcess:
    """The agent again, at the same address, with the same work directory."""
    root, port = agent.announcement.parent, agent.address.port
    if agent.process.stdin is not None:
        agent.process.stdin.close()
    agent.announcement.unlink()
    again = AgentProcess(root, agent.announcement.parents[1] / "key", "--port", str(port), work=agent.work)
    return again.await_address()


def test_submitter_process_and_agent_die_one_after_the_other(trio: Cluster, left: Left, tmp_path: Path) -> None:
    """FLT-14, FLT-16, FD-16, SUB-15: the submitter is killed: the senior node drives within 3 s, with one warning, and starts
    the job again when a process is killed; its agent is killed: the next senior drives within 3 s. Whoever attaches sees all
    attempts; the weights are those of an undisturbed run."""
    left.await_estates()
    limit = max(3.0, 4 * seconds_to_start(left))
    left.submitter.kill()
    begin = time.monotonic()
    left.submitter.wait()
    left.await_driver("Node(0)", [0, 1, 2])
    assert time.monotonic() - begin < limit
    watcher = left.command("--attach", left.job, "--json")
    wait_for(lambda: "Node(0) drives the job." in watcher.complaints, "the watcher to be connected")
    os.kill(left.job_process(1), signal.SIGKILL)
    left.await_attempt(1, [0, 1, 2])
    code, table, _ = left.run("--jobs")
    row = rf"{left.job}\s+lonely\s+1\s+{trio.agents[1].address}\s+running\s+\S+ \S+\s+2\s+Node\(0\)"
    assert code == 0 and re.search(row, table), table
    left.await_estates()
    trio.agents[0].process.kill()
    begin = time.monotonic()
    trio.agents[0].process.wait()
    left.await_driver("Node(1)", [1, 2])
    assert time.monotonic() - begin < limit
    trio.agents[0] = come_back(trio.agents[0])
    left.await_attempt(2, [0, 1, 2])
    left.hurry.touch()
    code, out, err = watcher.wait()
    assert code == 5, err  # the connection with the agent that was killed
    assert "The job has been started again: attempt 2." in err and "Node(1) drives the job from now on." in err
    told = json.loads(out)
    assert (told["job"], told["outcome"]) == (left.job, "done")
    assert trio.agents[2].console.count("drives it now") == 2
    with parallel_sgd.in_process(3) as nodes:
        calm = lonely_submitter.train(nodes, tmp_path / "calm", Plain)
    model = Model.load(tmp_path / "Node-1-Retrieve" / "MODEL-lonely-N(1).model")
    assert model.store.values.tobytes() == calm.models[1].store.values.tobytes()
    wait_for(trio.idle, "the agents to be free")
    assert [left.record(node)["outcome"] for node in range(3)] == ["done"] * 3
    assert not any((left.folder(node) / "estate").exists() for node in range(3))


def test_a_job_that_was_left_is_stopped(trio: Cluster, left: Left, tmp_path: Path) -> None:
    """SUB-15: Ctrl-C at Waiting names the commands. Once a node drives, a submitter that would start the job again is told so.
    `--stop` ends it wherever it runs, nobody takes it over, and who attaches later is told."""
    left.submitter.send_signal(signal.SIGINT)
    assert left.submitter.wait(20) == -signal.SIGINT
    assert f"'psgd-submit --attach {left.job}' shows its progress again" in left.said
    assert f"'--stop {left.job}' ends it" in left.said
    left.await_estates()  # it was handed on before the submitter went
    left.await_driver("Node(0)", [0, 1, 2])
    with trio.request() as com, pytest.raises(Deposed, match=r"not driven from here any more: Node\(0\) drives it"):
        again = Coordinator(com, job=left.job, attempt=1, driver=new_driver("The submitter"), directory=tmp_path)
        again.submit_group(Sum)
    code, out, err = left.run("--stop", left.job)
    assert (code, out) == (0, f"The job {left.job} has ended: stopped.\n"), err
    wait_for(trio.idle, "the agents to be free, without heirs")
    assert [left.record(node)["outcome"] for node in range(3)] == ["stopped"] * 3
    code, _, err = left.run("--attach", left.job)
    assert code == 1 and "It was stopped by psgd-submit --stop." in err
    code, _, err = left.run("--stop", "20200101-000000-00000000")
    assert code == 4 and "None of the nodes knows job 20200101-000000-00000000" in err


def test_what_cannot_be_started_again(trio: Cluster, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """An agent that stays away under 'restart' ends in JobFailed, naming it and the first cause."""
    nodes = trio.nodes()
    monkeypatch.setattr(attempts, "RETURN_SECONDS", 0.5)
    victim = trio.agents[0]
    settings: dict[str, Any] = {"on_failure": "restart", "fault": "exit 1@e1.b2 code 3", "checkpoint_every": None}
    monkeypatch.setattr(attempts.Attempts, "_settle", _losing(victim))
    with pytest.raises(JobFailed, match=rf"It was not started again within 0.5 s: Node\(0\) at {victim.address} is lost"):
        line_job().parallel(nodes, epoch=3, block_size=4, directory=tmp_path, **settings)


def _losing(agent: AgentProcess) -> Any:
    """Between two attempts the agent is gone."""
    settle = attempts.Attempts._settle

    def lose(self: attempts.Attempts, running: attempts.Running) -> JobFailed:
        failed = settle(self, running)
        agent.process.kill()
        agent.process.wait()
        return failed

    return lose
