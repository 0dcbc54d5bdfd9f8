"""Network that calibrations and plans take where none is given."""

from __future__ import annotations

import nn
from nn.model import Model, SequentialModel


def usual_model(inputs: int = 784, classes: int = 10) -> Model:
    """Return the network that is taken where none is given: 118,282 parameters for images of 28 x 28 and 10 classes.

    Args:
        inputs: numbers of a sample.
        classes: number of classes.
    """
    model = SequentialModel(input_shape=[-1, inputs])
    for units in (128, 128):
        model.add(nn.layer.Dense(units, activation="tanh"))
    model.add(nn.layer.Dense(classes, activation="softmax"))
    model.setup(nn.loss.Cross_Entropy_With_Softmax(), nn.metric.CategoricalAccuracy())
    return model
