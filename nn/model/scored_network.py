"""A network with a loss: it predicts, evaluates, gives gradients, and makes batches of the data for `fit` and `evaluate`."""

from __future__ import annotations

import logging
import math
from collections.abc import Iterable, Iterator, Mapping, Sequence
from copy import deepcopy
from functools import partial
from operator import itemgetter
from typing import TYPE_CHECKING, Any, TypeAlias

import numpy as np

from nn import arguments
from nn.arguments import part
from nn.arrays import BATCH, LENGTH, Array, DType, Shape, all_finite, as_array
from nn.data import DataFeeder
from nn.extension import checked_call, renamed
from nn.loss import LossName
from nn.loss.decisions import Hinge
from nn.loss.loss import Loss, position_weights
from nn.metric import MetricName
from nn.metric.metric import Metric, TwoClassMetric
from nn.model.batches import (
    ArraySource,
    Batch,
    Source,
    StreamSource,
    as_type,
    check_finite,
    check_samples,
    way_to_arrays,
    with_class_weights,
)
from nn.model.ending import check_ending
from nn.model.history import Results
from nn.model.network import Network
from nn.model.objective import Objective, flat, in_order, named, objective
from nn.model.runner import Runner
from nn.plan.plan import OnGradient
from nn.value.graph import Graph

if TYPE_CHECKING:
    from nn.dataset.transforms.buckets import Buckets, Cuts

ClassWeight = Mapping[Any, float] | str | None
Losses: TypeAlias = Loss | LossName | Sequence[Loss | LossName | None] | Mapping[str, Loss | LossName | None] | None
"""A loss or its word; for several outputs a list, or a dict by name, of losses, words and None."""
OfOutput: TypeAlias = Metric | MetricName | Sequence[Metric | MetricName] | None
"""The metrics of an output: one or its word, a list of them, or None."""
Metrics: TypeAlias = Sequence[OfOutput] | Mapping[str, OfOutput]
"""A list of metrics and words; for several outputs a list of lists, or a dict by name."""
Factors: TypeAlias = Sequence[float] | Mapping[str, float] | None
"""The factors of the losses of several outputs: a list, or a dict by name."""
_LOG = logging.getLogger(__name__)
#: Shapes of samples for which the shapes of outputs are remembered.
_MOST_SHAPES = 4096


