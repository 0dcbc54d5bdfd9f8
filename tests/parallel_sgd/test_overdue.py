"""A time-out waits for the failure detector while that has a doubt; where it has none, limits stay what they are."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Generator
from itertools import product
from typing import Any

import numpy as np
import pytest

from network.testing import VirtualClock
from parallel_sgd.batch_sync import StaleSynchronous, SyncChoice, SynchronizedSGD
from parallel_sgd.codec import Codec, Plain, Ring, SyncPS
from parallel_sgd.codec.compose import PS
from parallel_sgd.engine.accounts import SENT
from parallel_sgd.engine.channel import LOOK_SECONDS, MOST_SECONDS, Wait, await_verdict
from parallel_sgd.engine.exchange import BlockExchange
from parallel_sgd.profiles import AbsBlockAssignment, IIDBlockAssignment
from parallel_sgd.simulation.kernel import MemoryChannel
from parallel_sgd.testing.array_job import ArrayJob, expected, gradient, tree_mean
from rpc.job.peers import Suspects
from rpc.liveness.limits import SUSPECT_SECONDS

from ..statements import covers

T = 2.0


class Overdue:
    """Something that is waited for in virtual time; `doubted` and `ready` are told the seconds since the time-out."""

    def __init__(self, doubted: Callable[[float], bool], ready: Callable[[float], bool]) -> None:
        self.clock = VirtualClock()
        self.start = self.clock.monotonic()
        self._doubted, self._ready = doubted, ready

    @property
    def seconds(self) -> float:
        return self.clock.monotonic() - self.start

    def run(self) -> tuple[bool, float]:
        """Whether it has become ready, and after how long."""
        wait = Wait(lambda: self._ready(self.seconds), None, lambda: "it")
        process = await_verdict(wait, T, self.clock.monotonic, lambda: [1] if self._doubted(self.seconds) else [])
        while True:
            try:
                asked = next(process)
            except StopIteration as end:
                return end.value, self.seconds
            assert asked.deadline is not None and asked.deadline - self.clock.monotonic() <= T
            self.clock.advance(0.125)


def never(_seconds: float) -> bool:
    return False


@covers("SUB-25", "FD-19")
@pytest.mark.parametrize(
    ("doubted", "ready", "done", "least", "slack"),
    [
        (never, never, False, 0.0, 0.0),  # the limit is exact: not a moment is added
        (lambda t: t < 5.0, never, False, 5.0 + T, LOOK_SECONDS),  # nobody confirms it, and one more T is given
        (lambda t: t < 3.0, lambda t: t >= 4.5, True, 4.5, 0.0),  # well again: the wait goes on, for T
        (lambda t: t < 3.0, lambda t: t >= 2.5, True, 2.5, 0.0),
        (lambda t: True, never, False, MOST_SECONDS, T + LOOK_SECONDS),  # even where nobody would say more
        (lambda t: t < 1.0 or 2.0 < t < 4.0, lambda t: t >= 5.0, True, 5.0, 0.0),  # a second doubt
    ],
)
def test_a_doubt_prolongs_a_wait(
    doubted: Callable[[float], bool], ready: Callable[[float], bool], done: bool, least: float, slack: float
) -> None:
    found, seconds = Overdue(doubted, ready).run()
    assert found == done and least <= seconds <= least + slack


def test_a_doubt_ends_by_itself() -> None:
    clock = VirtualClock()
    suspects = Suspects(clock.monotonic)
    suspects.note(2, 1.5)
    suspects.note(1, 0.5)
    assert suspects() == [1, 2]
    clock.advance(0.5 + SUSPECT_SECONDS)
    assert suspects() == [2]
    suspects.note(2, 0.0)
    assert suspects() == []


class Lopsided(AbsBlockAssignment):
    """One block for each worker but the last, which has eight."""

    def deal(self, node_count: int, redundancy: int) -> list[list[int]]:
        alone = node_count - 1
        return [*([block] for block in range(alone)), list(range(alone, alone + 8))]


class LongRounds(ArrayJob):
    """Job in which each block takes three quarters of T."""

    def _train(self, node: int, exchange: BlockExchange) -> Generator[Wait, None, dict[str, float]]:
        for batch in range(self.batches):
            exchange.begin(0, batch)
            for block in self.assignment.node_2_block[node]:
                exchange.still_computing()
                yield Wait(lambda: False, self.clock.monotonic() + 0.75 * T, lambda: "its own computing")
                for variable in reversed(range(len(self.shapes))):
                    exchange.put(variable, block, self.content(batch, block, variable, self.shapes))
            for variable in reversed(range(len(self.shapes))):
                yield from exchange.wait(variable)
            self.results[node].append([exchange.get(variable).copy() for variable in range(len(self.shapes))])
        return {}


def packets_of(job: ArrayJob) -> Counter[str]:
    """Return the packets sent, by codec."""
    counts: Counter[str] = Counter()
    for exchange in job.exchanges.values():
        for entry in exchange.accounts.entries():
            counts[entry.codec] += entry.packets if entry.direction == SENT else 0
    return +counts


@pytest.mark.parametrize("codec", [Plain, Ring, SyncPS])
@pytest.mark.parametrize("sync_type", [SynchronizedSGD, StaleSynchronous(0)], ids=lambda each: each.__name__)
def test_nothing_is_overdue_while_a_worker_computes(sync_type: SyncChoice, codec: type[Codec]) -> None:
    """The last worker computes for six times T; none tries a rescue, and all have the result of all blocks."""
    given: dict[str, Any] = {"batches": 2, "codec": codec, "timeout": T, "sync_type": sync_type}
    given |= {"server": SyncPS} if codec is SyncPS else {}
    job = LongRounds(Lopsided(3), **given).run()
    for node, batch in product(range(3), range(2)):
        for got, wanted in zip(job.results[node][batch], expected(batch, 10), strict=True):
            np.testing.assert_array_equal(got, wanted)
    sent = packets_of(job)
    # a word before each block but the first, in each batch, to both others
    assert sent.pop("still computing") == 2 * 7 * 2
    calm = packets_of(ArrayJob(Lopsided(3), **{**given, "timeout": 1e6}).run())
    assert sent == calm


def test_what_is_lost_is_overdue_once_all_have_computed() -> None:
    """What worker 1 sends gets lost, but for its words: worker 0 gives up two time-outs after the last of them."""
    job = LongRounds(
        Lopsided(2), codec=Plain, timeout=T, link=lambda sender, _, key: (0.0,) if sender == 0 or key[3] > 1 else ()
    )
    start = job.clock.monotonic()
    with pytest.raises(TimeoutError, match=r"Waited [\d.]+ s for variable 1 .*missing block\(s\) 1, .*of node\(s\) 1"):
        job.run()
    # the last word comes before the eighth block
    assert job.clock.monotonic() - start == pytest.approx(7 * 0.75 * T + 2 * T, abs=0.05)


def test_a_quorum_does_not_wait_for_those_who_compute() -> None:
    """`PS(quorum=)` closes a batch by time, so its workers say nothing."""
    codec = Codec.of(PS(quorum=0.25), name="Quorum")
    job = LongRounds(Lopsided(4), batches=1, codec=codec, server=codec, timeout=T).run()
    assert job.results[0] and "still computing" not in packets_of(job)
    wanted = tree_mean([gradient(0, block, 1) for block in range(3)])
    np.testing.assert_allclose(job.results[0][0][1], wanted, rtol=1e-5)


@covers("SUB-24", "SUB-25")
@pytest.mark.parametrize("doubt", [0.0, 3.0], ids=["trusted", "suspected"])
def test_the_synchronous_time_out(doubt: float, monkeypatch: pytest.MonkeyPatch) -> None:
    """One link loses what worker 1 sends; the rescue comes at T in any case, the error when the doubt ends."""
    job = ArrayJob(IIDBlockAssignment(2), codec=Plain, timeout=T, link=lambda sender, _to, _key: () if sender == 1 else (0.0,))
    start = job.clock.monotonic()
    monkeypatch.setattr(
        MemoryChannel, "suspects", lambda _channel: (1,) if job.clock.monotonic() - start < 2 * T + doubt else ()
    )
    with pytest.raises(
        TimeoutError, match=r"the retry did not help\. Waited [\d.]+ s for variable 1 .*missing block\(s\) 1"
    ) as info:
        job.run()
    waited = job.clock.monotonic() - start
    expected = 2 * T if not doubt else 2 * T + doubt + T
    assert expected <= waited <= expected + LOOK_SECONDS + 0.01
    assert f"Waited {2 * T:g} s" in str(info.value) or doubt
