"""Cross-check with torch: values, gradients and training."""

from collections.abc import Callable
from typing import Any

import numpy as np
import pytest

import nn
from nn.arrays import Array
from nn.random import keyed
from tests.nn.golden import DTYPES, SEEDS, Golden, drawn, optional, whole
from tests.nn.graphs import Compiled

torch = optional("torch")

ACTIVATIONS: list[tuple[nn.activation.Activation, Callable[..., Any]]] = [
    (nn.activation.Linear(), lambda x: x),
    (nn.activation.Tanh(), torch.tanh),
    (nn.activation.Sigmoid(), torch.sigmoid),
    (nn.activation.ReLU(), torch.relu),
    (nn.activation.Softmax(), lambda x: torch.softmax(x, -1)),
]
PRECISION = {"float32": (1e-5, 1e-4), "float64": (1e-9, 1e-9)}


@drawn(
    20,
    batch=whole(1, 9),
    features=whole(1, 17),
    units=whole(1, 13),
    place=whole(0, len(ACTIVATIONS) - 1),
    dtype=DTYPES,
    seed=SEEDS,
)
def test_dense_with_every_activation(
    golden: Golden, batch: int, features: int, units: int, place: int, dtype: str, seed: int
) -> None:
    activation, reference = ACTIVATIONS[place]
    generator = keyed(seed, "torch")
    layer = nn.layer.Dense(units, activation=activation)
    compiled = Compiled(layer, (features,), dtype)
    compiled.store.values[:] = generator.standard_normal(compiled.store.values.shape)
    x = generator.standard_normal((batch, features)).astype(dtype)
    weights = generator.standard_normal((batch, units)).astype(dtype)
    forward, backward = PRECISION[dtype]

    def compute() -> list[Any]:
        tensors = [torch.tensor(array, requires_grad=True) for array in inputs]
        expected = reference(tensors[0] @ tensors[1] + tensors[2])
        expected.backward(torch.tensor(weights))
        return [expected, *(tensor.grad for tensor in tensors)]

    inputs = (x, layer.kernel.value, layer.bias.value)
    value, *expected = golden(compute, *inputs, weights, needs=torch)
    value.close(compiled.value(x, training=True), rtol=forward, atol=forward)
    for_x, for_variables = compiled.gradients(x, weights)
    for found, gradient in zip((for_x, *for_variables), expected, strict=True):
        gradient.close(found, rtol=backward, atol=backward)


@pytest.mark.parametrize("rows", [False, True], ids=["class numbers", "rows"])
def test_cross_entropy(golden: Golden, rows: bool) -> None:
    generator = keyed(0, "torch")
    score = generator.standard_normal((7, 5)) * 30
    label = generator.dirichlet(np.ones(5), 7) if rows else generator.integers(0, 5, 7)
    loss, gradient = nn.loss.Cross_Entropy_With_Softmax(), np.empty_like(score)
    prepared = loss.prepare(label, score.shape, score.dtype)
    loss.allocate(score.shape, score.dtype)

    def compute() -> list[Any]:
        tensor = torch.tensor(score, requires_grad=True)
        expected = torch.nn.functional.cross_entropy(tensor, torch.tensor(label))
        expected.backward()
        return [expected, tensor.grad]

    value, expected = golden(compute, score, label, needs=torch)
    value.close(loss.value(prepared, score), rtol=1e-12)
    loss.gradient(prepared, score, gradient)
    expected.close(gradient, rtol=1e-12, atol=1e-15)


def test_training_a_whole_network(golden: Golden) -> None:
    generator = keyed(1, "torch")
    x, y = generator.standard_normal((96, 12)), generator.integers(0, 4, 96)
    model = nn.model.SequentialModel([-1, 12], dtype="float64")
    model.add(nn.layer.Dense(20, activation=nn.activation.Tanh()))
    model.add(nn.layer.Dense(4, activation=nn.activation.Softmax()))
    model.setup(nn.loss.Cross_Entropy_With_Softmax())
    model.compile(nn.gradient_descent.ADAMOptimizer(0.01))

    def compute() -> list[Any]:
        network = torch.nn.Sequential(torch.nn.Linear(12, 20), torch.nn.Tanh(), torch.nn.Linear(20, 4)).double()
        for place, variable in zip((0, 0, 2, 2), model.trainable_variables(), strict=True):
            name = "weight" if variable.value.ndim == 2 else "bias"
            value: Array = variable.value.T.copy() if variable.value.ndim == 2 else variable.get_value()
            setattr(network[place], name, torch.nn.Parameter(torch.tensor(value)))
        optimizer = torch.optim.Adam(network.parameters(), lr=0.01)
        inputs, labels = torch.tensor(x), torch.tensor(y)
        for _ in range(5):
            for start in range(0, 96, 16):
                optimizer.zero_grad()
                part = slice(start, start + 16)
                torch.nn.functional.cross_entropy(network(inputs[part]), labels[part]).backward()
                optimizer.step()
        return [torch.softmax(network(inputs), -1)]

    [expected] = golden(compute, x, y, model.store.values, needs=torch)
    model.fit(x, y, epoch=5, batch_size=16, shuffle=False, verbose=0)
    expected.close(model.predict(x), rtol=1e-6)
