"""Base class of optimizers, which make an update of the parameters from the gradients of a batch; their exchange, which the
engine that connects workers gives them; and the optimizer that trains in one process.
"""

from __future__ import annotations

from abc import abstractmethod
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from numbers import Real
from typing import Any, ClassVar, Protocol

from nn import arguments
from nn.arguments import Settled
from nn.arrays import Array
from nn.extension import HiddenName
from nn.gradient_descent.interface import IGradientDescent, LearningRate
from nn.gradient_descent.schedule import Schedule
from nn.value.store import VariableStore
from nn.value.value import Variable

_RULE = "rule:"


class IOptimizer(
    Settled,
    fixed=("rule", "store", "exchange"),
    settable=("shows_gradients",),
    remedies={"rule": "call compile(optimizer) of the model; the learning rate can be set, optimizer.learning_rate"},
):
    """Optimizer of one training process. It owns the rule, and decides which vectors are exchanged and when the rule runs.

    Args:
        rule: the rule, made for this process.
        store: the parameters and gradients of the model.
        exchange: connection to the other workers; None for an optimizer that trains alone.

    >>> class Halved(nn.optimizer.GDOptimizer):
    ...     def finish_batch(self):
    ...         self.store.gradients *= 0.5
    ...         return super().finish_batch()
    >>> container = nn.optimizer.OpContainer(Halved, nn.gradient_descent.SGDOptimizer, gd_params=(0.1,))
    """

    exchanges: ClassVar[bool] = True
    """Whether it works on the vectors that an exchange merges; an optimizer that does not cannot train on several workers."""

    by_shard: ClassVar[bool] = False
    """Whether it exchanges shards of the parameter vector in place of variables, which only some exchanges do."""

    takes_sums: ClassVar[bool] = False
    """Whether it puts gradients as they stand in the store, so that these may be the sum over two blocks, of which it is told
    the second. The statement of a class does not count for its subclasses: one that can work with sums repeats it."""

    rule: IGradientDescent
    store: VariableStore
    exchange: Exchange | None

    def __init__(self, rule: IGradientDescent, store: VariableStore, exchange: Exchange | None = None) -> None:
        self.rule = rule
        self.store = store
        self.exchange = exchange
        # Clipping by variable and rules such as LAMB must know where each begins, a `KernelDecay` the shapes.
        rule.partition([variable.value.size for variable in store.variables], [variable.shape for variable in store.variables])

    @property
    def learning_rate(self) -> float:
        """The learning rate of the rule, which may be set at any time."""
        return LearningRate(self.rule.learn_rate)

    @learning_rate.setter
    def learning_rate(self, value: float | Schedule) -> None:
        self.rule.learn_rate = value if isinstance(value, Schedule) else arguments.number(self, "learning_rate", value, 0)

    @classmethod
    def admit(cls, rule: IGradientDescent) -> None:
        """Check that it can work with `rule`; raise ValueError naming both where not. Most take any rule."""
        return

    def begin_batch(self) -> None:
        """Do the work that is possible before the first block of a batch is computed; a caller may leave this out."""
        return

    shows_gradients: bool = True
    """Whether the gradients of the store must be those that were applied when a batch is over, as a reader looks at them."""

    @classmethod
    def joins(cls) -> bool:
        """Return whether it puts neighbouring variables as one vector where its exchange has `joined` some.

        `joined` holds the range of the variables that each id stands for. The statement of a class does not count for its
        subclasses: one that can work with vectors defines it again.
        """
        return False

    @abstractmethod
    def gradient_ready(self, variable: Variable, block_id: int) -> None:
        """Take note, during backward, that a gradient is complete.

        Args:
            variable: the variable.
            block_id: id of the block that it is for.
        """

    def buffers_ready(self, block_id: int) -> None:
        """Take note, after backward, that `store.buffer_changes` of the block `block_id` are complete.

        Called where the model has buffers. An optimizer that makes nothing of it applies the changes of the last block.
        """
        return

    @abstractmethod
    def finish_batch(self) -> Iterator[int]:
        """Update the parameters after the last block of a batch, and the buffers by `store.apply_changes()`.

        Yields the id of a variable it waits for; the caller resumes when `exchange.ready(id)`. Exhausted means updated.
        """

    def gather_state(self) -> Iterator[int]:
        """Bring the state together where workers hold parts of it; waits as `finish_batch` does. Most hold all of it."""
        return iter(())

    def state_dict(self) -> dict[str, Array | int | float]:
        """Return the live state between two batches: that of the rule, as `rule:<name>`, and arrays of the optimizer's own.

        With the values of the store and the configuration of the rule this is all that decides how training goes on.
        """
        return {f"{_RULE}{name}": value for name, value in self.rule.state_dict().items()}

    def load_state_dict(self, state: Mapping[str, Array | int | float]) -> None:
        """Take over a copy of a state that `state_dict` returned.

        Raises ValueError where names or shapes do not fit.
        """
        # Each refuses names that it does not know.
        self.rule.load_state_dict({name[len(_RULE) :]: value for name, value in state.items() if name.startswith(_RULE)})
        self.load_own_state({name: value for name, value in state.items() if not name.startswith(_RULE)})

    def load_own_state(self, state: Mapping[str, Array | int | float]) -> None:
        """Take over the `state`, by name, that is not the rule's; most optimizers have none of their own."""
        if state:
            raise ValueError(f"{type(self).__name__} has no state but the rule's, got {', '.join(sorted(state))}")


