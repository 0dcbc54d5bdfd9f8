"""Layout of a plan before it allocates: shapes, stages, users of each value, and the memory where a value may lie."""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping, Sequence
from typing import Any, Literal, NamedTuple

import numpy as np

from nn.arrays import Array, OwnMemory, Scratch, Shape
from nn.plan.stages import Stage, divide, has_batch
from nn.value.graph import Graph
from nn.value.store import Buffer
from nn.value.value import Node, Value, Variable


class Whole(NamedTuple):
    """The graph of which another one is a part.

    Args:
        graph: the whole.
        originals: for each node of the part the node of the whole.
    """

    graph: Graph
    originals: Mapping[Value, Node]


class Layout:
    """A graph with concrete shapes, cut into stages.

    A value that only operations of one stage look at needs no memory for the whole batch, unless backward reads it.
    """

    def __init__(
        self,
        graph: Graph,
        given: Sequence[Shape],
        dtype: np.dtype[Any],
        *,
        training: bool,
        threads: int,
        whole: Whole | None = None,
        memory: Scratch | None = None,
    ) -> None:
        self.graph, self.dtype, self.training = graph, dtype, training
        self.memory: Scratch = memory or OwnMemory()
        """Where values and gradients get their memory."""
        self.shapes = graph.shapes(given)
        # to be given to the caller is a use, too: a later operation must not overwrite an output
        self.uses = Counter([*(source for node in graph.nodes for source in node.inputs), *graph.outputs])
        if whole is None:
            whole = Whole(graph, {node: node for node in graph.nodes})
        places = {node: place for place, node in enumerate(whole.graph.nodes)}
        # Keys of random draws count by the whole, so that a part draws the same.
        self.position = {node: places[whole.originals[node]] for node in graph.nodes}
        own = {whole.originals[node]: node for node in graph.nodes}
        batch = given[0][0]
        entries = [(batch, *placeholder.shape[1:]) for placeholder in whole.graph.inputs]
        shapes = self.shapes if whole.graph is graph else whole.graph.shapes(entries)
        # a part is cut where the whole is cut: other slices would give other last bits
        stages = divide(whole.graph, shapes, dtype, training=training, threads=threads)
        self.in_lanes = any(len(stage.lanes) > 1 for stage in stages)
        """Whether threads run at once anywhere in the whole."""
        found = [Stage([own[node] for node in stage.nodes if node in own], stage.lanes) for stage in stages]
        self.stages = [stage for stage in found if stage.nodes]
        self.stage_of: dict[Value, int] = {node: number for number, stage in enumerate(self.stages) for node in stage.nodes}
        # the caller gives and takes these as whole batches
        self._crossing: set[Value] = {*graph.outputs, *graph.inputs}
        for node in graph.nodes:
            # Memory of a slice is overwritten by the next slice, before another stage could read it.
            self._crossing.update(source for source in node.inputs if self.stage_of.get(source) != self.stage_of[node])

    def shape_at(self, value: Value, rows: slice | None) -> Shape:
        """Return the shape that a value has for one slice of the batch; None: for the whole batch."""
        shape = self.shapes[value]
        return (rows.stop - rows.start, *shape[1:]) if rows is not None and has_batch(value) else shape

    def kind(self, value: Value, *, kept_for_backward: bool) -> Kind:
        """Say where a value or a gradient may lie."""
        if not has_batch(value):
            return "kept"
        inside = isinstance(value, Node) and value not in self._crossing
        # memory for a slice pays where a thread works on several: it stays in the cache from one to the next
        cut = inside and self.stages[self.stage_of[value]].in_turns
        return "lane" if cut and not kept_for_backward else "batch"

    def place(self, value: Value, kind: Kind) -> Place:
        """Allocate memory for a node."""
        shape = self.shapes[value]
        if kind != "lane":
            return Place(kind, [self.memory.empty(shape, self.dtype)])
        number = self.stage_of[value]
        stage = self.stages[number]
        # Shorter slices use the beginning of it.
        longest = (stage.largest or 0, *shape[1:])
        return Place(kind, [self.memory.empty(longest, self.dtype) for _ in stage.lanes], number)

    def takers(self, *, input_gradient: bool) -> set[Value]:
        """Return the values that need a gradient: those between trained variables or buffers and an output."""
        # first all that depends on something wanted, then, backwards, all that the output depends on: both need the gradient
        takers: set[Value] = set(self.graph.inputs) if input_gradient else set()
        takers.update(self._wanting())
        for node in self.graph.nodes:
            if node.operation.differentiable and any(source in takers for source in node.inputs):
                # A comparison has no gradient, so nothing in front of it gets one through it.
                takers.add(node)
        reached: set[Value] = set(self.graph.outputs)
        for node in reversed(self.graph.nodes):
            if node in reached and node.operation.differentiable:
                reached.update(node.inputs)
        return takers & reached

    def _wanting(self) -> set[Variable]:
        """Return the variables for which backward computes something: gradients, or changes of buffers."""
        # a buffer's "gradient" is its change, which a frozen layer does not make
        wanting = {variable for variable in self.graph.variables if self.graph.wants(variable)}
        for node in self.graph.nodes:
            if not node.operation.changes_buffers(self.graph.freezes(node)):
                wanting.difference_update(source for source in node.inputs if isinstance(source, Buffer))
        return wanting

    def may_share(self, node: Node) -> bool:
        """Return whether a node may have the memory of its first input.

        It changes no element there, or no later operation reads the input.
        """
        source = node.inputs[0]
        # The input and variables belong to others, who would find them overwritten.
        if not isinstance(source, Node):
            return False
        # Also where the input is read later: no element changes.
        if node.operation.aliases:
            return True
        return node.operation.in_place and self._is_dead(source) and not (self.training and node.operation.reads_inputs)

    def _is_dead(self, value: Value) -> bool:
        """Return whether no operation reads a value, or a value in the same memory, after the one operation that uses it."""
        # an alias has the memory of its input, so those that read the input count, too
        while isinstance(value, Node):
            if self.uses[value] > 1 or (self.training and value.operation.reads_output):
                return False
            if not value.operation.aliases:
                return True
            value = value.inputs[0]
        return True


