"""Slots between two nodes: offers, consent, what a peer may claim, and slots that were given up."""

from __future__ import annotations

import contextlib
import socket
import sys
from collections.abc import Iterator

import numpy as np
import pytest

from network.controller import Controller
from network.session import Peer, Session
from network.transport import SocketLink
from rpc.collective.shared_slots import ACCEPT, AHEAD, OFFER, PIECE_BYTES, SharedSlots

pytestmark = pytest.mark.skipif(sys.platform != "linux", reason="shared memory needs Linux")
KEY = b"k" * 32
F4 = np.dtype(np.float32)


class Node:
    """A controller, its slots, and what has reached them."""

    def __init__(self, node_id: int, link: SocketLink, *, sealed: bool) -> None:
        session = Session(link, KEY, KEY, Peer("peer"), sealed=sealed, is_server=node_id == 0)
        self.controller = Controller(node_id, {1 - node_id: session})
        self.slots = SharedSlots(self.controller, [0, 1])
        self.kinds: list[int] = []
        self.controller.on_block = lambda sender, message: self.take(sender, message.head[0], message.value)

    def take(self, sender: int, kind: int, value: object) -> None:
        self.slots.negotiate(sender, kind, value)
        self.kinds.append(kind)

    def pump(self) -> None:
        self.controller.push()
        self.controller.pump(0.0)


@contextlib.contextmanager
def pair(*, sealed: bool = False) -> Iterator[tuple[Node, Node]]:
    ends = socket.socketpair()
    nodes = Node(0, SocketLink(ends[0]), sealed=sealed), Node(1, SocketLink(ends[1]), sealed=sealed)
    try:
        yield nodes
    finally:
        for node in nodes:
            node.controller.close(graceful=False)


def agree(one: Node, other: Node) -> None:
    one.slots.offer()
    one.pump()
    other.pump()
    other.pump()
    one.pump()


def test_a_peer_that_agreed_reads_what_was_left_for_it() -> None:
    with pair() as (one, other):
        assert not one.slots.read_by(1, F4)
        agree(one, other)
        assert (other.kinds, one.kinds) == ([OFFER], [ACCEPT])
        assert one.slots.read_by(1, F4)
        for piece in range(AHEAD):
            for row in (0, 1):
                content = np.full(PIECE_BYTES // 4 - piece, 10 * piece + row, np.float32)
                what = one.slots.fill(row, piece, content)
                np.testing.assert_array_equal(other.slots.look(0, row, piece, what), content)
        assert other.slots.look(0, 1, 0, ("<f4", 1))[0] == 1  # the rows and slots do not overlap
        one.slots.offer()
        one.pump()
        other.pump()
        assert other.kinds == [OFFER]  # it is asked once


def test_types_that_cannot_travel_are_left_in_no_slot() -> None:
    with pair() as (one, other):
        agree(one, other)
        assert not one.slots.read_by(1, np.dtype(">f4"))
        assert not one.slots.read_by(1, np.dtype("datetime64[s]"))


def test_sealed_sessions_share_no_memory() -> None:
    """Whoever is on the path of a sealed session must neither read nor change anything, and on one host nobody is."""
    with pair(sealed=True) as (one, other):
        agree(one, other)
        assert other.kinds == []


@pytest.mark.parametrize(
    "offer", [None, 3, (), (1, 2, 3), ("1", "2", "psgd-x", 4), (1 << 40, 0, "psgd-x", 2 * AHEAD * PIECE_BYTES)]
)
def test_an_offer_of_nothing_is_not_accepted(offer: object) -> None:
    with pair() as (one, other):
        one.controller.sessions[1].queue(offer, (OFFER, 0, 0))
        one.pump()
        other.pump()
        assert other.kinds == [OFFER]
        one.pump()
        assert one.kinds == []
        with pytest.raises(ValueError, match="Node 0 speaks of a piece"):
            other.slots.look(0, 1, 0, ("<f4", 1))


@pytest.mark.parametrize(
    "what", [None, (), ("<f4",), ("O", 1), (["<f4"], 1), ("<f4", -1), ("<f4", PIECE_BYTES // 4 + 1), ("<f4", 1.0)]
)
def test_a_claim_beyond_a_slot_is_refused(what: object) -> None:
    with pair() as (one, other):
        agree(one, other)
        with pytest.raises(ValueError, match=r"Node 0 speaks of a piece .*, which none of its slots can hold"):
            other.slots.look(0, 1, 0, what)


def test_what_was_in_slots_that_are_given_up_stays_as_it_was() -> None:
    with pair() as (one, other):
        agree(one, other)
        old = other.slots.look(0, 1, 0, one.slots.fill(1, 0, np.full(9, 1, np.float32)))
        one.slots.abandon()
        assert not one.slots.read_by(1, F4)
        agree(one, other)
        new = other.slots.look(0, 1, 0, one.slots.fill(1, 0, np.full(9, 2, np.float32)))
        assert (old == 1).all() and (new == 2).all()


def test_consent_that_comes_too_late_is_for_nothing() -> None:
    with pair() as (one, other):
        one.slots.offer()
        one.pump()
        other.pump()
        one.slots.abandon()
        other.pump()
        one.pump()
        assert one.kinds == [ACCEPT] and not one.slots.read_by(1, F4)