class ScoredNetwork(
    Network,
    free=("predict", "evaluate", "compute_gradients"),
    fixed=("metrics", "_objective", "_from_file", "_runner", "keyless_calls"),
    internal=(
        "_check_sizes",
        "_cuts",
        "_key_or_next",
        "_make_batch",
        "_measure_batches",
        "_take_block",
        "_take_labels",
        "_take_samples",
    ),
    passes={"setup": (1,), "_measure_batches": (2,), "_take_block": (4,), "_make_batch": (3, "class_weight")},
    settable=("keyless_calls",),
    unlisted=("has_loss", "keyless_calls", "result_names", "runner"),
    remedies=dict.fromkeys(("loss", "metrics", "has_loss"), "call setup(loss, *metrics), or compile(optimizer, loss, metrics)"),
):
    """Part of `Model` that needs no rule."""

    metrics: tuple[Metric, ...]
    """Those given to `setup`; of several outputs one after the other."""

    _objective: Objective | None
    _from_file: bool
    _runner: Runner | None
    keyless_calls: int

    def __init__(self, input_shape: Sequence[int | None] | None = None, *, seed: int = 0, dtype: DType = "float32") -> None:
        super().__init__(input_shape, seed=seed, dtype=dtype)
        self.metrics = ()
        self._objective = None
        self._from_file = False
        self._runner = None
        self.keyless_calls = 0
        self._shapes_of: dict[tuple[Shape, ...], list[Shape]] = {}
        self._like: tuple[Runner, Shape] | None = None

    @property
    def loss(self) -> Loss | tuple[Loss | None, ...]:
        """The loss given to `setup`, for several outputs one or None for each; raise ValueError before."""
        found = self._aim
        if len(self._output_names) == 1:
            return found.losses[0] if found.losses else ()
        own = dict(zip(found.places, found.losses, strict=True))
        return tuple([own.get(place) for place in range(len(self._output_names))])

    @property
    def has_loss(self) -> bool:
        """Whether `setup` was called."""
        return self._objective is not None

    @property
    def _aim(self) -> Objective:
        """The losses and metrics; raise ValueError before `setup`."""
        if self._objective is None:
            raise ValueError(f"{type(self).__name__} has no loss yet; call compile() or setup() first")
        return self._objective

    @property
    def result_names(self) -> tuple[str, ...]:
        """The names of the results of `evaluate`, in their order; raise ValueError before `setup`."""
        return self._aim.names

    @property
    def _scored_names(self) -> Sequence[str]:
        """The names of the outputs that have a loss."""
        names = self._output_names
        return [names[place] for place in self._aim.places]

    @property
    def runner(self) -> Runner:
        """Computation of the graph; made anew when graph or loss change."""
        if self._runner is None or self._outdated:
            moves = self.store.moves  # first, since the store may be made anew
            self._runner, self._moves = Runner(self.graph, self._objective, self.dtype), moves
        return self._runner

    @property
    def _outdated(self) -> bool:
        """Whether the variables have moved to other memory since the computation was made."""
        return self._store is not None and self._moves != self._store.moves

    @checked_call
    def setup(self, loss: Losses, *metrics: OfOutput | Mapping[str, OfOutput], loss_weights: Factors = None) -> None:
        """Set loss and metrics, and make the variables if the input shape is known. A second call keeps the weights.

        Layers that were frozen or thawed since the last call are so from here on; the rule of `compile` keeps its state for all
        variables that go on being trained, and has none of those that are thawed.

        Each may be given by its word, such as "mse"; "accuracy" is `BinaryAccuracy` beside a binary cross-entropy and for
        models of one number as output.

        Args:
            loss: a loss; of a model of several outputs a list or, by their names, a dict, where None stands for no loss.
            metrics: metrics of the output, of several of each; or a dict of lists of them, by the names of the outputs.
            loss_weights: the factors of the losses in their sum, a list or a dict by name; None: all 1.

        Raises:
            ValueError: for a loss that cannot work with the last activation, for names that are no outputs.
        """
        self._check_constructed()
        self._refuse_in_training("setup()")
        found = objective(loss, flat(metrics), loss_weights, self._output_names)
        self._check_objective(found)
        if self.built:
            self._check_endings(self.graph, found)
        # Behind all checks: a call that is refused leaves the model as it was.
        self._objective = found
        self._keep(metrics=found.metrics)
        self._runner = self._like = None
        if self.built:
            self._settle_metrics(self.graph)
            self._settle_trained()
        else:
            self._build_if_known()

    @property
    def _adds_losses(self) -> bool:
        """Whether values of the graph are part of the loss by themselves."""
        return False

    def _check_objective(self, found: Objective) -> None:
        """Raise ValueError where nothing is left to be trained on."""
        if not found.losses and not self._adds_losses:
            raise ValueError("setup() 'loss' must be a loss, or its word, for at least one output, got None")

    def compute_gradients(
        self,
        x: Array,
        label: Any,
        on_gradient: OnGradient | None = None,
        key: tuple[int, ...] | None = None,
        sample_weight: Any = None,
    ) -> tuple[float, Any]:
        """Write the gradients of one block, means over its samples, into the store; return its loss and prediction.

        `on_gradient(variable)` is called the moment the gradient of that variable is complete, last layer first. `key`
        (seed, epoch, batch, block) keys every random draw, such as the masks of dropout. Without one, the n-th call of this
        model takes (seed, 0, n - 1, 0): give keys if training is to be continued from a file, which holds no such count.
        The prediction is valid until the next run of the model; of a model of several outputs it is a tuple of those that have
        a loss.
        """
        batch = self._make_batch(x, label, sample_weight)
        loss, seen = self.runner.step(batch.x, batch.label, on_gradient, self._key_or_next(key), batch.weight)
        own = self.runner.last_prediction(seen)
        return loss, own if len(self._output_names) > 1 or not own else own[0]

    def _key_or_next(self, key: tuple[int, ...] | None) -> tuple[int, ...]:
        """Return the key, or where there is none the next of the model's own."""
        if key is not None:
            return key
        self.keyless_calls += 1
        return self.seed, 0, self.keyless_calls - 1, 0

    def evaluate(
        self,
        x: Any,
        label: Any = None,
        batch_size: int = 1024,
        *,
        sample_weight: Any = None,
        buckets: Buckets | Sequence[int] | None = None,
    ) -> dict[str, float]:
        """Return {'Loss': ..., <metric>: ...} over all samples, the same for any batch size.

        `x` is an array, or without `label` a tuple (x, label), a `DataFeeder` or an iterable of batches, as in `fit`, which
        has `buckets`, too. Raises ValueError naming the first sample that is not finite.
        """
        arguments.integer("evaluate()", "batch_size", batch_size, minimum=1)
        self._check_structure()
        # Weights without labels are no pair; the source refuses them.
        data = x if label is None and sample_weight is None else (x, label, sample_weight)
        source = evaluation_source(self, data, "evaluate() 'x'", batch_size)
        if buckets is not None:
            if not isinstance(source, ArraySource):
                raise ValueError("evaluate() takes 'buckets' with arrays; a feeder deals batches of any lengths")
            source.cuts, source.by_length = self._cuts(buckets, source.inputs, "evaluate()"), True
        return self._measure_batches(source.deal(0), "evaluate() 'x'")

    def _measure_batches(self, batches: Iterable[Batch], finite: str | None = None) -> Results:
        """Return {'Loss': ..., <metric>: ...} over batches that `_make_batch` gave.

        With `finite`, which names the data in messages, samples that are not finite raise ValueError.
        """
        # copies: two evaluations at once, or one within a training, must not mix their sums; losses add nothing up
        aim, runner = self._aim._replace(metrics=deepcopy(self.metrics)), self.runner
        for metric in aim.metrics:
            metric.reset()
        total, samples = 0.0, 0
        parts, counts = np.zeros((2, len(aim.losses)))
        for batch in batches:
            if finite is not None:
                check_finite(finite, batch, self._input_names)
            loss, prediction = runner.score(batch.x, batch.label, batch.weight)
            # by samples and not by batches: so the last, shorter batch does not count too much
            count = len(batch.x[0])
            samples += count
            weighed = np.full(len(aim.losses), float(count))
            if runner.masked:
                # What is left out counts in no batch, so that it does not matter how positions fall into batches.
                weighed[:] = runner.counts
                loss -= float(np.dot(aim.factors, runner.losses))
            total += loss * count
            parts += np.multiply(runner.losses, weighed)
            counts += weighed
            for place, metric in zip(aim.seen, aim.metrics, strict=True):
                label, seen = batch.label[place], prediction[place]
                weight = None if batch.weight is None else batch.weight[place]
                if runner.masked:
                    label, seen, weight = *runner.counted(place, label, seen), runner.counted_weight(place, weight)
                metric._weigh(label, seen, weight)
        # An output of which nothing counts has no loss, in place of 0 / 0.
        parts /= np.maximum(counts, 1)
        total /= samples
        return Results(aim.results(total + float(np.dot(aim.factors, parts)) if runner.masked else total, parts.tolist()))

    def predict(self, x: Any, batch_size: int = 1024, *, buckets: Buckets | Sequence[int] | None = None) -> Any:
        """Return the output for every sample, of several outputs a list; raise ValueError for one that is not finite.

        With `buckets`, as in `fit`, for models with one result for each sample, sequences of like lengths are computed
        together, without the padding that all of them have.
        """
        arguments.integer("predict()", "batch_size", batch_size, minimum=1)
        samples = self._take_samples(x)
        count = len(samples[0])
        self._check_sizes("predict()", count, batch_size)
        # spares a copy: what the runner gives are arrays of their own
        if buckets is None and count <= batch_size:
            shown = self._shown(self._predict(samples, range(count)))
            if samples[0] is x and x.dtype == self.dtype and len(samples) == 1:
                self._like = self.runner, x.shape
            return shown
        cuts = None if buckets is None else self._cuts(buckets, samples, "predict()")
        if cuts is not None:
            _refuse_steps(self._output_names, self.graph)
        spans = (range(start, min(start + batch_size, count)) for start in range(0, count, batch_size))
        results: list[Array] = []
        for places in spans if cuts is None else cuts.alike(batch_size):
            rows = slice(places.start, places.stop) if isinstance(places, range) else places
            parts_in = [each[rows] for each in samples]
            parts = self._predict(tuple(parts_in if cuts is None else cuts.samples(rows, parts_in)), places)
            # By what came first: the lengths of outputs may be those of the samples.
            results = results or [np.empty((count, *part.shape[1:]), self.dtype) for part in parts]
            for result, found in zip(results, parts, strict=True):
                result[rows] = found
        return self._shown(results)

    def _predict_again(self, x: Any, batch_size: int) -> Any:
        """Return the outputs for samples of shape and type of those of the last call, in the time that they take: what was
        checked then holds for these, too. None for all others.

        Args:
            x: samples of a model with one input, as it computes with them.
            batch_size: how many are computed at a time.
        """
        like = self._like
        if like is None or type(x) is not np.ndarray or x.shape != like[1] or x.dtype != self.dtype:
            return None
        # The numbers themselves are looked at each time; the long way names the one that is not finite.
        if like[0] is not self.runner or type(batch_size) is not int or len(x) > batch_size or not all_finite(x):
            return None
        return self._shown(like[0].predict((x,)))

    def _cuts(self, buckets: Buckets | Sequence[int], samples: Sequence[Array], changes_order: str = "") -> Cuts:
        """Return the cuts of padded sequences for lengths, or a transform that has them.

        Args:
            buckets: the lengths, or the transform.
            samples: the sequences of each input.
            changes_order: name of a call that computes them in another order than they have, for errors.
        """
        from nn.dataset.transforms.buckets import Buckets, Cuts  # noqa: PLC0415 - for sequences that are dealt by length

        limits = buckets if isinstance(buckets, Buckets) else Buckets(buckets)
        graph = self.graph
        if changes_order and graph.carried:
            raise ValueError(
                f"{changes_order} takes 'buckets' for samples in any order, and {graph.carried[0].kept.owner.describe()} has "
                "stateful=True"
            )
        outputs = [graph.outputs[place].shape for place in (() if self._objective is None else self._objective.places)]
        return Cuts(limits.lengths, samples, [entry.shape for entry in graph.inputs], outputs)

    def _check_sizes(self, owner: str, count: int, batch_size: int) -> None:
        """Refuse samples that leave a shorter last batch, where layers carry states from batch to batch."""
        if self.graph.carried and count > batch_size and count % batch_size:
            raise ValueError(
                f"{owner} needs batches of one size, as {self.graph.carried[0].kept.owner.describe()} has stateful=True, but "
                f"{count} samples in batches of {batch_size} leave one of {count % batch_size}; choose a 'batch_size' that "
                "divides the number of samples"
            )

    def _take_samples(self, x: Any) -> tuple[Array, ...]:
        """Return samples as arrays, one for each input; build the model from them if their shape was not known before."""
        owner = type(self).__name__
        if not self.built and self._graph is not None:
            self._allocate(self._graph)  # it stands in another model, and shares its variables
        if not self.built:
            self._aim  # noqa: B018 - raises before setup()
            shape = self.input_shape or (BATCH, *np.shape(x)[1:])
            check_samples(owner, x, shape)
            try:
                self._allocate(self._trace(shape))
            except ValueError as error:
                if len(shape) > 1:
                    raise
                raise ValueError(f"{error} (for samples of one number each give x[:, None])") from error
        names, entries = self._input_names, self.graph.inputs
        given = in_order(f"{owner} 'x'", x, names)
        if len(names) == 1:
            return (check_samples(owner, given[0], entries[0].shape),)
        arrays = zip(names, given, entries, strict=True)
        samples = tuple([check_samples(f"{owner} input '{name}'", each, entry.shape) for name, each, entry in arrays])
        for name, each in zip(names, samples, strict=True):
            if len(each) != len(samples[0]):
                raise ValueError(
                    f"{owner} 'x' must have as many samples for each input, got {len(samples[0])} for '{names[0]}' and "
                    f"{len(each)} for '{name}'"
                )
        return samples

    def _shape_of(self, place: int, samples: tuple[Array, ...] | int) -> Shape:
        """Return the shape of an output for these samples, or for so many of them."""
        graph = self.graph
        if isinstance(samples, int) or not graph.has_lengths:
            return (samples if isinstance(samples, int) else len(samples[0]), *graph.outputs[place].shape[1:])
        given = tuple([each.shape for each in samples])
        if given not in self._shapes_of:
            if len(self._shapes_of) >= _MOST_SHAPES:
                self._shapes_of.clear()
            shapes = graph.shapes(given)
            self._shapes_of[given] = [shapes[output] for output in graph.outputs]
        return self._shapes_of[given][place]

    def _take_labels(self, label: Any, samples: tuple[Array, ...] | int) -> tuple[Array, ...]:
        """Return the labels of these samples, or of so many, as losses take them; raise ValueError where they do not fit."""
        owner, aim = type(self).__name__, self._aim
        found = []
        graph = self.graph
        lengths = graph.has_lengths and not isinstance(samples, int)
        count = samples if isinstance(samples, int) else len(samples[0])
        for place, loss, name, given in zip(
            aim.places, aim.losses, self._scored_names, self._labels_in_order(label), strict=True
        ):
            several = len(self._output_names) > 1
            if given is None:
                raise ValueError(f"{owner} needs the labels of its samples{f' for {name!r}' if several else ''}, got None")
            array = as_array(f"{owner} label of '{name}'" if several else f"{owner} 'label'", given)
            try:
                shape = self._shape_of(place, samples) if lengths else (count, *graph.outputs[place].shape[1:])
                prepared = loss.prepare(array, shape, self.dtype)
                if not isinstance(prepared, np.ndarray):
                    raise TypeError(
                        f"{type(loss).__name__}.prepare() must return the labels as an array, got {type(prepared).__name__}"
                    )
                found.append(prepared)
            except ValueError as error:
                if several:
                    raise ValueError(f"output '{name}': {error}") from error
                raise
        return tuple(found)

    def _labels_in_order(self, label: Any) -> tuple[Any, ...]:
        """Return the labels of the outputs that have a loss; those of the others are left out where they are given."""
        names, scored = self._output_names, self._scored_names
        if not scored:
            return ()
        if len(names) == 1:
            return in_order("'label'", label, names)
        known = label.dtype.names if isinstance(label, np.ndarray) else label if isinstance(label, Mapping) else None
        if known is not None:
            label = {name: label[name] for name in known if name in scored or name not in names}
        elif isinstance(label, (list, tuple)) and len(label) == len(names) and _holds_parts(label):
            label = [label[place] for place in self._aim.places]
        elif len(scored) == 1 and not isinstance(label, (list, tuple)):
            label = [label]
        return in_order(f"{type(self).__name__} 'label'", label, scored) if len(scored) > 1 else _only(label, scored[0])

    def _take_block(
        self, x: Any, label: Any, weight: Any = None, class_weight: ClassWeight = None
    ) -> tuple[tuple[Array, ...], tuple[Array, ...], tuple[Array | None, ...] | None]:
        """Return samples as they are, labels as the loss takes them, and weights; raise ValueError where they do not fit."""
        samples = self._take_samples(x)
        labels = self._take_labels(label, samples)
        weights = None if weight is None else self._take_weights(weight, samples)
        if class_weight is not None:
            weights = self._with_class_weights(weights, labels, class_weight)
        return samples, labels, weights

    def _with_class_weights(
        self, weights: tuple[Array | None, ...] | None, labels: tuple[Array, ...], class_weight: ClassWeight
    ) -> tuple[Array | None, ...]:
        """Return the weights of the samples for each loss times those of their classes: of several outputs a dict by name."""
        names, own = self._scored_names, [class_weight]
        if len(self._output_names) > 1:
            if not isinstance(class_weight, Mapping) or not all(isinstance(name, str) for name in class_weight):
                raise ValueError(
                    f"'class_weight' must map outputs, {', '.join(names)}, to the weights of their classes, "
                    f"got {arguments.short(class_weight)}"
                )
            missing = {name: None for name in names if name not in class_weight}
            own = list(in_order("'class_weight'", {**missing, **class_weight}, names))
        found = []
        for each, label, place, given in zip(weights or (None,) * len(labels), labels, self._aim.places, own, strict=True):
            shape = self.graph.outputs[place].shape
            found.append(each if given is None else with_class_weights(each, label, shape, given, self.dtype))
        return tuple(found)

    def _take_weights(self, weight: Any, samples: tuple[Array, ...]) -> tuple[Array | None, ...]:
        """Return the weights of the samples for each loss: of several outputs one array for all, or a list or dict of them.

        Weights of positions have the shape of an output without its last axis, or of its first axes.
        """
        aim = self._aim
        parted = isinstance(weight, (list, tuple)) and any(each is None or np.ndim(each) for each in weight)
        if isinstance(weight, Mapping):
            names = self._scored_names
            weight = in_order("'sample_weight'", {**{name: None for name in names if name not in weight}, **weight}, names)
        elif parted and len(self._output_names) > 1:
            weight = in_order("'sample_weight'", weight, self._scored_names)
        else:
            weight = (weight,) * len(aim.losses)
        weight = tuple([None if each is None else as_array("'sample_weight'", each) for each in weight])
        return tuple(
            [
                None
                if each is None
                else position_weights(loss, each, self._shape_of(place, samples), self.dtype)
                if np.ndim(each) > 1
                else loss.check_weights(each, len(samples[0]), self.dtype)
                for place, loss, each in zip(aim.places, aim.losses, weight, strict=True)
            ]
        )

    def _make_batch(self, x: Any, label: Any, weight: Any = None, class_weight: ClassWeight = None) -> Batch:
        """Return a block as the model takes it; raise ValueError where samples, labels and weights do not fit."""
        samples, labels, weights = self._take_block(x, label, weight, class_weight)
        return Batch(tuple([as_type(each, self.dtype) for each in samples]), labels, weights, samples)

    def _predict(self, samples: tuple[Array, ...], places: Sequence[int] | Array) -> tuple[Array, ...]:
        x = tuple([as_type(each, self.dtype) for each in samples])
        check_finite("predict() 'x'", Batch(x, (), None, samples, places), self._input_names)
        return self.runner.predict(x)

    def _allocate(self, graph: Graph) -> None:
        if self._objective is not None:
            self._check_endings(graph, self._objective)
        super()._allocate(graph)
        self._settle_metrics(graph)
        self._runner = self._like = None

    def _settle_metrics(self, graph: Graph) -> None:
        """Take the accuracy of two classes for the word, where the graph, now known, has one number as output."""
        aim = self._objective
        if aim is None:
            return
        metrics = list(aim.metrics)
        for number, (word, place) in enumerate(zip(aim.words, aim.seen, strict=True)):
            output, loss = aim.places[place], aim.losses[place]
            if word == "accuracy" and graph.outputs[output].shape[-1:] == (1,):
                if isinstance(metrics[number], TwoClassMetric):
                    continue
                accuracy = part("setup()", "metrics", "binary_accuracy", TwoClassMetric, "nn.metric")
                accuracy.look_at(decisions=isinstance(loss, Hinge), each=True)
                several = len(self._output_names) > 1
                metrics[number] = named(accuracy, self._output_names[output]) if several else accuracy
        if tuple(metrics) != aim.metrics:
            names = (*aim.names[: len(aim.names) - len(metrics)], *(metric.name for metric in metrics))
            self._objective = aim._replace(metrics=tuple(metrics), names=names)
            self._keep(metrics=tuple(metrics))

    def _check_endings(self, graph: Graph, found: Objective) -> None:
        """Refuse a last activation with which its loss cannot train; of a file, which works as it did, say so only."""
        for place, loss in zip(found.places, found.losses, strict=True):
            try:
                check_ending(graph.outputs[place], loss)
            except ValueError as error:
                where = f"output '{self._output_names[place]}': " if len(self._output_names) > 1 else ""
                if not self._from_file and where:
                    raise ValueError(f"{where}{error}") from error
                if not self._from_file:
                    raise
                _LOG.warning("A model file is taken as it is, although %s%s", where, error)

    if not TYPE_CHECKING:  # editors offer no former names
        key_or_next = renamed("_key_or_next")
        measure = renamed("_measure_batches")
        # they gave the one array of a model, not a tuple of those of each input or output
        check = renamed("_take_samples", as_before=itemgetter(0))
        labels = renamed("_take_labels", as_before=itemgetter(0))
        checked = renamed("_take_block", as_before=lambda found: tuple([None if each is None else each[0] for each in found]))
        prepare = renamed("_make_batch")

    def __getstate__(self) -> dict[str, Any]:
        """Return the state to copy: no plans, which hold memory and are made when they are needed."""
        return {**super().__getstate__(), "_runner": None, "_like": None}

    def _missing(self) -> str:
        if self._objective is None:
            return f"{type(self).__name__} is not built yet; call compile() or setup() first"
        return super()._missing()


