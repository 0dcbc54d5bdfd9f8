"""Activations: functions that keep the shape of their input."""

from nn.activation.activation import Activation, Linear
from nn.activation.gelu import GELU
from nn.activation.rectifiers import ELU, LeakReLU, ReLU, Softplus
from nn.activation.sigmoids import HTanh, Sigmoid, SiLU, Softmax, Tanh

__all__ = [
    "ELU", "GELU", "Activation", "HTanh", "LeakReLU", "Linear", "ReLU", "SiLU", "Sigmoid", "Softmax", "Softplus", "Tanh",
]  # fmt: skip
