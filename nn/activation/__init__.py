"""Activations: functions that keep the shape of their input."""

from collections.abc import Mapping
from types import MappingProxyType
from typing import TYPE_CHECKING, Final, Literal, TypeAlias

from nn.lazy import lazily

if TYPE_CHECKING:
    from nn.activation.activation import Activation, Linear
    from nn.activation.gelu import GELU
    from nn.activation.rectifiers import ELU, LeakReLU, ReLU, Softplus
    from nn.activation.sigmoids import HTanh, Sigmoid, SiLU, Softmax, Tanh

__all__ = ["ELU", "GELU", "Activation", "HTanh", "LeakReLU", "Linear", "ReLU", "SiLU", "Sigmoid", "Softmax", "Softplus", "Tanh"]
ActivationName: TypeAlias = Literal[
    "elu", "gelu", "htanh", "leaky_relu", "linear", "relu", "sigmoid", "silu", "softmax", "softplus", "swish", "tanh"
]
WORDS: Final[Mapping[str, str]] = MappingProxyType(
    {
        "elu": "ELU",
        "gelu": "GELU",
        "htanh": "HTanh",
        "leaky_relu": "LeakReLU",
        "linear": "Linear",
        "relu": "ReLU",
        "sigmoid": "Sigmoid",
        "silu": "SiLU",
        "softmax": "Softmax",
        "softplus": "Softplus",
        "swish": "SiLU",
        "tanh": "Tanh",
    }
)
"""Words of ActivationName with the names of their classes, see `nn.names`."""

__getattr__, __dir__ = lazily(
    __name__,
    {
        "activation": "Activation Linear",
        "gelu": "GELU",
        "rectifiers": "ELU LeakReLU ReLU Softplus",
        "sigmoids": "HTanh SiLU Sigmoid Softmax Tanh",
    },
)
