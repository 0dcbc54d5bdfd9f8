"""Losses: the numbers that training makes small."""

from typing import TYPE_CHECKING

from nn.lazy import lazily

if TYPE_CHECKING:
    from nn.loss.cross_entropy import Cross_Entropy, Cross_Entropy_With_Softmax
    from nn.loss.decisions import Binary_Cross_Entropy, Binary_Cross_Entropy_Of_Probabilities, Hinge
    from nn.loss.loss import Loss
    from nn.loss.regression import DifferenceLoss, HuberLoss, MAELoss, MSELoss, TanhLoss

__all__ = [
    "Binary_Cross_Entropy", "Binary_Cross_Entropy_Of_Probabilities", "Cross_Entropy", "Cross_Entropy_With_Softmax",
    "DifferenceLoss", "Hinge", "HuberLoss", "Loss", "MAELoss", "MSELoss", "TanhLoss",
]  # fmt: skip
__getattr__, __dir__ = lazily(__name__, {
    "cross_entropy": "Cross_Entropy Cross_Entropy_With_Softmax",
    "decisions": "Binary_Cross_Entropy Binary_Cross_Entropy_Of_Probabilities Hinge",
    "loss": "Loss", "regression": "DifferenceLoss HuberLoss MAELoss MSELoss TanhLoss",
})  # fmt: skip
