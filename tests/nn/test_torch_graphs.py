"""Cross-check with torch of all that a graph computes: values, and the gradients of the input and of every variable."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable
from types import SimpleNamespace
from typing import Any

import numpy as np
import pytest

import nn
from nn import activation, function, layer
from nn.arrays import Array
from nn.model import Model, ResNet20, Transformer
from nn.random import keyed
from nn.value import Value, Variable
from tests.nn.golden import DTYPES, SEEDS, Answer, Golden, drawn, each, one_of, optional, several, whole
from tests.nn.graphs import Compiled

torch = optional("torch")
functional = torch.nn.functional
PRECISION = {"float32": (1e-5, 1e-4), "float64": (1e-9, 1e-9)}
"""Largest error of values and of gradients, relative to the largest number."""


def compare(
    golden: Golden,
    case: SimpleNamespace,
    build: Callable[[Value], Value],
    shape: tuple[int, ...],
    reference: Callable[..., Any],
    *,
    x: Array | None = None,
    scale: float = 1.0,
) -> Compiled:
    """Compare with `reference(x, *variables)`, for random variables and a random gradient of the output."""
    compiled, generator = Compiled(build, shape[1:], case.dtype), keyed(case.seed, "torch")
    compiled.store.values[:] = scale * generator.standard_normal(compiled.store.values.shape)
    x = (generator.standard_normal(shape) if x is None else x).astype(case.dtype)
    result = compiled.value(x, training=True)
    weights = generator.standard_normal(result.shape).astype(case.dtype)
    inputs = [x, *(variable.value.copy() for variable in compiled.variables)]

    def compute() -> list[Any]:
        tensors = [torch.tensor(array, requires_grad=True) for array in inputs]
        expected = reference(*tensors)
        expected.backward(torch.tensor(weights))
        return [expected, *(tensor.grad for tensor in tensors)]

    value, *expected = golden(compute, *inputs, weights, needs=torch)
    forward, backward = PRECISION[case.dtype]
    value.close(result, rtol=forward, atol=forward * max(1.0, value.largest))
    gradient, gradients = compiled.gradients(x, weights)
    for found, answer in zip([gradient, *gradients], expected, strict=True):
        # a variable's gradient is a sum over the whole batch: the error of its terms counts relative to the largest
        answer.close(found, rtol=backward, atol=backward * max(1.0, answer.largest))
    return compiled


def channels_first(compute: Callable[..., Any]) -> Callable[..., Any]:
    """The same of inputs and outputs whose channels come last."""
    return lambda x, *variables: compute(x.movedim(-1, 1).contiguous(), *variables).movedim(1, -1).contiguous()


def fits(case: SimpleNamespace) -> bool:
    around = case.padding if isinstance(case.padding, int) else 0
    lengths = zip((case.height, case.width), case.kernel_size, strict=True)
    return case.padding == "same" or all(n + 2 * around >= k for n, k in lengths)


@drawn(
    40, where=fits, batch=whole(1, 4), height=whole(3, 13), width=whole(3, 13), channels=one_of(1, 2, 3, 8, 16, 20),
    filters=one_of(1, 2, 5, 8, 16, 24), kernel_size=one_of(each(whole(1, 6), whole(1, 6)), (3, 3)),
    stride=one_of(each(whole(1, 3), whole(1, 3)), (1, 1)), padding=one_of("valid", "same", 0, 1, 2, 3),
    grouped=one_of(False, True), rectified=one_of(False, True), use_bias=one_of(False, True), dtype=DTYPES, seed=SEEDS,
)  # fmt: skip
def test_conv2d(golden: Golden, case: SimpleNamespace) -> None:
    groups = int(np.gcd(case.channels, case.filters)) if case.grouped else 1
    rectify = activation.ReLU() if case.rectified else None
    if case.rectified:  # a sum near 0 may be rectified by one and not by the other if it is rounded as coarsely as float32
        case.dtype = "float64"
    sides: list[int] = []  # torch's list of cells to add, last axis first
    for length, size, stride in zip((case.width, case.height), case.kernel_size[::-1], case.stride[::-1], strict=True):
        missing = max((-(-length // stride) - 1) * stride + size - length, 0) if case.padding == "same" else 0
        sides += [case.padding] * 2 if isinstance(case.padding, int) else [missing // 2, missing - missing // 2]

    def reference(x: Any, kernel: Any, bias: Any = None) -> Any:
        padded, kernel = functional.pad(x, sides), kernel.permute(3, 2, 0, 1)
        y = functional.conv2d(padded, kernel, bias, stride=case.stride, groups=groups)
        return torch.relu(y) if rectify else y

    made = layer.Conv2D(case.filters, case.kernel_size, case.stride, case.padding, groups, rectify, case.use_bias)
    compare(golden, case, made, (case.batch, case.height, case.width, case.channels), channels_first(reference))


@drawn(
    12, batch=whole(1, 6), time=whole(4, 20), channels=whole(1, 5), filters=whole(1, 5), size=whole(1, 4),
    stride=whole(1, 3), padding=whole(0, 3), dtype=DTYPES, seed=SEEDS,
)  # fmt: skip
def test_conv1d(golden: Golden, case: SimpleNamespace) -> None:
    def reference(x: Any, kernel: Any, bias: Any) -> Any:
        return functional.conv1d(x, kernel.permute(2, 1, 0), bias, stride=case.stride, padding=case.padding)

    made = layer.Conv1D(case.filters, case.size, case.stride, case.padding)
    compare(golden, case, made, (case.batch, case.time, case.channels), channels_first(reference))


@drawn(
    8, batch=whole(1, 4), height=whole(5, 9), width=whole(5, 9), channels=one_of(2, 4, 16), filters=one_of(4, 16),
    kernel_size=each(whole(1, 3), whole(1, 3)), stride=each(whole(1, 2), whole(1, 2)), padding=whole(0, 2),
    dilation=each(whole(1, 2), whole(1, 2)), grouped=one_of(False, True), dtype=DTYPES, seed=SEEDS,
)  # fmt: skip
def test_dilation(golden: Golden, case: SimpleNamespace) -> None:
    groups, keywords = 2 if case.grouped else 1, {"stride": case.stride, "padding": case.padding, "dilation": case.dilation}

    def reference(x: Any, kernel: Any, bias: Any) -> Any:
        return functional.conv2d(x, kernel.permute(3, 2, 0, 1), bias, groups=groups, **keywords)

    made = layer.Conv2D(case.filters, case.kernel_size, groups=groups, **keywords)
    compare(golden, case, made, (case.batch, case.height, case.width, case.channels), channels_first(reference))


@drawn(
    10, where=lambda case: all(p < k and o < s for p, k, o, s in zip(
        (case.padding,) * 2, case.kernel_size, case.extra, case.stride, strict=True)),
    batch=whole(1, 4), height=whole(2, 6), width=whole(2, 6), channels=one_of(1, 3, 16), filters=one_of(1, 4, 16),
    kernel_size=each(whole(1, 4), whole(1, 4)), stride=each(whole(1, 3), whole(1, 3)), padding=whole(0, 2),
    extra=each(whole(0, 1), whole(0, 1)), dtype=DTYPES, seed=SEEDS,
)  # fmt: skip
def test_transposed_convolution(golden: Golden, case: SimpleNamespace) -> None:
    def reference(x: Any, kernel: Any, bias: Any) -> Any:
        kernel = kernel.permute(3, 2, 0, 1).contiguous()
        return functional.conv_transpose2d(x, kernel, bias, case.stride, case.padding, case.extra)

    made = layer.Conv2DTranspose(case.filters, case.kernel_size, case.stride, case.padding, case.extra)
    compare(golden, case, made, (case.batch, case.height, case.width, case.channels), channels_first(reference))


@drawn(
    6, batch=whole(1, 4), time=whole(4, 9), channels=whole(1, 4), filters=whole(1, 4), several=whole(1, 2), stride=whole(1, 2),
    dtype=DTYPES, seed=SEEDS,
)  # fmt: skip
def test_separable_convolution(golden: Golden, case: SimpleNamespace) -> None:
    def reference(x: Any, kernel: Any, mixing: Any, bias: Any) -> Any:
        taps = kernel.permute(1, 2, 0).reshape(-1, 1, kernel.shape[0])
        y = functional.conv1d(x, taps, stride=case.stride, groups=case.channels)
        return functional.conv1d(y, mixing.permute(2, 1, 0), bias)

    made = layer.SeparableConv1D(case.filters, 3, case.stride, depth_multiplier=case.several)
    compare(golden, case, made, (case.batch, case.time, case.channels), channels_first(reference))


@drawn(
    4, batch=whole(1, 4), height=whole(1, 5), width=whole(2, 5), channels=whole(1, 3), size=each(whole(1, 3), whole(1, 3)),
    mode=one_of("nearest", "bilinear"), dtype=DTYPES, seed=SEEDS,
)  # fmt: skip
def test_up_sampling(golden: Golden, case: SimpleNamespace) -> None:
    align = {"align_corners": False} if case.mode == "bilinear" else {}

    def reference(x: Any) -> Any:
        return functional.interpolate(x, scale_factor=case.size, mode=case.mode, **align)

    made = layer.UpSampling(case.size, case.mode)
    compare(golden, case, made, (case.batch, case.height, case.width, case.channels), channels_first(reference))


@drawn(
    20, where=lambda case: 2 * case.padding <= min(case.size),  # torch takes no more
    batch=whole(1, 6), height=whole(4, 11), width=whole(4, 11), channels=whole(1, 5), size=each(whole(1, 4), whole(1, 4)),
    stride=one_of(each(whole(1, 4), whole(1, 4)), None), padding=whole(0, 2), largest=one_of(False, True),
    ties=one_of(False, True), dtype=DTYPES, seed=SEEDS,
)  # fmt: skip
def test_pools(golden: Golden, case: SimpleNamespace) -> None:
    arguments, shape = (case.size, case.stride, case.padding), (case.batch, case.height, case.width, case.channels)
    x = keyed(case.seed, "ties").integers(0, 3, shape) if case.ties else None
    made = layer.MaxPool(*arguments) if case.largest else layer.AveragePool(*arguments)

    def reference(x: Any) -> Any:
        return functional.max_pool2d(x, *arguments) if case.largest else functional.avg_pool2d(x, *arguments, False, False)

    compare(golden, case, made, shape, channels_first(reference), x=x)


KINDS = {
    "SimpleRNN": (layer.SimpleRNN, torch.nn.RNN, {}),
    "SimpleRNN ReLU": (
        lambda *a, **k: layer.SimpleRNN(*a, activation=activation.ReLU(), **k),
        torch.nn.RNN,
        {"nonlinearity": "relu"},
    ),
    "LSTM": (layer.LSTM, torch.nn.LSTM, {}),
    "GRU": (layer.GRU, torch.nn.GRU, {}),
}


@drawn(
    32, kind=one_of(*sorted(KINDS)), batch=whole(1, 9), time=whole(1, 12), features=whole(1, 9), units=whole(1, 11),
    sequences=one_of(False, True), use_bias=one_of(False, True), dtype=DTYPES, seed=SEEDS,
)  # fmt: skip
def test_recurrent(golden: Golden, case: SimpleNamespace) -> None:
    make, network, keywords = KINDS[case.kind]

    def torchs(array: Any) -> Any:
        """Its last axis first, with the gates in torch's order, which in a GRU is reset before update."""
        if case.kind == "GRU":
            update, reset, candidate = array.chunk(3, -1)
            array = torch.cat([reset, update, candidate], -1)
        return array.movedim(-1, 0)

    def reference(x: Any, *variables: Any) -> Any:
        names = ["weight_ih_l0", "weight_hh_l0", "bias_ih_l0", "bias_hh_l0"]
        given = [torchs(variable) for variable in variables[:2]]
        if case.use_bias:  # Keras's GRU has both biases of torch; the others have one, so the other is 0
            two = variables[2] if case.kind == "GRU" else torch.stack([variables[2], 0 * variables[2]])
            given += [torchs(bias) for bias in two]
        made = network(case.features, case.units, batch_first=True, bias=case.use_bias, dtype=x.dtype, **keywords)
        everything, _ = torch.func.functional_call(made, dict(zip(names, given, strict=False)), x)
        return everything if case.sequences else everything[:, -1]

    made = make(case.units, return_sequences=case.sequences, use_bias=case.use_bias)
    compare(golden, case, made, (case.batch, case.time, case.features), reference, scale=case.units**-0.5)


