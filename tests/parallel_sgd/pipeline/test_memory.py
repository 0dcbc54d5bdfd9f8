"""Stages that remember: error feedback, deep gradient compression, difference coding; and those on the gradient's side."""

from __future__ import annotations

import numpy as np
import pytest

from nn.gradient_descent import ADAMOptimizer, IGradientDescent, MomentumOptimizer, NesterovOptimizer
from parallel_sgd.codec.pipeline import (
    AdamPrecond,
    Clip,
    DGCMemory,
    DiffRef,
    Draw,
    ErrorFeedback,
    GradientStage,
    Int8,
    Momentum,
    Nesterov,
    Pipeline,
    RandomK,
    TopK,
)
from tests.statements import covers

from .laws import DRAW, Array, Make, gaussian, sent
from .stages import INNER, MEMORIES

each_inner = pytest.mark.parametrize("inner", INNER.values(), ids=INNER)


def steps(count: int, first: int = 0) -> list[Draw]:
    return [DRAW._replace(batch=batch) for batch in range(first, first + count)]


def gradients(count: int, n: int, first: int = 0) -> list[Array]:
    return [gaussian(n, seed=100 + step) + np.float32(0.1) for step in range(first, first + count)]


@covers("LAW-5")
@each_inner
@pytest.mark.share(6)
def test_what_was_sent_and_the_residual_are_the_sum_of_all_inputs(inner: Make) -> None:
    """Nothing is lost in 1000 steps; and the residual is what the receiver lacks, to the bit, in every step."""
    n = 600
    stage = ErrorFeedback(inner())
    sender, receiver = Pipeline(stage), Pipeline(ErrorFeedback(inner()))
    total_in, total_sent = np.zeros(n), np.zeros(n)
    residual = np.zeros(n, np.float32)
    for draw, x in zip(steps(1000), gradients(1000, n), strict=True):
        decoded = receiver.decode(sender.encode(x, draw), (n,), draw)
        residual = (x + residual) - decoded
        np.testing.assert_array_equal(stage.state_dict()["residual"], residual)
        total_in += x
        total_sent += decoded
    difference = total_sent + residual - total_in
    assert np.linalg.norm(difference) <= 1e-6 * np.linalg.norm(total_in)


def test_beta_forgets() -> None:
    stage = ErrorFeedback(TopK(0.5), beta=0.25)
    pipeline = Pipeline(stage)
    pipeline.encode(np.array([8.0, 4.0] * 50, np.float32), DRAW)
    np.testing.assert_array_equal(stage.state_dict()["residual"], [0, 4] * 50)
    payload = pipeline.encode(np.array([0.5, 2.0] * 50, np.float32), DRAW)
    np.testing.assert_array_equal(pipeline.decode(payload, (100,), DRAW), [0, 3] * 50)
    np.testing.assert_array_equal(stage.state_dict()["residual"], [0.5, 0] * 50)


def test_error_feedback_sends_in_the_end_what_its_stage_never_would() -> None:
    """One large number hides 99 small ones from TopK; the residual brings them forth."""
    n, x = 100, np.full(100, 0.1, np.float32)
    x[0] = 1.0
    for make, reaches in ((lambda: ErrorFeedback(TopK(0.01)), True), (lambda: TopK(0.01), False)):
        pipeline, total = Pipeline(make()), np.zeros(n)
        for draw in steps(2000):
            total += pipeline.decode(pipeline.encode(x, draw), (n,), draw)
        assert bool(np.abs(total / 2000 - x).max() < 0.02) is reaches


def test_dgc_is_local_momentum_where_all_is_sent() -> None:
    """rho = 1 == SGD with local momentum, bit for bit."""
    n, momentum = 5000, 0.9
    stage = DGCMemory(momentum, TopK(1.0))
    sender, receiver = Pipeline(stage), Pipeline(DGCMemory(momentum, TopK(1.0)))
    velocity = np.zeros(n, np.float32)
    for draw, x in zip(steps(50), gradients(50, n), strict=True):
        velocity = velocity * np.float32(momentum) + x
        decoded = receiver.decode(sender.encode(x, draw), (n,), draw)
        np.testing.assert_array_equal(decoded, velocity)
        assert not stage.state_dict()["accumulated"].any()


