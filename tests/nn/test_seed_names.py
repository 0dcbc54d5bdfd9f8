"""Names of version 0.9 that programs still use: they mean what they meant, beside the names of today."""

from __future__ import annotations

import inspect
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import nn
from nn.optimizer import IOptimizer
from nn.optimizer.parallel_sgd import PSGDOptimizer


def test_keywords() -> None:
    convolution: Any = nn.layer.Conv2D
    pool: Any = nn.layer.MaxPool
    given = convolution(strides=[4, 4], padding="VALID", kernel_size=[11, 11], kernel=96)
    assert repr(given) == repr(convolution(96, [11, 11], stride=[4, 4], padding="valid"))
    assert repr(pool(strides=[2, 2], padding="SAME", size=[3, 3])) == repr(pool([3, 3], [2, 2], "same"))
    leaky: Any = nn.activation.LeakReLU
    assert leaky(leak_coefficient=0.2).alpha == 0.2
    adam: Any = nn.gradient_descent.ADAMOptimizer
    assert adam(alpha=1e-4).learn_rate == 1e-4
    dropout: Any = nn.layer.Dropout
    assert (dropout().rate, dropout(drop_out_rate=0.2).rate) == (0.5, 0.2)


def test_a_keyword_counts_once() -> None:
    convolution: Any = nn.layer.Conv2D
    with pytest.raises(TypeError, match="Conv2D 'stride' must be given once, got 'strides' too, which is the same"):
        convolution(8, stride=1, strides=2)
    with pytest.raises(TypeError, match="stridess"):
        convolution(8, stridess=2)
    with pytest.raises(ValueError, match="Conv2D 'stride' must be"):
        convolution(8, strides=0)
    assert list(inspect.signature(convolution).parameters)[:3] == ["kernel", "kernel_size", "stride"]


def test_places() -> None:
    assert nn.IOptimizer is IOptimizer
    assert issubclass(PSGDOptimizer, nn.IOptimizer)
    assert nn.dataset.CIFAR is nn.dataset.CIFAR10


def test_a_network_of_its_shape_trains_and_is_saved(tmp_path: Path) -> None:
    """A small one of the kind that the tests of version 0.9 build."""
    layers: Any = nn.layer
    rectifier: Any = nn.activation.LeakReLU
    rule: Any = nn.gradient_descent.ADAMOptimizer
    model = nn.model.SequentialModel(input_shape=[-1, 12, 12, 3])
    model.add(
        layers.Conv2D(strides=[2, 2], padding="SAME", kernel_size=[3, 3], kernel=4, activation=rectifier(leak_coefficient=0.2))
    )
    model.add(layers.MaxPool(strides=[2, 2], padding="VALID", size=[3, 3]))
    model.add(layers.Flatten())
    model.add(layers.Dropout())
    model.add(layers.Dense(units=3, activation=nn.activation.Softmax()))
    model.setup(nn.loss.Cross_Entropy_With_Softmax(), nn.metric.CategoricalAccuracy())
    model.compile(rule(alpha=0.01))
    x = nn.random.keyed(0, "images").normal(size=(32, 12, 12, 3)).astype(np.float32)
    y = np.eye(3, dtype=np.float32)[np.arange(32) % 3]
    model.fit(x, y, epoch=1, batch_size=16, verbose=0)
    model.save(str(tmp_path / "small.model"))
    loaded = nn.model.Model.load(str(tmp_path / "small.model"))
    np.testing.assert_array_equal(loaded.predict(x), model.predict(x))
