"""What the engine asks of whatever carries its packets: sockets, or memory within one process."""

from __future__ import annotations

from collections.abc import Collection
from typing import NamedTuple, Protocol

Key = tuple[int, ...]  # (attempt, epoch, batch, variable), all counted from 0


class Sent(NamedTuple):
    """The size of one packet in bytes: `wire` is all that travels, `raw` its arrays, `overhead` the rest."""

    raw: int
    wire: int
    overhead: int


class Channel(Protocol):
    """One node's way to its peers. Nothing here blocks; what arrives is handed to `deliver` of the exchange or server."""

    @property
    def node_id(self) -> int:
        """The node that sends through this channel."""

    def peers(self) -> Collection[int]:
        """The nodes that can be talked to now; one that has left or was lost is not among them."""

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
