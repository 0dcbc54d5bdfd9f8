"""Cross-check of the losses with torch and scikit-learn, where they are installed: values, gradients, weights."""

from collections.abc import Callable
from typing import Any

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from nn import loss
from nn.arrays import Array
from nn.random import keyed

torch = pytest.importorskip("torch")
functional = torch.nn.functional

PRECISION = {"float32": (1e-5, 1e-4), "float64": (1e-9, 1e-9)}
DTYPES = st.sampled_from(["float32", "float64"])
SHAPES = st.lists(st.integers(1, 7), min_size=1, max_size=4)
SEEDS = st.integers(0, 1000)


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


def compare(ours: loss.Loss, label: Array, output: Array, weight: Array | None, each: Callable[[Any, Any], Any]) -> None:
    """Compare with what torch gives for `each(output, label)`, (batch,)."""
    prepared = ours.prepare(label, output.shape, output.dtype)
    given = () if weight is None else (ours.check_weights(weight, len(output), output.dtype),)
    ours.allocate(output.shape, output.dtype)
    gradient = np.empty_like(output)
    value = ours.value(prepared, output, *given)
    ours.gradient(prepared, output, gradient, *given)
    tensor = torch.tensor(output, requires_grad=True)
    losses = each(tensor, torch.tensor(label))
    expected = (losses if weight is None else losses * torch.tensor(given[0])).sum() / len(output)
    expected.backward()
    forward, backward = PRECISION[output.dtype.name]
    np.testing.assert_allclose(value, expected.item(), rtol=forward, atol=forward)
    np.testing.assert_allclose(gradient, tensor.grad.numpy(), rtol=backward, atol=backward)


def by_sample(losses: Any) -> Any:
    return losses.reshape(len(losses), -1).mean(dim=1)


@pytest.mark.parametrize("name", ELEMENTWISE)
@settings(max_examples=20, deadline=None, database=None)
@given(shape=SHAPES, dtype=DTYPES, weighted=st.booleans(), seed=SEEDS)
def test_losses_of_single_outputs(name: str, shape: list[int], dtype: str, weighted: bool, seed: int) -> None:
    ours, draw, reference = ELEMENTWISE[name]
    generator = keyed(seed, "torch")
    output, label = scores(generator, shape).astype(dtype), draw(generator, shape).astype(dtype)
    weight = generator.uniform(0, 3, shape[0]) if weighted else None
    compare(ours, label, output, weight, lambda x, y: by_sample(reference(x, y)))


@settings(max_examples=40, deadline=None, database=None)
@given(
    shape=st.lists(st.integers(1, 7), min_size=2, max_size=4),
    rows=st.booleans(),
    smoothing=st.sampled_from([0.0, 0.1, 0.7]),
    dtype=DTYPES,
    weighted=st.booleans(),
    seed=SEEDS,
)
def test_cross_entropy_of_scores(shape: list[int], rows: bool, smoothing: float, dtype: str, weighted: bool, seed: int) -> None:
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

    compare(loss.Cross_Entropy_With_Softmax(smoothing), label, output, weight, each)


@settings(max_examples=40, deadline=None, database=None)
@given(
    shape=st.lists(st.integers(2, 7), min_size=2, max_size=4),
    rows=st.booleans(),
    dtype=DTYPES,
    weighted=st.booleans(),
    seed=SEEDS,
)
def test_cross_entropy_of_probabilities(shape: list[int], rows: bool, dtype: str, weighted: bool, seed: int) -> None:
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

    compare(loss.Cross_Entropy(), label, output, weight, each)


@settings(max_examples=20, deadline=None, database=None)
@given(batch=st.integers(1, 9), classes=st.integers(2, 6), dtype=DTYPES, weighted=st.booleans(), seed=SEEDS)
def test_hinge_of_classes(batch: int, classes: int, dtype: str, weighted: bool, seed: int) -> None:
    generator = keyed(seed, "torch")
    output, label = scores(generator, [batch, classes]).astype(dtype), generator.integers(0, classes, batch)
    weight = generator.uniform(0, 3, batch) if weighted else None

    def each(x: Any, y: Any) -> Any:
        chosen = functional.one_hot(y, classes).bool()
        rival = x.masked_fill(chosen, -np.inf).max(dim=1).values
        return functional.relu(1 + rival - x[chosen])

    compare(loss.Hinge(), label, output, weight, each)


@pytest.mark.parametrize("classes", [2, 5])
def test_hinge_is_that_of_scikit_learn(classes: int) -> None:
    metrics = pytest.importorskip("sklearn.metrics")
    generator = keyed(0, "scikit-learn")
    label = np.concatenate([np.arange(classes), generator.integers(0, classes, 20)])
    output = generator.standard_normal((len(label), classes))
    if classes == 2:
        output = output[:, :1]
    ours = loss.Hinge()
    prepared = ours.prepare(label, output.shape, output.dtype)
    ours.allocate(output.shape, output.dtype)
    expected = metrics.hinge_loss(label, output[:, 0] if classes == 2 else output)
    assert ours.value(prepared, output) == pytest.approx(expected, rel=1e-12)
