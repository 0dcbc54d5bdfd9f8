"""The exchange of a worker never calls one codec object concurrently, nor inside itself."""

from __future__ import annotations

import threading
from collections.abc import Generator
from typing import Any

import numpy as np
import pytest

from network.clock import SystemClock
from network.controller import Controller
from parallel_sgd.batch_sync import AsynchronizedSGD, SyncChoice, SynchronizedSGD
from parallel_sgd.codec import BlockWeight, Codec, EFSign, Plain, Traits, netEncapsulation
from parallel_sgd.codec.bank import CodecBank
from parallel_sgd.codec.settings import GlobalSettings, JobSettings
from parallel_sgd.engine.channel import Wait
from parallel_sgd.engine.exchange import BlockExchange
from parallel_sgd.engine.socket_channel import SocketChannel, close_gracefully, run_process
from parallel_sgd.profiles import FixedBlockAssignment, IIDBlockAssignment
from tests.network.wires import talk
from tests.statements import covers

NODES, BLOCKS = (0, 1), 4
SIZES = (65, 17_000)  # a small variable, and one whose packet is more than what waits corked, so that posting it may read too


class Guard:
    """Counts calls of a codec, and raises where one begins before another has ended or on another thread."""

    def __init__(self, node_id: int) -> None:
        super().__init__(node_id)  # type: ignore[call-arg]
        self.calls = {"update": 0, "receive": 0}
        self._thread = threading.get_ident()
        self._busy = threading.Lock()

    def _guarded(self, what: str, call: Any, argument: object) -> Any:
        assert threading.get_ident() == self._thread, "a codec stays on the thread on which it was made"
        assert self._busy.acquire(blocking=False), f"{what} began while another method was running"
        try:
            self.calls[what] += 1
            return call(argument)
        finally:
            self._busy.release()

    def update_blocks(self, block_weight: BlockWeight) -> Any:
        return self._guarded("update", super().update_blocks, block_weight)  # type: ignore[misc]

    def receive_blocks(self, content: object) -> Any:
        return self._guarded("receive", super().receive_blocks, content)  # type: ignore[misc]


GuardedEF: type[Codec] = type("GuardedEF", (Guard, EFSign), {})
GuardedPlain: type[Codec] = type("GuardedPlain", (Guard, Plain), {})


class Push(Codec):
    """Sends to the other worker and takes what came until now."""

    traits = Traits(agrees=False)

    def update_blocks(self, block_weight: BlockWeight) -> netEncapsulation:
        return netEncapsulation(1 - self.node_id, block_weight.content)

    def receive_blocks(self, content: Any) -> None:
        self.set_result(content, lambda old, new: new)


GuardedPush: type[Codec] = type("GuardedPush", (Guard, Push), {})


class Node(threading.Thread):
    """A worker on a thread of its own, over real sockets; `given` and `got` are sums over all batches of the first variable."""

    met = threading.Barrier(len(NODES), timeout=60.0)

    def __init__(self, node: int, controller: Controller, kinds: list[type[Codec]], sync: SyncChoice, batches: int) -> None:
        super().__init__(name=f"worker {node}")
        self.node, self.controller, self.kinds, self.sync_type, self.batches = node, controller, kinds, sync, batches
        self.given, self.got = np.zeros(SIZES[0]), np.zeros(SIZES[0])
        self.error: BaseException | None = None

    def run(self) -> None:
        try:
            settings, clock = JobSettings(FixedBlockAssignment(len(NODES), 1, len(NODES) * BLOCKS)), SystemClock()
            self.bank = CodecBank(self.kinds, settings, SocketChannel(self.controller), 0)
            names = ("small", "large")
            exchange = BlockExchange(self.bank, self.sync_type(self.bank, 30.0, clock.monotonic, names))
            self.controller.on_block = exchange.deliver
            run_process(self.train(exchange), self.controller, clock, lambda lost: False)
            close_gracefully(self.controller, 10.0)
        except BaseException as error:  # the test raises it
            self.error = error
        finally:
            self.controller.close(graceful=False)

    def train(self, exchange: BlockExchange) -> Generator[Wait, None, None]:
        """The second batch begins when both have sent the first one: then each has something to take."""
        rng = np.random.default_rng(self.node)
        small, large = np.empty(SIZES[0], np.float32), np.ones(SIZES[1], np.float32)
        for batch in range(self.batches):
            if batch == 1:
                self.met.wait()
            exchange.begin(0, batch)
            for block in self.bank.assignment.node_2_block[self.node]:
                small[:] = rng.standard_normal(SIZES[0], np.float32)
                self.given += small
                exchange.put(1, block, large)
                exchange.put(0, block, small)
            for variable in (1, 0):
                yield from exchange.wait(variable)
            self.got += exchange.get(0)
            exchange.get(1)


