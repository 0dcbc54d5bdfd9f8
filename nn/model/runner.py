"""Runner of a model's graph: plans for every shape that comes, kept while they are used."""

import math
import threading
from collections import OrderedDict
from collections.abc import Callable, Sequence
from contextlib import nullcontext
from copy import copy
from dataclasses import dataclass
from functools import cached_property, partial
from typing import Any, Literal, NamedTuple

import numpy as np

from nn.activation.activation import Linear
from nn.arrays import Array, Block, Shape
from nn.extension import check_object, is_ours
from nn.loss.loss import Loss
from nn.model.ending import absorb, is_varied
from nn.model.objective import Objective
from nn.operation.arithmetic import Compare
from nn.operation.operation import Mode
from nn.plan.layout import Whole
from nn.plan.plan import OnGradient, Plan, bytes_held
from nn.threads import Team, blas_threads, limited_to_one_thread
from nn.value.graph import Graph, Kept
from nn.value.value import Constant, Node, Value

KEPT_BYTES = 128 * 1024**2
"""Bytes of the plans that are kept, besides the memory that all share: of small batches and short sequences many, as clients of
a federation have tails, and sequences lengths, of every kind."""
LEAST_KEPT = 4
"""Plans that are kept however large they are: those of training and scoring, each with a shorter last batch."""
PLAN_OBJECTS = 64 * 1024
"""Bytes that a plan takes besides its arrays, about."""
ARRAY_OBJECT = 256
"""Bytes of an array besides its numbers, with the place where it is kept: recurrences have some for each step."""
LANE_LOSS_BYTES = 32 * 1024**2
"""Bytes of outputs up to which lanes compute the loss: each has work space of its own, some times as large as its outputs."""
ROWS = 8
"""Rows that kernels of the BLAS sum together at most; one place in a group has other last bits than another."""
INFERENCE = Mode()

Purpose = Literal["train", "score", "predict", "forward"]


class _Scored(NamedTuple):
    """The loss of one output in a plan: its place among the outputs with a loss, and the factor in the sum of the losses.

    `axes` is the number of leading axes that are the samples of the loss: more than one where positions of a sample weigh
    differently. `mask` is the place of the output's mask among the outputs of the plan, None where it has none.
    """

    place: int
    loss: Loss
    factor: float
    axes: int = 1
    mask: int | None = None


class _LaneLoss:
    """The loss of the samples of one lane, which computes it between its way forward and its way back.

    Args:
        loss: its own copy of the loss.
        rows: the samples.
        plan: gives the outputs and takes their gradients.
        losses: takes the loss of each sample of the batch.
        seen: takes the predictions of the batch; None where they are the outputs.
    """

    def __init__(self, loss: Loss, rows: slice, plan: Plan, losses: Array, seen: Array | None) -> None:
        self._loss, self._rows, self._share = loss, rows, 1 / len(losses)
        self._output, self._gradient = plan.output[rows], plan.output_gradient[rows]
        self._losses, self._seen = losses[rows], None if seen is None else seen[rows]
        loss.allocate(self._output.shape, self._output.dtype)

    def run(self, label: Array) -> None:
        """Write losses, predictions and the gradients of the outputs, for the labels of the whole batch."""
        label = label[self._rows]
        np.copyto(self._losses, self._loss.each(label, self._output))
        self._loss.derive(label, self._output, self._share, self._gradient)
        if self._seen is not None:
            np.copyto(self._seen, self._loss.prediction(self._output))


class _LaneLosses(NamedTuple):
    """The loss of a plan with one output, in its lanes; `value` is computed of the losses of all samples, as without lanes."""

    lanes: Sequence[_LaneLoss]
    losses: Array
    seen: Array


