"""What a schedule of learning rates is."""

from abc import ABC, abstractmethod

from nn.configurable import Configurable


class Schedule(Configurable, ABC):
    """A learning rate as a function of the steps done, given to a rule in place of a number: `SGDOptimizer(Cosine(0.1, 500))`.

    It holds no state: the step count is the rule's, and is saved with it.

    >>> class InverseRoot(nn.gradient_descent.Schedule):
    ...     def __call__(self, step):
    ...         return 0.1 / (1 + step) ** 0.5
    >>> nn.gradient_descent.SGDOptimizer(InverseRoot()).learn_rate
    0.1
    """

    @abstractmethod
    def __call__(self, step: int) -> float:
        """Return the learning rate, >= 0, of the step before which `step` steps were done; the first has 0."""
