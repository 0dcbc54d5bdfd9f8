"""A learning rate that falls by the same factor at every step."""

from nn.gradient_descent.schedule.step_decay import StepDecay


class ExponentialDecay(StepDecay):
    """rate * factor^(step / steps): like `StepDecay`, but smoothly.

    >>> schedule = nn.gradient_descent.ExponentialDecay(0.1, steps=100, factor=0.5)
    >>> [round(schedule(step), 4) for step in (0, 50, 100)]
    [0.1, 0.0707, 0.05]
    """

    def __call__(self, step: int) -> float:
        """Return the rate of a step."""
        return self.rate * float(self.factor ** (step / self.steps))
