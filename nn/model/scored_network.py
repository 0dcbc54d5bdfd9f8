"""A network with a loss: it predicts, evaluates, and gives gradients."""

from __future__ import annotations

from abc import ABC
from collections.abc import Iterable, Sequence
from copy import deepcopy
from typing import Any

import numpy as np

from nn import arguments
from nn.arrays import BATCH, Array
from nn.graph import Graph
from nn.loss import Loss
from nn.metric import Metric
from nn.model.batches import Batch, check_samples
from nn.model.fit_data import evaluation_source
from nn.model.network import Network
from nn.model.runner import Runner
from nn.model.structure import trace
from nn.plan import OnGradient


class ScoredNetwork(Network, ABC):
    """What `Model` can do without a rule."""

    def __init__(self, input_shape: Sequence[int | None] | None = None, *, seed: int = 0, dtype: str = "float32") -> None:
        super().__init__(input_shape, seed=seed, dtype=dtype)
        self.metrics: list[Metric] = []
        self._loss: Loss | None = None
        self._runner: Runner | None = None

    @property
    def loss(self) -> Loss:
        """The loss given to `setup`; raise ValueError before."""
        if self._loss is None:
            raise ValueError(f"{type(self).__name__} has no loss yet; call setup() first")
        return self._loss

    @property
    def has_loss(self) -> bool:
        """Whether `setup` was called."""
        return self._loss is not None

    @property
    def runner(self) -> Runner:
        """What computes the graph; made anew when graph or loss change."""
        if self._runner is None:
            self._runner = Runner(self.graph, self.loss, self.dtype)
        return self._runner

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

    def compute_gradients(
        self,
        x: Array,
        label: Any,
        on_gradient: OnGradient | None = None,
        key: tuple[int, ...] | None = None,
        sample_weight: Any = None,
    ) -> tuple[float, Array]:
        """Write the gradients of one block, means over its samples, into the store; return its loss and prediction.

        `on_gradient(variable)` is called the moment the gradient of that variable is complete, last layer first. `key`
        (seed, epoch, batch, block) keys every random draw. The prediction is valid until the next run of the model.
        """
        batch = self.prepare(x, label, sample_weight)
        return self.runner.step(batch.x, batch.label, on_gradient, key or (self.seed, 0, 0, 0), batch.weight)

    def evaluate(self, x: Any, label: Any = None, batch_size: int = 1024, *, sample_weight: Any = None) -> dict[str, float]:
        """Return {'Loss': ..., <metric>: ...} over all samples, whatever the batch size.

        `x` is an array, or without `label` a `DataFeeder` or an iterable of batches, as in `fit`.
        """
        arguments.integer("evaluate()", "batch_size", batch_size, minimum=1)
        feeds = label is None and sample_weight is None and not isinstance(x, tuple)
        return self.measure(
            evaluation_source(self, x if feeds else (x, label, sample_weight), "evaluate() 'x'", batch_size).deal(0)
        )

    def measure(self, batches: Iterable[Batch]) -> dict[str, float]:
        """Return {'Loss': ..., <metric>: ...} over batches that `prepare` gave."""
        metrics, runner = deepcopy(self.metrics), self.runner
        for metric in metrics:
            metric.reset()
        total, samples = 0.0, 0
        for batch in batches:
            loss, prediction = runner.score(batch.x, batch.label, batch.weight)
            total += loss * len(batch.x)
            samples += len(batch.x)
            for metric in metrics:
                metric.update(batch.label, prediction)
        return {"Loss": total / samples, **{metric.name: metric.result() for metric in metrics}}

    def predict(self, x: Array, batch_size: int = 1024) -> Array:
        """Return the output for every sample."""
        arguments.integer("predict()", "batch_size", batch_size, minimum=1)
        samples = self.check(x)
        if len(samples) <= batch_size:
            return self._predict(np.asarray(samples, self.dtype))
        result = np.empty((len(samples), *self.graph.output.shape[1:]), self.dtype)
        for start in range(0, len(samples), batch_size):
            rows = np.asarray(samples[start : start + batch_size], self.dtype)
            result[start : start + batch_size] = self._predict(rows)
        return result

    def check(self, x: Any) -> Array:
        """Return samples as an array; build the model from them if their shape was not known before."""
        if not self.built:
            self.loss  # noqa: B018 - raises before setup()
            shape = self.input_shape or (BATCH, *np.shape(x)[1:])
            check_samples(x, shape)
            self._allocate(trace(self, shape))
        return check_samples(x, self.graph.placeholder.shape)

    def labels(self, label: Any, samples: int) -> Array:
        """Return the labels of so many samples as the loss takes them; raise ValueError where they do not fit."""
        return self.loss.prepare(np.asarray(label), (samples, *self.graph.output.shape[1:]), self.dtype)

    def prepare(self, x: Any, label: Any, weight: Any = None) -> Batch:
        """Return a block as the model takes it; raise ValueError where samples, labels and weights do not fit."""
        samples = self.check(x)
        labels = self.labels(label, len(samples))
        weights = None if weight is None else self.loss.check_weights(weight, len(samples), self.dtype)
        return Batch(np.asarray(samples, self.dtype), labels, weights)

    def _predict(self, x: Array) -> Array:
        return self.runner.predict(x)

    def _allocate(self, graph: Graph) -> None:
        super()._allocate(graph)
        self._runner = None

    def _missing(self) -> str:
        if self._loss is None:
            return f"{type(self).__name__} is not built yet; call setup() first"
        return super()._missing()
