"""Nodes of this machine for as long as a `with` block lasts."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager

from network.nodes import NodeAssignment
from rpc.launch.local import local_agents


@contextmanager
def local_nodes(count: int, *, slots: int = 1) -> Iterator[NodeAssignment]:
    """Start `count` agents on free ports of this machine and yield their nodes; they end with the block.

    With `slots` each may belong to as many executors at once.

    >>> with local_nodes(2) as nodes, ClusterExecutor(nodes) as executor:  # doctest: +SKIP
    ...     print(executor.submit(pow, 2, 10).result())
    """
    with local_agents(count, slots=slots) as agents:
        nodes = NodeAssignment(key_file=agents.key_file)
        for number, address in enumerate(agents.addresses):
            nodes.add(number, address)
        yield nodes
