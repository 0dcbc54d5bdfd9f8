"""Training in one process, uphill."""

from collections.abc import Iterator

import numpy as np

from nn.optimizer.gradient_descent import GDOptimizer


class GAOptimizer(GDOptimizer):
    """Gradient ascent: the rule descends along -g, so that what `setup` was given as loss grows.

    Weight decay still pulls parameters to 0: what grows is the loss minus the penalty.
    """

    def finish_batch(self) -> Iterator[int]:
        """Apply the rule to the negative gradients; the store has them as they were again afterwards."""
        gradients = self.store.gradients
        np.negative(gradients, out=gradients)
        self.rule.update(self.store.values, gradients)
        np.negative(gradients, out=gradients)
        self.store.apply_changes()
        return iter(())
