"""Sets the learning rate of each epoch."""

from __future__ import annotations

from collections.abc import Callable
from numbers import Real

from nn.callback.callback import Callback
from nn.callback.learning_rate import rule_of


class LearningRateScheduler(Callback):
    """learn_rate = schedule(epoch) at the beginning of every epoch.

    Epochs count from 0 over the whole life of the model, so a continued run goes on where it was. For rates that change with
    every step see `nn.gradient_descent.schedule`; a rule that has such a schedule is refused with ValueError.

    >>> LearningRateScheduler(lambda epoch: 0.1 * 0.95**epoch)     # doctest: +SKIP
    """

    def __init__(self, schedule: Callable[[int], float]) -> None:
        if not callable(schedule):
            raise TypeError(f"LearningRateScheduler 'schedule' must be a function of the epoch, got {schedule!r}")
        self.schedule = schedule

    def on_train_begin(self) -> None:
        """Check that there is a rate to set."""
        rule_of(self)

    def on_epoch_begin(self, epoch: int) -> None:
        """Set the rate; raise TypeError or ValueError where the function gives no number of at least 0."""
        number = self.model.epochs_trained
        rate = self.schedule(number)
        if isinstance(rate, bool) or not isinstance(rate, Real) or not 0 <= rate < float("inf"):
            raise ValueError(f"LearningRateScheduler 'schedule' must give a number >= 0, got {rate!r} for epoch {number}")
        rule_of(self).learn_rate = float(rate)
