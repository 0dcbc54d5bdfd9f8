"""Callbacks that go by one result of each epoch: early stopping, and checkpoints of the model."""

from __future__ import annotations

import math
import os
from collections.abc import Collection, Mapping
from typing import Any, Literal, TypeAlias, get_args

import numpy as np

from nn import arguments
from nn.arrays import Array
from nn.callback.callback import Callback
from nn.extension import nearest

Result: TypeAlias = Literal["Loss", "val_Loss", "accuracy", "val_accuracy"] | str
"""Names of results of an epoch: those of most models, or another metric's."""
Mode: TypeAlias = Literal["auto", "min", "max"]
_SMALL = ("loss", "error", "mse", "eer", "false")
_LARGE = ("accuracy", "auc", "precision", "recall", "f1", "true", "iou", "r2", "sensitivity", "specificity")


def of_keras(name: str) -> str:
    """Return our name of a result for Keras's: `Loss` for `loss`."""
    return {"loss": "Loss", "val_loss": "val_Loss"}.get(name, name)


class Monitor:
    """The result `name` of an epoch, for example `val_Loss`; `owner` stands in messages.

    `mode` is 'min' where small values are good, 'max' where large ones are. 'auto' knows it for `Loss` and the metrics of
    `nn.metric` by the words in their names. A value is better if it beats the other by more than `min_delta`; NaN never does.
    """

    def __init__(self, owner: object, name: str, mode: Mode = "auto", min_delta: float = 0.0) -> None:
        self._owner = type(owner).__name__
        if not isinstance(name, str) or not name:
            raise TypeError(f"{self._owner} 'monitor' must be the name of a result, such as 'val_Loss', got {name!r}")
        arguments.one_of(owner, "mode", mode, get_args(Mode))
        name = of_keras(name)
        self.name, self.mode = name, _mode(self._owner, name) if mode == "auto" else mode
        self.min_delta = arguments.number(owner, "min_delta", min_delta, 0)

    def value(self, logs: Mapping[str, float]) -> float:
        """Return the monitored result; raise ValueError listing those in `logs` where it is not among them."""
        if self.name not in logs:
            hint = "" if any(name.startswith("val_") for name in logs) else "; with validation data there are val_... too"
            # Where validation data are missing, a name that is near would mislead.
            near = "" if hint and self.name.startswith("val_") else arguments.did_you_mean(self.name, logs)
            raise ValueError(f"{self._owner} 'monitor' is {self.name!r}, but the results are {', '.join(logs)}{near or hint}")
        return logs[self.name]

    def better(self, value: float, than: float | None) -> bool:
        """Return whether `value` is better than the other, `than`; any finite one is better than None."""
        if than is None:
            return math.isfinite(value)
        return than - value > self.min_delta if self.mode == "min" else value - than > self.min_delta


def _mode(owner: str, name: str) -> str:
    """Return 'min' or 'max' for the name of a result. Raises: ValueError where its words do not tell."""
    lower = name.lower()
    small, large = (any(word in lower for word in words) for words in (_SMALL, _LARGE))
    # The words of neither list, or of both.
    if small == large:
        # Names are an output and a metric, `val_kind_accuracy`. "acc" has a little less than the usual share alike.
        front, _, last = name.rpartition("_")
        end = nearest(last, ("Loss", "accuracy"), 0.54)
        near = f"; did you mean {'_'.join(filter(None, (front, end)))!r}?" if end else ""
        raise ValueError(f"{owner} cannot tell whether {name!r} should be small or large: give mode='min' or 'max'{near}")
    return "min" if small else "max"


class Monitored(Callback):
    """Callback that goes by one result of each epoch, `monitor`."""

    def check_results(self, names: Collection[str]) -> None:
        """Raise ValueError unless the monitored result is one that the epochs of this `fit` will have."""
        # None where a checkpoint saves every epoch.
        monitor = vars(self).get("monitor")
        if monitor is not None:
            monitor.value(dict.fromkeys(names, 0.0))

    def argument(self, name: str) -> Any:
        """Return one argument as `get_config` gives it: of the `Monitor` the values that it was made of."""
        monitor = vars(self)["monitor"]
        if name == "monitor":
            return "val_Loss" if monitor is None else monitor.name
        if name in ("mode", "min_delta"):
            return "auto" if monitor is None else getattr(monitor, name)
        return super().argument(name)


