"""From what `fit` and `evaluate` are given to sources of batches that suit the model."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from functools import partial
from typing import TYPE_CHECKING, Any

import numpy as np

from nn import arguments
from nn.arrays import as_array
from nn.data.feeder import DataFeeder
from nn.model.batches import Batch, Batches
from nn.model.class_weights import with_class_weights
from nn.model.source import ArraySource, Source, StreamSource

if TYPE_CHECKING:
    from nn.model.scored_network import ScoredNetwork

ClassWeight = Mapping[int, float] | None


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
        return ArraySource(_batches(model, (x, label, weight), class_weight, batch_size), seed if shuffle else None)
    if weight is not None:
        raise ValueError("fit() takes 'sample_weight' with arrays; a feeder deals batches (x, label, weight)")
    prepare = partial(_prepare, model, class_weight)
    stream = StreamSource(x, prepare, "fit() 'x'", seed=seed, steps=steps)
    if not model.built:
        model.check(stream.first(epoch)[0])
    return stream


def evaluation_source(
    model: ScoredNetwork, data: Any, name: str, batch_size: int = 1024, *, passes: int = 1, first: int = 0
) -> Source:
    """Return batches in their own order: of a tuple (x, label) or (x, label, weight), else of a feeder.

    The first batch of a feeder is checked, and that it can be read several times where `passes` asks for it. `first` is the
    number of the first sample in the caller's array.
    """
    if isinstance(data, list) and len(data) in (2, 3) and isinstance(data[0], np.ndarray):
        data = tuple(data)
    if not isinstance(data, tuple):
        stream = StreamSource(data, partial(_prepare, model, None), name)
        if passes > 1 and isinstance(data, Iterator):
            raise ValueError(
                f"{name} is an iterator, spent after one of {passes} epochs; give arrays, a list of batches or a DataFeeder"
            )
        stream.check(0)
        return stream
    if len(data) not in (2, 3):
        raise ValueError(f"{name} must be (x, label), (x, label, weight) or a DataFeeder, got {len(data)} of them")
    x, label, weight = (*data, None)[:3]
    return ArraySource(_batches(model, (x, label, weight), None, batch_size, first))


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
    kept = int(samples * (1 - share))
    if not 0 < kept < samples:
        raise ValueError(f"fit() 'validation_split' must leave samples on both sides, got {share} of {samples} samples")
    first, last = ([None if array is None else array[rows] for array in arrays] for rows in (slice(kept), slice(kept, None)))
    return (first[0], first[1], first[2]), (last[0], last[1], last[2])


def _batches(model: ScoredNetwork, data: tuple[Any, Any, Any], class_weight: ClassWeight, size: int, first: int = 0) -> Batches:
    x, label, weight = data
    samples = model.check(x)
    labels = model.labels(label, len(samples))
    weights = None if weight is None else model.loss.check_weights(weight, len(samples), model.dtype)
    if class_weight is not None:
        weights = with_class_weights(weights, labels, model.graph.output.shape, class_weight, model.dtype)
    return Batches(samples, labels, weights, size, model.dtype, first=first)


def _prepare(model: ScoredNetwork, class_weight: ClassWeight, x: Any, label: Any, weight: Any) -> Batch:
    batch = model.prepare(x, label, weight)
    if class_weight is None:
        return batch
    shape = model.graph.output.shape
    return batch._replace(weight=with_class_weights(batch.weight, batch.label, shape, class_weight, model.dtype))
