"""Plain: dense, all to all, exact to the bit; and DummyCodec: none of it."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from parallel_sgd.codec import BlockWeight, DummyCodec, GlobalSettings, Plain, netEncapsulation
from parallel_sgd.profiles import DuplicateAssignment, FixedBlockAssignment, IIDBlockAssignment, ISetting
from parallel_sgd.testing.array_job import SHAPES, ArrayJob, expected, gradient, tree_mean

from ..statements import covers
from .codec.compositions import check_exact

ASSIGNMENTS = [
    IIDBlockAssignment(1),
    IIDBlockAssignment(2),
    IIDBlockAssignment(3),
    IIDBlockAssignment(4, 2),
    IIDBlockAssignment(4, 3),
    IIDBlockAssignment(3, 3),
    DuplicateAssignment(4, 2),
    DuplicateAssignment(6, 3),
    FixedBlockAssignment(1, 1, 4),
    FixedBlockAssignment(2, 1, 4),
    FixedBlockAssignment(3, 1, 4),
    FixedBlockAssignment(3, 1, 8),
    FixedBlockAssignment(4, 2, 7),
]


@covers("SUB-20")
@pytest.mark.parametrize("assignment", ASSIGNMENTS, ids=lambda a: f"{type(a).__name__}-{a.node_count}-{a.redundancy}")
def test_every_worker_gets_the_mean_over_all_blocks(assignment: ISetting) -> None:
    """The same bits everywhere, whoever holds which block."""
    check_exact(ArrayJob(assignment).run())


@covers("SUB-22", "SUB-23")
@settings(deadline=None, max_examples=40)
@given(assignment=st.sampled_from(ASSIGNMENTS), data=st.data())
def test_delays_and_copies_in_any_combination_change_nothing(assignment: ISetting, data: st.DataObject) -> None:
    """Hypothesis chooses when each packet arrives and how often."""
    delays = st.lists(st.sampled_from([0.0, 0.1, 0.25, 3.0]), min_size=1, max_size=2)
    check_exact(ArrayJob(assignment, link=lambda *_: data.draw(delays)).run())


def test_packets_of_whole_subtrees_are_their_sums() -> None:
    """Two workers with two blocks each send one sum per variable, and to each other only."""
    job = ArrayJob(FixedBlockAssignment(2, 1, 4), batches=1).run()
    sent = [entry for entry in job.exchanges[0].accounts.entries() if entry.direction == "sent"]
    assert [(e.codec, e.variable, e.peer, e.packets, e.raw) for e in sent] == [
        ("Plain", 0, 1, 1, 4 * 12),
        ("Plain", 1, 1, 1, 4 * 4),
    ]


def test_a_codec_may_keep_packets_beyond_their_batch() -> None:
    """One that sends a batch later, say: the next batch changes none that was returned before."""
    kept: list[tuple[netEncapsulation, object]] = []

    class Keeping(Plain):
        def update_blocks(self, block_weight: BlockWeight) -> netEncapsulation | None:
            packet = super().update_blocks(block_weight)
            assert packet is not None
            kept.append((packet, packet.content))
            return packet

    check_exact(ArrayJob(IIDBlockAssignment(2), codec=Keeping, batches=3).run())
    assert len(kept) == 2 * 3 * len(SHAPES) and all(packet.content is content for packet, content in kept)


def test_copies_of_a_block_are_not_sent_to_its_holders() -> None:
    job = ArrayJob(DuplicateAssignment(4, 2), batches=1).run()
    assert {entry.peer for entry in job.exchanges[0].accounts.entries() if entry.direction == "sent"} == {2, 3}
    assert {entry.peer for entry in job.exchanges[0].accounts.entries() if entry.direction == "received"} == {2, 3}


@covers("SUB-31")
@pytest.mark.parametrize("assignment", [DuplicateAssignment(4, 2), IIDBlockAssignment(4, 2), FixedBlockAssignment(4, 2, 4)])
@pytest.mark.parametrize("dead", range(4))
def test_any_one_worker_may_die_with_two_copies(assignment: ISetting, dead: int) -> None:
    """The others go on without a time-out and with unchanged results."""
    job = ArrayJob(assignment, batches=4, ends_after={dead: 2}).run()
    assert len(job.results[dead]) == 2
    check_exact(job, nodes=set(range(4)) - {dead})
    assert job.clock.monotonic() == 0.0


@covers("SUB-31")
def test_a_slow_copy_is_not_waited_for() -> None:
    """What comes after its result was taken is dropped and counted."""
    job = ArrayJob(DuplicateAssignment(4, 2), batches=3, link=lambda sender, *_: (0.5,) if sender == 3 else (0.0,)).run()
    check_exact(job)
    assert job.clock.monotonic() == 0.0
    assert job.sync(0).late == 0  # nothing had arrived when the job ended, and it was accounted for as in flight


def test_a_single_block_goes_out_without_a_copy() -> None:
    content = np.ones((3, 4), np.float32)
    with GlobalSettings.use(IIDBlockAssignment(2)):
        packet = Plain(0).update_blocks(BlockWeight(content, 0))
    assert packet is not None
    assert packet.content[2] is content  # type: ignore[index]


def test_results_are_emptied_between_batches() -> None:
    with GlobalSettings.use(IIDBlockAssignment(2)):
        codec = Plain(0)
    for batch in range(2):
        assert codec.get_result() is None
        codec.update_blocks(BlockWeight(gradient(batch, 0, 0), 0))
        assert list(codec.missing_blocks()) == [1]
        codec.receive_blocks((1, 2, gradient(batch, 1, 0)))
        assert codec.get_result().tobytes() == expected(batch, 2)[0].tobytes()  # type: ignore[union-attr]


def test_a_repeated_packet_is_counted() -> None:
    with GlobalSettings.use(IIDBlockAssignment(3)):
        codec = Plain(0)
    codec.receive_blocks((1, 2, gradient(0, 1, 0)))
    codec.receive_blocks((1, 2, gradient(0, 1, 0)))
    assert codec.duplicates == 1


@covers("SUB-24")
def test_rescue_sends_own_sums_to_those_who_are_late() -> None:
    """The content of the first sending, to the workers whose blocks are missing."""
    with GlobalSettings.use(IIDBlockAssignment(3)):
        codec = Plain(0)
    codec.update_blocks(BlockWeight(gradient(0, 0, 0), 0))
    codec.receive_blocks((1, 2, gradient(0, 1, 0)))
    (packet,) = codec.do_something_to_save_yourself()  # type: ignore[misc]
    assert packet.targets == (2,)
    np.testing.assert_array_equal(packet.content[2], gradient(0, 0, 0))  # type: ignore[index]


def test_dispose_lets_go_of_everything() -> None:
    with GlobalSettings.use(IIDBlockAssignment(2)):
        codec = Plain(0)
    codec.update_blocks(BlockWeight(gradient(0, 0, 0), 0))
    codec.dispose()
    assert list(codec.missing_blocks()) == [0, 1]
    assert codec.do_something_to_save_yourself() is None


def test_dummy_codec_takes_the_mean_over_the_own_blocks() -> None:
    job = ArrayJob(FixedBlockAssignment(2, 1, 4), codec=DummyCodec).run()
    for node, blocks in enumerate([(0, 1), (2, 3)]):
        for batch, results in enumerate(job.results[node]):
            for variable in range(len(SHAPES)):
                wanted = tree_mean([gradient(batch, block, variable) for block in blocks])
                assert results[variable].tobytes() == wanted.tobytes()
    assert job.exchanges[0].accounts.entries() == []


def test_dummy_codec_refuses_packets() -> None:
    with GlobalSettings.use(IIDBlockAssignment(2)):
        codec = DummyCodec(0)
    with pytest.raises(TypeError, match="DummyCodec exchanges nothing, got a packet with tuple"):
        codec.receive_blocks((0, 1))


@covers("SUB-33")
def test_codecs_may_differ_per_variable() -> None:
    """Variable 1 stays local, variable 0 is exchanged by the default codec."""
    job = ArrayJob(IIDBlockAssignment(2), codec={1: DummyCodec}, batches=1).run()
    assert job.results[0][0][0].tobytes() == expected(0, 2)[0].tobytes()
    assert job.results[0][0][1].tobytes() == gradient(0, 0, 1).tobytes()
    assert {(entry.codec, entry.variable) for entry in job.exchanges[0].accounts.entries()} == {("Plain", 0)}
