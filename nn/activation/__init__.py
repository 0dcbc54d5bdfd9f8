"""Activations: functions that keep the shape of their input."""

from nn.activation.activation import Activation
from nn.activation.linear import Linear
from nn.activation.relu import ReLU
from nn.activation.sigmoid import Sigmoid
from nn.activation.softmax import Softmax
from nn.activation.tanh import Tanh

__all__ = ["Activation", "Linear", "ReLU", "Sigmoid", "Softmax", "Tanh"]
