"""Callbacks in a job: those of `nn.callback`, on every worker, with the same results and so with the same decisions; and one
that tells the failure detector where `Model.fit` is.

After each epoch all workers have equal parameters, and evaluate them on all test samples. Callbacks get these results,
`val_Loss` and `val_<metric>`: equal bits, so that all workers stop, reduce the learning rate and save alike without asking each
other. Where each worker trains a model of its own they are refused.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from contextlib import ExitStack
from pathlib import Path
from typing import Any

from nn.callback import Callback
from nn.model import Model
from nn.model.history import VALIDATION, CallbackStates, Results
from nn.optimizer import GDOptimizer, IOptimizer
from nn.tensor_files import TEMPORARY_SUFFIX
from rpc.monitor import Monitor, job_monitor
from rpc.support.forks import OwnProcess
from rpc.support.logs import get_logger

_log = get_logger("parallel_sgd.engine.callbacks")
_RATE = "learn_rate"


class JobCallbacks:
    """Callbacks of one worker, from where `state` says that they were; their files go to `folder`.

    They see the worker's model with the job's rule; epochs count over the whole job. Attributes: `epochs`, how many there are
    when the training is over; `state`, the part of a checkpoint that holds them, that after the last whole epoch.
    """

    def __init__(
        self, callbacks: Sequence[Callback], model: Model, optimizer: IOptimizer, folder: Path, state: Mapping[str, Any]
    ) -> None:
        self._callbacks, self._model, self._rule = callbacks, model, optimizer.rule
        # what `close` gives back: the model is the user's in a job within one process
        self._before = (model.op_type, model.rule, model.epochs_trained, model.callback_states)
        model._adopt_rule(GDOptimizer, optimizer.rule, optimizer)  # a file of it can be trained on by `fit`
        # before they are attached: a callback finds there what it remembered in the last attempt
        self._states = model.callback_states = CallbackStates(_nested(state))
        self._attached = ExitStack()
        self._process = OwnProcess()  # a child that a callback has forked, and that returns from it, does not train on
        self.epochs = 0
        self.state: dict[str, Any] = dict(state)
        # a schedule computes the rate from the steps, so only a rate that callbacks have set is part of the state
        if _RATE in state and self._rule.schedule is None:
            self._rule.learn_rate = float(state[_RATE])
        for callback in callbacks:
            callback.model, callback._job_folder = model, folder

    @property
    def stopped(self) -> bool:
        """Whether there shall be no more epochs."""
        return self._model.stop_training

    def begin(self, epoch: int, params: Mapping[str, Any]) -> None:
        """Tell the callbacks that training begins, with `epoch` epochs behind it."""
        self.epochs = self._model.epochs_trained = epoch
        # a model that was stopped by an earlier `fit` or job shall train
        self._model.stop_training = False
        self._attached.enter_context(self._states.attached(self._callbacks))
        for callback in self._callbacks:
            callback._fit_params = params
            callback.on_train_begin()
            self._process.end_child()
        # from the first batch on a failure may need the state, before any epoch has ended
        self._keep()

    def epoch_begin(self, epoch: int) -> None:
        """Tell the callbacks that an epoch begins; raise ValueError where one has frozen layers, which a job cannot do."""
        self._model._refuse_if_marked_anew("parallel()")
        for callback in self._callbacks:
            callback.on_epoch_begin(epoch)
            self._process.end_child()

    def epoch_end(self, epoch: int, evaluation: Mapping[str, float]) -> None:
        """Tell the callbacks that an epoch is over and evaluated."""
        logs = _named(evaluation)
        # before the callbacks: file names of saved models have the number of the epoch
        self._model.epochs_trained = self.epochs = epoch + 1
        for callback in self._callbacks:
            callback.on_epoch_end(epoch, logs)
            self._process.end_child()
        # all have heard of the end before any of them saves: a model file holds what the others have changed
        for callback in self._callbacks:
            callback.on_epoch_settled(epoch, logs)
            self._process.end_child()
        self._keep()
        if self.stopped:
            _log.info("A callback ends training after epoch %s.", epoch + 1)

    def end(self, evaluation: Mapping[str, float]) -> bool:
        """Tell the callbacks that training has ended well; return whether the model may have changed since it was evaluated."""
        for callback in self._callbacks:
            callback.on_train_end(_named(evaluation))
            self._process.end_child()
        # the base does nothing, so only an override can have changed the model, such as one that restores its best weights
        return any(type(callback).on_train_end is not Callback.on_train_end for callback in self._callbacks)

    def close(self) -> None:
        """Give the model back all that it had before, except its weights."""
        self._attached.close()
        op_type, rule, epochs, states = self._before
        self._model._adopt_rule(op_type, rule)
        self._model.epochs_trained, self._model.callback_states = epochs, states

    def _keep(self) -> None:
        # flat, with the name before a colon: the state of a checkpoint has arrays and numbers alone
        flat = {f"{name}:{key}": value for name, state in self._states.current().items() for key, value in state.items()}
        rate = {} if self._rule.schedule is not None else {_RATE: self._rule.learn_rate}
        self.state = {**flat, **rate}


def files_in(folder: Path) -> list[Path]:
    """List the files of a node that callbacks have left, and all others that are beside them."""
    found = (path for path in folder.iterdir() if path.is_file() and path.suffix != TEMPORARY_SUFFIX)
    # hidden files are drafts of tools, which would be fetched half written
    return sorted(path for path in found if not path.name.startswith("."))


def _named(evaluation: Mapping[str, float]) -> Results:
    return Results({f"{VALIDATION}{name}": value for name, value in evaluation.items()})


def _nested(state: Mapping[str, Any]) -> dict[str, dict[str, Any]]:
    """Return, by callback, its part of `JobCallbacks.state`."""
    found: dict[str, dict[str, Any]] = {}
    for name, value in state.items():
        callback, separator, key = name.partition(":")
        if separator:
            found.setdefault(callback, {})[key] = value
    return found


class MonitorCallback(Callback):
    """Callback that tells the failure detector where `fit` is, for an executor that trains with it; outside a job it does
    nothing.

    Epochs count over the whole life of the model, from 0, so that a continued training goes on counting.

    Args:
        monitor: gets the signals; by default that of the job of this process.

    >>> class Train(rpc.AbsSimpleExecutor):  # doctest: +SKIP
    ...     signals = True
    ...     def run(self, com):
    ...         model.fit(x, y, epoch=5, callbacks=[parallel_sgd.MonitorCallback()])
    """

    def __init__(self, monitor: Monitor = job_monitor) -> None:
        self._monitor = monitor
        self._epoch = 0

    def on_epoch_begin(self, epoch: int) -> None:
        # the model counts over its life, the argument over this `fit` alone
        self._epoch = self.model.epochs_trained

    def on_batch_begin(self, batch: int) -> None:
        self._monitor.batch_begin(self._epoch, batch)

    def on_batch_end(self, batch: int, logs: Mapping[str, float]) -> None:
        self._monitor.batch_end()

    def on_epoch_end(self, epoch: int, logs: Mapping[str, float]) -> None:
        self._monitor.epoch_end()

    def on_train_end(self, logs: Mapping[str, float]) -> None:
        self._monitor.train_end()