def test_dgc_masks_what_was_sent_and_nothing_else() -> None:
    n, momentum = 5000, np.float32(0.9)
    stage = DGCMemory(0.9, TopK(0.01))
    pipeline = Pipeline(stage)
    u, v = np.zeros(n, np.float32), np.zeros(n, np.float32)
    for draw, x in zip(steps(60, first=1), gradients(60, n), strict=True):
        u = u * momentum + x
        v = v + u
        kept = np.sort(np.argsort(-np.abs(v), kind="stable")[:50])
        decoded = pipeline.decode(pipeline.encode(x, draw), (n,), draw)
        np.testing.assert_array_equal(np.flatnonzero(decoded), kept)
        np.testing.assert_array_equal(decoded[kept], v[kept])
        u[kept] = v[kept] = 0
        state = stage.state_dict()
        np.testing.assert_array_equal(state["velocity"], u)
        np.testing.assert_array_equal(state["accumulated"], v)


def test_dgc_keeps_the_rounding_error_of_a_quantiser() -> None:
    n = 5000
    stage = DGCMemory(0.0, TopK(0.01) | Int8(256))
    pipeline, total_in, total_sent = Pipeline(stage), np.zeros(n), np.zeros(n)
    for draw, x in zip(steps(100), gradients(100, n), strict=True):
        total_in += x
        total_sent += pipeline.decode(pipeline.encode(x, draw), (n,), draw)
    left = stage.state_dict()["accumulated"]
    np.testing.assert_allclose(total_sent + left, total_in, atol=1e-4)


def test_both_ends_of_a_difference_keep_the_same_reference() -> None:
    n = 1000
    sending = [DiffRef(TopK(0.1) | Int8(256)) for _ in range(3)]
    receiving = DiffRef(TopK(0.1) | Int8(256))
    pipelines, receiver = [Pipeline(stage) for stage in sending], Pipeline(receiving)
    for step in range(30):
        for node, pipeline in enumerate(pipelines):
            draw = Draw(0, 0, step, 0, node)
            receiver.decode(pipeline.encode(gaussian(n, seed=31 * node + step), draw), (n,), draw)
    state = receiving.state_dict()
    assert set(state) == {"heard.0", "heard.1", "heard.2"}
    for node, stage in enumerate(sending):
        np.testing.assert_array_equal(state[f"heard.{node}"], stage.state_dict()["reference"])


def test_a_difference_converges_where_the_vector_does() -> None:
    """EF21: a contraction of delta takes the error of a vector at rest down by 1 - delta in each step."""
    n, x = 1000, gaussian(1000)
    pipeline, errors = Pipeline(DiffRef(TopK(0.1))), []
    for draw in steps(10):
        errors.append(float(np.linalg.norm(pipeline.decode(pipeline.encode(x, draw), (n,), draw) - x)))
    assert (np.diff(errors) < 0).all()
    assert errors[-1] == 0


def test_declarations() -> None:
    assert all(make().delta(1000) is None for make in MEMORIES.values())
    assert ErrorFeedback(RandomK(0.1, scaled=False)).linear
    assert not ErrorFeedback(TopK(0.1)).linear
    assert not DiffRef(RandomK(0.1)).linear
    assert DiffRef(RandomK(0.1)).unbiased


def test_a_state_that_does_not_fit_is_refused() -> None:
    stage, momentum = ErrorFeedback(TopK(0.1)), Momentum(0.5)
    for state, message in (
        ({"velocity": np.zeros(3)}, r"ErrorFeedback does not remember 'velocity' of shape \(3,\)"),
        ({"residual": np.zeros((3, 1))}, r"ErrorFeedback does not remember 'residual' of shape \(3, 1\)"),
        ({"inner.step": 3}, "remembers nothing, got step"),
    ):
        with pytest.raises(ValueError, match=message):
            stage.load_state_dict(state)
    stage.load_state_dict({"residual": np.zeros(3)})
    with pytest.raises(ValueError, match="ErrorFeedback remembers 3 numbers as 'residual', got 100"):
        Pipeline(stage).encode(gaussian(100), DRAW)
    Pipeline(momentum).encode(gaussian(10), DRAW)
    with pytest.raises(ValueError, match="MomentumOptimizer holds state for 10 parameters of float32, got 11"):
        Pipeline(momentum).encode(gaussian(11), DRAW)


# the gradient's side -----------------------------------------------------------------------------------------------------


def test_clip_is_the_formula() -> None:
    x = gaussian(5000)
    length = np.linalg.norm(x.astype(np.float64))
    np.testing.assert_allclose(sent(lambda: Clip(2.0), x), x * (2 / length), rtol=1e-6)
    np.testing.assert_allclose(sent(lambda: Clip(2.0, workers=16), x), x * (0.5 / length), rtol=1e-6)
    assert sent(lambda: Clip(100.0), x).tobytes() == x.tobytes()
    huge = np.full(4, 1e38, np.float32)  # whose squares overflow
    np.testing.assert_allclose(sent(lambda: Clip(2.0), huge), np.ones(4), rtol=1e-6)


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
        rule.write_change(x, x, expected)
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
