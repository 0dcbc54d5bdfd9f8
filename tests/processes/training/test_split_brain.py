"""Hosts that are stopped, or cut off, and come back: the job has one driver, and one result."""

from __future__ import annotations

import json
import os
import signal
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest

from tests.processes import netns
from tests.processes.harness import AgentProcess, Cluster, cluster, wait_for
from tests.processes.training.left import Left

from ...statements import covers

IN_THE_GATE = "LEASE_SCHEDULES" not in os.environ  # what says nothing new about who drives is left to `make faults`


@pytest.fixture
def four(tmp_path: Path) -> Iterator[Cluster]:
    with cluster(tmp_path / "four") as made:
        made.start(4)
        yield made


def begun(left: Left) -> list[tuple[int, str]]:
    """The attempts that the agents have agreed to or taken part in, and their drivers, by the agents' own records."""
    lines = [json.loads(line) for agent in left.trio.agents for line in (agent.work / "audit.jsonl").read_text().splitlines()]
    found = [line["detail"].rpartition(": attempt ")[2].partition(" of ") for line in lines if line["event"] == "agreed"]
    return sorted({(int(attempt), driver) for attempt, _, driver in found})


def records(left: Left) -> list[dict[str, Any]]:
    """What the agents remember of the job."""
    return [json.loads(path.read_text()) for agent in left.trio.agents for path in agent.work.glob("jobs/*/job.json")]


def await_end(four: Cluster, left: Left) -> None:
    over = lambda: four.idle() and all(record["outcome"] for record in records(left))  # noqa: E731
    wait_for(over, "the job to be over, and the agents to be free", 60)


def stop(four: Cluster) -> Callable[[], None]:
    """Stop all but the first host; returns what lets them go on."""
    stopped = [pid for agent in four.agents[1:] for pid in (agent.pid, *agent.job_pids())]

    def signal_all(number: int) -> None:
        for pid in stopped:
            os.kill(pid, number)

    signal_all(signal.SIGSTOP)
    return lambda: signal_all(signal.SIGCONT)


@covers("INV-14", "FLT-21", "FLT-25")
@pytest.mark.long
def test_hosts_that_were_stopped_and_come_back(four: Cluster, tmp_path: Path) -> None:
    """Three of four hosts fall silent, so the submitter pauses, and says so; they come back, grant it
    the job, and do not go on with it by themselves: one attempt, one driver, one result."""
    with Left(four, tmp_path, "shrink") as left:
        left.await_manifests()
        go_on = stop(four)
        wait_for(lambda: "Training pauses" in left.said, "the submitter to pause", 60)
        assert "Node(3) at" in left.said.partition("Training pauses")[2].splitlines()[0]
        go_on()
        wait_for(lambda: left.said.count("Waiting for") == 2, "the next attempt to run", 60)
        left.hurry.touch()
        assert left.submitter.wait(60) == 0
        wait_for(four.idle, "the agents to be free", 60)
        assert not any("drives it now" in agent.console for agent in four.agents)
        assert {(attempt, driver.partition("/")[0]) for attempt, driver in begun(left)} == {(1, "The submitting program")}
        assert [left.record(node)["outcome"] for node in range(4)] == ["done", "left", "left", "left"]


@covers("INV-14", "FLT-21", "FLT-25")
@pytest.mark.long
def test_hosts_that_come_back_when_the_submitter_has_given_up(four: Cluster, tmp_path: Path) -> None:
    """It ends with JobFailed after its time, here two seconds, and the job is over for node 0. The
    others are most of the nodes: they go on. Who attaches gets what they have made, and nothing of node 0."""
    with Left(four, tmp_path, "shrink", LONELY_PATIENCE="2") as left:
        left.await_manifests()
        go_on = stop(four)
        assert left.submitter.wait(60) == 1
        assert "JobFailed" in left.said and "It could not go on within 2 s. Node(1) at" in left.said
        assert f"The job may go on without us, which 'psgd attach {left.job}' would show." in left.said
        wait_for(lambda: left.record(0)["outcome"] == "left", "node 0 to be told", 60)
        go_on()
        left.await_driver("Node(1)", [1, 2, 3])
        left.hurry.touch()
        code, out, err = left.run("--attach", left.job, "--json")
        assert code == 0, err
        assert "Node(0): its files are left out, for the job has gone on without it." in err
        told = json.loads(out)
        assert told["outcome"] == "done" and sorted(told["files"]) == ["1", "2", "3"]
        wait_for(four.idle, "the agents to be free", 60)


