"""Nodes and the connections between them: addresses, keys, authenticated sessions, messages. Knows no job."""

from .controller import Controller
from .errors import Busy, ClosedByUs, NetworkError, PeerLost, ProtocolError, Rejected, TimedOut
from .nodes import DEFAULT_PORT, PARAMETER_SERVER, SUBMITTER, Address, NodeAssignment
from .request import Request
from .serve import Serve
from .version import VERSION

__all__ = [
    "DEFAULT_PORT",
    "PARAMETER_SERVER",
    "SUBMITTER",
    "VERSION",
    "Address",
    "Busy",
    "ClosedByUs",
    "Controller",
    "NetworkError",
    "NodeAssignment",
    "PeerLost",
    "ProtocolError",
    "Rejected",
    "Request",
    "Serve",
    "TimedOut",
]
