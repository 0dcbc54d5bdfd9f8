"""A job whose submitter has gone: it is watched, started again, shown and stopped without it."""

from __future__ import annotations

import json
import os
import re
import shutil
import signal
import subprocess
import sys
import time
from collections.abc import Collection, Iterator
from pathlib import Path
from typing import Any

import pytest

import parallel_sgd
from nn.model import Model
from parallel_sgd import JobFailed
from parallel_sgd.codec import GlobalSettings
from parallel_sgd.codec.plain import Plain
from parallel_sgd.driver import restart_loop
from rpc import Coordinator
from rpc.errors import Deposed
from rpc.lease import Candidacy
from rpc.lease.election import Decision
from rpc.lease.handoff import new_driver
from rpc.liveness import limits
from tests.processes.executors import Sum
from tests.processes.harness import AgentProcess, Cluster, cluster, make_key, wait_for
from tests.processes.training import lonely_submitter
from tests.processes.training.jobs import line_job, marking
from tests.processes.training.left import Left

from ...statements import covers


@pytest.fixture
def trio(tmp_path: Path) -> Iterator[Cluster]:
    """Three agents of this test alone, since it kills some."""
    with cluster(tmp_path / "trio") as made:
        made.start(3)
        yield made


@pytest.fixture
def left(trio: Cluster, tmp_path: Path) -> Iterator[Left]:
    with Left(trio, tmp_path) as made:
        yield made


def seconds_to_start(left: Left) -> float:
    """What a standby driver costs here and now before it can say anything."""
    begin = time.monotonic()
    subprocess.run([sys.executable, "-c", "import parallel_sgd.driver.standby"], env=left.environ, check=True)
    return time.monotonic() - begin


def come_back(agent: AgentProcess) -> AgentProcess:
    """The agent again, at the same address, with the same work directory."""
    root, port = agent.announcement.parent, agent.address.port
    if agent.process.stdin is not None:
        agent.process.stdin.close()
    agent.announcement.unlink()
    again = AgentProcess(root, agent.announcement.parents[1] / "key", "--port", str(port), work=agent.work)
    return again.await_address()


@covers("FLT-14", "FLT-16", "FD-16", "SUB-15")
@pytest.mark.long
def test_submitter_process_and_agent_die_one_after_the_other(trio: Cluster, left: Left, tmp_path: Path) -> None:
    """The submitter is killed: the senior node drives within 3 s, with one warning, and starts
    the job again when a process is killed; its agent is killed: the next senior drives within 3 s. Whoever attaches sees all
    attempts; the weights are those of an undisturbed run."""
    left.await_manifests()
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
    left.await_manifests()
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
    assert not any((left.folder(node) / "manifest").exists() for node in range(3))


@covers("SUB-15")
def test_a_job_that_was_left_outlives_a_change_of_the_key(trio: Cluster, left: Left, tmp_path: Path) -> None:
    """Its submitter is killed, and the key is changed by the steps of docs/day-two.md while a node drives that began with the
    old one; a worker that is killed then is started again, by that driver and by the next."""
    left.await_manifests()
    left.submitter.kill()
    left.submitter.wait()
    first = driver_told_by(trio.agents)
    old, new = tmp_path / "old", tmp_path / "new"
    shutil.copy(trio.key_file, old)
    make_key(new)
    for parts in ((old, new), (new,)):
        draft = tmp_path / "next"
        draft.touch(0o600)
        draft.write_bytes(b"".join(part.read_bytes() for part in parts))
        draft.replace(trio.key_file)
    os.kill(left.job_process(1), signal.SIGKILL)
    left.await_attempt(1, [0, 1, 2])
    trio.agents[first].process.kill()
    trio.agents[first].process.wait()
    others = [agent for agent in trio.agents if agent is not trio.agents[first]]
    # whichever comes first: on a busy machine the senior one may be late
    driver_told_by(others, after=first)
    trio.agents[first] = come_back(trio.agents[first])
    left.await_attempt(2, [0, 1, 2])
    left.hurry.touch()
    code, out, err = left.run("--attach", left.job)
    assert code in (0, 5) and f"The job {left.job} has ended: done.\n" in out, err


def driver_told_by(agents: Collection[AgentProcess], after: int | None = None) -> int:
    """Return the node that drives the job by the word of all these agents, once it is another one than `after`."""

    def told() -> set[str]:
        lines = [re.findall(r"Node\((\d)\) drives it now", agent.console) for agent in agents]
        return {each[-1] for each in lines} - {str(after)} if all(lines) else set()

    (node,) = wait_for(lambda: found if len(found := told()) == 1 else None, "one driver")
    return int(node)


