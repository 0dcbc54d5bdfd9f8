"""Cross-check of rules, schedules and clipping with torch: 100 steps in double precision, 1e-6."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
import pytest

from nn import gradient_descent as gd
from nn.arrays import Array
from nn.random import keyed
from tests.nn.golden import Golden, optional

torch = optional("torch")
torchs = optional("torch.optim.lr_scheduler")

STEPS, PARAMETERS = 100, 500

RULES: list[tuple[gd.IGradientDescent, Callable[[Any], Any]]] = [
    (gd.SGDOptimizer(0.05), lambda w: torch.optim.SGD([w], lr=0.05)),
    (gd.SGDOptimizer(0.05, weight_decay=0.1), lambda w: torch.optim.SGD([w], lr=0.05, weight_decay=0.1)),
    (gd.MomentumOptimizer(0.05, 0.8), lambda w: torch.optim.SGD([w], lr=0.05, momentum=0.8)),
    (gd.MomentumOptimizer(weight_decay=0.1), lambda w: torch.optim.SGD([w], lr=0.01, momentum=0.9, weight_decay=0.1)),
    (gd.NesterovOptimizer(), lambda w: torch.optim.SGD([w], lr=0.01, momentum=0.9, nesterov=True)),
    (gd.ADAMOptimizer(), lambda w: torch.optim.Adam([w])),
    (
        gd.ADAMOptimizer(0.03, 0.8, 0.99, 1e-5, weight_decay=0.1),
        lambda w: torch.optim.Adam([w], lr=0.03, betas=(0.8, 0.99), eps=1e-5, weight_decay=0.1),
    ),
    (gd.ADAMWOptimizer(), lambda w: torch.optim.AdamW([w])),
    (
        gd.ADAMWOptimizer(0.03, 0.8, 0.99, 1e-5, 0.2),
        lambda w: torch.optim.AdamW([w], lr=0.03, betas=(0.8, 0.99), eps=1e-5, weight_decay=0.2),
    ),
    (gd.AdaGradOptimizer(), lambda w: torch.optim.Adagrad([w])),
    (gd.AdaGradOptimizer(0.1, 1e-3, weight_decay=0.1), lambda w: torch.optim.Adagrad([w], lr=0.1, eps=1e-3, weight_decay=0.1)),
    (gd.AdaDeltaOptimizer(), lambda w: torch.optim.Adadelta([w])),
    (
        gd.AdaDeltaOptimizer(0.5, 0.95, 1e-4, weight_decay=0.1),
        lambda w: torch.optim.Adadelta([w], lr=0.5, rho=0.95, eps=1e-4, weight_decay=0.1),
    ),
    (gd.RMSPropOptimizer(), lambda w: torch.optim.RMSprop([w], lr=1e-3, alpha=0.9)),
    (
        gd.RMSPropOptimizer(0.02, 0.99, 1e-4, momentum=0.9, centered=True, weight_decay=0.1),
        lambda w: torch.optim.RMSprop([w], 0.02, alpha=0.99, eps=1e-4, momentum=0.9, centered=True, weight_decay=0.1),
    ),
]

LIMITS: list[tuple[gd.IGradientDescent, Callable[[Any], object]]] = [
    (gd.SGDOptimizer(0.1, clip_norm=3), lambda w: torch.nn.utils.clip_grad_norm_([w], 3)),
    (gd.SGDOptimizer(0.1, clip_norm=1000), lambda w: torch.nn.utils.clip_grad_norm_([w], 1000)),
    (gd.SGDOptimizer(0.1, clip_value=0.3), lambda w: torch.nn.utils.clip_grad_value_([w], 0.3)),
]


SCHEDULES: list[tuple[gd.SGDOptimizer, Callable[[Any], Any]]] = [
    (gd.SGDOptimizer(gd.Constant(0.1)), lambda o: torchs.ConstantLR(o, factor=1)),
    (gd.SGDOptimizer(gd.StepDecay(0.1, 7, 0.5)), lambda o: torchs.StepLR(o, 7, 0.5)),
    (gd.SGDOptimizer(gd.ExponentialDecay(0.1, 1, 0.95)), lambda o: torchs.ExponentialLR(o, 0.95)),
    (gd.SGDOptimizer(gd.Cosine(0.1, STEPS, final=0.02)), lambda o: torchs.CosineAnnealingLR(o, STEPS, 0.02)),
    (gd.SGDOptimizer(gd.WarmUp(0.1, 20, start=0.01)), lambda o: torchs.LinearLR(o, start_factor=0.1, total_iters=20)),
    (gd.GradientDecay(0.1, 0.02), lambda o: torchs.LambdaLR(o, lambda t: 1 / (1 + 0.02 * t))),
]


@pytest.mark.parametrize(("rule", "reference"), RULES, ids=lambda value: repr(value) if not callable(value) else "")
def test_rules_over_a_hundred_steps(golden: Golden, rule: gd.IGradientDescent, reference: Callable[[Any], Any]) -> None:
    def compute() -> list[Any]:
        tensor = torch.nn.Parameter(torch.tensor(start()))
        optimizer = reference(tensor)
        for gradient in gradients():
            tensor.grad = torch.tensor(gradient)
            optimizer.step()
        return [tensor]

    [expected] = golden(compute, start(), *gradients()[:2], needs=torch)
    expected.close(trained(rule), rtol=1e-6, atol=1e-12)


@pytest.mark.parametrize(("rule", "clip"), LIMITS, ids=lambda value: repr(value) if not callable(value) else "")
def test_clipping(golden: Golden, rule: gd.IGradientDescent, clip: Callable[[Any], object]) -> None:
    def compute() -> list[Any]:
        tensor = torch.nn.Parameter(torch.tensor(start()))
        optimizer = torch.optim.SGD([tensor], lr=0.1)
        for gradient in gradients():
            tensor.grad = torch.tensor(gradient)
            clip(tensor)
            optimizer.step()
        return [tensor]

    [expected] = golden(compute, start(), *gradients()[:2], needs=torch)
    expected.close(trained(rule), rtol=1e-6, atol=1e-6)


@pytest.mark.parametrize(("rule", "scheduler"), SCHEDULES, ids=lambda value: repr(value) if not callable(value) else "")
def test_schedules(golden: Golden, rule: gd.IGradientDescent, scheduler: Callable[[Any], Any]) -> None:
    def compute() -> list[Any]:
        tensor = torch.nn.Parameter(torch.tensor(start()))
        optimizer = torch.optim.SGD([tensor], lr=0.1)
        reference, rates = scheduler(optimizer), []
        for gradient in gradients():
            rates.append(optimizer.param_groups[0]["lr"])
            tensor.grad = torch.tensor(gradient)
            optimizer.step()
            reference.step()
        return [tensor, np.array(rates)]

    rates: list[float] = []
    parameters, expected = golden(compute, start(), *gradients()[:2], needs=torch)
    parameters.close(trained(rule, rates), rtol=1e-6, atol=1e-12)
    expected.close(rates, rtol=1e-9)


def trained(rule: gd.IGradientDescent, rates: list[float] | None = None) -> Array:
    """The parameters after all steps; the rate of each step is added to `rates`."""
    parameters = start()
    for gradient in gradients():
        rule.update(parameters, gradient)
        if rates is not None:
            rates.append(rule.rate)
    return parameters


def start() -> Array:
    return keyed(0, "torch").standard_normal(PARAMETERS)


def gradients() -> list[Array]:
    return list(keyed(1, "torch").standard_normal((STEPS, PARAMETERS)))
