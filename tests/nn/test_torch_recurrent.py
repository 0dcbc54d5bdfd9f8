"""Cross-check of the recurrent layers with torch: values and all gradients over random shapes."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

import numpy as np
import pytest

import nn
from nn.arrays import Array
from nn.random import keyed
from tests.nn.golden import DTYPES, SEEDS, Golden, drawn, one_of, optional, whole
from tests.nn.graphs import Compiled

torch = optional("torch")

PRECISION = {"float32": (1e-5, 1e-4), "float64": (1e-9, 1e-9)}


def swapped(array: Array) -> Array:
    """Blocks of the last axis in the other order of the first two gates: torch's GRU has reset before update."""
    first, second, third = np.split(array, 3, axis=-1)
    return np.concatenate([second, first, third], axis=-1)


def same(array: Array) -> Array:
    return array


KINDS: dict[str, tuple[Callable[..., nn.layer.Recurrent], Callable[..., Any], Callable[[Array], Array]]] = {
    "SimpleRNN": (nn.layer.SimpleRNN, torch.nn.RNN, same),
    "SimpleRNN ReLU": (
        lambda *args, **keywords: nn.layer.SimpleRNN(*args, activation=nn.activation.ReLU(), **keywords),
        lambda *args, **keywords: torch.nn.RNN(*args, nonlinearity="relu", **keywords),
        same,
    ),
    "LSTM": (nn.layer.LSTM, torch.nn.LSTM, same),
    "GRU": (nn.layer.GRU, torch.nn.GRU, swapped),
}


def torch_biases(layer: nn.layer.Recurrent) -> list[Array]:
    """Keras's GRU has both biases of torch; the others have one, so the other is 0."""
    values = layer.bias.value
    return list(values) if values.ndim == 2 else [values, np.zeros_like(values)]


def load(network: Any, order: Callable[[Array], Array], layer: nn.layer.Recurrent) -> None:
    """Give the weights of a layer to torch's."""
    parameters = [order(layer.kernel.value).T, order(layer.recurrent_kernel.value).T]
    if layer.use_bias:
        parameters += [order(values) for values in torch_biases(layer)]
    with torch.no_grad():
        for parameter, values in zip(network.parameters(), parameters, strict=True):
            parameter.copy_(torch.tensor(values.copy()))


def gradients(network: Any, order: Callable[[Array], Array], layer: nn.layer.Recurrent) -> Sequence[Array]:
    """Return torch's gradients in the shapes and the order of the layer's variables."""
    found = [parameter.grad.numpy() for parameter in network.parameters()]
    result = [order(found[0].T), order(found[1].T)]
    if layer.use_bias:
        two = layer.bias.value.ndim == 2
        result.append(np.stack([order(found[2]), order(found[3])]) if two else found[2])
    return result


@drawn(
    32,
    kind=one_of(*sorted(KINDS)),
    batch=whole(1, 9),
    time=whole(1, 12),
    features=whole(1, 9),
    units=whole(1, 11),
    sequences=one_of(False, True),
    use_bias=one_of(False, True),
    dtype=DTYPES,
    seed=SEEDS,
)
def test_values_and_gradients(
    golden: Golden,
    kind: str,
    batch: int,
    time: int,
    features: int,
    units: int,
    sequences: bool,
    use_bias: bool,
    dtype: str,
    seed: int,
) -> None:
    make, reference, order = KINDS[kind]
    generator = keyed(seed, "torch")
    layer = make(units, return_sequences=sequences, use_bias=use_bias)
    compiled = Compiled(layer, (time, features), dtype)
    store = compiled.store
    store.values[:] = generator.standard_normal(store.values.shape) / np.sqrt(units)
    x = generator.standard_normal((batch, time, features)).astype(dtype)
    forward, backward = PRECISION[dtype]

    weights = generator.standard_normal((batch, time, units) if sequences else (batch, units)).astype(dtype)

    def compute() -> list[Any]:
        network = reference(features, units, batch_first=True, bias=use_bias, dtype=getattr(torch, dtype))
        load(network, order, layer)
        tensor = torch.tensor(x, requires_grad=True)
        everything, _ = network(tensor)
        expected = everything if sequences else everything[:, -1]
        expected.backward(torch.tensor(weights))
        return [expected, tensor.grad, *gradients(network, order, layer)]

    value, *wanted = golden(compute, x, weights, store.values, needs=torch)
    value.close(compiled.value(x, training=True), rtol=forward, atol=forward)
    for_x, for_variables = compiled.gradients(x, weights)
    for found, other in zip([for_x, *for_variables], wanted, strict=True):
        other.close(found, rtol=backward, atol=backward * max(1.0, other.largest))


@pytest.mark.parametrize("kind", ["SimpleRNN", "LSTM", "GRU"])
def test_a_batch_as_large_as_in_training(golden: Golden, kind: str) -> None:
    """Long enough for several windows of backward."""
    make, reference, order = KINDS[kind]
    generator = keyed(1, "torch")
    layer = make(32, return_sequences=True)
    compiled = Compiled(layer, (20, 12))
    x, weights = generator.standard_normal((64, 20, 12)), generator.standard_normal((64, 20, 32))

    def compute() -> list[Any]:
        network = reference(12, 32, batch_first=True, dtype=torch.float64)
        load(network, order, layer)
        expected, _ = network(torch.tensor(x))
        expected.backward(torch.tensor(weights))
        return [expected, *gradients(network, order, layer)]

    value, *wanted = golden(compute, x, weights, *(variable.value for variable in layer.variables), needs=torch)
    value.close(compiled.value(x, training=True), rtol=1e-9, atol=1e-9)
    for found, other in zip(compiled.gradients(x, weights)[1], wanted, strict=True):
        other.close(found, rtol=1e-9, atol=1e-9)
