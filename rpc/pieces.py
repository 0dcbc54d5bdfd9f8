"""The pieces of large arrays that a group combines: each to its operation, also when it comes before that has begun."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from network.controller import Controller
from network.memory import SlabPool
from network.values import Array

from .allreduce import PART, RESULT, ShardedReduction
from .slots import Slots

PIECE_HEAD = 3  # ints in the head of a piece: its kind, the number of the operation, and its own number


class Pieces:
    """One node's pieces. One operation runs at a time; a peer may be ahead."""

    def __init__(self, controller: Controller, group: Sequence[int]) -> None:
        self._controller = controller
        self._group = group
        self._rank = group.index(controller.node_id)
        self._early: dict[int, list[tuple[int, int, int, Any]]] = {}
        self._running: ShardedReduction | None = None
        self._number = 0
        self._pool = SlabPool()
        self._slots = Slots(controller, group)
        controller.use_place(self._place)

    def begin(self, number: int, mine: Array, op: str) -> ShardedReduction:
        """Start operation `number`, with the pieces that have come already."""
        self._number = number
        self._running = running = ShardedReduction(self._controller, self._group, number, mine, op, self._pool, self._slots)
        running.start()
        for sender, kind, piece, value in self._early.pop(number, []):
            running.take(sender, kind, piece, value)
        return running

    def end(self) -> None:
        """The running operation is over."""
        if self._running is None or self._running.missing():  # peers may still read what it has sent
            self._slots.abandon()
        self._running = None

    def take(self, sender: int, head: tuple[int, ...], value: Any) -> None:
        """Take a piece that has arrived."""
        kind, number, piece = head
        if kind not in (PART, RESULT):
            self._slots.negotiate(sender, kind, value)
        elif number >= self._number:  # else of an operation that has failed here
            value = self._found(sender, kind, piece, value)
            if self._running is not None and number == self._number:
                self._running.take(sender, kind, piece, value)
            elif number > self._number:
                self._early.setdefault(number, []).append((sender, kind, piece, value))

    def _found(self, sender: int, kind: int, piece: int, value: Any) -> Any:
        """The value with the array that it has left in a slot. It is sought now: a later offer would tell of other slots."""
        if kind == PART and isinstance(value[1], tuple):
            return value[0], self._slots.look(sender, self._rank, piece, value[1])
        if kind == RESULT and isinstance(value, tuple):
            return self._slots.look(sender, self._group.index(sender), piece, value)
        return value

    def check_none(self, number: int, node: int) -> None:
        """Raise ValueError when a piece has come for an operation in which `node` has an array too small to be cut."""
        for sender, kind, _, value in self._early.get(number, ()):
            if kind == PART:
                raise ValueError(f"allreduce needs one shape; node {sender} has {value[0]}, node {node} a smaller one.")

    def _place(self, sender: int, head: tuple[int, ...]) -> Array | None:
        if self._running is None or len(head) != PIECE_HEAD or head[1] != self._number:
            return None
        return self._running.place(sender, head[0], head[2])
