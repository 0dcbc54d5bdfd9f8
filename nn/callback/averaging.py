"""Callback that puts averages of the weights in their place."""

from __future__ import annotations

from collections.abc import Mapping

import numpy as np

from nn.callback.callback import Callback
from nn.gradient_descent.wrapping import ParameterMean, averages


class SwapEMA(Callback):
    """Averages of the parameters in place of the parameters when training ends, for a rule that keeps some: `MovingAverage` or
    `StochasticAverage`.

    During training, and in the results of its epochs, the parameters are the trained ones; a job evaluates anew after the end.
    A further training goes on from the averages. Constraints hold for the averages, too. Statistics of `BatchNorm` stay as they
    are.

    Raises ValueError where the rule keeps no averages, and for optimizers of which a worker sees no average of the merged
    parameters: sharded ones, and those that exchange updates or parameters.

    >>> model = nn.model.SequentialModel([-1, 4], [nn.layer.Dense(3)])
    >>> rule = nn.gradient_descent.MovingAverage(nn.gradient_descent.SGDOptimizer(0.1), momentum=0.5)
    >>> model.compile(rule, "crossentropy_with_softmax")
    >>> history = model.fit(np.eye(4), [0, 1, 2, 0], epochs=3, callbacks=[nn.callback.SwapEMA()], verbose=0)
    >>> np.array_equal(model.store.values, model.rule.average)
    True
    """

    def on_train_begin(self) -> None:
        """Refuse a rule or an optimizer without averages before any batch is computed."""
        self._mean()

    def on_train_end(self, logs: Mapping[str, float]) -> None:
        average = self._mean().average
        # None where no batch was trained.
        if average is not None:
            np.copyto(self.model.store.values, average)
            # The rule takes its means before constraints, and a mean of numbers of a set need not lie in it.
            self.model.store.project()

    def _mean(self) -> ParameterMean:
        optimizer = self.model.optimizer
        if optimizer.by_shard or getattr(optimizer, "puts", "gradients") != "gradients":
            raise ValueError(
                f"SwapEMA needs an optimizer that exchanges gradients, such as PSGDOptimizer, got {type(optimizer).__name__}"
            )
        found = averages(optimizer.rule)
        if found is None:
            raise ValueError(
                f"SwapEMA needs a rule that keeps averages, such as MovingAverage({type(optimizer.rule).__name__}(...)), "
                f"got {type(optimizer.rule).__name__}"
            )
        return found
