"""Who is in a job after somebody has gone or come: the same batch, dealt to other workers."""

from __future__ import annotations

from collections.abc import Collection

from network.nodes import NodeAssignment

from .nodes import LocalNodes
from .profiles import FixedBlockAssignment, ISetting


def redealt(assignment: ISetting, workers: int) -> ISetting:
    """The blocks of `assignment` dealt to another number of workers, contiguous, with as much of its redundancy as fits.

    The number of blocks stays, so a batch holds the same samples and its result has the same bits.

    Raises: ValueError when there are more workers than blocks.
    """
    if workers == assignment.node_count:
        return assignment
    blocks = assignment.block_count
    if workers > blocks:
        raise ValueError(f"A batch of {blocks} blocks cannot be dealt to {workers} workers; each needs a block")
    fitting = [r for r in range(1, assignment.redundancy + 1) if workers % r == 0]
    return FixedBlockAssignment(workers, fitting[-1], blocks)


def without(nodes: NodeAssignment, gone: Collection[int]) -> NodeAssignment:
    """The nodes that stay; workers keep their order and are numbered anew from 0, a parameter server keeps its place."""
    left = LocalNodes(key_file=nodes.key_file) if isinstance(nodes, LocalNodes) else NodeAssignment(key_file=nodes.key_file)
    workers = [node for node in nodes.worker_ids if node not in gone]
    for number, node in enumerate(workers):
        left.add(number, nodes[node])
    for node, address in nodes.items():
        if node < 0 and node not in gone:
            left.add(node, address)
    return left
