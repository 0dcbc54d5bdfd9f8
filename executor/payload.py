"""Arguments and results on their way: a tree as bytes, and the arrays that it refers to, which are not copied.

The tree is packed here, not by the session, because each function has a class table of its own, and because lists of many
numbers may be longer than what a message may hold beside its arrays: long bytes travel as an array.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, NamedTuple

import msgpack
import numpy as np

from network.budget import check_sent
from network.errors import ProtocolError
from network.values import Array, decode, encode
from network.wire import Limits, unpack

MOST_BYTES = Limits().message
_SMALL = 200  # bytes that a task costs beside its content, about
_NO_ARRAYS: list[Array] = []  # of all payloads without; a hundred thousand empty lists are 6 MB


class Payload(NamedTuple):
    """Data ready to travel."""

    tree: bytes
    arrays: list[Array]

    @property
    def size(self) -> int:
        """Bytes, about."""
        total = _SMALL + len(self.tree)
        return total + sum(array.nbytes for array in self.arrays) if self.arrays else total


def pack_payload(value: object, classes: Sequence[type] = ()) -> Payload:
    """Make `value` ready to travel. Its arrays must stay unchanged until they have left.

    Raises: TypeError naming the type that cannot travel, ValueError for more than 2 GiB, or 64 MiB of
    objects (`network.budget`).
    """
    tree, arrays = encode(value, classes)
    try:
        packed: bytes = msgpack.packb(tree)
    except UnicodeEncodeError as error:
        raise TypeError(f"A str that is no valid Unicode cannot travel: {error.reason}.") from None
    payload = Payload(packed, arrays or _NO_ARRAYS)
    if payload.size > MOST_BYTES:
        raise ValueError(f"The data of a task may have {MOST_BYTES} bytes, got {payload.size}: cut it into parts.")
    check_sent(packed)
    return payload


def unpack_payload(tree: Any, arrays: Any, classes: Sequence[type] = ()) -> Any:
    """The value that `pack_payload` was given, with the same class table.

    Raises: ProtocolError for anything that `pack_payload` does not make.
    """
    if type(tree) is not bytes or type(arrays) is not list or not all(type(array) is np.ndarray for array in arrays):
        raise ProtocolError("The data of a task is malformed.")
    return decode(unpack(tree), arrays, classes)
