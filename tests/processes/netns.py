"""Hosts of their own on one machine: network namespaces, and a cable between two halves that can be pulled (Linux, root)."""

from __future__ import annotations

import os
import shutil
import subprocess
from collections.abc import Iterator, Sequence
from contextlib import ExitStack, contextmanager

NET = "10.77.0"


def available() -> bool:
    """Whether this process may make namespaces."""
    if os.geteuid() != 0 or not shutil.which("ip") or not shutil.which("unshare"):
        return False
    name = f"psgd-{os.getpid()}-probe"
    made = subprocess.run(["ip", "netns", "add", name], capture_output=True, check=False).returncode == 0
    if made:
        subprocess.run(["ip", "netns", "del", name], check=True)
    return made


def _run(*command: str) -> None:
    subprocess.run(command, check=True, capture_output=True)


def _ip(*words: str) -> None:
    _run("ip", *words)


class Network:
    """`near` and `far` are numbers of hosts, each on its side of the cable; host `n` has the address 10.77.0.(n + 10)."""

    def __init__(self, near: Sequence[int], far: Sequence[int], stack: ExitStack) -> None:
        self._name = f"psgd-{os.getpid()}"
        self._hosts = [*near, *far]
        hub = self._add("hub", stack)
        for bridge, hosts in (("near", near), ("far", far)):
            _ip("-n", hub, "link", "add", bridge, "type", "bridge")
            _ip("-n", hub, "link", "set", bridge, "up")
            for host in hosts:
                self._plug(host, hub, bridge, stack)
        _ip("-n", hub, "link", "add", "cable", "type", "veth", "peer", "name", "socket")
        for end, bridge in (("cable", "near"), ("socket", "far")):
            _ip("-n", hub, "link", "set", end, "master", bridge)
            _ip("-n", hub, "link", "set", end, "up")
        self._hub = hub

    def _add(self, name: str, stack: ExitStack) -> str:
        full = f"{self._name}-{name}"
        _ip("netns", "add", full)
        stack.callback(_ip, "netns", "del", full)
        _ip("-n", full, "link", "set", "lo", "up")
        return full

    def _plug(self, host: int, hub: str, bridge: str, stack: ExitStack) -> None:
        space, port = self._add(str(host), stack), f"port{host}"
        _ip("-n", hub, "link", "add", port, "type", "veth", "peer", "name", "eth0", "netns", space)
        _ip("-n", hub, "link", "set", port, "master", bridge)
        _ip("-n", hub, "link", "set", port, "up")
        _ip("-n", space, "address", "add", f"{self.address(host)}/24", "dev", "eth0")
        _ip("-n", space, "link", "set", "eth0", "up")

    @staticmethod
    def address(host: int) -> str:
        return f"{NET}.{host + 10}"

    def on(self, host: int) -> list[str]:
        """What to put before a command for it to run there; it has the process id of what is started."""
        named = f'hostname host{host}; exec "$@"'  # by another name, so that nobody takes the short way to it
        return ["ip", "netns", "exec", f"{self._name}-{host}", "unshare", "--uts", "sh", "-c", named, "sh"]

    def on_hub(self) -> list[str]:
        """The same for where the cable is, the interface `cable`."""
        return ["ip", "netns", "exec", self._hub]

    def cut(self) -> None:
        """Pull the cable: what is sent to the other side is gone, and nobody is told."""
        _ip("-n", self._hub, "link", "set", "cable", "down")

    def narrow(self) -> None:
        """Let the cable carry no packets of more than 1000 bytes, as a tunnel on the way may: it is bridged, so no router says
        that they must be smaller."""
        for host in self._hosts:  # a packet that is cut to size behind the cable would pass
            _ip("-n", f"{self._name}-{host}", "link", "set", "eth0", "gso_max_segs", "1")
        _ip("-n", self._hub, "link", "set", "socket", "mtu", "1000")

    def heal(self) -> None:
        """Plug it in again."""
        _ip("-n", self._hub, "link", "set", "cable", "up")


@contextmanager
def network(near: Sequence[int], far: Sequence[int]) -> Iterator[Network]:
    with ExitStack() as stack:
        yield Network(near, far, stack)
