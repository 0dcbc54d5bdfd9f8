"""Cross-check of losses, rules, schedules and metrics with torch and scikit-learn."""

from __future__ import annotations

import warnings
from collections.abc import Callable
from types import SimpleNamespace
from typing import Any

import numpy as np
import pytest

import nn
from nn import gradient_descent as gd
from nn import layer, loss, metric
from nn.arrays import Array
from nn.random import keyed
from tests.nn.golden import DTYPES, SEEDS, Golden, drawn, one_of, optional, several, whole

torch = optional("torch")
rates = optional("torch.optim.lr_scheduler")
reference = optional("sklearn.metrics")
functional = torch.nn.functional
PRECISION = {"float32": (1e-5, 1e-4), "float64": (1e-9, 1e-9)}
WEIGHTED = one_of(False, True)


def log_cosh(x: Any, y: Any) -> Any:
    return functional.softplus(-2 * (x - y)) + (x - y) - np.log(2)


def hinge(x: Any, y: Any) -> Any:
    chosen = functional.one_hot(y, x.shape[-1]).bool()
    return functional.relu(1 + x.masked_fill(chosen, -np.inf).max(dim=1).values - x[chosen])


def smoothed(smoothing: float) -> Callable[[Any, Any], Any]:
    def each(x: Any, y: Any) -> Any:
        flat = y.reshape(-1, x.shape[-1]) if y.shape == x.shape else y.reshape(-1)
        found = functional.cross_entropy(x.reshape(-1, x.shape[-1]), flat, reduction="none", label_smoothing=smoothing)
        return found.reshape(x.shape[:-1])

    return each


def minus_log(x: Any, y: Any) -> Any:
    return -((y if y.shape == x.shape else functional.one_hot(y, x.shape[-1])) * torch.log(x)).sum(dim=-1)


def targets(g: np.random.Generator, shape: list[int]) -> Array:
    return g.standard_normal(shape)


def numbers(g: np.random.Generator, shape: list[int]) -> Array:
    return g.integers(0, shape[-1], shape[:-1])


def rows(g: np.random.Generator, shape: list[int]) -> Array:
    return g.dirichlet(np.ones(shape[-1]), shape[:-1])


Case = tuple[loss.Loss, Callable[[np.random.Generator, list[int]], Array], Callable[[Any, Any], Any]]
LOSSES: dict[str, Case] = {
    "MSELoss": (loss.MSELoss(), targets, lambda x, y: functional.mse_loss(x, y, reduction="none")),
    "MAELoss": (loss.MAELoss(), targets, lambda x, y: functional.l1_loss(x, y, reduction="none")),
    "HuberLoss": (loss.HuberLoss(1.5), targets, lambda x, y: functional.huber_loss(x, y, reduction="none", delta=1.5)),
    "TanhLoss": (loss.TanhLoss(), targets, log_cosh),
    "Binary_Cross_Entropy": (
        loss.Binary_Cross_Entropy(),
        lambda g, shape: g.uniform(0, 1, shape),
        lambda x, y: functional.binary_cross_entropy_with_logits(x, y, reduction="none"),
    ),
    "Hinge": (loss.Hinge(), lambda g, shape: 2.0 * g.integers(0, 2, shape) - 1, lambda x, y: functional.relu(1 - x * y)),
    "Hinge of classes": (loss.Hinge(), numbers, hinge),
    **{
        f"Softmax of {of.__name__} {share}": (loss.Cross_Entropy_With_Softmax(share), of, smoothed(share))
        for of in (numbers, rows) for share in (0.0, 0.1, 0.7)
    },
    "Cross_Entropy of numbers": (loss.Cross_Entropy(), numbers, minus_log),
    "Cross_Entropy of rows": (loss.Cross_Entropy(), rows, minus_log),
}  # fmt: skip


