"""A process of a job that calls another one under an id that is not its own."""

from __future__ import annotations

from pathlib import Path

from network.errors import Impostor

from ..statements import covers
from .executors import KnocksAsOthers, SaysItIsAnother
from .harness import Cluster, start_job


def audit(cluster: Cluster) -> str:
    path = cluster.agents[0].work / "audit.jsonl"
    return path.read_text() if path.exists() else ""


@covers("SEC-21")
def test_no_key_opens_the_door_of_another_pair(trio: Cluster, tmp_path: Path) -> None:
    """Whoever lacks the key of a pair is refused, whatever it claims; the honest node calls later, the job goes on."""
    shipped = {"address": str(trio.agents[0].address), "flag": str(tmp_path / "flag")}
    before = audit(trio)  # what other tests have done to these agents
    outcome = trio.run(KnocksAsOthers, tmp_path, objects=shipped)
    assert not outcome.error, outcome.failures
    assert [list(result[0][1]) for result in outcome.results.values()] == [[6.0] * 4] * 3
    assert outcome.results[1][1] == ["BAD_KEY"] * 6
    told = audit(trio).removeprefix(before)
    assert (
        told.count("refused as node 2: it has another key (BAD_KEY)")
        == told.count("refused as node 7: it has another key (BAD_KEY)")
        == 3
    )


@covers("SEC-21")
def test_who_proves_to_be_one_node_and_says_to_be_another_is_named(trio: Cluster, tmp_path: Path) -> None:
    """Node 1 calls node 0 as node 2, and as node 7: hung up on, and lost for node 0, whose verdict names node 1; the
    connection of nodes 0 and 2 goes on."""
    with trio.request() as com:
        coordinator = start_job(com, SaysItIsAnother, tmp_path, objects={"address": str(trio.agents[0].address)})
        results, error = coordinator.join()
    assert error and coordinator.failures.keys() == {0}
    assert results == {1: ["hung up on"] * 2, 2: (0, "we two go on")}
    (verdict,) = coordinator.verdicts
    assert verdict.rank == 0 and verdict.node == 0
    found = f"Node(1) at {trio.agents[1].address} is lost: its process has called node 0 under the id 2"
    assert f"{Impostor.__module__}.{Impostor.__qualname__}: {found}" in verdict.headline
    log = next((trio.agents[0].work / "jobs").glob(f"{coordinator.job}.0/*.log")).read_text()
    assert "Node 1 is an impostor: its process has called node 0 under the id 2." in log and "under the id 7." in log
    assert "node 1, an impostor: its process has called node 0 under the id 2, from" in audit(trio)
