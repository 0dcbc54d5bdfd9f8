"""BlockExchange: what codecs are given, what is refused, what is corked."""

from __future__ import annotations

from contextvars import copy_context

import numpy as np
import pytest

from network.frames import Message
from parallel_sgd.batch_sync import SynchronizedSGD
from parallel_sgd.channel import Key
from parallel_sgd.codec import BlockWeight, Codec, GlobalSettings, MissingParameter
from parallel_sgd.codec.bank import CodecBank
from parallel_sgd.codec.interfaces import Packets, netEncapsulation
from parallel_sgd.codec.plain import Plain
from parallel_sgd.codec.settings import REQUIRED, JobSettings
from parallel_sgd.exchange import BlockExchange
from parallel_sgd.profiles import FixedBlockAssignment, IIDBlockAssignment, ISetting
from parallel_sgd.testing.array_job import ArrayJob, expected

from ..statements import covers
from .stub_channel import StubChannel


class Keeping(Codec):
    """Keeps every block, as a codec written for the published interface does."""

    def __init__(self, node_id: int) -> None:
        super().__init__(node_id)
        self.kept: list[np.ndarray] = []

    def update_blocks(self, block_weight: BlockWeight) -> Packets:
        self.kept.append(block_weight.content)
        return netEncapsulation(1, block_weight.block_id)

    def receive_blocks(self, content: object) -> Packets:
        return None


def exchange_of(
    kind: type[Codec], assignment: ISetting, channel: StubChannel, variables: int = 1, attempt: int = 0, cork: int = 1 << 16
) -> tuple[BlockExchange, CodecBank]:
    settings = JobSettings(assignment)
    bank = copy_context().run(CodecBank, [kind] * variables, settings, channel, attempt, cork)  # settings stay in there
    sync = SynchronizedSGD(bank, 1.0, lambda: 0.0, tuple(f"v{i}" for i in range(variables)))
    return BlockExchange(bank, sync), bank


def test_a_codec_may_keep_what_it_is_given_until_the_batch_ends() -> None:
    """The gradient vector is overwritten by the worker's next block; a codec must not notice."""
    exchange, bank = exchange_of(Keeping, FixedBlockAssignment(1, 1, 3), StubChannel())
    gradient = np.zeros(4, np.float32)
    exchange.begin(0, 0)
    for block in range(3):
        gradient[:] = block
        exchange.put(0, block, gradient)
    assert [part[0] for part in bank.codecs[0].kept] == [0, 1, 2]  # type: ignore[attr-defined]


def test_content_is_read_only() -> None:
    exchange, bank = exchange_of(Keeping, IIDBlockAssignment(2), StubChannel())
    gradient = np.zeros(4, np.float32)
    exchange.begin(0, 0)
    exchange.put(0, 0, gradient)
    (content,) = bank.codecs[0].kept  # type: ignore[attr-defined]
    assert np.shares_memory(content, gradient)
    with pytest.raises(ValueError, match="read-only"):
        content += 1
    assert gradient.flags.writeable


def test_the_key_is_attempt_epoch_batch_variable() -> None:
    channel = StubChannel()
    exchange, _ = exchange_of(Keeping, IIDBlockAssignment(2), channel, variables=3, attempt=4)
    exchange.begin(5, 6)
    exchange.put(2, 0, np.zeros(1, np.float32))
    assert channel.posted == [(1, (4, 5, 6, 2), 0)]


@pytest.mark.parametrize(
    ("variables", "put", "cork", "flushes"),
    [
        pytest.param(3, 2, 1000, 0, id="some blocks are still to come"),
        pytest.param(2, 2, 1000, 1, id="with the last block of the batch"),
        pytest.param(4, 3, 200, 1, id="a full cork, during backward"),  # after 220 bytes; the third packet waits
    ],
)
def test_when_packets_leave(variables: int, put: int, cork: int, flushes: int) -> None:
    channel = StubChannel()
    exchange, _ = exchange_of(Plain, IIDBlockAssignment(2), channel, variables=variables, cork=cork)
    exchange.begin(0, 0)
    for variable in range(put):
        exchange.put(variable, 0, np.zeros(1, np.float32))
    assert (len(channel.posted), channel.flushes) == (put, flushes)
    for _ in range(2):  # what waits leaves when a result is wanted
        assert not exchange.ready(0)
        assert channel.flushes == flushes + (put < variables)


def test_no_result_before_the_wire_took_what_was_put() -> None:
    """design.md, the flow of one batch: nobody reuses a buffer before the kernel has taken its bytes."""
    channel = StubChannel()
    exchange, _ = exchange_of(Plain, IIDBlockAssignment(2), channel)
    channel.taken = False
    exchange.begin(0, 0)
    exchange.put(0, 0, np.zeros(1, np.float32))
    exchange.deliver(1, Message((0, 0, 0, 0), (1, 2, np.ones(1, np.float32)), 0, 0))
    assert not exchange.ready(0)
    wait = next(iter(exchange.wait(0)))
    assert wait.what() == "variable 0 (v0) of epoch 1, batch 1: the peers have not taken all that was sent to them"
    channel.taken = True
    assert exchange.ready(0)


