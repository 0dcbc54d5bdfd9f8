"""A learning rate that rises before another schedule begins."""

from typing import Any

from nn import arguments
from nn.gradient_descent.schedule.constant import Constant
from nn.gradient_descent.schedule.schedule import Schedule


class WarmUp(Schedule):
    """A straight line from `start` to the first rate of `then` in `steps` steps, then `then` from its beginning.

    start + (then(0) - start) * step / steps  for step < steps, after that  then(step - steps)  (Goyal et al., 2017). `then`
    is a schedule or a number. With start = 0 the first step changes no parameter but fills the averages of the rule.

    >>> schedule = nn.gradient_descent.WarmUp(nn.gradient_descent.Cosine(0.1, steps=100), steps=10)
    >>> [round(schedule(step), 4) for step in (0, 5, 10, 110)]
    [0.0, 0.05, 0.1, 0.0]
    """

    def __init__(self, then: float | Schedule, steps: int, start: float = 0.0) -> None:
        self.then: Schedule = then if isinstance(then, Schedule) else Constant(arguments.number(self, "then", then, 0))
        self.steps = arguments.integer(self, "steps", steps, minimum=1)
        self.start = arguments.number(self, "start", start, 0)

    def __call__(self, step: int) -> float:
        """Return the rate of a step."""
        if step >= self.steps:
            return self.then(step - self.steps)
        return self.start + (self.then(0) - self.start) * step / self.steps

    def get_config(self) -> dict[str, Any]:
        """Return the constructor's arguments."""
        return {"then": self.then, "steps": self.steps, "start": self.start}
