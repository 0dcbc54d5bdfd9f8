"""Cross-check of the losses with torch and scikit-learn: values, gradients, weights."""

from collections.abc import Callable
from typing import Any

import numpy as np
import pytest

from nn import loss
from nn.arrays import Array
from nn.random import keyed
from tests.nn.golden import DTYPES, SEEDS, Golden, drawn, one_of, optional, several, whole

torch = optional("torch")
metrics = optional("sklearn.metrics")
functional = torch.nn.functional

PRECISION = {"float32": (1e-5, 1e-4), "float64": (1e-9, 1e-9)}
SHAPES = several(whole(1, 7), 1, 4)


def scores(generator: np.random.Generator, shape: list[int]) -> Array:
    return 4 * generator.standard_normal(shape)


def targets(generator: np.random.Generator, shape: list[int]) -> Array:
    return generator.standard_normal(shape)


def shares(generator: np.random.Generator, shape: list[int]) -> Array:
    return generator.uniform(0, 1, shape)


def signs(generator: np.random.Generator, shape: list[int]) -> Array:
    return 2.0 * generator.integers(0, 2, shape) - 1


def log_cosh(x: Any, y: Any) -> Any:
    return torch.nn.functional.softplus(-2 * (x - y)) + (x - y) - np.log(2)


Case = tuple[loss.Loss, Callable[[np.random.Generator, list[int]], Array], Callable[[Any, Any], Any]]
ELEMENTWISE: dict[str, Case] = {
    "MSELoss": (loss.MSELoss(), targets, lambda x, y: functional.mse_loss(x, y, reduction="none")),
    "MAELoss": (loss.MAELoss(), targets, lambda x, y: functional.l1_loss(x, y, reduction="none")),
    "HuberLoss": (loss.HuberLoss(1.5), targets, lambda x, y: functional.huber_loss(x, y, reduction="none", delta=1.5)),
    "TanhLoss": (loss.TanhLoss(), targets, log_cosh),
    "Binary_Cross_Entropy": (
        loss.Binary_Cross_Entropy(),
        shares,
        lambda x, y: functional.binary_cross_entropy_with_logits(x, y, reduction="none"),
    ),
    "Hinge": (loss.Hinge(), signs, lambda x, y: functional.relu(1 - x * y)),
}


def compare(
    golden: Golden, ours: loss.Loss, label: Array, output: Array, weight: Array | None, each: Callable[[Any, Any], Any]
) -> None:
    """Compare with what torch gives for `each(output, label)`, (batch,)."""
    prepared = ours.prepare(label, output.shape, output.dtype)
    given = () if weight is None else (ours.check_weights(weight, len(output), output.dtype),)
    ours.allocate(output.shape, output.dtype)
    gradient = np.empty_like(output)
    value = ours.value(prepared, output, *given)
    ours.gradient(prepared, output, gradient, *given)

    def compute() -> list[Any]:
        tensor = torch.tensor(output, requires_grad=True)
        losses = each(tensor, torch.tensor(label))
        expected = (losses if weight is None else losses * torch.tensor(given[0])).sum() / len(output)
        expected.backward()
        return [expected, tensor.grad]

    expected, wanted = golden(compute, output, label, *given, needs=torch)
    forward, backward = PRECISION[output.dtype.name]
    expected.close(value, rtol=forward, atol=forward)
    wanted.close(gradient, rtol=backward, atol=backward)


def by_sample(losses: Any) -> Any:
    return losses.reshape(len(losses), -1).mean(dim=1)


@pytest.mark.parametrize("name", ELEMENTWISE)
@drawn(10, shape=SHAPES, dtype=DTYPES, weighted=one_of(False, True), seed=SEEDS)
def test_losses_of_single_outputs(golden: Golden, name: str, shape: list[int], dtype: str, weighted: bool, seed: int) -> None:
    ours, draw, reference = ELEMENTWISE[name]
    generator = keyed(seed, "torch")
    output, label = scores(generator, shape).astype(dtype), draw(generator, shape).astype(dtype)
    weight = generator.uniform(0, 3, shape[0]) if weighted else None
    compare(golden, ours, label, output, weight, lambda x, y: by_sample(reference(x, y)))