_WEIGHT = "weight_"


class EarlyStopping(Monitored, configured=True):
    """End of training after `patience` epochs in a row in which the monitored result was not better (Prechelt, 1998).

    A result is better if it beats the best so far by more than `min_delta`; see `Monitor` for `mode`. With `patience` 0 the
    first epoch that is not better ends training. `restore_best` returns the weights, trained and not, to those of the best
    epoch when training ends, also where it ended by itself. Where Ctrl-C or an error ends `fit`, the weights stay those after
    the last batch, and batches after the last whole epoch are in no row of the history; a `ModelCheckpoint` with
    `save_best_only` keeps the best ones in a file.

    Afterwards `best` and `best_epoch` (from 1, as in the history) tell the best result, `stopped_epoch` the epoch after which
    training was stopped, None if it was not. A model file saved during `fit` holds this state, so a run continued from
    it stops where the whole run would have.

    Args:
        monitor: name of the result, such as `val_Loss`.
        patience: epochs in a row without a better result before training ends.
        min_delta: by how much a result must beat the best so far.
        mode: 'min' where small results are good, 'max', or 'auto'; see `Monitor`.
        restore_best: whether the model has the weights of its best epoch at the end.

    >>> model = nn.model.SequentialModel([-1, 4], [nn.layer.Dense(3)])
    >>> model.setup(nn.loss.Cross_Entropy_With_Softmax())
    >>> model.compile(nn.gradient_descent.SGDOptimizer(0.1))
    >>> stop = nn.callback.EarlyStopping("Loss", min_delta=1.0, patience=2)
    >>> history = model.fit(np.eye(4), [0, 1, 2, 0], epoch=50, callbacks=[stop], verbose=0)
    >>> stop.stopped_epoch
    3
    """

    best: float | None
    best_epoch: int | None
    stopped_epoch: int | None
    waited: int

    @arguments.also(restore_best_weights="restore_best")
    def __init__(
        self,
        monitor: Result = "val_Loss",
        patience: int = 0,
        min_delta: float = 0.0,
        mode: Mode = "auto",
        restore_best: bool = False,
    ) -> None:
        self.monitor = Monitor(self, monitor, mode, min_delta)
        self.patience = arguments.integer(self, "patience", patience, minimum=0)
        self.restore_best = bool(arguments.instance(self, "restore_best", restore_best, bool))
        self._weights: list[Array] = []
        self.load_state_dict({})

    def on_train_begin(self) -> None:
        """Train no further where the run that is continued had stopped."""
        if self.stopped_epoch is not None:
            self.model.stop_training = True

    def on_epoch_end(self, epoch: int, logs: Mapping[str, float]) -> None:
        value, number = self.monitor.value(logs), self.model.epochs_trained
        if self.monitor.better(value, self.best):
            self._keep(best=value, best_epoch=number, waited=0)
            if self.restore_best:
                # Copies: training goes on in the live ones.
                self._weights = self.model.get_weights()
        else:
            self._keep(waited=self.waited + 1)
            # 0 and 1 mean the same: the first epoch that is not better.
            if self.waited >= max(self.patience, 1):
                # Kept and saved, so that a run continued from the file does not train on.
                self._keep(stopped_epoch=number)
                self.model.stop_training = True

    def on_train_end(self, logs: Mapping[str, float]) -> None:
        # Empty without `restore_best`, and where no epoch was better, as when all results were NaN.
        if self._weights:
            self.model.set_weights(self._weights)

    def state_dict(self) -> dict[str, Array | int | float]:
        known = {"best": self.best, "best_epoch": self.best_epoch, "stopped_epoch": self.stopped_epoch}
        state: dict[str, Array | int | float] = {name: value for name, value in known.items() if value is not None}
        state["waited"] = self.waited
        return {**state, **{f"{_WEIGHT}{place}": weight for place, weight in enumerate(self._weights)}}

    def load_state_dict(self, state: Mapping[str, Any]) -> None:
        self._keep(
            best=float(state["best"]) if "best" in state else None,
            best_epoch=int(state["best_epoch"]) if "best_epoch" in state else None,
            waited=int(state.get("waited", 0)),
            stopped_epoch=int(state["stopped_epoch"]) if "stopped_epoch" in state else None,
        )
        count = sum(name.startswith(_WEIGHT) for name in state) if self.restore_best else 0
        self._weights = [np.array(state[f"{_WEIGHT}{place}"]) for place in range(count)]


