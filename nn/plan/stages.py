"""Stages of a graph: operations that run on the whole batch, and others that run on a few samples at a time."""

from __future__ import annotations

import math
from itertools import pairwise
from typing import Any, NamedTuple, TypeAlias

import numpy as np

from nn.arrays import BATCH, Shape
from nn.operation.operation import Operation
from nn.value.graph import Graph
from nn.value.value import Constant, Node, Value, Variable

PART_BYTES = 1 << 20
"""Bytes that a result may take in one part of a stage: it stays in the cache from one operation to the next."""

LANE_PARTS = 4
"""How many times larger parts, and blocks of operations, are where lanes run at once: after each call into NumPy they meet at
the interpreter's lock, so that fewer and larger calls save more than the cache."""

LARGE = 1 << 20
"""Results smaller than this stay in the cache anyway."""

ALONE = 1 << 21
"""Bytes of a thread's part of all results from which on, without a product among them, it is worth waking."""

REREAD = 4
"""How many times larger than its variables a result must be: each part reads them again and adds to their gradients."""


HEAVY = 1 << 26
"""From so many bytes of variables times samples on, a product is worth waking a thread for."""

GRADIENTS = 1 << 28
"""Bytes that the gradients of all lanes of such a product but the first may take, where they cannot share out one."""

JOIN = 16
"""Samples that each lane must have in training: it reads all variables."""


class Stage(NamedTuple):
    """Operations that follow one another, and the slices of the batch on which they run.

    Args:
        nodes: the operations, inputs before their users.
        lanes: the slices for each thread, in order. A stage that sees the whole batch at once has one lane with None.
    """

    nodes: list[Node]
    lanes: list[list[slice | None]]

    @property
    def in_turns(self) -> bool:
        """Whether a thread computes several slices, one after the other."""
        return any(len(lane) > 1 for lane in self.lanes)

    @property
    def slices(self) -> list[slice | None]:
        """One slice of each length that occurs."""
        return list({None if rows is None else rows.stop - rows.start: rows for lane in self.lanes for rows in lane}.values())

    @property
    def largest(self) -> int | None:
        """The number of samples in the largest slice; None for a stage that is not cut."""
        return max((rows.stop - rows.start for lane in self.lanes for rows in lane if rows is not None), default=None)


