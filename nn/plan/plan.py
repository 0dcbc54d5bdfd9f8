"""A graph compiled for one input shape: operations in order, memory allocated once."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from copy import copy
from functools import cached_property, lru_cache, partial
from itertools import product
from types import FunctionType, MethodType
from typing import Any

import numpy as np

from nn.arrays import Arena, Array, Block, Measure, OwnMemory, Scratch, Shape
from nn.operation.operation import Mode, Operation
from nn.plan.backward import Backward, Call, OnGradient
from nn.plan.layout import Layout, Place, Whole
from nn.plan.stages import LANE_PARTS, Stage
from nn.threads import Team, limited_to_one_thread
from nn.value.graph import Graph, Placeholder
from nn.value.value import Constant, Node, Value, Variable

__all__ = ["OnGradient", "Plan", "bytes_held"]


class Plan:
    """Plan to compute a graph, and its gradients if it is for training.

    Every operation writes into memory of the plan (`out=`). An operation that works in place takes over the memory of its
    first input where no later operation reads that. A value used several times is computed once and its gradients add up;
    a value that needs no gradient gets none. The gradient of a variable is written to the variable's own gradient.

    Where results are large, consecutive operations run on a few samples at a time (`nn.plan.stages`), in as many threads as
    the team has. The BLAS then keeps to one thread throughout: its own ones, once woken by a product, would look for another
    for some 25 ms and take the cores from the team. Sums over such parts are made in the order of the samples, so equal plans
    give equal bits. The plan of a part of a graph that names its `whole` makes the same sums and draws the same random
    numbers as that of the whole.

    Args:
        graph: the graph, with variables that a store holds.
        given: shapes of the inputs, with the length of the batch.
        dtype: type of all arrays, float32 or float64.
        training: whether `backward` may follow `forward`.
        input_gradient: whether the gradients of the inputs are computed, too.
        team: threads that work on slices; None: this one alone.
        whole: the graph of which `graph` is a part.
        memory: memory for all that lasts one run; None: its own. Plans that share it run in turns.
    """

    def __init__(
        self,
        graph: Graph,
        given: Sequence[Shape],
        dtype: np.dtype[Any],
        *,
        training: bool,
        input_gradient: bool = False,
        team: Team | None = None,
        whole: Whole | None = None,
        memory: Block | None = None,
    ) -> None:
        if memory is not None:
            memory.begin()
        self._team = Team(1) if team is None else team
        self._graph = graph
        self._layout = Layout(graph, given, dtype, training=training, threads=self._team.size, whole=whole, memory=memory)
        # arrays of the inputs' shapes stand for what `forward` will be given, until everything is prepared
        self._places: dict[Value, Place] = {
            entry: Place("batch", [np.empty(shape, dtype)]) for entry, shape in zip(graph.inputs, given, strict=True)
        }
        for node in graph.nodes:
            self._choose_place(node)
        self.outputs = tuple([self._places[output].arrays[0] for output in graph.outputs])

        self._entries: list[tuple[list[Array], int, slice | None, int]] = []
        self._random: list[tuple[Operation, int]] = []
        self._wholes: dict[Node, Operation] = {}
        self._parts: list[tuple[Operation, Operation, slice]] = []
        self._calls: dict[tuple[Node, int | None], Call] = {}
        # Before any call is prepared: each takes its work space from an arena, whose size must be known.
        self._arenas = self._open_arenas()
        self._forward = [self._prepare(stage) for stage in self._layout.stages]
        if not self._layout.in_lanes:
            # one thread computes all stages in turn: one list spares a loop over them in each batch
            self._forward = [[[call for (calls,) in self._forward for call in calls]]]
        # the stand-ins for the inputs are let go of; each run puts its own arrays there
        for entry in graph.inputs:
            self._places[entry].arrays[0] = np.empty(0, dtype)
        for inputs, index, _, _ in self._entries:
            inputs[index] = np.empty(0, dtype)

        if training:
            memory_of = self._layout.memory.empty
            self.output_gradients = tuple([memory_of(output.shape, dtype) for output in self.outputs])
            self.input_gradients = [np.zeros(shape, dtype) for shape in given] if input_gradient else []
            self._backward = Backward(self._layout, self._call, self.output_gradients, self.input_gradients)
        # Another plan may take its places there next; what this one makes later is its own.
        self._layout.memory = OwnMemory()

    @property
    def output(self) -> Array:
        """The first output of the last run."""
        return self.outputs[0]

    @property
    def output_gradient(self) -> Array:
        """The gradient of the first output, to be written before `backward`."""
        return self.output_gradients[0]

    @property
    def input_gradient(self) -> Array | None:
        """The gradient of the first input after `backward`; None in a plan that computes none."""
        return self.input_gradients[0] if self.input_gradients else None

    def forward(self, xs: tuple[Array, ...], mode: Mode) -> tuple[Array, ...]:
        """Compute the outputs, which stay valid until the next run.

        Args:
            xs: an array for each input, of the plan's shapes and type.
            mode: whether the run is for training, and the key of its draws.
        """
        self._begin(xs, mode)
        if self._layout.in_lanes:
            with limited_to_one_thread():
                for lanes in self._forward:
                    self._team.run([partial(_run, lane) for lane in lanes])
        else:
            _run(self._forward[0][0])
        return self.outputs

    def _begin(self, xs: tuple[Array, ...], mode: Mode) -> None:
        """Take the samples of a run, and have operations prepare it."""
        for x in xs:
            for output in self.outputs:
                if np.may_share_memory(x, output):  # the result of the last run, given back
                    xs = tuple([each.copy() for each in xs])
        for inputs, index, rows, entry in self._entries:
            # the samples are read where they lie, and not copied into the plan
            inputs[index] = xs[entry] if rows is None else xs[entry][rows]
        for operation, position in self._random:
            operation.begin(mode, position)
        for part, drawn, samples in self._parts:
            part.take_rows(drawn, samples)

    @property
    def samples_of_lanes(self) -> list[slice]:
        """The samples of each lane, where each computes the outputs, and goes back from them, for one slice of the batch."""
        stage = self._layout.stages[-1]
        if len(stage.lanes) == 1 or stage.in_turns or not all(output in stage.nodes for output in self._graph.outputs):
            return []
        return [rows for lane in stage.lanes for rows in lane if rows is not None]

    def step(
        self, xs: tuple[Array, ...], mode: Mode, losses: Sequence[Callable[[], None]], sure: set[Value] | None = None
    ) -> None:
        """Compute the outputs and all gradients, where the lanes need not meet between forward and backward.

        Args:
            xs: an array for each input, of the plan's shapes and type.
            mode: whether the run is for training, and the key of its draws.
            losses: for each lane the function that writes `output_gradients` for its samples, `samples_of_lanes`.
            sure: as in `backward`.
        """
        self._begin(xs, mode)
        with limited_to_one_thread():
            *before, last = self._forward
            for lanes in before:
                self._team.run([partial(_run, lane) for lane in lanes])
            first = [partial(_run_before, lane, loss) for lane, loss in zip(last, losses, strict=True)]
            self._backward.run(self._team, None, sure, first)

    def backward(self, on_gradient: OnGradient | None = None, add: bool = False, sure: set[Value] | None = None) -> None:
        """Compute all gradients from `output_gradients`, after `forward` with the same data.

        Args:
            on_gradient: called with each variable the moment its gradient is complete, last layer first.
            add: whether gradients are added to those that variables have, each bit as `np.add` would; changes of buffers are
                not.
            sure: takes the variables with gradients that are known to be finite without a look at them, before any are added.
        """
        (self._adding if add else self._backward).run(self._team, on_gradient, sure)

    @cached_property
    def _adding(self) -> Backward:
        return self._backward.adding()

    @property
    def lanes(self) -> Team | None:
        """The threads that compute it; None where it has no lanes."""
        return self._team if self._layout.in_lanes else None

    def first_not_finite(self) -> str | None:
        """Say which variable, or which operation's result in the last run, is the first that is not finite; None if all are.

        Runs forward again, since operations that work in place have overwritten results.
        """
        # Variables first: one that is not finite spoils all that is computed from it.
        for variable in self._graph.variables:
            if not np.isfinite(variable.value).all():
                return f"variable '{variable.name}'"
        # It looks for what is not finite, so NumPy need not warn of it.
        with np.errstate(all="ignore"):
            for stage in self._layout.stages:
                for rows in (rows for lane in stage.lanes for rows in lane):
                    for node in stage.nodes:
                        operation, inputs, output = self._call(node, rows)
                        operation.forward(inputs, output)
                        if not np.isfinite(output).all():
                            return self._describe(node)
        return None

    def _describe(self, node: Node) -> str:
        """Name a result by its layer, or by its operation and the layers around it."""
        if node.layers:
            return f"the output of {node.layers[0].describe()}"
        nodes = self._graph.nodes
        before = [layer for earlier in nodes[: nodes.index(node)] for layer in earlier.layers]
        behind = [layer for later in nodes[nodes.index(node) :] for layer in later.layers]
        where = [f"behind {before[-1].describe()}"] if before else []
        where += [f"in or in front of {behind[0].describe()}"] if behind else []
        return f"the result of {type(node.operation).__name__}{', ' + ', '.join(where) if where else ''}"

    def _place(self, value: Value) -> Place:
        if value not in self._places:
            if isinstance(value, Variable):
                self._places[value] = Place("kept", [value.value])
            elif isinstance(value, Constant):
                self._places[value] = Place("kept", [np.asarray(value.array, self._layout.dtype)])
        return self._places[value]

    def _choose_place(self, node: Node) -> None:
        layout = self._layout
        kind = layout.kind(node, kept_for_backward=layout.training)
        shared = None
        if layout.may_share(node):
            shared = self._place(node.inputs[0]).shared(kind, layout.stage_of[node], layout.shapes[node])
        self._places[node] = layout.place(node, kind) if shared is None else shared

    def _open_arenas(self) -> list[Arena]:
        """Return the work space of each lane, as large as the most demanding operation needs it."""
        measure = Measure()
        for stage in self._layout.stages:
            # A slice that is shorter may need more, where an operation works in blocks.
            for rows, node in product(stage.slices, stage.nodes):
                for samples in (rows, None) if self._takes_rows(node, rows) else (rows,):
                    measure.begin()
                    self._allocate(node, samples, measure, OwnMemory())
        # Lanes run at once, so each has its own.
        return [Arena(measure.size, self._layout.memory) for _ in range(max(len(stage.lanes) for stage in self._layout.stages))]

    def _allocate(self, node: Node, rows: slice | None, scratch: Scratch, lasting: Scratch) -> Operation:
        # the graph's operation is a description that other plans share; the copy has work arrays of this shape
        operation = copy(node.operation)
        stage = self._layout.stages[self._layout.stage_of[node]]
        # past what an activation lets others set
        vars(operation).update(
            scratch=scratch,
            _lasting=lasting,
            training=self._layout.training,
            frozen=self._graph.freezes(node),
            block_factor=LANE_PARTS if rows is not None and len(stage.lanes) > 1 else 1,
        )
        # Not those of arrays: of a stage that works in turns no array holds the whole batch.
        *shapes, output = [self._layout.shape_at(value, rows) for value in (*node.inputs, node)]
        operation.allocate(shapes, output, self._layout.dtype)
        return operation

    def _prepare(self, stage: Stage) -> list[list[Call]]:
        """Return the calls of one stage for each lane, slice by slice."""
        lanes: list[list[Call]] = []
        for lane, parts in enumerate(stage.lanes):
            calls: list[Call] = []
            for rows in parts:
                for node in stage.nodes:
                    # operations of a lane run one after the other, so all have their work space from the same memory
                    self._arenas[lane].begin()
                    inputs = [self._place(source).at(lane, rows) for source in node.inputs]
                    operation = self._make(node, rows, self._arenas[lane])
                    self._note_entries(node, inputs, rows)
                    calls.append(Call(operation, inputs, self._places[node].at(lane, rows)))
                    # By the first sample: slices of one stage begin at different ones.
                    self._calls[node, None if rows is None else rows.start] = calls[-1]
            lanes.append(calls)
        # Only where each lane has one slice: lanes that work in turns keep no gradients of the whole batch.
        if len(lanes) > 1 and not stage.in_turns:
            self._prepare_whole(stage)
        return lanes

    def _takes_rows(self, node: Node, rows: slice | None) -> bool:
        """Return whether an operation on a slice takes its rows of the draws for the whole batch."""
        return rows is not None and self._layout.training and bool(node.operation.by_sample)

    def _make(self, node: Node, rows: slice | None, arena: Arena) -> Operation:
        """Return an operation that `forward` prepares for each run."""
        if rows is None or not self._takes_rows(node, rows):
            operation = self._allocate(node, rows, arena, self._layout.memory)
            if type(operation).begin is not Operation.begin:
                self._random.append((operation, self._layout.position[node]))
            return operation
        if node not in self._wholes:
            whole = self._wholes[node] = self._allocate(node, None, arena, self._layout.memory)
            self._random.append((whole, self._layout.position[node]))
            # It computes nothing, so the one on a slice may have the same work space.
            arena.begin()
        # Memory of its own is free again when it takes its rows.
        operation = self._allocate(node, rows, arena, OwnMemory())
        operation.take_rows(self._wholes[node], rows)
        self._parts.append((operation, self._wholes[node], rows))
        return operation

    def _note_entries(self, node: Node, inputs: list[Array], rows: slice | None) -> None:
        """Note where, in the arguments of a call, `forward` puts the arrays that it is given."""
        entries = self._graph.inputs
        self._entries += [
            (inputs, index, rows, entries.index(source))
            for index, source in enumerate(node.inputs)
            if isinstance(source, Placeholder)
        ]

    def _prepare_whole(self, stage: Stage) -> None:
        """Have calls for the whole batch of those operations that have gradients which the lanes share out."""
        for node in stage.nodes:
            if node.operation.shares_gradients([self._layout.shapes[source] for source in node.inputs]):
                # The arena of the first lane is free: shares are written when all lanes have ended.
                self._arenas[0].begin()
                inputs = [self._place(source).at(0, None) for source in node.inputs]
                self._note_entries(node, inputs, None)
                operation = self._allocate(node, None, self._arenas[0], self._layout.memory)
                self._calls[node, None] = Call(operation, inputs, self._places[node].at(0, None))

    def _call(self, node: Node, rows: slice | None) -> Call:
        return self._calls[node, None if rows is None else rows.start]


def _run_before(calls: list[Call], loss: Callable[[], None]) -> None:
    _run(calls)
    loss()


def _run(calls: list[Call]) -> None:
    for operation, inputs, output in calls:
        operation.forward(inputs, output)


#: Classes of objects that all plans of a model share.
_SHARED = (Graph, Value, Team, type)


def bytes_held(item: object, apart: Iterable[Array] = (), each_array: int = 0) -> int:
    """Count the bytes of all arrays that an object, its attributes, and what these hold keep in memory, each piece once.

    Args:
        item: the object, such as a `Plan`. Of other objects only those of `nn` are looked into.
        apart: arrays whose memory belongs to others.
        each_array: bytes that count for each array object, views included.
    """
    # Views of one array count once, and those of a variable belong to the store.
    seen = {id(_owner(array)) for array in apart}
    total = 0
    arrays: set[int] = set()
    waiting: list[Any] = [item]
    while waiting:
        each = waiting.pop()
        if isinstance(each, np.ndarray):
            if each_array and id(each) not in arrays:
                arrays.add(id(each))
                total += each_array
            # A view keeps the whole memory.
            each = _owner(each)
            if id(each) not in seen:
                seen.add(id(each))
                total += each.nbytes
        elif (opener := _opener(type(each))) is not None and id(each) not in seen:  # type: ignore[arg-type]
            seen.add(id(each))
            waiting += opener(each)
    return total


def _owner(array: Array) -> Array:
    """Return the array with the memory that an array shows; `as_strided` has an object of its own between them."""
    shown: Any = array
    while (base := getattr(shown, "base", None)) is not None:
        shown = base
        if isinstance(shown, np.ndarray):
            array = shown
    return array


# By the class: a plan of three layers has hundreds of objects, most of them numbers and texts.
@lru_cache(maxsize=1024)
def _opener(kind: type) -> Callable[[Any], Iterable[Any]] | None:
    """Return the function that lists the parts of an object of a class; None for one that is not looked into."""
    for base, opener in _OPENERS:
        if issubclass(kind, base):
            return opener
    if issubclass(kind, _SHARED) or kind.__module__.partition(".")[0] != "nn":
        return None
    # Slots of a class are not in the instance's `__dict__`.
    slots = [name for base in kind.__mro__ for name in getattr(base, "__slots__", ())]
    return lambda item: (*getattr(item, "__dict__", {}).values(), *(getattr(item, name, None) for name in slots))


_OPENERS: Sequence[tuple[Any, Callable[[Any], Iterable[Any]]]] = (
    (dict, lambda item: (*item.keys(), *item.values())),
    ((list, tuple, set, frozenset), lambda item: item),
    (partial, lambda item: (item.func, item.args, item.keywords)),
    (MethodType, lambda item: (item.__self__,)),
    (FunctionType, lambda item: [cell.cell_contents for cell in item.__closure__ or ()]),
)