@pytest.mark.parametrize("name", LOSSES)
@drawn(10, shape=several(whole(2, 7), 2, 4), dtype=DTYPES, weighted=WEIGHTED, seed=SEEDS)
def test_losses(golden: Golden, name: str, case: SimpleNamespace) -> None:
    """Values and gradients, with and without weights of samples."""
    (ours, draw, each), generator = LOSSES[name], keyed(case.seed, "torch")
    shape = case.shape[:2] if name == "Hinge of classes" else case.shape
    output = 4 * generator.standard_normal(shape)
    if "Cross_Entropy of" in name:
        output = 0.05 + rows(generator, shape)
        output /= output.sum(axis=-1, keepdims=True)
    output, label = output.astype(case.dtype), draw(generator, shape)
    label = label.astype(case.dtype) if label.dtype.kind == "f" else label
    prepared = ours.prepare(label, output.shape, output.dtype)
    weight = generator.uniform(0, 3, shape[0])
    given = (ours.check_weights(weight, len(output), output.dtype),) if case.weighted else ()
    ours.allocate(output.shape, output.dtype)
    value, gradient = ours.value(prepared, output, *given), np.empty_like(output)
    ours.gradient(prepared, output, gradient, *given)

    def compute() -> list[Any]:
        tensor = torch.tensor(output, requires_grad=True)
        losses = each(tensor, torch.tensor(label)).reshape(len(output), -1).mean(dim=1)
        expected = (losses * torch.tensor(given[0]) if given else losses).sum() / len(output)
        expected.backward()
        return [expected, tensor.grad]

    expected, wanted = golden(compute, output, label, *given, needs=torch)
    forward, backward = PRECISION[case.dtype]
    expected.close(value, rtol=forward, atol=forward)
    wanted.close(gradient, rtol=backward, atol=backward)


@pytest.mark.parametrize("classes", [2, 5])
def test_hinge_is_that_of_scikit_learn(golden: Golden, classes: int) -> None:
    generator = keyed(0, "scikit-learn")
    label = np.concatenate([np.arange(classes), generator.integers(0, classes, 20)])
    output = generator.standard_normal((len(label), 1 if classes == 2 else classes))
    ours = loss.Hinge()
    prepared = ours.prepare(label, output.shape, output.dtype)
    ours.allocate(output.shape, output.dtype)
    [expected] = golden(lambda: [reference.hinge_loss(label, output.squeeze())], label, output, needs=reference)
    expected.close(ours.value(prepared, output), rtol=1e-12)


