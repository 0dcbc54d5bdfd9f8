"""What the nodes of a job are told: who they are, with which keys, and where the others are."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence

from network import VERSION
from network.dial import Target
from network.errors import ProtocolError
from network.keys import Key
from network.nodes import Address

from .agent.admission import python_version
from .host import host_name
from .identity import code_key, process_name
from .messages import Accepted, CanCommit, Load
from .shipping import Bundle


class Orders:
    """Makes the messages of one job. Every node gets a key for its code; those for talking to each other its agent derives.

    `others` are nodes of the job that are not among `addresses`, and that may call these or be called by them.
    """

    def __init__(
        self,
        job: str,
        title: str,
        addresses: Mapping[int, Address],
        cluster: Key,
        blas_threads: int,
        start_limit: float,
        attempt: int = 0,
        stall: float = 0.0,
        driver: str = "",
        others: Iterable[int] = (),
        term: int = 0,
        standstill: float = 0.0,
        charter: str = "",
    ) -> None:
        self._standstill, self._charter = standstill, charter
        self.job, self._title, self.attempt = job, title, attempt
        self._stall, self._driver, self._term = stall, driver, term
        self._addresses = addresses
        self._blas_threads, self._start_limit = blas_threads, start_limit
        self.code_keys = {node: code_key(cluster, job, node) for node in addresses}
        self._nodes = {*addresses, *others}
        self._roster: dict[int, list[str]] = {}  # of the nodes that have accepted

    def can_commit(self, node: int, group: Sequence[int], prepare_limit: float) -> CanCommit:
        """The question to the agent of `node`."""
        host = self._addresses[node].host
        return CanCommit(
            self.job,
            self._title,
            node,
            list(group),
            self.attempt,
            python_version(),
            VERSION,
            self._blas_threads,
            sum(address.host == host for address in self._addresses.values()),
            prepare_limit,
            self._start_limit,
            self._stall,
            driver=self._driver,
            others=sorted(self._nodes.difference(group)),
            term=self._term,
            charter=self._charter,
            standstill=self._standstill,
        )

    def note(self, node: int, accepted: Accepted) -> None:
        """The agent of `node` has accepted, and told how others on its host may call it.

        Raises: ProtocolError when it speaks for another node.
        """
        if accepted.node != node:
            raise ProtocolError(f"The agent of node {node} accepted in the name of node {accepted.node}.")
        self._roster[node] = [str(self._addresses[node]), accepted.host, accepted.unix_path]

    def target(self, node: int) -> Target:
        """How to call the job process of `node`: where it runs on this host, straight through its agent's Unix socket."""
        name = process_name(self.job, node)
        _, host, unix_path = self._roster.get(node, ("", "", ""))
        near = unix_path if host == host_name() else ""
        return Target(self._addresses[node], self.code_keys[node], "code", "peer", name, node, unix_path=near)

    def load(self, bundle: Bundle) -> Load:
        """The code, and where the nodes are that have accepted so far."""
        return Load(bundle.objects, bundle.code, self._roster, bundle.sources)
