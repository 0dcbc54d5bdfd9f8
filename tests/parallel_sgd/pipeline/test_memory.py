"""Stages that remember: error feedback, the memory of deep gradient compression, difference coding."""

from __future__ import annotations

from collections.abc import Callable

import numpy as np
import pytest

import parallel_sgd.codec.pipeline
from parallel_sgd.codec.pipeline import Chain, Draw, Pipeline, Stage
from parallel_sgd.codec.pipeline.gradient import Clip, Momentum
from parallel_sgd.codec.pipeline.memory import DGCMemory, DiffRef, ErrorFeedback, Memory
from parallel_sgd.codec.pipeline.quantize import Int8, Sign, TwoMeans
from parallel_sgd.codec.pipeline.sparsify import RandomK, Threshold, TopK
from tests.contract.kinds import public_kinds

from .laws import DRAW, SIZES, Array, check_damage, check_determinism, check_edges, check_linearity, check_shapes, gaussian

Make = Callable[[], Stage]

INNER: dict[str, Make] = {
    "TopK": lambda: TopK(0.02),
    "TopK | Int8": lambda: TopK(0.05) | Int8(256),
    "TopK in a warm-up": lambda: TopK(0.01, warmup=20),
    "RandomK": lambda: RandomK(0.1, scaled=False),
    "Threshold": lambda: Threshold(0.7),
    "Sign": lambda: Sign(),
    "TwoMeans": lambda: TwoMeans(),
    "Int8": lambda: Int8(256),
    "dense": lambda: Chain(),
}
MEMORIES: dict[str, Make] = {
    **{f"EF {name}": lambda inner=inner: ErrorFeedback(inner()) for name, inner in INNER.items()},
    "EF beta": lambda: ErrorFeedback(TopK(0.02), beta=0.7),
    "DGC": lambda: DGCMemory(0.9, TopK(0.02)),
    "DGC | Int8": lambda: DGCMemory(0.9, TopK(0.02) | Int8(256)),
    "DGC all": lambda: DGCMemory(0.9, TopK(1.0)),
    "DiffRef TopK": lambda: DiffRef(TopK(0.02)),
    "DiffRef Int8": lambda: DiffRef(Int8(256)),
}
each_inner = pytest.mark.parametrize("inner", INNER.values(), ids=INNER)
each_memory = pytest.mark.parametrize("make", MEMORIES.values(), ids=MEMORIES)


def steps(count: int, first: int = 0) -> list[Draw]:
    return [DRAW._replace(batch=batch) for batch in range(first, first + count)]


def gradients(count: int, n: int, first: int = 0) -> list[Array]:
    return [gaussian(n, seed=100 + step) + np.float32(0.1) for step in range(first, first + count)]


@each_memory
def test_the_generic_laws(make: Make) -> None:
    check_shapes(make)
    check_edges(make)
    check_determinism(make)
    check_damage(make)
    check_linearity(make)


def test_every_memory_has_a_row() -> None:
    kinds = public_kinds(Memory, parallel_sgd.codec.pipeline)
    assert kinds == {type(make()) for make in MEMORIES.values()}
    assert {kind.__name__ for kind in kinds} <= set(parallel_sgd.codec.pipeline.__all__)


@each_memory
def test_packets_are_those_of_the_inner_stage_and_never_larger_than_dense(make: Make) -> None:
    for n in SIZES:
        stage = make()
        assert isinstance(stage, Memory)
        pipeline, inner = Pipeline(stage), Pipeline(stage.inner)
        assert pipeline.wire_bytes(n) == inner.wire_bytes(n) <= 4 * n
        assert not pipeline.is_dense(n)  # the memory works for small variables, too
        x = gaussian(n)
        payload = pipeline.encode(x, DRAW)
        assert payload.size <= pipeline.wire_bytes(n)
        assert pipeline.decode(payload, (n,), DRAW).shape == (n,)


@each_inner
def test_what_was_sent_and_the_residual_are_the_sum_of_all_inputs(inner: Make) -> None:
    """Law 5: nothing is lost in 1000 steps; and the residual is what the receiver lacks, to the bit, in every step."""
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


@each_memory
def test_a_run_goes_on_from_its_state_bit_for_bit(make: Make) -> None:
    n, count = 3000, 12
    whole = make()
    sender, receiver = Pipeline(whole), Pipeline(make())
    expected = [
        (payload.tobytes(), receiver.decode(payload, (n,), draw).tobytes())
        for draw, x in zip(steps(count), gradients(count, n), strict=True)
        for payload in [sender.encode(x, draw)]
    ]
    found = []
    saved_sender, saved_receiver = make().state_dict(), make().state_dict()
    for draw, x in zip(steps(count), gradients(count, n), strict=True):
        one, two = make(), make()
        one.load_state_dict(saved_sender)
        two.load_state_dict(saved_receiver)
        payload = Pipeline(one).encode(x, draw)
        found.append((payload.tobytes(), Pipeline(two).decode(payload, (n,), draw).tobytes()))
        saved_sender = {name: np.copy(value) for name, value in one.state_dict().items()}
        saved_receiver = {name: np.copy(value) for name, value in two.state_dict().items()}
    assert found == expected
    for name, value in whole.state_dict().items():
        np.testing.assert_array_equal(value, saved_sender[name])


