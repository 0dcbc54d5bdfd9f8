"""SynchronizedSGD: order of batches, time-outs, rescue, messages. Time is virtual; limits are exact."""

from __future__ import annotations

from collections.abc import Iterator
from contextvars import copy_context
from typing import Any

import numpy as np
import pytest

from network.frames import Message
from parallel_sgd.batch_sync import SynchronizedSGD
from parallel_sgd.codec import BlockWeight, Codec, GlobalSettings, Plain, netEncapsulation
from parallel_sgd.codec.bank import CodecBank
from parallel_sgd.codec.settings import JobSettings
from parallel_sgd.profiles import DuplicateAssignment, FixedBlockAssignment, IIDBlockAssignment
from parallel_sgd.testing.array_job import ArrayJob, expected
from tests.parallel_sgd.codec.compositions import check_exact
from tests.parallel_sgd.links import lost_once

from ..statements import covers
from .stub_channel import StubChannel


class Sum(Codec):
    """Adds what everybody sends: the shortest codec that exchanges. Subclasses vary the form of what they return."""

    def __init__(self, node_id: int) -> None:
        super().__init__(node_id)
        self.count = 0

    def form(self, packet: netEncapsulation) -> Any:
        return packet

    def update_blocks(self, block_weight: BlockWeight) -> Any:
        self._add(block_weight.content)
        others = GlobalSettings.get_default().get_adversary(block_weight.block_id)
        return self.form(netEncapsulation(others, block_weight.content))

    def receive_blocks(self, content: Any) -> Any:
        self._add(content)
        return None

    def is_done(self) -> bool:
        return self.count == GlobalSettings.get_default().block_count

    def get_result(self) -> np.ndarray | None:
        self.count = 0
        return super().get_result()

    def _add(self, content: np.ndarray) -> None:
        self.set_result(content)
        self.count += 1


class Listed(Sum):
    def form(self, packet: netEncapsulation) -> Any:
        return [netEncapsulation(target, packet.content) for target in packet.targets]


class Generated(Sum):
    def form(self, packet: netEncapsulation) -> Any:
        yield from (netEncapsulation(target, packet.content) for target in packet.targets)


class Relay(Sum):
    """Worker 1 passes worker 0's block on to worker 2, from the receive path."""

    def update_blocks(self, block_weight: BlockWeight) -> Any:
        self._add(block_weight.content)
        targets = {0: [1], 1: [0, 2], 2: [0, 1]}[self.node_id]
        return netEncapsulation(targets, (self.node_id, block_weight.content))

    def receive_blocks(self, content: Any) -> Any:
        self._add(content[1])
        if self.node_id == 1 and content[0] == 0:
            yield netEncapsulation(2, content)


@covers("SUB-26")
@pytest.mark.parametrize("codec", [Sum, Listed, Generated, Relay])
def test_every_documented_form_of_packets_works(codec: type[Codec]) -> None:
    """None, one netEncapsulation, an iterable, a generator; also from receive_blocks."""
    job = ArrayJob(IIDBlockAssignment(3), codec=codec).run()
    for batch in range(job.batches):
        for node in range(3):
            for got, mean in zip(job.results[node][batch], expected(batch, 3), strict=True):
                np.testing.assert_allclose(got, 3 * mean, rtol=1e-5, atol=1e-3)


class ByBlock(Codec):
    """The way codecs of the original system are written: blocks kept in a dict, subscripted annotations, no `super()`."""

    def __init__(self, node_id):  # type: ignore[no-untyped-def]
        Codec.__init__(self, node_id)
        self.blocks: dict[int, np.ndarray] = {}

    def update_blocks(self, block_weight: BlockWeight) -> netEncapsulation[tuple[int, np.ndarray]]:  # type: ignore[type-arg]
        self.blocks[block_weight.block_id] = block_weight.content
        self.combine()
        others = GlobalSettings.get_default().get_adversary(block_weight.block_id)
        return netEncapsulation(others, (block_weight.block_id, block_weight.content))

    def receive_blocks(self, content: tuple[int, np.ndarray]) -> None:
        self.blocks[content[0]] = content[1]
        self.combine()

    def combine(self) -> None:
        if len(self.blocks) == GlobalSettings.get_default().block_count:
            self.set_result(sum(self.blocks.values()) / len(self.blocks))
            self.blocks.clear()


def test_a_codec_of_the_original_system_works() -> None:
    """contracts/codecs.md: custom codecs written against the published interface keep working; several blocks per worker."""
    job = ArrayJob(FixedBlockAssignment(2, 1, 4), codec=ByBlock).run()
    for batch in range(job.batches):
        for got, mean in zip(job.results[1][batch], expected(batch, 4), strict=True):
            np.testing.assert_allclose(got, mean, rtol=1e-4, atol=1e-3)


class Wrong(Sum):
    def form(self, packet: netEncapsulation) -> Any:
        return [packet, 7]  # type: ignore[list-item]


