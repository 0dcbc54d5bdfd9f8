"""Packets and bytes of each batch on local workers: those of the same job in one process, also when workers were killed."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from parallel_sgd import JobResult, in_process, local_workers
from parallel_sgd.codec import SyncPS
from parallel_sgd.engine.accounts import SENT
from tests.parallel_sgd.test_bytes import job, of_accounts, of_batches

pytestmark = pytest.mark.processes
GIVEN: dict[str, Any] = {"epoch": 3, "block_size": 16, "verbose": 0}


@pytest.fixture(autouse=True)
def folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)


def counted(result: JobResult) -> list[dict[str, int | str]]:
    """Return the rows without bytes on the wire, which depend on the transport."""
    return [{name: value for name, value in row.items() if "wire" not in name} for row in result.history.traffic]


@pytest.mark.parametrize("ps", [False, True])
@pytest.mark.share(4)
def test_local_workers_send_what_nodes_of_one_process_send(ps: bool) -> None:
    given = {**GIVEN, **({"codec": SyncPS} if ps else {})}
    here = job().parallel(in_process(2, ps=ps), **given)
    with local_workers(2, ps=ps) as nodes:
        there = job().parallel(nodes, **given)
    assert counted(there) == counted(here) and there.history["bytes"] == here.history["bytes"]
    assert of_batches(there) == of_accounts(there)


@pytest.mark.parametrize("policy", ["restart", "shrink"])
@pytest.mark.long
def test_bytes_survive_a_killed_worker(policy: str) -> None:
    """Each worker has the bytes of the batches that its other tables have: all but those of the last second of one that was
    killed. With as many workers as before they are those of a calm job; the accounts are those of the last attempt.
    """
    calm = job().parallel(in_process(3), **GIVEN)
    with local_workers(3) as nodes:
        given = {**GIVEN, "on_failure": policy, "checkpoint_every": "epoch", "fault": "kill 1@e2.b2"}
        result = job().parallel(nodes, **given)
    assert result.restarts == 1
    for node, history in result.history.workers.items():
        told = [(row["epoch"], row["batch"]) for row in history.traffic]
        assert told == [(row["epoch"], row["batch"]) for row in history.steps] and len(told) == len(set(told)), node
    survivor = [(row["epoch"], row["batch"]) for row in result.history.traffic if row["node"] == 0]
    assert survivor == [(epoch, batch) for epoch in (1, 2, 3) for batch in range(1, 5)]
    if policy == "restart":
        kept = [row for row in counted(calm) if (row["node"], row["epoch"], row["batch"]) != (1, 2, 1)]
        assert [row for row in counted(result) if (row["node"], row["epoch"], row["batch"]) != (1, 2, 1)] == kept
    assert (result.history["bytes"][2] == calm.history["bytes"][2]) == (policy == "restart")
    sent = sum(e.raw for es in result.accounts.values() for e in es if e.direction == SENT)
    assert 0 < sent <= sum(result.history["bytes"])
