"""Results of a network: messages that have arrived, and the use of its links."""

from __future__ import annotations

from typing import Any, NamedTuple

Arrival = tuple[float, int, int, Any]
"""Arrival of a message: virtual time in seconds, id of its source, of its target, and its item."""


class Usage(NamedTuple):
    """Use of a link until now.

    Args:
        link: its name.
        size: bytes that were given to it.
        seconds: time that these bytes take at its full bandwidth.
    """

    link: str
    size: float
    seconds: float
