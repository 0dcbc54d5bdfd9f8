"""Training in one process, uphill."""

from collections.abc import Iterator

import numpy as np

from nn.optimizer.gradient_descent import GDOptimizer


class GAOptimizer(GDOptimizer):
    """Gradient ascent: the rule descends along -g, so that what `setup` was given as loss grows.

    Weight decay still pulls parameters to 0: what grows is the loss minus the penalty.

    >>> model = nn.model.SequentialModel([-1, 4], [nn.layer.Dense(3)])
    >>> model.setup(nn.loss.Cross_Entropy_With_Softmax())
    >>> model.compile(nn.optimizer.OpContainer(nn.optimizer.GAOptimizer, nn.gradient_descent.ADAMOptimizer, gd_params=(0.01,)))
    >>> model.fit(np.eye(4), [0, 1, 2, 0], epoch=2, verbose=0)["epoch"]
    [1, 2]
    """

    def finish_batch(self) -> Iterator[int]:
        """Apply the rule to the negative gradients; the store has them as they were again afterwards."""
        gradients = self.store.gradients
        np.negative(gradients, out=gradients)
        self.rule.update(self.store.values, gradients)
        np.negative(gradients, out=gradients)
        self.store.apply_changes()
        return iter(())
