"""A network with a loss: it predicts, evaluates, gives gradients, and makes batches of the data for `fit` and `evaluate`."""

from __future__ import annotations

import logging
import math
from collections.abc import Iterable, Iterator, Mapping, Sequence
from copy import deepcopy
from functools import partial
from typing import Any

import numpy as np

from nn import arguments
from nn.arguments import part
from nn.arrays import BATCH, Array, DType, as_array
from nn.data import DataFeeder
from nn.extension import renamed
from nn.loss import LossName
from nn.loss.decisions import BinaryLoss, Hinge
from nn.loss.loss import Loss
from nn.metric import MetricName
from nn.metric.metric import Metric, TwoClassMetric
from nn.model.batches import (
    ArraySource,
    Batch,
    Source,
    StreamSource,
    all_finite,
    as_type,
    check_samples,
    not_finite,
    with_class_weights,
)
from nn.model.ending import check_ending
from nn.model.history import Results
from nn.model.network import Network, trace
from nn.model.runner import Runner
from nn.plan.plan import OnGradient
from nn.value.graph import Graph

ClassWeight = Mapping[int, float] | None
_LOG = logging.getLogger(__name__)


class ScoredNetwork(
    Network,
    free=("predict", "evaluate", "compute_gradients"),
    fixed=("metrics", "_loss", "_from_file", "_runner", "keyless_calls"),
    internal=("_key_or_next", "_measure_batches", "_take_samples", "_take_labels", "_take_block", "_make_batch"),
    passes={"setup": (1,), "_measure_batches": (2,), "_take_block": (4,), "_make_batch": (3, "class_weight")},
    settable=("keyless_calls",),
    unlisted=("has_loss", "keyless_calls", "runner"),
    remedies=dict.fromkeys(("loss", "metrics", "has_loss"), "call setup(loss, *metrics), or compile(optimizer, loss, metrics)"),
):
    """Part of `Model` that needs no rule."""

    metrics: tuple[Metric, ...]
    """Those given to `setup`."""

    _loss: Loss | None
    _from_file: bool
    _runner: Runner | None
    keyless_calls: int

    def __init__(self, input_shape: Sequence[int | None] | None = None, *, seed: int = 0, dtype: DType = "float32") -> None:
        super().__init__(input_shape, seed=seed, dtype=dtype)
        self.metrics = ()
        self._loss = None
        self._words: list[str] = []
        self._from_file = False
        self._runner = None
        self.keyless_calls = 0

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
        """Computation of the graph; made anew when graph or loss change."""
        if self._runner is None:
            self._runner = Runner(self.graph, self.loss, self.dtype)
        return self._runner

    def setup(self, loss: Loss | LossName, *metrics: Metric | MetricName) -> None:
        """Set loss and metrics, and make the variables if the input shape is known. A second call keeps the weights.

        Each may be given by its word, such as "mse"; "accuracy" is `BinaryAccuracy` beside a binary cross-entropy and for
        models of one output. Raises ValueError for a loss that cannot work with the last activation.
        """
        self._check_constructed()
        chosen = part("setup()", "loss", loss, Loss, "nn.loss")
        found = [_metric(metric, chosen) for metric in metrics]
        names = ["Loss", *(metric.name for metric in found)]
        if len(set(names)) < len(names):
            raise ValueError(f"setup() 'metrics' must have different names, got {', '.join(names)}")
        for metric in found:
            _check_threshold(metric, chosen)
            if isinstance(metric, TwoClassMetric):
                decisions = isinstance(chosen, Hinge)
                metric.look_at(decisions=decisions, each=decisions or isinstance(chosen, BinaryLoss))
        # Before anything is taken over: a loss that is refused leaves the model as it was.
        if self.built:
            self._check_ending(self.graph, chosen)
        self._loss = chosen
        self._keep(metrics=tuple(found))
        self._words = [metric if isinstance(metric, str) else "" for metric in metrics]
        # Plans belong to a loss; they are made anew.
        self._runner = None
        if self.built:
            self._settle_metrics(self.graph)
        elif self.input_shape is not None:
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
        (seed, epoch, batch, block) keys every random draw, such as the masks of dropout. Without one, the n-th call of this
        model takes (seed, 0, n - 1, 0): give keys if training is to be continued from a file, which holds no such count.
        The prediction is valid until the next run of the model.
        """
        batch = self._make_batch(x, label, sample_weight)
        loss, seen = self.runner.step(batch.x, batch.label, on_gradient, self._key_or_next(key), batch.weight)
        return loss, self.runner.last_prediction(seen)

    def _key_or_next(self, key: tuple[int, ...] | None) -> tuple[int, ...]:
        """Return the key, or where there is none the next of the model's own."""
        if key is not None:
            return key
        self.keyless_calls += 1
        return self.seed, 0, self.keyless_calls - 1, 0

    def evaluate(self, x: Any, label: Any = None, batch_size: int = 1024, *, sample_weight: Any = None) -> dict[str, float]:
        """Return {'Loss': ..., <metric>: ...} over all samples, the same for any batch size.

        `x` is an array, or without `label` a tuple (x, label), a `DataFeeder` or an iterable of batches, as in `fit`. Raises
        ValueError naming the first sample that is not finite.
        """
        arguments.integer("evaluate()", "batch_size", batch_size, minimum=1)
        self._check_structure()
        # Weights without labels are no pair; the source refuses them.
        data = x if label is None and sample_weight is None else (x, label, sample_weight)
        return self._measure_batches(evaluation_source(self, data, "evaluate() 'x'", batch_size).deal(0), "evaluate() 'x'")

    def _measure_batches(self, batches: Iterable[Batch], finite: str | None = None) -> Results:
        """Return {'Loss': ..., <metric>: ...} over batches that `_make_batch` gave.

        With `finite`, which names the data in messages, samples that are not finite raise ValueError.
        """
        # copies: two evaluations at once, or one within a training, must not mix their sums
        metrics, runner = deepcopy(self.metrics), self.runner
        for metric in metrics:
            metric.reset()
        total, samples = 0.0, 0
        for batch in batches:
            if finite is not None and batch.given.dtype.kind == "f" and not all_finite(batch.x):
                raise not_finite(finite, batch.x, batch.given, batch.places)
            loss, prediction = runner.score(batch.x, batch.label, batch.weight)
            # by samples and not by batches: so the last, shorter batch does not count too much
            total += loss * len(batch.x)
            samples += len(batch.x)
            for metric in metrics:
                metric.update(batch.label, prediction)
        return Results({"Loss": total / samples, **{metric.name: metric.result() for metric in metrics}})

    def predict(self, x: Array, batch_size: int = 1024) -> Array:
        """Return the output for every sample; raise ValueError naming the first one that is not finite."""
        arguments.integer("predict()", "batch_size", batch_size, minimum=1)
        samples = self._take_samples(x)
        # spares a copy: what the runner gives is an array of its own
        if len(samples) <= batch_size:
            return self._predict(samples, 0)
        result = np.empty((len(samples), *self.graph.output.shape[1:]), self.dtype)
        for start in range(0, len(samples), batch_size):
            result[start : start + batch_size] = self._predict(samples[start : start + batch_size], start)
        return result

    def _take_samples(self, x: Any) -> Array:
        """Return samples as an array; build the model from them if their shape was not known before."""
        owner = type(self).__name__
        if not self.built:
            self.loss  # noqa: B018 - raises before setup()
            # Without an input shape the samples themselves give it.
            shape = self.input_shape or (BATCH, *np.shape(x)[1:])
            check_samples(owner, x, shape)
            try:
                self._allocate(trace(self, shape))
            except ValueError as error:
                if len(shape) > 1:
                    raise
                raise ValueError(f"{error} (for samples of one number each give x[:, None])") from error
        return check_samples(owner, x, self.graph.placeholder.shape)

    def _take_labels(self, label: Any, samples: int) -> Array:
        """Return the labels of so many samples as the loss takes them; raise ValueError where they do not fit."""
        return self.loss.prepare(
            as_array(f"{type(self).__name__} 'label'", label), (samples, *self.graph.output.shape[1:]), self.dtype
        )

    def _take_block(
        self, x: Any, label: Any, weight: Any = None, class_weight: ClassWeight = None
    ) -> tuple[Array, Array, Array | None]:
        """Return samples as they are, labels as the loss takes them, and weights; raise ValueError where they do not fit."""
        samples = self._take_samples(x)
        labels = self._take_labels(label, len(samples))
        weights = None if weight is None else self.loss.check_weights(weight, len(samples), self.dtype)
        if class_weight is not None:
            weights = with_class_weights(weights, labels, self.graph.output.shape, class_weight, self.dtype)
        return samples, labels, weights

    def _make_batch(self, x: Any, label: Any, weight: Any = None, class_weight: ClassWeight = None) -> Batch:
        """Return a block as the model takes it; raise ValueError where samples, labels and weights do not fit."""
        samples, labels, weights = self._take_block(x, label, weight, class_weight)
        return Batch(as_type(samples, self.dtype), labels, weights, samples)

    def _predict(self, samples: Array, first: int) -> Array:
        x = as_type(samples, self.dtype)
        if samples.dtype.kind == "f" and not all_finite(x):
            raise not_finite("predict() 'x'", x, samples, range(first, first + len(x)))
        return self.runner.predict(x)

    def _allocate(self, graph: Graph) -> None:
        if self._loss is not None:
            self._check_ending(graph, self._loss)
        super()._allocate(graph)
        self._settle_metrics(graph)
        self._runner = None

    def _settle_metrics(self, graph: Graph) -> None:
        """Take the accuracy of two classes for the word, where the graph, now known, has one output."""
        for place, word in enumerate(self._words):
            # Only for the word: a metric object is what the caller wants.
            if word == "accuracy" and graph.output.shape[-1:] == (1,) and not isinstance(self.metrics[place], TwoClassMetric):
                accuracy = part("setup()", "metrics", "binary_accuracy", TwoClassMetric, "nn.metric")
                accuracy.look_at(decisions=isinstance(self._loss, Hinge), each=True)
                self._keep(metrics=(*self.metrics[:place], accuracy, *self.metrics[place + 1 :]))

    def _check_ending(self, graph: Graph, loss: Loss) -> None:
        """Refuse a last activation with which the loss cannot train; of a file, which works as it did, say so only."""
        try:
            check_ending(graph, loss)
        except ValueError as error:
            # It was trained so, and must go on to predict.
            if not self._from_file:
                raise
            _LOG.warning("A model file is taken as it is, although %s", error)

    key_or_next = renamed("_key_or_next")
    measure = renamed("_measure_batches")
    check = renamed("_take_samples")
    labels = renamed("_take_labels")
    checked = renamed("_take_block")
    prepare = renamed("_make_batch")

    def __getstate__(self) -> dict[str, Any]:
        """Return the state to copy: no plans, which hold memory and are made when they are needed."""
        return {**super().__getstate__(), "_runner": None}

    def _missing(self) -> str:
        if self._loss is None:
            return f"{type(self).__name__} is not built yet; call setup() first"
        return super()._missing()