def _refuse_steps(names: Sequence[str], graph: Graph) -> None:
    """Refuse outputs with a result for each step, where steps are left out."""
    # Behind the outputs of the model stand losses that it has by itself.
    for name, output in zip(names, graph.outputs, strict=False):
        if LENGTH in output.shape:
            raise ValueError(
                f"predict() takes 'buckets' for outputs with one result for each sample, got '{name}' of shape {output.shape}: "
                "steps that are left out have none"
            )


def _only(label: Any, name: str) -> tuple[Any, ...]:
    if isinstance(label, Mapping):
        return in_order("'label'", label, (name,))
    return tuple(label) if len(label) == 1 and _holds_parts(label) else (label,)


def _holds_parts(given: Sequence[Any]) -> bool:
    """Return whether a list holds labels of outputs, and not the numbers of one."""
    return any(each is None or isinstance(each, (list, tuple)) or np.ndim(each) for each in given)


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
        model._check_sizes("fit()", len(arrays[0][0]), batch_size)
        if model.graph.carried and shuffle:
            raise ValueError(
                f"fit() needs shuffle=False, as {model.graph.carried[0].kept.owner.describe()} has stateful=True: sample i of "
                "a batch goes on where sample i of the batch before has ended"
            )
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
    arrays = model._take_block(*data)
    model._check_sizes(name.split()[0], len(arrays[0][0]), batch_size)
    return ArraySource(arrays, batch_size, model.dtype, first=first)


