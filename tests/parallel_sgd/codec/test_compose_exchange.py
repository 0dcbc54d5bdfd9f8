"""Exchange patterns: bits, bytes, what is repeated, late, lost, skipped, or of somebody else."""

from __future__ import annotations

from math import ceil, comb
from typing import Any

import numpy as np
import pytest

from parallel_sgd import Parameter_Server
from parallel_sgd import codec as codecs
from parallel_sgd.codec import LAQ, BlockWeight, Codec, GlobalSettings, Plain
from parallel_sgd.codec.compose import PS, AllToAll, Delay, FirstCopy, Lazy, Ring, ShardedPS, Tree, Warmup, WeightedMean
from parallel_sgd.codec.pipeline import QSGD, DiffRef, ErrorFeedback, Grid, Int8, PayloadError, RandomK, Sign, TopK
from parallel_sgd.profiles import CyclicAssignment, DuplicateAssignment, FixedBlockAssignment, IIDBlockAssignment, ISetting
from parallel_sgd.testing.array_job import expected, gradient
from tests.parallel_sgd.codec.compositions import ByHand, bits, check_exact, codec_of, run
from tests.parallel_sgd.links import lost_once, without
from tests.statements import covers

THREE, FOUR = IIDBlockAssignment(3), IIDBlockAssignment(4)
ALONE = [IIDBlockAssignment(1), THREE, FixedBlockAssignment(2, 1, 4), FixedBlockAssignment(5, 1, 8)]
SHARED = [DuplicateAssignment(4, 2), IIDBlockAssignment(4, 2)]
DENSE = [AllToAll(), PS(), Ring(), Ring(smallest=1), ShardedPS(smallest=1), ShardedPS(smallest=3)]


@pytest.mark.parametrize("exchange", [*DENSE, Tree()], ids=repr)
def test_without_stages_every_pattern_has_the_bits_of_plain(exchange: Any) -> None:
    for assignment in ALONE + ([IIDBlockAssignment(8)] if isinstance(exchange, Tree) else SHARED):
        check_exact(run(Codec.of(exchange), assignment))


@pytest.mark.parametrize(
    ("up", "size"),
    [
        (None, 4 * 12 + 4 * 4),
        (Int8(4096), 12 + 4 + 4 + 4),
        (QSGD(4, bucket=8), (6 + 8) + (2 + 4)),
        (ErrorFeedback(Sign()), (2 + 4) + (1 + 4)),
        (RandomK(0.25), 4 * 3 + 4 * 1),
    ],
    ids=repr,
)
def test_payload_bytes_on_the_wire(up: Any, size: int) -> None:
    """Exact bytes, W - 1 payloads all to all, one to a server."""
    assert sent(Codec.of(AllToAll(), up=up), THREE, shapes=((3, 4), (4,))) == [2 * size] * 3
    assert sent(Codec.of(PS(), up=up), THREE, shapes=((3, 4), (4,))) == [size] * 3


N, BATCHES = 4000, 6
FirstCopyPS = Codec.of(PS(), merge=FirstCopy(), name="FirstCopyPS")


def sent(kind: type[Codec], assignment: ISetting, shapes: Any = ((N,),), **parameters: Any) -> list[float]:
    """Bytes of arrays that each worker sends per batch, over all targets."""
    job = run(kind, assignment, batches=BATCHES, shapes=shapes, parameters={"learn_rate": 0.1, **parameters})
    return [job.exchanges[node].accounts.total("sent").raw / BATCHES for node in assignment.nodes]