Kind = Literal["kept", "batch", "lane"]


class Place:
    """Memory of one value.

    `kept`: no batch axis, the same array for every slice of the batch. `batch`: one array for the whole batch. `lane`: one
    array for each thread, which holds the slice that the thread works on.

    Args:
        kind: "batch" for an array with a row for each sample, "lane" for one array per lane, "kept" for a value without a batch
            axis.
        arrays: one array, or with "lane" one for each.
        stage: number of the stage to which arrays of lanes belong, else -1.
    """

    def __init__(self, kind: Kind, arrays: list[Array], stage: int = -1) -> None:
        self.kind, self.arrays, self.stage = kind, arrays, stage

    def at(self, lane: int, rows: slice | None) -> Array:
        """Return the array for one slice of the batch.

        Args:
            lane: number of the lane that works on the slice.
            rows: samples of the slice; None: the whole batch.
        """
        if self.kind == "lane" and rows is not None:
            return self.arrays[lane][: rows.stop - rows.start]
        return self.arrays[0][rows] if self.kind == "batch" and rows is not None else self.arrays[0]

    def shared(self, kind: Kind, stage: int, shape: Shape) -> Place | None:
        """Return a place in the same memory; None where that is not possible.

        Args:
            kind: kind of the place.
            stage: its stage.
            shape: its shape, of which the first axis does not count for slices: they have that of the array.
        """
        if kind != self.kind or (kind == "lane" and stage != self.stage):
            return None
        if kind == "lane":
            rows = len(self.arrays[0])
            if self.arrays[0].size != rows * int(np.prod(shape[1:])):
                return None
            return Place(kind, [array.reshape(rows, *shape[1:]) for array in self.arrays], stage)
        if self.arrays[0].size != int(np.prod(shape)):
            return None
        return Place(kind, [self.arrays[0] if self.arrays[0].shape == shape else self.arrays[0].reshape(shape)], stage)
