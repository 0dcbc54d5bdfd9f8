"""What the engine knows of the transport: node ids, channels for packets, and the waits that processes yield."""

from __future__ import annotations

from collections.abc import Callable, Collection, Generator
from typing import Final, NamedTuple, Protocol

from network.wire import Sent

Key = tuple[int, ...]  # (attempt, epoch, batch, variable), all counted from 0


class Channel(Protocol):
    """One node's way to its peers. Nothing here blocks; what arrives is handed to `deliver` of the exchange or server."""

    @property
    def node_id(self) -> int:
        """The node that sends through this channel."""

    def peers(self) -> Collection[int]:
        """The nodes that can be talked to now; one that has left or was lost is not among them."""

    def transport(self, peer: int) -> str:
        """What carries the packets to and from `peer`; see `accounts.Entry`."""

    def suspects(self) -> Collection[int]:
        """The peers of which the failure detector has a doubt, and will say more in a moment."""

    def post(self, target: int, key: Key, content: object) -> Sent | None:
        """Queue one packet. Its arrays stay referenced, not copied, until `flushed()`; None: the node is gone, nothing travels.

        Raises: TypeError when the content cannot travel (`network.values`), ValueError when it is too large.
        """

    def flush(self) -> None:
        """Push what is queued towards the peers, as far as that goes without waiting."""

    def poll(self) -> None:
        """Hand over what has arrived, for those who wait for nothing."""

    def flushed(self) -> bool:
        """True when the wire (or a copy) has taken every byte, so that the posted arrays may change."""


Submitter: Final = -1
Parameter_Server: Final = -2
"""The id of the parameter server, as a target of packets."""


class Wait(NamedTuple):
    """Resume me when `ready()` is true, or when the clock has reached `deadline`.

    The process looks which of the two it was. `ready` moves received messages into the codecs, so it runs in the worker's
    own context, never concurrently with anything else of that worker; what a codec raises leaves through it, and the driver
    then closes the process.
    """

    ready: Callable[[], bool]
    deadline: float | None
    what: Callable[[], str]


LOOK_SECONDS: Final = 0.25
MOST_SECONDS: Final = 600.0
"""A detector whose driver has left says nothing of those that only wait for each other."""


def until(wait: Wait, clock: Callable[[], float]) -> Generator[Wait, None, bool]:
    """Yield the wait until it is ready or its deadline has passed; whether it is ready."""
    ready, deadline = wait.ready, wait.deadline
    while not ready():
        if deadline is not None and clock() >= deadline:
            return False
        yield wait
    return True


def await_verdict(
    wait: Wait, timeout: float, clock: Callable[[], float], suspects: Callable[[], Collection[int]]
) -> Generator[Wait, None, bool]:
    """What `wait` waits for is overdue: wait on while the detector suspects a peer; whether it has become ready.

    Who is stuck is ended by its agent, which whoever drives us sees as a loss. A suspect that is well again gets `timeout`
    seconds from then. Where nobody is suspected this takes no time, and never more than ten minutes before the last look.
    """
    end = clock() + MOST_SECONDS
    while suspects() and clock() < end:
        while suspects() and clock() < end:
            if (yield from until(wait._replace(deadline=clock() + LOOK_SECONDS), clock)):
                return True
        if (yield from until(wait._replace(deadline=clock() + timeout), clock)):
            return True
    return False
