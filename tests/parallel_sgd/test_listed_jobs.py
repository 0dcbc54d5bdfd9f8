"""Nodes of a job that no agent tells of are listed as not reached, also where a later attempt has numbered its nodes anew."""

from __future__ import annotations

from typing import Any

from parallel_sgd.commands.jobs import entries_of


def entry(node: int, attempt: int, nodes: list[int], state: str, outcome: str = "") -> dict[str, Any]:
    about = {"job": "job", "title": "title", "started": 1.0 + attempt, "driver": "", "outcome": outcome}
    return {**about, "node": node, "attempt": attempt, "nodes": nodes, "state": state}


def rows(*agents: list[dict[str, Any]]) -> list[tuple[int, int, str, str]]:
    addresses = {number: f"pc{number}:1" for number in range(len(agents))}
    listed = entries_of(dict(enumerate(agents)), addresses)
    return [(each["node"], each["attempt"], each["address"], each["state"]) for each in listed]


def test_an_entry_of_an_attempt_before_hides_no_node_that_is_not_reached() -> None:
    """Of three agents the first has ended its part, and the job went on with the two others as nodes 0 and 1."""
    first = [entry(0, 0, [0, 1, 2], "failed")]
    second = [entry(1, 0, [0, 1, 2], "failed"), entry(0, 1, [0, 1], "running")]
    third = [entry(2, 0, [0, 1, 2], "failed"), entry(1, 1, [0, 1], "running")]
    assert (1, 1, "", "not reached") in rows(first, second)
    assert not [row for row in rows(first, second, third) if row[3] == "not reached"]
    assert not [row for row in rows(second, third) if row[3] == "not reached"]
    assert [row for row in rows(second[:1]) if row[3] == "not reached"] == [
        (0, 0, "", "not reached"),
        (2, 0, "", "not reached"),
    ]


def test_an_agent_that_has_not_heard_of_a_new_attempt_is_reached() -> None:
    """The driver tells its agents one after the other. One that has left the job stands for no node of the new attempt."""
    first, second = [entry(0, 1, [0, 1], "starting")], [entry(1, 0, [0, 1], "failed")]
    assert rows(first, second) == [(0, 1, "pc0:1", "starting"), (1, 0, "pc1:1", "failed")]
    left = [entry(1, 0, [0, 1], "failed", "left")]
    assert (1, 1, "", "not reached") in rows(first, left)


def test_agents_that_have_refused_a_job_are_no_lost_nodes() -> None:
    """Of three agents two were busy, so that the third one was told to forget the job."""
    assert rows([], [], [entry(2, 0, [0, 1, 2], "aborted")]) == [(2, 0, "pc2:1", "aborted")]
    started = [entry(0, 0, [0, 1], "failed"), entry(0, 1, [0, 1], "aborted")]
    assert rows(started[1:]) == [(0, 1, "pc0:1", "aborted")], "an attempt that did not begin tells of no other node"
