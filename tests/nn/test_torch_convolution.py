"""Cross-check of convolution and pooling with torch."""

from typing import Any

import numpy as np

import nn
from nn.arrays import Array
from nn.layer import AveragePool, Conv1D, Conv2D, Layer, MaxPool
from nn.operation import Mode
from nn.plan import Plan
from nn.random import keyed
from nn.value import Graph, Node, Placeholder, VariableStore
from tests.nn.golden import DTYPES, SEEDS, Answer, Golden, drawn, each, one_of, optional, whole

torch = optional("torch")

PRECISION = {"float32": (1e-5, 1e-4), "float64": (1e-9, 1e-9)}
"""Largest error of values and of gradients, relative to the largest number."""


def run(layer: Layer, x: Array, seed: int) -> tuple[list[Array], Array]:
    """Return output, gradient of the input and of every variable, and the gradient of the output that gave them."""
    placeholder = Placeholder((-1, *x.shape[1:]))
    output = layer(placeholder)
    assert isinstance(output, Node)
    store = VariableStore(layer.variables, [], x.dtype, seed)
    for variable in layer.variables:
        if variable.value.ndim == 1:  # a bias of zeros would prove little
            variable.value[:] = keyed(seed, "bias").standard_normal(variable.shape)
    assert store.dtype == x.dtype
    plan = Plan(Graph(placeholder, output), x.shape, x.dtype, training=True, input_gradient=True)
    result = plan.forward(x, Mode(training=True)).copy()
    weights = keyed(seed, "weights").standard_normal(result.shape).astype(x.dtype)
    plan.output_gradient[:] = weights
    plan.backward()
    assert plan.input_gradient is not None
    return [result, plan.input_gradient, *(variable.gradient for variable in layer.variables)], weights


def close(found: list[Array], expected: list[Answer], dtype: str) -> None:
    for place, (ours, theirs) in enumerate(zip(found, expected, strict=True)):
        theirs.close(ours, rtol=0, atol=PRECISION[dtype][place > 0] * max(theirs.largest, 1e-3))


def first_channels(array: Array) -> Any:
    """Return a tensor with the channels as torch wants them, that collects gradients."""
    return torch.tensor(np.moveaxis(array, -1, 1).copy(), requires_grad=True)


def last_channels(tensor: Any) -> Any:
    return tensor.movedim(1, -1)


def fits(height: int, width: int, kernel_size: tuple[int, int], padding: str | int, **_: object) -> bool:
    around = padding if isinstance(padding, int) else 0
    return padding == "same" or all(n + 2 * around >= k for n, k in zip((height, width), kernel_size, strict=True))


@drawn(
    40,
    where=fits,
    batch=whole(1, 4),
    height=whole(3, 13),
    width=whole(3, 13),
    channels=one_of(1, 2, 3, 8, 16, 20),
    filters=one_of(1, 2, 5, 8, 16, 24),
    kernel_size=one_of(each(whole(1, 6), whole(1, 6)), (3, 3)),
    stride=one_of(each(whole(1, 3), whole(1, 3)), (1, 1)),
    padding=one_of("valid", "same", 0, 1, 2, 3),
    grouped=one_of(False, True),
    rectified=one_of(False, True),
    use_bias=one_of(False, True),
    dtype=DTYPES,
    seed=SEEDS,
)
def test_conv2d(
    golden: Golden,
    batch: int,
    height: int,
    width: int,
    channels: int,
    filters: int,
    kernel_size: tuple[int, int],
    stride: tuple[int, int],
    padding: str | int,
    grouped: bool,
    rectified: bool,
    use_bias: bool,
    dtype: str,
    seed: int,
) -> None:
    # a sum near 0 may be rectified by one and not by the other if it is rounded as coarsely as float32
    dtype = "float64" if rectified else dtype
    groups = int(np.gcd(channels, filters)) if grouped else 1
    activation = nn.activation.ReLU() if rectified else None
    layer = Conv2D(filters, kernel_size, stride, padding, groups, activation, use_bias)
    x = keyed(seed, "torch").standard_normal((batch, height, width, channels)).astype(dtype)
    found, weights = run(layer, x, seed)

    def compute() -> list[Any]:
        tensor = first_channels(x)
        kernel = torch.tensor(layer.kernel.value.transpose(3, 2, 0, 1).copy(), requires_grad=True)
        bias = torch.tensor(layer.bias.get_value(), requires_grad=True) if use_bias else None
        padded = torch.nn.functional.pad(tensor, sides((height, width), kernel_size, stride, padding))
        y = torch.nn.functional.conv2d(padded, kernel, bias, stride=stride, groups=groups)
        y = torch.relu(y) if rectified else y
        last_channels(y).backward(torch.tensor(weights))
        expected = [last_channels(y), last_channels(tensor.grad), kernel.grad.permute(2, 3, 1, 0)]
        return expected if bias is None else [*expected, bias.grad]

    close(found, golden(compute, x, weights, *(variable.value for variable in layer.variables), needs=torch), dtype)


