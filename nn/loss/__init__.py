"""Losses: what training makes small."""

from nn.loss.cross_entropy_with_softmax import Cross_Entropy_With_Softmax
from nn.loss.loss import Loss
from nn.loss.mean_square_error import MSELoss

__all__ = ["Cross_Entropy_With_Softmax", "Loss", "MSELoss"]
