"""Cross-check of rules, schedules, losses and metrics with torch, Keras and scikit-learn."""

from __future__ import annotations

import os
from collections.abc import Callable
from typing import Any

import numpy as np
import pytest

from nn import gradient_descent as gd
from nn import loss, metric
from nn.arrays import Array
from nn.random import keyed
from tests.nn.golden import Golden, optional

os.environ.setdefault("KERAS_BACKEND", "torch")
torch = optional("torch")
keras = optional("keras")
reference = optional("sklearn.metrics")
STEPS = 60


def drawn(key: str, *shapes: tuple[int, ...]) -> list[Array]:
    """Arrays in float32, the type in which Keras computes."""
    return [keyed(place, key).standard_normal(shape).astype(np.float32) for place, shape in enumerate(shapes)]


RULES: list[tuple[gd.IGradientDescent, Callable[[Any], Any]]] = [
    (gd.ADAMOptimizer(0.03, amsgrad=True), lambda w: torch.optim.Adam(w, lr=0.03, amsgrad=True)),
    (gd.ADAMWOptimizer(0.03, weight_decay=0.2, amsgrad=True),
     lambda w: torch.optim.AdamW(w, lr=0.03, weight_decay=0.2, amsgrad=True)),
    (gd.NadamOptimizer(), lambda w: torch.optim.NAdam(w)),
    (gd.NadamOptimizer(0.02, 0.8, 0.99, 1e-6, 0.01, weight_decay=0.1),
     lambda w: torch.optim.NAdam(w, 0.02, (0.8, 0.99), 1e-6, momentum_decay=0.01, weight_decay=0.1)),
    (gd.AdamaxOptimizer(), lambda w: torch.optim.Adamax(w)),
    (gd.AdamaxOptimizer(0.02, 0.8, 0.99, 1e-3, weight_decay=0.1),
     lambda w: torch.optim.Adamax(w, 0.02, (0.8, 0.99), 1e-3, weight_decay=0.1)),
    (gd.ADAMWOptimizer(0.03, weight_decay=gd.KernelDecay(0.2)),
     lambda w: torch.optim.AdamW([{"params": w[:1], "weight_decay": 0.2}, {"params": w[1:], "weight_decay": 0.0}], lr=0.03)),
    (gd.SGDOptimizer(0.03, weight_decay=gd.KernelDecay(0.2)),
     lambda w: torch.optim.SGD([{"params": w[:1], "weight_decay": 0.2}, {"params": w[1:], "weight_decay": 0.0}], lr=0.03)),
]  # fmt: skip


@pytest.mark.parametrize("number", range(len(RULES)), ids=lambda number: f"{number} {type(RULES[number][0]).__name__}")
def test_rules_with_a_kernel_and_a_bias_are_those_of_torch(golden: Golden, number: int) -> None:
    rule, make = RULES[number]
    start, gradients = keyed(0, "torch").standard_normal(40), keyed(1, "torch").standard_normal((STEPS, 40))

    def compute() -> list[Any]:
        cut = [start[:30].reshape(6, 5), start[30:]]
        tensors = [torch.nn.Parameter(torch.tensor(part)) for part in cut]
        optimizer = make(tensors)
        for gradient in gradients:
            for tensor, part in zip(tensors, (gradient[:30].reshape(6, 5), gradient[30:]), strict=True):
                tensor.grad = torch.tensor(part)
            optimizer.step()
        return [torch.cat([tensor.reshape(-1) for tensor in tensors])]

    [expected] = golden(compute, start, *gradients[:2], needs=torch)
    rule.partition([30, 10], [(6, 5), (10,)])
    found = start.copy()
    for gradient in gradients:
        rule.update(found, gradient)
    # The product of shares in torch's NAdam is a number of float32.
    expected.close(found, rtol=1e-6, atol=1e-9)


KERAS_RULES: list[tuple[gd.IGradientDescent, Callable[[], Any]]] = [
    (gd.LionOptimizer(0.01), lambda: keras.optimizers.Lion(0.01)),
    (gd.LionOptimizer(0.01, 0.8, 0.95, weight_decay=0.2), lambda: keras.optimizers.Lion(0.01, 0.8, 0.95, weight_decay=0.2)),
    (gd.NadamOptimizer(0.01, epsilon=1e-7, momentum_decay=1), lambda: keras.optimizers.Nadam(0.01)),
    (gd.GradientAccumulation(gd.LionOptimizer(0.01), 3), lambda: keras.optimizers.Lion(0.01, gradient_accumulation_steps=3)),
]


@pytest.mark.filterwarnings("ignore:__array__ implementation:DeprecationWarning")  # of Keras's own
@pytest.mark.parametrize("number", range(len(KERAS_RULES)), ids=lambda number: f"{number} {KERAS_RULES[number][0]}"[:30])
def test_rules_are_those_of_keras(golden: Golden, number: int) -> None:
    rule, make = KERAS_RULES[number]
    start, gradients = drawn("keras", (40,), (STEPS, 40))

    def compute() -> list[Any]:
        variable, optimizer = keras.Variable(start), make()
        for gradient in gradients:
            optimizer.apply([keras.ops.convert_to_tensor(gradient)], [variable])
        return [variable.value]

    [expected] = golden(compute, start, *gradients[:2], needs=keras)
    found = start.copy()
    for gradient in gradients:
        rule.update(found, gradient)
    expected.close(found, rtol=1e-4, atol=2e-5)


