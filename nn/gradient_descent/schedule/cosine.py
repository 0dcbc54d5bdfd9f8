"""A learning rate that falls along half a wave."""

import math
from typing import Any

from nn import arguments
from nn.gradient_descent.schedule.schedule import Schedule


class Cosine(Schedule):
    """final + (rate - final) * (1 + cos(pi * step / steps)) / 2 up to `steps`, then `final` (Loshchilov and Hutter, 2017).

    >>> schedule = nn.gradient_descent.Cosine(0.1, steps=100)
    >>> [round(schedule(step), 4) for step in (0, 50, 100)]
    [0.1, 0.05, 0.0]
    """

    def __init__(self, rate: float, steps: int, final: float = 0.0) -> None:
        self.rate = arguments.number(self, "rate", rate, 0)
        self.steps = arguments.integer(self, "steps", steps, minimum=1)
        self.final = arguments.number(self, "final", final, 0)

    def __call__(self, step: int) -> float:
        """Return the rate of a step."""
        if step >= self.steps:
            return self.final
        return self.final + (self.rate - self.final) * (1 + math.cos(math.pi * step / self.steps)) / 2

    def get_config(self) -> dict[str, Any]:
        """Return the constructor's arguments."""
        return {"rate": self.rate, "steps": self.steps, "final": self.final}
