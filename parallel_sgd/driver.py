"""Drives a worker's training over sockets: packets go out through the controller, waiting pumps it."""

from __future__ import annotations

import logging
from collections.abc import Callable, Generator
from typing import TypeVar

from network.clock import Clock
from network.controller import Controller
from network.frames import Message

from .channel import Key, Sent
from .profiles import ISetting
from .wait import Wait

Result = TypeVar("Result")
Deliver = Callable[[int, Key, object, Sent], None]
_NOTHING = Sent(0, 0, 0)
_log = logging.getLogger("parallel_sgd.driver")


class SocketChannel:
    """A `Channel` over the sessions of a controller. What is posted to a node that is gone goes nowhere, and is said once."""

    def __init__(self, controller: Controller) -> None:
        self._controller = controller
        self._gone: set[int] = set()

    @property
    def node_id(self) -> int:
        """The worker that sends through this channel."""
        return self._controller.node_id

    def post(self, target: int, key: Key, content: object) -> Sent:
        """Queue one packet."""
        session = self._controller.sessions.get(target)
        if session is None or not session.alive:
            if target not in self._gone:
                self._gone.add(target)
                _log.info("Node(%s) is gone: packets for it are dropped from here on.", target)
            return _NOTHING
        sent = self._controller.post(target, content, key)
        return Sent(sent.raw, sent.raw + sent.overhead, sent.overhead)

    def flush(self) -> None:
        """Hand what is queued to the system, as far as it takes it at once."""
        self._controller.push()

    def flushed(self) -> bool:
        """Whether the system has taken every byte."""
        return self._controller.flushed()


def drive(
    process: Generator[Wait, None, Result],
    controller: Controller,
    clock: Clock,
    can_go_on: Callable[[set[int]], bool],
) -> Result:
    """Run `process` to its end and return its value.

    `can_go_on(lost)` decides whether the work can be completed without the nodes that are lost.
    Raises: PeerLost at once when it cannot; whatever the process raises.
    """
    known: set[int] = set()

    def check_losses() -> None:
        lost = set(controller.lost)
        if lost == known:
            return
        for node in sorted(lost - known):
            if not can_go_on(lost):
                raise controller.loss_of(node)
            _log.warning("%s Its blocks are on other nodes too, so the job goes on.", controller.loss_of(node))
        known.update(lost)

    while True:
        try:
            wait = next(process)
        except StopIteration as end:
            result: Result = end.value
            return result
        while not wait.ready():
            check_losses()
            left = None if wait.deadline is None else wait.deadline - clock.monotonic()
            if left is not None and left <= 0:
                break
            controller.pump(left)


def deliverer(deliver: Deliver) -> Callable[[int, Message], None]:
    """Adapt `BlockExchange.deliver` to the messages of a controller."""

    def on_block(sender: int, message: Message) -> None:
        deliver(sender, message.head, message.value, Sent(message.raw, message.raw + message.overhead, message.overhead))

    return on_block


def covers_all_blocks(assignment: ISetting, lost: set[int]) -> bool:
    """Whether every block is held by a node that is not lost."""
    return all(any(node not in lost for node in holders) for holders in assignment.block_2_node)
