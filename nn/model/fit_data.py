"""From what `fit` and `evaluate` are given to sources of batches that suit the model."""

from __future__ import annotations

from collections.abc import Mapping
from functools import partial
from typing import TYPE_CHECKING, Any

import numpy as np

from nn import arguments
from nn.data.feeder import DataFeeder
from nn.model.batches import Batch, Batches
from nn.model.sample_weights import combine_weights
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
        return ArraySource(_batches(model, x, label, weight, class_weight, batch_size), seed if shuffle else None)
    if weight is not None:
        raise ValueError("fit() takes 'sample_weight' with arrays; a feeder deals batches (x, label, weight)")
    prepare = partial(_prepare, model, class_weight)
    stream = StreamSource(x, prepare, "fit() 'x'", seed=seed, steps=steps)
    if not model.built:
        model.check(stream.first(epoch))
    return stream


def evaluation_source(model: ScoredNetwork, data: Any, name: str, batch_size: int = 1024) -> Source:
    """Return batches in their own order: of a tuple (x, label) or (x, label, weight), else of a feeder."""
    if isinstance(data, list) and len(data) in (2, 3) and isinstance(data[0], np.ndarray):
        data = tuple(data)
    if not isinstance(data, tuple):
        stream = StreamSource(data, partial(_prepare, model, None), name)
        if not model.built:
            model.check(stream.first(0))
        return stream
    if len(data) not in (2, 3):
        raise ValueError(f"{name} must be (x, label), (x, label, weight) or a DataFeeder, got {len(data)} of them")
    x, label, weight = (*data, None)[:3]
    return ArraySource(_batches(model, x, label, weight, None, batch_size))


def split_validation(x: Any, label: Any, weight: Any, share: float) -> tuple[tuple[Any, Any, Any], tuple[Any, Any, Any]]:
    """Return the first samples for training and the last `share` of them, rounded up, for validation."""
    arguments.number("fit()", "validation_split", share, 0, 1)
    if label is None:
        raise ValueError("fit() takes 'validation_split' with arrays; give a feeder 'validation_data'")
    samples = np.shape(x)[0] if np.ndim(x) else 0
    arrays = [None if array is None else np.asarray(array) for array in (x, label, weight)]
    for array in arrays:
        if array is not None and array.shape[:1] != (samples,):
            raise ValueError(f"fit() 'x', 'label' and 'sample_weight' must be of one length, got {samples} and {array.shape}")
    kept = int(samples * (1 - share))
    if not 0 < kept < samples:
        raise ValueError(f"fit() 'validation_split' must leave samples on both sides, got {share} of {samples} samples")
    first, last = ([None if array is None else array[rows] for array in arrays] for rows in (slice(kept), slice(kept, None)))
    return (first[0], first[1], first[2]), (last[0], last[1], last[2])


def _batches(model: ScoredNetwork, x: Any, label: Any, weight: Any, class_weight: ClassWeight, size: int) -> Batches:
    samples = model.check(x)
    labels = model.labels(label, len(samples))
    return Batches(samples, labels, combine_weights(model.loss, labels, weight, class_weight, model.dtype), size, model.dtype)


def _prepare(model: ScoredNetwork, class_weight: ClassWeight, x: Any, label: Any, weight: Any) -> Batch:
    batch = model.prepare(x, label, weight)
    if class_weight is None:
        return batch
    return batch._replace(weight=combine_weights(model.loss, batch.label, batch.weight, class_weight, model.dtype))
