"""Cross-check of normalisations, embeddings, attention and operations with torch, where it is installed."""

from collections.abc import Callable, Sequence
from typing import Any

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

import nn
from nn import function
from nn.arrays import Array
from nn.random import keyed
from nn.value import Value, Variable
from tests.nn.graphs import Compiled

torch = pytest.importorskip("torch")

PRECISION = {"float32": (1e-5, 1e-4), "float64": (1e-9, 1e-9)}
DTYPES = st.sampled_from(sorted(PRECISION))
SEEDS = st.integers(0, 1000)


def compare(compiled: Compiled, x: Array, reference: Callable[..., Any], others: Sequence[Array] = ()) -> None:
    """Compare value and gradients with those of `reference(x, *variables)`, for a random gradient of the output."""
    dtype = compiled.dtype.name
    forward, backward = PRECISION[dtype]
    x = x.astype(dtype)
    tensors = [torch.tensor(array, requires_grad=True) for array in (x, *(variable.value for variable in compiled.variables))]
    expected = reference(*tensors)
    result = compiled.value(x, training=True)
    np.testing.assert_allclose(result, expected.detach().numpy(), rtol=forward, atol=forward)
    weights = keyed(0, "weights").standard_normal(result.shape).astype(dtype)
    expected.backward(torch.tensor(weights))
    gradient, gradients = compiled.gradients(x, weights)
    for found, tensor in zip([gradient, *gradients], tensors, strict=True):
        # a variable's gradient is a sum over the whole batch: the error of its terms counts relative to the largest
        size = max(1.0, float(np.abs(tensor.grad.numpy()).max()))
        np.testing.assert_allclose(found, tensor.grad.numpy(), rtol=backward, atol=backward * size)


def randomize(compiled: Compiled, seed: int) -> None:
    compiled.store.values[:] = keyed(seed, "values").standard_normal(compiled.store.values.shape)


@settings(max_examples=25, deadline=None, database=None)
@given(
    batch=st.integers(2, 9),
    inner=st.lists(st.integers(1, 5), max_size=2),
    features=st.integers(1, 17),
    dtype=DTYPES,
    seed=SEEDS,
)
def test_batch_norm(batch: int, inner: list[int], features: int, dtype: str, seed: int) -> None:
    layer = nn.layer.BatchNorm(momentum=0.9, epsilon=0.01)
    compiled = Compiled(layer, (*inner, features), dtype)
    randomize(compiled, seed)
    x = keyed(seed, "x").standard_normal((batch, *inner, features)) * 2 + 1
    mean = torch.zeros(features, dtype=getattr(torch, dtype))
    variance = torch.ones_like(mean)

    def reference(x: Any, gamma: Any, beta: Any) -> Any:
        rows = x.reshape(-1, features)
        result = torch.nn.functional.batch_norm(rows, mean, variance, gamma, beta, training=True, momentum=0.1, eps=0.01)
        return result.reshape(x.shape)

    compare(compiled, x, reference)
    compiled.store.apply_changes()
    positions = x.size // features
    corrected = (layer.moving_variance.value - 0.9) * positions / (positions - 1) + 0.9
    np.testing.assert_allclose(layer.moving_mean.value, mean.numpy(), rtol=PRECISION[dtype][0], atol=1e-6)
    np.testing.assert_allclose(corrected, variance.numpy(), rtol=10 * PRECISION[dtype][0])


@settings(max_examples=25, deadline=None, database=None)
@given(
    batch=st.integers(1, 9),
    inner=st.lists(st.integers(1, 5), max_size=2),
    features=st.integers(2, 33),
    dtype=DTYPES,
    seed=SEEDS,
)
def test_layer_norm(batch: int, inner: list[int], features: int, dtype: str, seed: int) -> None:
    compiled = Compiled(nn.layer.LayerNorm(epsilon=0.01), (*inner, features), dtype)
    randomize(compiled, seed)
    x = keyed(seed, "x").standard_normal((batch, *inner, features)) * 2 + 1
    compare(compiled, x, lambda x, gamma, beta: torch.nn.functional.layer_norm(x, (features,), gamma, beta, 0.01))


@settings(max_examples=15, deadline=None, database=None)
@given(
    batch=st.integers(1, 9),
    length=st.integers(1, 7),
    rows=st.integers(1, 20),
    features=st.integers(1, 9),
    dtype=DTYPES,
    seed=SEEDS,
)
def test_embedding(batch: int, length: int, rows: int, features: int, dtype: str, seed: int) -> None:
    compiled = Compiled(nn.layer.Embedding(rows, features), (length,), dtype)
    randomize(compiled, seed)
    x = keyed(seed, "x").integers(0, rows, (batch, length))
    compare(compiled, x, lambda x, table: torch.nn.functional.embedding(x.long(), table) + 0 * x[..., None])