class Number(Sum):
    def form(self, packet: netEncapsulation) -> Any:
        return 42  # type: ignore[return-value]


class ToItself(Sum):
    def form(self, packet: netEncapsulation) -> Any:
        return netEncapsulation(GlobalSettings.get_default().nodes, packet.content)


class ToNobody(Sum):
    def form(self, packet: netEncapsulation) -> Any:
        return netEncapsulation(9, packet.content)


class Untransportable(Sum):
    def form(self, packet: netEncapsulation) -> Any:
        return netEncapsulation(packet.targets, {1.5: object()})


@pytest.mark.parametrize(
    ("codec", "error", "words"),
    [
        (Wrong, TypeError, "Wrong must return None, a netEncapsulation or an iterable of them, got int"),
        (Number, TypeError, "Number must return None, a netEncapsulation or an iterable of them, got int"),
        (ToItself, ValueError, "ToItself sends variable 1 to its own node 0: use set_result"),
        (ToNobody, ValueError, r"must go to one of the nodes \[0, 1\], got 9"),
        (Untransportable, TypeError, "int or str keys, got a key of type float"),
    ],
)
def test_what_cannot_be_sent_is_refused(codec: type[Codec], error: type[Exception], words: str) -> None:
    with pytest.raises(error, match=words):
        ArrayJob(IIDBlockAssignment(2), codec=codec).run()


@covers("SUB-22")
def test_a_delayed_link_changes_nothing() -> None:
    """Three workers, one link delayed by 0.5 s; a message of batch k+1 never enters batch k and is never lost."""
    job = ArrayJob(IIDBlockAssignment(3), batches=6, link=lambda s, r, _: (0.5,) if (s, r) == (0, 2) else (0.0,)).run()
    check_exact(job)
    assert job.clock.monotonic() == 1.5  # a round trip takes 0.5 s for two batches: the delay was real


@covers("SUB-22")
def test_reordered_messages_change_nothing() -> None:
    """Random delays reorder variables and batches."""
    rng = np.random.default_rng(5)
    check_exact(ArrayJob(IIDBlockAssignment(4), batches=8, link=lambda *_: (float(rng.random()),)).run())


@covers("SUB-21")
def test_workers_never_differ_by_more_than_one_batch() -> None:
    """Whatever the links do."""
    rng = np.random.default_rng(6)
    done = [0, 0, 0]
    lead = []

    def on_batch(node: int, batch: int) -> None:
        done[node] = batch + 1
        lead.append(max(done) - min(done))

    link = lambda *_: (float(rng.random()),)  # noqa: E731
    check_exact(ArrayJob(IIDBlockAssignment(3), batches=10, link=link, on_batch=on_batch).run())
    assert max(lead) == 1


def of_batch(batch: int) -> Any:
    """A link that loses the first packets of one batch, in both directions."""
    return lost_once(lambda _sender, _receiver, key: key[2] == batch)


class Counted(Plain):
    """Plain that notes when its rescue is called."""

    calls: list[tuple[int, str]]

    def do_something_to_save_yourself(self) -> Iterator[netEncapsulation] | None:
        self.calls.append((self.node_id, type(self).__name__))
        return super().do_something_to_save_yourself()


@covers("SUB-24", "SUB-26")
@pytest.mark.parametrize("timeout", [10.0, 0.25])
def test_a_lost_batch_is_rescued_after_one_period(timeout: float) -> None:
    """After T, exactly once per variable; the packets carry the batch tag, so success continues."""
    calls: list[tuple[int, str]] = []
    codec = type("Counted", (Counted,), {"calls": calls})
    job = ArrayJob(IIDBlockAssignment(2), codec=codec, batches=3, timeout=timeout, link=of_batch(1)).run()
    check_exact(job)
    assert job.clock.monotonic() == timeout
    assert [node for node, _ in calls] == [0, 0]  # two variables; worker 1 was answered before it had to ask


class Hopeless(Sum):
    """Its rescue gives nothing."""


@covers("SUB-25")
def test_without_rescue_it_fails_after_one_period() -> None:
    """The words of the original system, after exactly T; what is missing is named."""
    job = ArrayJob(IIDBlockAssignment(2), codec=Hopeless, timeout=0.75, link=of_batch(1))
    with pytest.raises(TimeoutError) as caught:
        job.run()
    text = str(caught.value)
    assert text.startswith("Time out while getting result, retry not available.")
    assert text.endswith("Waited 0.75 s for variable 1 (dense/bias) of epoch 1, batch 2: nothing came from node(s) 1.")
    assert job.clock.monotonic() == 0.75
    assert len(job.results[0]) == 1