def divide(graph: Graph, shapes: dict[Value, Shape], dtype: np.dtype[Any], *, training: bool, threads: int) -> list[Stage]:
    """Return the stages of a graph with values of these shapes.

    A convolutional network would write each of its large results to main memory and read it back for the next operation.
    In parts of a few samples the results stay in the cache, and several threads find work that is independent. Without such
    products, operations behind a heavy one go on in the same threads, each with a share of the batch; without any, those with
    large results do. All else is better left to the BLAS, which shares out one product without a lock; but its threads spin
    between two of them.
    """
    batch = shapes[graph.inputs[0]][0]
    runs = _of_large(graph, shapes, dtype, training, threads)
    if threads > 1 and not any(cut and node.operation.multiplies for run, cut in runs for node in run):
        heavy = any(_is_heavy(node, shapes, batch, dtype) for node in graph.nodes)
        kept = sum(_kept(node, shapes, dtype) for node in graph.nodes)
        # with fewer lanes than threads the BLAS, which needs no samples for each, would make more of the cores
        if heavy and threads <= min(batch // JOIN, 1 + GRADIENTS // max(kept, 1)):
            runs = _shared(graph, shapes, batch, training, threads)
        elif any(_needs_all(node, graph, training) for node in graph.nodes):
            # Then nothing is shared out: threads that wake for small products cost more than they save.
            threads = 1
            runs = _of_large(graph, shapes, dtype, training, threads)
    stages = []
    for run, cut in runs:
        count, lanes = 1, threads
        if cut:
            results = [_bytes(node, shapes, dtype) for node in run]
            if sum(results) < ALONE * threads and not any(node.operation.multiplies for node in run):
                lanes = 1
            # Rounded up, by the largest result of the run.
            count = max(lanes, -(-max(results) // (PART_BYTES * (LANE_PARTS if lanes > 1 else 1))))
        elif _splits(run[0], shapes, batch, training, threads) and any(_is_heavy(node, shapes, batch, dtype) for node in run):
            if training:
                kept = sum(_kept(node, shapes, dtype) for node in run)
                lanes = max(1, min(threads, batch // JOIN, 1 + GRADIENTS // kept))
            count = lanes
        stages.append(_stage(run, batch, count, lanes))
    return stages


_Run: TypeAlias = tuple[list[Node], bool]
"""Nodes that follow one another, and whether they run in parts."""


def _of_large(graph: Graph, shapes: dict[Value, Shape], dtype: np.dtype[Any], training: bool, threads: int) -> list[_Run]:
    """Return the nodes in runs, in parts where results are large."""
    batch = shapes[graph.inputs[0]][0]
    runs: list[_Run] = []
    for node in graph.nodes:
        size, kept = _bytes(node, shapes, dtype), _kept(node, shapes, dtype)
        # Each part reads the operation's variables again: a result must be worth that.
        fits = size >= REREAD * kept and _splits(node, shapes, batch, training, threads)
        follows = bool(runs) and runs[-1][1]
        if fits and follows:
            runs[-1][0].append(node)
        elif follows and _goes_before(node, runs[-1][0]):
            runs.insert(-1, ([node], False))
        else:
            # A run begins with a large result only; smaller ones join it.
            runs.append(([node], fits and size >= LARGE))
    return runs


def _goes_before(node: Node, run: list[Node]) -> bool:
    """Return whether an operation on variables alone, such as another shape of a kernel, can be computed before a run.

    Between two parts of the run it would end the one and begin the other, with two meetings of the threads more each way. Just
    before it, and not at the begin of all, so that the gradient of the variable is complete when those of the run are.
    """
    return not has_batch(node) and not any(source in run for source in node.inputs)


def _needs_all(node: Node, graph: Graph, training: bool) -> bool:
    """Return whether an operation is a product, which the BLAS shares out, or adds up by it, or backward adds up a gradient
    over the batch: with last bits that would depend on the number of threads."""
    summed = [source for source in node.inputs if not has_batch(source) and not isinstance(source, Constant)]
    wanted = [source for source in summed if not isinstance(source, Variable) or graph.wants(source)]
    return node.operation.multiplies or node.operation.sums_by_blas or (training and bool(wanted))


def _shared(graph: Graph, shapes: dict[Value, Shape], batch: int, training: bool, threads: int) -> list[_Run]:
    """Return the nodes in runs that can be computed for a share of the batch from beginning to end, or not at all."""
    runs: list[_Run] = []
    for node in graph.nodes:
        splits = _splits(node, shapes, batch, training, threads)
        follows = bool(runs) and _splits(runs[-1][0][-1], shapes, batch, training, threads)
        if splits and follows:
            runs[-1][0].append(node)
        elif follows and _goes_before(node, runs[-1][0]):
            runs.insert(-1, ([node], False))
        else:
            runs.append(([node], False))
    return runs


def _stage(nodes: list[Node], batch: int, count: int, threads: int) -> Stage:
    """Cut the batch into `count` parts, or some more, so that all threads get as many."""
    # rounded up to whole rounds: in the last one a thread would wait for the others
    count = min(batch, -(-count // threads) * threads) if count > 1 else 1
    if count == 1:
        return Stage(nodes, [[None]])
    # By whole numbers, so that parts differ by one sample at most.
    bounds = [batch * number // count for number in range(count + 1)]
    parts: list[slice | None] = [slice(start, stop) for start, stop in pairwise(bounds)]
    lanes = min(threads, count)
    # Neighbouring parts for a lane, so that what it sums up stands in the order of the samples.
    return Stage(nodes, [parts[count * lane // lanes : count * (lane + 1) // lanes] for lane in range(lanes)])


def _is_heavy(node: Node, shapes: dict[Value, Shape], batch: int, dtype: np.dtype[Any]) -> bool:
    return node.operation.multiplies and batch * _kept(node, shapes, dtype) >= HEAVY


def _splits(node: Node, shapes: dict[Value, Shape], batch: int, training: bool, threads: int) -> bool:
    """Return whether a node may run on slices of the batch; one that counts for a whole batch in training may not."""
    # Statistics and draws are those of a whole batch, whatever the number of threads; of draws several threads take their rows.
    if training and type(node.operation).begin is not Operation.begin and (threads == 1 or not node.operation.by_sample):
        return False
    for value in (node, *node.inputs):
        if has_batch(value) and shapes[value][0] != batch:
            return False
    return has_batch(node) and node.operation.splits([value.shape for value in node.inputs])


def has_batch(value: Value) -> bool:
    """Return whether the first axis of a value is the batch."""
    return bool(value.shape) and value.shape[0] == BATCH


def _bytes(value: Value, shapes: dict[Value, Shape], dtype: np.dtype[Any]) -> int:
    return math.prod(shapes[value]) * dtype.itemsize


def _kept(node: Node, shapes: dict[Value, Shape], dtype: np.dtype[Any]) -> int:
    """Return the bytes that every part of the batch reads."""
    return sum(_bytes(value, shapes, dtype) for value in node.inputs if not has_batch(value))
