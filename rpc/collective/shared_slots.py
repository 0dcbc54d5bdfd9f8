"""Where a node of a group leaves pieces for peers on its host, who read them in place: a row of slots for each reader.

A row belongs to the rank that reads it, and the node's own row to all: it holds its results. Piece k of an operation takes the
slot k modulo `AHEAD`. `allreduce.ShardedReduction` fills a slot again only when all its readers have answered what was in it.
Peers learn of the slots by an offer and say when they can read them; until then, and wherever they cannot, pieces travel
as arrays in messages.
"""

from __future__ import annotations

import contextlib
from collections.abc import Sequence
from typing import Any, Final

import numpy as np

from network.controller import Controller
from network.memory import Bytes, SharedMemory, SharedMemoryHandle, attach
from network.session import Session
from network.values import DTYPES, Array

AHEAD: Final = 2  # pieces that may be under way to one peer: it combines one while the next ones come
PIECE_BYTES: Final = 1 << 20  # at most: large enough that messages cost little, and a few of them stay in the caches
OFFER, ACCEPT = 5, 6  # kinds of messages about slots


class SharedSlots:
    """The slots of one node, and its view of those of the others. `group` holds the nodes by rank."""

    def __init__(self, controller: Controller, group: Sequence[int]) -> None:
        self._controller = controller
        self._group = group
        self._size = len(group) * AHEAD * PIECE_BYTES
        self._shared: SharedMemory | None = None
        self._possible = True
        self._offered: dict[int, Session] = {}
        self._readers: dict[int, Session] = {}
        self._seen: dict[int, Bytes] = {}

    def offer(self) -> None:
        """Offer our slots to every peer of this host that has not been asked; the offers are put in line."""
        for peer in self._group:
            session = self._controller.sessions.get(peer)
            if session is None or not session.alive or not session.link.private or session.sealed:
                continue
            if self._offered.get(peer) is not session and (shared := self._make()) is not None:
                self._offered[peer] = session
                session.queue(tuple(shared.handle), (OFFER, 0, 0))

    def _make(self) -> SharedMemory | None:
        if self._shared is None and self._possible:
            try:
                self._shared = SharedMemory(self._size)
            except OSError:
                self._possible = False
        return self._shared

    def negotiate(self, sender: int, kind: int, value: Any) -> None:
        """Take an offer of a peer, or its consent to ours."""
        session = self._controller.sessions[sender]
        if kind == ACCEPT:
            if self._shared is not None and value == self._shared.handle.name:  # else it was abandoned meanwhile
                self._readers[sender] = session
        elif kind == OFFER and session.alive and session.link.private and not session.sealed:
            with contextlib.suppress(OSError, TypeError, ValueError):  # no such memory: its pieces come in messages
                handle = SharedMemoryHandle(*value)
                if handle.size == self._size:
                    self._seen[sender] = attach(handle)
                    session.queue(handle.name, (ACCEPT, 0, 0))

    def abandon(self) -> None:
        """Leave the slots to peers that may still read them; the next operation begins with fresh ones."""
        self._shared = None
        self._offered.clear()
        self._readers.clear()

    def read_by(self, peer: int, dtype: np.dtype[Any]) -> bool:
        """Whether `peer` reads pieces of this type in our slots."""
        reader = self._readers.get(peer)
        return reader is not None and reader is self._controller.sessions.get(peer) and dtype.str in DTYPES

    def fill(self, row: int, piece: int, content: Array) -> tuple[str, int]:
        """Write a piece into the slot of `row` and return what a reader must know of it: type and length."""
        shared = self._shared
        if shared is None:
            raise RuntimeError("Slots can be filled when a peer has accepted them.")
        at = self._place(row, piece)
        np.copyto(shared.memory[at : at + content.nbytes].view(content.dtype), content)
        return content.dtype.str, content.size

    def look(self, sender: int, row: int, piece: int, what: Any) -> Array:
        """A piece in a slot of `sender`, described by what `fill` returned there.

        Raises: ValueError when the description fits no slot that we can see.
        """
        seen = self._seen.get(sender)
        code, count = what if isinstance(what, tuple) and len(what) == 2 else ("", 0)
        dtype = np.dtype(code) if isinstance(code, str) and code in DTYPES else None
        if (
            seen is None
            or dtype is None
            or piece < 0
            or type(count) is not int
            or not 0 <= count <= PIECE_BYTES // dtype.itemsize
        ):
            raise ValueError(f"Node {sender} speaks of a piece {what!r}, which none of its slots can hold.")
        at, size = self._place(row, piece), count * dtype.itemsize
        self._controller.sessions[sender].account_shared(read=size)
        return seen[at : at + size].view(dtype)

    @staticmethod
    def _place(row: int, piece: int) -> int:
        return (row * AHEAD + piece % AHEAD) * PIECE_BYTES
