"""BlockExchange: what codecs are given, what is refused, what is corked; and the exact accounts of what was sent."""

from __future__ import annotations

from contextvars import copy_context
from typing import Any

import numpy as np
import pytest

from network.message import Message
from network.wire import Sent
from parallel_sgd.batch_sync import SynchronizedSGD
from parallel_sgd.codec import BlockWeight, Codec, GlobalSettings, MissingParameter
from parallel_sgd.codec.bank import CodecBank
from parallel_sgd.codec.interfaces import Packets, netEncapsulation
from parallel_sgd.codec.plain import Plain
from parallel_sgd.codec.settings import REQUIRED, JobSettings
from parallel_sgd.driver.remote_run import read_accounts
from parallel_sgd.engine.accounts import MEMORY, RECEIVED, SENT, AccountError, Accounts, Entry, check_conserved, unread
from parallel_sgd.engine.channel import Key
from parallel_sgd.engine.exchange import BlockExchange
from parallel_sgd.profiles import FixedBlockAssignment, IIDBlockAssignment, ISetting
from parallel_sgd.testing.array_job import ArrayJob, expected
from tests.parallel_sgd.links import lost_once

from ..statements import covers
from .stub_channel import StubChannel

TWO = IIDBlockAssignment(2)


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
    """An exchange whose first batch has begun."""
    settings = JobSettings(assignment)
    bank = copy_context().run(CodecBank, [kind] * variables, settings, channel, attempt, cork)  # settings stay in there
    sync = SynchronizedSGD(bank, 1.0, lambda: 0.0, tuple(f"v{i}" for i in range(variables)))
    exchange = BlockExchange(bank, sync)
    exchange.begin(0, 0)
    return exchange, bank


def zero() -> np.ndarray:
    return np.zeros(1, np.float32)


def message(key: Key, *content: object) -> Message:
    return Message(key, content, 0, 0)


def test_content_is_read_only_and_may_be_kept_until_the_batch_ends() -> None:
    """The gradient vector is overwritten by the worker's next block; a codec must not notice."""
    exchange, bank = exchange_of(Keeping, FixedBlockAssignment(1, 1, 3), StubChannel())
    gradient = np.zeros(4, np.float32)
    for block in range(3):
        gradient[:] = block
        exchange.put(0, block, gradient)
    kept = bank.codecs[0].kept  # type: ignore[attr-defined]
    assert [part[0] for part in kept] == [0, 1, 2]
    assert np.shares_memory(kept[-1], gradient) and gradient.flags.writeable
    with pytest.raises(ValueError, match="read-only"):
        kept[-1] += 1


def test_the_key_is_attempt_epoch_batch_variable() -> None:
    channel = StubChannel()
    exchange, _ = exchange_of(Keeping, TWO, channel, variables=3, attempt=4)
    exchange.begin(5, 6)
    exchange.put(2, 0, zero())
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
    exchange, _ = exchange_of(Plain, TWO, channel, variables=variables, cork=cork)
    for variable in range(put):
        exchange.put(variable, 0, zero())
    assert (len(channel.posted), channel.flushes) == (put, flushes)
    for _ in range(2):  # what waits leaves when a result is wanted
        assert not exchange.ready(0)
        assert channel.flushes == flushes + (put < variables)


def test_packets_of_a_batch_leave_as_one_train_for_each_peer() -> None:
    """However many peers there are: what counts is what waits for one of them."""
    workers, variables = 32, 4
    channel = StubChannel(size=Sent(2000, 100))
    exchange, _ = exchange_of(Plain, IIDBlockAssignment(workers), channel, variables=variables, cork=variables * 2100)
    for variable in range(variables):
        exchange.put(variable, 0, zero())
    assert (len(channel.posted), channel.flushes) == (variables * (workers - 1), 1)


def test_no_result_before_the_wire_took_what_was_put() -> None:
    """Nobody reuses a buffer before the kernel has taken its bytes."""
    channel = StubChannel()
    exchange, _ = exchange_of(Plain, TWO, channel)
    channel.taken = False
    exchange.put(0, 0, zero())
    exchange.deliver(1, message((0, 0, 0, 0), 1, 2, np.ones(1, np.float32)))
    assert not exchange.ready(0)
    wait = next(iter(exchange.wait(0)))
    assert wait.what() == "variable 0 (v0) of epoch 1, batch 1: the peers have not taken all that was sent to them"
    channel.taken = True
    assert exchange.ready(0)


