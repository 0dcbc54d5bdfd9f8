"""Lowers the learning rate when training does not help any more."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from nn import arguments
from nn.arrays import Array
from nn.callback.callback import Callback
from nn.callback.learning_rate import rule_of
from nn.callback.monitor import Monitor


class ReduceOnPlateau(Callback):
    """learn_rate <- max(factor * learn_rate, min_rate) after `patience` epochs in which the monitored result was not better.

    Better is what beats the best so far by more than `min_delta`; see `Monitor` for `mode`. After a reduction the next
    `cooldown` epochs are not counted, as in torch. The rule's rate must be a number: ValueError where it is a schedule.
    `reductions` lists the epochs (from 1) after which the rate was reduced in this `fit`.

    A model file holds the rate and, where saved during `fit`, the counts, so a continued run goes on as the whole would.

    >>> model = nn.model.SequentialModel([-1, 4], [nn.layer.Dense(3)])
    >>> model.setup(nn.loss.Cross_Entropy_With_Softmax())
    >>> model.compile(nn.gradient_descent.SGDOptimizer(0.1))
    >>> reduce = nn.callback.ReduceOnPlateau("Loss", factor=0.5, patience=1, min_delta=1.0)
    >>> history = model.fit(np.eye(4), [0, 1, 2, 0], epoch=4, callbacks=[reduce], verbose=0)
    >>> reduce.reductions
    [2, 3, 4]
    """

    best: float | None
    cooling: int

    def __init__(
        self,
        monitor: str = "val_Loss",
        factor: float = 0.1,
        patience: int = 10,
        min_delta: float = 1e-4,
        mode: str = "auto",
        cooldown: int = 0,
        min_rate: float = 0.0,
    ) -> None:
        self.monitor = Monitor(self, monitor, mode, min_delta)
        self.factor = arguments.number(self, "factor", factor, 0, 1)
        self.patience = arguments.integer(self, "patience", patience, minimum=0)
        self.cooldown = arguments.integer(self, "cooldown", cooldown, minimum=0)
        self.min_rate = arguments.number(self, "min_rate", min_rate, 0)
        self.load_state_dict({})

    def on_train_begin(self) -> None:
        """Check that there is a rate to reduce."""
        rule_of(self)

    def on_epoch_end(self, epoch: int, logs: Mapping[str, float]) -> None:
        """Compare with the best epoch so far."""
        value = self.monitor.value(logs)
        cooling = self.cooling
        self.cooling = max(cooling - 1, 0)
        if self.monitor.better(value, self.best):
            self.best, self.waited = value, 0
        elif not cooling:
            self.waited += 1
            if self.waited >= max(self.patience, 1):
                self._reduce()

    def _reduce(self) -> None:
        rule = rule_of(self)
        reduced = max(rule.learn_rate * self.factor, self.min_rate)
        if reduced < rule.learn_rate:
            rule.learn_rate = reduced
            self.reductions.append(self.model.epochs_trained)
            self.cooling, self.waited = self.cooldown, 0

    def state_dict(self) -> dict[str, Array | int | float]:
        """Return the best result and the counts."""
        best: dict[str, Array | int | float] = {} if self.best is None else {"best": self.best}
        return {**best, "waited": self.waited, "cooling": self.cooling}

    def load_state_dict(self, state: Mapping[str, Any]) -> None:
        """Go on from a state, or afresh."""
        self.best = float(state["best"]) if "best" in state else None
        self.waited = int(state.get("waited", 0))
        self.cooling = int(state.get("cooling", 0))
        self.reductions: list[int] = []