@dataclass(eq=False)
class _Compiled:
    plan: Plan
    losses: Sequence[_Scored]
    in_lanes: _LaneLosses | None
    """The loss in the lanes of the plan, None where the caller computes it for all samples."""
    kept: Sequence[Kept]
    """States between batches, which the plan takes as its last inputs, and gives as its last outputs."""
    shared: Sequence[Array]
    """Arrays that are not the plan's alone."""

    @cached_property
    def bytes(self) -> int:
        """Memory of the plan; counted when it is asked for, as few models have so many plans that one has to go."""
        return bytes_held((self.plan, self.losses, self.in_lanes), self.shared, ARRAY_OBJECT) + PLAN_OBJECTS

    def run(self, x: tuple[Array, ...], mode: Mode) -> tuple[Array, ...]:
        """Compute the outputs for samples, and carry the states on."""
        if not self.kept:
            return self.plan.forward(x, mode)
        ends = self.plan.outputs[-len(self.kept) :]
        states = [kept.before(end.shape, end.dtype) for kept, end in zip(self.kept, ends, strict=True)]
        outputs = self.plan.forward((*x, *states), mode)
        for kept, end in zip(self.kept, outputs[-len(self.kept) :], strict=True):
            # Not in place: backward, and the search for numbers that are not finite, read the states before the batch.
            kept.rows = end.copy()
        return outputs[: -len(self.kept)]