def split_validation(x: Any, label: Any, weight: Any, share: float) -> tuple[tuple[Any, Any, Any], tuple[Any, Any, Any]]:
    """Return the first samples for training and the last `share` of them, rounded up, for validation.

    Samples, labels and weights of several inputs and outputs are lists, or dicts by name, of arrays.
    """
    arguments.number("fit()", "validation_split", share, 0, 1)
    if label is None:
        if remedy := way_to_arrays(x):
            raise TypeError(f"fit() 'x' must be an array with a label, got {type(x).__name__}{remedy}")
        raise ValueError("fit() takes 'validation_split' with arrays; give a feeder 'validation_data'")
    first = _leaves(x)[0] if isinstance(x, (Mapping, list, tuple)) and _leaves(x) else x
    first = as_array("fit() 'x'", first)
    samples = len(first) if first.ndim else 0
    kept = samples - math.ceil(round(samples * share, 9))  # 0.9 of 10 is 9, whatever 1 - 0.9 is
    given = {"x": x, "label": label, "sample_weight": weight}
    for name, parts in given.items():
        for array in (as_array(f"fit() '{name}'", each) for each in _leaves(parts)):
            if array.shape[:1] != (samples,):
                raise ValueError(
                    f"fit() 'x', 'label' and 'sample_weight' must be of one length, got {samples} and {array.shape}"
                )
    if not 0 < kept < samples:
        raise ValueError(f"fit() 'validation_split' must leave samples on both sides, got {share} of {samples} samples")
    before, behind = (tuple([_rows(each, rows) for each in given.values()]) for rows in (slice(kept), slice(kept, None)))
    return (before[0], before[1], before[2]), (behind[0], behind[1], behind[2])


def _parted(given: Any) -> bool:
    """Return whether an argument is a list or tuple of arrays, and not of numbers."""
    return isinstance(given, (list, tuple)) and any(isinstance(each, np.ndarray) and each.ndim for each in given)


def _leaves(given: Any) -> list[Any]:
    if given is None or (isinstance(given, tuple) and not given):
        return []
    if isinstance(given, Mapping):
        return [each for each in given.values() if each is not None]
    return [each for each in given if each is not None] if _parted(given) else [given]


def _rows(given: Any, rows: slice) -> Any:
    """Return rows of an array, or of each array in a list or dict."""
    if given is None or (isinstance(given, tuple) and not given):
        return given
    if isinstance(given, Mapping):
        return {name: _rows(each, rows) for name, each in given.items()}
    if _parted(given):
        return [_rows(each, rows) for each in given]
    # a frame stays one, so that errors name its columns
    return given.iloc[rows] if hasattr(given, "iloc") else as_array("fit() 'x'", given)[rows]