STEPS = 100
RULES: list[tuple[gd.IGradientDescent, Callable[[Any], Any]]] = [
    (gd.SGDOptimizer(0.05), lambda w: torch.optim.SGD(w, lr=0.05)),
    (gd.SGDOptimizer(0.05, weight_decay=0.1), lambda w: torch.optim.SGD(w, lr=0.05, weight_decay=0.1)),
    (gd.MomentumOptimizer(0.05, 0.8), lambda w: torch.optim.SGD(w, lr=0.05, momentum=0.8)),
    (gd.MomentumOptimizer(weight_decay=0.1), lambda w: torch.optim.SGD(w, lr=0.01, momentum=0.9, weight_decay=0.1)),
    (gd.NesterovOptimizer(), lambda w: torch.optim.SGD(w, lr=0.01, momentum=0.9, nesterov=True)),
    (gd.ADAMOptimizer(), lambda w: torch.optim.Adam(w)),
    (gd.ADAMOptimizer(0.03, 0.8, 0.99, 1e-5, weight_decay=0.1),
     lambda w: torch.optim.Adam(w, lr=0.03, betas=(0.8, 0.99), eps=1e-5, weight_decay=0.1)),
    (gd.ADAMWOptimizer(), lambda w: torch.optim.AdamW(w)),
    (gd.ADAMWOptimizer(0.03, 0.8, 0.99, 1e-5, 0.2),
     lambda w: torch.optim.AdamW(w, lr=0.03, betas=(0.8, 0.99), eps=1e-5, weight_decay=0.2)),
    (gd.AdaGradOptimizer(), lambda w: torch.optim.Adagrad(w)),
    (gd.AdaGradOptimizer(0.1, 1e-3, weight_decay=0.1), lambda w: torch.optim.Adagrad(w, lr=0.1, eps=1e-3, weight_decay=0.1)),
    (gd.AdaDeltaOptimizer(), lambda w: torch.optim.Adadelta(w)),
    (gd.AdaDeltaOptimizer(0.5, 0.95, 1e-4, weight_decay=0.1),
     lambda w: torch.optim.Adadelta(w, lr=0.5, rho=0.95, eps=1e-4, weight_decay=0.1)),
    (gd.RMSPropOptimizer(), lambda w: torch.optim.RMSprop(w, lr=1e-3, alpha=0.9)),
    (gd.RMSPropOptimizer(0.02, 0.99, 1e-4, momentum=0.9, centered=True, weight_decay=0.1),
     lambda w: torch.optim.RMSprop(w, 0.02, alpha=0.99, eps=1e-4, momentum=0.9, centered=True, weight_decay=0.1)),
]  # fmt: skip
LIMITS: list[tuple[gd.IGradientDescent, Callable[[Any], object]]] = [
    (gd.SGDOptimizer(0.1, clip_norm=3), lambda w: torch.nn.utils.clip_grad_norm_(w, 3)),
    (gd.SGDOptimizer(0.1, clip_norm=1000), lambda w: torch.nn.utils.clip_grad_norm_(w, 1000)),
    (gd.SGDOptimizer(0.1, clip_value=0.3), lambda w: torch.nn.utils.clip_grad_value_(w, 0.3)),
]
SCHEDULES: list[tuple[gd.IGradientDescent, Callable[[Any], Any]]] = [
    (gd.SGDOptimizer(gd.Constant(0.1)), lambda o: rates.ConstantLR(o, factor=1)),
    (gd.SGDOptimizer(gd.StepDecay(0.1, 7, 0.5)), lambda o: rates.StepLR(o, 7, 0.5)),
    (gd.SGDOptimizer(gd.ExponentialDecay(0.1, 1, 0.95)), lambda o: rates.ExponentialLR(o, 0.95)),
    (gd.SGDOptimizer(gd.Cosine(0.1, STEPS, final=0.02)), lambda o: rates.CosineAnnealingLR(o, STEPS, 0.02)),
    (gd.SGDOptimizer(gd.WarmUp(0.1, 20, start=0.01)), lambda o: rates.LinearLR(o, start_factor=0.1, total_iters=20)),
    (gd.GradientDecay(0.1, 0.02), lambda o: rates.LambdaLR(o, lambda t: 1 / (1 + 0.02 * t))),
]


def sgd(w: Any) -> Any:
    return torch.optim.SGD(w, lr=0.1)


TRAININGS = [
    *((rule, optimizer, None, None) for rule, optimizer in RULES),
    *((rule, sgd, limit, None) for rule, limit in LIMITS),
    *((rule, sgd, None, scheduler) for rule, scheduler in SCHEDULES),
]


@pytest.mark.parametrize("number", range(len(TRAININGS)), ids=lambda number: f"{number} {type(TRAININGS[number][0]).__name__}")
def test_rules_over_a_hundred_steps(golden: Golden, number: int) -> None:
    rule, make, limit, scheduler = TRAININGS[number]
    start, gradients = keyed(0, "torch").standard_normal(500), keyed(1, "torch").standard_normal((STEPS, 500))

    def compute() -> list[Any]:
        tensor, used = torch.nn.Parameter(torch.tensor(start)), []
        optimizer = make([tensor])
        schedule = scheduler(optimizer) if scheduler else None
        for gradient in gradients:
            used.append(optimizer.param_groups[0]["lr"])
            tensor.grad = torch.tensor(gradient)
            if limit:
                limit([tensor])
            optimizer.step()
            if schedule:
                schedule.step()
        return [tensor, np.array(used)]

    expected, used = golden(compute, start, *gradients[:2], needs=torch)
    found = []
    parameters = start.copy()
    for gradient in gradients:
        rule.update(parameters, gradient)
        found.append(rule.rate)
    expected.close(parameters, rtol=1e-6, atol=1e-6 if limit else 1e-12)
    used.close(found, rtol=1e-9)


