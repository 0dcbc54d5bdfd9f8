"""A learning rate that falls in steps."""

from typing import Any

from nn import arguments
from nn.gradient_descent.schedule.schedule import Schedule


class StepDecay(Schedule):
    """rate * factor^floor(step / steps): the rate is multiplied by `factor` after every `steps` steps.

    >>> schedule = nn.gradient_descent.StepDecay(0.1, steps=100, factor=0.5)
    >>> [round(schedule(step), 4) for step in (0, 99, 100, 200)]
    [0.1, 0.1, 0.05, 0.025]
    """

    def __init__(self, rate: float, steps: int, factor: float = 0.1) -> None:
        self.rate = arguments.number(self, "rate", rate, 0)
        self.steps = arguments.integer(self, "steps", steps, minimum=1)
        self.factor = arguments.number(self, "factor", factor, 0)
        if self.factor > 1:
            raise ValueError(f"{type(self).__name__} 'factor' must be a number from 0 to 1, got {factor}")

    def __call__(self, step: int) -> float:
        """Return the rate of a step."""
        return self.rate * float(self.factor ** (step // self.steps))

    def get_config(self) -> dict[str, Any]:
        """Return the constructor's arguments."""
        return {"rate": self.rate, "steps": self.steps, "factor": self.factor}
