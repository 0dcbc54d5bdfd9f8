"""Runs a model's graph: plans for every shape that comes, kept while they are used."""

from collections import OrderedDict
from copy import copy
from typing import Any, Literal, NamedTuple

import numpy as np

from nn.activation import Linear
from nn.arrays import Array, Shape
from nn.graph import Graph
from nn.loss import Loss
from nn.operation import Mode
from nn.plan import OnGradient, Plan
from nn.value import Node

CACHED_PLANS = 8

Purpose = Literal["train", "score", "predict"]


class _Compiled(NamedTuple):
    plan: Plan
    loss: Loss


class Runner:
    """Computes predictions, losses and gradients of one graph with one loss.

    Where the graph ends in the operation that the loss contains (softmax before its cross-entropy), training and scoring
    stop before it and the loss does both at once.
    """

    def __init__(self, graph: Graph, loss: Loss, dtype: np.dtype[Any]) -> None:
        self._graph, self._loss, self._dtype = graph, loss, dtype
        self._absorbed = loss.absorbs is not None and isinstance(graph.output.operation, loss.absorbs)
        self._scored = graph
        if self._absorbed:
            (source,) = graph.output.inputs
            self._scored = Graph(graph.placeholder, source if isinstance(source, Node) else source.apply(Linear()))
        self._compiled: OrderedDict[tuple[Purpose, Shape], _Compiled] = OrderedDict()

    def step(self, x: Array, label: Array, on_gradient: OnGradient | None, key: tuple[int, ...]) -> tuple[float, Array]:
        """Compute loss, prediction and all gradients of one block; the prediction is valid until the next run."""
        plan, loss = self._compile("train", x.shape)
        output = plan.forward(x, Mode(training=True, key=key))
        value = loss.value(label, output)
        loss.gradient(label, output, plan.output_gradient)
        plan.backward(on_gradient)
        return value, loss.prediction(output) if self._absorbed else output

    def score(self, x: Array, label: Array) -> tuple[float, Array]:
        """Compute loss and prediction of one block outside training; the prediction is valid until the next run."""
        plan, loss = self._compile("score", x.shape)
        output = plan.forward(x, Mode())
        value = loss.value(label, output)
        return value, loss.prediction(output) if self._absorbed else output

    def predict(self, x: Array) -> Array:
        """Compute the model's output, valid until the next run."""
        return self._compile("predict", x.shape).plan.forward(x, Mode())

    def _compile(self, purpose: Purpose, shape: Shape) -> _Compiled:
        key = (purpose, shape)
        found = self._compiled.get(key)
        if found is None:
            graph = self._graph if purpose == "predict" else self._scored
            plan = Plan(graph, shape, self._dtype, training=purpose == "train")
            if plan.output.shape[:1] != shape[:1]:
                raise ValueError(f"a model must give one output per sample, got {plan.output.shape} for inputs {shape}")
            loss = copy(self._loss)
            loss.allocate(plan.output.shape, self._dtype)
            found = self._compiled[key] = _Compiled(plan, loss)
            if len(self._compiled) > CACHED_PLANS:
                self._compiled.popitem(last=False)
        else:
            self._compiled.move_to_end(key)
        return found
