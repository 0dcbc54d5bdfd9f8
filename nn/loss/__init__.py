"""Losses: the numbers that training makes small."""

from collections.abc import Mapping
from types import MappingProxyType
from typing import TYPE_CHECKING, Final, Literal, TypeAlias

from nn.lazy import lazily

if TYPE_CHECKING:
    from nn.loss.cross_entropy import Cross_Entropy, Cross_Entropy_With_Softmax
    from nn.loss.decisions import Binary_Cross_Entropy, Binary_Cross_Entropy_Of_Probabilities, Hinge
    from nn.loss.loss import Loss
    from nn.loss.regression import DifferenceLoss, HuberLoss, MAELoss, MSELoss, TanhLoss

__all__ = [
    "Binary_Cross_Entropy",
    "Binary_Cross_Entropy_Of_Probabilities",
    "Cross_Entropy",
    "Cross_Entropy_With_Softmax",
    "DifferenceLoss",
    "Hinge",
    "HuberLoss",
    "Loss",
    "MAELoss",
    "MSELoss",
    "TanhLoss",
]
LossName: TypeAlias = Literal[
    "binary_crossentropy",
    "binary_crossentropy_with_sigmoid",
    "categorical_crossentropy",
    "crossentropy",
    "crossentropy_with_softmax",
    "hinge",
    "huber",
    "mae",
    "mean_absolute_error",
    "mean_squared_error",
    "mse",
    "sparse_categorical_crossentropy",
]
WORDS: Final[Mapping[str, str]] = MappingProxyType(
    {
        "binary_crossentropy": "Binary_Cross_Entropy_Of_Probabilities",
        "binary_crossentropy_with_sigmoid": "Binary_Cross_Entropy",
        "categorical_crossentropy": "Cross_Entropy",
        "crossentropy": "Cross_Entropy",
        "crossentropy_with_softmax": "Cross_Entropy_With_Softmax",
        "hinge": "Hinge",
        "huber": "HuberLoss",
        "mae": "MAELoss",
        "mean_absolute_error": "MAELoss",
        "mean_squared_error": "MSELoss",
        "mse": "MSELoss",
        "sparse_categorical_crossentropy": "Cross_Entropy",
    }
)
"""Words of LossName with the names of their classes, see `nn.names`."""

__getattr__, __dir__ = lazily(
    __name__,
    {
        "cross_entropy": "Cross_Entropy Cross_Entropy_With_Softmax",
        "decisions": "Binary_Cross_Entropy Binary_Cross_Entropy_Of_Probabilities Hinge",
        "loss": "Loss",
        "regression": "DifferenceLoss HuberLoss MAELoss MSELoss TanhLoss",
    },
)
