"""The way back through a plan: which operation writes which gradient, where, and when each variable's is complete."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Sequence
from contextlib import nullcontext
from copy import copy
from functools import partial
from typing import NamedTuple

import numpy as np

from nn.arrays import Array, empty
from nn.operation.operation import Operation
from nn.plan.layout import Layout, Place
from nn.plan.stages import Stage, has_batch
from nn.threads import Team, limited_to_one_thread
from nn.value.store import Buffer
from nn.value.value import Node, Regularizer, Value, Variable

OnGradient = Callable[[Variable], None]


class Call(NamedTuple):
    """One operation on one slice of the batch, forward."""

    operation: Operation
    inputs: list[Array]
    output: Array


FindCall = Callable[[Node, "slice | None"], Call]


class Step(NamedTuple):
    """One operation's part of backward on one slice.

    Args:
        operation: the copy of the operation that ran forward on the slice.
        inputs: those of its forward.
        output: the result of its forward.
        gradient: gradient of the loss for the output.
        wanted: memory for the gradient of each input, None for an input that needs none.
        sums: pairs of a gradient that another operation began, and the array that is added to it.
    """

    operation: Operation
    inputs: list[Array]
    output: Array
    gradient: Array
    wanted: list[Array | None]
    sums: list[tuple[Array, Array]]


class Written(NamedTuple):
    """A variable with a gradient that one step writes alone, and its place among the inputs of that step."""

    source: Value
    step: Step
    place: int


class Shared(NamedTuple):
    """A gradient of which each lane computes a share for the whole batch, and the memory for it."""

    written: Written
    target: Array


class Penalty(NamedTuple):
    """The penalty of a variable: it adds its gradient to a `gradient` that is complete; `work` is memory to compute in."""

    regularizer: Regularizer
    value: Array
    gradient: Array
    work: Array


class _Pass(NamedTuple):
    """One stage backward: the steps of each lane, the gradients that lanes share out then, the sums that they add to those of
    the first one, penalties of the variables that are complete then, sums over blocks, and these variables."""

    lanes: list[list[Step]]
    shared: list[Shared]
    joins: list[tuple[Array, Array]]
    penalties: list[Penalty]
    sums: list[tuple[Array, Array]]
    complete: list[Variable]


class _Targets:
    """Targets of the gradients of one stage, and a mark for each that an operation has begun to write."""

    def __init__(self, begun: set[Value]) -> None:
        self._begun = frozenset(begun)
        self._marks: set[tuple[Value, int]] = set()
        self.sums: dict[tuple[Value, int], Array] = {}
        """For values without a batch axis, the sums that a lane but the first makes by itself."""

    @property
    def written(self) -> set[Value]:
        """The values with gradients that this stage writes."""
        return {value for value, _ in self._marks}

    def find(self, value: Value, place: Place, lane: int, rows: slice | None) -> tuple[Array, bool]:
        """Return the array for the gradient of a value on a slice, and whether no operation has written there yet."""
        target = place.at(lane, rows)
        kept = place.kind == "kept"
        begun = value in self._begun
        if kept and lane > 0:
            # threads run at once: each but the first sums into an array of its own, and these are added in their order, so
            # that the bits do not depend on which thread ends first
            target = self.sums.setdefault((value, lane), empty(target.shape, target.dtype))
            begun = False
        # of memory for the whole batch each slice is written for the first time once; other memory once for each thread
        mark = (value, lane if kept else rows.start if rows is not None else 0)
        is_first = not begun and mark not in self._marks
        self._marks.add(mark)
        return target, is_first


class Backward:
    """Backward pass, which computes all gradients of a plan, stage by stage from the last to the first."""

    def __init__(self, layout: Layout, call: FindCall, outputs: Sequence[Array], inputs: Sequence[Array]) -> None:
        self._layout, self._call = layout, call
        graph = layout.graph
        self._takers = layout.takers(input_gradient=bool(inputs))
        # What the losses write: the pass begins from it.
        self._places: dict[Value, Place] = {
            output: Place("batch" if has_batch(output) else "kept", [gradient])
            for output, gradient in zip(graph.outputs, outputs, strict=True)
        }
        self._places.update((entry, Place("batch", [gradient])) for entry, gradient in zip(graph.inputs, inputs, strict=False))
        # Kept over the passes: slices of a lane run one after the other and share them.
        self._addends: dict[tuple[Value, int, int], Array] = {}
        self._adds = False
        wanted = [variable for variable in graph.variables if graph.wants(variable)]
        # A gradient that no operation writes is that of an earlier run, so it is cleared in each.
        self._unreached = [variable for variable in wanted if variable not in self._takers]
        self._shared_buffers = self._buffers_of_several_uses()
        self._plan_passes()

    def adding(self) -> Backward:
        """Return one that adds to the gradients of variables, each bit as `np.add` would, in the memory of this one; changes of
        buffers it writes."""
        other = copy(self)
        other._adds = True
        # Values keep the memory they have; places of variables are chosen anew, since what is there must stay.
        other._places = {value: place for value, place in self._places.items() if not isinstance(value, Variable)}
        other._plan_passes()
        return other

    def _plan_passes(self) -> None:
        # the caller writes the gradients of outputs; where operations use an output as well, they add theirs
        self._begun: set[Value] = set(self._layout.graph.outputs)
        self._writers: dict[Value, list[tuple[Step, int]]] = {}
        # The way back.
        stages = self._layout.stages[::-1]
        self._passes = [self._plan(stage) for stage in stages]
        # With several writers none of them knows the sum.
        sole = [Written(source, *writers[0]) for source, writers in self._writers.items() if len(writers) == 1]
        shared = {each.written.source for done in self._passes for each in done.shared}
        self._alone = [each for each in sole if each.source not in shared]
        last: dict[Variable, _Pass] = {}
        for done, stage in zip(self._passes, stages, strict=True):
            sources = {source for node in stage.nodes if node in self._takers for source in node.inputs}
            found = [value for value in sources if isinstance(value, Variable) and value in self._takers]
            # Later stages of the way back overwrite: in the last that uses a variable its gradient becomes complete.
            last.update((variable, done) for variable in found if not isinstance(variable, Buffer))
        # the order in which they are sent: later layers first, alike on every worker
        for variable in sorted(last, key=lambda variable: -variable.id):
            last[variable].complete.append(variable)
            (gradient,) = self._places[variable].arrays
            if variable.regularizer is not None:  # before the sum over blocks, so that each of them puts the same bits
                work = empty(variable.shape, self._layout.dtype)
                last[variable].penalties.append(Penalty(variable.regularizer, variable.value, gradient, work))
            # computed apart, since the one of the block before lies there: added to it now
            if gradient is not variable.gradient:
                last[variable].sums.append((variable.gradient, gradient))
        # Where nothing is done between the stages, one list spares a loop over them in each batch.
        plain = not any(done.joins or done.penalties or done.sums for done in self._passes)
        self._at_once: list[Step] | None = None
        if plain and not self._layout.in_lanes:
            self._at_once = [step for done in self._passes for step in done.lanes[0]]

    def run(
        self,
        team: Team,
        on_gradient: OnGradient | None,
        sure: set[Value] | None = None,
        first: Sequence[Callable[[], None]] = (),
    ) -> None:
        """Compute the gradients after the output's was written; that of a variable on which it does not depend is 0.

        Args:
            team: threads of the lanes.
            on_gradient: told each variable, the moment its gradient is complete.
            sure: where given, takes the variables with gradients that are known to be finite without a look at them.
            first: what each lane of the last stage does before it goes back, without a meeting in between, such as to write the
                output's gradient for its samples.
        """
        for variable in self._unreached:
            # where gradients are added, the one of the block before stays: 0 would be added to it
            if not self._adds or isinstance(variable, Buffer):
                variable.gradient.fill(0)
            if variable.regularizer is not None:
                part = np.zeros_like(variable.gradient)
                variable.regularizer.add_gradient(variable.value, part, np.empty_like(part))
                np.add(variable.gradient, part, out=variable.gradient)
            # Buffers have no id and are sent by other means.
            if on_gradient is not None and variable.id >= 0:
                on_gradient(variable)
        at_once = self._at_once if on_gradient is None else None
        if at_once is not None:
            _run(at_once)
        for lanes, shared, joins, penalties, sums, complete in self._passes if at_once is None else ():
            if self._layout.in_lanes:
                shares = [partial(_run_share, shared, lane, len(lanes), sure) for lane in range(len(lanes))] if shared else ()
                tasks = [partial(_run, lane) for lane in lanes]
                if first:
                    tasks = [partial(_run_behind, *each) for each in zip(first, lanes, strict=True)]
                    first = ()
                with limited_to_one_thread():  # not so what `on_gradient` does
                    team.run(tasks, shares)
            else:
                _run(lanes[0])
            # The sums of the lanes first: the penalty counts once, for the gradient of the whole block.
            for target, part in joins:
                np.add(target, part, out=target)
            for regularizer, value, gradient, work in penalties:
                regularizer.add_gradient(value, gradient, work)
            for target, part in sums:
                np.add(target, part, out=target)
            if on_gradient is not None:
                for variable in complete:
                    on_gradient(variable)

        # At the end, when the last of their uses has added its change.
        for changes, uses in self._shared_buffers:
            np.divide(changes, uses, out=changes)
        if sure is not None:
            # Threads of the BLAS that wake would take cores from lanes.
            limit = limited_to_one_thread() if self._layout.in_lanes else nullcontext()
            with limit:
                _ask(self._alone, sure)

    def _buffers_of_several_uses(self) -> list[tuple[Array, int]]:
        """Return the changes of the buffers that several operations change, and how many do.

        Each use moves a buffer from where the batch found it, as if it were the only one. Their mean stays within the range
        that they saw, where their sum would go k times too far.
        """
        uses = Counter(
            source
            for node in self._layout.graph.nodes
            if node in self._takers
            # An operation that takes a buffer twice changes it once.
            for source in set(node.inputs)
            if isinstance(source, Buffer) and source in self._takers
        )
        return [(buffer.gradient, count) for buffer, count in uses.items() if count > 1]

    def _plan(self, stage: Stage) -> _Pass:
        targets = _Targets(self._begun)
        # a share is computed from the gradients of the whole batch, which threads that work in turns do not keep
        sharing = self._sharing(stage) if len(stage.lanes) > 1 and not stage.in_turns else []
        lanes = [
            [
                self._step(targets, node, lane, rows, sharing)
                for rows in parts
                for node in reversed(stage.nodes)
                if node in self._takers
            ]
            for lane, parts in enumerate(stage.lanes)
        ]
        # After all lanes: within one stage each of them has a first writer of its own.
        self._begun |= targets.written
        joins = [(self._places[value].arrays[0], array) for (value, _), array in targets.sums.items()]
        return _Pass(lanes, [self._shared(node, index) for node, index in sharing], joins, [], [], [])

    def _sharing(self, stage: Stage) -> list[tuple[Node, int]]:
        """Return nodes with an input, a variable, that has a gradient for lanes to share out: no other node writes to it."""
        layout, found = self._layout, []
        for node in reversed(stage.nodes):
            if node in self._takers:
                places = node.operation.shares_gradients([layout.shapes[source] for source in node.inputs])
                found += [(node, index) for index in places if self._is_sole(node.inputs[index])]
        return found

    def _is_sole(self, source: Value) -> bool:
        return isinstance(source, Variable) and source in self._takers and self._layout.uses[source] == 1

    def _shared(self, node: Node, index: int) -> Shared:
        operation, inputs, output = self._call(node, None)
        step = Step(operation, inputs, output, self._places[node].at(0, None), [], [])
        # One writer: the lanes write parts of one gradient that do not overlap.
        source = node.inputs[index]
        self._writers[source] = [(step, index)]
        return Shared(Written(source, step, index), self._choose_place(node, index, source).arrays[0])

    def _step(self, targets: _Targets, node: Node, lane: int, rows: slice | None, sharing: list[tuple[Node, int]]) -> Step:
        operation, inputs, output = self._call(node, rows)
        # An operation on a slice is one of several that write the gradient, so it cannot add to that of the block before.
        if self._adds and rows is None:
            operation = self._adding(node, operation, inputs) or operation
        step = Step(operation, inputs, output, self._places[node].at(lane, rows), [], [])
        for index, source in enumerate(node.inputs):
            if source not in self._takers or (node, index) in sharing:
                step.wanted.append(None)
                continue
            place = self._choose_place(node, index, source)
            target, is_first = targets.find(source, place, lane, rows)
            if isinstance(source, Variable):
                self._writers.setdefault(source, []).append((step, index))
            # the first operation writes, so that no pass is needed to fill memory with 0
            if is_first:
                step.wanted.append(target)
            else:
                addend = self._addend((source, lane, index), target)
                step.wanted.append(addend)
                step.sums.append((target, addend))
        return step

    def _adding(self, node: Node, operation: Operation, inputs: list[Array]) -> Operation | None:
        """Return an operation that adds to the gradient of a variable by itself, where no other does and one thread runs."""
        source = node.inputs[-1]
        if self._layout.in_lanes or not isinstance(source, Variable) or self._layout.uses[source] > 1:
            return None
        # The penalty is added before the block before is, which this operation would do in one step.
        if source.regularizer is not None:
            return None
        found = operation.adding(inputs, self._places[node].arrays[0]) if source in self._takers else None
        if found is not None:
            # The block before stays there, and this operation adds to it.
            self._places[source] = Place("kept", [source.gradient])
        return found

    def _addend(self, key: tuple[Value, int, int], target: Array) -> Array:
        """Return memory for a gradient to be added to one that was begun, the same for all slices of a lane."""
        found = self._addends.get(key)
        # The first slice need not be the longest one.
        if found is None or found.size < target.size:
            found = self._addends[key] = self._layout.memory.empty(target.shape, target.dtype)
        return found if found.shape == target.shape else found[: len(target)]

    def _choose_place(self, node: Node, index: int, source: Value) -> Place:
        if source not in self._places:
            layout = self._layout
            if isinstance(source, Variable):
                apart = self._adds and not isinstance(source, Buffer)
                self._places[source] = Place("kept", [empty(source.shape, layout.dtype) if apart else source.gradient])
                return self._places[source]
            kind = layout.kind(source, kept_for_backward=False)
            shared = None
            # an operation that may overwrite its input may overwrite its gradient, unless another one adds to that
            if index == 0 and node.operation.in_place and layout.uses[source] == 1:
                shared = self._places[node].shared(kind, layout.stage_of[node], layout.shapes[source])
            self._places[source] = layout.place(source, kind) if shared is None else shared
        return self._places[source]


def _run_share(shared: list[Shared], share: int, shares: int, sure: set[Value] | None) -> None:
    for (_, (operation, inputs, _, gradient, _, _), index), target in shared:
        operation.write_share(index, inputs, gradient, target, share, shares)
    if sure is not None:
        # Here, as the lanes need not meet once more for it.
        _ask([written for written, _ in shared[share::shares]], sure)


def _ask(written: list[Written], sure: set[Value]) -> None:
    """Add to `sure` the variables with gradients that the operations which wrote them know to be finite."""
    for source, (operation, inputs, _, gradient, _, _), index in written:
        if operation.surely_finite(index, inputs, gradient):
            sure.add(source)


def _run_behind(first: Callable[[], None], steps: list[Step]) -> None:
    first()
    _run(steps)


def _run(steps: list[Step]) -> None:
    for operation, inputs, output, gradient, wanted, sums in steps:
        operation.backward(inputs, output, gradient, wanted)
        for target, part in sums:
            np.add(target, part, out=target)