def test_a_moving_average_is_that_of_keras(golden: Golden) -> None:
    start, gradients = drawn("ema", (20,), (30, 20))

    def compute() -> list[Any]:
        variable, optimizer = keras.Variable(start), keras.optimizers.SGD(0.1, use_ema=True, ema_momentum=0.8)
        for gradient in gradients:
            optimizer.apply([keras.ops.convert_to_tensor(gradient)], [variable])
        return [optimizer._model_variables_moving_average[0].value]

    [expected] = golden(compute, start, *gradients[:2], needs=keras)
    rule, found = gd.MovingAverage(gd.SGDOptimizer(0.1), 0.8), start.copy()
    for gradient in gradients:
        rule.update(found, gradient)
    expected.close(rule.average, rtol=1e-5, atol=1e-6)


SCHEDULES: list[tuple[gd.Schedule, Callable[[], Any]]] = [
    (gd.Polynomial(0.3, 40, 0.01, 2), lambda: keras.optimizers.schedules.PolynomialDecay(0.3, 40, 0.01, 2.0)),
    (gd.Piecewise([10, 30], [0.3, 0.2, 0.1]),
     lambda: keras.optimizers.schedules.PiecewiseConstantDecay([10, 30], [0.3, 0.2, 0.1])),
    (gd.CosineRestarts(0.3, 12, 2.0, 0.5, 0.03),
     lambda: keras.optimizers.schedules.CosineDecayRestarts(0.3, 12, 2.0, 0.5, 0.1)),
    (gd.CosineRestarts(0.3, 12, 1.0, 0.5), lambda: keras.optimizers.schedules.CosineDecayRestarts(0.3, 12, 1.0, 0.5)),
]  # fmt: skip


@pytest.mark.parametrize("number", range(len(SCHEDULES)), ids=lambda number: f"{number} {type(SCHEDULES[number][0]).__name__}")
def test_schedules_are_those_of_keras(golden: Golden, number: int) -> None:
    """But for the steps at which float32 of Keras cannot tell a restart from the step before."""
    schedule, make = SCHEDULES[number]
    steps = [step for step in range(80) if step % 12]

    def compute() -> list[Any]:
        theirs = make()
        return [np.array([float(theirs(step)) for step in steps])]

    [expected] = golden(compute, np.array(steps), needs=keras)
    expected.close([schedule(step) for step in steps], rtol=2e-5, atol=1e-6)


@pytest.mark.parametrize(("steps", "rise"), [(40, 0.3), (7, 0.5)])
def test_one_cycle_is_that_of_torch(golden: Golden, steps: int, rise: float) -> None:
    def compute() -> list[Any]:
        optimizer = torch.optim.SGD([torch.nn.Parameter(torch.zeros(1))], lr=0.1)
        theirs = torch.optim.lr_scheduler.OneCycleLR(optimizer, 0.3, total_steps=steps, pct_start=rise, cycle_momentum=False)
        found = []
        for _ in range(steps):
            found.append(optimizer.param_groups[0]["lr"])
            optimizer.step()
            if len(found) < steps:
                theirs.step()
        return [np.array(found)]

    [expected] = golden(compute, np.array([steps, rise]), needs=torch)
    schedule = gd.OneCycle(0.3, steps, rise)
    expected.close([schedule(step) for step in range(steps)], rtol=1e-12)


def chances(g: np.random.Generator, shape: tuple[int, ...]) -> Array:
    return g.uniform(0.02, 0.98, shape)


def rows(g: np.random.Generator, shape: tuple[int, ...]) -> Array:
    return g.dirichlet(np.ones(shape[-1]), shape[:-1])


def spread(g: np.random.Generator, shape: tuple[int, ...]) -> Array:
    return 2 * g.standard_normal(shape)


def decided(g: np.random.Generator, shape: tuple[int, ...]) -> Array:
    return g.integers(0, 2, shape).astype(np.float64)


def numbered(g: np.random.Generator, shape: tuple[int, ...]) -> Array:
    return g.integers(0, shape[-1], shape[:-1])


