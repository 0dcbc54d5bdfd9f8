"""Vocabulary of failure: every way in which a conversation with another node can end.

Each error names the node, the reason and, for a time-out, the seconds, so that a person can act on it without reading code.
"""

from __future__ import annotations

import re

__all__ = [
    "BadContent",
    "Busy",
    "ClosedByUs",
    "Impostor",
    "NetworkError",
    "NotReached",
    "PeerLost",
    "ProtocolError",
    "Rejected",
    "TimedOut",
]


class NetworkError(Exception):
    """Base of all errors that stop a conversation between nodes."""


class ClosedByUs(NetworkError):
    """Error: this side closed the connection or left the job, so nothing more can be sent or received."""


class PeerLost(NetworkError):
    """Error: the other side is gone, its connection ended without a BYE.

    The arguments stay as attributes of the same names.

    Args:
        node_id: id of the lost node, None before it is known.
        address: its address, as text.
        reason: how the connection ended, in words.
    """

    def __init__(self, node_id: int | None, address: str, reason: str) -> None:
        who = f"Node({node_id}) at {address}" if node_id is not None else address
        told = re.match(rf"Node\({node_id}\) at \S+ is lost: |{re.escape(who)} is lost: ", reason)  # by another node
        reason = reason[told.end() if told else 0 :].rstrip(".")
        super().__init__(f"{who} is lost: {reason}.")
        self.node_id = node_id
        self.address = address
        self.reason = reason


class NotReached(PeerLost):
    """Error: there was no agent at the address. Attributes: as PeerLost; `advice` is the last sentence of its text.

    Args:
        node_id: id of the node, None if it has none yet.
        address: the address that was called.
        reason: why no agent was reached there.
        advice: see above.
    """

    def __init__(self, node_id: int | None, address: str, reason: str, advice: str) -> None:
        super().__init__(node_id, address, reason)
        who = "" if node_id is None else f" for node {node_id}"
        # in place of the sentence of PeerLost: nothing was there that could be lost
        self.args = (f"No worker is reached at {address}{who}: {reason}. {advice}",)


class Impostor(PeerLost):
    """Error: a node of the job has called under the id of another one, so no node talks with it any more. Attributes: as
    PeerLost.
    """


class TimedOut(NetworkError, TimeoutError):
    """Error: a wait reached its limit. The arguments stay as attributes of the same names.

    Args:
        what: names the awaited event.
        seconds: the limit.
    """

    def __init__(self, what: str, seconds: float) -> None:
        super().__init__(f"Timed out after {seconds:.3g} s waiting for {what}.")
        self.what = what
        self.seconds = seconds


class Busy(NetworkError):
    """Error: the node works on another job and has no free slot."""


class ProtocolError(NetworkError):
    """Error: the other side broke the protocol; the connection is closed."""


class Rejected(NetworkError):
    """Error: the other side refused us, or we refused it: wrong key, role, version or state."""


class BadContent(NetworkError):
    """Error: a node of the job sent data that cannot be used. The arguments stay as attributes of the same names.

    Args:
        node_id: the sender.
        what: names the use of the data.
        reason: their fault, in words.
    """

    def __init__(self, node_id: int, what: str, reason: str) -> None:
        super().__init__(f"Node({node_id}) sent what cannot be used, for {what}: {reason}.")
        self.node_id = node_id
        self.what = what
        self.reason = reason