@covers("SUB-23")
def test_a_message_for_a_result_that_was_taken_is_late() -> None:
    """An optimizer may take one variable while it waits for another; who still asks gets the result."""
    channel, four = StubChannel(), np.full(1, 4, np.float32)
    exchange, _ = exchange_of(Plain, TWO, channel, variables=2)
    exchange.begin(0, 7)
    for variable in range(2):
        exchange.put(variable, 0, zero())
    exchange.deliver(1, message((0, 0, 7, 0), 1, 2, four.copy()))
    assert exchange.ready(0)
    np.testing.assert_array_equal(exchange.get(0), [2])
    channel.posted.clear()
    exchange.deliver(1, message((0, 0, 7, 0), 1, 2, four.copy()))
    exchange.deliver(1, message((0, 0, 7, 0), 1, 2, four.copy(), 1))
    assert not exchange.ready(1)
    assert exchange.sync.late == 2
    assert channel.posted == [(1, (0, 0, 7, 0), (0, 0, np.float32(2)))]


def test_other_attempts_are_counted_and_malformed_keys_refused() -> None:
    """Frames of another attempt are refused and counted."""
    exchange, bank = exchange_of(Plain, TWO, StubChannel(), attempt=1)
    exchange.put(0, 0, zero())
    for attempt in (0, 2):
        exchange.deliver(1, Message((attempt, 0, 0, 0), (1, 2, np.ones(1, np.float32)), 4, 5))
    assert not exchange.ready(0)
    assert exchange.refused == 2
    assert [entry.packets for entry in bank.accounts.entries() if entry.direction == RECEIVED] == [2]
    for key in ((), (0, 0, 0), (0, 0, 0, 7), (0, 0, 0, -1)):
        with pytest.raises(ValueError, match=r"must be \(attempt, epoch, batch, variable\) of this job"):
            exchange.deliver(1, message(key))
    job = ArrayJob(TWO, attempts={0: 0, 1: 1}, timeout=1.0)
    with pytest.raises(TimeoutError, match=r"missing block\(s\) 1 of node\(s\) 1"):
        job.run()
    assert job.exchanges[0].refused > 0


class Needy(Codec):
    """Reads a required parameter when a block comes."""

    def update_blocks(self, block_weight: BlockWeight) -> Packets:
        GlobalSettings.get_params("bits", REQUIRED)
        return None

    def receive_blocks(self, content: object) -> Packets:
        return None


class NeedyAtOnce(Needy):
    def __init__(self, node_id: int) -> None:
        super().__init__(node_id)
        GlobalSettings.get_params("bits", REQUIRED)


@pytest.mark.parametrize("kind", [Needy, NeedyAtOnce])
def test_a_missing_parameter_names_the_codec(kind: type[Codec]) -> None:
    with pytest.raises(MissingParameter, match=f"{kind.__name__} needs the parameter 'bits'"):
        ArrayJob(IIDBlockAssignment(1), codec=kind).run()
    with pytest.raises(TimeoutError, match="retry not available"):  # it has no result, but it found its parameter
        ArrayJob(TWO, codec=kind, parameters={"bits": 3}, timeout=0.5).run()


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
        (None, None),
    ],
)
def test_a_codec_whose_result_does_not_fit_is_named(result: object, came: str | None) -> None:
    """What NumPy would broadcast or refuse in its own words says which codec, which variable, and what is expected."""

    class Wrong(Needy):
        def update_blocks(self, block_weight: BlockWeight) -> Packets:
            self.set_result(result)  # type: ignore[arg-type]
            return None

    text = rf"Wrong must give variable \d \(.*\) an array of floats of shape .*, got {came}"
    with pytest.raises(TypeError, match=text if came else r"set_result\(\) takes an array, got None"):
        ArrayJob(IIDBlockAssignment(1), codec=Wrong).run()


# exact accounts ----------------------------------------------------------------------------------------------------------


@covers("SUB-40")
def test_entries_add_up_per_codec_variable_link_and_direction() -> None:
    """Packets, raw bytes, wire bytes, overhead; what lies in memory apart, where nothing is added to it."""
    books = Accounts(0, ["Plain", "QSGD"], {1: "tcp", 2: "unix"}.__getitem__)
    for variable, peer, size in ((1, 2, Sent(10, 4)), (1, 2, Sent(20, 4)), (1, 2, Sent(99, 4, True)), (0, 1, Sent(1, 4))):
        books.sent(variable, peer, size)
    books.received(1, 2, Sent(7, 4))
    assert books.entries() == [
        Entry("QSGD", 1, 2, RECEIVED, "unix", 1, 7, 11, 4),
        Entry("Plain", 0, 1, SENT, "tcp", 1, 1, 5, 4),
        Entry("QSGD", 1, 2, SENT, "unix", 2, 30, 42, 12),
        Entry("QSGD", 1, 2, SENT, MEMORY, 1, 99, 99, 0),
    ]
    assert (books.total(SENT), books.total(RECEIVED)) == (Sent(130, 16), Sent(7, 4))
    assert Accounts(0, [], str).total(SENT) == Sent(0, 0)