@pytest.mark.long
@covers("FLT-21", "FLT-25")
def test_hosts_that_crash(four: Cluster, tmp_path: Path) -> None:
    """All but one; nobody can be going on without the submitter, so it goes on at once."""
    with Left(four, tmp_path, "shrink") as left:
        left.await_manifests()
        for agent in four.agents[1:]:
            agent.process.kill()
        wait_for(lambda: left.said.count("Waiting for") == 2, "the next attempt to run", 60)
        assert "Training pauses" not in left.said
        left.hurry.touch()
        assert left.submitter.wait(60) == 0
        assert left.record(0)["outcome"] == "done"


@covers("FLT-25", "SUB-15")
@pytest.mark.skipif(IN_THE_GATE, reason="`make faults`")
def test_ctrl_c_while_training_pauses(four: Cluster, tmp_path: Path) -> None:
    """The submitter leaves at once, and the job to its nodes, which go on when most of them are back."""
    with Left(four, tmp_path, "shrink") as left:
        left.await_manifests()
        go_on = stop(four)
        wait_for(lambda: "Training pauses" in left.said, "the submitter to pause", 60)
        left.submitter.send_signal(signal.SIGINT)
        assert left.submitter.wait(60) == -signal.SIGINT
        assert f"The job {left.job} goes on without us." in left.said
        go_on()
        wait_for(lambda: any("drives it now" in agent.console for agent in four.agents), "a standby driver to drive", 60)
        left.hurry.touch()
        await_end(four, left)
        assert "done" in {record["outcome"] for record in records(left)}


@covers("INV-14", "FLT-25")
@pytest.mark.skipif(IN_THE_GATE or not netns.available(), reason="`make faults`, as root on Linux")
@pytest.mark.parametrize("heals", ["early", "late"])
@pytest.mark.share(2)
def test_a_network_that_falls_apart_and_is_whole_again(tmp_path: Path, heals: str) -> None:
    """The submitter and node 0 on one side, most of the nodes on the other. Healed early, the submitter goes on
    with the word of the others; healed late, they have gone on, and the submitter and node 0 honour that."""
    with netns.network([-1, 0], [1, 2, 3]) as net, cluster(tmp_path / "four") as four:
        for host in range(4):
            root, listen = four.root / f"agent-{host}", ("--listen", net.address(host))
            four.agents.append(AgentProcess(root, four.key_file, *listen, on=net.on(host)))
        for agent in four.agents:
            agent.await_address()
        with Left(four, tmp_path, "shrink", net.on(-1)) as left:
            left.await_manifests()
            net.cut()
            wait_for(lambda: "Training pauses" in left.said, "the submitter to pause", 60)
            if heals == "late":
                for node in (1, 2, 3):
                    wait_for(lambda: "Node(1) drives it now" in four.agents[node].console, "a standby driver to drive", 60)  # noqa: B023
            net.heal()
            if heals == "late":
                assert left.submitter.wait(60) != 0
                assert "The job is not driven from here any more" in left.said and "Node(1) drives it" in left.said
            else:
                wait_for(lambda: left.said.count("Waiting for") == 2, "the next attempt to run", 60)
            left.hurry.touch()
            if heals == "early":
                assert left.submitter.wait(60) == 0
            await_end(four, left)
            drivers = {driver.partition("/")[0] for _, driver in begun(left)}
            assert drivers == ({"The submitter"} if heals == "early" else {"Node(1)"})
            assert [record["state"] for record in records(left)].count("done") == (1 if heals == "early" else 3)
