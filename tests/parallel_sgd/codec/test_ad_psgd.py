"""Asynchronous gossip in pairs: the identities of contracts/codecs.md, AD-PSGD. Time is virtual."""

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
from parallel_sgd.channel import Wait
from parallel_sgd.codec import ADPSGD, BlockWeight, GlobalSettings
from parallel_sgd.codec.ad_psgd import PATIENCE
from parallel_sgd.codec.bank import CodecBank
from parallel_sgd.codec.settings import JobSettings
from parallel_sgd.exchange import BlockExchange
from parallel_sgd.in_process_scheduler import Link, MemoryChannel, reliable, run_in_process
from parallel_sgd.profiles import DuplicateAssignment, FixedBlockAssignment, IIDBlockAssignment
from parallel_sgd.worker import Worker
from tests.parallel_sgd.networks import mlp


class Walk:
    """Workers that step on their own, each at its own pace, until `seconds` have passed, and then take in what is under way.

    `taken` is the sum of all their steps, `ends` what they have in the end.
    """

    def __init__(
        self,
        workers: int,
        seconds: float,
        pace: Callable[[int], float],
        link: Link = reliable,
        step: float = 0.0,
        sync: SyncChoice = AsynchronizedSGD,
    ) -> None:
        self.assignment = FixedBlockAssignment(workers, 1, 2 * workers)
        self.seconds, self.pace, self.step, self.sync = seconds, pace, step, sync
        rng = np.random.default_rng(3)
        self.starts = rng.standard_normal((workers, 6)).astype(np.float32)
        self.ends = self.starts.astype(np.float64)
        self.taken = np.zeros(6)
        self.batches = [0] * workers
        self.codecs: dict[int, ADPSGD] = {}
        self.clock = VirtualClock()
        run_in_process(dict.fromkeys(range(workers), self._build), self.clock, link=link)
        for node, codec in self.codecs.items():
            self.ends[node] += codec.state_dict().get("change", 0)

    def _build(self, channel: MemoryChannel) -> Worker:
        bank = CodecBank([ADPSGD], JobSettings(self.assignment), channel, 0)
        self.codecs[channel.node_id] = bank.codecs[0]  # type: ignore[assignment]
        exchange = BlockExchange(bank, self.sync(bank, 10.0, self.clock.monotonic, ("v",)))
        return Worker(None, exchange, self._train(channel.node_id, exchange))  # type: ignore[arg-type]

    def _train(self, node: int, exchange: BlockExchange) -> Iterator[Wait]:
        value, rng = self.starts[node].copy(), np.random.default_rng(node)
        while self.clock.monotonic() < self.seconds:
            exchange.begin(0, self.batches[node])
            done = self.clock.monotonic() + self.pace(node)
            while self.clock.monotonic() < done:
                yield Wait(lambda: False, done, lambda: "its own computing")
            own = (self.step * rng.standard_normal(6)).astype(np.float32)
            self.taken += own
            value = value + own
            for block in self.assignment.node_2_block[node]:
                exchange.put(0, block, value)
            yield from exchange.wait(0)
            value = exchange.get(0).copy()
            self.batches[node] += 1
        while self.clock.monotonic() < self.seconds + 20:
            yield Wait(lambda: False, self.seconds + 20, lambda: "what is under way")
        self.ends[node] = value
        return {}  # type: ignore[return-value]

    @property
    def exchanges(self) -> int:
        """Those of passive workers, which are one half of each."""
        return sum(codec.exchanges for node, codec in self.codecs.items() if node % 2)


def uneven(seed: int) -> Callable[[int], float]:
    rng = np.random.default_rng(seed)
    return lambda node: float(rng.uniform(0.05, 0.3) * (node + 1))


def slow(seed: int, copies: int = 1) -> Callable[[int, int, tuple[int, ...]], Sequence[float]]:
    rng = np.random.default_rng(seed)
    return lambda *_: tuple(rng.uniform(0, 0.4, copies).tolist())


@pytest.mark.parametrize("step", [0.0, 0.5])
def test_a_thousand_exchanges_with_random_delays_conserve_the_sum(step: float) -> None:
    """codecs.md, AD-PSGD: W = 5, every pair; what workers learn meanwhile is kept, to 1e-6 of it, and nobody is stuck."""
    walk = Walk(5, 300.0, uneven(1), slow(2), step)
    assert walk.exchanges > 1000
    assert min(walk.batches) > 100
    given = walk.starts.astype(np.float64).sum(axis=0) + walk.taken
    scale = np.abs(walk.starts).sum() + step * sum(walk.batches)
    np.testing.assert_allclose(walk.ends.sum(axis=0), given, atol=1e-6 * scale)
    assert sum(codec.exchanges for node, codec in walk.codecs.items() if node % 2 == 0) == walk.exchanges
    if not step:
        assert np.ptp(walk.ends, axis=0).max() < 1e-5, "without steps all come together"