Draw = Callable[[np.random.Generator, tuple[int, ...]], Array]
LOSSES: dict[str, tuple[loss.Loss, Draw, Draw, Callable[[Any, Any], Any]]] = {
    "Binary_Focal_Cross_Entropy": (
        loss.Binary_Focal_Cross_Entropy(1.5, 0.3), spread, chances,
        lambda x, y: keras.losses.binary_focal_crossentropy(y, x, True, 0.3, 1.5, from_logits=True)),
    "Focal_Cross_Entropy_With_Softmax": (
        loss.Focal_Cross_Entropy_With_Softmax(1.5, 0.3), spread, rows,
        lambda x, y: keras.losses.categorical_focal_crossentropy(y, x, 0.3, 1.5, from_logits=True)),
    "KLDivergence": (loss.KLDivergence(), rows, rows, lambda x, y: keras.losses.kl_divergence(y, x)),
    "CosineSimilarity": (loss.CosineSimilarity(), spread, spread, lambda x, y: keras.losses.cosine_similarity(y, x)),
    "Dice": (loss.Dice(1e-3), chances, decided,
             lambda x, y: 1 - (2 * (x * y).flatten(1).sum(1) + 1e-3) / (x.flatten(1).sum(1) + y.flatten(1).sum(1) + 1e-3)),
    "SquaredHinge": (loss.SquaredHinge(), spread, decided, lambda x, y: keras.losses.squared_hinge(2 * y - 1, x)),
    "PoissonLoss": (loss.PoissonLoss(), chances, decided,
                    lambda x, y: torch.nn.functional.poisson_nll_loss(x, y, log_input=False, eps=0, reduction="none")),
    "QuantileLoss": (loss.QuantileLoss(0.8), spread, spread, lambda x, y: torch.maximum(0.8 * (y - x), 0.2 * (x - y))),
    "Contrastive": (loss.Contrastive(0.7), chances, decided, lambda x, y: (1 - y) * x**2 + y * torch.relu(0.7 - x) ** 2),
    "Triplet": (loss.Triplet(0.5), spread, numbered, lambda x, y: torch.nn.functional.triplet_margin_with_distance_loss(
        x[:, 0], x[:, 1], x[:, 2], distance_function=lambda a, b: ((a - b) ** 2).sum(dim=-1), margin=0.5, reduction="none")),
}  # fmt: skip


@pytest.mark.parametrize("name", LOSSES)
def test_losses_are_those_of_torch_and_keras(golden: Golden, name: str) -> None:
    """Values and gradients, with weights of samples."""
    (ours, draw, label_of, each), generator = LOSSES[name], keyed(0, name)
    for shape in ((7, 3), (5, 3, 4)) if name != "Triplet" else ((6, 3, 4),):
        output, label = draw(generator, shape), label_of(generator, shape)
        weight = generator.uniform(0, 3, shape[0])
        prepared, gradient = ours.prepare(label, output.shape, output.dtype), np.empty_like(output)
        ours.allocate(output.shape, output.dtype)
        value = ours.value(prepared, output, weight)
        ours.gradient(prepared, output, gradient, weight)

        def compute(output: Array = output, label: Array = label, weight: Array = weight) -> list[Any]:
            tensor = torch.tensor(output, requires_grad=True)
            losses = each(tensor, torch.tensor(label)).reshape(len(output), -1).mean(dim=1)
            expected = (losses * torch.tensor(weight)).sum() / len(output)
            expected.backward()
            return [expected, tensor.grad]

        expected, wanted = golden(compute, output, label, weight, needs=torch)
        # Keras clips probabilities at 1e-7 where these have a tangent.
        expected.close(value, rtol=1e-6)
        wanted.close(gradient, rtol=1e-5, atol=1e-7)


@pytest.mark.parametrize("levels", [5, 10**6])
def test_metrics_are_those_of_scikit_learn(golden: Golden, levels: int) -> None:
    """With scores of which many are equal where there are few levels."""
    generator = keyed(levels, "metrics")
    truth, score = generator.integers(0, 2, 60), generator.integers(0, levels, 60) / levels
    label, rows_ = generator.integers(0, 5, 60), generator.standard_normal((60, 6))
    found, number = rows_.argmax(axis=1), generator.standard_normal((60, 2))
    cases: list[tuple[metric.Metric, Array, Array, Callable[[], Any]]] = [
        (metric.AveragePrecision(), truth, score, lambda: reference.average_precision_score(truth, score)),
        (metric.BinaryIoU(), truth, score, lambda: reference.jaccard_score(truth, score > 0.5)),
        (metric.MeanIoU(), label, rows_, lambda: reference.jaccard_score(label, found, average="macro")),
        *((metric.ClassF1(average), label, rows_, lambda average=average: reference.f1_score(label, found, average=average))
          for average in ("macro", "micro", "weighted")),
        (metric.RootMeanSquareError(), number, number + rows_[:, :2],
         lambda: reference.root_mean_squared_error(number.ravel(), (number + rows_[:, :2]).ravel())),
        (metric.R2(), number, number + rows_[:, :2],
         lambda: reference.r2_score(number, number + rows_[:, :2], multioutput="variance_weighted")),
    ]  # fmt: skip
    answers = golden(lambda: [ask() for *_, ask in cases], truth, score, label, rows_, needs=reference)
    for answer, (made, true, predicted, _) in zip(answers, cases, strict=True):
        made.update(true, predicted)
        answer.close(made.result(), rtol=1e-9, message=str(made))
