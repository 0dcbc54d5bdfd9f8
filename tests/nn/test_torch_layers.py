"""Cross-check of normalisations, embeddings, attention and operations with torch."""

from collections.abc import Callable
from typing import Any

import nn
from nn import function
from nn.arrays import Array
from nn.random import keyed
from nn.value import Value, Variable
from tests.nn.golden import DTYPES, SEEDS, Answer, Golden, drawn, each, one_of, optional, several, whole
from tests.nn.graphs import Compiled

torch = optional("torch")

PRECISION = {"float32": (1e-5, 1e-4), "float64": (1e-9, 1e-9)}


def compare(
    golden: Golden, compiled: Compiled, x: Array, reference: Callable[..., Any], *extra: Callable[[], Any]
) -> list[Answer]:
    """Compare value and gradients with those of `reference(x, *variables)`, for a random gradient of the output.

    Returns what `extra` gives after that.
    """
    dtype = compiled.dtype.name
    forward, backward = PRECISION[dtype]
    x = x.astype(dtype)
    result = compiled.value(x, training=True)
    weights = keyed(0, "weights").standard_normal(result.shape).astype(dtype)
    inputs = [x, *(variable.value.copy() for variable in compiled.variables)]

    def compute() -> list[Any]:
        tensors = [torch.tensor(array, requires_grad=True) for array in inputs]
        expected = reference(*tensors)
        expected.backward(torch.tensor(weights))
        return [expected, *(tensor.grad for tensor in tensors), *(further() for further in extra)]

    value, *expected = golden(compute, *inputs, weights, needs=torch)
    value.close(result, rtol=forward, atol=forward)
    gradient, gradients = compiled.gradients(x, weights)
    for found, answer in zip([gradient, *gradients], expected, strict=False):
        # a variable's gradient is a sum over the whole batch: the error of its terms counts relative to the largest
        answer.close(found, rtol=backward, atol=backward * max(1.0, answer.largest))
    return expected[len(inputs) :]


def randomize(compiled: Compiled, seed: int) -> None:
    compiled.store.values[:] = keyed(seed, "values").standard_normal(compiled.store.values.shape)


@drawn(10, batch=whole(2, 9), inner=several(whole(1, 5), 0, 2), features=whole(1, 17), dtype=DTYPES, seed=SEEDS)
def test_batch_norm(golden: Golden, batch: int, inner: list[int], features: int, dtype: str, seed: int) -> None:
    layer = nn.layer.BatchNorm(momentum=0.9, epsilon=0.01)
    compiled = Compiled(layer, (*inner, features), dtype)
    randomize(compiled, seed)
    x = keyed(seed, "x").standard_normal((batch, *inner, features)) * 2 + 1
    running: list[Any] = []

    def reference(x: Any, gamma: Any, beta: Any) -> Any:
        mean = torch.zeros(features, dtype=getattr(torch, dtype))
        running[:] = mean, torch.ones_like(mean)
        rows = x.reshape(-1, features)
        result = torch.nn.functional.batch_norm(rows, *running, gamma, beta, training=True, momentum=0.1, eps=0.01)
        return result.reshape(x.shape)

    mean, variance = compare(golden, compiled, x, reference, lambda: running[0], lambda: running[1])
    compiled.store.apply_changes()
    positions = x.size // features
    corrected = (layer.moving_variance.value - 0.9) * positions / (positions - 1) + 0.9
    mean.close(layer.moving_mean.value, rtol=PRECISION[dtype][0], atol=1e-6)
    variance.close(corrected, rtol=10 * PRECISION[dtype][0])


@drawn(10, batch=whole(1, 9), inner=several(whole(1, 5), 0, 2), features=whole(2, 33), dtype=DTYPES, seed=SEEDS)
def test_layer_norm(golden: Golden, batch: int, inner: list[int], features: int, dtype: str, seed: int) -> None:
    compiled = Compiled(nn.layer.LayerNorm(epsilon=0.01), (*inner, features), dtype)
    randomize(compiled, seed)
    x = keyed(seed, "x").standard_normal((batch, *inner, features)) * 2 + 1
    compare(golden, compiled, x, lambda x, gamma, beta: torch.nn.functional.layer_norm(x, (features,), gamma, beta, 0.01))


@drawn(6, batch=whole(1, 9), length=whole(1, 7), rows=whole(1, 20), features=whole(1, 9), dtype=DTYPES, seed=SEEDS)
def test_embedding(golden: Golden, batch: int, length: int, rows: int, features: int, dtype: str, seed: int) -> None:
    compiled = Compiled(nn.layer.Embedding(rows, features), (length,), dtype)
    randomize(compiled, seed)
    x = keyed(seed, "x").integers(0, rows, (batch, length))
    compare(golden, compiled, x, lambda x, table: torch.nn.functional.embedding(x.long(), table) + 0 * x[..., None])


@drawn(
    10,
    batch=whole(1, 5),
    positions=whole(1, 9),
    heads=whole(1, 4),
    key_dim=whole(1, 6),
    causal=one_of(False, True),
    dtype=DTYPES,
    seed=SEEDS,
)
def test_multi_head_attention(
    golden: Golden, batch: int, positions: int, heads: int, key_dim: int, causal: bool, dtype: str, seed: int
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

    compare(golden, compiled, x, reference)


def test_cross_attention(golden: Golden) -> None:
    compiled = Compiled(lambda x: nn.layer.MultiHeadAttention(2, 4)([x[:, :3], x[:, 3:]]), (8, 8))
    randomize(compiled, 1)

    def reference(x: Any, *variables: Any) -> Any:
        kernels = [kernel.reshape(8, 8).T for kernel in variables[::2]]
        parameters = {
            "in_proj_weight": torch.cat(kernels[:3]), "in_proj_bias": torch.cat([bias.reshape(8) for bias in variables[1:7:2]]),
            "out_proj.weight": kernels[3], "out_proj.bias": variables[7],
        }  # fmt: skip
        module = torch.nn.MultiheadAttention(8, 2, batch_first=True, dtype=torch.float64)
        return torch.func.functional_call(module, parameters, (x[:, :3], x[:, 3:], x[:, 3:]))[0]

    compare(golden, compiled, keyed(0, "x").standard_normal((4, 8, 8)), reference)


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


@drawn(30, name=one_of(*sorted(OPERATIONS)), shape=each(whole(1, 6), whole(1, 5), whole(1, 7)), dtype=DTYPES, seed=SEEDS)
def test_operations(golden: Golden, name: str, shape: tuple[int, ...], dtype: str, seed: int) -> None:
    build, reference = OPERATIONS[name]
    compare(golden, Compiled(build, shape[1:], dtype), keyed(seed, "x").standard_normal(shape), reference)


@drawn(8, batch=whole(1, 5), axes=several(whole(1, 4), 3, 3), dtype=DTYPES, seed=SEEDS)
def test_broadcasting_with_variables(golden: Golden, batch: int, axes: list[int], dtype: str, seed: int) -> None:
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

    compare(golden, compiled, keyed(seed, "x").standard_normal((batch, a, b, c)), reference)