@pytest.mark.parametrize(
    ("kind", "assignment", "parameters", "size"),
    [
        *(
            (kind, FOUR, {"local_batches": h}, 4 * N / h)
            for kind in (codecs.FedAvg, codecs.DiLoCoPS, codecs.FedProx)
            for h in (1, 3)
        ),
        (codecs.SCAFFOLD, FOUR, {"local_batches": 3}, 8 * N / 3),
        (codecs.DPSGD, FOUR, {}, 2 * 4 * N),
        (codecs.RandomPair, FOUR, {}, 4 * N),
        # FirstCopy over IID(W, r): C(W - 1, r - 1) packets, each to the W - r workers without the block
        *(
            (codecs.FirstCopyInt8, IIDBlockAssignment(w, r), {}, comb(w - 1, r - 1) * (w - r) * (N + 4))
            for w, r in ((4, 2), (5, 3))
        ),
        # FRC / cyclic code: 4n per worker, however many stragglers they bear
        *((kind, DuplicateAssignment(8, r), {}, 4 * N) for kind in (codecs.SyncPS, FirstCopyPS) for r in (1, 2, 4)),
        *((codecs.GradCode, CyclicAssignment(5, r), {}, 4 * N) for r in (1, 2, 4)),
        *((codecs.GradCodePeers, CyclicAssignment(5, r), {}, 4 * 4 * N) for r in (1, 2, 4)),
    ],
)
def test_bytes_of_whole_exchanges(kind: type[Codec], assignment: ISetting, parameters: dict[str, Any], size: float) -> None:
    """Codecs that are made of more than stages; what a packet adds stands in no array."""
    assert sent(kind, assignment, **parameters) == [size] * assignment.node_count


