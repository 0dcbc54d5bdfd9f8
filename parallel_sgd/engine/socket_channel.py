"""Channel of a node over sockets, and the loop that runs a process while it moves packets."""

from __future__ import annotations

import contextlib
from collections.abc import Callable, Collection, Generator, Sequence
from typing import TypeVar

from network.clock import Clock
from network.controller import Controller
from network.errors import PeerLost, TimedOut
from network.wire import Sent
from rpc.support.logs import get_logger

from .channel import Key, NoSuchNode, Parameter_Server, Wait

Result = TypeVar("Result")
READ_BYTES = 1 << 19  # posted at a time without reading: as many do not fill the buffers of a connection
_log = get_logger("parallel_sgd.engine.socket_channel")


class SocketChannel:
    """`Channel` over the sessions of a controller. A packet posted to a node that is gone goes nowhere, and this is logged
    once.
    """

    def __init__(self, controller: Controller, suspects: Callable[[], Collection[int]] = tuple) -> None:
        self._controller, self._suspects = controller, suspects
        self._gone: set[int] = set()
        self._unread = 0  # bytes posted since the system was last seen to have taken all, or since it was read while posting

    @property
    def node_id(self) -> int:
        return self._controller.node_id

    def peers(self) -> list[int]:
        return self._controller.available_clients

    def transport(self, peer: int) -> str:
        return self._controller.sessions[peer].link.transport

    def suspects(self) -> Collection[int]:
        return self._suspects()

    def post(self, target: int, key: Key, content: object) -> Sent | None:
        """Queue one packet; however much is in line already, since waiting is the business of `run_process`."""
        # asked by session, not by `peers()`: a packet is posted for each of many targets
        session = self._controller.sessions.get(target)
        if session is None:
            raise NoSuchNode(f"A packet must go to one of the nodes {sorted(self._controller.sessions)}, got {target}")
        if session.lost is not None or session.left:
            if target not in self._gone:
                self._gone.add(target)
                _log.info("Node(%s) is gone: packets for it are dropped from here on.", target)
            return None
        sent = session.queue(content, key)
        # bytes, not packets: large models fill the buffers of a connection with one variable
        self._unread += sent.raw
        return sent

    def flush(self) -> None:
        """Hand queued packets to the system, as far as it takes them at once.

        Where a step moves more than the buffers of a connection hold, it also reads: the peers send at the same time, and while
        no node reads, neither side gets on.
        """
        # never blocks: bytes that the system does not take now go when the process waits
        self._controller.push()
        if self._unread >= READ_BYTES:
            self._unread = 0
            self._controller.read()

    def poll(self) -> None:
        """Move all bytes that can be moved at once, in both directions."""
        self._controller.pump(0.0)

    def flushed(self) -> bool:
        """Tell if the system has taken every byte.

        Raises: the error with which the controller was interrupted, so that a worker which waits for no other can be stopped
        too.
        """
        self._controller.check()
        if not self._controller.flushed():
            return False
        self._unread = 0
        return True


def run_process(
    process: Generator[Wait, None, Result],
    controller: Controller,
    clock: Clock,
    can_go_on: Callable[[set[int]], bool],
) -> Result:
    """Run `process` to its end and return its value; it is closed in any case.

    Args:
        process: yields its waits.
        controller: moves the packets of the node.
        clock: tells monotonic seconds.
        can_go_on: `can_go_on(lost)` decides whether the work can be completed without the nodes that are lost. One without
            which it can, and which has not taken the bytes in line for it by the deadline of a wait, is given up.

    Raises: PeerLost at once when it cannot; each error of the process.
    """
    # losses without which the job goes on, each told once
    known: set[int] = set()

    def check_losses() -> None:
        # asked at every turn of the loop, where mostly nothing has changed
        if controller.lost.keys() == known:
            return
        lost = set(controller.lost)
        for node in sorted(lost - known):
            if not can_go_on(lost):
                raise controller.loss_of(node)
            _log.warning("%s Its blocks are on other nodes too, so the job goes on.", controller.loss_of(node))
        known.update(lost)

    def until(wait: Wait) -> None:
        start = clock.monotonic()
        while not wait.ready():
            check_losses()
            left = None if wait.deadline is None else wait.deadline - clock.monotonic()
            if left is None or left > 0:
                controller.pump(left)
                continue
            # overdue, and some bytes were never taken: a peer that reads nothing must not hold up the others for ever
            slow = {peer for peer, session in controller.sessions.items() if session.pending_bytes}
            # the process itself decides on a wait that is overdue: rescue, verdict, or TimeoutError
            if not slow or not can_go_on(known | slow):
                return
            _give_up(controller, slow, clock.monotonic() - start)

    # on any error the process is closed, so that its `finally` saves what training has reached
    with contextlib.closing(process):
        while True:
            try:
                wait = next(process)
            except StopIteration as end:
                result: Result = end.value
                return result
            until(wait)


def close_gracefully(controller: Controller, seconds: float) -> list[int]:
    """Say BYE to all peers and take in the packets that are still on their way here, so that the accounts are complete.

    Returns the nodes that have not said BYE within `seconds`, from which more may come that this node does not read.
    """
    for session in controller.sessions.values():
        session.leave()
    with contextlib.suppress(TimedOut):
        # INV-4: what arrives meanwhile is still counted, so that sent = received
        controller.wait_until(lambda: not controller.available_clients, seconds, lambda: "the BYE of the others")
    # a session that read a BYE while it sent has read the packets before it, too, and not yet handed them over
    controller.pump(0.0)
    _give_up(controller, [peer for peer, session in controller.sessions.items() if session.pending_bytes], seconds)
    return controller.available_clients


def _give_up(controller: Controller, peers: Collection[int], seconds: float) -> None:
    """Treat `peers` as lost; bytes in line for them are dropped."""
    for peer in peers:
        session = controller.sessions[peer]
        session.close()
        controller.lost[peer] = PeerLost(peer, session.link.peer, f"it has not taken our data within {seconds:.3g} s")


def can_do_without(holders: Sequence[Collection[int]], lost: Collection[int]) -> bool:
    """Tell if a job can be completed without the nodes that are lost: another one is among the `holders` of each block."""
    return Parameter_Server not in lost and all(any(node not in lost for node in nodes) for nodes in holders)