@each_memory
def test_a_loaded_state_is_a_copy(make: Make) -> None:
    first, second = make(), make()
    pipeline = Pipeline(first)
    pipeline.encode(gaussian(100), DRAW)
    second.load_state_dict(first.state_dict())
    before = {name: np.copy(value) for name, value in second.state_dict().items()}
    pipeline.encode(gaussian(100, seed=1), DRAW)
    for name, value in second.state_dict().items():
        np.testing.assert_array_equal(value, before[name])
    second.load_state_dict(make().state_dict())  # a fresh one
    x = gaussian(100)
    assert Pipeline(second).encode(x, DRAW).tobytes() == Pipeline(make()).encode(x, DRAW).tobytes()


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
    for make in MEMORIES.values():
        stage = make()
        assert isinstance(stage, Memory)
        assert stage.delta(1000) is None
        assert stage.deterministic == stage.inner.deterministic
        assert stage.shared_seed == stage.inner.shared_seed
    assert ErrorFeedback(RandomK(0.1, scaled=False)).linear
    assert not ErrorFeedback(TopK(0.1)).linear
    assert not DiffRef(RandomK(0.1)).linear
    assert DiffRef(RandomK(0.1)).unbiased
    chain = "Clip(norm=1.0, workers=1) | ErrorFeedback(inner=TopK(rho=0.1, warmup=0) | Int8(block=64), beta=1.0)"
    assert repr(Clip(1.0) | ErrorFeedback(TopK(0.1) | Int8(64))) == chain
    names = {name: getattr(parallel_sgd.codec.pipeline, name) for name in parallel_sgd.codec.pipeline.__all__}
    assert repr(eval(chain, names)) == chain


@pytest.mark.parametrize(
    ("make", "kind", "message"),
    [
        (lambda: ErrorFeedback(TopK), TypeError, r"ErrorFeedback 'inner' must be an instance of Stage, got"),
        (lambda: ErrorFeedback(TopK(0.1), beta=1.5), ValueError, r"'beta' must be a number >= 0 and <= 1, got 1.5"),
        (
            lambda: ErrorFeedback(Momentum(0.9) | TopK(0.1)),
            ValueError,
            r"would pass Momentum again; write Momentum\(momentum=0.9\) \| ErrorFeedback\(...\)",
        ),
        (lambda: ErrorFeedback(ErrorFeedback(Sign())), ValueError, r"'inner' must not remember anything itself, got ErrorF"),
        (
            lambda: ErrorFeedback(RandomK(0.1)),
            ValueError,
            r"must be a contraction, got RandomK\(rho=0.1, scaled=True\); write scaled=False",
        ),
        (lambda: DGCMemory(0.9, Sign()), ValueError, r"DGCMemory 'inner' must begin with a sparsifier such as TopK\(0.001\)"),
        (
            lambda: Clip(1.0) | ErrorFeedback(TopK(0.1)) | Int8(64),
            ValueError,
            r"beta=1.0\) must be the last .*: write ErrorFeedback\(... \| Int8\(block=64\)\)",
        ),
        (lambda: DiffRef(Int8()) | ErrorFeedback(Sign()), ValueError, r"DiffRef\(inner=Int8\(block=4096\)\) must be the last"),
        (lambda: DGCMemory(0.9, TopK(0.1)) | Int8(), ValueError, r"write DGCMemory\(... \| Int8\(block=4096\)\)"),
        (
            lambda: TopK(0.1) | Momentum(0.9),
            ValueError,
            r"Momentum.* shapes the gradient before anything is left out: write Momentum\(momentum=0.9\) \| TopK\(",
        ),
        (lambda: DGCMemory(1.0, TopK(0.1)), ValueError, r"DGCMemory 'momentum' must be a number >= 0 and < 1, got 1.0"),
    ],
)
def test_what_cannot_work_is_refused(make: Make, kind: type[Exception], message: str) -> None:
    with pytest.raises(kind, match=message):
        make()


def test_a_state_that_does_not_fit_is_refused() -> None:
    stage = ErrorFeedback(TopK(0.1))
    with pytest.raises(ValueError, match=r"ErrorFeedback does not remember 'velocity' of shape \(3,\)"):
        stage.load_state_dict({"velocity": np.zeros(3)})
    with pytest.raises(ValueError, match=r"ErrorFeedback does not remember 'residual' of shape \(3, 1\)"):
        stage.load_state_dict({"residual": np.zeros((3, 1))})
    with pytest.raises(ValueError, match="remembers nothing, got step"):
        stage.load_state_dict({"inner.step": 3})
    stage.load_state_dict({"residual": np.zeros(3)})
    with pytest.raises(ValueError, match="ErrorFeedback remembers 3 numbers as 'residual', got 100"):
        Pipeline(stage).encode(gaussian(100), DRAW)
