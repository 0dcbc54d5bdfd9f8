"""Packets on their way between the nodes of a kernel."""

from __future__ import annotations

from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from network.message import Message
from network.wire import Sent

from ..engine.channel import Key


class Parcel(NamedTuple):
    """Packet on its way: packed once, and decoded once, for all its receivers. Its arrays cannot be written to.

    Args:
        key: (attempt, epoch, batch, variable).
        message: the message as its receivers get it.
        size: its bytes.
        wire: those on the wire.
    """

    key: Key
    message: Message
    size: Sent
    wire: int


def is_fixed(array: NDArray[Any]) -> bool:
    """Tell if nothing can write to an array any more: neither it nor the array that has its memory can be written to."""
    owner = array if array.base is None else array.base
    # an owner of another kind, such as a mapped file, may be written to by others
    return type(owner) is np.ndarray and owner.base is None and not (owner.flags.writeable or array.flags.writeable)
