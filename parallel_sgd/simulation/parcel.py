"""Packets on their way between the nodes of a kernel."""

from __future__ import annotations

from typing import NamedTuple

from network.message import Message
from network.wire import Sent

from ..engine.channel import Key


class Parcel(NamedTuple):
    """Packet on its way: packed once, and decoded once, for all its receivers. Its arrays cannot be written to.

    Args:
        key: (attempt, epoch, batch, variable).
        message: the message as its receivers get it.
        size: its bytes.
    """

    key: Key
    message: Message
    size: Sent
