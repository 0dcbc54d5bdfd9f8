"""Losses: what training makes small."""

from nn.loss.binary_cross_entropy import Binary_Cross_Entropy
from nn.loss.cross_entropy import Cross_Entropy, Cross_Entropy_With_Softmax
from nn.loss.hinge import Hinge
from nn.loss.loss import Loss
from nn.loss.regression import DifferenceLoss, HuberLoss, MAELoss, MSELoss, TanhLoss

__all__ = [
    "Binary_Cross_Entropy", "Cross_Entropy", "Cross_Entropy_With_Softmax", "DifferenceLoss", "Hinge", "HuberLoss", "Loss",
    "MAELoss", "MSELoss", "TanhLoss",
]  # fmt: skip
