"""Discovery of hosts: by a function or a file that is watched, and the thread that looks again and again."""

from __future__ import annotations

import json
import os
import threading
import time
from collections.abc import Callable, Iterable, Mapping
from contextvars import copy_context
from pathlib import Path
from typing import Any, Protocol, runtime_checkable

from network.loopback import MisplacedAddress, refuse_misplaced
from network.nodes import Address

from ..support.files import parsed, read_text
from ..support.logs import get_logger
from ..user_code import raised_by
from .events import DiscoveryFailed, HostsSeen
from .hosts import Host, parse_hosts


class DiscoveryError(Exception):
    """Error: discovery has not found out which hosts there are; the message says why."""


@runtime_checkable
class Discovery(Protocol):
    """Discovery of the hosts that may be used. One helper thread calls `find`, again and again; any thread may call `close`."""

    def find(self) -> list[Host]:
        """Return the hosts that there are now, each once.

        Raises: DiscoveryError.
        """

    def close(self) -> None:
        """End a `find` that is running, as far as that can be done, and let go of everything; by default there is nothing."""
        return


class FunctionDiscovery(Discovery):
    """Hosts from a `function` without arguments.

    It returns text with a line for each host, `host[:port] [slots=n]`, a list of such lines, or {host: slots}. One that hangs
    cannot be ended, and finds nothing any more.
    """

    def __init__(self, function: Callable[[], str | Iterable[str] | Mapping[str, int]]) -> None:
        self._function = function

    def find(self) -> list[Host]:
        """Call the function for the hosts of now.

        Raises: DiscoveryError when it raises, or returns something else.
        """
        name = getattr(self._function, "__qualname__", repr(self._function))
        try:
            return parse_hosts(_as_text(self._function()))
        except Exception as error:
            # the user's line and its error, rather than ours around them
            told = raised_by(error) or f"{type(error).__name__}: {error}"
            raise DiscoveryError(f"The function {name} failed: {told}") from error


class FileDiscovery(Discovery):
    """Hosts from a node file at `path`, `{"Worker": ["host[:port] [slots=n]", ...]}`, which may be replaced or edited at any
    time.

    It is looked at whenever hosts are asked for, and parsed when its content is new.
    """

    def __init__(self, path: str | os.PathLike[str]) -> None:
        self._path = Path(path)
        self._content: str | None = None
        self._hosts: list[Host] = []

    def find(self) -> list[Host]:
        """Read the hosts that the file holds now.

        Raises: DiscoveryError when it cannot be read or holds something else.
        """
        try:
            content = read_text(self._path)
            # read each time, parsed when new: times of files are too coarse for an edit right after another
            if content != self._content:
                self._hosts = parse_hosts(_as_text(_workers(content)))
                self._content = content
        except (OSError, ValueError, TypeError) as error:
            why = getattr(error, "strerror", None) or error
            raise DiscoveryError(f"The node file {self._path} cannot be used: {why}") from error
        return list(self._hosts)


def _workers(content: str) -> Any:
    nodes = parsed(json.loads, content)
    if not isinstance(nodes, dict) or not isinstance(nodes.get("Worker"), list):
        raise ValueError(f'it must hold {{"Worker": [address, ...]}}, got {str(nodes)[:80]}')
    return nodes["Worker"]


def _as_text(found: Any) -> str:
    """Write a line for each host."""
    if isinstance(found, str):
        return found
    if isinstance(found, Mapping):
        found = [f"{host} slots={slots}" for host, slots in found.items()]
    if not isinstance(found, Iterable):
        raise TypeError(f"hosts must be text, a list of lines or {{host: slots}}, got {found!r}")
    lines = [str(line) if isinstance(line, Address) else line for line in found]
    if not all(isinstance(line, str) for line in lines):
        raise TypeError(f"every host must be a text 'host[:port] [slots=n]', got {lines!r}")
    return "\n".join(lines)


PERIOD_SECONDS = 1.0
CLOSE_SECONDS = 2.0  # for the last look to end

_log = get_logger(__name__)


class Poller:
    """Helper thread that asks a discovery again and again, from the construction until `close`.

    Args:
        discovery: finds the hosts.
        deliver: gets each answer as a HostsSeen or DiscoveryFailed, in that thread; it must be quick and thread-safe, as
            `queue.SimpleQueue.put` is.
        period: seconds between two questions.
    """

    def __init__(
        self, discovery: Discovery, deliver: Callable[[HostsSeen | DiscoveryFailed], None], period: float = PERIOD_SECONDS
    ) -> None:
        self._discovery = discovery
        self._deliver = deliver
        self._period = period
        self._closed = threading.Event()
        self._checked = frozenset[Address]()  # name servers are not asked for those again
        # a function of the user that hangs cannot be ended; it must not keep the process from ending
        # in the context of the job, which says how much is shown
        self._thread = threading.Thread(target=copy_context().run, args=(self._run,), name="discovery", daemon=True)
        self._thread.start()

    def close(self) -> None:
        """End the thread, and a script that it waits for. Nothing is delivered any more, unless that is going on already."""
        # first: what is found from here on is not delivered
        self._closed.set()
        self._discovery.close()
        self._thread.join(CLOSE_SECONDS)
        if self._thread.is_alive():
            _log.warning("Discovery has not answered within %g s; it is left alone.", CLOSE_SECONDS)

    def _run(self) -> None:
        while not self._closed.is_set():
            began = time.monotonic()
            answer = self._look()
            # looked at again: `find` may have taken long
            if not self._closed.is_set():
                self._deliver(answer)
            # the rest of the period, so that slow looks do not add up
            self._closed.wait(max(0.0, began + self._period - time.monotonic()))

    def _look(self) -> HostsSeen | DiscoveryFailed:
        try:
            hosts = tuple(self._discovery.find())
            addresses = frozenset(host.address for host in hosts)
            if addresses != self._checked:
                refuse_misplaced(host.address for host in hosts)
                self._checked = addresses
            return HostsSeen(hosts)
        except (DiscoveryError, MisplacedAddress) as error:
            return DiscoveryFailed(str(error))
        except Exception as error:  # noqa: BLE001  the function is the user's, and a thread that ends looks no more
            told = raised_by(error) or f"{type(error).__name__}: {error}"
            return DiscoveryFailed(f"{type(self._discovery).__qualname__} failed: {told}")
