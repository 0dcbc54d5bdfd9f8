"""Loopback addresses that stand beside addresses of other machines by mistake: each machine takes them for itself."""

from __future__ import annotations

import socket
import time
from collections.abc import Iterable
from typing import NamedTuple

from .errors import NetworkError
from .nodes import Address, is_ip, is_loopback
from .transport import NAME_SECONDS, resolve


class Misplaced(NamedTuple):
    """Loopback `address` beside `other`, which is on another machine; `own` is an address of this machine, "" if unknown."""

    address: Address
    other: Address
    own: str

    @property
    def what(self) -> str:
        """Description of the fault, to stand behind the address."""
        return f"it means each machine itself, so {self.other}, which is another machine, does not reach this one by it"

    @property
    def repair(self) -> str:
        """Advice that repairs the address."""
        own = f", such as {self.own}," if self.own else ""
        anywhere = "::" if ":" in self.own else "0.0.0.0"  # noqa: S104  said, not bound
        return f"Write this machine's address{own} into worker.json, and start its worker with --listen {anywhere}."

    def __str__(self) -> str:
        return (
            f"{self.address.host} means each machine itself: {self.other} is on another machine and cannot reach "
            f"{self.address} there. {self.repair}"
        )


class MisplacedAddress(ValueError):
    """Error: a loopback address is among those of several machines. `found` tells which, and beside which."""

    def __init__(self, found: Misplaced) -> None:
        super().__init__(str(found))
        self.found = found


def misplaced(addresses: Iterable[Address], limit: float = NAME_SECONDS) -> Misplaced | None:
    """Find a loopback address among nodes that are to reach each other, beside one that is on another machine.

    A name counts as the addresses that it has here, but for the name of this machine itself: other machines look it up by
    themselves. Nodes that are all on this machine may have any of its names.

    Args:
        addresses: of the nodes.
        limit: seconds that name servers get, in all; a name that they do not know by then is left out.

    Returns: None where there is none.
    """
    unique = list(dict.fromkeys(addresses))
    local = next((address for address in unique if _means_each_machine(address.host)), None)
    others = [address for address in unique if not _means_each_machine(address.host)]
    # no loopback literal and no name that could turn out as one: nothing is looked up
    if local is None and all(is_ip(address.host) for address in others):
        return None
    deadline = time.monotonic() + limit
    distant: Address | None = None
    for address in sorted(others, key=lambda each: not is_ip(each.host)):  # a name server may not be needed
        places = _places(address, deadline)
        if places and all(map(is_loopback, places)):
            # on Debian a machine's own name is a loopback address to itself, and to others another one
            local = local or (None if _is_own_name(address.host) else address)
        elif places and distant is None and not any(map(_is_own_address, places)):
            distant = address
        if local is not None and distant is not None:
            return Misplaced(local, distant, _own_towards(distant))
    return None


def refuse_misplaced(addresses: Iterable[Address], limit: float = NAME_SECONDS) -> None:
    """Check that nodes can reach each other by `addresses`, as far as this machine knows; `limit` is in seconds, see
    `misplaced`.

    Raises: MisplacedAddress with a right address in its text.
    """
    found = misplaced(addresses, limit)
    if found is not None:
        raise MisplacedAddress(found)


# the last two are no addresses to call, but a call of them arrives at the own machine
_NAMES = ("localhost", "localhost.localdomain", "ip6-localhost", "ip6-loopback", "0.0.0.0", "::")  # noqa: S104  compared


def _means_each_machine(host: str) -> bool:
    """Tell if `host` is a name by which each machine means itself."""
    name = host.lower().rstrip(".")
    # all names below localhost are loopback (RFC 6761)
    return is_loopback(host) or name in _NAMES or name.endswith(".localhost")


def _is_own_name(host: str) -> bool:
    # by the first label: either of the two may come without its domain
    own = socket.gethostname().lower()
    return host.lower().rstrip(".").partition(".")[0] == own.partition(".")[0]


def _places(address: Address, deadline: float) -> list[str]:
    """List the IP addresses of `address`; none where they cannot be told by then."""
    if is_ip(address.host):
        return [address.host]
    left = deadline - time.monotonic()
    try:
        return [str(place[0]) for _, place in resolve(address, left)] if left > 0 else []
    except NetworkError:
        return []  # the error of the call says why


def _is_own_address(host: str) -> bool:
    """Tell if `host`, an IP address, is one of this machine: only those can be bound."""
    # a datagram socket: it binds without disturbing a listener on the same port
    for family, place in resolve(Address(host, 0), NAME_SECONDS):
        try:
            with socket.socket(family, socket.SOCK_DGRAM) as probe:
                probe.bind(place)
                return True
        except OSError:
            continue
    return False


def _own_towards(other: Address) -> str:
    """Tell the address of this machine that packets to `other` would have; none is sent."""
    try:
        for family, place in resolve(other, NAME_SECONDS):
            with socket.socket(family, socket.SOCK_DGRAM) as probe:
                # of a datagram socket: the kernel chooses a route, and sends nothing
                probe.connect(place)
                return str(probe.getsockname()[0])
    except (OSError, NetworkError):
        pass
    return ""
