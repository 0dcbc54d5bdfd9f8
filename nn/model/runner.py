"""Runner of a model's graph: plans for every shape that comes, kept while they are used."""

import threading
from collections import OrderedDict
from collections.abc import Callable
from copy import copy
from typing import Any, Literal, NamedTuple

import numpy as np

from nn.arrays import Array, Shape
from nn.extension import check_object
from nn.loss.loss import Loss
from nn.model.ending import absorb
from nn.operation.operation import Mode
from nn.plan.layout import Whole
from nn.plan.plan import OnGradient, Plan, bytes_held
from nn.threads import Team, blas_threads
from nn.value.graph import Graph
from nn.value.value import Variable

KEPT_BYTES = 128 * 1024**2
"""Bytes of the plans that are kept: of small batches many, as clients of a federation have tails of every length."""
LEAST_KEPT = 4
"""Plans that are kept however large they are: those of training and scoring, each with a shorter last batch."""
PLAN_OBJECTS = 64 * 1024
"""Bytes that a plan takes besides its arrays, about."""
INFERENCE = Mode()

Purpose = Literal["train", "score", "predict", "forward"]


class _Compiled(NamedTuple):
    plan: Plan
    loss: Loss | None
    bytes: int


class Runner:
    """Runner that computes predictions, losses and gradients of one graph with one loss.

    Where the graph ends in the operation that the loss contains (softmax before its cross-entropy), training and scoring
    stop before it and the loss does both at once. Large networks are computed in as many threads as the BLAS has. With
    `whole` the graph is a part of another one, computes as that does, and training gives the gradient of its input, too.
    """

    def __init__(self, graph: Graph, loss: Loss | None, dtype: np.dtype[Any], whole: Whole | None = None) -> None:
        self.loss = loss
        self._graph, self._dtype, self._whole = graph, dtype, whole
        absorbed = None if loss is None else absorb(graph, loss)
        self._absorbed = absorbed is not None
        self._scored, self._taken = (graph, loss) if absorbed is None else absorbed
        self._penalties = [(each, each.regularizer) for each in graph.variables if each.regularizer is not None]
        self._team = Team(blas_threads())
        self._lock = threading.RLock()
        self._last: Plan | None = None
        self._compiled: OrderedDict[tuple[Purpose, Shape], _Compiled] = OrderedDict()

    def step(
        self,
        x: Array,
        label: Array,
        on_gradient: OnGradient | None,
        key: tuple[int, ...],
        weight: Array | None = None,
        on_loss: Callable[[float], None] | None = None,
        add: bool = False,
    ) -> tuple[float, Array]:
        """Compute loss, prediction and all gradients of one block; the prediction is valid until the next run.

        `weight` (batch,) weighs the losses of the samples. `on_loss` is told the loss before there is any gradient. `add`: the
        gradients are added to those of the block before.
        """
        with self._lock:
            plan, loss = self._compile_scored("train", x.shape)
            self._last = plan
            output = plan.forward(x, Mode(training=True, key=key))
            value = loss.value(label, output, weight)
            if self._penalties:
                value += self._penalty()
            if on_loss is not None:
                # Before gradients are computed, so that a loss that is not finite stops the step.
                on_loss(value)
            loss.gradient(label, output, plan.output_gradient, weight)
            plan.backward(on_gradient, add)
            return value, self._seen(loss, output)

    def last_prediction(self, seen: Array) -> Array:
        """Return the model's own output of the last step, given its prediction as metrics take it."""
        # With an absorbed end the plan's output is the scores, and the loss has made the model's output.
        return seen if self._absorbed or self._last is None else self._last.output

    def score(self, x: Array, label: Array, weight: Array | None = None) -> tuple[float, Array]:
        """Compute loss and prediction of one block outside training; the prediction is valid until the next run."""
        with self._lock:
            plan, loss = self._compile_scored("score", x.shape)
            output = plan.forward(x, INFERENCE)
            value = loss.value(label, output, weight)
            if self._penalties:
                value += self._penalty()
            return value, self._seen(loss, output)

    def _penalty(self) -> float:
        """Return the penalties of the variables, trained or not, which are part of the loss."""
        return sum(regularizer.penalty(variable.value) for variable, regularizer in self._penalties)

    def _seen(self, loss: Loss, output: Array) -> Array:
        """Return the prediction as metrics take it: probabilities, where the loss makes them of scores."""
        return output if loss.absorbs is None else loss.prediction(output)

    def predict(self, x: Array) -> Array:
        """Compute the model's output, an array of its own. Several threads may predict; they take turns."""
        with self._lock:
            # The plan's output is overwritten by the next run.
            return self._compile("predict", x.shape).plan.forward(x, INFERENCE).copy()

    @property
    def lanes(self) -> Team | None:
        """The threads that computed the last step; None where they are those of the BLAS, which may be spinning still."""
        return None if self._last is None else self._last.lanes

    def surely_finite(self) -> set[Variable]:
        """Return variables with gradients of the last step that are known to be finite without a look at them."""
        return set() if self._last is None else self._last.surely_finite()

    def first_not_finite(self) -> str | None:
        """Say where the last step first got a number that is not finite: a variable or a layer; None if all are finite."""
        return None if self._last is None else self._last.first_not_finite()

    def __getstate__(self) -> dict[str, Any]:
        """Leave out plans, as their arrays are parts of the variables' memory, and the lock: a copy makes its own."""
        return {**vars(self), "_compiled": OrderedDict(), "_last": None, "_lock": None}

    def __setstate__(self, state: dict[str, Any]) -> None:
        vars(self).update(state, _lock=threading.RLock())

    def _compile_scored(self, purpose: Purpose, shape: Shape) -> tuple[Plan, Loss]:
        plan, loss, _ = self._compile(purpose, shape)
        if loss is None:
            raise ValueError("a part of a model without a loss has no gradients of its own; use forward() and backward()")
        return plan, loss

    def _compile(self, purpose: Purpose, shape: Shape) -> _Compiled:
        key = (purpose, shape)
        found = self._compiled.get(key)
        if found is None:
            found = self._compiled[key] = self._make(purpose, shape)
            kept = sum(each.bytes for each in self._compiled.values())
            # The plan made last stands at the end and stays, whatever its size.
            while kept > KEPT_BYTES and len(self._compiled) > LEAST_KEPT:
                kept -= self._compiled.popitem(last=False)[1].bytes
        else:
            # The first is the one not used for the longest time.
            self._compiled.move_to_end(key)
        return found

    def _make(self, purpose: Purpose, shape: Shape) -> _Compiled:
        training, scored = purpose in ("train", "forward"), purpose in ("train", "score")
        plan = Plan(
            self._scored if scored else self._graph,
            shape,
            self._dtype,
            training=training,
            input_gradient=training and self._whole is not None,
            team=self._team,
            whole=self._whole,
        )
        if plan.output.shape[:1] != shape[:1]:
            raise ValueError(f"a model must give one output per sample, got {plan.output.shape} for inputs {shape}")
        # each plan has one of its own, whose work arrays are of the plan's shape
        loss = copy(self._taken) if scored else None
        if loss is not None:
            loss.allocate(plan.output.shape, self._dtype)
            check_object(loss)  # its work space may hide what the engine calls
        variables = self._graph.variables
        shared = [each.value for each in variables] + [each.gradient for each in variables if each.has_gradient]
        return _Compiled(plan, loss, bytes_held((plan, loss), shared) + PLAN_OBJECTS)
