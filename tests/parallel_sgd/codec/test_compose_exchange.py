"""Exchange patterns: bits, bytes, what is repeated, late, lost, or of somebody else."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

from parallel_sgd import Parameter_Server
from parallel_sgd.codec import BlockWeight, Codec, GlobalSettings, Plain
from parallel_sgd.codec.compose import PS, AllToAll, Delay, Ring, ShardedPS, Tree, Warmup, WeightedMean
from parallel_sgd.codec.pipeline import QSGD, ErrorFeedback, Int8, PayloadError, RandomK, Sign, TopK
from parallel_sgd.profiles import DuplicateAssignment, FixedBlockAssignment, IIDBlockAssignment, ISetting
from parallel_sgd.testing.array_job import expected, gradient
from tests.parallel_sgd.codec.compositions import bits, check_exact, codec_of, run
from tests.parallel_sgd.links import lost_once, without

ALONE = [IIDBlockAssignment(1), IIDBlockAssignment(3), FixedBlockAssignment(2, 1, 4), FixedBlockAssignment(5, 1, 8)]
SHARED = [DuplicateAssignment(4, 2), IIDBlockAssignment(4, 2)]
DENSE = [AllToAll(), PS(), Ring(), Ring(smallest=1), ShardedPS(smallest=1), ShardedPS(smallest=3)]


@pytest.mark.parametrize("assignment", ALONE + SHARED)
@pytest.mark.parametrize("exchange", DENSE, ids=repr)
def test_without_stages_every_pattern_has_the_bits_of_plain(exchange: Any, assignment: ISetting) -> None:
    check_exact(run(Codec.of(exchange), assignment))


@pytest.mark.parametrize("assignment", [*ALONE, IIDBlockAssignment(8)])
def test_a_tree_of_workers_has_the_bits_of_plain(assignment: ISetting) -> None:
    check_exact(run(Codec.of(Tree()), assignment))


def test_a_tree_refuses_shared_blocks() -> None:
    with pytest.raises(ValueError, match=r"Tree has one way for each block: use AllToAll\(\)"):
        run(Codec.of(Tree(), name="Tree"), DuplicateAssignment(4, 2))


def raw(job: Any, node: int, direction: str = "sent") -> int:
    """Bytes of arrays that a worker has sent per batch."""
    size: int = job.exchanges[node].accounts.total(direction).raw
    return size // job.batches


PAYLOADS = [
    (None, 4 * 12 + 4 * 4),
    (Int8(4096), 12 + 4 + 4 + 4),
    (QSGD(4, bucket=8), (6 + 8) + (2 + 4)),
    (ErrorFeedback(Sign()), (2 + 4) + (1 + 4)),
    (RandomK(0.25), 4 * 3 + 4 * 1),
]


@pytest.mark.parametrize(("up", "size"), PAYLOADS, ids=repr)
def test_payload_bytes_on_the_wire(up: Any, size: int) -> None:
    """codecs.md: exact bytes, W - 1 payloads all to all, one to a server."""
    assert [raw(run(Codec.of(AllToAll(), up=up), IIDBlockAssignment(3)), node) for node in range(3)] == [2 * size] * 3
    assert [raw(run(Codec.of(PS(), up=up), IIDBlockAssignment(3)), node) for node in range(3)] == [size] * 3


@pytest.mark.parametrize("exchange", [Ring(smallest=1), ShardedPS(smallest=1)], ids=repr)
def test_bytes_of_a_ring(exchange: Any) -> None:
    """2 (W - 1) / W payloads per worker; 12 and 4 elements are cut evenly among 4."""
    job = run(Codec.of(exchange), IIDBlockAssignment(4))
    assert [raw(job, node) for node in range(4)] == [2 * 3 * 4 * 16 // 4] * 4


def test_bytes_of_a_tree() -> None:
    """Up once but for the root; down to each child: of 4 workers 0 has the children 1 and 2, and 2 has 3."""
    job = run(Codec.of(Tree()), IIDBlockAssignment(4))
    assert [raw(job, node) // 64 for node in range(4)] == [2, 1, 2, 1]


def test_what_a_packet_adds_to_its_payload() -> None:
    """codecs.md: at most 32 bytes beside the frame of an array; a Plain packet has the frame and two numbers."""
    plain = run(Plain, IIDBlockAssignment(3)).exchanges[0].accounts.total("sent")
    for kind in (Codec.of(AllToAll()), Codec.of(AllToAll(), up=Int8())):
        total = run(kind, IIDBlockAssignment(3)).exchanges[0].accounts.total("sent")
        assert (total.overhead - plain.overhead) / (2 * 2 * 3) <= 32


def test_variables_of_few_elements_have_few_shards_whose_owners_take_turns() -> None:
    pattern = ShardedPS()
    assignment = IIDBlockAssignment(4)
    assert [tuple(shard) for shard in pattern.shards(2048, assignment, 3)] == [(0, 1024, 3), (1024, 2048, 0)]
    assert [tuple(shard) for shard in pattern.shards(10, assignment, 5)] == [(0, 10, 1)]
    assert [shard.stop - shard.start for shard in pattern.shards(4097, assignment, 0)] == [1024, 1024, 1024, 1025]


LOSSY = [
    Codec.of(AllToAll(), up=ErrorFeedback(TopK(0.3))),
    Codec.of(PS(), up=QSGD(4, bucket=8), down=ErrorFeedback(Sign())),
    Codec.of(
        ShardedPS(smallest=1),
        up=ErrorFeedback(TopK(0.3) | Int8()),
        down=ErrorFeedback(Int8()),
    ),
    Codec.of(Ring(smallest=1), up=RandomK(0.5)),
    Codec.of(Tree(), up=RandomK(0.5)),
]


LOSSES = [(kind, node) for kind in LOSSY for node in (0, 1, 2, Parameter_Server) if node >= 0 or kind.needs_server]


@pytest.mark.parametrize(("kind", "sender"), LOSSES, ids=repr)
def test_lost_packets_are_rescued_from_any_node(kind: type[Codec], sender: int) -> None:
    """Law 7: the same bits as without a loss, after one time-out."""
    assignment = IIDBlockAssignment(3)
    job = run(kind, assignment, link=lost_once(lambda source, _, key: source == sender and key[2] == 1))
    assert bits(job) == bits(run(kind, assignment))
    assert 10.0 <= job.clock.monotonic() <= 20.0


@pytest.mark.parametrize("kind", LOSSY, ids=repr)
def test_repeated_packets_change_nothing_and_are_counted(kind: type[Codec]) -> None:
    assignment = IIDBlockAssignment(3)
    job = run(kind, assignment, link=lambda *_: (0.0, 0.0))
    assert bits(job) == bits(run(kind, assignment))
    codecs = [codec_of(job, node, variable) for node in range(3) for variable in range(2)]
    assert sum(codec.duplicates + codec.late for codec in codecs) > 0


def test_a_time_out_names_the_blocks_that_are_missing() -> None:
    for kind in (Codec.of(AllToAll(), up=Int8()), Codec.of(PS(), up=Int8())):
        with pytest.raises(TimeoutError, match=r"the retry did not help.*missing block\(s\) 1 of node\(s\) 1\b"):
            run(kind, IIDBlockAssignment(3), link=without((1,)))


def test_a_packet_of_another_composition_is_an_error() -> None:
    """codecs.md: a fingerprint mismatch raises."""
    ours, theirs = (
        Codec.of(AllToAll(), up=QSGD(8), name="Ours"),
        Codec.of(AllToAll(), up=QSGD(4), name="Theirs"),
    )
    with GlobalSettings.use(IIDBlockAssignment(2)):
        sender, receiver = theirs(0), ours(1)
        (packet,) = sender.update_blocks(BlockWeight(np.ones(600, np.float32), 0))
        with pytest.raises(PayloadError, match=r"Ours of variable 0 has the fingerprint .* a packet of node\(0\) has"):
            receiver.receive_blocks(packet.content)
        with pytest.raises(PayloadError, match="that no composed codec has sent, of type ndarray"):
            receiver.receive_blocks(np.ones(3))


def test_parameters_are_part_of_the_fingerprint() -> None:
    kind = Codec.of(AllToAll(), up=lambda: QSGD(GlobalSettings.get_params("bits", 8)))
    with GlobalSettings.use(IIDBlockAssignment(2)):
        eight = kind(0)
    with GlobalSettings.use(IIDBlockAssignment(2), {"bits": 4}):
        four = kind(0)
    assert eight.fingerprint != four.fingerprint  # type: ignore[attr-defined]


def test_a_server_goes_on_without_some_where_a_quorum_allows_it() -> None:
    """codecs.md: one worker missing with quorum 3/4 completes; the rest counts by its weight."""
    kind = Codec.of(PS(quorum=0.75), merge=WeightedMean())
    job = run(kind, IIDBlockAssignment(4), link=lambda sender, _, key: () if sender == 3 and key[2] == 1 else (0.0,))
    wanted = np.mean([gradient(1, block, 0) for block in range(3)], axis=0)
    for node in range(4):
        np.testing.assert_allclose(job.results[node][1][0], wanted, rtol=1e-6)
        np.testing.assert_allclose(job.results[node][2][0], expected(2, 4)[0], rtol=1e-5)
    with pytest.raises(TimeoutError):
        run(kind, IIDBlockAssignment(4), link=lambda sender, *_: () if sender > 1 else (0.0,))


def test_a_server_that_was_left_behind_says_so() -> None:
    kind = Codec.of(PS(), up=Int8(), name="Served")
    with GlobalSettings.use(IIDBlockAssignment(2)) as job:
        job.step = (0, 0)
        server, workers = kind(Parameter_Server), [kind(0), kind(1)]
        (first,) = list(workers[0].update_blocks(BlockWeight(np.ones(3, np.float32), 0)))
        server.receive_blocks(first.content)
        job.step = (0, 1)
        (second,) = list(workers[1].update_blocks(BlockWeight(np.ones(3, np.float32), 1)))
        with pytest.raises(ValueError, match=r"Served: node\(1\) is in epoch 1, batch 2 of variable 0 already"):
            server.receive_blocks(second.content)
        with pytest.raises(TypeError, match="Served on the parameter server computes no blocks"):
            server.update_blocks(BlockWeight(np.ones(3, np.float32), 0))


@pytest.mark.parametrize("exchange", [AllToAll(), Ring(smallest=1), ShardedPS(smallest=1)], ids=repr)
@pytest.mark.parametrize("link", [lambda *_: (0.0,), lambda sender, *_: (0.01 * (sender + 1),)])
def test_a_delay_gives_the_results_of_the_batch_before(exchange: Any, link: Any) -> None:
    for assignment in ALONE:
        job = run(Codec.of(exchange, trigger=Delay(1)), assignment, batches=5, link=link)
        for node in assignment.nodes:
            exchange_ = job.exchanges[node]
            units = assignment.block_count  # dense sums are counted in blocks
            assert exchange_.bank.staleness == {1: 2 * 4 * units}, "two variables, four results, each one batch old"
            assert not any(value.any() for value in job.results[node][0])
            for batch in range(1, 5):
                wanted = expected(batch - 1, assignment.block_count)
                assert [value.tobytes() for value in job.results[node][batch]] == [value.tobytes() for value in wanted]


def test_a_warm_up_is_dense() -> None:
    for exchange in (AllToAll(), PS(), ShardedPS(smallest=1)):
        kind = Codec.of(exchange, up=ErrorFeedback(TopK(0.1)), trigger=Warmup(2))
        job = run(kind, IIDBlockAssignment(3), batches=4)
        for batch in range(4):
            np_wanted = expected(batch, 3)[0]
            close = np.allclose(job.results[0][batch][0], np_wanted, rtol=1e-5)
            assert close == (batch < 2)
