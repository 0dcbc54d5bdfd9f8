"""Training in one process."""

from collections.abc import Iterator
from typing import ClassVar

from nn.optimizer.interface import IOptimizer
from nn.value import Variable


class GDOptimizer(IOptimizer):
    """Gradient descent with the gradients of this process; it waits for nobody.

    >>> model = nn.model.SequentialModel([-1, 4], [nn.layer.Dense(3)])
    >>> model.setup(nn.loss.Cross_Entropy_With_Softmax())
    >>> model.compile(nn.optimizer.OpContainer(nn.optimizer.GDOptimizer, nn.gradient_descent.ADAMOptimizer, gd_params=(0.01,)))
    >>> model.fit(np.eye(4), [0, 1, 2, 0], epoch=2, verbose=0)["epoch"]
    [1, 2]
    """

    exchanges: ClassVar[bool] = False

    def gradient_ready(self, variable: Variable, block_id: int) -> None:
        """Nothing to do: the store holds the gradient."""

    def finish_batch(self) -> Iterator[int]:
        """Apply the rule to the whole parameter vector."""
        self.rule.update(self.store.values, self.store.gradients)
        self.store.apply_changes()
        return iter(())
