"""Nodes that agree on a checkpoint and send it to those who lack it, over real sockets."""

from __future__ import annotations

import logging
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from network.errors import PeerLost, TimedOut
from parallel_sgd.checkpoint import CheckpointError, Position, Store
from parallel_sgd.checkpoint.agree import OFFERS, Agreement, StartPoint, begin
from parallel_sgd.checkpoint.locate import HeldCheckpoints
from rpc.communication import Communication
from tests.parallel_sgd.checkpoint.states import content, snapshot
from tests.rpc.collective.test_allreduce import group, together

from ...statements import covers

BLOCKS = [[0], [1], [2]]


def agree(com: Communication, holdings: HeldCheckpoints, seconds: float = 20.0) -> Any:
    peers = [node for node in com.group if node != com.node_id]
    return Agreement(com, peers, seconds).agree(holdings, com.group, None)


def test_each_gets_its_own_from_whoever_holds_it() -> None:
    """Three nodes that changed places; 3 MB each, so that they come in many frames."""
    made = [snapshot(4, 1, node=node, personal=True, blocks=BLOCKS, size=100_000) for node in range(3)]
    with group(3) as coms:
        results = together(coms, lambda com: agree(com, HeldCheckpoints(snapshots=[made[(com.rank + 1) % 3]])))
    for node, (choice, found) in enumerate(results):
        assert choice == results[0][0] and choice.position == Position(4, 1) and choice.whole
        assert found.header == made[node].header
        assert found.arrays["codec/0.up.0,0.residual"].tobytes() == made[node].arrays["codec/0.up.0,0.residual"].tobytes()


def test_one_that_has_nothing_is_sent_what_all_share() -> None:
    made = snapshot(2, node=1, blocks=BLOCKS)
    with group(3) as coms:
        results = together(coms, lambda com: agree(com, HeldCheckpoints(snapshots=[made] if com.rank == 1 else [])))
    assert all(found.header == made.header for _, found in results)


def test_nobody_has_anything() -> None:
    with group(2) as coms:
        assert together(coms, lambda com: agree(com, HeldCheckpoints())) == [None, None]


def test_what_comes_too_early_is_kept_in_order() -> None:
    """A node that is through already begins to train; its packets wait for the exchange, also one that is there before the
    offers."""

    def work(com: Communication) -> list[Any]:
        if com.rank == 0:
            com.controller.post(1, "early", (0, 0, 0, 5))
        agreement = Agreement(com, [1 - com.rank])
        agreement.agree(HeldCheckpoints(), com.group, None)
        if com.rank == 0:
            for number in range(3):
                com.controller.post(1, number, (0, 0, 0, number))
            com.controller.flush([1], 20)
            return []
        got: list[Any] = [message.value for _, message in agreement.early]
        com.on_block = lambda _, message: got.append(message.value)
        com.controller.wait_until(lambda: len(got) == 4, 20, lambda: "the packets")
        return got

    with group(2) as coms:
        assert together(coms, work)[1] == ["early", 0, 1, 2]


def test_a_lost_peer_ends_the_talk_at_once() -> None:
    """design.md decision 6; the error names the node."""

    def work(com: Communication) -> Any:
        if com.rank == 1:
            return com.controller.close(graceful=False)
        return agree(com, HeldCheckpoints())

    with group(2) as coms:
        error = together(coms, work)[0]
    assert isinstance(error, PeerLost) and error.node_id == 1


def test_a_peer_that_does_not_appear_is_named() -> None:
    with group(1) as coms:
        (error,) = together(coms, lambda com: Agreement(com, [7], 0.05).agree(HeldCheckpoints(), [0, 7], None))
    assert isinstance(error, TimedOut) and "node(s) [7] to appear" in str(error)


@pytest.mark.parametrize("offers", [[[1, 2]], [["0", 1, 0, 0, 2, 9]], [3], [[0, 1, 0, 0, 2.0, 9]]])
def test_malformed_offers_are_refused(offers: Any) -> None:
    """Whatever goes between nodes is data, and checked."""

    def work(com: Communication) -> Any:
        if com.rank == 0:
            return agree(com, HeldCheckpoints())
        com.controller.post(0, offers, (0, -1, -1, OFFERS))
        return com.controller.flush([0], 20)

    with group(2) as coms:
        error = together(coms, work)[0]
    assert isinstance(error, CheckpointError) and "must be 6 integers" in str(error)


@covers("FLT-11")
def test_a_damaged_transfer_is_refused() -> None:
    """What arrives is checked like a file."""

    def work(com: Communication) -> Any:
        if com.rank == 0:
            return agree(com, HeldCheckpoints())
        com.controller.post(0, [[1, 1, 0, 0, 2, 99]], (0, -1, -1, OFFERS))
        com.controller.post(0, np.frombuffer(content(snapshot(1))[:-1], np.uint8), (0, -1, -1, 1))
        return com.controller.flush([0], 20)

    with group(2) as coms:
        error = together(coms, work)[0]
    assert isinstance(error, CheckpointError)


@covers("FD-10")
def test_a_later_attempt_without_any_checkpoint_says_so(tmp_path: Path, caplog: pytest.LogCaptureFixture) -> None:
    """a server that remembers nothing has no part in it, and an unknown earlier job is an error."""
    caplog.set_level(logging.INFO)
    log = logging.getLogger("parallel_sgd.checkpoint")
    out = tmp_path / "jobs" / "a-job.0" / "out"
    out.mkdir(parents=True)
    with group(1) as coms:
        com = coms[0]
        com.output_directory, com.job = out, "a-job"
        assert begin(com, [0], None, (), None, 1.0, log) == StartPoint()
        with pytest.raises(CheckpointError, match="'resume' names job gone, of which no node of this job has a checkpoint"):
            begin(com, [0], None, ["gone"], None, 1.0, log)
        assert begin(com, [1], None, ["gone"], None, 1.0, log) == StartPoint()
        com.attempt = 1
        said = "There is no checkpoint yet: training starts again from epoch 1."
        afresh = begin(com, [0], None, ["gone"], None, 1.0, log)
        assert afresh.resumption is None and afresh.said == said and said in caplog.text
        given = {"content": np.frombuffer(content(snapshot(3)), np.uint8), "whole": True, "said": "as given", "tables": ""}
        sent = begin(com, [0], None, (), given, 1.0, log).resumption
        assert sent is not None and sent.position == Position(3, 0)
        Store(tmp_path / "jobs" / "gone.3" / "checkpoints", "gone").save(snapshot(5, job="gone", node=3))
        Store(out.parent / "checkpoints", "a-job").save(snapshot(4))
        found = begin(com, [0], None, ["gone"], given, 1.0, log).resumption
        assert found is not None and found.position == Position(5, 0) and found.tables == out
        assert Store(out.parent / "checkpoints").newest() is not None