def _check_threshold(metric: Metric, loss: Loss) -> None:
    """Refuse a threshold for scores where the metric gets the probabilities that the loss makes of them."""
    threshold = getattr(metric, "threshold", None)
    if isinstance(loss, BinaryLoss) and threshold is not None and not 0 < threshold < 1:
        raise ValueError(
            f"{type(metric).__name__} 'threshold' must be a probability, > 0 and < 1, as metrics beside {type(loss).__name__} "
            f"get probabilities of models that end in scores, too, got {threshold:g}; a score of 0 is a probability of 0.5"
        )


def _metric(given: object, loss: Loss) -> Metric:
    if given == "accuracy" and isinstance(loss, BinaryLoss):
        given = "binary_accuracy"
    if isinstance(given, (list, tuple)):
        raise TypeError(
            f"setup() 'metrics' must be given one by one, got {arguments.short(given)}; write setup(loss, *metrics)"
        )
    metric: Metric = part("setup()", "metrics", given, Metric, "nn.metric")
    return metric


def training_source(
    model: ScoredNetwork,
    data: tuple[Any, Any, Any],
    class_weight: ClassWeight,
    batch_size: int,
    seed: int,
    *,
    shuffle: bool,
    steps: int | None,
    epoch: int,
) -> Source:
    """Return the batches that `fit` trains on: of arrays, or of a feeder where there is no label."""
    x, label, weight = data
    if steps is not None:
        arguments.integer("fit()", "steps_per_epoch", steps, minimum=1)
    if label is not None:
        if isinstance(x, DataFeeder):
            raise ValueError("fit() with a DataFeeder as 'x' takes no 'label': the feeder deals both")
        if steps is not None:
            raise ValueError("fit() takes 'steps_per_epoch' for batches that come one by one, not for arrays")
        arrays = model._take_block(x, label, weight, class_weight)
        return ArraySource(arrays, batch_size, model.dtype, seed=seed if shuffle else None)
    if weight is not None:
        raise ValueError("fit() takes 'sample_weight' with arrays; a feeder deals batches (x, label, weight)")
    stream = StreamSource(x, partial(model._make_batch, class_weight=class_weight), "fit() 'x'", seed=seed, steps=steps)
    if not model.built:
        # A model without a shape is built from the first batch, which is dealt all the same.
        model._take_samples(stream.first(epoch)[0])
    return stream