class Exchange(Protocol):
    """Exchange: it sends vectors that this worker puts and gives back merged ones. One batch at a time; it never blocks.

    In a batch a variable is put for each of the worker's blocks and then got, or neither: an optimizer need not exchange in
    every batch, but all workers do in the same ones. The buffers, if the model has any, are one more vector under the id after
    the last variable's: how a block wants them changed, or where parameters are put, their values. The result is the mean over
    blocks, also where the variables are merged in another way.

    >>> class Alone:  # one worker with one block: it gets the content that it puts
    ...     def __init__(self):
    ...         self.contents = {}
    ...     def put(self, variable_id, block_id, content):
    ...         self.contents[variable_id] = content
    ...     def ready(self, variable_id):
    ...         return variable_id in self.contents
    ...     def get(self, variable_id):
    ...         return self.contents.pop(variable_id)
    >>> exchange: nn.optimizer.Exchange = Alone()
    """

    def put(self, variable_id: int, block_id: int, content: Array) -> None:
        """Take the content of one variable for one block.

        Args:
            variable_id: id of the variable.
            block_id: id of the block.
            content: the content, which stays unchanged until the batch is finished.
        """

    def ready(self, variable_id: int) -> bool:
        """Return whether the merged result of a variable is there."""

    def get(self, variable_id: int) -> Array:
        """Return the merged result of a variable that is ready; read it before the next batch."""


class GDOptimizer(IOptimizer):
    """Gradient descent with the gradients of this process; it waits for no worker.

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
        self.rule.update(self.store.values, self.store.gradients)
        # Behind the rule, because constraints bring the new parameters back.
        self.store.apply_changes()
        return iter(())


@dataclass(frozen=True)
class OpContainer:
    """An optimizer type, a rule type and the rule's arguments, for `compile` and for workers that make both anew.

    Args:
        op_type: class of the optimizer.
        gd_type: class of the rule.
        gd_params: arguments of the rule: a tuple, the learning rate first, or a dict by name.

    >>> gd, op = nn.gradient_descent, nn.optimizer
    >>> op.OpContainer(op.GDOptimizer, gd.ADAMOptimizer, gd_params=(1e-3,)).rule().learn_rate
    0.001
    >>> op.OpContainer(op.PSGDOptimizer, gd.SGDOptimizer, {"learn_rate": gd.Cosine(0.1, 500), "clip_norm": 1}).rule().clip_norm
    1.0
    """

    op_type: type[IOptimizer]
    gd_type: type[IGradientDescent]
    gd_params: tuple[Any, ...] | Mapping[str, Any] = ()

    def __post_init__(self) -> None:
        for name, kind in (("op_type", IOptimizer), ("gd_type", IGradientDescent)):
            value = getattr(self, name)
            if not (isinstance(value, type) and issubclass(value, kind)):
                raise TypeError(f"OpContainer '{name}' must be a class derived from {kind.__name__}, got {value!r}")
        if not isinstance(self.gd_params, (tuple, list, Mapping)):
            hint = f"; write ({self.gd_params!r},)" if isinstance(self.gd_params, Real) else ""
            raise TypeError(f"'gd_params' must be a tuple of arguments or a dict of them, got {self.gd_params!r}{hint}")

    def rule(self) -> IGradientDescent:
        """Return a new rule; raise TypeError where the parameters do not suit it."""
        given = self.gd_params
        try:
            # A new rule for each call: it keeps state.
            return self.gd_type(**given) if isinstance(given, Mapping) else self.gd_type(*given)
        # A TypeError, too, but it tells of the class and not of the parameters.
        except HiddenName:
            raise
        except TypeError as error:
            raise TypeError(f"{self.gd_type.__name__} cannot be built from gd_params={given!r}: {error}") from error

    def build(self, store: VariableStore, exchange: Exchange | None = None) -> IOptimizer:
        """Return a new optimizer with a new rule, for one training process.

        Args:
            store: the parameters and gradients of the model.
            exchange: connection to the other workers; None for an optimizer that trains alone.
        """
        return self.op_type(self.rule(), store, exchange)
