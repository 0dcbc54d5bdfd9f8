"""Interface between the engine and the transport: node ids, channels for packets, and the waits that processes yield."""

from __future__ import annotations

from collections.abc import Callable, Collection, Generator, Iterator
from typing import Final, NamedTuple, Protocol

from network.nodes import PARAMETER_SERVER
from network.wire import Sent

Key = tuple[int, ...]  # (attempt, epoch, batch, variable), all counted from 0


class NoSuchNode(ValueError):
    """Error about a packet for a node that the job does not have."""


class Channel(Protocol):
    """Connection of one node with its peers. Nothing here blocks; packets that arrive are handed to `deliver` of the exchange
    or server. A channel whose node has a clock of its own has it as `clock` (a `network.clock.Clock`), for the accounts.
    """

    @property
    def node_id(self) -> int:
        """Id of the node that sends through this channel."""

    def peers(self) -> Collection[int]:
        """Return the nodes that can be talked to now; one that has left or was lost is not among them."""

    def transport(self, peer: int) -> str:
        """Return the name of the transport that carries the packets to and from `peer`; see `accounts.Entry`."""

    def suspects(self) -> Collection[int]:
        """Return the peers of which the failure detector has a doubt, and will say more in a moment."""

    def post(self, target: int, key: Key, content: object) -> Sent | None:
        """Queue one packet. Its arrays stay referenced, not copied, until `flushed()`.

        Args:
            target: id of the node that is to get it.
            key: (attempt, epoch, batch, variable), all counted from 0.
            content: plain data and arrays (`network.values`).

        Returns: the bytes of the packet; None: the node is gone, nothing travels.

        Raises: TypeError when the content cannot travel, ValueError when it is too large, NoSuchNode where the job has no
            such node.
        """

    def flush(self) -> None:
        """Push queued packets towards the peers, as far as that goes without waiting."""

    def poll(self) -> None:
        """Hand over the packets that have arrived, for a node that waits for nothing."""

    def flushed(self) -> bool:
        """Tell if the wire (or a copy) has taken every byte, so that the posted arrays may change."""


class Others(Collection[int]):
    """All of `nodes` but `one`, without a copy of them.

    Args:
        nodes: the nodes, in their order.
        one: the node that is left out; it need not be among them.
    """

    # a collection, not a copied list: with n workers each has n - 1 peers, and copies would grow with the square
    __slots__ = ("nodes", "one")

    def __init__(self, nodes: Collection[int], one: int) -> None:
        self.nodes, self.one = nodes, one

    def __iter__(self) -> Iterator[int]:
        one = self.one
        return (node for node in self.nodes if node != one)

    def __contains__(self, node: object) -> bool:
        return node != self.one and node in self.nodes

    def __len__(self) -> int:
        # after a failure a node may be missing that this view still leaves out
        return len(self.nodes) - (self.one in self.nodes)


# workers count from 0, so `node >= 0` tells them from it
Parameter_Server: Final = PARAMETER_SERVER
"""Id of the parameter server, as a target of packets."""


class Wait(NamedTuple):
    """Request of a process to be resumed when `ready()` is true, or when the clock has reached `deadline`.

    The process looks which of the two it was. `ready` moves received messages into the codecs, so it runs in the worker's own
    context, never concurrently with anything else of that worker; an error of a codec leaves through it, and the driver then
    closes the process.

    Args:
        ready: tells whether the wait is over.
        deadline: monotonic seconds, or None for no limit.
        what: describes the awaited thing, for messages.
        fewest: returns how many packets of variables must come, at least, before `ready` can be true or the codecs send
            anything; None where each packet may change something.
    """

    ready: Callable[[], bool]
    deadline: float | None
    what: Callable[[], str]
    fewest: Callable[[], int] | None = None


# a suspicion is withdrawn or confirmed by the detector, which sends no word of it to this process; so it is asked again
LOOK_SECONDS: Final = 0.25
MOST_SECONDS: Final = 600.0
"""Limit of waiting: a detector without a driver says nothing of nodes that only wait for each other."""


def until(wait: Wait, clock: Callable[[], float]) -> Generator[Wait, None, bool]:
    """Yield the wait until it is ready or its deadline has passed; return whether it is ready."""
    ready, deadline = wait.ready, wait.deadline
    while not ready():
        if deadline is not None and clock() >= deadline:
            return False
        yield wait
    return True


def until_overdue(
    wait: Wait, timeout: float, clock: Callable[[], float], silence: Callable[[], float]
) -> Generator[Wait, None, float | None]:
    """Yield the wait until it is ready or overdue: its deadline has passed, and for `timeout` seconds no worker that it may
    wait for has said that it still computes; `silence` returns the seconds since one has.

    Returns: the moment at which it became overdue; None when it is ready.
    """
    # not by `until`: a step of training waits here several times, and each time would take one generator more
    ready = wait.ready
    while not ready():
        deadline = wait.deadline
        if deadline is None or clock() < deadline:
            yield wait
            continue
        left = timeout - silence()
        if left <= 0:
            return deadline
        wait = wait._replace(deadline=clock() + left)
    return None


def await_verdict(
    wait: Wait, timeout: float, clock: Callable[[], float], suspects: Callable[[], Collection[int]]
) -> Generator[Wait, None, bool]:
    """Wait on after the deadline of `wait`, while the detector suspects a peer; return whether it has become ready.

    The agent of a stuck node ends it, which the driver of this process sees as a loss. A suspect that is well again gets
    `timeout` seconds from then. Without a suspect this takes no time, and never more than ten minutes before the last look.
    """
    # suspicions may come and go for ever where nodes wait for each other: the end does not depend on them
    end = clock() + MOST_SECONDS
    while suspects() and clock() < end:
        while suspects() and clock() < end:
            if (yield from until(wait._replace(deadline=clock() + LOOK_SECONDS), clock)):
                return True
        # well again: the peer has lost time, and gets a whole time-out for what it owes
        if (yield from until(wait._replace(deadline=clock() + timeout), clock)):
            return True
    return False