def evaluation_source(
    model: ScoredNetwork, data: Any, name: str, batch_size: int = 1024, *, passes: int = 1, first: int = 0
) -> Source:
    """Return batches in their own order: of a tuple (x, label) or (x, label, weight), else of a feeder.

    The first batch of a feeder is checked, and that it can be read several times where `passes` asks for it. `first` is the
    number of the first sample in the caller's array.
    """
    # A pair may come as a list; a list of batches has no array in its first place.
    if isinstance(data, list) and len(data) in (2, 3) and isinstance(data[0], np.ndarray):
        data = tuple(data)
    if not isinstance(data, tuple):
        stream = StreamSource(data, model._make_batch, name)
        if passes > 1 and isinstance(data, Iterator):
            raise ValueError(
                f"{name} is an iterator, spent after one of {passes} epochs; give arrays, a list of batches or a DataFeeder"
            )
        # before the training begins: an epoch would be lost if the validation data did not fit
        stream.check(0)
        return stream
    if len(data) not in (2, 3):
        raise ValueError(f"{name} must be (x, label), (x, label, weight) or a DataFeeder, got {len(data)} of them")
    return ArraySource(model._take_block(*data), batch_size, model.dtype, first=first)


def split_validation(x: Any, label: Any, weight: Any, share: float) -> tuple[tuple[Any, Any, Any], tuple[Any, Any, Any]]:
    """Return the first samples for training and the last `share` of them, rounded up, for validation."""
    arguments.number("fit()", "validation_split", share, 0, 1)
    if label is None:
        raise ValueError("fit() takes 'validation_split' with arrays; give a feeder 'validation_data'")
    samples = np.shape(x)[0] if np.ndim(x) else 0
    given = {"x": x, "label": label, "sample_weight": weight}
    arrays = [None if array is None else as_array(f"fit() '{name}'", array) for name, array in given.items()]
    for array in arrays:
        if array is not None and array.shape[:1] != (samples,):
            raise ValueError(f"fit() 'x', 'label' and 'sample_weight' must be of one length, got {samples} and {array.shape}")
    kept = samples - math.ceil(round(samples * share, 9))  # 0.9 of 10 is 9, whatever 1 - 0.9 is
    if not 0 < kept < samples:
        raise ValueError(f"fit() 'validation_split' must leave samples on both sides, got {share} of {samples} samples")
    first, last = ([None if array is None else array[rows] for array in arrays] for rows in (slice(kept), slice(kept, None)))
    return (first[0], first[1], first[2]), (last[0], last[1], last[2])
