"""Activations: functions that keep the shape of their input."""

from typing import TYPE_CHECKING

from nn.lazy import lazily

if TYPE_CHECKING:
    from nn.activation.activation import Activation, Linear
    from nn.activation.gelu import GELU
    from nn.activation.rectifiers import ELU, LeakReLU, ReLU, Softplus
    from nn.activation.sigmoids import HTanh, Sigmoid, SiLU, Softmax, Tanh

__all__ = ["ELU", "GELU", "Activation", "HTanh", "LeakReLU", "Linear", "ReLU", "SiLU", "Sigmoid", "Softmax", "Softplus", "Tanh"]
__getattr__, __dir__ = lazily(__name__, {
    "activation": "Activation Linear", "gelu": "GELU", "rectifiers": "ELU LeakReLU ReLU Softplus",
    "sigmoids": "HTanh SiLU Sigmoid Softmax Tanh",
})  # fmt: skip
