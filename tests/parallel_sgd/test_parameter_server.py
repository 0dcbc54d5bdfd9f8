"""The parameter server and its dense codec, in memory."""

from __future__ import annotations

from collections.abc import Generator
from contextvars import copy_context
from typing import Any

import numpy as np
import pytest

from network.message import Message
from network.testing import VirtualClock
from network.wire import Sent
from parallel_sgd.codec import BlockWeight, Codec, DummyCodec, GlobalSettings, Plain, SyncPS, netEncapsulation
from parallel_sgd.codec.bank import CodecBank
from parallel_sgd.codec.settings import JobSettings
from parallel_sgd.engine.accounts import RECEIVED, SENT
from parallel_sgd.engine.channel import Parameter_Server, Wait
from parallel_sgd.engine.parameter_server import MOST_UNSENT, ParameterServer
from parallel_sgd.profiles import DuplicateAssignment, FixedBlockAssignment, IIDBlockAssignment, ISetting
from parallel_sgd.testing.array_job import ArrayJob, gradient
from tests.parallel_sgd.codec.compositions import check_exact
from tests.parallel_sgd.links import lost_once, without

from ..statements import covers
from .stub_channel import StubChannel


def served(assignment: ISetting, **settings: Any) -> ArrayJob:
    return ArrayJob(assignment, **{"codec": SyncPS, "server": SyncPS, **settings})


@pytest.mark.parametrize(
    "assignment",
    [*(FixedBlockAssignment(n, 1, 4) for n in (1, 2, 3, 4)), IIDBlockAssignment(4, 2), DuplicateAssignment(4, 2)],
)
def test_the_mean_has_the_bits_of_plain(assignment: ISetting) -> None:
    """SyncPS: bit-exact, however many workers hold the blocks."""
    check_exact(served(assignment).run())
    check_exact(ArrayJob(assignment, codec=Plain).run())


def test_bytes_up_and_down() -> None:
    """Each worker sends its whole subtree once and gets the mean once; links between workers carry nothing."""
    job = served(FixedBlockAssignment(2, 1, 4), batches=5).run()
    size = 5 * 4 * (12 + 4)
    for node in (0, 1):
        books = job.exchanges[node].accounts
        assert books.total(SENT).raw == books.total(RECEIVED).raw == size
        assert {entry.peer for entry in books.entries()} == {Parameter_Server}
        assert books.total(SENT).overhead < 5 * 2 * 64
    assert job.server_bank.accounts.total(SENT).raw == 2 * size


def test_late_copies_never_enter_the_next_batch() -> None:
    """Redundant blocks of a slow worker arrive when their batch is over; the server drops and counts them."""
    delay = {0: 0.1, 1: 0.1, 2: 0.1, 3: 0.15, Parameter_Server: 0.0}
    job = served(DuplicateAssignment(4, 2), batches=6, link=lambda sender, *_: (delay[sender],)).run()
    check_exact(job)
    codec = job.server_bank.codecs[0]
    assert isinstance(codec, SyncPS) and codec.late > 0


@covers("SUB-31")
def test_the_job_goes_on_without_a_worker_whose_blocks_others_hold() -> None:
    """And without time-out."""
    job = served(DuplicateAssignment(4, 2), ends_after={3: 1}).run()
    assert [len(job.results[node]) for node in range(4)] == [3, 3, 3, 1]
    assert job.clock.monotonic() == 0.0


@covers("SUB-24")
@pytest.mark.parametrize("batch", [0, 2])
@pytest.mark.parametrize("sender", [0, 1, Parameter_Server])
def test_a_lost_packet_is_rescued(sender: int, batch: int) -> None:
    """Workers send again, and the server answers again, also for the batch that it has finished last."""
    job = served(
        FixedBlockAssignment(2, 1, 3), link=lost_once(lambda source, _, key: (source, key[2]) == (sender, batch))
    ).run()
    check_exact(job)
    assert 10.0 <= job.clock.monotonic() < 20.0


@covers("SUB-26")
@pytest.mark.parametrize(
    ("silent", "words"),
    [
        (1, r"the retry did not help.*missing block\(s\) 2, 3 of node\(s\) 1\b"),  # it tells a worker that asks too early
        (Parameter_Server, r"variable 1 \(dense/bias\) of epoch 1, batch 1: nothing came from node\(s\) -2"),
    ],
)
def test_a_time_out_names_who_is_silent(silent: int, words: str) -> None:
    with pytest.raises(TimeoutError, match=words):
        served(FixedBlockAssignment(2, 1, 4), link=without((silent,))).run()


def test_it_runs_on_workers_and_the_server_only() -> None:
    """One that was started anew must not answer with the wrong batch."""
    with GlobalSettings.use(IIDBlockAssignment(2)):
        server = SyncPS(Parameter_Server)
        with pytest.raises(ValueError, match="got node 2"):
            SyncPS(2)
    with pytest.raises(ValueError, match="in round 0, but a worker is in round 1"):
        server.receive_blocks((1, 0, 1, np.zeros(2, np.float32)))


