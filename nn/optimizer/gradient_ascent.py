"""Training uphill, in one process or on many workers."""

from collections.abc import Iterator

import numpy as np

from nn.arrays import Array
from nn.gradient_descent.interface import IGradientDescent
from nn.optimizer.exchange import Exchange
from nn.optimizer.parallel_sgd import PSGDOptimizer
from nn.value import VariableStore


class GAOptimizer(PSGDOptimizer):
    """Gradient ascent: the rule descends along -g, so that what `setup` was given as loss grows.

    With an exchange g is what the workers' gradients are merged to, as with PSGDOptimizer, and every codec that goes with that
    one goes with this one; without an exchange, in `fit`, it is the model's own gradient. Weight decay still pulls parameters
    to 0: what grows is the loss minus the penalty.

    >>> model = nn.model.SequentialModel([-1, 4], [nn.layer.Dense(3)])
    >>> model.setup(nn.loss.Cross_Entropy_With_Softmax())
    >>> model.compile(nn.optimizer.OpContainer(nn.optimizer.GAOptimizer, nn.gradient_descent.ADAMOptimizer, gd_params=(0.01,)))
    >>> model.fit(np.eye(4), [0, 1, 2, 0], epoch=2, verbose=0)["epoch"]
    [1, 2]
    """

    def __init__(self, rule: IGradientDescent, store: VariableStore, exchange: Exchange | None = None) -> None:
        super().__init__(rule, store, _OwnGradients(store) if exchange is None else exchange)

    def finish_batch(self) -> Iterator[int]:
        """Apply the rule to the negative of the merged gradients; the store has them as they were merged afterwards."""
        yield from self.wait()
        gradients = self.store.gradients
        self.take([variable.gradient for variable in self.store.variables])
        np.negative(gradients, out=gradients)
        self.rule.update(self.store.values, gradients)
        np.negative(gradients, out=gradients)
        self.store.apply_changes()


class _OwnGradients:
    """The exchange of a model that trains alone: what it gets is what the store holds."""

    def __init__(self, store: VariableStore) -> None:
        self._store = store

    def put(self, variable_id: int, block_id: int, content: Array) -> None:
        """Nothing to do: the store holds it."""

    def ready(self, variable_id: int) -> bool:
        """Nobody is waited for."""
        return True

    def get(self, variable_id: int) -> Array:
        """Return what the store holds."""
        variables = self._store.variables
        return self._store.buffer_changes if variable_id == len(variables) else variables[variable_id].gradient
