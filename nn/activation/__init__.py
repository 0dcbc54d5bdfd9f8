"""Activations: functions that keep the shape of their input."""

from nn.activation.activation import Activation
from nn.activation.elu import ELU
from nn.activation.gelu import GELU
from nn.activation.hard_tanh import HTanh
from nn.activation.leaky_relu import LeakReLU
from nn.activation.linear import Linear
from nn.activation.relu import ReLU
from nn.activation.sigmoid import Sigmoid
from nn.activation.silu import SiLU
from nn.activation.softmax import Softmax
from nn.activation.softplus import Softplus
from nn.activation.tanh import Tanh

__all__ = [
    "ELU", "GELU", "Activation", "HTanh", "LeakReLU", "Linear", "ReLU", "SiLU", "Sigmoid", "Softmax", "Softplus", "Tanh",
]  # fmt: skip
