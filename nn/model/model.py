"""The model: what a person builds, trains, evaluates, saves."""

from __future__ import annotations

import os
from abc import ABC, abstractmethod
from collections.abc import Mapping, Sequence
from copy import deepcopy
from typing import Any

import numpy as np

from nn import arguments
from nn.arrays import BATCH, Array, Shape, as_dtype
from nn.callback import Callback
from nn.configurable import Configurable
from nn.gradient_descent import IGradientDescent
from nn.graph import Graph
from nn.loss import Loss
from nn.metric import Metric
from nn.model import model_file, tensors
from nn.model.batches import Batches, check_samples
from nn.model.history import History
from nn.model.runner import Runner
from nn.model.structure import divide, trace
from nn.model.summary import summarize
from nn.model.training import Training
from nn.optimizer import GDOptimizer, IOptimizer, OpContainer
from nn.plan import OnGradient
from nn.value import Placeholder, Value, Variable, VariableStore

Label = Any
"""One-hot rows, class numbers or target values: what the loss of the model takes, as an array or nested lists."""


class Model(Configurable, ABC):
    """A function with trainable variables, built once from layers and operators.

    A subclass gives `call(x)`, which combines the input with layers and variables, and may give `trainable_variables()`,
    whose order is then that of the ids. Every random number comes from `seed`; `dtype` is float32 or float64.
    """

    def __init__(self, input_shape: Sequence[int | None] | None = None, *, seed: int = 0, dtype: str = "float32") -> None:
        self.input_shape: Shape | None = None if input_shape is None else Placeholder(input_shape).shape
        self.seed = arguments.integer(self, "seed", seed, minimum=0)
        self.dtype = as_dtype(dtype)
        self.metrics: list[Metric] = []
        self.stop_training = False
        self.epochs_trained = 0
        self.op_type: type[IOptimizer] = GDOptimizer
        self.rule: IGradientDescent | None = None
        self._loss: Loss | None = None
        self._graph: Graph | None = None
        self._store: VariableStore | None = None
        self._runner: Runner | None = None
        self._optimizer: IOptimizer | None = None
        self._history = History()

    @abstractmethod
    def call(self, x: Value) -> Value:
        """Return the output for the input `x`. Called once, to build the graph."""

    def trainable_variables(self) -> list[Variable]:
        """Return the trained variables in the order of their ids: layer by layer, as each layer made them."""
        if self._store is not None:
            return list(self._store.variables)
        if self._graph is not None:
            return [variable for variable in self._graph.variables if variable.trainable]
        raise ValueError(self._missing())

    @property
    def built(self) -> bool:
        """Whether the graph exists: from `setup` on, or from the first data if the model was given no input shape."""
        return self._store is not None

    @property
    def store(self) -> VariableStore:
        """The variables' memory; raise ValueError before they exist."""
        if self._store is None:
            raise ValueError(self._missing())
        return self._store

    @property
    def graph(self) -> Graph:
        """The graph; raise ValueError before it exists."""
        if self._graph is None:
            raise ValueError(self._missing())
        return self._graph

    @property
    def loss(self) -> Loss:
        """The loss given to `setup`; raise ValueError before."""
        if self._loss is None:
            raise ValueError(f"{type(self).__name__} has no loss yet; call setup() first")
        return self._loss

    @property
    def optimizer(self) -> IOptimizer:
        """The optimizer made from what `compile` was given; raise ValueError before."""
        if self.rule is None:
            raise ValueError(f"{type(self).__name__} is not compiled; call compile() with a rule, e.g. ADAMOptimizer")
        if self._optimizer is None:
            self._optimizer = self.op_type(self.rule, self.store)
        return self._optimizer

    def setup(self, loss: Loss, *metrics: Metric) -> None:
        """Set loss and metrics, and make the variables if the input shape is known. A second call keeps the weights."""
        self._loss = arguments.instance("setup()", "loss", loss, Loss)
        self.metrics = [arguments.instance("setup()", "metrics", metric, Metric) for metric in metrics]
        names = ["Loss", *(metric.name for metric in metrics)]
        if len(set(names)) < len(names):
            raise ValueError(f"setup() 'metrics' must have different names, got {', '.join(names)}")
        self._runner = None
        if self.input_shape is not None and not self.built:
            self._allocate(trace(self, self.input_shape))

    def compile(self, optimizer: type[IGradientDescent] | IGradientDescent | OpContainer) -> None:
        """Say how to train: a rule class, a rule, or an `OpContainer`. The model's own rule, a copy, is `model.rule`."""
        container = OpContainer(GDOptimizer, optimizer) if isinstance(optimizer, type) else optimizer
        if isinstance(container, OpContainer):
            self.adopt(container.op_type, container.rule())
        else:
            self.adopt(GDOptimizer, deepcopy(arguments.instance("compile()", "optimizer", container, IGradientDescent)))

    def adopt(self, op_type: type[IOptimizer], rule: IGradientDescent) -> None:
        """Train with this very rule, state included, by an optimizer of this type."""
        self.op_type, self.rule, self._optimizer = op_type, rule, None

    def fit(
        self,
        x: Array,
        label: Label,
        epoch: int = 4,
        batch_size: int = 64,
        validation_data: tuple[Array, Label] | None = None,
        callbacks: Sequence[Callback] = (),
        verbose: int = 1,
        *,
        shuffle: bool = True,
        seed: int | None = None,
    ) -> History:
        """Train for `epoch` epochs and return the history of all epochs so far.

        The last batch may be smaller; every sample weighs the same in the results. `seed` keys the order
        of the samples and dropout and is recorded in the history; by default it is that of the last `fit`, at first the
        model's. A model that was trained before goes on where it stopped, as if it never had.
        """
        arguments.integer("fit()", "epoch", epoch, minimum=0)
        arguments.integer("fit()", "batch_size", batch_size, minimum=1)
        if seed is None:
            seed = self.seed if self._history.seed is None else self._history.seed
        arguments.integer("fit()", "seed", seed, minimum=0)
        samples, runner = self._ready(x)
        labels = self._labels(label, samples)
        if validation_data is not None:
            self._labels(validation_data[1], check_samples(validation_data[0], self.graph.placeholder.shape))
        for callback in callbacks:
            arguments.instance("fit()", "callbacks", callback, Callback)
            callback.model = self
            steps = -(-len(samples) // batch_size)
            callback.params = {"epoch": epoch, "batch_size": batch_size, "steps": steps, "seed": seed}

        training = Training(self, runner, callbacks, seed)
        self._history.seed, self.stop_training = seed, False
        batches = Batches(samples, labels, batch_size, self.dtype)
        training.run(epoch, batches, validation_data, shuffle=shuffle, silent=not verbose)
        return self._history

    def compute_gradients(
        self, x: Array, label: Label, on_gradient: OnGradient | None = None, key: tuple[int, ...] | None = None
    ) -> tuple[float, Array]:
        """Write the gradients of one block, means over its samples, into the store; return its loss and prediction.

        `on_gradient(variable)` is called the moment the gradient of that variable is complete, last layer first. `key`
        (seed, epoch, batch, block) keys every random draw. The prediction is valid until the next run of the model.
        """
        samples, runner = self._ready(x)
        label = self._labels(label, samples)
        return runner.step(np.asarray(samples, self.dtype), label, on_gradient, key or (self.seed, 0, 0, 0))

    def evaluate(self, x: Array, label: Label, batch_size: int = 1024) -> dict[str, float]:
        """Return {'Loss': ..., <metric>: ...} over all samples, whatever the batch size."""
        arguments.integer("evaluate()", "batch_size", batch_size, minimum=1)
        samples, runner = self._ready(x)
        metrics = deepcopy(self.metrics)
        for metric in metrics:
            metric.reset()
        total = 0.0
        for rows, labels in Batches(samples, self._labels(label, samples), batch_size, self.dtype).deal():
            loss, prediction = runner.score(rows, labels)
            total += loss * len(rows)
            for metric in metrics:
                metric.update(labels, prediction)
        return {"Loss": total / len(samples), **{metric.name: metric.result() for metric in metrics}}

    def predict(self, x: Array, batch_size: int = 1024) -> Array:
        """Return the output for every sample."""
        arguments.integer("predict()", "batch_size", batch_size, minimum=1)
        samples, runner = self._ready(x)
        result = np.empty((len(samples), *self.graph.output.shape[1:]), self.dtype)
        for start in range(0, len(samples), batch_size):
            rows = np.asarray(samples[start : start + batch_size], self.dtype)
            result[start : start + batch_size] = runner.predict(rows)
        return result

    def summary(self) -> str:
        """Return a table of layers, output shapes and numbers of parameters."""
        return summarize(type(self).__name__, self.graph, self.store)

    def fit_history(self) -> History:
        """Return what happened in every epoch since the model was made, loaded or cleared."""
        return self._history

    def clear(self) -> None:
        """Go back to the untrained model: first weights drawn anew from the seed, no history, fresh rule state."""
        self.store.initialize(self.seed)
        if self.rule is not None:
            self.rule.load_state_dict({"step": 0})
        self._history, self.epochs_trained = History(), 0

    def to_bytes(self) -> bytes:
        """Return the content of a model file: structure, weights, loss, metrics, and the rule with its state."""
        return model_file.pack(self)

    @staticmethod
    def from_bytes(data: bytes | memoryview, custom_objects: Mapping[str, type[Any]] | None = None) -> Model:
        """Return the model of a file's content. Raises ModelFileError naming what is wrong with it.

        Classes that are not part of `nn` are found only among `custom_objects`, by their name.
        """
        return model_file.unpack(data, Model, custom_objects or {})

    def save(self, path: str | os.PathLike[str]) -> None:
        """Write a model file, safetensors with a JSON configuration; an older file is replaced in one step or stays."""
        tensors.write_file(path, self.to_bytes())

    @staticmethod
    def load(path: str | os.PathLike[str], custom_objects: Mapping[str, type[Any]] | None = None) -> Model:
        """Return the model of a file; `fit` continues a compiled one where it stopped. Raises as `from_bytes`."""
        return Model.from_bytes(tensors.read_file(path), custom_objects)

    def restore(self, input_shape: Shape, values: Mapping[str, Array]) -> None:
        """Build a model that is set up for this input shape, with these values of its variables, by name.

        Raises ValueError where the values do not fit the structure, before memory is allocated for it.
        """
        graph = trace(self, input_shape)
        shapes = {variable.name: variable.shape for variable in graph.variables}
        if shapes.keys() != values.keys():
            odd = sorted(shapes.keys() ^ values.keys())[0]
            raise ValueError(f"variable '{odd}' is {'missing' if odd in shapes else 'not part of the model'}")
        for name, shape in shapes.items():
            if values[name].shape != shape or values[name].dtype != self.dtype:
                raise ValueError(
                    f"variable '{name}' must be {self.dtype} of shape {shape}, "
                    f"got {values[name].dtype} of shape {values[name].shape}"
                )
        self._allocate(graph)
        for variable in self.store.everything:
            variable.set_value(values[variable.name])

    def _missing(self) -> str:
        reason = "call setup() first" if self._loss is None else "without an input_shape it is built from the first data"
        return f"{type(self).__name__} is not built yet; {reason}"

    def _ready(self, x: Array) -> tuple[Array, Runner]:
        """Check the samples; build the model from them if their shape was not known before."""
        loss = self.loss
        if not self.built:
            shape = self.input_shape or (BATCH, *np.shape(x)[1:])
            check_samples(x, shape)
            self._allocate(trace(self, shape))
        samples = check_samples(x, self.graph.placeholder.shape)
        if self._runner is None:
            self._runner = Runner(self.graph, loss, self.dtype)
        return samples, self._runner

    def _labels(self, label: Label, samples: Array) -> Array:
        shape = (len(samples), *self.graph.output.shape[1:])
        return self.loss.prepare(np.asarray(label), shape, self.dtype)

    def _allocate(self, graph: Graph) -> None:
        """Take over a graph and give every variable its memory and its first value."""
        self._graph = graph
        try:
            trained, fixed = divide(self, graph, self.trainable_variables())
            self._store = VariableStore(trained, fixed, self.dtype, self.seed)
        finally:
            if self._store is None:
                self._graph = None
        self.input_shape, self._runner = graph.placeholder.shape, None
