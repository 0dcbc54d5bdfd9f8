"""A learning rate that stays."""

from typing import Any

from nn import arguments
from nn.gradient_descent.schedule.schedule import Schedule


class Constant(Schedule):
    """`rate` at every step: what a plain number means, for places that take a schedule only.

    >>> schedule = nn.gradient_descent.Constant(0.1)
    >>> [round(schedule(step), 4) for step in (0, 100)]
    [0.1, 0.1]
    """

    def __init__(self, rate: float) -> None:
        self.rate = arguments.number(self, "rate", rate, 0)

    def __call__(self, step: int) -> float:
        """Return the rate."""
        return self.rate

    def get_config(self) -> dict[str, Any]:
        """Return the constructor's arguments."""
        return {"rate": self.rate}
