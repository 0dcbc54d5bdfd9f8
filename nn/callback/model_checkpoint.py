"""Saves the model while it trains."""

from __future__ import annotations

import os
from collections.abc import Mapping
from typing import Any

from nn import arguments
from nn.arrays import Array
from nn.callback.callback import Callback
from nn.callback.monitor import Monitor


class ModelCheckpoint(Callback):
    """Saves the model at the end of every epoch whose number `every` divides, or of those that are the best so far.

    `path` may have fields: `"run-{epoch:03d}-{val_Loss:.3f}.model"` with the epoch from 1 and the results. An older file
    is replaced in one step: whenever a run is killed, there is a whole file. With `save_best_only` a file is written only
    when the monitored result is better than all before; see `Monitor` for `mode`.

    A file holds everything that decides how training goes on, also the state of all callbacks of this `fit`. So a run that
    was killed and is continued, with equal callbacks made anew, equals one that was never stopped, bit for bit:

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

    def __init__(
        self,
        path: str | os.PathLike[str],
        monitor: str = "val_Loss",
        save_best_only: bool = False,
        mode: str = "auto",
        every: int = 1,
    ) -> None:
        if not isinstance(path, (str, os.PathLike)) or not os.fspath(path):
            raise TypeError(f"ModelCheckpoint 'path' must be the path of a file, got {path!r}")
        self.path = str(os.fspath(path))
        self.save_best_only = bool(arguments.instance(self, "save_best_only", save_best_only, bool))
        self.monitor = Monitor(self, monitor, mode) if self.save_best_only else None
        self.every = arguments.integer(self, "every", every, minimum=1)
        self.load_state_dict({})

    def on_epoch_end(self, epoch: int, logs: Mapping[str, float]) -> None:
        """Decide whether this epoch is saved."""
        if self.monitor is None:
            self._due = self.model.epochs_trained % self.every == 0
            return
        value = self.monitor.value(logs)
        self._due = self.monitor.better(value, self.best)
        if self._due:
            self.best = value

    def on_epoch_settled(self, epoch: int, logs: Mapping[str, float]) -> None:
        """Save the model if it is time."""
        if not self._due:
            return
        number = self.model.epochs_trained
        try:
            path = self.path.format(epoch=number, **logs)
        except (KeyError, IndexError, ValueError) as error:
            names = ", ".join(["epoch", *logs])
            raise ValueError(f"ModelCheckpoint 'path' may have the fields {names}, got {self.path!r}: {error!r}") from error
        self.model.save(path)
        self.saved = path

    def state_dict(self) -> dict[str, Array | int | float]:
        """Return the best result so far."""
        return {} if self.best is None else {"best": self.best}

    def load_state_dict(self, state: Mapping[str, Any]) -> None:
        """Go on from a state, or afresh."""
        self.best = float(state["best"]) if "best" in state else None
        self.saved = None
        self._due = False
