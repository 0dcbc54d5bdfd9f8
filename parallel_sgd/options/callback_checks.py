"""Check that the callbacks of a job can do their work on its workers; loaded only for a job with callbacks."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from pathlib import Path

from nn.callback import Callback
from nn.callback.learning_rate import LearningRateScheduler, ReduceOnPlateau, settable
from nn.callback.monitor import ModelCheckpoint, Monitor
from nn.gradient_descent.interface import IGradientDescent
from nn.model import Model
from nn.model.history import VALIDATION
from rpc import shipping
from rpc.support.files import is_safe_name

from ..codec.interfaces import Codec
from .job_options import PlainOptions

_BATCHES = ("on_batch_begin", "on_batch_end")


def check_callbacks(options: PlainOptions, model: Model, rule: IGradientDescent, kinds: Sequence[type[Codec]]) -> None:
    """Check that the callbacks of a job can do their work on its workers.

    Args:
        options: the checked options of the job, with its callbacks.
        model: the model to be trained.
        rule: its gradient-descent rule.
        kinds: codec classes of the variables.

    Raises: ValueError or TypeError naming the callback and its fault.
    """
    alone = next((kind.__name__ for kind in kinds if not kind.traits.agrees), None)
    # these three are why workers may have models of their own, and then decisions of callbacks would part
    if options.sync_type.staleness:
        alone = f"'sync_type' {options.sync_type.__name__}"
    elif not getattr(options.op_type, "by_block", False):
        alone = f"'op_type' {options.op_type.__name__}"
    if alone is not None:
        raise ValueError(
            f"'callbacks' need results that are equal on all workers, but under {alone} each trains a model of its own; take "
            "SynchronizedSGD with PSGDOptimizer and a codec such as Plain"
        )
    # results of zeros, with the names of those that will come: a callback that asks for another name is refused here
    results = dict.fromkeys([f"{VALIDATION}{name}" for name in model.result_names], 0.0)
    for callback in options.callbacks:
        _check(callback, results, rule, by_shard=options.op_type.by_shard)


def _check(callback: Callback, results: Mapping[str, float], rule: IGradientDescent, *, by_shard: bool) -> None:
    name = type(callback).__name__
    for hook in _BATCHES:
        # in a job each worker computes a part of each batch, so there are no results of a batch that a callback could get
        if getattr(type(callback), hook) is not getattr(Callback, hook):
            raise ValueError(f"'callbacks' are told of epochs, but {name} has {hook}(): no worker of a job sees a whole batch")
    for monitor in vars(callback).values():
        if isinstance(monitor, Monitor):
            monitor.value(results)
    if isinstance(callback, (LearningRateScheduler, ReduceOnPlateau)):
        settable(callback, rule)
    if isinstance(callback, ModelCheckpoint) and by_shard:
        raise ValueError("'callbacks' cannot have a ModelCheckpoint where each worker has a shard of the rule's state")
    path = getattr(callback, "path", None)
    if isinstance(path, (str, Path)):
        # a name with fields is filled in as after the first epoch
        text = callback.named(1, results) if isinstance(callback, ModelCheckpoint) else str(path)
        if not is_safe_name(text):
            raise ValueError(
                f"{name} 'path' must be the name of a file in a job, where it goes into the folder of each node, got {text!r}"
            )
    try:
        # tried here: a callback that cannot travel would fail when everything else has been checked and sent
        shipping.pack({name: callback})
    except TypeError as error:
        raise TypeError(f"'callbacks' must hold what may travel, but {name} cannot: {error}") from error