class Runner:
    """Runner that computes predictions, losses and gradients of one graph, with a loss for some or all of its outputs.

    Where an output is the operation that its loss contains (softmax before its cross-entropy), training and scoring
    stop before it and the loss does both at once. Large networks are computed in as many threads as the BLAS has. With
    `whole` the graph is a part of another one, computes as that does, and training gives the gradient of its input, too.

    There is a plan for each length of a batch, and where inputs have axes of any length for each of these. Plans run in turns,
    so all lie in one memory, which is about as large as the largest of them needs it.

    Samples, labels, weights and predictions are tuples: samples one array for each input, the others one for each output with
    a loss, in their orders.
    """

    def __init__(self, graph: Graph, objective: Objective | None, dtype: np.dtype[Any], whole: Whole | None = None) -> None:
        self._graph, self._dtype, self._whole = graph, dtype, whole
        self._predicted = graph.ending_in(graph.outputs[: -graph.added]) if graph.added else graph
        self._scored: Graph | None = None if objective is None else graph
        self._taken: list[tuple[Loss, float]] = []
        self._absorbed: list[bool] = []
        self._varied: list[bool] = []
        self._shares = range(0)
        self.masked = False
        """Whether masks or ignored labels leave something out of losses and metrics."""
        self._valid: dict[int, Array | None] = {}
        self._flat: dict[int, tuple[Array, Array]] = {}
        self._weights: dict[int, Array | None] = {}
        self._masks: dict[int, int] = {}
        self.counts: list[float] = []
        """For each output that has a loss how many samples or positions the last run counted, where masks leave some out."""
        self.losses: tuple[float, ...] = ()
        """The loss of each output that has one, of the last step or score, not weighted."""
        if objective is not None:
            self._take(objective)
        self._penalties = [(each, each.regularizer) for each in graph.variables if each.regularizer is not None]
        self._team = Team(blas_threads())
        self._lock = threading.RLock()
        self._last: Plan | None = None
        self._lengths = graph.has_lengths
        self._compiled: OrderedDict[tuple[Any, ...], _Compiled] = OrderedDict()
        self._block = self._own_block()

    def step(
        self,
        x: tuple[Array, ...],
        label: tuple[Array, ...],
        on_gradient: OnGradient | None,
        key: tuple[int, ...],
        weight: tuple[Array | None, ...] | None = None,
        on_loss: Callable[[float], None] | None = None,
        add: bool = False,
        sure: set[Value] | None = None,
    ) -> tuple[float, tuple[Array, ...]]:
        """Compute loss, predictions and all gradients of one block; the predictions are valid until the next run.

        `weight` (batch,) weighs the losses of the samples, or of their positions, (batch, ...). `on_loss` is told the loss
        before there is any gradient. `add`: the gradients are added to those of the block before. A set `sure` takes the
        variables with gradients that are known to be finite without a look at them.
        """
        with self._lock:
            compiled = self._compile("train", x, weight)
            plan, losses = compiled.plan, compiled.losses
            self._last = plan
            apart = weight is not None or on_loss is not None or on_gradient is not None or add
            if compiled.in_lanes is not None and not apart and label[0].ndim < plan.output.ndim:
                return self._step_in_lanes(compiled.plan, compiled.in_lanes, x, label[0], Mode(True, key), sure)
            # One limit for the whole step, unless `on_gradient`, which may compute by other means, is called in between.
            limit = limited_to_one_thread() if plan.lanes is not None and on_gradient is None else nullcontext()
            with limit:
                outputs = compiled.run(x, Mode(True, key))
                value = self._value(losses, label, outputs, weight)
                if on_loss is not None:
                    # Before gradients are computed, so that a loss that is not finite stops the step.
                    on_loss(value)
                gradients = plan.output_gradients
                for scored in losses:
                    place, loss, factor, axes, _ = scored
                    each = None if weight is None else weight[place]
                    if axes > 1 or self.masked:
                        loss.gradient(*self._flat[place], _rows(gradients[place], axes), self._weights[place])
                    else:
                        loss.gradient(label[place], outputs[place], gradients[place], each)
                    if factor != 1:
                        np.multiply(gradients[place], factor, out=gradients[place])
                if self._shares:
                    self._write_shares(plan)
                plan.backward(on_gradient, add, sure)
                return value, self._seen(losses, outputs)

    def _step_in_lanes(
        self, plan: Plan, own: _LaneLosses, x: tuple[Array, ...], label: Array, mode: Mode, sure: set[Value] | None
    ) -> tuple[float, tuple[Array, ...]]:
        plan.step(x, mode, [partial(each.run, label) for each in own.lanes], sure)
        # Added up as without lanes, so that the bits are the same.
        value = float(np.add.reduce(own.losses)) / len(own.losses)
        self.losses = (value,)
        return value + self._penalty() if self._penalties else value, (own.seen,)

    def last_prediction(self, seen: tuple[Array, ...]) -> tuple[Array, ...]:
        """Return the model's own outputs of the last step, given its predictions as metrics take them."""
        if self._last is None:
            return seen
        own = zip(seen, self._last.outputs[: len(seen)], self._absorbed, strict=True)
        return tuple([shown if absorbed else output for shown, output, absorbed in own])

    def score(
        self, x: tuple[Array, ...], label: tuple[Array, ...], weight: tuple[Array | None, ...] | None = None
    ) -> tuple[float, tuple[Array, ...]]:
        """Compute loss and predictions of one block outside training; the predictions are valid until the next run."""
        with self._lock:
            compiled = self._compile("score", x, weight)
            losses, outputs = compiled.losses, compiled.run(x, INFERENCE)
            return self._value(losses, label, outputs, weight), self._seen(losses, outputs)

    def _own_block(self) -> Block | None:
        # Of a part of a model forward and backward are two calls, between which another plan may run.
        return Block() if self._whole is None else None

    def _take(self, objective: Objective) -> None:
        """Take over losses and their factors, and end the graph before operations that losses contain."""
        graph = self._graph
        ends: list[Node] = []
        for place, loss, factor in zip(objective.places, objective.losses, objective.factors, strict=True):
            absorbed = absorb(graph.outputs[place], loss)
            end = graph.outputs[place] if absorbed is None else absorbed[0]
            # two outputs may end in the same scores
            ends.append(end.apply(Linear()) if end in ends else end)
            self._taken.append((loss if absorbed is None else absorbed[1], factor))
            self._absorbed.append(absorbed is not None)
            self._varied.append(is_varied(graph.outputs[place], loss))
        ends += graph.outputs[len(graph.outputs) - graph.added :]
        self._shares = range(len(self._taken), len(ends))
        for number, place in enumerate(objective.places):
            mask = graph.outputs[place].mask
            if mask is not None:
                if self._whole is not None:
                    raise ValueError("split() cannot cut a model with an output that has a mask: the mask is not carried over")
                # A comparison, through which no gradient goes.
                self._masks[number] = len(ends)
                ends.append(mask.apply(Compare("!="), Constant(np.asarray(0.0))))
        if tuple(ends) != graph.outputs:
            self._scored = graph.ending_in(ends, graph.added + len(self._masks))
        self.masked = bool(self._masks) or any(loss._ignores for loss, _ in self._taken)
        self.counts = [0.0] * len(self._taken)

    def _value(
        self,
        losses: Sequence[_Scored],
        label: tuple[Array, ...],
        outputs: tuple[Array, ...],
        weight: tuple[Array | None, ...] | None,
    ) -> float:
        """Return the loss: that of each output times its factor, values that are part of it, and penalties of variables."""
        value, each = 0.0, list[float]()
        for scored in losses:
            place, loss, factor, axes, _ = scored
            if axes > 1 or self.masked:
                own = self._position_value(scored, label[place], outputs, None if weight is None else weight[place])
            else:
                own = loss.value(label[place], outputs[place], None if weight is None else weight[place])
            each += [own]
            value += factor * own
        self.losses = tuple(each)
        for place in self._shares:
            value += float(np.add.reduce(outputs[place], axis=None)) / max(outputs[place].size, 1)
        return value + self._penalty() if self._penalties else value

    def _position_value(self, scored: _Scored, label: Array, outputs: tuple[Array, ...], weight: Array | None) -> float:
        """Return the loss of an output with positions that weigh differently: its positions are the samples of the loss.

        Where a mask or an ignored label leaves some out, it is the mean over the others.
        """
        place, loss, _, axes, mask = scored
        output = outputs[place]
        lead = output.shape[:axes]
        valid = None if mask is None else _beside(outputs[mask], axes)
        if loss._ignores:
            counted = loss._counted(label)
            if counted is not None:
                label = np.where(counted, label, 0).astype(label.dtype)
                valid = counted if valid is None else valid * counted
        weights = None if weight is None else _beside(weight, axes)
        count = float(math.prod(lead))
        if valid is not None:
            valid = np.broadcast_to(valid, lead)
            total = float(np.count_nonzero(valid))
            # By count / total, so that the mean over all places is that over those which count.
            share = valid * output.dtype.type(count / max(total, 1.0))
            weights, count = (share if weights is None else weights * share), total
        self._valid[place] = valid
        self.counts[place] = count
        # Class numbers have no axis of classes, all other labels the axes of the output.
        numbers = label.ndim < output.ndim
        self._flat[place] = (_rows(label, axes, keep=numbers), _rows(output, axes))
        self._weights[place] = (
            None if weights is None else np.ascontiguousarray(np.broadcast_to(weights, lead), output.dtype).reshape(-1)
        )
        return loss.value(*self._flat[place], self._weights[place])

    def counted(self, place: int, label: Array, seen: Array) -> tuple[Array, Array]:
        """Return label and prediction of an output without what its mask, or an ignored label, leaves out of the last run.

        Args:
            place: the output, by its place among those that have a loss.
            label: its labels, as the loss takes them.
            seen: its predictions.
        """
        valid = self._valid.get(place)
        if valid is None:
            return label, seen
        places = np.flatnonzero(valid)
        axes = valid.ndim
        return _rows(label, axes, keep=True)[places], _rows(seen, axes, keep=True)[places]

    def counted_weight(self, place: int, weight: Array | None) -> Array | None:
        """Return the weights of the places that `counted` returns.

        Args:
            place: the output, by its place among those that have a loss.
            weight: weights of its samples, or of their positions; None: all 1.
        """
        valid = self._valid.get(place)
        if weight is None or valid is None:
            return weight
        each: Array = np.broadcast_to(_beside(weight, valid.ndim), valid.shape).reshape(-1)
        return each[np.flatnonzero(valid)]

    def all_counted(self, labels: Sequence[Array], seen: Sequence[Array]) -> tuple[tuple[Array, ...], tuple[Array, ...]]:
        """Return labels and predictions of all outputs as `counted` does those of one.

        Args:
            labels: those of each output that has a loss.
            seen: the predictions of each.
        """
        both = [self.counted(place, *each) for place, each in enumerate(zip(labels, seen, strict=True))]
        return tuple([label for label, _ in both]), tuple([prediction for _, prediction in both])

    def _write_shares(self, plan: Plan) -> None:
        """Write the gradients of values that are part of the loss by themselves."""
        for place in self._shares:
            plan.output_gradients[place].fill(1 / max(plan.outputs[place].size, 1))

    def _penalty(self) -> float:
        """Return the penalties of the variables, trained or not, which are part of the loss."""
        return sum(regularizer.penalty(variable.value) for variable, regularizer in self._penalties)

    def _seen(self, losses: Sequence[_Scored], outputs: tuple[Array, ...]) -> tuple[Array, ...]:
        """Return the predictions as metrics take them: probabilities, where the loss makes them of scores."""
        seen: list[Array] = []
        for place, loss, _, axes, _ in losses:
            final = loss.absorbs is None or self._varied[place]
            if final or axes == 1:
                seen += [outputs[place] if final else loss.prediction(outputs[place])]
            else:
                seen += [loss.prediction(_rows(outputs[place], axes)).reshape(outputs[place].shape)]
        return tuple(seen)

    def predict(self, x: tuple[Array, ...]) -> tuple[Array, ...]:
        """Compute the model's outputs, arrays of their own. Several threads may predict; they take turns."""
        with self._lock:
            return tuple([output.copy() for output in self._compile("predict", x).run(x, INFERENCE)])

    @property
    def lanes(self) -> Team | None:
        """The threads that computed the last step; None where they are those of the BLAS, which may be spinning still."""
        return None if self._last is None else self._last.lanes

    def first_not_finite(self) -> str | None:
        """Say where the last step first got a number that is not finite: a variable or a layer; None if all are finite."""
        return None if self._last is None else self._last.first_not_finite()

    def __getstate__(self) -> dict[str, Any]:
        """Leave out plans, as their arrays are parts of the variables' memory, and the lock: a copy makes its own."""
        return {**vars(self), "_compiled": OrderedDict(), "_last": None, "_lock": None, "_block": None}

    def __setstate__(self, state: dict[str, Any]) -> None:
        vars(self).update(state, _lock=threading.RLock(), _block=None)
        self._block = self._own_block()

    def _compile(self, purpose: Purpose, x: tuple[Array, ...], weight: tuple[Array | None, ...] | None = None) -> _Compiled:
        # mostly only the length of the batch is not that of the graph
        key: tuple[Any, ...] = (purpose, *[each.shape for each in x]) if self._lengths else (purpose, x[0].shape[0])
        axes: list[int] = []
        if weight is not None:
            for each in weight:
                axes += [1 if each is None else each.ndim]
            if max(axes) > 1:  # positions have weights of their own
                key += (*axes,)
        found = self._compiled.get(key)
        if found is None:
            found = self._compiled[key] = self._make(purpose, [each.shape for each in x], axes)
            if len(self._compiled) > LEAST_KEPT:
                self._drop_plans()
        else:
            # The first is the one not used for the longest time.
            self._compiled.move_to_end(key)
        return found

    def _drop_plans(self) -> None:
        """Drop the plans that were not used for the longest time, as far as all take too much memory."""
        kept = sum(each.bytes for each in self._compiled.values())
        # The plan made last stands at the end and stays, whatever its size.
        while kept > KEPT_BYTES and len(self._compiled) > LEAST_KEPT:
            kept -= self._compiled.popitem(last=False)[1].bytes

    def _make(self, purpose: Purpose, given: Sequence[Shape], weighing: Sequence[int] = ()) -> _Compiled:
        training, scored = purpose in ("train", "forward"), purpose in ("train", "score")
        graph = self._scored if scored else self._predicted
        if graph is None:
            raise ValueError("a part of a model without a loss has no gradients of its own; use forward() and backward()")
        carried, graph = graph.carried, graph.carrying()
        given = [*given, *[(given[0][0], *each.shape[1:]) for each in carried]]
        plan = Plan(
            graph,
            given,
            self._dtype,
            training=training,
            input_gradient=training and self._whole is not None,
            team=self._team,
            whole=self._whole,
            memory=self._block,
        )
        for output in plan.outputs[: len(plan.outputs) - graph.added]:
            if output.shape[:1] != given[0][:1]:
                raise ValueError(f"a model must give one output per sample, got {output.shape} for inputs {given[0]}")
        losses: list[_Scored] = []
        for place, (taken, factor) in enumerate(self._taken if scored else ()):
            loss = copy(taken)  # each plan has its own, whose work arrays are of the plan's shape
            if self._block is not None:
                vars(loss)["_memory"] = self._block  # past what a loss lets others set
            shape = plan.outputs[place].shape
            axes = max(1, weighing[place] if weighing else 1, 2 if place in self._masks else 1)
            if loss._ignores:
                axes = max(axes, len(shape) - 1)
            loss.allocate(_rows_shape(shape, axes), self._dtype)
            if "_share" not in vars(loss):
                raise TypeError(f"{type(loss).__name__}.allocate() must call super().allocate(shape, dtype)")
            vars(loss).pop("_memory", None)
            check_object(loss)  # its work space may hide what the engine calls
            losses.append(_Scored(place, loss, factor, axes, self._masks.get(place)))
        in_lanes = self._losses_in_lanes(plan) if scored and training and not carried else None
        variables = self._graph.variables
        shared = [each.value for each in variables] + [each.gradient for each in variables if each.has_gradient]
        shared += [] if self._block is None else self._block.pieces
        return _Compiled(plan, losses, in_lanes, [each.kept for each in carried], shared)

    def _losses_in_lanes(self, plan: Plan) -> _LaneLosses | None:
        """Return the loss in the lanes of a plan, where it is the only output and the loss of a sample is its own."""
        rows = plan.samples_of_lanes
        if not rows or len(plan.outputs) > 1 or self.masked:
            return None
        ((loss, factor),) = self._taken
        if factor != 1 or not loss._by_sample or not is_ours(type(loss)):
            return None
        # The BLAS sums rows in groups from the first one on: a lane that began within a group would have other last bits. And
        # each lane has work space of its own.
        if any(each.start % ROWS for each in rows) or plan.output.nbytes > LANE_LOSS_BYTES:
            return None
        losses = np.zeros(len(plan.output), self._dtype)
        final = loss.absorbs is None or self._varied[0]
        seen = None if final else np.empty_like(plan.output)
        lanes = [_LaneLoss(copy(loss), each, plan, losses, seen) for each in rows]
        return _LaneLosses(lanes, losses, plan.output if seen is None else seen)


def _rows_shape(shape: Shape, axes: int) -> Shape:
    """Return the shape with the first axes as one, and at least one more."""
    return (math.prod(shape[:axes]), *(shape[axes:] or ((1,) if axes > 1 else ())))


def _rows(array: Array, axes: int, *, keep: bool = False) -> Array:
    """Return an array with its first axes as one; with `keep` class numbers stay without a further axis."""
    if axes == 1:
        return array
    return array.reshape(-1, *array.shape[axes:]) if keep else array.reshape(_rows_shape(array.shape, axes))


def _beside(array: Array, axes: int) -> Array:
    """Return an array with so many axes, those that it lacks behind its own with length 1."""
    return array.reshape(*array.shape, *(1,) * (axes - array.ndim))