def sides(lengths: tuple[int, ...], sizes: tuple[int, ...], strides: tuple[int, ...], padding: str | int) -> list[int]:
    """Return torch's list of cells to add, last axis first."""
    found: list[int] = []
    for length, size, stride in zip(reversed(lengths), reversed(sizes), reversed(strides), strict=True):
        missing = max((-(-length // stride) - 1) * stride + size - length, 0) if padding == "same" else 0
        found += [padding, padding] if isinstance(padding, int) else [missing // 2, missing - missing // 2]
    return found


@drawn(
    12,
    batch=whole(1, 6),
    time=whole(4, 20),
    channels=whole(1, 5),
    filters=whole(1, 5),
    size=whole(1, 4),
    stride=whole(1, 3),
    padding=whole(0, 3),
    dtype=DTYPES,
    seed=SEEDS,
)
def test_conv1d(
    golden: Golden,
    batch: int,
    time: int,
    channels: int,
    filters: int,
    size: int,
    stride: int,
    padding: int,
    dtype: str,
    seed: int,
) -> None:
    layer = Conv1D(filters, size, stride, padding)
    x = keyed(seed, "torch").standard_normal((batch, time, channels)).astype(dtype)
    found, weights = run(layer, x, seed)

    def compute() -> list[Any]:
        tensor = first_channels(x)
        kernel = torch.tensor(layer.kernel.value.transpose(2, 1, 0).copy(), requires_grad=True)
        bias = torch.tensor(layer.bias.get_value(), requires_grad=True)
        y = torch.nn.functional.conv1d(tensor, kernel, bias, stride=stride, padding=padding)
        last_channels(y).backward(torch.tensor(weights))
        return [last_channels(y), last_channels(tensor.grad), kernel.grad.permute(2, 1, 0), bias.grad]

    close(found, golden(compute, x, weights, *(variable.value for variable in layer.variables), needs=torch), dtype)


@drawn(
    20,
    where=lambda size, padding, **_: 2 * padding <= min(size),  # torch takes no more
    batch=whole(1, 6),
    height=whole(4, 11),
    width=whole(4, 11),
    channels=whole(1, 5),
    size=each(whole(1, 4), whole(1, 4)),
    stride=one_of(each(whole(1, 4), whole(1, 4)), None),
    padding=whole(0, 2),
    largest=one_of(False, True),
    ties=one_of(False, True),
    dtype=DTYPES,
    seed=SEEDS,
)
def test_pools(
    golden: Golden,
    batch: int,
    height: int,
    width: int,
    channels: int,
    size: tuple[int, int],
    stride: tuple[int, int] | None,
    padding: int,
    largest: bool,
    ties: bool,
    dtype: str,
    seed: int,
) -> None:
    layer = MaxPool(size, stride, padding) if largest else AveragePool(size, stride, padding)
    generator = keyed(seed, "torch")
    shape = (batch, height, width, channels)
    x = (generator.integers(0, 3, shape) if ties else generator.standard_normal(shape)).astype(dtype)
    found, weights = run(layer, x, seed)

    def compute() -> list[Any]:
        tensor = first_channels(x)
        if largest:
            y = torch.nn.functional.max_pool2d(tensor, size, stride, padding)
        else:
            y = torch.nn.functional.avg_pool2d(tensor, size, stride, padding, count_include_pad=False)
        last_channels(y).backward(torch.tensor(weights))
        return [last_channels(y), last_channels(tensor.grad)]

    close(found, golden(compute, x, weights, needs=torch), dtype)


def test_training_a_whole_network(golden: Golden) -> None:
    generator = keyed(1, "torch")
    x, y = generator.standard_normal((48, 12, 12, 2)), generator.integers(0, 4, 48)
    relu = nn.activation.ReLU()
    model = nn.model.SequentialModel([-1, 12, 12, 2], dtype="float64")
    layers = [
        Conv2D(16, padding="same", activation=relu),
        MaxPool(2),
        Conv2D(18, activation=relu),
        AveragePool(2),
        nn.layer.Flatten(),
        nn.layer.Dense(4),
    ]
    for layer in layers:
        model.add(layer)
    model.setup(nn.loss.Cross_Entropy_With_Softmax())
    model.compile(nn.gradient_descent.ADAMOptimizer(0.01))

    def compute() -> list[Any]:
        tensors = [torch.tensor(variable.get_value(), requires_grad=True) for variable in model.trainable_variables()]
        optimizer = torch.optim.Adam(tensors, lr=0.01)

        def network(images: Any) -> Any:
            k1, b1, k2, b2, w, b = tensors
            z = torch.relu(torch.nn.functional.conv2d(images.movedim(-1, 1), k1.permute(3, 2, 0, 1), b1, padding=1))
            z = torch.nn.functional.max_pool2d(z, 2)
            z = torch.relu(torch.nn.functional.conv2d(z, k2.permute(3, 2, 0, 1), b2))
            return last_channels(torch.nn.functional.avg_pool2d(z, 2)).flatten(1) @ w + b

        inputs, labels = torch.tensor(x), torch.tensor(y)
        for _ in range(3):
            for start in range(0, 48, 16):
                optimizer.zero_grad()
                part = slice(start, start + 16)
                torch.nn.functional.cross_entropy(network(inputs[part]), labels[part]).backward()
                optimizer.step()
        return [network(inputs)]

    [expected] = golden(compute, x, y, model.store.values, needs=torch)
    model.fit(x, y, epoch=3, batch_size=16, shuffle=False, verbose=0)
    expected.close(model.predict(x), rtol=1e-6, atol=1e-9)