@drawn(
    20,
    shape=several(whole(1, 7), 2, 4),
    rows=one_of(False, True),
    smoothing=one_of(0.0, 0.1, 0.7),
    dtype=DTYPES,
    weighted=one_of(False, True),
    seed=SEEDS,
)
def test_cross_entropy_of_scores(
    golden: Golden, shape: list[int], rows: bool, smoothing: float, dtype: str, weighted: bool, seed: int
) -> None:
    generator = keyed(seed, "torch")
    output = scores(generator, shape).astype(dtype)
    label: Array = generator.dirichlet(np.ones(shape[-1]), shape[:-1]).astype(dtype)
    if not rows:
        label = generator.integers(0, shape[-1], shape[:-1])
    weight = generator.uniform(0, 3, shape[0]) if weighted else None

    def each(x: Any, y: Any) -> Any:
        flat = y.reshape(-1, shape[-1]) if rows else y.reshape(-1)
        found = functional.cross_entropy(x.reshape(-1, shape[-1]), flat, reduction="none", label_smoothing=smoothing)
        return by_sample(found.reshape(shape[:-1]))

    compare(golden, loss.Cross_Entropy_With_Softmax(smoothing), label, output, weight, each)


@drawn(20, shape=several(whole(2, 7), 2, 4), rows=one_of(False, True), dtype=DTYPES, weighted=one_of(False, True), seed=SEEDS)
def test_cross_entropy_of_probabilities(
    golden: Golden, shape: list[int], rows: bool, dtype: str, weighted: bool, seed: int
) -> None:
    generator = keyed(seed, "torch")
    output = 0.05 + generator.dirichlet(np.ones(shape[-1]), shape[:-1])
    output = (output / output.sum(axis=-1, keepdims=True)).astype(dtype)
    label: Array = generator.dirichlet(np.ones(shape[-1]), shape[:-1]).astype(dtype)
    if not rows:
        label = generator.integers(0, shape[-1], shape[:-1])
    weight = generator.uniform(0, 3, shape[0]) if weighted else None

    def each(x: Any, y: Any) -> Any:
        wanted = y if rows else functional.one_hot(y, shape[-1])
        return by_sample(-(wanted * torch.log(x)).sum(dim=-1))

    compare(golden, loss.Cross_Entropy(), label, output, weight, each)


@drawn(10, batch=whole(1, 9), classes=whole(2, 6), dtype=DTYPES, weighted=one_of(False, True), seed=SEEDS)
def test_hinge_of_classes(golden: Golden, batch: int, classes: int, dtype: str, weighted: bool, seed: int) -> None:
    generator = keyed(seed, "torch")
    output, label = scores(generator, [batch, classes]).astype(dtype), generator.integers(0, classes, batch)
    weight = generator.uniform(0, 3, batch) if weighted else None

    def each(x: Any, y: Any) -> Any:
        chosen = functional.one_hot(y, classes).bool()
        rival = x.masked_fill(chosen, -np.inf).max(dim=1).values
        return functional.relu(1 + rival - x[chosen])

    compare(golden, loss.Hinge(), label, output, weight, each)


@pytest.mark.parametrize("classes", [2, 5])
def test_hinge_is_that_of_scikit_learn(golden: Golden, classes: int) -> None:
    generator = keyed(0, "scikit-learn")
    label = np.concatenate([np.arange(classes), generator.integers(0, classes, 20)])
    output = generator.standard_normal((len(label), classes))
    if classes == 2:
        output = output[:, :1]
    ours = loss.Hinge()
    prepared = ours.prepare(label, output.shape, output.dtype)
    ours.allocate(output.shape, output.dtype)
    rows = output[:, 0] if classes == 2 else output
    [expected] = golden(lambda: [metrics.hinge_loss(label, rows)], label, output, needs=metrics)
    expected.close(ours.value(prepared, output), rtol=1e-12)