@covers("SUB-15")
@pytest.mark.long
def test_a_job_that_was_left_is_stopped(trio: Cluster, left: Left, tmp_path: Path) -> None:
    """Ctrl-C at Waiting names the commands. Once a node drives, a submitter that would start the job again is told so.
    `--stop` ends it wherever it runs, nobody takes it over, and who attaches later is told."""
    left.submitter.send_signal(signal.SIGINT)
    assert left.submitter.wait(60) == -signal.SIGINT
    assert f"'psgd attach {left.job}' shows its progress again" in left.said
    assert f"'psgd stop {left.job}' ends it" in left.said
    assert "Traceback" not in left.said
    (page,) = (left.place / "away").glob("runs/lonely-1/report.html")
    assert "left running" in page.read_text() and f"&#x27;psgd attach {left.job}&#x27; follows it again" in page.read_text()
    left.await_manifests()  # it was handed on before the submitter went
    left.await_driver("Node(0)", [0, 1, 2])
    with trio.request() as com, pytest.raises(Deposed, match=r"not driven from here any more: Node\(0\) drives it"):
        again = Coordinator(com, job=left.job, attempt=1, driver=new_driver("The submitter"), directory=tmp_path)
        again.submit_group(Sum)
    code, out, err = left.run("--stop", left.job)
    assert (code, out) == (0, f"The job {left.job} has ended: stopped.\n"), err
    wait_for(trio.idle, "the agents to be free, without standby drivers")
    assert [left.record(node)["outcome"] for node in range(3)] == ["stopped"] * 3
    code, out, err = left.run("--attach", left.job)
    # The agents note what they were told first: the reason of the stop, or the sentence of the driver that has it at its end.
    assert code == 1 and "It was stopped by 'psgd stop'.\n" in err and f"The job {left.job} has ended: stopped.\n" in out
    code, _, err = left.run("--stop", "20200101-000000-00000000")
    assert code == 2 and "None of the nodes knows job 20200101-000000-00000000" in err


@pytest.mark.long
def test_what_cannot_be_started_again(trio: Cluster, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """An agent that stays away under 'restart' ends in JobFailed, naming it and the first cause."""
    nodes = trio.nodes()
    monkeypatch.setattr(limits, "RETURN_SECONDS", 0.5)
    victim = trio.agents[0]
    settings: dict[str, Any] = {"on_failure": "restart", "fault": "exit 1@e1.b2 code 3", "checkpoint_every": None}
    monkeypatch.setattr(restart_loop.RestartLoop, "_settle", _losing(victim))
    with pytest.raises(
        JobFailed, match=rf"It was not started again within 0.5 s: No worker is reached at {victim.address} for node 0"
    ):
        line_job().parallel(nodes, epoch=3, block_size=4, directory=tmp_path, **settings)


def _losing(agent: AgentProcess) -> Any:
    """Between two attempts the agent is gone."""
    settle = restart_loop.RestartLoop._settle

    def lose(self: restart_loop.RestartLoop, running: restart_loop.RunningAttempt) -> JobFailed:
        failed = settle(self, running)
        agent.process.kill()
        agent.process.wait()
        return failed

    return lose


class Frozen(Plain):
    """Of three workers the last stops its agent and then itself, in its third batch, when the submitter knows that all run."""

    seen = 0

    def update_blocks(self, block_weight: Any) -> Any:
        self.seen += 1
        if (self.node_id, self.seen) == (2, 3):
            wait_for(Path(GlobalSettings.get_params("runs")).exists, "the submitter to know that all run")
            os.kill(os.getppid(), signal.SIGSTOP)
            os.kill(os.getpid(), signal.SIGSTOP)
        return super().update_blocks(block_weight)


@covers("FLT-21")
def test_a_host_that_is_silent_has_no_voice_where_the_others_are_enough(
    trio: Cluster, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The nodes that are there agree to the next attempt. A host that takes connections and says nothing is not asked: it would
    cost 1.5 s of the five after which training goes on."""
    asked: list[list[int]] = []

    class Noting(Candidacy):
        def ask(self, nodes: Collection[int] | None = None) -> Decision:
            asked.append(sorted(self._nodes if nodes is None else nodes))
            return super().ask(nodes)

    monkeypatch.setattr(restart_loop, "Candidacy", Noting)
    try:
        with marking(tmp_path / "runs-now") as runs:
            settings: dict[str, Any] = {"codec": {0: Frozen}, "codec_extra_parameters": {"runs": str(runs)}}
            result = line_job().parallel(
                trio.nodes(), epoch=3, block_size=4, directory=tmp_path, on_failure="shrink", **settings
            )
        assert (result.restarts, sorted(result.models)) == (1, [0, 1])
        assert asked and all(nodes == [0, 1] for nodes in asked)
    finally:
        os.kill(trio.agents[2].pid, signal.SIGCONT)
    wait_for(trio.idle, "the host that was silent to end its part")