@settings(max_examples=25, deadline=None, database=None)
@given(
    batch=st.integers(1, 5),
    positions=st.integers(1, 9),
    heads=st.integers(1, 4),
    key_dim=st.integers(1, 6),
    causal=st.booleans(),
    dtype=DTYPES,
    seed=SEEDS,
)
def test_multi_head_attention(
    batch: int, positions: int, heads: int, key_dim: int, causal: bool, dtype: str, seed: int
) -> None:
    features = heads * key_dim
    compiled = Compiled(nn.layer.MultiHeadAttention(heads, key_dim, causal=causal), (positions, features), dtype)
    randomize(compiled, seed)
    compiled.store.values *= 0.5
    x = keyed(seed, "x").standard_normal((batch, positions, features))

    def reference(x: Any, *variables: Any) -> Any:
        kernels = [kernel.reshape(features, features) for kernel in variables[::2]]
        biases = [bias.reshape(features) for bias in variables[1::2]]
        mask = torch.triu(torch.ones(positions, positions, dtype=torch.bool), 1) if causal else None
        sequence = x.transpose(0, 1)
        result, _ = torch.nn.functional.multi_head_attention_forward(
            sequence, sequence, sequence, features, heads,
            in_proj_weight=torch.cat([kernel.T for kernel in kernels[:3]]), in_proj_bias=torch.cat(biases[:3]),
            bias_k=None, bias_v=None, add_zero_attn=False, dropout_p=0.0,
            out_proj_weight=kernels[3].T, out_proj_bias=biases[3], attn_mask=mask, need_weights=True,
        )  # fmt: skip
        return result.transpose(0, 1)

    compare(compiled, x, reference)


def test_cross_attention() -> None:
    compiled = Compiled(lambda x: nn.layer.MultiHeadAttention(2, 4)([x[:, :3], x[:, 3:]]), (8, 8))
    randomize(compiled, 1)
    module = torch.nn.MultiheadAttention(8, 2, batch_first=True, dtype=torch.float64)

    def reference(x: Any, *variables: Any) -> Any:
        kernels = [kernel.reshape(8, 8).T for kernel in variables[::2]]
        parameters = {
            "in_proj_weight": torch.cat(kernels[:3]), "in_proj_bias": torch.cat([bias.reshape(8) for bias in variables[1:7:2]]),
            "out_proj.weight": kernels[3], "out_proj.bias": variables[7],
        }  # fmt: skip
        return torch.func.functional_call(module, parameters, (x[:, :3], x[:, 3:], x[:, 3:]))[0]

    compare(compiled, keyed(0, "x").standard_normal((4, 8, 8)), reference)


def doubled(x: Value) -> Value:
    return function.stack([x, x], axis=1).reshape(-1, 2 * x.shape[1], x.shape[2])


OPERATIONS: dict[str, tuple[Callable[[Value], Value], Callable[[Any], Any]]] = {
    "exp log": (lambda x: (x.exp() + 1).log(), lambda x: (x.exp() + 1).log()),
    "sqrt abs": (lambda x: (abs(x) + 1).sqrt(), lambda x: (x.abs() + 1).sqrt()),
    "reductions": (
        lambda x: x.sum(axis=(1, 2), keepdims=True) * x.mean(axis=1, keepdims=True) + x.max(axis=2, keepdims=True),
        lambda x: x.sum((1, 2), keepdim=True) * x.mean(1, keepdim=True) + x.amax(2, keepdim=True),
    ),
    "extremes": (
        lambda x: function.maximum(x, x.min(axis=2, keepdims=True) / 2),
        lambda x: torch.maximum(x, x.amin(2, keepdim=True) / 2),
    ),
    "indices": (lambda x: x[:, ::2, [0, 0]] * x[:, :1, -1, None], lambda x: x[:, ::2, [0, 0]] * x[:, :1, -1, None]),
    "products": (lambda x: x @ x.swapaxes(1, 2) @ x, lambda x: x @ x.transpose(1, 2) @ x),
    "joins": (
        lambda x: function.concatenate([x, x * x], axis=1) * doubled(x),
        lambda x: torch.cat([x, x * x], 1) * torch.cat([x, x], 1),
    ),
    "masks": (
        lambda x: function.where(x > 0.5, x**3, x * (x < -0.5)) / (x**2 + 1),
        lambda x: torch.where(x > 0.5, x**3, x * (x < -0.5)) / (x**2 + 1),
    ),
    "powers": (
        lambda x: (x * x + 0.5) ** 1.5 - 2**x + 1 / (x * x + 1),
        lambda x: (x * x + 0.5) ** 1.5 - 2**x + 1 / (x * x + 1),
    ),
}


@settings(max_examples=60, deadline=None, database=None)
@given(
    name=st.sampled_from(sorted(OPERATIONS)),
    shape=st.tuples(st.integers(1, 6), st.integers(1, 5), st.integers(1, 7)),
    dtype=DTYPES,
    seed=SEEDS,
)
def test_operations(name: str, shape: tuple[int, ...], dtype: str, seed: int) -> None:
    build, reference = OPERATIONS[name]
    compare(Compiled(build, shape[1:], dtype), keyed(seed, "x").standard_normal(shape), reference)


@settings(max_examples=20, deadline=None, database=None)
@given(batch=st.integers(1, 5), axes=st.lists(st.integers(1, 4), min_size=3, max_size=3), dtype=DTYPES, seed=SEEDS)
def test_broadcasting_with_variables(batch: int, axes: list[int], dtype: str, seed: int) -> None:
    a, b, c = axes
    shapes = [(a, 1, c), (b, c), (1, 1, 1, c), (c, 3)]
    variables = [Variable(shape) for shape in shapes]
    u, v, w, kernel = variables

    compiled = Compiled(lambda x: ((x - u) * v / (w * w + 1) + x) @ kernel, (a, b, c), dtype)
    randomize(compiled, seed)
    order = [variables.index(variable) for variable in compiled.variables]

    def reference(x: Any, *tensors: Any) -> Any:
        u, v, w, kernel = (tensors[order.index(place)] for place in range(4))
        return ((x - u) * v / (w * w + 1) + x) @ kernel

    compare(compiled, keyed(seed, "x").standard_normal((batch, a, b, c)), reference)
