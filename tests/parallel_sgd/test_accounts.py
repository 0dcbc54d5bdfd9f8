"""Exact accounts."""

from __future__ import annotations

from contextvars import copy_context

import numpy as np
import pytest

from network.wire import Sent
from parallel_sgd.accounts import RECEIVED, SENT, AccountError, Accounts, Entry, check_conserved, unread
from parallel_sgd.channel import Key
from parallel_sgd.codec.bank import CodecBank
from parallel_sgd.codec.plain import Plain
from parallel_sgd.codec.settings import JobSettings
from parallel_sgd.profiles import FixedBlockAssignment, IIDBlockAssignment
from parallel_sgd.testing.array_job import ArrayJob

from ..statements import covers
from .stub_channel import StubChannel


@covers("SUB-40")
def test_entries_add_up_per_codec_variable_link_and_direction() -> None:
    """Raw bytes, wire bytes, overhead."""
    books = Accounts(0, ["Plain", "QSGD"])
    books.sent(1, 2, Sent(10, 4))
    books.sent(1, 2, Sent(20, 4))
    books.sent(0, 1, Sent(1, 4))
    books.received(1, 2, Sent(7, 4))
    assert books.entries() == [
        Entry("QSGD", 1, 2, RECEIVED, 1, 7, 11, 4),
        Entry("Plain", 0, 1, SENT, 1, 1, 5, 4),
        Entry("QSGD", 1, 2, SENT, 2, 30, 38, 8),
    ]
    assert books.total(SENT) == Sent(31, 12)
    assert books.total(RECEIVED) == Sent(7, 4)
    assert Accounts(0, []).total(SENT) == Sent(0, 0)


@covers("SUB-40", "INV-4")
def test_a_job_conserves_bytes_and_packets() -> None:
    """Sent = received + in flight, per link and variable; 4 bytes per element travel raw."""
    job = ArrayJob(FixedBlockAssignment(2, 1, 4), batches=5).run()
    for node in (0, 1):
        books = job.exchanges[node].accounts
        assert books.total(SENT).raw == books.total(RECEIVED).raw == 5 * 4 * (12 + 4)
        assert books.total(SENT).wire == books.total(SENT).raw + books.total(SENT).overhead
        assert 0 < books.total(SENT).overhead < 5 * 2 * 64


@covers("SUB-40")
@pytest.mark.parametrize("copies", [(), (0.0, 0.0)])
def test_lost_and_repeated_packets_stay_in_the_accounts(copies: tuple[float, ...]) -> None:
    """What a link loses or repeats is known, so the sums still hold."""
    fired = []

    def link(sender: int, receiver: int, key: Key) -> tuple[float, ...]:
        if (sender, key[2], key[3]) == (0, 1, 0) and not fired:
            fired.append(key)
            return copies
        return (0.0,)

    job = ArrayJob(IIDBlockAssignment(2), link=link).run()
    assert fired
    assert len(job.results[1]) == job.batches


def entry(direction: str, peer: int, packets: int = 1, raw: int = 4, wire: int = 9, overhead: int = 5) -> Entry:
    return Entry("Plain", 0, peer, direction, packets, raw, wire, overhead)


@pytest.mark.parametrize(
    ("books", "flying", "words"),
    [
        ({0: [entry(SENT, 1)], 1: []}, {}, r"Node\(0\) sent \(1, 4, 9, 5\) of variable 0 to node\(1\)"),
        ({0: [], 1: [entry(RECEIVED, 0)]}, {}, r"where \(1, 4, 9, 5\) arrived and 0"),
        ({0: [entry(SENT, 1)], 1: [entry(RECEIVED, 0)]}, {(0, 1, 0): 1}, r"1 packet\(s\) are in flight"),
        ({0: [entry(SENT, 1)], 1: [entry(RECEIVED, 0, raw=3, wire=8)]}, {}, "arrived"),
        ({0: [entry(SENT, 1, wire=10)], 1: []}, {}, "wire bytes are not raw bytes plus overhead"),
    ],
)
def test_a_discrepancy_is_named(books: dict[int, list[Entry]], flying: dict[tuple[int, int, int], int], words: str) -> None:
    with pytest.raises(AccountError, match=words):
        check_conserved(books, flying)


def test_what_is_in_flight_and_what_left_the_job_is_no_discrepancy() -> None:
    check_conserved({0: [entry(SENT, 1, packets=2), entry(SENT, 7)], 1: [entry(RECEIVED, 0)]}, {(0, 1, 0): 1})


@covers("SUB-40")
def test_what_goes_nowhere_is_not_counted() -> None:
    """a packet for a node that is gone; a rescue that reaches nobody is none."""
    bank = copy_context().run(CodecBank, [Plain], JobSettings(IIDBlockAssignment(2)), StubChannel(size=None), 0)
    bank.update(0, 0, np.zeros(4, np.float32))
    assert bank.accounts.entries() == [] and bank.unsent == 0
    assert not bank.rescue(0)


def test_packets_that_a_leaving_node_has_not_read_are_in_flight() -> None:
    """A node that goes before the farewell of another reads no more from that one."""
    sender, receiver = Accounts(0, ["Plain"]), Accounts(1, ["Plain"])
    for _ in range(3):
        sender.sent(0, 1, Sent(10, 4))
    receiver.received(0, 0, Sent(10, 4))
    books = {0: sender.entries(), 1: receiver.entries()}
    with pytest.raises(AccountError, match=r"Node\(0\) sent .* to node\(1\)"):
        check_conserved(books, unread(books, {1: [], 0: [1]}))
    flying = unread(books, {1: [0], 0: []})
    assert flying == {(0, 1, 0): 2}
    check_conserved(books, flying)
