"""Models and data that several tests train."""

import numpy as np

import nn
from nn.arrays import Array
from nn.value import Value


def classifier(*, seed: int = 0, dtype: str = "float32", dropout: float = 0, width: int = 16) -> nn.model.SequentialModel:
    """Return a small classifier of 8 numbers into 3 classes, set up and compiled with Adam."""
    model = nn.model.SequentialModel(input_shape=[-1, 8], seed=seed, dtype=dtype)
    model.add(nn.layer.Dense(width, activation=nn.activation.Tanh()))
    if dropout:
        model.add(nn.layer.Dropout(dropout))
    model.add(nn.layer.Dense(3, activation=nn.activation.Softmax()))
    model.setup(nn.loss.Cross_Entropy_With_Softmax(), nn.metric.CategoricalAccuracy())
    model.compile(nn.gradient_descent.ADAMOptimizer(0.01))
    return model


def samples(count: int = 100, seed: int = 0) -> tuple[Array, Array]:
    """Return samples whose class is the largest of their first three numbers."""
    x = nn.random.keyed(seed, "samples").standard_normal((count, 8)).astype(np.float32)
    return x, x[:, :3].argmax(axis=1)


class Line(nn.model.Model):
    """w x + b."""

    def __init__(self) -> None:
        super().__init__()
        self.w = nn.Variable(shape=[1, 1])
        self.b = nn.Variable(shape=[1, 1], initializer=nn.initializer.Zeros())

    def call(self, x: Value) -> Value:
        return x * self.w + self.b
