"""Who is in a job, from one attempt to the next: the same batch, dealt to whoever is there."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Protocol

from network.nodes import Address, NodeAssignment

from .errors import JobFailed
from .nodes import LocalNodes


class Membership(Protocol):
    """Decides on the nodes of each attempt. `nodes` are those of the attempt that runs, or is to begin."""

    nodes: NodeAssignment

    def look(self) -> str:
        """Asked about once a second while an attempt runs: why it should end for other nodes, or ""."""

    def settle(self, failed: JobFailed) -> str:
        """An attempt has ended before its time. Choose the nodes of the next one; returns why there is none, or ""."""

    def close(self) -> None:
        """The job is over."""


class SameNodes:
    """Every attempt has the nodes of the first."""

    def __init__(self, nodes: NodeAssignment) -> None:
        self.nodes = nodes

    def look(self) -> str:
        return ""

    def settle(self, failed: JobFailed) -> str:
        return ""

    def close(self) -> None:
        """Nothing is held."""


class Survivors(SameNodes):
    """Who fails by itself is left out; at least `fewest` workers go on, and the parameter server, if there is one."""

    def __init__(self, nodes: NodeAssignment, fewest: int) -> None:
        super().__init__(nodes)
        self._fewest = fewest

    def settle(self, failed: JobFailed) -> str:
        """All but the culprits go on; workers keep their order and are numbered anew from 0."""
        left = [self.nodes[node] for node in self.nodes.worker_ids if node not in failed.culprits]
        if any(node < 0 for node in failed.culprits):
            return "nobody can do without the parameter server"
        if len(left) < self._fewest:
            return f"{len(left)} workers are left, 'min_workers' is {self._fewest}"
        self.nodes = with_workers(self.nodes, left)
        return ""


def with_workers(nodes: NodeAssignment, workers: Iterable[Address]) -> NodeAssignment:
    """`nodes` with these workers, numbered from 0, in place of its own; a parameter server stays."""
    made = LocalNodes(key_file=nodes.key_file) if isinstance(nodes, LocalNodes) else NodeAssignment(key_file=nodes.key_file)
    for number, address in enumerate(workers):
        made.add(number, address)
    for node, address in nodes.items():
        if node < 0:
            made.add(node, address)
    return made