class ModelCheckpoint(Monitored, configured=True):
    """File of the model at the end of every epoch with a number that `every` divides, or of those that are the best so far.

    `path` may have fields: `"run-{epoch:03d}-{val_Loss:.3f}.model"` with the epoch from 1 and the results. An older file
    is replaced in one step: whenever a run is killed, there is a whole file. With `save_best_only` a file is written only
    when the monitored result is better than all before; see `Monitor` for `mode`. With `save_weights_only` it holds the
    weights alone, for `model.load_weights`.

    A file of the whole holds everything that decides how training goes on, also the state of all callbacks of this `fit`. So
    a run that was killed and is continued, with equal callbacks made anew, equals one that was never stopped, bit for bit:

    Args:
        path: of the file, with fields or without.
        monitor: name of the result by which `save_best_only` goes.
        save_best_only: whether a file is written only for the best result so far.
        mode: 'min' where small results are good, 'max', or 'auto'; see `Monitor`.
        every: epochs from one file to the next.
        save_weights_only: whether the file holds the weights alone.

    >>> model = nn.model.SequentialModel([-1, 4], [nn.layer.Dense(3)])
    >>> model.setup(nn.loss.Cross_Entropy_With_Softmax())
    >>> model.compile(nn.gradient_descent.SGDOptimizer(0.1))
    >>> save = nn.callback.ModelCheckpoint("run.model")
    >>> history = model.fit(np.eye(4), [0, 1, 2, 0], epoch=2, callbacks=[save], verbose=0)
    >>> again = nn.model.Model.load("run.model")
    >>> history = again.fit(np.eye(4), [0, 1, 2, 0], until_epoch=5, callbacks=[save], verbose=0)
    >>> again.epochs_trained
    5
    """

    best: float | None
    saved: str | None
    """The path of the file written last."""

    @arguments.also(filepath="path")
    def __init__(
        self,
        path: str | os.PathLike[str],
        monitor: Result = "val_Loss",
        save_best_only: bool = False,
        mode: Mode = "auto",
        every: int = 1,
        save_weights_only: bool = False,
    ) -> None:
        self.path = arguments.new_path(self, "path", path, "a file")
        self.save_best_only = bool(arguments.instance(self, "save_best_only", save_best_only, bool))
        # Without a comparison any result does, but no other kind of argument.
        arguments.one_of(self, "mode", mode, get_args(Mode))
        checked = Monitor(self, monitor, mode if self.save_best_only else "min")
        self.monitor = checked if self.save_best_only else None
        self.every = arguments.integer(self, "every", every, minimum=1)
        self.save_weights_only = bool(arguments.instance(self, "save_weights_only", save_weights_only, bool))
        self.load_state_dict({})

    def on_epoch_end(self, epoch: int, logs: Mapping[str, float]) -> None:
        if self.monitor is None:
            self._due = self.model.epochs_trained % self.every == 0
            return
        value = self.monitor.value(logs)
        self._due = self.monitor.better(value, self.best)
        if self._due:
            self._keep(best=value)

    def on_epoch_settled(self, epoch: int, logs: Mapping[str, float]) -> None:
        if not self._due:
            return
        # Here, since every callback has seen the epoch by now: the file holds the state of all of them.
        path = str(self._job_folder / self.named(self.model.epochs_trained, logs))
        if self.save_weights_only:
            self.model.save_weights(path)
        else:
            self.model.save(path)
        self._keep(saved=path)

    def named(self, epoch: int, logs: Mapping[str, float]) -> str:
        """Return the path for an epoch.

        Args:
            epoch: number of epochs that are trained.
            logs: results of the last one, by name.

        Raises ValueError for a field of the path that there is not.
        """
        try:
            return self.path.format(epoch=epoch, **logs)
        except (KeyError, IndexError, ValueError) as error:
            names = ", ".join(["epoch", *logs])
            raise ValueError(f"ModelCheckpoint 'path' may have the fields {names}, got {self.path!r}: {error!r}") from error

    def state_dict(self) -> dict[str, Array | int | float]:
        return {} if self.best is None else {"best": self.best}

    def load_state_dict(self, state: Mapping[str, Any]) -> None:
        self._keep(best=float(state["best"]) if "best" in state else None, saved=None)
        self._due = False
