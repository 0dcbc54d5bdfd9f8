"""Losses: what training makes small."""

from nn.loss.binary_cross_entropy import Binary_Cross_Entropy
from nn.loss.cross_entropy import Cross_Entropy
from nn.loss.cross_entropy_with_softmax import Cross_Entropy_With_Softmax
from nn.loss.difference import DifferenceLoss
from nn.loss.hinge import Hinge
from nn.loss.huber import HuberLoss
from nn.loss.loss import Loss
from nn.loss.mean_absolute_error import MAELoss
from nn.loss.mean_square_error import MSELoss
from nn.loss.tanh_loss import TanhLoss

__all__ = [
    "Binary_Cross_Entropy", "Cross_Entropy", "Cross_Entropy_With_Softmax", "DifferenceLoss", "Hinge", "HuberLoss", "Loss",
    "MAELoss", "MSELoss", "TanhLoss",
]  # fmt: skip
