"""The vocabulary of failure: every way in which talking to another node can end.

Each error says who, what and after how long, so that a person can act on it without reading code.
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
    """Anything that stopped a conversation between nodes."""


class ClosedByUs(NetworkError):
    """This side closed the connection or left the job, so nothing more can be sent or received."""


class PeerLost(NetworkError):
    """The other side is gone: its connection ended without a BYE.

    Attributes: `node_id` (None before it is known), `address` (text), `reason`.
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
    """No agent was there when it was called. Attributes: as PeerLost."""

    def __init__(self, node_id: int | None, address: str, reason: str, advice: str) -> None:
        super().__init__(node_id, address, reason)
        who = "" if node_id is None else f" for node {node_id}"
        self.args = (f"No worker is reached at {address}{who}: {reason}. {advice}",)


class Impostor(PeerLost):
    """A node of the job has called under the id of another one, so nobody talks with it any more. Attributes: as PeerLost."""


class TimedOut(NetworkError, TimeoutError):
    """A wait reached its limit. Attributes: `what` was awaited, `seconds` of the limit."""

    def __init__(self, what: str, seconds: float) -> None:
        super().__init__(f"Timed out after {seconds:.3g} s waiting for {what}.")
        self.what = what
        self.seconds = seconds


class Busy(NetworkError):
    """The node works on another job and has no free slot."""


class ProtocolError(NetworkError):
    """The other side sent what the protocol does not allow; the connection is closed."""


class Rejected(NetworkError):
    """The other side refused us, or we refused it: wrong key, role, version or state."""


class BadContent(NetworkError):
    """A node of the job sent data that cannot be used. Attributes: `node_id` of the sender, `what` it was for, `reason`."""

    def __init__(self, node_id: int, what: str, reason: str) -> None:
        super().__init__(f"Node({node_id}) sent what cannot be used, for {what}: {reason}.")
        self.node_id = node_id
        self.what = what
        self.reason = reason
