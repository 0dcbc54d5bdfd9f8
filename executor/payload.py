"""Arguments and results on their way: a tree as bytes, and the arrays that it refers to, which are not copied.

The tree is packed here, not by the session, because each function has a class table of its own, and because lists of many
numbers may be longer than what a message may hold beside its arrays: long bytes travel as an array.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, NamedTuple

import msgpack
import numpy as np

from network.budget import Room, check_sent
from network.errors import ProtocolError
from network.values import Array, decode, encode
from network.wire import Limits, unpack
from rpc.shipping import load_trusted, pack_trusted

from .errors import ConversionError
from .values import Conversion, Registered

MOST_BYTES = Limits().message
_SMALL = 200  # bytes that a task costs beside its content, about
_NO_TYPES: Registered = {}
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


def pack_payload(
    value: object, classes: Sequence[type] = (), registered: Registered = _NO_TYPES, advice: str | None = None
) -> Payload:
    """Make `value` ready to travel. Its arrays must stay unchanged until they have left. `advice` is what an error tells to do.

    Raises: TypeError naming the type that cannot travel, ValueError for more than 2 GiB, or 64 MiB of
    objects (`network.budget`), ConversionError when a function given to `register_value` fails.
    """
    conversion = Conversion(registered) if advice is None else Conversion(registered, advice=advice)
    tree, arrays = encode(value, classes, conversion)
    try:
        packed: bytes = msgpack.packb(tree)
    except UnicodeEncodeError as error:
        raise TypeError(f"A str that is no valid Unicode cannot travel: {error.reason}.") from None
    payload = Payload(packed, arrays or _NO_ARRAYS)
    if payload.size > MOST_BYTES:
        raise ValueError(f"The data of a task may have {MOST_BYTES} bytes, got {payload.size}: cut it into parts.")
    check_sent(packed)
    if conversion.made:
        try:
            Room(packed, payload.size - len(packed)).check(conversion.made)
        except ProtocolError as error:
            raise ValueError(f"{error}.") from error
    return payload


def unpack_payload(tree: Any, arrays: Any, classes: Sequence[type] = (), registered: Registered = _NO_TYPES) -> Any:
    """The value that `pack_payload` was given, with the same tables.

    Raises: ProtocolError for anything that `pack_payload` does not make; ConversionError when something is missing here, or a
    function given to `register_value` fails.
    """
    _check_parts(tree, arrays)
    return decode(unpack(tree), arrays, classes, Conversion(registered, tree, arrays))


def pack_pickled(value: object, classes: Sequence[type]) -> Payload:
    """Pickle a result for a submitter who trusts the nodes.

    Raises: TypeError for what cannot be pickled, ValueError for more than 2 GiB.
    """
    payload = Payload(*pack_trusted(value, classes))
    if payload.size > MOST_BYTES:
        raise ValueError(f"The data of a task may have {MOST_BYTES} bytes, got {payload.size}: cut it into parts.")
    return payload


def unpack_pickled(tree: Any, arrays: Any, classes: Sequence[type]) -> Any:
    """What `pack_pickled` was given. **Runs what the node has sent.**

    Raises: ConversionError for what cannot be loaded here.
    """
    _check_parts(tree, arrays)
    try:
        return load_trusted(tree, arrays, classes)
    except Exception as error:
        raise ConversionError(f"A result cannot be loaded here: {type(error).__name__}: {error}") from error


def _check_parts(tree: Any, arrays: Any) -> None:
    if type(tree) is not bytes or type(arrays) is not list or not all(type(array) is np.ndarray for array in arrays):
        raise ProtocolError("The data of a task is malformed.")
