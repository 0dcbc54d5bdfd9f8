"""Where all nodes go on, from what each holds; how they agree on it over real sockets, and send it to those who lack it."""

from __future__ import annotations

import logging
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from network.errors import PeerLost, TimedOut
from parallel_sgd.checkpoint import CheckpointError, Position, Snapshot, Store
from parallel_sgd.checkpoint.agree import CONTENT, OFFERS, Agreement, StartPoint, begin
from parallel_sgd.checkpoint.choose import CheckpointOffer, Choice, choose
from parallel_sgd.checkpoint.locate import HeldCheckpoints
from rpc.communication import Communication
from tests.parallel_sgd.checkpoint.states import content, newest, snapshot
from tests.rpc.collective.test_allreduce import group, together

from ...statements import covers

SERVER = -2
LACKS = "The newest checkpoint, after {} epochs, cannot be used as it is: the state of node(s) {} is lacking."


def common(owner: int, epoch: int, workers: int = 2, personal: bool = False) -> CheckpointOffer:
    return CheckpointOffer(owner, epoch, 0, personal, workers)


def own(owner: int, epoch: int) -> CheckpointOffer:
    return common(owner, epoch, personal=True)


SERVED = {0: [common(0, 2), common(0, 1)], 1: [common(1, 2)], SERVER: [own(SERVER, 1)]}
OTHERS = {0: [own(0, 3), common(0, 2)], 1: [own(1, 3)], 2: []}


@covers("FD-8", "FD-10")
@pytest.mark.parametrize(
    ("offers", "workers", "server", "epoch", "whole", "sources", "reason"),
    [
        # the newest of any worker where all have the same state: another one is sent it
        ({0: [common(0, 1), common(0, 2)], 1: [common(1, 1)]}, 2, None, 2, True, {0: (0, 0), 1: (0, 0)}, ""),
        # where each needs its own, the newest that all have
        ({0: [own(0, 1), own(0, 2)], 1: [own(1, 1)]}, 2, None, 1, True, {0: (0, 0), 1: (1, 1)}, LACKS.format(2, 1)),
        # nodes that changed places; of two holders the node itself comes first
        ({0: [own(1, 4)], 1: [own(0, 4)]}, 2, None, 4, True, {0: (1, 0), 1: (0, 1)}, ""),
        ({0: [own(0, 4), own(1, 4)], 1: [own(0, 4), own(1, 4)]}, 2, None, 4, True, {0: (0, 0), 1: (1, 1)}, ""),
        # a server takes part that remembers something
        (SERVED, 2, SERVER, 1, True, {0: (0, 0), 1: (0, 0), SERVER: (SERVER, SERVER)}, LACKS.format(2, -2)),
        (SERVED, 2, None, 2, True, {0: (0, 0), 1: (1, 1)}, ""),
        # training never starts over while anybody has anything: all take the same values, what is personal begins anew
        (
            {0: [own(0, 1)], 1: [own(1, 3)], SERVER: [own(SERVER, 3)]},
            *(2, SERVER, 3, False, {0: (1, 1), 1: (1, 1)}),
            f"{LACKS.format(3, 0)} Nor can an older one, so what was remembered for single workers begins anew.",
        ),
        # what all share serves any number of workers; personal states only as many as there were
        (OTHERS, 3, None, 2, True, {0: (0, 0), 1: (0, 0), 2: (0, 0)}, "number of workers, each with a state of its own."),
        (OTHERS, 2, None, 3, True, {0: (0, 0), 1: (1, 1)}, ""),
        ({0: [own(0, 3)]}, 3, None, 3, False, {0: (0, 0), 1: (0, 0), 2: (0, 0)}, "begins anew."),
    ],
)
def test_where_all_go_on(
    offers: Any, workers: int, server: int | None, epoch: int, whole: bool, sources: Any, reason: str
) -> None:
    """The reason says why it is not simply the newest one."""
    choice = choose(offers, range(workers), server)
    assert choice is not None
    assert (choice.position, choice.whole, choice.sources) == (Position(epoch, 0), whole, sources)
    assert choice.reason == reason if reason.startswith("The") or not reason else choice.reason.endswith(reason)
    said = f"Training goes on after {epoch} epoch{'s' * (epoch > 1)}, with epoch {epoch + 1}."
    assert choice.said == f"{choice.reason} {said}".strip()


_OFFER = st.builds(
    CheckpointOffer, st.sampled_from([0, 1, 2, SERVER]), st.integers(0, 3), st.integers(0, 1), st.booleans(), st.just(3)
)
_OFFERS = st.fixed_dictionaries({node: st.lists(_OFFER, max_size=4) for node in (0, 1, 2, SERVER)})


