"""Gossip and pairs, in step and asynchronous: the mean stays, what differs shrinks. Time is virtual."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from network.testing import VirtualClock
from nn.dataset import Digits
from nn.dataset.transforms import ImageCls
from nn.optimizer import ParameterAveragingOptimizer
from parallel_sgd import ParallelSGD, in_process
from parallel_sgd.batch_sync import AsynchronizedSGD, StaleSynchronous, SyncChoice, SynchronizedSGD
from parallel_sgd.codec import ADPSGD, BlockWeight, Codec, GlobalSettings
from parallel_sgd.codec.ad_psgd import PATIENCE
from parallel_sgd.codec.bank import CodecBank
from parallel_sgd.codec.compose import Gossip, RandomPair
from parallel_sgd.codec.pipeline import DiffRef, Int8, TopK
from parallel_sgd.codec.settings import JobSettings
from parallel_sgd.engine.channel import Wait
from parallel_sgd.engine.exchange import BlockExchange
from parallel_sgd.engine.worker import Worker
from parallel_sgd.profiles import DuplicateAssignment, FixedBlockAssignment, IIDBlockAssignment, ISetting
from parallel_sgd.simulation.immediate import Link, reliable
from parallel_sgd.simulation.kernel import MemoryChannel, run_in_process
from parallel_sgd.testing.array_job import ArrayJob, gradient
from tests.parallel_sgd.links import lost_once, without
from tests.parallel_sgd.networks import mlp


class Walk:
    """Workers that take what they got for their next value and step from there by `step`; `values` are those of each
    worker after each batch. A batch takes `pace(node)` seconds. It ends after so many `steps`; an asynchronous one, for
    which `steps` is None, with the batch in which `seconds` have passed, and takes in what is under way.
    """

    def __init__(
        self,
        kind: type[Codec],
        assignment: ISetting,
        steps: int | None = None,
        *,
        size: int = 6,
        link: Link = reliable,
        step: Callable[[int, int], Any] = lambda node, batch: 0.0,
        sync: SyncChoice = SynchronizedSGD,
        seconds: float = 0.0,
        pace: Callable[[int], float] = lambda node: 0.0,
    ) -> None:
        self.kind, self.assignment, self.steps, self.step = kind, assignment, steps, step
        self.sync, self.seconds, self.pace = sync, seconds, pace
        rng = np.random.default_rng(3)
        self.values = {node: [rng.standard_normal(size).astype(np.float32)] for node in assignment.nodes}
        self.taken = np.zeros(size)  # the sum of all own steps
        self.codecs: dict[int, Any] = {}
        self.clock = VirtualClock()
        run_in_process(dict.fromkeys(assignment.nodes, self._build), self.clock, link=link)

    def _build(self, channel: MemoryChannel) -> Worker:
        bank = CodecBank([self.kind], JobSettings(self.assignment), channel, 0)
        self.codecs[channel.node_id] = bank.codecs[0]
        exchange = BlockExchange(bank, self.sync(bank, 10.0, self.clock.monotonic, ("v",)))
        return Worker(None, exchange, self._train(channel.node_id, exchange))  # type: ignore[arg-type]

    def _pass(self, until: float) -> Iterator[Wait]:
        while self.clock.monotonic() < until:
            yield Wait(lambda: False, until, lambda: "its own computing")

    def _train(self, node: int, exchange: BlockExchange) -> Iterator[Wait]:
        mine, batch = self.values[node], 0
        while self.clock.monotonic() < self.seconds if self.steps is None else batch < self.steps:
            exchange.begin(0, batch)
            yield from self._pass(self.clock.monotonic() + self.pace(node))
            own = np.float32(1) * self.step(node, batch)
            self.taken += own
            for block in self.assignment.node_2_block[node]:
                exchange.put(0, block, (mine[-1] + own).astype(np.float32))
            yield from exchange.wait(0)
            mine.append(exchange.get(0).copy())
            batch += 1
        if self.steps is None:
            yield from self._pass(self.seconds + 20)
        return {}  # type: ignore[return-value]

    def at(self, step: int) -> np.ndarray:
        """The values of all workers, one per row."""
        return np.array([values[step] for values in self.values.values()], np.float64)

    def ends(self) -> np.ndarray:
        """What asynchronous workers have in the end, with the changes that they have not stepped from."""
        return np.array(
            [mine[-1] + self.codecs[node].state_dict().get("change", 0) for node, mine in self.values.items()], float
        )

    @property
    def batches(self) -> list[int]:
        return [len(mine) - 1 for mine in self.values.values()]


def noise(node: int, batch: int) -> np.ndarray:
    return np.random.default_rng((node, batch)).standard_normal(6).astype(np.float32)


def spread(values: np.ndarray) -> float:
    """How far workers are from their mean."""
    return float(np.linalg.norm(values - values.mean(axis=0)))


RING = Codec.of(Gossip("ring"), send="weights")
FOUR, FIVE = IIDBlockAssignment(4), IIDBlockAssignment(5)


@pytest.mark.parametrize(("workers", "rate"), [(4, 1 / 3), (8, (1 + 2 * np.cos(np.pi / 4)) / 3)])
def test_a_ring_comes_together_at_its_rate(workers: int, rate: float) -> None:
    """D-PSGD with eta = 0: ring of 4 at 1/3, of 8 at 0.805; the mean stays."""
    walk = Walk(RING, IIDBlockAssignment(workers), 12)
    for step in range(12):
        np.testing.assert_allclose(walk.at(step + 1).mean(axis=0), walk.at(0).mean(axis=0), atol=1e-6)
        assert spread(walk.at(step + 1)) <= spread(walk.at(step)) * rate * 1.001 + 1e-6
    assert spread(walk.at(10)) / spread(walk.at(9)) == pytest.approx(rate, abs=0.02) or spread(walk.at(9)) < 1e-3


@pytest.mark.parametrize("kind", [RING, Codec.of(RandomPair(), send="weights")])
def test_the_mean_steps_along_the_mean_gradient(kind: type[Codec]) -> None:
    """D-PSGD: the mean evolves as mean(x) - eta mean(g), to 1e-6, whoever mixes with whom."""
    walk = Walk(kind, FIVE, 20, step=lambda node, batch: np.float32(-0.3) * noise(node, batch))
    for step in range(20):
        mean = np.mean([noise(node, step) for node in range(5)], axis=0, dtype=np.float64)
        np.testing.assert_allclose(walk.at(step + 1).mean(axis=0), walk.at(step).mean(axis=0) - 0.3 * mean, atol=1e-6)
    assert spread(walk.at(20)) > 0.1


def test_a_matrix_is_applied() -> None:
    a = np.array([[0.5, 0.25, 0.25, 0], [0.25, 0.75, 0, 0], [0.25, 0, 0.25, 0.5], [0, 0, 0.5, 0.5]])
    walk = Walk(Codec.of(Gossip(a.tolist()), send="weights"), FOUR, 2)
    np.testing.assert_allclose(walk.at(1), a @ walk.at(0), atol=1e-6)
    np.testing.assert_allclose(walk.at(2), a @ a @ walk.at(0), atol=1e-6)


@pytest.mark.parametrize("inner", [TopK(0.4), Int8(4096)], ids=repr)
def test_compressed_gossip_comes_together_too(inner: Any) -> None:
    """CHOCO: through public copies, without losing the mean."""
    walk = Walk(Codec.of(Gossip("ring", gamma=0.4), up=DiffRef(inner), send="weights"), FOUR, 150, size=20)
    assert spread(walk.at(150)) < 1e-2 * spread(walk.at(0))
    np.testing.assert_allclose(walk.at(150).mean(axis=0), walk.at(0).mean(axis=0), atol=1e-5)


def test_pairs_conserve_the_sum_and_change() -> None:
    """AD-PSGD: 1000 exchanges of 5 workers with random delays, no deadlock; the pairs are those of all variables."""
    rng, kind = np.random.default_rng(0), Codec.of(RandomPair(), send="weights")
    walk = Walk(kind, FIVE, 500, link=lambda *_: (float(rng.random()),))
    for step in (1, 7, 500):
        np.testing.assert_allclose(walk.at(step).sum(axis=0), walk.at(0).sum(axis=0), atol=1e-5)
    assert spread(walk.at(500)) < 1e-5
    changed = [(walk.at(1)[node] != walk.at(0)[node]).any() for node in range(5)]
    assert sum(changed) == 4, "one of an odd number keeps what it has"
    partners, job = [], ArrayJob(FOUR, codec=kind, batches=6).run()
    for batch in range(6):
        for variable in range(2):
            values = [gradient(batch, node, variable) for node in range(4)]
            found = {
                frozenset((node, other))
                for node in range(4)
                for other in set(range(4)) - {node}
                if np.allclose(job.results[node][batch][variable], (values[node] + values[other]) / 2, rtol=1e-5)
            }
            assert len(found) == 2
            partners.append(frozenset(found))
    assert partners[::2] == partners[1::2] and len(set(partners)) > 1


@pytest.mark.parametrize("up", [None, DiffRef(TopK(0.5))], ids=repr)
def test_a_neighbour_s_lost_packet_is_rescued(up: Any) -> None:
    kind = Codec.of(Gossip("ring", gamma=0.5), up=up, send="weights")
    link = lost_once(lambda source, _, key: source == 0 and key[2] == 1)
    assert (Walk(kind, FOUR, 4, link=link).at(4) == Walk(kind, FOUR, 4).at(4)).all()
    with pytest.raises(TimeoutError, match=r"missing block\(s\) 1 of node\(s\) 1\b"):
        Walk(kind, FOUR, 2, link=without((1,)))


# AD-PSGD: nobody waits -----------------------------------------------------------------------------------------------


def gossip(workers: int, seconds: float, pace: Any = None, **settings: Any) -> Walk:
    """A walk of two blocks for each worker, at uneven paces unless told."""
    rng = np.random.default_rng(1)
    pace = pace or (lambda node: float(rng.uniform(0.05, 0.3) * (node + 1)))
    settings = {"sync": AsynchronizedSGD, **settings}
    return Walk(ADPSGD, FixedBlockAssignment(workers, 1, 2 * workers), seconds=seconds, pace=pace, **settings)


def slow(copies: int = 1) -> Callable[[int, int, tuple[int, ...]], Sequence[float]]:
    rng = np.random.default_rng(2)
    return lambda *_: tuple(rng.uniform(0, 0.4, copies).tolist())


@pytest.mark.parametrize("step", [0.0, 0.5])
@pytest.mark.share(2)
def test_a_thousand_exchanges_with_random_delays_conserve_the_sum(step: float) -> None:
    """AD-PSGD: W = 5, every pair; what workers learn meanwhile is kept, to 1e-6 of it, and nobody is stuck."""
    walk = gossip(5, 300.0, link=slow(), step=lambda node, batch: np.float32(step) * noise(node, batch))
    halves = [sum(codec.exchanges for node, codec in walk.codecs.items() if node % 2 == side) for side in (0, 1)]
    assert halves[0] == halves[1] > 1000 and min(walk.batches) > 100
    scale = np.abs(walk.at(0)).sum() + step * sum(walk.batches)
    np.testing.assert_allclose(walk.ends().sum(axis=0), walk.at(0).sum(axis=0) + walk.taken, atol=1e-6 * scale)
    if not step:
        assert np.ptp(walk.ends(), axis=0).max() < 1e-5, "without steps all come together"


def test_a_slow_worker_slows_nobody() -> None:
    """And one that is passive answers as often as it looks."""
    even, uneven = gossip(4, 50.0, lambda node: 1.0), gossip(4, 50.0, lambda node: 10.0 if node == 3 else 1.0)
    assert even.batches[:3] == uneven.batches[:3] == [50] * 3
    assert uneven.batches[3] == 5


def test_repeated_packets_change_nothing_and_slack_is_kept() -> None:
    walk = gossip(4, 30.0, link=slow(copies=2))
    np.testing.assert_allclose(walk.ends().sum(axis=0), walk.at(0).sum(axis=0), atol=1e-5)
    assert all(codec.duplicates > 0 for codec in walk.codecs.values())
    walk = gossip(4, 40.0, link=slow(), sync=StaleSynchronous(3))
    np.testing.assert_allclose(walk.ends().sum(axis=0), walk.at(0).sum(axis=0), atol=1e-5)
    assert max(walk.batches) - min(walk.batches) <= 4


def pair() -> tuple[ADPSGD, ADPSGD]:
    """An active worker and a passive one."""
    with GlobalSettings.use(IIDBlockAssignment(2)):
        return ADPSGD(0), ADPSGD(1)


def put(codec: ADPSGD, *own: float) -> Any:
    return codec.update_blocks(BlockWeight(np.float32(own), codec.node_id))


def test_two_workers_meet_in_the_middle() -> None:
    active, passive = pair()
    assert put(passive, 8, 2) is None
    question = put(active, 0, 4)
    assert question.targets == (1,)
    assert put(active, 0, 4) is None, "one question at a time"
    answer: Any = passive.receive_blocks(question.content)
    assert answer.targets == (0,)
    active.receive_blocks(answer.content)
    for codec, own, met in ((active, (1, 5), [5, 4]), (passive, (9, 2), [5, 3])):  # each has made a step of its own meanwhile
        put(codec, *own)
        result: Any = codec.get_result()
        assert result.tolist() == met


def test_one_that_is_not_answered_asks_again() -> None:
    """Its partner may have left; a late answer still counts, once."""
    active, passive = pair()
    put(passive, 2)
    asked = [put(active, 0) for _ in range(PATIENCE + 1)]
    assert [question is not None for question in asked] == [True, *[False] * (PATIENCE - 1), True]
    answers: list[Any] = [passive.receive_blocks(question.content) for question in (asked[0], asked[-1], asked[0])]
    assert answers[2] is None and passive.duplicates == 1
    for answer in (*answers[:2], answers[0]):
        active.receive_blocks(answer.content)
    assert active.duplicates == 1
    assert [codec.state_dict()["change"].tolist() for codec in (active, passive)] == [[1.5], [-1.5]]


def test_it_goes_on_from_its_state() -> None:
    (_, one), (_, two) = pair(), pair()
    put(one, 2)
    one.receive_blocks((0, 4, np.float32([6])))
    two.load_state_dict(one.state_dict())
    for codec in (one, two):
        put(codec, 3)
        assert codec.get_result().tolist() == [5]  # type: ignore[union-attr]
    assert two.receive_blocks((0, 3, np.float32([7]))) is not None, "the one that asks may have gone back further"
    with pytest.raises(ValueError, match="remembers nothing, got x"):
        two.load_state_dict({"x": 1})


@pytest.mark.parametrize(
    ("settings", "message"),
    [
        (
            {"sync_type": SynchronizedSGD},
            "packets of any batch, but 'sync_type' SynchronizedSGD keeps batches apart: take Async",
        ),
        ({"sync_type": StaleSynchronous(0)}, r"'sync_type' StaleSynchronous\(0\) keeps batches apart"),
        ({"op_type": None}, "'codec' ADPSGD takes parameters, but 'op_type' PSGDOptimizer puts gradients"),
        ({"assignment_type": DuplicateAssignment, "redundancy": 2}, "exchanges parameters of single workers, so 'redundancy'"),
    ],
)
def test_what_cannot_work_is_refused(settings: dict[str, Any], message: str, tmp_path: Path) -> None:
    settings = {"op_type": ParameterAveragingOptimizer, "sync_type": AsynchronizedSGD, "codec": ADPSGD, **settings}
    settings = {name: value for name, value in settings.items() if value is not None}
    with in_process(2) as nodes, pytest.raises(ValueError, match=message):
        ParallelSGD(mlp(), Digits(), ImageCls()).parallel(nodes, directory=tmp_path, epoch=1, **settings)
