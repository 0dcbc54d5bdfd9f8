"""The page of jobs that run on agents: what `psgd page --job` has from them over sessions of its own."""

from __future__ import annotations

import contextlib
import threading
from pathlib import Path
from typing import Any

import pytest

from network import NodeAssignment, Request
from parallel_sgd import JobFailed
from parallel_sgd.run_page.records import RunRecords
from parallel_sgd.run_page.sources import ClusterSource, Seen
from parallel_sgd.run_page.story import lines
from rpc import Reclaimer
from tests.processes.harness import wait_for

from .jobs import line_job

pytestmark = pytest.mark.processes


@pytest.mark.long
def test_a_running_job_is_seen_from_elsewhere(agents: NodeAssignment, tmp_path: Path) -> None:
    """Agents and slots, nodes and progress, losses and batches, while one worker hangs, until somebody stops the job."""
    nodes = NodeAssignment(agents.key_file)
    for node in range(2):
        nodes.add(node, agents[node])
    ends: list[JobFailed] = []
    hangs: dict[str, Any] = {"fault": "hang 1@e2.b2", "stall_timeout": 100.0, "verbose": 0}

    def run() -> None:
        try:
            line_job().parallel(nodes, epoch=3, block_size=4, directory=tmp_path, **hangs)
        except JobFailed as failed:
            ends.append(failed)

    job = threading.Thread(target=run)
    source = ClusterSource(agents)
    try:
        before = source.look()
        assert len(before.agents) == len(agents) and not any(row["problem"] for row in before.agents)
        job.start()

        def seen() -> Seen | None:
            now = source.look()
            far = [row["done"] for row in now.nodes]
            return now if now.job != before.job and len(now.records.batches) == 2 and far == ["33 %"] * 2 else None

        now = wait_for(seen, "the first epoch on the page")
        assert sum(row["slots"].startswith("1 of") for row in now.agents) == 2 and now.records.outcome["state"] == "running"
        assert 0 < now.done < 1 and now.jobs[0]["job"] == now.job and any("node 0" in line for line in now.log)
        assert {row["attempt"] for row in now.nodes} == {"1"} and [row["node"] for row in now.nodes] == ["worker 0", "worker 1"]
        with Request().request(nodes) as com:
            Reclaimer(com).stop(now.job)
        job.join(60)
        wait_for(lambda: source.look().records.outcome["state"] == "stopped", "the end on the page")
    finally:
        source.close()
        job.join(60)
    assert not job.is_alive() and len(ends) == 1


@pytest.mark.long
def test_after_a_shrink_the_page_shows_who_is_left(agents: NodeAssignment, tmp_path: Path) -> None:
    """Of three workers 1 is killed, and 2 goes on as worker 1 on its own agent, where the tables of both numbers lie."""
    nodes = NodeAssignment(agents.key_file)
    for node in range(3):
        nodes.add(node, agents[node])
    fault = "kill 1@e2.b2"
    line_job().parallel(nodes, epoch=3, block_size=4, directory=tmp_path, on_failure="shrink", fault=fault, verbose=0)
    with contextlib.closing(ClusterSource(agents)) as source:

        def seen() -> Seen | None:
            now = source.look()
            return now if len(now.records.tables) == 2 and now.records.outcome["state"] == "done" else None

        now = wait_for(seen, "the two that are left on the page")
    told = [(row["node"], row["agent"], row["attempt"]) for row in now.nodes]
    assert told == [("worker 0", str(nodes[0]), "2"), ("worker 1", str(nodes[2]), "2")]
    assert {tables["TR"]["Epochs"][-1] for tables in now.records.tables.values()} == {3}


def test_a_job_that_failed_tells_its_story_to_who_looks_later(agents: NodeAssignment, tmp_path: Path) -> None:
    """By what its agents have noted: who failed, how that was noticed, and how far training had come."""
    nodes = NodeAssignment(agents.key_file)
    for node in range(2):
        nodes.add(node, agents[node])
    line_job().parallel(nodes, epoch=1, block_size=4, directory=tmp_path, verbose=0)
    with contextlib.closing(ClusterSource(agents)) as early:
        assert wait_for(lambda: early.look().job, "the job before on the page")
        with pytest.raises(JobFailed) as info:
            line_job().parallel(nodes, epoch=3, block_size=4, directory=tmp_path, fault="kill 1@e2.b2", verbose=0)
        wait_for(lambda: early.look().job == info.value.job_id, "the job that ran while nobody looked")
    sentences = (
        "Who failed: Worker 1 died, killed by signal 9 (SIGKILL), in epoch 2, batch 2 of attempt 1 (process ",
        "How it was noticed: Its agent saw the process end.",
        "Worker 0 ended, too",
        "What is lost",
    )
    with contextlib.closing(ClusterSource(agents, info.value.job_id)) as source:

        def told() -> bool:
            """Whether the page has the story; a look may come before the files of one of its agents are there."""
            records = source.look().records
            story = lines(records) if records.outcome.get("causes") else ""
            return all(words in story for words in sentences)

        wait_for(told, "the story on the page")


@pytest.mark.long
def test_what_only_the_submitter_found_is_in_the_story_of_its_agents(agents: NodeAssignment, tmp_path: Path) -> None:
    """A link that swallows: all wait, nobody is stuck. Who looks at the cluster reads what the page of the run says."""
    nodes = NodeAssignment(agents.key_file)
    for node in range(2):
        nodes.add(node, agents[node])
    fault = {"fault": "swallow 0-1@e2.b2", "stall_timeout": 3.0, "on_failure": "fail", "verbose": 0}
    with pytest.raises(JobFailed) as info:
        line_job().parallel(nodes, epoch=3, block_size=4, directory=tmp_path, **fault)
    assert {verdict.kind for verdict in info.value.verdicts if verdict.rank == 0} == {"cut"}
    own = lines(RunRecords.read(tmp_path / "runs" / "latest")).splitlines()[:2]
    assert own[0].startswith("Who failed: ") and "was cut off from others, in epoch 2, batch 2 of attempt 1" in own[0]
    with contextlib.closing(ClusterSource(agents, info.value.job_id)) as source:

        def told() -> bool:
            """Whether the page has the story; a look may come before the files of one of its agents are there."""
            records = source.look().records
            story = lines(records).splitlines() if records.outcome.get("causes") else [""]
            return story[:2] == own and "batches had been trained: 1 epoch was complete." in story[-1]

        wait_for(told, "the story on the page")
