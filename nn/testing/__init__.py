"""Tools for authors of layers, operations and losses."""

from nn.testing.gradient_check import GradientError, check_gradients, check_loss_gradient

__all__ = ["GradientError", "check_gradients", "check_loss_gradient"]
