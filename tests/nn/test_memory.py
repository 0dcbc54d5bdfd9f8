"""After the first step of training nothing is allocated that grows with the batch."""

from collections.abc import Callable

import numpy as np
import pytest

import nn
from nn import function
from nn.layer import GRU, LSTM, AveragePool, Conv2D, Dense, GlobalAveragePool, MaxPool, MultiHeadAttention, SimpleRNN
from nn.random import keyed
from nn.value import Value
from tests.nn.graphs import Compiled


def everything(x: Value) -> Value:
    """One of each operation, between others, on large arrays."""
    y = function.concatenate([x.exp(), (abs(x) + 1).log(), (x * x + 1).sqrt()], axis=1)
    y = function.maximum(y, x.mean(axis=1, keepdims=True)) - y.max(axis=2, keepdims=True)
    y = (
        function.where(y > -1, y, y**2) * (y <= 3)
        + (y * y + 1) ** 1.5
        + (1 + x.swapaxes(1, 2).sum(axis=(1, 2), keepdims=True)) ** 2
    )
    attended = y @ y.swapaxes(1, 2)
    return function.minimum(attended[:, 1:, ::2], 5) / 3 - attended[:, :-1, [3, 0] * 15]


def attention(x: Value) -> Value:
    y = nn.layer.Embedding(50, 32)(x)
    y = nn.layer.LayerNorm()(nn.layer.Add()([y, MultiHeadAttention(4, 8, causal=True)(y)]))
    return nn.layer.BatchNorm()(nn.layer.Concatenate()([y, Dense(16)(y)]))


def convolution(x: Value) -> Value:
    relu = nn.activation.ReLU()
    y = MaxPool()(Conv2D(16, padding="same", activation=relu)(x))
    return Dense(4)(GlobalAveragePool()(AveragePool()(Conv2D(16, activation=relu)(y))))


@pytest.mark.parametrize(
    ("build", "shape", "limit"),
    [
        # one result has 327,680 bytes, the weights of the attention 1,638,400; a NumPy function buffers 32,768 for each operand
        (attention, (64, 40), 110_000),
        # the activations take 5 MB
        (convolution, (64, 24, 24, 1), 150_000),
        # x has 384,000 bytes, a mask 96,000; a NumPy function that converts types buffers 32,768 for each operand
        (everything, (300, 20, 16), 90_000),
        # the output has 163,840 bytes; NumPy takes 8192 elements where it adds a transposed array
        *((kind(64, return_sequences=True), (32, 20, 16), 40_000) for kind in (SimpleRNN, LSTM, GRU)),
    ],
)
def test_nothing_grows(build: Callable[[Value], Value], shape: tuple[int, ...], limit: int) -> None:
    generator = keyed(0, "memory")
    x = generator.integers(0, 50, shape) if build is attention else generator.standard_normal(shape)
    peak = Compiled(build, shape[1:], np.float32).peak(x)
    assert peak < limit, f"{peak} bytes"
