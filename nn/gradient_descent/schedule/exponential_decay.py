"""A learning rate that falls by the same factor at every step."""

from nn.gradient_descent.schedule.step_decay import StepDecay


class ExponentialDecay(StepDecay):
    """rate * factor^(step / steps): like `StepDecay`, but smoothly."""

    def __call__(self, step: int) -> float:
        """Return the rate of a step."""
        return self.rate * float(self.factor ** (step / self.steps))