def test_training_a_network_of_convolutions(golden: Golden) -> None:
    generator, relu = keyed(1, "torch"), nn.activation.ReLU()
    x, y = generator.standard_normal((48, 12, 12, 2)), generator.integers(0, 4, 48)
    layers = [
        layer.Conv2D(16, padding="same", activation=relu), layer.MaxPool(2), layer.Conv2D(18, activation=relu),
        layer.AveragePool(2), layer.Flatten(), layer.Dense(4),
    ]  # fmt: skip
    model = nn.model.SequentialModel([-1, 12, 12, 2], layers, dtype="float64")
    model.setup(loss.Cross_Entropy_With_Softmax())
    model.compile(gd.ADAMOptimizer(0.01))

    def compute() -> list[Any]:
        tensors = [torch.tensor(variable.get_value(), requires_grad=True) for variable in model.trainable_variables()]
        optimizer = torch.optim.Adam(tensors, lr=0.01)

        def network(images: Any) -> Any:
            k1, b1, k2, b2, w, b = tensors
            z = torch.relu(functional.conv2d(images.movedim(-1, 1), k1.permute(3, 2, 0, 1), b1, padding=1))
            z = torch.relu(functional.conv2d(functional.max_pool2d(z, 2), k2.permute(3, 2, 0, 1), b2))
            return functional.avg_pool2d(z, 2).movedim(1, -1).flatten(1) @ w + b

        for _ in range(3):
            for images, labels in zip(torch.tensor(x).split(16), torch.tensor(y).split(16), strict=True):
                optimizer.zero_grad()
                functional.cross_entropy(network(images), labels).backward()
                optimizer.step()
        return [network(torch.tensor(x))]

    [expected] = golden(compute, x, y, model.store.values, needs=torch)
    model.fit(x, y, epoch=3, batch_size=16, shuffle=False, verbose=0)
    expected.close(model.predict(x), rtol=1e-6, atol=1e-9)


def fed(made: metric.Metric, sizes: list[int], label: Array, prediction: Array) -> float:
    start = 0
    for size in sizes:
        made.update(label[start : start + size], prediction[start : start + size])
        start += size
    return made.result()


def asked(
    golden: Golden, label: Array, prediction: Array, *functions: Callable[[Array, Array], Any]
) -> list[Callable[..., None]]:
    """What scikit-learn's functions say, each as a check of a number or an array."""

    def compute() -> list[Any]:
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")  # that a value is not defined, which is what is compared here too
            return [function(label, prediction) for function in functions]

    answers = golden(compute, label, prediction, needs=reference)
    return [lambda found, answer=answer: answer.close(found, rtol=1e-9, atol=1e-12) for answer in answers]


def equal_error_rate(label: Array, score: Array) -> float:
    false, true, _ = reference.roc_curve(label, score, drop_intermediate=False)
    return float(np.interp(0, false + true - 1, false))


BATCHES = several(whole(1, 9), 2, 12)
TWO_CLASSES = {
    metric.AreaUnderCurve: reference.roc_auc_score,
    metric.EqualErrorRate: equal_error_rate,
    metric.BinaryAccuracy: lambda y, p: reference.accuracy_score(y, p > 0.5),
    metric.Precision: lambda y, p: reference.precision_score(y, p > 0.5, zero_division=0),
    metric.Recall: lambda y, p: reference.recall_score(y, p > 0.5, zero_division=0),
    metric.F1: lambda y, p: reference.f1_score(y, p > 0.5, zero_division=0),
    metric.TrueNegative: lambda y, p: reference.confusion_matrix(y, p > 0.5, labels=[0, 1])[0, 0],
    metric.FalsePositive: lambda y, p: reference.confusion_matrix(y, p > 0.5, labels=[0, 1])[0, 1],
    metric.FalseNegative: lambda y, p: reference.confusion_matrix(y, p > 0.5, labels=[0, 1])[1, 0],
    metric.TruePositive: lambda y, p: reference.confusion_matrix(y, p > 0.5, labels=[0, 1])[1, 1],
}