@pytest.mark.parametrize("kind", ["SimpleRNN", "LSTM", "GRU"])
def test_recurrent_over_several_windows_of_backward(golden: Golden, kind: str) -> None:
    large = {"batch": 64, "time": 20, "features": 12, "units": 32}
    test_recurrent(golden, SimpleNamespace(kind=kind, sequences=True, use_bias=True, dtype="float64", seed=1, **large))


@drawn(10, batch=whole(2, 9), inner=several(whole(1, 5), 0, 2), features=whole(1, 17), dtype=DTYPES, seed=SEEDS)
def test_batch_norm(golden: Golden, case: SimpleNamespace) -> None:
    norm, shape, running = layer.BatchNorm(momentum=0.9, epsilon=0.01), (case.batch, *case.inner, case.features), []
    x = keyed(case.seed, "x").standard_normal(shape) * 2 + 1

    def reference(x: Any, gamma: Any, beta: Any) -> Any:
        mean = torch.zeros(case.features, dtype=x.dtype)
        running[:] = mean, torch.ones_like(mean)
        rows = x.reshape(-1, case.features)
        return functional.batch_norm(rows, *running, gamma, beta, training=True, momentum=0.1, eps=0.01).reshape(x.shape)

    compare(golden, case, norm, shape, reference, x=x).store.apply_changes()
    mean, variance = golden(lambda: running, x, needs=torch)
    positions, precision = x.size // case.features, PRECISION[case.dtype][0]
    mean.close(norm.moving_mean.value, rtol=precision, atol=1e-6)
    # as in Keras the variance is not corrected by n / (n - 1)
    variance.close((norm.moving_variance.value - 0.9) * positions / (positions - 1) + 0.9, rtol=10 * precision)


