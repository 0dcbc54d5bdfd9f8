"""Small networks that tests train."""

from __future__ import annotations

import nn
from nn.model import Model, SequentialModel


def mlp(dropout: float = 0.0, units: int = 32) -> Model:
    model = SequentialModel(input_shape=[-1, 64], seed=5)
    model.add(nn.layer.Dense(units, activation=nn.activation.Tanh()))
    if dropout:
        model.add(nn.layer.Dropout(dropout))
    model.add(nn.layer.Dense(units, activation=nn.activation.Tanh()))
    model.add(nn.layer.Dense(10, activation=nn.activation.Softmax()))
    model.setup(nn.loss.Cross_Entropy_With_Softmax(), nn.metric.CategoricalAccuracy())
    return model