@drawn(24, seed=whole(0, 2**32), sizes=BATCHES, levels=one_of(1, 2, 5, 50, 10**6), dtype=DTYPES)
def test_metrics_of_two_classes(golden: Golden, case: SimpleNamespace) -> None:
    """With scores of which many are equal where there are few levels."""
    generator, samples = keyed(case.seed, "labels"), sum(case.sizes)
    label = generator.integers(0, 2, samples)
    score = (generator.integers(0, case.levels, samples) / case.levels).astype(case.dtype)
    for kind, check in zip(TWO_CLASSES, asked(golden, label, score, *TWO_CLASSES.values()), strict=True):
        check(fed(kind(), case.sizes, label, score))


@drawn(20, seed=whole(0, 2**32), sizes=BATCHES, classes=whole(3, 8))
def test_metrics_of_many_classes(golden: Golden, case: SimpleNamespace) -> None:
    generator, names = keyed(case.seed, "labels"), list(range(case.classes))
    label, score = (
        generator.integers(0, case.classes, sum(case.sizes)),
        generator.standard_normal((sum(case.sizes), case.classes)),
    )
    k, confusion = int(generator.integers(1, case.classes)), metric.ConfusionMatrix()
    accuracy, among_k, balanced, counts = asked(
        golden, label, score,
        lambda y, p: reference.accuracy_score(y, p.argmax(axis=1)),
        lambda y, p: reference.top_k_accuracy_score(y, p, k=k, labels=names),
        lambda y, p: reference.balanced_accuracy_score(y, p.argmax(axis=1)),
        lambda y, p: reference.confusion_matrix(y, p.argmax(axis=1), labels=names),
    )  # fmt: skip
    accuracy(fed(metric.CategoricalAccuracy(), case.sizes, label, score))
    among_k(fed(metric.TopKAccuracy(k), case.sizes, label, score))
    balanced(fed(confusion, case.sizes, label, score))
    counts(confusion.matrix())
    tied = np.round(score)  # the first of equal outputs counts, as in argmax
    first = fed(metric.TopKAccuracy(1), case.sizes, label, tied)
    assert first == fed(metric.CategoricalAccuracy(), case.sizes, label, tied) == (tied.argmax(axis=1) == label).mean()


@drawn(20, seed=whole(0, 2**32), sizes=BATCHES, outputs=whole(1, 4), zeros=one_of(False, True))
def test_metrics_of_numbers(golden: Golden, case: SimpleNamespace) -> None:
    generator = keyed(case.seed, "labels")
    label = generator.standard_normal((sum(case.sizes), case.outputs)) * 10.0 ** generator.integers(-3, 4)
    prediction = label + generator.standard_normal(label.shape)
    if case.zeros:
        label[generator.random(label.shape) < 0.2] = 0
    kinds = {
        metric.MeanSquareError: reference.mean_squared_error,
        metric.RelativeError: reference.mean_absolute_percentage_error,
        metric.RelativeMeanSquareError: lambda y, p: 1 - reference.r2_score(y, p, multioutput="variance_weighted"),
    }
    if not np.ptp(label, axis=0).all():  # scikit-learn leaves out the errors of outputs whose labels do not vary
        del kinds[metric.RelativeMeanSquareError]
    for kind, check in zip(kinds, asked(golden, label, prediction, *kinds.values()), strict=True):
        check(fed(kind(), case.sizes, label, prediction))
