"""Nodes and the connections between them: addresses, keys, authenticated sessions, messages. This package knows no job."""

from typing import TYPE_CHECKING

import _psgd_packages

# before anything of ours is imported: it tells what is not installed
_psgd_packages.check(__name__)

from .names import lazily

if TYPE_CHECKING:
    from .controller import Controller
    from .errors import Busy, ClosedByUs, NetworkError, PeerLost, ProtocolError, Rejected, TimedOut
    from .nodes import DEFAULT_PORT, PARAMETER_SERVER, SUBMITTER, Address, NodeAssignment
    from .request import Request
    from .serve import Serve

VERSION = "1.1.0"
"""The version of Parallel-SGD, in one place: packaging, handshakes and log lines read it here."""

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

# what is asked for is loaded: a program that names only an assignment loads no session and no cipher
lazily(
    __name__,
    {
        "controller": "Controller",
        "errors": "Busy ClosedByUs NetworkError PeerLost ProtocolError Rejected TimedOut",
        "nodes": "DEFAULT_PORT PARAMETER_SERVER SUBMITTER Address NodeAssignment",
        "request": "Request",
        "serve": "Serve",
    },
)