@drawn(10, batch=whole(1, 9), inner=several(whole(1, 5), 0, 2), features=whole(2, 33), dtype=DTYPES, seed=SEEDS)
def test_layer_norm(golden: Golden, case: SimpleNamespace) -> None:
    shape = (case.batch, *case.inner, case.features)
    x = keyed(case.seed, "x").standard_normal(shape) * 2 + 1
    size = (case.features,)
    compare(golden, case, layer.LayerNorm(0.01), shape, lambda x, *of: functional.layer_norm(x, size, *of, 0.01), x=x)


@drawn(
    8, batch=whole(1, 5), inner=several(whole(1, 5), 1, 2), groups=whole(1, 3), part=whole(1, 4), kind=one_of("group", "rms"),
    dtype=DTYPES, seed=SEEDS,
)  # fmt: skip
def test_group_and_rms_norm(golden: Golden, case: SimpleNamespace) -> None:
    shape = (case.batch, *case.inner, case.groups * case.part)
    x = keyed(case.seed, "x").standard_normal(shape) * 2 + 1
    if case.kind == "rms":
        rms = layer.RMSNorm(0.01)
        compare(golden, case, rms, shape, lambda x, w: functional.rms_norm(x, shape[-1:], w, 0.01), x=x)
        return

    def reference(x: Any, gamma: Any, beta: Any) -> Any:
        return functional.group_norm(x, case.groups, gamma, beta, 0.01)

    compare(golden, case, layer.GroupNorm(case.groups, 0.01), shape, channels_first(reference), x=x)


