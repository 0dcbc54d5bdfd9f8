"""Stops training when it does not help any more."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import numpy as np

from nn import arguments
from nn.arrays import Array
from nn.callback.callback import Callback
from nn.callback.monitor import Monitor

_WEIGHT = "weight_"


class EarlyStopping(Callback):
    """Ends training after `patience` epochs in a row in which the monitored result was not better (Prechelt, 1998).

    Better is what beats the best so far by more than `min_delta`; see `Monitor` for `mode`. With `patience` 0 the first
    epoch that is not better ends training. `restore_best` returns the weights, trained and not, to those of the best epoch
    when training ends, also where it ended by itself.

    Afterwards `best` and `best_epoch` (from 1, as in the history) tell the best result, `stopped_epoch` the epoch after which
    training was stopped, None if it was not. A model file saved during `fit` holds this state, so a run continued from
    it stops where the whole run would have.

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

    def __init__(
        self,
        monitor: str = "val_Loss",
        patience: int = 0,
        min_delta: float = 0.0,
        mode: str = "auto",
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
        """Compare with the best epoch so far."""
        value, number = self.monitor.value(logs), self.model.epochs_trained
        if self.monitor.better(value, self.best):
            self.best, self.best_epoch, self.waited = value, number, 0
            if self.restore_best:
                self._weights = self.model.get_weights()
        else:
            self.waited += 1
            if self.waited >= max(self.patience, 1):
                self.stopped_epoch, self.model.stop_training = number, True

    def on_train_end(self, logs: Mapping[str, float]) -> None:
        """Return to the best weights if that was asked for."""
        if self._weights:
            self.model.set_weights(self._weights)

    def state_dict(self) -> dict[str, Array | int | float]:
        """Return the best result and its weights, and how many epochs were no better."""
        known = {"best": self.best, "best_epoch": self.best_epoch, "stopped_epoch": self.stopped_epoch}
        state: dict[str, Array | int | float] = {name: value for name, value in known.items() if value is not None}
        state["waited"] = self.waited
        return {**state, **{f"{_WEIGHT}{place}": weight for place, weight in enumerate(self._weights)}}

    def load_state_dict(self, state: Mapping[str, Any]) -> None:
        """Go on from a state, or afresh."""
        self.best = float(state["best"]) if "best" in state else None
        self.best_epoch = int(state["best_epoch"]) if "best_epoch" in state else None
        self.waited = int(state.get("waited", 0))
        self.stopped_epoch = int(state["stopped_epoch"]) if "stopped_epoch" in state else None
        count = sum(name.startswith(_WEIGHT) for name in state) if self.restore_best else 0
        self._weights = [np.array(state[f"{_WEIGHT}{place}"]) for place in range(count)]