def test_bytes_of_shards_and_trees() -> None:
    """2 (W - 1) / W payloads in a ring; `OneBitAdam` one bit and the scale of each shard; a tree: up once but for the root, and
    down to each child: of 4 workers 0 has the children 1 and 2, and 2 has 3."""
    for exchange in (Ring(smallest=1), ShardedPS(smallest=1)):  # 12 and 4 elements are cut evenly among 4
        assert sent(Codec.of(exchange), FOUR, shapes=((3, 4), (4,))) == [2 * 3 * 4 * 16 // 4] * 4
    for kind in (codecs.Ring, codecs.ShardedPS, codecs.SMA):
        assert sum(sent(kind, FOUR)) == pytest.approx(4 * 2 * 3 / 4 * 4 * N)
    shards = 3  # of at least 1024 elements
    ones = sum(ceil((N * (i + 1) // shards - N * i // shards) / 8) + 4 for i in range(shards))
    total = (2 * 3 * 4 * N + (BATCHES - 1) * 2 * 3 * ones) / BATCHES
    assert sum(sent(codecs.OneBitAdam, FOUR, warmup=1)) == pytest.approx(total)
    assert [size / 64 for size in sent(Codec.of(Tree()), FOUR, shapes=((3, 4), (4,)))] == [2, 1, 2, 1]
    for workers, copies in ((4, 2), (5, 3)):
        assert sent(FirstCopyPS, IIDBlockAssignment(workers, copies))[0] <= comb(workers - 1, copies - 1) * 4 * N


def test_what_a_packet_adds_to_its_payload() -> None:
    """At most 32 bytes beside the frame of an array; a Plain packet has the frame and two numbers."""
    plain = run(Plain, THREE).exchanges[0].accounts.total("sent")
    for kind in (Codec.of(AllToAll()), Codec.of(AllToAll(), up=Int8())):
        total = run(kind, THREE).exchanges[0].accounts.total("sent")
        assert (total.overhead - plain.overhead) / (2 * 2 * 3) <= 32


def test_variables_of_few_elements_have_few_shards_whose_owners_take_turns() -> None:
    shards = ShardedPS().shards
    assert [tuple(shard) for shard in shards(2048, FOUR, 3)] == [(0, 1024, 3), (1024, 2048, 0)]
    assert [tuple(shard) for shard in shards(10, FOUR, 5)] == [(0, 10, 1)]
    assert [shard.stop - shard.start for shard in shards(4097, FOUR, 0)] == [1024, 1024, 1024, 1025]


LOSSY = [
    Codec.of(AllToAll(), up=ErrorFeedback(TopK(0.3))),
    Codec.of(PS(), up=QSGD(4, bucket=8), down=ErrorFeedback(Sign())),
    Codec.of(ShardedPS(smallest=1), up=ErrorFeedback(TopK(0.3) | Int8()), down=ErrorFeedback(Int8())),
    Codec.of(Ring(smallest=1), up=RandomK(0.5)),
    Codec.of(Tree(), up=RandomK(0.5)),
]


@covers("LAW-7")
@pytest.mark.parametrize("kind", LOSSY, ids=repr)
def test_lost_and_repeated_packets_of_any_node_change_nothing(kind: type[Codec]) -> None:
    """The same bits, after one time-out; what is repeated is counted."""
    calm = bits(run(kind, THREE))
    for sender in (0, 1, 2, Parameter_Server) if kind.traits.needs_server else (0, 1, 2):
        job = run(kind, THREE, link=lost_once(lambda source, _, key, sender=sender: source == sender and key[2] == 1))
        assert bits(job) == calm
        assert 10.0 <= job.clock.monotonic() <= 20.0
    job = run(kind, THREE, link=lambda *_: (0.0, 0.0))
    assert bits(job) == calm
    own = [codec_of(job, node, variable) for node in range(3) for variable in range(2)]
    assert sum(codec.duplicates + codec.late for codec in own) > 0


def test_a_time_out_names_the_blocks_that_are_missing() -> None:
    for kind in (Codec.of(AllToAll(), up=Int8()), Codec.of(PS(), up=Int8())):
        with pytest.raises(TimeoutError, match=r"the retry did not help.*missing block\(s\) 1 of node\(s\) 1\b"):
            run(kind, THREE, link=without((1,)))


def test_a_packet_of_another_composition_is_an_error() -> None:
    """A fingerprint mismatch raises."""
    ours, theirs = (Codec.of(AllToAll(), up=QSGD(width), name=name) for width, name in ((8, "Ours"), (4, "Theirs")))
    with GlobalSettings.use(IIDBlockAssignment(2)):
        sender, receiver = theirs(0), ours(1)
        (packet,) = sender.update_blocks(BlockWeight(np.ones(600, np.float32), 0))  # type: ignore[misc]
        for content, message in (
            (packet.content, r"Ours of variable 0 has the fingerprint .* a packet of node\(0\) has"),
            (np.ones(3), "that no composed codec has sent, of type ndarray"),
        ):
            with pytest.raises(PayloadError, match=message):
                receiver.receive_blocks(content)


def test_a_server_goes_on_without_some_where_a_quorum_allows_it() -> None:
    """One worker missing with quorum 3/4 completes; the rest counts by its weight."""
    kind = Codec.of(PS(quorum=0.75), merge=WeightedMean())
    job = run(kind, FOUR, link=lambda sender, _, key: () if sender == 3 and key[2] == 1 else (0.0,))
    wanted = np.mean([gradient(1, block, 0) for block in range(3)], axis=0)
    for node in range(4):
        np.testing.assert_allclose(job.results[node][1][0], wanted, rtol=1e-6)
        np.testing.assert_allclose(job.results[node][2][0], expected(2, 4)[0], rtol=1e-5)
    with pytest.raises(TimeoutError):
        run(kind, FOUR, link=lambda sender, *_: () if sender > 1 else (0.0,))


def test_a_server_that_was_left_behind_says_so() -> None:
    kind, ones = Codec.of(PS(), up=Int8(), name="Served"), np.ones(3, np.float32)
    with GlobalSettings.use(IIDBlockAssignment(2)) as job:
        job.step = (0, 0)
        server, workers = kind(Parameter_Server), [kind(0), kind(1)]
        (first,) = workers[0].update_blocks(BlockWeight(ones, 0))  # type: ignore[misc]
        server.receive_blocks(first.content)
        job.step = (0, 1)
        (second,) = workers[1].update_blocks(BlockWeight(ones, 1))  # type: ignore[misc]
        with pytest.raises(ValueError, match=r"Served: node\(1\) is in epoch 1, batch 2 of variable 0 already"):
            server.receive_blocks(second.content)
        with pytest.raises(TypeError, match="Served on the parameter server computes no blocks"):
            server.update_blocks(BlockWeight(ones, 0))


@pytest.mark.parametrize("exchange", [AllToAll(), Ring(smallest=1), ShardedPS(smallest=1)], ids=repr)
@pytest.mark.parametrize("link", [lambda *_: (0.0,), lambda sender, *_: (0.01 * (sender + 1),)])
def test_a_delay_gives_the_results_of_the_batch_before(exchange: Any, link: Any) -> None:
    for assignment in ALONE:
        job = run(Codec.of(exchange, trigger=Delay(1)), assignment, batches=5, link=link)
        for node in assignment.nodes:
            units = assignment.block_count  # dense sums are counted in blocks
            assert job.exchanges[node].bank.staleness == {1: 2 * 4 * units}, "two variables, four results, each one batch old"
            assert not any(value.any() for value in job.results[node][0])
            for batch in range(1, 5):
                wanted = expected(batch - 1, assignment.block_count)
                assert [value.tobytes() for value in job.results[node][batch]] == [value.tobytes() for value in wanted]


def test_a_warm_up_is_dense() -> None:
    for exchange in (AllToAll(), PS(), ShardedPS(smallest=1)):
        job = run(Codec.of(exchange, up=ErrorFeedback(TopK(0.1)), trigger=Warmup(2)), THREE, batches=4)
        for batch in range(4):
            close = np.allclose(job.results[0][batch][0], expected(batch, 3)[0], rtol=1e-5)
            assert close == (batch < 2)


class Regression:
    """Logistic regression on four workers with whole data: convex, without noise."""

    def __init__(self, kind: type[Codec], steps: int = 400) -> None:
        rng = np.random.default_rng(5)
        x = rng.standard_normal((4, 50, 10)) * rng.uniform(0.3, 1.5, (4, 1, 1))
        truth = rng.standard_normal(10)
        self.x, self.y = x, np.where(x @ truth + rng.normal(0, 1, x.shape[:2]) > 0, 1.0, -1.0)
        self.fleet = ByHand(kind, 4, value=np.zeros(10, np.float32))
        w, self.losses = np.zeros(10), []
        for _ in range(steps):
            results = self.fleet.exchange([self.gradient(node, w).astype(np.float32) for node in range(4)])
            assert len({result.tobytes() for result in results}) == 1
            w = w - results[0]
            self.losses.append(float(np.log1p(np.exp(-self.y * (self.x @ w))).mean() + 5e-3 * w @ w))

    def gradient(self, node: int, w: np.ndarray) -> np.ndarray:
        margin = self.y[node] * (self.x[node] @ w)
        return -(self.x[node] * (self.y[node] / (1 + np.exp(margin)))[:, None]).mean(axis=0) + 1e-2 * w


@pytest.mark.long
def test_few_lazy_uploads_reach_the_optimum_and_both_sides_know_them() -> None:
    """LAQ: f - f* <= 1e-3 with at most 30 % of the uploads of gradient descent; the server merges the sum of all."""
    best = min(Regression(Codec.of(AllToAll()), steps=2000).losses)
    lazy, eager = Regression(LAQ), Regression(Codec.of(AllToAll()))
    reached = [next(step for step, loss in enumerate(run.losses) if loss - best <= 1e-3) for run in (lazy, eager)]
    assert lazy.losses[-1] - best <= 1e-3 and reached[0] <= 2 * reached[1]
    assert lazy.fleet.payloads <= 0.3 * 4 * len(lazy.losses)
    server = lazy.fleet.codecs[Parameter_Server].encoders.uploads.state_dict()
    for node in range(4):
        own = lazy.fleet.codecs[node].encoders.uploads
        np.testing.assert_array_equal(own.state_dict()[f"upload.{node}"], server[f"upload.{node}"])
        assert own.skipped > 0


@pytest.mark.parametrize("exchange", [AllToAll(), PS()], ids=repr)
def test_without_patience_a_lazy_trigger_is_difference_coding(exchange: Any) -> None:
    """LAQ with xi = 0 and t_max = 1 is quantized gradient descent."""
    lazy = Codec.of(exchange, up=Grid(4), trigger=Lazy(xi=0, most=1))
    assert bits(run(lazy, THREE, batches=6)) == bits(run(Codec.of(exchange, up=DiffRef(Grid(4))), THREE, batches=6))


def test_a_skipped_packet_has_no_payload() -> None:
    job = run(Codec.of(PS(), up=Grid(4), trigger=Lazy(xi=1e12, most=3)), THREE, batches=7)
    uploads = codec_of(job).encoders.uploads
    assert (uploads.sent, uploads.skipped) == (3, 4), "batches 0, 3 and 6"
    assert job.server_bank.codecs[0].staleness == {0: 3 * 3, 1: 2 * 3, 2: 2 * 3}, "uploads of three workers, used again"
    assert job.exchanges[0].accounts.total("sent").raw == 3 * ((4 + 6) + (4 + 2))