@drawn(
    6, kind=one_of("LSTM", "GRU"), batch=whole(1, 5), time=whole(1, 6), features=whole(1, 4), units=whole(1, 5),
    sequences=one_of(False, True), seed=SEEDS,
)  # fmt: skip
def test_bidirectional(golden: Golden, case: SimpleNamespace) -> None:
    """LSTM without the two biases of torch's GRU, in which the gates stand in another order."""
    case.dtype = "float64"

    def reference(x: Any, *variables: Any) -> Any:
        names, given = [], []
        for place, suffix in enumerate(("", "_reverse")):
            kernel, recurrent = variables[2 * place : 2 * place + 2]
            names += [f"weight_ih_l0{suffix}", f"weight_hh_l0{suffix}"]
            gates = 3 if case.kind == "GRU" else 4
            order = [1, 0, 2] if gates == 3 else [0, 1, 2, 3]
            for array in (kernel, recurrent):
                parts = array.chunk(gates, -1)
                given.append(torch.cat([parts[gate] for gate in order], -1).T)
        network = getattr(torch.nn, case.kind)
        made = network(case.features, case.units, batch_first=True, bias=False, bidirectional=True, dtype=x.dtype)
        everything, _ = torch.func.functional_call(made, dict(zip(names, given, strict=True)), x)
        if case.sequences:
            return everything
        return torch.cat([everything[:, -1, : case.units], everything[:, 0, case.units :]], -1)

    made = layer.Bidirectional(getattr(layer, case.kind)(case.units, return_sequences=case.sequences, use_bias=False))
    compare(golden, case, made, (case.batch, case.time, case.features), reference, scale=case.units**-0.5)


