"""Stages on the gradient's side: formulas, state, and that they act on small variables, too."""

from __future__ import annotations

import numpy as np
import pytest

from nn.gradient_descent import ADAMOptimizer, IGradientDescent, MomentumOptimizer, NesterovOptimizer
from parallel_sgd.codec.pipeline import AdamPrecond, Clip, GradientStage, Momentum, Nesterov, Pipeline, TopK

from .laws import DRAW, gaussian, sent


def test_clip_is_the_formula() -> None:
    x = gaussian(5000)
    length = np.linalg.norm(x.astype(np.float64))
    np.testing.assert_allclose(sent(lambda: Clip(2.0), x), x * (2 / length), rtol=1e-6)
    np.testing.assert_allclose(sent(lambda: Clip(2.0, workers=16), x), x * (0.5 / length), rtol=1e-6)
    assert sent(lambda: Clip(100.0), x).tobytes() == x.tobytes()


def test_clip_does_not_overflow() -> None:
    x = np.full(4, 1e38, np.float32)
    np.testing.assert_allclose(sent(lambda: Clip(2.0), x), np.ones(4), rtol=1e-6)


@pytest.mark.parametrize(
    ("stage", "rule"),
    [
        (Momentum(0.8), MomentumOptimizer(1.0, 0.8)),
        (Nesterov(0.8), NesterovOptimizer(1.0, 0.8)),
        (AdamPrecond(0.8, 0.99, 1e-6), ADAMOptimizer(1.0, 0.8, 0.99, 1e-6)),
    ],
)
def test_a_rule_before_the_packet_has_the_bits_of_the_rule(stage: GradientStage, rule: IGradientDescent) -> None:
    pipeline, n = Pipeline(stage), 70_000
    for step in range(5):
        x, expected = gaussian(n, seed=step), np.empty(n, np.float32)
        rule.delta(x, x, expected)
        np.testing.assert_array_equal(pipeline.decode(pipeline.encode(x, DRAW), (n,), DRAW), -expected)


def test_the_formulas() -> None:
    v, ahead = np.zeros(100), Pipeline(Nesterov(0.5))
    m, s, adam = np.zeros(100), np.zeros(100), Pipeline(AdamPrecond(0.9, 0.99, 1e-8))
    heavy = Pipeline(Momentum(0.5))
    for t in range(1, 6):
        x = gaussian(100, seed=t)
        v = 0.5 * v + x
        m, s = 0.9 * m + 0.1 * x, 0.99 * s + 0.01 * x.astype(np.float64) ** 2
        for pipeline, expected in (
            (heavy, v),
            (ahead, x + 0.5 * v),
            (adam, (m / (1 - 0.9**t)) / (np.sqrt(s / (1 - 0.99**t)) + 1e-8)),
        ):
            np.testing.assert_allclose(pipeline.decode(pipeline.encode(x, DRAW), (100,), DRAW), expected, rtol=2e-5, atol=1e-6)


def test_they_act_where_a_variable_is_too_small_to_compress() -> None:
    pipeline = Pipeline(Momentum(0.5) | TopK(0.5))
    assert pipeline.is_dense(1)
    assert pipeline.wire_bytes(1) == 4
    for expected in (2.0, 3.0, 3.5):
        payload = pipeline.encode(np.array([2.0]), DRAW)
        assert payload.size == 4
        assert pipeline.decode(payload, (1,), DRAW) == expected


def test_a_state_of_another_size_is_refused() -> None:
    stage = Momentum(0.5)
    Pipeline(stage).encode(gaussian(10), DRAW)
    with pytest.raises(ValueError, match="MomentumOptimizer holds state for 10 parameters of float32, got 11"):
        Pipeline(stage).encode(gaussian(11), DRAW)