class Running(Codec):
    """Both sides of an exchange that waits for nobody: the server answers each packet with the sum of all so far."""

    def __init__(self, node_id: int) -> None:
        super().__init__(node_id)
        self.total: Any = 0

    def update_blocks(self, block_weight: BlockWeight) -> netEncapsulation:
        return netEncapsulation(Parameter_Server, (self.node_id, block_weight.content))

    def receive_blocks(self, content: Any) -> netEncapsulation | None:
        if self.node_id == Parameter_Server:
            sender, array = content
            self.total = self.total + array
            return netEncapsulation(sender, self.total)
        self.set_result(content)
        return None


def test_a_codec_on_the_server_is_called_on_arrival_and_keeps_its_state() -> None:
    """Whatever batch the workers are in; an answer goes out under the epoch and batch of its packet."""
    slow = lambda sender, *_: (1.0,) if sender == 1 else (0.0,)  # noqa: E731
    job = ArrayJob(IIDBlockAssignment(2), codec=Running, server=Running, link=slow).run()
    for variable in (0, 1):
        first = job.results[0][0][variable]
        np.testing.assert_array_equal(first, gradient(0, 0, variable))
        last = sum(gradient(batch, node, variable) for batch in range(3) for node in range(2))
        np.testing.assert_allclose(job.results[1][2][variable], last, rtol=1e-5)
    assert [len(job.results[node]) for node in (0, 1)] == [3, 3]


def stub(peers: set[int]) -> StubChannel:
    """Of a server; every packet has 40 MB."""
    channel = StubChannel(Parameter_Server, peers, Sent(40 << 20, 0))
    channel.taken = False
    return channel


def server_on(channel: StubChannel, clock: VirtualClock) -> tuple[ParameterServer, Generator[Wait, None, Any], CodecBank]:
    bank = copy_context().run(CodecBank, [Running], JobSettings(IIDBlockAssignment(2)), channel, 0)
    server = ParameterServer(bank, channel, 2.0, 60.0, clock.monotonic)
    return server, server.run(), bank


def test_workers_that_do_not_appear_are_named() -> None:
    """No wait without a limit."""
    clock, channel = VirtualClock(), stub({0})
    _, process, _ = server_on(channel, clock)
    wait = next(process)
    assert not wait.ready() and wait.deadline == 60.0
    clock.advance_to(60.0)
    with pytest.raises(TimeoutError, match=r"60 s for node\(s\) 1 to appear"):
        next(process)


def test_workers_may_leave_before_the_server_has_its_turn() -> None:
    """They were there when it was built."""
    job = ArrayJob(IIDBlockAssignment(2), codec=DummyCodec, server=SyncPS).run()
    assert [len(job.results[node]) for node in (0, 1)] == [3, 3]
    assert job.clock.monotonic() == 0.0


@covers("SUB-11")
def test_it_ends_when_all_workers_have_left() -> None:
    """Not before the last packet is served."""
    channel = stub({0, 1})
    server, process, _ = server_on(channel, VirtualClock())
    wait = next(process)
    assert not wait.ready()
    channel.here = {1}
    assert not wait.ready()
    server.deliver(1, Message((0, 0, 0, 0), (1, np.zeros(2)), 0, 0))
    channel.here = set()
    assert wait.ready()
    wait = next(process)
    assert [posted[:2] for posted in channel.posted] == [(1, (0, 0, 0, 0))]
    assert wait.ready()
    with pytest.raises(StopIteration) as end:
        next(process)
    assert end.value.value == {}


def test_answers_that_nobody_takes_stop_the_server_before_they_fill_the_memory() -> None:
    clock, channel = VirtualClock(), stub({0, 1})
    for taken in (True, False):
        channel.posted, channel.taken = [], False
        server, process, _ = server_on(channel, clock)
        for number in range(6):
            server.deliver(0, Message((0, 0, number, 0), (0, np.zeros(2)), 0, 0))
        wait = next(process)
        while wait.deadline is None:
            wait = next(process)
        assert len(channel.posted) == 2 and MOST_UNSENT < 2 * (40 << 20)
        assert not wait.ready()
        channel.taken = taken
        assert wait.ready() is taken
        clock.advance_to(clock.monotonic() + 2.0)
        if taken:
            next(process)
            assert len(channel.posted) == 6
            process.close()
    with pytest.raises(TimeoutError, match="2 s for a worker to take what was sent to it"):
        next(process)


def test_another_attempt_is_refused_and_counted() -> None:
    server, _, bank = server_on(stub({0, 1}), VirtualClock())
    server.deliver(0, Message((1, 0, 0, 0), (0, np.zeros(2)), 8, 0))
    assert bank.refused == 1 and bank.accounts.total(RECEIVED).raw == 8
    with pytest.raises(ValueError, match="must be"):
        server.deliver(0, Message((0, 0, 0, 1), None, 0, 0))


@covers("SUB-27")
def test_an_error_in_its_codec_ends_the_job() -> None:
    """And the codecs are disposed of."""

    class Broken(Running):
        def receive_blocks(self, content: Any) -> None:
            raise ZeroDivisionError("on the server")

    with pytest.raises(ZeroDivisionError, match="on the server"):
        ArrayJob(IIDBlockAssignment(2), codec=Running, server=Broken).run()
