"""What an optimizer is: how the gradients of a batch become an update of the parameters."""

from abc import ABC, abstractmethod
from collections.abc import Iterator, Mapping
from typing import ClassVar

from nn.arrays import Array
from nn.gradient_descent.interface import IGradientDescent
from nn.optimizer.exchange import Exchange
from nn.value import Variable, VariableStore

_RULE = "rule:"


class IOptimizer(ABC):
    """One per training process. It owns the rule, and decides what is exchanged and when the rule runs.

    >>> class Halved(nn.optimizer.GDOptimizer):
    ...     def finish_batch(self):
    ...         self.store.gradients *= 0.5
    ...         return super().finish_batch()
    >>> container = nn.optimizer.OpContainer(Halved, nn.gradient_descent.SGDOptimizer, gd_params=(0.1,))
    """

    exchanges: ClassVar[bool] = True
    """Whether it works on what an exchange merges; an optimizer that does not cannot train on several workers."""

    by_shard: ClassVar[bool] = False
    """Whether it exchanges shards of the parameter vector in place of variables, which only some exchanges do."""

    def __init__(self, rule: IGradientDescent, store: VariableStore, exchange: Exchange | None = None) -> None:
        self.rule = rule
        self.store = store
        self.exchange = exchange
        rule.partition([variable.value.size for variable in store.variables])

    @classmethod
    def admit(cls, rule: IGradientDescent) -> None:
        """Check that it can work with `rule`; raise ValueError naming both where not. Most take any rule."""
        return

    def begin_batch(self) -> None:
        """Do what can be done before the first block of a batch is computed; a caller may leave this out."""
        return

    @abstractmethod
    def gradient_ready(self, variable: Variable, block_id: int) -> None:
        """Take note, during backward, that the gradient of a variable for a block is complete."""

    def buffers_ready(self, block_id: int) -> None:
        """Take note, after backward, that `store.buffer_changes` of a block are complete; called where the model has buffers.

        An optimizer that makes nothing of it applies the changes of the last block.
        """
        return

    @abstractmethod
    def finish_batch(self) -> Iterator[int]:
        """Update the parameters after the last block of a batch, and the buffers by `store.apply_changes()`.

        Yields the id of a variable it waits for; the caller resumes when `exchange.ready(id)`. Exhausted means updated.
        """

    def state_dict(self) -> dict[str, Array | int | float]:
        """Return the live state between two batches: that of the rule, as `rule:<name>`, and arrays of the optimizer's own.

        With the values of the store and the configuration of the rule this is all that decides how training goes on.
        """
        return {f"{_RULE}{name}": value for name, value in self.rule.state_dict().items()}

    def load_state_dict(self, state: Mapping[str, Array | int | float]) -> None:
        """Take over a copy of a state that `state_dict` returned.

        Raises ValueError where names or shapes do not fit.
        """
        self.rule.load_state_dict({name[len(_RULE) :]: value for name, value in state.items() if name.startswith(_RULE)})
        self.load_own_state({name: value for name, value in state.items() if not name.startswith(_RULE)})

    def load_own_state(self, state: Mapping[str, Array | int | float]) -> None:
        """Take over what is not the rule's; most optimizers have nothing of their own."""
        if state:
            raise ValueError(f"{type(self).__name__} has no state but the rule's, got {', '.join(sorted(state))}")
