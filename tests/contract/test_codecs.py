"""What holds for every codec that exchanges: laws 2 and 7 of contracts/codecs.md, on a job of arrays."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import numpy as np
import pytest

import parallel_sgd.codec
from parallel_sgd.channel import Key
from parallel_sgd.codec import BlockWeight, Codec, DummyCodec, GlobalSettings, Plain, SyncPS, netEncapsulation
from parallel_sgd.profiles import DuplicateAssignment, FixedBlockAssignment, IIDBlockAssignment, ISetting
from tests.contract.kinds import public_kinds
from tests.parallel_sgd.array_job import ArrayJob, gradient


@dataclass(frozen=True)
class Row:
    """What is true of a codec beyond the common laws."""

    exchanges: bool  # sends packets, so that all replicas agree
    assignments: tuple[ISetting, ...]
    server: bool = False  # needs a parameter server, which runs the same codec


EVERY = (IIDBlockAssignment(1), IIDBlockAssignment(3), DuplicateAssignment(4, 2), FixedBlockAssignment(2, 1, 4))
ROWS: dict[type[Codec], Row] = {
    Plain: Row(exchanges=True, assignments=EVERY),
    DummyCodec: Row(exchanges=False, assignments=EVERY),
    SyncPS: Row(exchanges=True, assignments=EVERY, server=True),
}
CASES = [(kind, assignment) for kind, row in ROWS.items() for assignment in row.assignments]
EXCHANGING = [case for case in CASES if ROWS[case[0]].exchanges and case[1].node_count > 1]
each = pytest.mark.parametrize(("kind", "assignment"), CASES)
each_exchanging = pytest.mark.parametrize(("kind", "assignment"), EXCHANGING)


def job_of(kind: type[Codec], assignment: ISetting, **settings: Any) -> ArrayJob:
    return ArrayJob(assignment, codec=kind, server=kind if ROWS[kind].server else None, **settings).run()


def bits(job: ArrayJob) -> list[list[bytes]]:
    """The results of every node: one entry per batch and variable."""
    return [[value.tobytes() for batch in job.results[node] for value in batch] for node in job.assignment.nodes]


def test_every_codec_has_a_row() -> None:
    assert public_kinds(Codec, parallel_sgd.codec) == set(ROWS)


@each
def test_the_same_job_gives_the_same_bits(kind: type[Codec], assignment: ISetting) -> None:
    """Law 2: determinism."""
    assert bits(job_of(kind, assignment)) == bits(job_of(kind, assignment))


@each
def test_every_batch_gives_a_result_of_the_shape_that_was_put(kind: type[Codec], assignment: ISetting) -> None:
    job = job_of(kind, assignment)
    for node in assignment.nodes:
        shapes = [[value.shape for value in batch] for batch in job.results[node]]
        assert shapes == [[(3, 4), (4,)]] * job.batches


@each
def test_content_is_never_changed(kind: type[Codec], assignment: ISetting) -> None:
    """Law 1: input never mutated, which a read-only array proves."""
    with GlobalSettings.use(assignment):
        codec = kind(0)
    for block in assignment.node_2_block[0]:
        content = gradient(0, block, 0)
        content.flags.writeable = False
        packets = codec.update_blocks(BlockWeight(content, block))
        if packets is not None and not isinstance(packets, netEncapsulation):
            list(packets)
        assert content.tobytes() == gradient(0, block, 0).tobytes()


@each_exchanging
def test_all_replicas_agree(kind: type[Codec], assignment: ISetting) -> None:
    """Law 7: hash-equal after every synchronous step."""
    assert len(set(map(tuple, bits(job_of(kind, assignment))))) == 1


def delayed() -> Callable[[int, int, Key], tuple[float, ...]]:
    rng = np.random.default_rng(1)
    return lambda *_: (float(rng.random()),)


def repeated() -> Callable[[int, int, Key], tuple[float, ...]]:
    return lambda *_: (0.0, 0.0)


def lost_once() -> Callable[[int, int, Key], tuple[float, ...]]:
    seen: set[tuple[int, int, Key]] = set()

    def link(sender: int, receiver: int, key: Key) -> tuple[float, ...]:
        again = (sender, receiver, key) in seen
        seen.add((sender, receiver, key))
        return (0.0,) if again or key[2] != 1 or sender != 0 else ()

    return link


@each_exchanging
@pytest.mark.parametrize("link", [delayed, repeated, lost_once])
def test_the_way_of_packets_changes_nothing(
    kind: type[Codec], assignment: ISetting, link: Callable[[], Callable[[int, int, Key], tuple[float, ...]]]
) -> None:
    """Law 7, SUB-22, SUB-23: arrival order, duplicates, and a lost packet that a rescue replaces."""
    assert bits(job_of(kind, assignment, link=link())) == bits(job_of(kind, assignment))


@each
def test_a_codec_without_its_peers_says_so_or_is_done(kind: type[Codec], assignment: ISetting) -> None:
    """SUB-24: `is_done` is never true before the result exists, and rescue is never an error."""
    with GlobalSettings.use(assignment):
        codec = kind(0)
    assert not codec.is_done()
    assert codec.get_result() is None
    assert codec.do_something_to_save_yourself() is None  # it has computed nothing that it could send
    codec.dispose()
    assert not codec.is_done()
