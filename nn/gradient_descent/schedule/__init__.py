"""Learning-rate schedules: what a rule takes in place of a number."""

from nn.gradient_descent.schedule.constant import Constant
from nn.gradient_descent.schedule.cosine import Cosine
from nn.gradient_descent.schedule.exponential_decay import ExponentialDecay
from nn.gradient_descent.schedule.schedule import Schedule
from nn.gradient_descent.schedule.step_decay import StepDecay
from nn.gradient_descent.schedule.warm_up import WarmUp

__all__ = ["Constant", "Cosine", "ExponentialDecay", "Schedule", "StepDecay", "WarmUp"]
