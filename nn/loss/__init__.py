"""Losses: the numbers that training makes small."""

from collections.abc import Mapping
from types import MappingProxyType
from typing import TYPE_CHECKING, Final, Literal, TypeAlias

from nn.lazy import lazily

if TYPE_CHECKING:
    from nn.loss.cross_entropy import Cross_Entropy, Cross_Entropy_With_Softmax
    from nn.loss.ctc import CTC
    from nn.loss.decisions import Binary_Cross_Entropy, Binary_Cross_Entropy_Of_Probabilities, Hinge, SquaredHinge
    from nn.loss.focal import Binary_Focal_Cross_Entropy, Focal_Cross_Entropy_With_Softmax
    from nn.loss.loss import Loss
    from nn.loss.regression import DifferenceLoss, HuberLoss, MAELoss, MSELoss, PoissonLoss, QuantileLoss, TanhLoss
    from nn.loss.similarity import Contrastive, CosineSimilarity, Dice, KLDivergence, Triplet

__all__ = [
    "CTC",
    "Binary_Cross_Entropy",
    "Binary_Cross_Entropy_Of_Probabilities",
    "Binary_Focal_Cross_Entropy",
    "Contrastive",
    "CosineSimilarity",
    "Cross_Entropy",
    "Cross_Entropy_With_Softmax",
    "Dice",
    "DifferenceLoss",
    "Focal_Cross_Entropy_With_Softmax",
    "Hinge",
    "HuberLoss",
    "KLDivergence",
    "Loss",
    "MAELoss",
    "MSELoss",
    "PoissonLoss",
    "QuantileLoss",
    "SquaredHinge",
    "TanhLoss",
    "Triplet",
]
LossName: TypeAlias = Literal[
    "binary_crossentropy",
    "binary_crossentropy_with_sigmoid",
    "binary_focal_crossentropy_with_sigmoid",
    "categorical_crossentropy",
    "categorical_focal_crossentropy_with_softmax",
    "contrastive",
    "cosine_similarity",
    "crossentropy",
    "crossentropy_with_softmax",
    "ctc",
    "dice",
    "hinge",
    "huber",
    "kl_divergence",
    "mae",
    "mean_absolute_error",
    "mean_squared_error",
    "mse",
    "poisson",
    "quantile",
    "sparse_categorical_crossentropy",
    "squared_hinge",
    "triplet",
]
WORDS: Final[Mapping[str, str]] = MappingProxyType(
    {
        "binary_crossentropy": "Binary_Cross_Entropy_Of_Probabilities",
        "binary_crossentropy_with_sigmoid": "Binary_Cross_Entropy",
        "binary_focal_crossentropy_with_sigmoid": "Binary_Focal_Cross_Entropy",
        "categorical_crossentropy": "Cross_Entropy",
        "categorical_focal_crossentropy_with_softmax": "Focal_Cross_Entropy_With_Softmax",
        "contrastive": "Contrastive",
        "cosine_similarity": "CosineSimilarity",
        "crossentropy": "Cross_Entropy",
        "crossentropy_with_softmax": "Cross_Entropy_With_Softmax",
        "ctc": "CTC",
        "dice": "Dice",
        "hinge": "Hinge",
        "huber": "HuberLoss",
        "kl_divergence": "KLDivergence",
        "mae": "MAELoss",
        "mean_absolute_error": "MAELoss",
        "mean_squared_error": "MSELoss",
        "mse": "MSELoss",
        "poisson": "PoissonLoss",
        "quantile": "QuantileLoss",
        "sparse_categorical_crossentropy": "Cross_Entropy",
        "squared_hinge": "SquaredHinge",
        "triplet": "Triplet",
    }
)
"""Words of LossName with the names of their classes, see `nn.names`."""

lazily(
    __name__,
    {
        "cross_entropy": "Cross_Entropy Cross_Entropy_With_Softmax",
        "ctc": "CTC",
        "decisions": "Binary_Cross_Entropy Binary_Cross_Entropy_Of_Probabilities Hinge SquaredHinge",
        "focal": "Binary_Focal_Cross_Entropy Focal_Cross_Entropy_With_Softmax",
        "loss": "Loss",
        "regression": "DifferenceLoss HuberLoss MAELoss MSELoss PoissonLoss QuantileLoss TanhLoss",
        "similarity": "Contrastive CosineSimilarity Dice KLDivergence Triplet",
    },
)
