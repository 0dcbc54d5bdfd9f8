"""Callbacks in a job: those of `nn.callback`, on every worker, with the same results and so with the same decisions.

After each epoch all workers have equal parameters, and evaluate them on all test samples. What callbacks are told are these
results, `val_Loss` and `val_<metric>`: equal bits, so that all workers stop, reduce the learning rate and save alike without
asking each other. Where each worker trains a model of its own they are refused.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from contextlib import ExitStack
from pathlib import Path
from typing import Any

from nn.callback import Callback
from nn.callback.learning_rate import LearningRateScheduler, ReduceOnPlateau, settable
from nn.callback.monitor import ModelCheckpoint, Monitor
from nn.gradient_descent.interface import IGradientDescent
from nn.model import Model
from nn.model.history import VALIDATION, CallbackStates
from nn.optimizer import GDOptimizer, IOptimizer
from nn.tensor_files import TEMPORARY_SUFFIX
from rpc import shipping
from rpc.files import is_safe_name
from rpc.logs import get_logger

from .codec.interfaces import Codec
from .options import JobOptions

_log = get_logger("parallel_sgd.callbacks")
_RATE = "learn_rate"
_BATCHES = ("on_batch_begin", "on_batch_end")


def check_callbacks(options: JobOptions, model: Model, rule: IGradientDescent, kinds: Sequence[type[Codec]]) -> None:
    """Check that the callbacks of a job can do on its workers what they are for.

    Raises: ValueError or TypeError naming the callback and what is wrong with it.
    """
    if not options.callbacks:
        return
    alone = next((kind.__name__ for kind in kinds if not kind.agrees), None)
    if options.sync_type.staleness:
        alone = f"'sync_type' {options.sync_type.__name__}"
    elif not getattr(options.op_type, "by_block", False):
        alone = f"'op_type' {options.op_type.__name__}"
    if alone is not None:
        raise ValueError(
            f"'callbacks' need results that are equal on all workers, but under {alone} each trains a model of its own; take "
            "SynchronizedSGD with PSGDOptimizer and a codec such as Plain"
        )
    results = dict.fromkeys([f"{VALIDATION}Loss", *(f"{VALIDATION}{metric.name}" for metric in model.metrics)], 0.0)
    for callback in options.callbacks:
        _check(callback, results, rule, by_shard=options.op_type.by_shard)


def _check(callback: Callback, results: Mapping[str, float], rule: IGradientDescent, *, by_shard: bool) -> None:
    name = type(callback).__name__
    for hook in _BATCHES:
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
        text = callback.named(1, results) if isinstance(callback, ModelCheckpoint) else str(path)
        if not is_safe_name(text):
            raise ValueError(
                f"{name} 'path' must be the name of a file in a job, where it goes into the folder of each node, got {text!r}"
            )
    try:
        shipping.pack({name: callback})
    except TypeError as error:
        raise TypeError(f"'callbacks' must hold what may travel, but {name} cannot: {error}") from error


class JobCallbacks:
    """The callbacks of one worker, from where `state` says that they were; their files go to `folder`.

    They see the worker's model with the job's rule; epochs count over the whole job. Attributes: `epochs`, how many there are
    when the training is over; `state`, what a checkpoint holds of them, that after the last whole epoch.
    """

    def __init__(
        self, callbacks: Sequence[Callback], model: Model, optimizer: IOptimizer, folder: Path, state: Mapping[str, Any]
    ) -> None:
        self._callbacks, self._model, self._rule = callbacks, model, optimizer.rule
        self._before = (model.op_type, model.rule, model.epochs_trained, model.callback_states)
        model.adopt(GDOptimizer, optimizer.rule, optimizer)  # a file of it can be trained on by `fit`
        self._states = model.callback_states = CallbackStates(_nested(state))
        self._attached = ExitStack()
        self.epochs = 0
        self.state: dict[str, Any] = dict(state)
        if _RATE in state and self._rule.schedule is None:
            self._rule.learn_rate = float(state[_RATE])
        for callback in callbacks:
            callback.model, callback.folder = model, folder

    @property
    def stopped(self) -> bool:
        """Whether there shall be no more epochs."""
        return self._model.stop_training

    def begin(self, epoch: int, params: Mapping[str, Any]) -> None:
        """Training begins, with so many epochs behind it."""
        self.epochs = self._model.epochs_trained = epoch
        self._model.stop_training = False
        self._attached.enter_context(self._states.attached(self._callbacks))
        for callback in self._callbacks:
            callback.params = params
            callback.on_train_begin()
        self._keep()

    def epoch_begin(self, epoch: int) -> None:
        for callback in self._callbacks:
            callback.on_epoch_begin(epoch)

    def epoch_end(self, epoch: int, evaluation: Mapping[str, float]) -> None:
        """An epoch is over and evaluated."""
        logs = _named(evaluation)
        self._model.epochs_trained = epoch + 1
        for callback in self._callbacks:
            callback.on_epoch_end(epoch, logs)
        for callback in self._callbacks:
            callback.on_epoch_settled(epoch, logs)
        self.epochs = epoch + 1
        self._keep()
        if self.stopped:
            _log.info("A callback ends training after epoch %s.", epoch + 1)

    def end(self, evaluation: Mapping[str, float]) -> bool:
        """Training has ended well; whether the model may have changed since it was evaluated."""
        for callback in self._callbacks:
            callback.on_train_end(_named(evaluation))
        return any(type(callback).on_train_end is not Callback.on_train_end for callback in self._callbacks)

    def close(self) -> None:
        """The model is again what it was beside its weights."""
        self._attached.close()
        op_type, rule, epochs, states = self._before
        self._model.adopt(op_type, rule)
        self._model.epochs_trained, self._model.callback_states = epochs, states

    def _keep(self) -> None:
        flat = {f"{name}:{key}": value for name, state in self._states.current().items() for key, value in state.items()}
        rate = {} if self._rule.schedule is not None else {_RATE: self._rule.learn_rate}
        self.state = {**flat, **rate}


def files_in(folder: Path) -> list[Path]:
    """The files of a node that callbacks have left, and all else that is beside them."""
    found = (path for path in folder.iterdir() if path.is_file() and path.suffix != TEMPORARY_SUFFIX)
    return sorted(path for path in found if not path.name.startswith("."))


def _named(evaluation: Mapping[str, float]) -> dict[str, float]:
    return {f"{VALIDATION}{name}": value for name, value in evaluation.items()}


def _nested(state: Mapping[str, Any]) -> dict[str, dict[str, Any]]:
    """By callback what `JobCallbacks.state` has of it."""
    found: dict[str, dict[str, Any]] = {}
    for name, value in state.items():
        callback, separator, key = name.partition(":")
        if separator:
            found.setdefault(callback, {})[key] = value
    return found
