"""Activations: functions that keep the shape of their input."""

from typing import TYPE_CHECKING

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
    "ELU", "GELU", "SELU", "Activation", "Exponential", "HTanh", "HardSigmoid", "HardSwish", "LeakReLU", "Linear", "LogSigmoid",
    "LogSoftmax", "Mish", "ReLU", "ReLU6", "SiLU", "Sigmoid", "Softmax", "Softplus", "Softsign", "Tanh",
]  # fmt: skip
__getattr__, __dir__ = lazily(__name__, {
    "activation": "Activation Linear", "gelu": "GELU", "rectifiers": "ELU LeakReLU ReLU ReLU6 SELU Softplus",
    "sigmoids": "Exponential HTanh HardSigmoid HardSwish LogSigmoid LogSoftmax Mish SiLU Sigmoid Softmax Softsign Tanh",
})  # fmt: skip
