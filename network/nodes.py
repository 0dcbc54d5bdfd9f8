"""Members of a job and their places: node ids, addresses, and their assignment.

Workers are numbered 0..n-1, the parameter server is -2, the submitter -1.
"""

from __future__ import annotations

import ipaddress
from collections.abc import Callable, ItemsView, Iterator
from pathlib import Path
from typing import NamedTuple

from .errors import ClosedByUs

__all__ = ["DEFAULT_PORT", "PARAMETER_SERVER", "SUBMITTER", "Address", "NodeAssignment"]

DEFAULT_PORT = 15387
"""Port on which a worker listens unless told."""
LAST_PORT = 65535
"""The highest port of TCP."""
SUBMITTER = -1
PARAMETER_SERVER = -2
"""Node ids of these two; workers have their number."""


class Address(NamedTuple):
    """Address of a node.

    Args:
        host: a name, or an IPv4 or IPv6 literal.
        port: a TCP port.
    """

    host: str
    port: int

    @classmethod
    def parse(cls, text: str, default_port: int = DEFAULT_PORT) -> Address:
        """Read `host`, `host:port`, `[v6]`, `[v6]:port` or a bare IPv6 literal.

        Args:
            text: the address.
            default_port: port of a text without one.

        Raises: ValueError that shows the text when it is none of these or the port is not in 0..65535.
        """
        if not isinstance(text, str) or not text.strip():
            raise ValueError(f"An address must be 'host' or 'host:port', got {text!r}.")
        host, separator, port_text = text.strip(), "", ""
        if host.startswith("["):
            host, bracket, rest = host[1:].partition("]")
            separator, port_text = rest[:1], rest[1:]
            if not bracket or separator not in ("", ":") or ":" not in host:
                raise ValueError(f"An IPv6 address with a port is written '[address]:port', got {text!r}.")
        # more colons are a bare IPv6 literal, which has no port
        elif host.count(":") == 1:
            host, separator, port_text = host.partition(":")
        if ":" in host and not is_ip(host):
            raise ValueError(f"A host with colons must be an IPv6 address, got {text!r}.")
        if not host or not host.isprintable() or any(c.isspace() or c in "/[]" for c in host):
            raise ValueError(f"An address must be 'host' or 'host:port', got {text!r}.")
        if not separator:
            return cls(host, default_port)
        # isdigit takes digits of all scripts, and int() of very many raises an error of its own
        if not (port_text.isascii() and port_text.isdigit()) or len(port_text) > 5 or int(port_text) > LAST_PORT:
            raise ValueError(f"The port of an address must be a number from 0 to {LAST_PORT}, got {text!r}.")
        return cls(host, int(port_text))

    def __str__(self) -> str:
        return f"[{self.host}]:{self.port}" if ":" in self.host else f"{self.host}:{self.port}"


def is_ip(host: str) -> bool:
    """Tell if `host` is an IPv4 or IPv6 literal, so that no name server is asked."""
    try:
        ipaddress.ip_address(host)
    except ValueError:
        return False
    return True


def is_loopback(host: str) -> bool:
    """Tell if `host` is a literal that cannot leave this machine (127.0.0.0/8, ::1), or the name localhost."""
    if host == "localhost":
        return True
    try:
        # without the zone: `::1%lo` is a loopback address, too
        address = ipaddress.ip_address(host.partition("%")[0])
    except ValueError:
        return False
    # ::ffff:127.0.0.1 leads to this machine, too
    mapped = getattr(address, "ipv4_mapped", None)
    return (mapped or address).is_loopback


def _never_seen(_: Address) -> bool:
    """Tell of an agent that another program has started: nothing is known of its process here."""
    return False


class NodeAssignment:
    """Node ids and their addresses, in the order of assignment.

    `key_file` names the cluster key that these nodes were started with; None means the usual places. `lives` tells of an
    address if this program has started the agent there, and its process runs: so it is not lost because it says nothing.

    >>> nodes = NodeAssignment().add(0, "127.0.0.1").add(1, "127.0.0.1:15388")
    >>> nodes.worker_ids, str(nodes[1])
    ([0, 1], '127.0.0.1:15388')
    """

    def __init__(self, key_file: str | Path | None = None) -> None:
        self.key_file = key_file
        self.lives: Callable[[Address], bool] = _never_seen
        self._addresses: dict[int, Address] = {}
        self._closed = ""

    def add(self, node_id: int, address: str | Address) -> NodeAssignment:
        """Assign an address to a node; returns self, so that calls chain.

        Args:
            node_id: 0 or more, or -2 for the parameter server.
            address: an `Address`, or a text that `Address.parse` reads.

        Raises: ValueError when the id is taken or no legal node id, or the address is malformed.
        """
        # True is an int, and would be node 1
        if isinstance(node_id, bool) or not isinstance(node_id, int) or (node_id < 0 and node_id != PARAMETER_SERVER):
            raise ValueError(f"A node id must be 0 or more, or -2 for the parameter server, got {node_id!r}.")
        if node_id in self._addresses:
            raise ValueError(f"Node {node_id} already has the address {self._addresses[node_id]}.")
        self._addresses[node_id] = address if isinstance(address, Address) else Address.parse(address)
        return self

    def check_open(self) -> None:
        """Raise ClosedByUs when the agents of these nodes have ended with the block that started them."""
        if self._closed:
            raise ClosedByUs(self._closed)

    @property
    def worker_ids(self) -> list[int]:
        """Ids of the workers, ascending; the parameter server is not among them."""
        return sorted(i for i in self._addresses if i >= 0)

    @property
    def has_parameter_server(self) -> bool:
        """Whether one of the nodes is the parameter server."""
        return PARAMETER_SERVER in self._addresses

    def items(self) -> ItemsView[int, Address]:
        """Return pairs of node id and address."""
        return self._addresses.items()

    def __getitem__(self, node_id: int) -> Address:
        return self._addresses[node_id]

    def __iter__(self) -> Iterator[int]:
        return iter(self._addresses)

    def __len__(self) -> int:
        return len(self._addresses)

    def _repr_html_(self) -> str:
        """Draw the table of nodes for notebooks."""
        from html import escape  # noqa: PLC0415 - for notebooks: agents show none

        names = {node: "parameter server" if node == PARAMETER_SERVER else f"worker {node}" for node in self}
        rows = "".join(f"<tr><td>{names[node]}</td><td>{escape(str(self[node]))}</td></tr>" for node in self)
        return f"<table><caption>{'closed' if self._closed else 'nodes'}</caption><tbody>{rows}</tbody></table>"

    def __repr__(self) -> str:
        ended = "; closed" if self._closed else ""
        return f"NodeAssignment({', '.join(f'{i}: {a}' for i, a in self._addresses.items())}{ended})"
