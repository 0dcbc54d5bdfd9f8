"""What an optimizer is: how the gradients of a batch become an update of the parameters."""

from abc import ABC, abstractmethod
from collections.abc import Iterator
from typing import ClassVar

from nn.gradient_descent.interface import IGradientDescent
from nn.optimizer.exchange import Exchange
from nn.value import Variable, VariableStore


class IOptimizer(ABC):
    """One per training process. It owns the rule, and decides what is exchanged and when the rule runs."""

    exchanges: ClassVar[bool] = True
    """Whether it works on what an exchange merges; an optimizer that does not cannot train on several workers."""

    def __init__(self, rule: IGradientDescent, store: VariableStore, exchange: Exchange | None = None) -> None:
        self.rule = rule
        self.store = store
        self.exchange = exchange

    @abstractmethod
    def gradient_ready(self, variable: Variable, block_id: int) -> None:
        """Take note, during backward, that the gradient of a variable for a block is complete."""

    @abstractmethod
    def finish_batch(self) -> Iterator[int]:
        """Update the parameters after the last block of a batch.

        Yields the id of a variable it waits for; the caller resumes when `exchange.ready(id)`. Exhausted means updated.
        """
