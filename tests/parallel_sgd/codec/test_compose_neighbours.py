"""Gossip and pairs: the mean stays, what differs shrinks."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import numpy as np
import pytest

from network.testing import VirtualClock
from parallel_sgd.channel import Wait
from parallel_sgd.codec import Codec
from parallel_sgd.codec.bank import CodecBank
from parallel_sgd.codec.choice import choose_codecs
from parallel_sgd.codec.compose import Gossip, RandomPair
from parallel_sgd.codec.pipeline import DiffRef, Int8, TopK
from parallel_sgd.codec.settings import JobSettings
from parallel_sgd.in_process_scheduler import Link, MemoryChannel, reliable, run_in_process
from parallel_sgd.profiles import IIDBlockAssignment
from parallel_sgd.testing.array_job import ArrayJob, BlockExchange, SynchronizedSGD, Worker, gradient
from tests.parallel_sgd.links import lost_once, without


class Walk:
    """Workers that take what they got for their next value: gradient descent with a learning rate of 0."""

    def __init__(
        self, kind: type[Codec], workers: int, steps: int, link: Link = reliable, size: int = 6, rate: float = 0.0
    ) -> None:
        self.assignment = IIDBlockAssignment(workers)
        self.kind, self.steps, self.rate = kind, steps, rate
        rng = np.random.default_rng(3)
        self.values = {node: [rng.standard_normal(size).astype(np.float32)] for node in range(workers)}
        self.clock = VirtualClock()
        run_in_process(dict.fromkeys(range(workers), self._build), self.clock, link=link)

    def _build(self, channel: MemoryChannel) -> Worker:
        bank = CodecBank(choose_codecs(self.kind, self.kind, 1), JobSettings(self.assignment), channel, 0)
        exchange = BlockExchange(bank, SynchronizedSGD(bank, 10.0, self.clock.monotonic, ("v",)))
        return Worker(None, exchange, self._train(channel.node_id, exchange))  # type: ignore[arg-type]

    def _train(self, node: int, exchange: BlockExchange) -> Iterator[Wait]:
        mine = self.values[node]
        for step in range(self.steps):
            exchange.begin(0, step)
            exchange.put(0, node, mine[-1] - np.float32(self.rate) * self.gradient(node, step))
            yield from exchange.wait(0)
            mine.append(exchange.get(0).copy())
        return {}  # type: ignore[return-value]

    def gradient(self, node: int, step: int) -> np.ndarray:
        """What a worker steps along."""
        return np.random.default_rng((node, step)).standard_normal(self.values[0][0].size).astype(np.float32)

    def at(self, step: int) -> np.ndarray:
        """The values of all workers, one per row."""
        return np.array([values[step] for values in self.values.values()], np.float64)


def spread(values: np.ndarray) -> float:
    """How far workers are from their mean."""
    return float(np.linalg.norm(values - values.mean(axis=0)))


@pytest.mark.parametrize(("workers", "rate"), [(4, 1 / 3), (8, (1 + 2 * np.cos(np.pi / 4)) / 3)])
def test_a_ring_comes_together_at_its_rate(workers: int, rate: float) -> None:
    """codecs.md, D-PSGD with eta = 0: ring of 4 at 1/3, of 8 at 0.805; the mean stays."""
    walk = Walk(Codec.of(Gossip("ring"), send="weights"), workers, 12)
    for step in range(12):
        np.testing.assert_allclose(walk.at(step + 1).mean(axis=0), walk.at(0).mean(axis=0), atol=1e-6)
        assert spread(walk.at(step + 1)) <= spread(walk.at(step)) * rate * 1.001 + 1e-6
    assert spread(walk.at(10)) / spread(walk.at(9)) == pytest.approx(rate, abs=0.02) or spread(walk.at(9)) < 1e-3


@pytest.mark.parametrize("pattern", [Gossip("ring"), RandomPair()], ids=repr)
def test_the_mean_steps_along_the_mean_gradient(pattern: Any) -> None:
    """codecs.md, D-PSGD: the mean evolves as mean(x) - eta mean(g), to 1e-6, whoever mixes with whom."""
    walk = Walk(Codec.of(pattern, send="weights"), 5, 20, rate=0.3)
    for step in range(20):
        mean_gradient = np.mean([walk.gradient(node, step) for node in range(5)], axis=0, dtype=np.float64)
        np.testing.assert_allclose(walk.at(step + 1).mean(axis=0), walk.at(step).mean(axis=0) - 0.3 * mean_gradient, atol=1e-6)
    assert spread(walk.at(20)) > 0.1


def test_a_matrix_is_applied() -> None:
    a = np.array([[0.5, 0.25, 0.25, 0], [0.25, 0.75, 0, 0], [0.25, 0, 0.25, 0.5], [0, 0, 0.5, 0.5]])
    walk = Walk(Codec.of(Gossip(a.tolist()), send="weights"), 4, 2)
    np.testing.assert_allclose(walk.at(1), a @ walk.at(0), atol=1e-6)
    np.testing.assert_allclose(walk.at(2), a @ a @ walk.at(0), atol=1e-6)


@pytest.mark.parametrize("inner", [TopK(0.4), Int8(4096)], ids=repr)
def test_compressed_gossip_comes_together_too(inner: Any) -> None:
    """CHOCO: through public copies, without losing the mean."""
    walk = Walk(Codec.of(Gossip("ring", gamma=0.4), up=DiffRef(inner), send="weights"), 4, 150, size=20)
    assert spread(walk.at(150)) < 1e-2 * spread(walk.at(0))
    np.testing.assert_allclose(walk.at(150).mean(axis=0), walk.at(0).mean(axis=0), atol=1e-5)


def test_pairs_conserve_the_sum() -> None:
    """codecs.md, AD-PSGD: 1000 exchanges of 5 workers with random delays, no deadlock."""
    rng = np.random.default_rng(0)
    walk = Walk(Codec.of(RandomPair(), send="weights"), 5, 500, link=lambda *_: (float(rng.random()),))
    for step in (1, 7, 500):
        np.testing.assert_allclose(walk.at(step).sum(axis=0), walk.at(0).sum(axis=0), atol=1e-5)
    assert spread(walk.at(500)) < 1e-5
    changed = [(walk.at(1)[node] != walk.at(0)[node]).any() for node in range(5)]
    assert sum(changed) == 4, "one of an odd number keeps what it has"


def test_pairs_are_the_same_for_all_variables_and_change() -> None:
    partners = []
    pattern = RandomPair()
    job = ArrayJob(IIDBlockAssignment(4), codec=Codec.of(pattern, send="weights"), batches=6).run()
    for batch in range(6):
        for variable in range(2):
            found = set()
            for node in range(4):
                for other in range(4):
                    pair = (gradient(batch, node, variable) + gradient(batch, other, variable)) / 2
                    if other != node and np.allclose(job.results[node][batch][variable], pair, rtol=1e-5):
                        found.add(frozenset((node, other)))
            assert len(found) == 2
            partners.append(frozenset(found))
    assert partners[::2] == partners[1::2]
    assert len(set(partners)) > 1


@pytest.mark.parametrize("up", [None, DiffRef(TopK(0.5))], ids=repr)
def test_a_neighbour_s_lost_packet_is_rescued(up: Any) -> None:
    kind = Codec.of(Gossip("ring", gamma=0.5), up=up, send="weights")
    link = lost_once(lambda source, _, key: source == 0 and key[2] == 1)
    assert (Walk(kind, 4, 4, link=link).at(4) == Walk(kind, 4, 4).at(4)).all()
    with pytest.raises(TimeoutError, match=r"missing block\(s\) 1 of node\(s\) 1\b"):
        Walk(kind, 4, 2, link=without((1,)))