@covers("SUB-23")
def test_a_message_for_a_result_that_was_taken_is_late() -> None:
    """An optimizer may take one variable while it waits for another; who still asks gets the result."""
    channel = StubChannel()
    exchange, _ = exchange_of(Plain, IIDBlockAssignment(2), channel, variables=2)
    exchange.begin(0, 7)
    for variable in range(2):
        exchange.put(variable, 0, np.zeros(1, np.float32))
    exchange.deliver(1, Message((0, 0, 7, 0), (1, 2, np.full(1, 4, np.float32)), 0, 0))
    assert exchange.ready(0)
    np.testing.assert_array_equal(exchange.get(0), [2])
    channel.posted.clear()
    exchange.deliver(1, Message((0, 0, 7, 0), (1, 2, np.full(1, 4, np.float32)), 0, 0))
    exchange.deliver(1, Message((0, 0, 7, 0), (1, 2, np.full(1, 4, np.float32), 1), 0, 0))
    assert not exchange.ready(1)
    assert exchange.sync.late == 2
    ((target, key, content),) = channel.posted
    assert (target, key, content) == (1, (0, 0, 7, 0), (0, 0, np.float32(2)))


def test_another_attempt_is_refused_and_counted() -> None:
    """design.md, names: frames of another attempt are refused and counted."""
    exchange, bank = exchange_of(Plain, IIDBlockAssignment(2), StubChannel(), attempt=1)
    exchange.begin(0, 0)
    exchange.put(0, 0, np.zeros(1, np.float32))
    for attempt in (0, 2):
        exchange.deliver(1, Message((attempt, 0, 0, 0), (1, 2, np.ones(1, np.float32)), 4, 5))
    assert not exchange.ready(0)
    assert exchange.refused == 2
    assert [entry.packets for entry in bank.accounts.entries() if entry.direction == "received"] == [2]


@pytest.mark.parametrize("key", [(), (0, 0, 0), (0, 0, 0, 7), (0, 0, 0, -1)])
def test_a_malformed_key_is_refused(key: Key) -> None:
    exchange, _ = exchange_of(Plain, IIDBlockAssignment(2), StubChannel())
    with pytest.raises(ValueError, match=r"must be \(attempt, epoch, batch, variable\) of this job"):
        exchange.deliver(1, Message(key, None, 0, 0))


class Needy(Codec):
    """Reads a required parameter where `when` says."""

    when = "__init__"

    def __init__(self, node_id: int) -> None:
        super().__init__(node_id)
        if self.when == "__init__":
            GlobalSettings.get_params("bits", REQUIRED)

    def update_blocks(self, block_weight: BlockWeight) -> Packets:
        GlobalSettings.get_params("bits", REQUIRED)
        return None

    def receive_blocks(self, content: object) -> Packets:
        return None


class LaterNeedy(Needy):
    """Reads it when a block comes."""

    when = "update_blocks"


@pytest.mark.parametrize("kind", [Needy, LaterNeedy])
def test_a_missing_parameter_names_the_codec(kind: type[Codec]) -> None:
    with pytest.raises(MissingParameter, match=f"{kind.__name__} needs the parameter 'bits'"):
        ArrayJob(IIDBlockAssignment(1), codec=kind).run()


def test_a_required_parameter_that_is_given_is_found() -> None:
    job = ArrayJob(IIDBlockAssignment(2), codec=LaterNeedy, parameters={"bits": 3}, timeout=0.5)
    with pytest.raises(TimeoutError, match="retry not available"):  # it has no result, but it found its parameter
        job.run()


def test_a_result_is_valid_until_the_next_batch() -> None:
    channel = StubChannel()
    exchange, _ = exchange_of(Plain, IIDBlockAssignment(1), channel)
    gradient = np.arange(3, dtype=np.float32)
    exchange.begin(0, 0)
    exchange.put(0, 0, gradient)
    assert exchange.ready(0)
    np.testing.assert_array_equal(exchange.get(0), [0, 1, 2])


def test_an_attempt_of_its_own_gets_no_result() -> None:
    job = ArrayJob(IIDBlockAssignment(2), attempts={0: 0, 1: 1}, timeout=1.0)
    with pytest.raises(TimeoutError, match=r"missing block\(s\) 1 of node\(s\) 1"):
        job.run()
    assert job.exchanges[0].refused > 0


def test_the_same_packets_give_the_same_result_in_every_run() -> None:
    one, two = (ArrayJob(IIDBlockAssignment(3)).run() for _ in range(2))
    assert one.results[2][1][0].tobytes() == two.results[2][1][0].tobytes() == expected(1, 3)[0].tobytes()


@pytest.mark.parametrize(
    ("result", "came"),
    [
        (np.float32(0.1), "float32"),
        (np.ones(3, np.float32), r"float32 \(3,\)"),
        (np.ones((3, 4), np.int64), r"int64 \(3, 4\)"),
        ([[0.0] * 4] * 3, "list"),
        (None, r"set_result\(\) takes an array, got None"),
    ],
)
def test_a_codec_whose_result_does_not_fit_is_named(result: object, came: str) -> None:
    """What NumPy would broadcast or refuse in its own words says which codec, which variable, and what is expected."""

    class Wrong(Codec):
        def update_blocks(self, block_weight: BlockWeight) -> Packets:
            self.set_result(result)  # type: ignore[arg-type]
            return None

        def receive_blocks(self, content: object) -> Packets:
            return None

    expected_text = (
        came if result is None else rf"Wrong must give variable \d \(.*\) an array of floats of shape .*, got {came}"
    )
    with pytest.raises(TypeError, match=expected_text):
        ArrayJob(IIDBlockAssignment(1), codec=Wrong).run()