@drawn(6, batch=whole(1, 9), length=whole(1, 7), rows=whole(1, 20), features=whole(1, 9), dtype=DTYPES, seed=SEEDS)
def test_embedding(golden: Golden, case: SimpleNamespace) -> None:
    x = keyed(case.seed, "x").integers(0, case.rows, (case.batch, case.length))

    def reference(x: Any, table: Any) -> Any:
        return functional.embedding(x.long(), table) + 0 * x[..., None]

    compare(golden, case, layer.Embedding(case.rows, case.features), x.shape, reference, x=x)


@drawn(
    10, batch=whole(1, 5), positions=whole(1, 9), others=whole(0, 9), heads=whole(1, 4), key_dim=whole(1, 6),
    causal=one_of(False, True), dtype=DTYPES, seed=SEEDS,
)  # fmt: skip
def test_multi_head_attention(golden: Golden, case: SimpleNamespace) -> None:
    """To itself, and where there are other positions to these."""
    features, count = case.heads * case.key_dim, case.positions
    causal = case.causal and not case.others

    def build(x: Value) -> Value:
        attend = layer.MultiHeadAttention(case.heads, case.key_dim, causal=causal)
        return attend([x[:, :count], x[:, count:]] if case.others else x)

    def reference(x: Any, *variables: Any) -> Any:
        kernels = [kernel.reshape(features, features).T for kernel in variables[::2]]
        biases = [bias.reshape(features) for bias in variables[1::2]]
        parameters = {
            "in_proj_weight": torch.cat(kernels[:3]), "in_proj_bias": torch.cat(biases[:3]),
            "out_proj.weight": kernels[3], "out_proj.bias": biases[3],
        }  # fmt: skip
        module = torch.nn.MultiheadAttention(features, case.heads, batch_first=True, dtype=x.dtype)
        mask = torch.triu(torch.ones(count, count, dtype=torch.bool), 1) if causal else None
        query, value = x[:, :count], x[:, count:] if case.others else x
        return torch.func.functional_call(module, parameters, (query, value, value), {"attn_mask": mask})[0]

    compare(golden, case, build, (case.batch, count + case.others, features), reference, scale=0.5)


ACTIVATIONS: dict[str, tuple[activation.Activation, Callable[[Any], Any]]] = {
    "Linear": (activation.Linear(), lambda x: x * 1),
    "ReLU": (activation.ReLU(), functional.relu),
    "LeakReLU": (activation.LeakReLU(0.2), lambda x: functional.leaky_relu(x, 0.2)),
    "ELU": (activation.ELU(0.7), lambda x: functional.elu(x, 0.7)),
    "GELU": (activation.GELU(), functional.gelu),
    "GELU approximate": (activation.GELU(approximate=True), lambda x: functional.gelu(x, approximate="tanh")),
    "SiLU": (activation.SiLU(), functional.silu),
    "Softplus": (activation.Softplus(), functional.softplus),
    "Sigmoid": (activation.Sigmoid(), torch.sigmoid),
    "Tanh": (activation.Tanh(), torch.tanh),
    "HTanh": (activation.HTanh(), functional.hardtanh),
    "Softmax": (activation.Softmax(), lambda x: torch.softmax(x, -1)),
    "SELU": (activation.SELU(), functional.selu),
    "ReLU6": (activation.ReLU6(), functional.relu6),
    "HardSigmoid": (activation.HardSigmoid(), lambda x: torch.clamp(x / 6 + 0.5, 0, 1)),  # its own rounds 1 / 6 to float32
    "HardSwish": (activation.HardSwish(), functional.hardswish),
    "Mish": (activation.Mish(), functional.mish),
    "Softsign": (activation.Softsign(), functional.softsign),
    "LogSigmoid": (activation.LogSigmoid(), functional.logsigmoid),
    "LogSoftmax": (activation.LogSoftmax(), lambda x: torch.log_softmax(x, -1)),
    "Exponential": (activation.Exponential(), torch.exp),
}


