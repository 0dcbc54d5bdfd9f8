"""Sets the learning rate of each epoch."""

from __future__ import annotations

import inspect
from collections.abc import Callable
from numbers import Real

from nn.callback.callback import Callback
from nn.callback.learning_rate import rule_of


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
        """Check that there is a rate to set."""
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
        parameters = inspect.signature(function).parameters.values()
    except ValueError:
        return 1
    kinds = (inspect.Parameter.POSITIONAL_ONLY, inspect.Parameter.POSITIONAL_OR_KEYWORD)
    return sum(parameter.kind in kinds and parameter.default is parameter.empty for parameter in parameters)
