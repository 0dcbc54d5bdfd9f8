"""Callbacks that set the learning rate: by a function of the epoch, or lower where training does not help any more."""

from __future__ import annotations

import inspect
from collections.abc import Callable, Mapping
from numbers import Real
from typing import TYPE_CHECKING, Any

from nn import arguments
from nn.arrays import Array
from nn.callback.callback import Callback
from nn.callback.monitor import Mode, Monitor, Monitored, Result
from nn.extension import signature_of

if TYPE_CHECKING:
    from nn.gradient_descent.interface import IGradientDescent


def rule_of(callback: Callback) -> IGradientDescent:
    """Return the rule of the callback's model; raise ValueError where a schedule gives its learning rate."""
    return settable(callback, callback.model.optimizer.rule)


def settable(callback: Callback, rule: IGradientDescent) -> IGradientDescent:
    """Return `rule`, which must have a learning rate that the callback can set; raise ValueError where a schedule gives it."""
    if rule.schedule is not None:
        raise ValueError(
            f"{type(callback).__name__} sets the learning rate, but that of {type(rule).__name__} comes from "
            f"{rule.schedule!r}: give the rule a number, or leave the callback out"
        )
    return rule


class LearningRateScheduler(Callback):
    """learn_rate = schedule(epoch), or schedule(epoch, learn_rate), at the beginning of every epoch.

    A function that needs two arguments is given the rate of the epoch before, too, as in Keras. Epochs count from 0 over the
    whole life of the model, so a continued run goes on where it was. For rates that change with every step see
    `nn.gradient_descent.schedule`; a rule that has such a schedule is refused with ValueError.

    >>> model = nn.model.SequentialModel([-1, 4], [nn.layer.Dense(3)])
    >>> model.setup(nn.loss.Cross_Entropy_With_Softmax())
    >>> model.compile(nn.gradient_descent.SGDOptimizer(0.1))
    >>> fading = nn.callback.LearningRateScheduler(lambda epoch: 0.1 / (1 + epoch))
    >>> history = model.fit(np.eye(4), [0, 1, 2, 0], epoch=2, callbacks=[fading], verbose=0)
    >>> model.rule.learn_rate
    0.05
    >>> as_in_keras = nn.callback.LearningRateScheduler(lambda epoch, rate: rate if epoch < 10 else 0.95 * rate)
    """

    def __init__(self, schedule: Callable[[int], float] | Callable[[int, float], float]) -> None:
        if not callable(schedule):
            raise TypeError(f"LearningRateScheduler 'schedule' must be a function of the epoch, got {schedule!r}")
        self.schedule = schedule
        self._takes_rate = _needed(schedule) == 2

    def on_train_begin(self) -> None:
        # Here, so that a rule with a schedule is refused before an epoch has been trained.
        rule_of(self)

    def on_epoch_begin(self, epoch: int) -> None:
        """Set the rate; raise ValueError where the function gives no number of at least 0."""
        number, rule = self.model.epochs_trained, rule_of(self)
        given = (number, rule.learn_rate) if self._takes_rate else (number,)
        rate = self.schedule(*given)
        if isinstance(rate, bool) or not isinstance(rate, Real) or not 0 <= rate < float("inf"):
            raise ValueError(f"LearningRateScheduler 'schedule' must give a number >= 0, got {rate!r} for epoch {number}")
        rule.learn_rate = float(rate)


def _needed(function: Callable[..., object]) -> int:
    """Return how many positional arguments a function cannot do without; 1 where it does not say."""
    try:
        parameters = signature_of(function).parameters.values()
    # A function of C without a signature.
    except ValueError:
        return 1
    kinds = (inspect.Parameter.POSITIONAL_ONLY, inspect.Parameter.POSITIONAL_OR_KEYWORD)
    return sum(parameter.kind in kinds and parameter.default is parameter.empty for parameter in parameters)


class ReduceOnPlateau(Monitored, configured=True):
    """learn_rate <- max(factor * learn_rate, min_rate) after `patience` epochs in which the monitored result was not better.

    A result is better if it beats the best so far by more than `min_delta`; see `Monitor` for `mode`. After a reduction the
    next `cooldown` epochs are not counted, as in torch. The rule's rate must be a number: ValueError where it is a schedule.
    `reductions` lists the epochs (from 1) after which the rate was reduced in this `fit`.

    A model file holds the rate and, where saved during `fit`, the counts, so a continued run goes on as the whole would.

    Args:
        monitor: name of the result, such as `val_Loss`.
        factor: by which the rate is multiplied, from 0 to below 1.
        patience: epochs without a better result before the rate falls.
        min_delta: by how much a result must beat the best so far.
        mode: 'min' where small results are good, 'max', or 'auto'; see `Monitor`.
        cooldown: epochs after a reduction that are not counted.
        min_rate: the rate never falls below it.

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
    waited: int
    reductions: list[int]

    @arguments.also(min_lr="min_rate")
    def __init__(
        self,
        monitor: Result = "val_Loss",
        factor: float = 0.1,
        patience: int = 10,
        min_delta: float = 1e-4,
        mode: Mode = "auto",
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
        rule_of(self)

    def on_epoch_end(self, epoch: int, logs: Mapping[str, float]) -> None:
        value = self.monitor.value(logs)
        # The count before this epoch: the last epoch of a cooldown is not counted, either.
        cooling = self.cooling
        self._keep(cooling=max(cooling - 1, 0))
        # A better result counts during a cooldown, too.
        if self.monitor.better(value, self.best):
            self._keep(best=value, waited=0)
        elif not cooling:
            self._keep(waited=self.waited + 1)
            # 0 and 1 mean the same: the first epoch that is not better.
            if self.waited >= max(self.patience, 1):
                self._reduce()

    def _reduce(self) -> None:
        rule = rule_of(self)
        reduced = max(rule.learn_rate * self.factor, self.min_rate)
        # At the least rate nothing is reduced, and nothing is counted as a reduction.
        if reduced < rule.learn_rate:
            rule.learn_rate = reduced
            self.reductions.append(self.model.epochs_trained)
            self._keep(cooling=self.cooldown, waited=0)

    def state_dict(self) -> dict[str, Array | int | float]:
        best: dict[str, Array | int | float] = {} if self.best is None else {"best": self.best}
        return {**best, "waited": self.waited, "cooling": self.cooling}

    def load_state_dict(self, state: Mapping[str, Any]) -> None:
        best = float(state["best"]) if "best" in state else None
        self._keep(best=best, waited=int(state.get("waited", 0)), cooling=int(state.get("cooling", 0)), reductions=[])
