"""Parallel stochastic gradient descent and its relatives: workers exchange raw gradients."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import ClassVar

import numpy as np

from nn.arrays import Array
from nn.gradient_descent.interface import IGradientDescent, JoinedVectors
from nn.optimizer.interface import Exchange, IOptimizer
from nn.value.store import VariableStore
from nn.value.value import Variable

__all__ = ["ExchangingOptimizer", "GAOptimizer", "GradientAveragingOptimizer", "IOptimizer", "PSGDOptimizer"]


class ExchangingOptimizer(IOptimizer):
    """An optimizer that puts something for every variable and block, and gets the merged results."""

    puts: ClassVar[str] = "gradients"
    """Kind of the vectors it puts: "gradients", "updates" or "parameters"."""

    gets: ClassVar[str] = "gradients"
    """Kind it takes the results for. Where this differs from `puts`, the codec (a server) must turn one into the other."""

    by_block: ClassVar[bool] = True
    """Whether the content of a block depends on that block alone. If not, it depends on all blocks of the worker, and
    workers that share a block must share all of them, or their copies of it differ."""

    def __init__(self, rule: IGradientDescent, store: VariableStore, exchange: Exchange | None = None) -> None:
        if exchange is None:
            raise ValueError(
                f"{type(self).__name__} exchanges {self.puts} and needs an exchange; it runs in ParallelSGD.parallel(). "
                f"To train in this process, compile the model with a rule or with GDOptimizer"
            )
        super().__init__(rule, store, exchange)
        self.partners: Exchange = exchange

    @property
    def buffers_id(self) -> int:
        """The id under which all buffers are exchanged, as one vector."""
        return len(self.store.variables)

    @property
    def exchanged_buffers(self) -> Array:
        """Vector that is put for the buffers, and takes the result: the changes, which `store.apply_changes` adds."""
        return self.store.buffer_changes

    def buffers_ready(self, block_id: int) -> None:
        if self.store.buffers:
            self.partners.put(self.buffers_id, block_id, self.exchanged_buffers)

    def wait(self) -> Iterator[int]:
        """Yield ids until the result of every variable is ready, last layer first, as they were put; then merge the buffers."""
        # The first that was put is probably the first that is there.
        for place in reversed(range(self.buffers_id)):
            while not self.partners.ready(place):
                yield place
        yield from self.merge_buffers()

    def merge_buffers(self) -> Iterator[int]:
        """Wait for the merged vector of the buffers and take it over."""
        if self.store.buffers:
            while not self.partners.ready(self.buffers_id):
                yield self.buffers_id
            # In place: operations and plans hold views of this vector.
            np.copyto(self.exchanged_buffers, self.partners.get(self.buffers_id))

    def take(self, targets: Sequence[Array]) -> None:
        """Copy the results into the arrays of `targets`, one per id."""
        for place, target in enumerate(targets):
            np.copyto(target, self.partners.get(place))


class PSGDOptimizer(ExchangingOptimizer):
    """Optimizer that puts each gradient the moment it exists, last layer first, and applies the rule to the merged ones.

    Every node applies the same rule to the same merged gradients after the batch, so that n workers compute the same as one
    on the whole batch, for every rule.

    >>> op = nn.optimizer
    >>> container = op.OpContainer(op.PSGDOptimizer, nn.gradient_descent.SGDOptimizer, gd_params=(0.1,))
    >>> container.op_type.puts, container.op_type.gets
    ('gradients', 'gradients')
    """

    takes_sums: ClassVar[bool] = True

    def __init__(self, rule: IGradientDescent, store: VariableStore, exchange: Exchange | None = None) -> None:
        super().__init__(rule, store, exchange)
        # `Exchange` does not ask for `joined`: through an exchange without it each variable travels alone
        joined: Sequence[range] = getattr(exchange, "joined", ()) or [range(n, n + 1) for n in range(len(store.variables))]
        self._gradients = [_vector(store, variables) for variables in joined]
        places = [place for place, variables in enumerate(joined) for _ in variables]
        # by id: where models share memory, that of the first variable of this one may be another than 0
        self._places = {variable.id: place for variable, place in zip(store.variables, places, strict=True)}
        self._counts = [len(variables) for variables in joined]
        self._missing = list(self._counts)  # variables with gradients that a vector of the running block still lacks

    @classmethod
    def joins(cls) -> bool:
        return True

    @property
    def buffers_id(self) -> int:
        return len(self._gradients)

    def gradient_ready(self, variable: Variable, block_id: int) -> None:
        place, missing = self._places[variable.id], self._missing
        # A joined vector travels when the last of its variables has its gradient.
        missing[place] -= 1
        if not missing[place]:
            # Ready for the next block.
            missing[place] = self._counts[place]
            self.partners.put(place, block_id, self._gradients[place])

    def finish_batch(self) -> Iterator[int]:
        """Wait for every merged gradient in the order in which they were put, then apply the rule to all.

        A rule that reads stretches takes them where they lie, unless `shows_gradients` asks for them in the store.
        """
        yield from self.wait()
        values, dtype = self.store.values, self.store.dtype
        if self.shows_gradients or not self.rule.reads_stretches:
            self.take(self._gradients)
            self.rule.update(values, self.store.gradients)
        else:
            # A codec may give another type; no copy where it is the store's.
            merged = [np.asarray(self.partners.get(place), dtype) for place in range(len(self._gradients))]
            self.rule.update_from(values, JoinedVectors(merged) if len(merged) > 1 else merged[0].reshape(-1))
        self.store.apply_changes()


def _vector(store: VariableStore, variables: range) -> Array:
    """Return the gradients of neighbouring variables: one in its shape, several as a vector."""
    if len(variables) == 1:
        return store.variables[variables.start].gradient
    ends = np.cumsum([0, *(variable.value.size for variable in store.variables)])
    # The store's vector holds them side by side, so this is a view.
    return store.gradients[ends[variables.start] : ends[variables.stop]]


class GradientAveragingOptimizer(ExchangingOptimizer):
    """Optimizer that puts each gradient the moment it exists, and gets parameters, which replace those of the worker.

    For a parameter server that keeps the parameters and applies a rule of its own to the averaged gradients: the workers'
    codecs must send to such a server, and their rule is not used.

    >>> op = nn.optimizer
    >>> container = op.OpContainer(op.GradientAveragingOptimizer, nn.gradient_descent.SGDOptimizer, gd_params=(0.1,))
    >>> container.op_type.puts, container.op_type.gets
    ('gradients', 'parameters')
    """

    gets: ClassVar[str] = "parameters"

    def gradient_ready(self, variable: Variable, block_id: int) -> None:
        self.partners.put(variable.id, block_id, variable.gradient)

    def finish_batch(self) -> Iterator[int]:
        yield from self.wait()
        self.take([variable.value for variable in self.store.variables])
        self.store.apply_changes()


class GAOptimizer(PSGDOptimizer):
    """Gradient ascent: the rule descends along -g, so that the loss given to `setup` grows.

    With an exchange g is the merged gradient of the workers, as with PSGDOptimizer, and every codec that goes with that
    one goes with this one; without an exchange, in `fit`, it is the model's own gradient. Weight decay still pulls parameters
    to 0: the loss minus the penalty grows.

    >>> model = nn.model.SequentialModel([-1, 4], [nn.layer.Dense(3)])
    >>> model.setup(nn.loss.Cross_Entropy_With_Softmax())
    >>> model.compile(nn.optimizer.OpContainer(nn.optimizer.GAOptimizer, nn.gradient_descent.ADAMOptimizer, gd_params=(0.01,)))
    >>> model.fit(np.eye(4), [0, 1, 2, 0], epoch=2, verbose=0)["epoch"]
    [1, 2]
    """

    takes_sums: ClassVar[bool] = True

    def __init__(self, rule: IGradientDescent, store: VariableStore, exchange: Exchange | None = None) -> None:
        super().__init__(rule, store, _OwnGradients(store) if exchange is None else exchange)

    @classmethod
    def joins(cls) -> bool:
        return True

    def finish_batch(self) -> Iterator[int]:
        """Apply the rule to the negative of the merged gradients; the store has them as they were merged afterwards."""
        yield from self.wait()
        gradients = self.store.gradients
        self.take(self._gradients)
        # Negated twice, in place: a copy would take the memory of the model again.
        np.negative(gradients, out=gradients)
        self.rule.update(self.store.values, gradients)
        np.negative(gradients, out=gradients)
        self.store.apply_changes()


class _OwnGradients:
    """The exchange of a model that trains alone: it gets the vectors that the store holds."""

    def __init__(self, store: VariableStore) -> None:
        self._store = store

    def put(self, variable_id: int, block_id: int, content: Array) -> None:
        """Nothing to do: the store holds it."""

    def ready(self, variable_id: int) -> bool:
        """Return True: there is no other worker to wait for."""
        return True

    def get(self, variable_id: int) -> Array:
        """Return the gradient of a variable, or the changes of the buffers, in the store."""
        variables = self._store.variables
        return self._store.buffer_changes if variable_id == len(variables) else variables[variable_id].gradient
