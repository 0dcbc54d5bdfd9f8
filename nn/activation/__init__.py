"""Activations: functions that keep the shape of their input."""

from collections.abc import Mapping
from types import MappingProxyType
from typing import TYPE_CHECKING, Final, Literal, TypeAlias

from nn.lazy import lazily

if TYPE_CHECKING:
    from nn.activation.activation import Activation, Linear
    from nn.activation.gelu import GELU
    from nn.activation.rectifiers import ELU, SELU, LeakReLU, ReLU, ReLU6, Softplus
    from nn.activation.sigmoids import (
        Exponential,
        HardSigmoid,
        HardSwish,
        HTanh,
        LogSigmoid,
        LogSoftmax,
        Mish,
        Sigmoid,
        SiLU,
        Softmax,
        Softsign,
        Tanh,
    )

__all__ = [
    "ELU",
    "GELU",
    "SELU",
    "Activation",
    "Exponential",
    "HTanh",
    "HardSigmoid",
    "HardSwish",
    "LeakReLU",
    "Linear",
    "LogSigmoid",
    "LogSoftmax",
    "Mish",
    "ReLU",
    "ReLU6",
    "SiLU",
    "Sigmoid",
    "Softmax",
    "Softplus",
    "Softsign",
    "Tanh",
]
ActivationName: TypeAlias = Literal[
    "elu",
    "exponential",
    "gelu",
    "hard_sigmoid",
    "hard_silu",
    "hard_swish",
    "hard_tanh",
    "htanh",
    "leaky_relu",
    "linear",
    "log_sigmoid",
    "log_softmax",
    "mish",
    "relu",
    "relu6",
    "selu",
    "sigmoid",
    "silu",
    "softmax",
    "softplus",
    "softsign",
    "swish",
    "tanh",
]
WORDS: Final[Mapping[str, str]] = MappingProxyType(
    {
        "elu": "ELU",
        "exponential": "Exponential",
        "gelu": "GELU",
        "hard_sigmoid": "HardSigmoid",
        "hard_silu": "HardSwish",
        "hard_swish": "HardSwish",
        "hard_tanh": "HTanh",
        "htanh": "HTanh",
        "leaky_relu": "LeakReLU",
        "linear": "Linear",
        "log_sigmoid": "LogSigmoid",
        "log_softmax": "LogSoftmax",
        "mish": "Mish",
        "relu": "ReLU",
        "relu6": "ReLU6",
        "selu": "SELU",
        "sigmoid": "Sigmoid",
        "silu": "SiLU",
        "softmax": "Softmax",
        "softplus": "Softplus",
        "softsign": "Softsign",
        "swish": "SiLU",
        "tanh": "Tanh",
    }
)
"""Words of ActivationName with the names of their classes, see `nn.names`."""

lazily(
    __name__,
    {
        "activation": "Activation Linear",
        "gelu": "GELU",
        "rectifiers": "ELU LeakReLU ReLU ReLU6 SELU Softplus",
        "sigmoids": "Exponential HTanh HardSigmoid HardSwish LogSigmoid LogSoftmax Mish SiLU Sigmoid Softmax Softsign Tanh",
    },
)