def run(kinds: list[type[Codec]], sync: SyncChoice, batches: int) -> list[Node]:
    with talk("unix") as ends:
        controllers = [Controller(0, {1: ends.server}, wait=ends.wait), Controller(1, {0: ends.client}, wait=ends.wait)]
        nodes = [Node(node, controllers[node], kinds, sync, batches) for node in NODES]
        try:
            for node in nodes:
                node.start()
        finally:
            for node in nodes:
                node.join()
    errors = [node.error for node in nodes if node.error is not None and isinstance(node.error, AssertionError)]
    for error in errors + [node.error for node in nodes if node.error is not None]:
        raise error
    return nodes


@covers("LAW-8", "LAW-5")
@pytest.mark.long
def test_ten_thousand_blocks_of_two_workers_on_two_threads() -> None:
    """No exception, and what was given is what was got and what is left over."""
    batches = 2_500
    nodes = run([GuardedEF, GuardedPlain], SynchronizedSGD, batches)
    for node in nodes:
        for codec in node.bank.codecs:
            assert codec.calls == {"update": BLOCKS * batches, "receive": batches}  # type: ignore[attr-defined]
    assert nodes[0].got.tobytes() == nodes[1].got.tobytes()
    left = [next(v for k, v in n.bank.codecs[0].state_dict().items() if k.endswith("residual")) for n in nodes]
    given = (nodes[0].given + nodes[1].given) / (2 * BLOCKS)
    difference = nodes[0].got + (left[0].astype(np.float64) + left[1]) / 2 - given
    assert np.linalg.norm(difference) <= 1e-5 * np.linalg.norm(given)


@covers("LAW-8")
def test_packets_that_come_at_any_time_wait_for_their_turn() -> None:
    """Also under an asynchronous type, where a codec takes packets whenever they come."""
    batches = 500
    for node in run([GuardedPush, GuardedPush], AsynchronizedSGD, batches):
        for codec in node.bank.codecs:
            assert codec.calls["update"] == BLOCKS * batches  # type: ignore[attr-defined]
            assert codec.calls["receive"] > 0  # type: ignore[attr-defined]


def test_the_guard_sees_what_it_is_for() -> None:
    """A method inside another one, and a call from a second thread, are errors."""

    class Nested(Guard, Push):
        def receive_blocks(self, content: object) -> None:
            super().receive_blocks(content)
            self._guarded("update", lambda _: super(Nested, self).receive_blocks(content), content)

    with GlobalSettings.use(IIDBlockAssignment(2)):
        codec = Nested(0)
    with pytest.raises(AssertionError, match="began while another method was running"):
        codec._guarded("receive", codec.receive_blocks, np.ones(2))
    caught: list[BaseException] = []

    def elsewhere() -> None:
        try:
            codec.update_blocks(BlockWeight(np.ones(2), 0))
        except AssertionError as error:
            caught.append(error)

    thread = threading.Thread(target=elsewhere)
    thread.start()
    thread.join()
    assert "stays on the thread" in str(caught[0])