@covers("SUB-25", "SUB-26")
def test_a_second_time_out_is_final() -> None:
    """After exactly 2 T, naming variable, batch, missing blocks and their nodes."""
    job = ArrayJob(DuplicateAssignment(4, 2), timeout=2.0, link=lambda s, *_: () if s in (2, 3) else (0.0,))
    with pytest.raises(TimeoutError) as caught:
        job.run()
    assert str(caught.value) == (
        "Time out while getting result, the retry did not help. Waited 4 s for variable 1 (dense/bias) of epoch 1, batch 1: "
        "missing block(s) 1 of node(s) 2, 3."
    )
    assert job.clock.monotonic() == 4.0


@covers("SUB-24")
def test_a_late_answer_within_the_second_period_is_enough() -> None:
    """One more period T is waited; what the rescue sent comes late and is counted."""
    seen: set[tuple[int, tuple[int, ...]]] = set()

    def link(sender: int, _receiver: int, key: tuple[int, ...]) -> tuple[float, ...]:
        again = (sender, key) in seen
        seen.add((sender, key))
        return (0.75 if again else 1.5 if key[2] == 0 else 0.5,)

    job = ArrayJob(IIDBlockAssignment(2), timeout=1.0, link=link).run()
    check_exact(job)
    assert job.clock.monotonic() == 2.5
    assert (job.sync(0).late, job.sync(1).late) == (4, 4)  # two variables: rescue and answer


@pytest.mark.parametrize("lost", [(0, 1), (1, 0)])
@pytest.mark.parametrize("nodes", [2, 3])
def test_a_packet_lost_one_way_is_replaced_by_the_result(lost: tuple[int, int], nodes: int) -> None:
    """codecs.md law 7: the sender is one batch ahead by then, so it answers with the result of the batch before."""
    job = ArrayJob(IIDBlockAssignment(nodes), link=lost_once(lambda s, r, key: (s, r) == lost and key[2] == 1)).run()
    check_exact(job)
    assert job.clock.monotonic() == 10.0


@pytest.mark.parametrize("variable", [0, 1])
def test_a_single_lost_packet_is_replaced(variable: int) -> None:
    """codecs.md law 7: the other variable of the batch was complete, or even taken."""
    job = ArrayJob(IIDBlockAssignment(2), link=lost_once(lambda s, _, key: (s, *key[2:]) == (0, 1, variable)))
    check_exact(job.run())
    assert job.clock.monotonic() == 10.0


class Breaks(Sum):
    def receive_blocks(self, content: Any) -> Any:
        raise ZeroDivisionError("in receive_blocks")


@covers("SUB-27")
def test_an_exception_in_the_receive_path_ends_the_job() -> None:
    """No silent wait; the traceback leads into the codec."""
    job = ArrayJob(IIDBlockAssignment(2), codec=Breaks)
    with pytest.raises(ZeroDivisionError, match="in receive_blocks") as caught:
        job.run()
    assert caught.traceback[-1].name == "receive_blocks"
    assert job.clock.monotonic() == 0.0


def test_a_result_that_is_not_there_cannot_be_got() -> None:
    job = ArrayJob(IIDBlockAssignment(2)).run()
    with pytest.raises(RuntimeError, match=r"There is no result yet: variable 0 \(dense/kernel\) of epoch 1, batch 3"):
        job.exchanges[0].get(0)


def test_received_messages_reach_codecs_only_while_a_result_is_got() -> None:
    """conventions.md, Codec: synchronous types."""
    received: list[int] = []

    class Noting(Plain):
        def receive_blocks(self, content: Any) -> None:
            received.append(self.node_id)
            super().receive_blocks(content)

    job = ArrayJob(IIDBlockAssignment(2), codec=Noting).run()
    received.clear()
    exchange = job.exchanges[0]
    exchange.begin(0, 3)
    exchange.deliver(1, Message((0, 0, 3, 0), (1, 2, np.ones((3, 4), np.float32)), 0, 0))
    exchange.deliver(1, Message((0, 0, 4, 0), (1, 2, np.ones((3, 4), np.float32)), 0, 0))
    assert received == []
    assert not exchange.ready(0)
    assert received == [0]


def test_what_a_flush_brings_counts_at_once() -> None:
    """A channel may read while it sends; the last message must not lie there while the worker waits for another one."""

    class Reading(StubChannel):
        def flush(self) -> None:
            sync.receive(1, (0, 0), 0, (1, 2, np.ones(2, np.float32)))

        def poll(self) -> None:
            raise AssertionError("a synchronous worker waits instead")

    def in_job() -> None:
        bank = CodecBank([Plain], JobSettings(IIDBlockAssignment(2)), Reading(), 0)
        nonlocal sync
        sync = SynchronizedSGD(bank, 1.0, lambda: 0.0, ("kernel",))
        bank.begin((0, 0))
        sync.begin((0, 0))
        sync.put(0, 0, np.zeros(2, np.float32))
        assert sync.ready(0)
        np.testing.assert_array_equal(sync.get(0), np.full(2, 0.5, np.float32))

    sync: SynchronizedSGD
    copy_context().run(in_job)