@covers("FD-10")
@given(_OFFERS, st.booleans())
def test_a_choice_can_be_carried_out(offers: dict[int, list[CheckpointOffer]], keeps: bool) -> None:
    """Every source holds what is to be taken from it; a whole choice leaves nobody out; nobody is sent back without need."""
    choice = choose(offers, [0, 1, 2], SERVER if keeps else None)
    by_worker = [offer for found in offers.values() for offer in found if offer.owner >= 0]
    assert (choice is None) == (not by_worker)
    if choice is None:
        return
    for node, source in choice.sources.items():
        mine = [offer for offer in offers[source.holder] if (offer.owner, offer.position) == (source.owner, choice.position)]
        assert mine and (node == SERVER) == (source.owner == SERVER)
    assert set(choice.sources) >= {0, 1, 2}
    if choice.whole:
        assert (SERVER in choice.sources) == keeps
        if any(offer.personal for offer in by_worker if offer.position == choice.position):
            assert all(choice.sources[node].owner == node for node in (0, 1, 2))
    else:
        assert choice.position == max(offer.position for offer in by_worker) and SERVER not in choice.sources


# over real sockets

BLOCKS = [[0], [1], [2]]


def agree(com: Communication, holdings: HeldCheckpoints, seconds: float = 20.0) -> Any:
    peers = [node for node in com.group if node != com.node_id]
    return Agreement(com, peers, seconds).agree(holdings, com.group, None)


def test_each_is_sent_what_it_lacks() -> None:
    """Of three nodes that changed places each its own, 3 MB in many frames; one state that all share; where nobody has any,
    nothing."""
    made = [snapshot(4, 1, node=node, personal=True, blocks=BLOCKS, size=100_000) for node in range(3)]
    shared = snapshot(2, node=1, blocks=BLOCKS)

    def work(of_rank: Callable[[int], list[Snapshot]]) -> list[Any]:
        with group(3) as coms:
            return together(coms, lambda com: agree(com, HeldCheckpoints(snapshots=of_rank(com.rank))))

    results: list[tuple[Choice, Snapshot]] = work(lambda rank: [made[(rank + 1) % 3]])
    for node, (choice, found) in enumerate(results):
        assert choice == results[0][0] and choice.position == Position(4, 1) and choice.whole
        assert found.header == made[node].header
        assert found.arrays["codec/0.up.0,0.residual"].tobytes() == made[node].arrays["codec/0.up.0,0.residual"].tobytes()
    assert all(found.header == shared.header for _, found in work(lambda rank: [shared] if rank == 1 else []))
    assert work(lambda rank: []) == [None] * 3


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


@covers("FLT-11")
@pytest.mark.parametrize(
    ("sent", "words"),
    [
        *(([(OFFERS, [row])], "must be 6 integers") for row in ([1, 2], ["0", 1, 0, 0, 2, 9], 3, [0, 1, 0, 0, 2.0, 9])),
        ([(OFFERS, [[1, 1, 0, 0, 2, 99]]), (CONTENT, np.frombuffer(content(snapshot(1))[:-1], np.uint8))], "fill the file"),
        ([(OFFERS, [[1, 1, 0, 0, 2, 99]]), (CONTENT, "text")], "A checkpoint must come as bytes, got str"),
    ],
)
def test_what_is_sent_is_checked_like_a_file(sent: list[tuple[int, Any]], words: str) -> None:
    def work(com: Communication) -> Any:
        if com.rank == 0:
            return agree(com, HeldCheckpoints())
        for kind, value in sent:
            com.controller.post(0, value, (0, -1, -1, kind))
        return com.controller.flush([0], 20)

    with group(2) as coms:
        error = together(coms, work)[0]
    assert isinstance(error, CheckpointError) and words in str(error)


def test_who_is_lost_or_does_not_appear_is_named() -> None:
    """A lost peer ends the talk at once."""

    def work(com: Communication) -> Any:
        if com.rank == 1:
            return com.controller.close(graceful=False)
        return agree(com, HeldCheckpoints())

    with group(2) as coms:
        error = together(coms, work)[0]
    assert isinstance(error, PeerLost) and error.node_id == 1
    with group(1) as coms:
        (error,) = together(coms, lambda com: Agreement(com, [7], 0.05).agree(HeldCheckpoints(), [0, 7], None))
    assert isinstance(error, TimedOut) and "node(s) [7] to appear" in str(error)


@covers("FD-10")
def test_a_later_attempt_without_any_checkpoint_says_so(tmp_path: Path, caplog: pytest.LogCaptureFixture) -> None:
    """A server that remembers nothing has no part in it, and an unknown earlier job is an error."""
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
        assert newest(out.parent / "checkpoints").header.position == Position(4, 0)
