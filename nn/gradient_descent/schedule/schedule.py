"""What a schedule of learning rates is."""

from abc import ABC, abstractmethod

from nn.configurable import Configurable


class Schedule(Configurable, ABC):
    """A learning rate as a function of the steps done, given to a rule in place of a number: `SGDOptimizer(Cosine(0.1, 500))`.

    It holds no state: the step count is the rule's, and is saved with it.
    """

    @abstractmethod
    def __call__(self, step: int) -> float:
        """Return the learning rate, >= 0, of the step before which `step` steps were done; the first has 0."""