@covers("SUB-40", "INV-4")
@pytest.mark.parametrize("copies", [1, 0, 2])
def test_a_job_conserves_bytes_and_packets(copies: int) -> None:
    """Sent = received + in flight, per link and variable, also where some is lost or repeated; 4 bytes per element are raw."""
    fired: list[Key] = []
    lose = lost_once(lambda sender, _, key: (sender, key[2], key[3]) == (0, 1, 0))

    def link(sender: int, receiver: int, key: Key) -> tuple[float, ...]:
        if copies == 1 or lose(sender, receiver, key):
            return (0.0,)
        fired.append(key)
        return (0.0,) * copies

    job = ArrayJob(FixedBlockAssignment(2, 1, 4), batches=5, link=link).run()
    assert len(job.results[1]) == job.batches and len(fired) == (copies != 1)
    for node in (0, 1) if copies == 1 else ():
        books = job.exchanges[node].accounts
        assert books.total(SENT).raw == books.total(RECEIVED).raw == 5 * 4 * (12 + 4)
        assert books.total(SENT).wire == books.total(SENT).raw + books.total(SENT).overhead
        assert 0 < books.total(SENT).overhead < 5 * 2 * 64


def entry(direction: str, peer: int, *, packets: int = 1, raw: int = 4, overhead: int = 5, by: str = "tcp") -> Entry:
    return Entry("Plain", 0, peer, direction, by, packets, raw, raw + overhead, overhead)


@pytest.mark.parametrize(
    ("books", "flying", "words"),
    [
        ({0: [entry(SENT, 1)], 1: []}, {}, r"Node\(0\) sent \(1, 4, 9, 5\) of variable 0 to node\(1\) by tcp"),
        ({0: [], 1: [entry(RECEIVED, 0)]}, {}, r"where \(1, 4, 9, 5\) arrived and 0"),
        ({0: [entry(SENT, 1)], 1: [entry(RECEIVED, 0)]}, {(0, 1, 0): 1}, r"1 packet is in flight"),
        ({0: [entry(SENT, 1)], 1: [entry(RECEIVED, 0, raw=3)]}, {}, "arrived"),
        ({0: [entry(SENT, 1)._replace(wire=10)], 1: []}, {}, "wire bytes are not raw bytes plus overhead"),
        ({0: [entry(SENT, 1)], 1: [entry(RECEIVED, 0, by="unix")]}, {}, r"by tcp, where \(0, 0, 0, 0\) arrived"),
        ({0: [entry(SENT, 1, by=MEMORY)], 1: []}, {}, "what lies in memory has no overhead"),
    ],
)
def test_a_discrepancy_is_named(books: dict[int, list[Entry]], flying: dict[tuple[int, int, int], int], words: str) -> None:
    with pytest.raises(AccountError, match=words):
        check_conserved(books, flying)


@covers("SUB-40")
def test_what_is_in_flight_or_goes_nowhere_is_no_discrepancy() -> None:
    """A packet for a node that is gone is not counted, and a rescue that reaches nobody is none; a node that goes before the
    farewell of another reads no more from that one."""
    check_conserved({0: [entry(SENT, 1, packets=2), entry(SENT, 7)], 1: [entry(RECEIVED, 0)]}, {(0, 1, 0): 1})
    _, bank = exchange_of(Plain, TWO, StubChannel(size=None))
    bank.update(0, 0, np.zeros(4, np.float32))
    assert bank.accounts.entries() == [] and bank.unsent == 0 and not bank.rescue(0)
    sender, receiver = Accounts(0, ["Plain"], lambda peer: "unix"), Accounts(1, ["Plain"], lambda peer: "unix")
    for shared in (False, False, True):
        sender.sent(0, 1, Sent(10, 4, shared))
    receiver.received(0, 0, Sent(10, 4))
    books = {0: sender.entries(), 1: receiver.entries()}
    with pytest.raises(AccountError, match=r"Node\(0\) sent .* to node\(1\)"):
        check_conserved(books, unread(books, {1: [], 0: [1]}))
    flying = unread(books, {1: [0], 0: []})
    assert flying == {(0, 1, 0): 2}
    check_conserved(books, flying)


@covers("RUN-8")
def test_a_node_without_accounts_makes_no_others_disagree(caplog: pytest.LogCaptureFixture) -> None:
    """Its own are lost with a warning; those of the others are checked all the same."""

    def told(*entries: Entry) -> dict[str, Any]:
        return {"accounts": entries, "times": [0.0] * 5, "staleness": {}, "unheard": []}

    sums = told(entry(SENT, 1), entry(SENT, 2)), told(entry(RECEIVED, 0), entry(SENT, 2))
    for lost in ({}, {**told(), "accounts": "none"}, {**told(), "unheard": ["nobody"]}):
        caplog.clear()
        accounts = read_accounts({0: sums[0], 1: sums[1], 2: lost})
        assert [len(accounts[node]) for node in (0, 1, 2)] == [2, 2, 0]
        assert len(caplog.messages) == 1 and "node(2)" in caplog.text and "disagree" not in caplog.text
        read_accounts({0: sums[0], 1: told(), 2: lost})
        assert "The accounts of the nodes disagree" in caplog.text