@pytest.mark.parametrize("name", ACTIVATIONS)
@drawn(6, shape=several(whole(1, 7), 2, 4), scale=one_of(0.01, 1.0, 5.0), dtype=DTYPES, seed=SEEDS)
def test_activations(golden: Golden, name: str, case: SimpleNamespace) -> None:
    ours, reference = ACTIVATIONS[name]
    x = case.scale * keyed(case.seed, "x").standard_normal(case.shape)
    compare(golden, case, ours, tuple(case.shape), reference, x=x)


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
}  # fmt: skip


@drawn(30, name=one_of(*sorted(OPERATIONS)), shape=each(whole(1, 6), whole(1, 5), whole(1, 7)), dtype=DTYPES, seed=SEEDS)
def test_operations(golden: Golden, case: SimpleNamespace) -> None:
    build, reference = OPERATIONS[case.name]
    compare(golden, case, build, case.shape, reference)


@drawn(8, batch=whole(1, 5), axes=several(whole(1, 4), 3, 3), dtype=DTYPES, seed=SEEDS)
def test_broadcasting_with_variables(golden: Golden, case: SimpleNamespace) -> None:
    a, b, c = case.axes
    u, v, w, kernel = (Variable(shape) for shape in [(a, 1, c), (b, c), (1, 1, 1, c), (c, 3)])

    def compute(x: Any, u: Any, v: Any, w: Any, kernel: Any) -> Any:
        return ((x - u) * v / (w * w + 1) + x) @ kernel

    compare(golden, case, lambda x: compute(x, u, v, w, kernel), (case.batch, a, b, c), compute)


BASES = np.array([0.0, 0.0, 0.0, 0.0, 1.0, 2.0, -2.0, 0.5])
EXPONENTS = np.array([0.0, 1.0, 2.0, 3.5, 0.0, 0.5, 3.0, 0.0])


@pytest.mark.parametrize(
    "build",
    [
        lambda v, constant: v**0,
        lambda v, constant: v**1.0,
        lambda v, constant: v ** constant(EXPONENTS),
        lambda v, constant: v ** ((v > 0) * constant(1.0)),
        lambda v, constant: abs(v) ** abs(v) + 0.0 ** abs(v),
        lambda v, constant: abs(v) ** constant(EXPONENTS * 0 + 2) + constant(BASES * 0) ** v**2,
        lambda v, constant: v[:, :6] ** abs(v[:, 2:]),
    ],
)
def test_powers_where_the_formula_is_0_times_infinity(golden: Golden, build: Any) -> None:
    def compute() -> list[Any]:
        wanted = torch.tensor(BASES[None], requires_grad=True)
        build(wanted, lambda array: torch.tensor(array, dtype=torch.float64)).sum().backward()
        return [wanted.grad]

    [wanted] = golden(compute, BASES, EXPONENTS, needs=torch)
    wanted.close(Compiled(lambda v: build(v, lambda array: array), BASES.shape).gradients(BASES[None])[0], rtol=1e-12)


class Weights:
    """The weights of a model as tensors, taken layer by layer: `take("conv2d")` is the next convolution's."""

    def __init__(self, model: Model) -> None:
        everything = model.store.everything
        self.tensors = {v.name: torch.tensor(v.value, requires_grad=v.trainable) for v in everything}
        self._used: Counter[str] = Counter()

    def take(self, kind: str) -> dict[str, Any]:
        """Return the variables of the next layer of a kind, by their own names."""
        self._used[kind] += 1
        prefix = f"{kind}_{self._used[kind]}/"
        return {name.removeprefix(prefix): tensor for name, tensor in self.tensors.items() if name.startswith(prefix)}

    def dense(self, x: Any) -> Any:
        of = self.take("dense")
        return x @ of["kernel"] + of["bias"]