def test_a_slow_worker_slows_nobody() -> None:
    """And one that is passive answers as often as it looks."""
    even, uneven_ = Walk(4, 50.0, lambda node: 1.0), Walk(4, 50.0, lambda node: 10.0 if node == 3 else 1.0)
    assert even.batches[:3] == uneven_.batches[:3] == [50] * 3
    assert uneven_.batches[3] == 5


def test_repeated_packets_change_nothing() -> None:
    walk = Walk(4, 30.0, uneven(5), slow(6, copies=2))
    np.testing.assert_allclose(walk.ends.sum(axis=0), walk.starts.sum(axis=0), atol=1e-5)
    assert all(codec.duplicates > 0 for codec in walk.codecs.values())


def test_it_runs_with_bounded_staleness() -> None:
    walk = Walk(4, 40.0, uneven(7), slow(8), sync=StaleSynchronous(3))
    np.testing.assert_allclose(walk.ends.sum(axis=0), walk.starts.sum(axis=0), atol=1e-5)
    assert max(walk.batches) - min(walk.batches) <= 4


def test_two_workers_meet_in_the_middle() -> None:
    with GlobalSettings.use(IIDBlockAssignment(2)):
        active, passive = ADPSGD(0), ADPSGD(1)
    assert passive.update_blocks(BlockWeight(np.float32([8, 2]), 1)) is None
    question = active.update_blocks(BlockWeight(np.float32([0, 4]), 0))
    assert question is not None and question.targets == (1,)
    assert active.update_blocks(BlockWeight(np.float32([0, 4]), 0)) is None, "one question at a time"
    answer = passive.receive_blocks(question.content)
    assert answer is not None and answer.targets == (0,)
    active.receive_blocks(answer.content)
    for codec, own in ((active, [1, 5]), (passive, [9, 2])):  # each has made a step of its own meanwhile
        codec.update_blocks(BlockWeight(np.float32(own), codec.node_id))
        result = codec.get_result()
        assert result is not None
        assert result.tolist() == ([5, 4] if codec is active else [5, 3])


def test_one_that_is_not_answered_asks_again() -> None:
    """Its partner may have left; a late answer still counts, once."""
    with GlobalSettings.use(IIDBlockAssignment(2)):
        active, passive = ADPSGD(0), ADPSGD(1)
    passive.update_blocks(BlockWeight(np.float32([2]), 1))
    asked = [active.update_blocks(BlockWeight(np.float32([0]), 0)) for _ in range(PATIENCE + 1)]
    assert [question is not None for question in asked] == [True, *[False] * (PATIENCE - 1), True]
    assert asked[0] is not None and asked[-1] is not None
    answers = [passive.receive_blocks(question.content) for question in (asked[0], asked[-1], asked[0])]
    assert answers[2] is None and passive.duplicates == 1
    for answer in (*answers[:2], answers[0]):
        assert answer is not None
        active.receive_blocks(answer.content)
    assert active.duplicates == 1
    assert active.state_dict()["change"].tolist() == [1.5]
    assert passive.state_dict()["change"].tolist() == [-1.5]


def test_it_goes_on_from_its_state() -> None:
    with GlobalSettings.use(IIDBlockAssignment(2)):
        one, two = ADPSGD(1), ADPSGD(1)
    one.update_blocks(BlockWeight(np.float32([2]), 1))
    one.receive_blocks((0, 4, np.float32([6])))
    two.load_state_dict(one.state_dict())
    for codec in (one, two):
        codec.update_blocks(BlockWeight(np.float32([3]), 1))
        assert codec.get_result().tolist() == [5]  # type: ignore[union-attr]
    assert two.receive_blocks((0, 3, np.float32([7]))) is not None, "the one that asks may have gone back further"
    with pytest.raises(ValueError, match="remembers nothing, got x"):
        two.load_state_dict({"x": 1})


REFUSED: list[tuple[dict[str, Any], str]] = [
    (
        {"sync_type": SynchronizedSGD},
        "takes packets of any batch, but 'sync_type' SynchronizedSGD keeps batches apart: take Async",
    ),
    ({"sync_type": StaleSynchronous(0)}, r"'sync_type' StaleSynchronous\(0\) keeps batches apart"),
    ({"op_type": None}, "'codec' ADPSGD takes parameters, but 'op_type' PSGDOptimizer puts gradients"),
    (
        {"assignment_type": DuplicateAssignment, "redundancy": 2},
        "ADPSGD exchanges parameters of single workers, so 'redundancy'",
    ),
]


@pytest.mark.parametrize(("settings", "message"), REFUSED, ids=[text[:40] for _, text in REFUSED])
def test_what_cannot_work_is_refused(settings: dict[str, Any], message: str, tmp_path: Path) -> None:
    settings = {"op_type": ParameterAveragingOptimizer, "sync_type": AsynchronizedSGD, "codec": ADPSGD, **settings}
    settings = {name: value for name, value in settings.items() if value is not None}
    with in_process(2) as nodes, pytest.raises(ValueError, match=message):
        ParallelSGD(mlp(), Digits(), ImageCls()).parallel(nodes, directory=tmp_path, epoch=1, **settings)
