"""Layers: pieces of a model with variables of their own."""

from nn.layer.dense import Dense
from nn.layer.dropout import Dropout
from nn.layer.flatten import Flatten
from nn.layer.layer import Layer
from nn.layer.reshape import Reshape

__all__ = ["Dense", "Dropout", "Flatten", "Layer", "Reshape"]