def resnet(x: Any, weights: Weights, shortcut: str) -> Any:
    """ResNet20 in torch's layout, in training."""

    def convolve(x: Any, stride: int = 1, padding: int = 1) -> Any:
        x = functional.conv2d(x, weights.take("conv2d")["kernel"].permute(3, 2, 0, 1), stride=stride, padding=padding)
        of = weights.take("batchnorm")
        return functional.batch_norm(x, None, None, of["gamma"], of["beta"], training=True, eps=1e-5)

    x = torch.relu(convolve(x.permute(0, 3, 1, 2)))
    for stage in range(3):
        for block in range(3):
            stride, short = 2 if stage and not block else 1, x
            if stride == 2 and shortcut == "B":
                short = convolve(x, 2, 0)
            elif stride == 2:
                short = functional.pad(x[:, :, ::2, ::2], (0, 0, 0, 0, 0, x.shape[1]))
            x = torch.relu(short + convolve(torch.relu(convolve(x, stride))))
    return weights.dense(x.mean(dim=(2, 3)))


def transformer(x: Any, weights: Weights, blocks: int) -> Any:
    def normalize(x: Any) -> Any:
        of = weights.take("layernorm")
        return functional.layer_norm(x, x.shape[-1:], of["gamma"], of["beta"], eps=1e-5)

    def attend(x: Any) -> Any:
        of = weights.take("multiheadattention")
        query, key, value = (
            torch.einsum("btf,fhd->bhtd", x, of[f"{role}_kernel"]) + of[f"{role}_bias"][:, None]
            for role in ("query", "key", "value")
        )
        heads = functional.scaled_dot_product_attention(query, key, value, is_causal=True)
        return torch.einsum("bhtd,hdf->btf", heads, of["output_kernel"]) + of["output_bias"]

    x = functional.embedding(x, weights.take("embedding")["embeddings"]) + weights.tensors["positions"]
    for _ in range(blocks):
        x = x + attend(normalize(x))
        x = x + weights.dense(functional.gelu(weights.dense(normalize(x))))
    return weights.dense(normalize(x))


@pytest.mark.parametrize("dtype", PRECISION)
@pytest.mark.parametrize("kind", ["A", "B", "transformer"])
def test_whole_models(golden: Golden, kind: str, dtype: str) -> None:
    """ResNet20 and the transformer, with weights none of which is 0 or 1: loss, prediction, and every gradient."""
    text = kind == "transformer"
    model: Model = ResNet20(shortcut=kind, input_shape=[-1, 16, 16, 3], dtype=dtype) if not text else (
        Transformer(13, 9, features=12, heads=3, blocks=2, hidden=20, dtype=dtype)
    )  # fmt: skip
    model.setup(nn.loss.Cross_Entropy_With_Softmax())
    model.compile(nn.gradient_descent.SGDOptimizer(0.1))
    model.store.values += 0.1 * keyed(1, "noise").standard_normal(model.store.values.shape).astype(dtype)
    generator = keyed(0, kind)
    x = generator.integers(0, 13, (4, 9)) if text else generator.standard_normal((5, 16, 16, 3)).astype(dtype)
    label = generator.integers(0, 13, (4, 9)) if text else generator.integers(0, 10, 5)
    names = [variable.name for variable in model.trainable_variables()]

    def compute() -> list[Any]:
        weights = Weights(model)
        score = transformer(torch.tensor(x), weights, 2) if text else resnet(torch.tensor(x), weights, kind)
        loss = functional.cross_entropy(score.flatten(0, -2), torch.tensor(label).flatten())
        loss.backward()
        return [loss, score if text else torch.softmax(score, -1), *(weights.tensors[name].grad for name in names)]

    expected: list[Answer] = golden(compute, x, label, model.store.values, needs=torch)
    found, output = model.compute_gradients(x, label)
    precision = 1e-4 if dtype == "float32" else 1e-9
    expected[0].close(found, rtol=precision)
    expected[1].close(output, rtol=precision, atol=precision)
    for variable, answer in zip(model.trainable_variables(), expected[2:], strict=True):
        answer.close(variable.gradient, rtol=precision, atol=precision * max(1, answer.largest), message=variable.name)
