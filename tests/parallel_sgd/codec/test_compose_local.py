"""Rules for the worker's own values: FedProx, SCAFFOLD, SMA and 1-bit Adam, by their identities."""

from __future__ import annotations

from collections.abc import Callable
from copy import deepcopy
from typing import Any

import numpy as np
import pytest

from nn.gradient_descent import ADAMOptimizer, IGradientDescent, SGDOptimizer, StepDecay
from parallel_sgd.codec import SCAFFOLD, SMA, Codec, FedAvg, FedProx, LocalSGD, OneBitAdam, Plain
from parallel_sgd.codec.compose import (
    PS,
    AllToAll,
    Every,
    FrozenAdam,
    ShardedPS,
    Warmup,
    WeightedMean,
)
from parallel_sgd.codec.pipeline import ErrorFeedback, Sign
from tests.parallel_sgd.codec.compositions import ByHand
from tests.statements import covers

N, RATE = 24, 0.1
Maker = Callable[[], IGradientDescent]


class Fleet(ByHand):
    """Workers that have parameters `w` and step along gradients of their own."""

    def __init__(
        self, kind: type[Codec], workers: int, parameters: dict[str, Any] | None = None, rule: Maker | None = None
    ) -> None:
        start = np.random.default_rng(99).standard_normal(N).astype(np.float32)
        rule = rule or (lambda: SGDOptimizer(RATE))
        super().__init__(kind, workers, parameters, start, rule)
        self.w = [start.copy() for _ in range(workers)]
        self.rules = [rule() for _ in range(workers)]

    def steps(self, count: int) -> Fleet:
        """Local steps on parameters, as ParameterAveragingOptimizer does them."""
        for _ in range(count):
            for node, w in enumerate(self.w):
                self.rules[node].update(w, gradient(w, node, self.batch))
            self.w = self.exchange(self.w)
        return self

    def local(self, node: int) -> Any:
        return self.codecs[node].parts.local


def gradient(w: np.ndarray, node: int, batch: int) -> np.ndarray:
    """That of a quadratic whose optimum is another one on each worker."""
    rng = np.random.default_rng((node, 7))
    noise = np.random.default_rng((node, batch)).standard_normal(N) * 0.1
    return (rng.uniform(0.2, 1.0, N) * (w - rng.standard_normal(N)) + noise).astype(np.float32)


def averaging(every: int) -> type[Codec]:
    """Federated averaging of changes."""
    return Codec.of(PS(), send="delta", merge=WeightedMean(), trigger=Every(every))


def test_without_a_spring_fed_prox_is_federated_averaging() -> None:
    """FedProx: mu = 0 == FedAvg, bit for bit."""
    prox = Fleet(FedProx, 3, {"mu": 0.0, "local_batches": 4}).steps(12)
    plain = Fleet(averaging(4), 3).steps(12)
    assert [w.tobytes() for w in prox.w] == [w.tobytes() for w in plain.w]
    pulled = Fleet(FedProx, 3, {"mu": 0.5, "local_batches": 4}).steps(12)
    assert not np.allclose(pulled.w[0], plain.w[0], atol=1e-3)


@pytest.mark.parametrize("rule", [lambda: SGDOptimizer(RATE), lambda: SGDOptimizer(StepDecay(RATE, 3, 0.5))])
def test_fed_prox_follows_the_gradient_of_the_spring(rule: Maker) -> None:
    """FedProx: local gradient + mu (w - w_global), between exchanges too, at the rate of the schedule."""
    mu, every = 0.7, 4
    fleet = Fleet(FedProx, 2, {"mu": mu, "local_batches": every}, rule)
    w = [value.astype(np.float64) for value in fleet.w]
    common, own = w[0].copy(), [rule(), rule()]
    for batch in range(10):
        for node in range(2):
            g = gradient(w[node].astype(np.float32), node, batch) + mu * (w[node] - common)
            own[node].update(w[node], g)
        if (batch + 1) % every == 0:
            common = (w[0] + w[1]) / 2
            w = [common.copy(), common.copy()]
        fleet.steps(1)
        for node in range(2):
            np.testing.assert_allclose(fleet.w[node], w[node], atol=1e-5)


def test_scaffold_follows_the_paper() -> None:
    """SCAFFOLD: y -= eta (g - c_i + c); c_i+ = c_i - c + (x - y) / (H eta); and sum c_i - W c == 0."""
    workers, every = 4, 3
    fleet = Fleet(SCAFFOLD, workers, {"local_batches": every})
    x = fleet.w[0].astype(np.float64)
    y, c_i, c = [x.copy() for _ in range(workers)], np.zeros((workers, N)), np.zeros(N)
    for batch in range(12):
        for node in range(workers):
            y[node] -= RATE * (gradient(y[node].astype(np.float32), node, batch) - c_i[node] + c)
        if (batch + 1) % every == 0:
            new = np.array([c_i[node] - c + (x - y[node]) / (every * RATE) for node in range(workers)])
            c, c_i = c + (new - c_i).mean(axis=0), new
            x = np.mean(y, axis=0)
            y = [x.copy() for _ in range(workers)]
        fleet.steps(1)
        for node in range(workers):
            np.testing.assert_allclose(fleet.w[node], y[node], atol=1e-5)
    own = sum(fleet.local(node).state_dict()["own"].astype(np.float64) for node in range(workers))
    assert np.abs(own).max() > 1e-2
    np.testing.assert_allclose(own - workers * fleet.local(0).state_dict()["common"], 0, atol=1e-5)
    assert len({fleet.local(node).state_dict()["common"].tobytes() for node in range(workers)}) == 1


def test_scaffold_of_one_worker_is_sgd() -> None:
    """SCAFFOLD: H = 1, W = 1 == SGD."""
    alone = Fleet(SCAFFOLD, 1, {"local_batches": 1})
    w, rule = alone.w[0].copy(), SGDOptimizer(RATE)
    for batch in range(20):
        rule.update(w, gradient(w, 0, batch))
        alone.steps(1)
        np.testing.assert_allclose(alone.w[0], w, atol=1e-6)


def test_scaffold_ends_nearer_to_the_common_optimum() -> None:
    """What it is for: many local steps on different data drift away, corrected ones do not."""
    rng = [np.random.default_rng((node, 7)) for node in range(4)]
    slopes, optima = zip(*((r.uniform(0.2, 1.0, N), r.standard_normal(N)) for r in rng), strict=True)
    best = np.sum([a * b for a, b in zip(slopes, optima, strict=True)], axis=0) / np.sum(slopes, axis=0)
    away = []
    for kind in (SCAFFOLD, averaging(20)):
        fleet = Fleet(kind, 4, {"local_batches": 20}).steps(400)
        away.append(np.linalg.norm(fleet.w[0] - best))
    assert away[0] < 0.5 * away[1]


def test_elastic_averaging() -> None:
    """EASGD/SMA: w <- (1 - a) w + a mean(w); the mean stays, the spread shrinks by 1 - a."""
    fleet, rng = Fleet(SMA, 4, {"alpha": 0.25}), np.random.default_rng(0)
    values = [rng.standard_normal(N).astype(np.float32) for _ in range(4)]
    for _ in range(5):
        mean = np.mean(values, axis=0, dtype=np.float64)
        wanted = [0.75 * value + 0.25 * mean for value in values]
        values = fleet.exchange(values)
        np.testing.assert_allclose(values, wanted, atol=1e-6)
        np.testing.assert_allclose(np.mean(values, axis=0, dtype=np.float64), mean, atol=1e-6)
    assert not SMA.traits.agrees
    sma, local = Fleet(SMA, 3, {"alpha": 1.0}).steps(6), Fleet(LocalSGD, 3, {"local_batches": 1}).steps(6)
    np.testing.assert_allclose(sma.w, local.w, atol=1e-6, err_msg="alpha = 1 takes the mean")


def test_federated_averaging_after_every_batch_is_plain_sgd() -> None:
    """FedAvg: H = 1, SGD, equal counts == Plain to 1e-6."""
    fleet = Fleet(FedAvg, 4, {"local_batches": 1})
    plain, w = Fleet(Plain, 4), fleet.w[0].copy()
    for batch in range(20):
        (mean, *others) = plain.exchange([gradient(w, node, batch) for node in range(4)])
        w -= np.float32(RATE) * mean
        fleet.steps(1)
        np.testing.assert_allclose(fleet.w, [w] * 4, atol=1e-6)
        assert all(other.tobytes() == mean.tobytes() for other in others)


def mean_gradient(w: np.ndarray, batch: int, workers: int) -> np.ndarray:
    total = (gradient(w, 0, batch) + gradient(w, 1, batch)) + (gradient(w, 2, batch) + gradient(w, 3, batch))
    return total / np.float32(workers)


def test_one_bit_adam_warms_up_as_adam() -> None:
    """1-bit Adam: bit-exact to Adam in the warm-up; then v is constant, and all workers keep equal parameters."""
    fleet = Fleet(OneBitAdam, 4, {"learn_rate": 0.01, "warmup": 10})
    w, rule = fleet.w[0].copy(), ADAMOptimizer(0.01)
    for batch in range(10):
        rule.update(w, mean_gradient(w, batch, 4))
        fleet.w = fleet.exchange([gradient(fleet.w[0], node, batch) for node in range(4)])
        assert {found.tobytes() for found in fleet.w} == {w.tobytes()}
    frozen = fleet.local(0).state_dict()["square"].copy()
    assert frozen.tobytes() == rule.state_dict()["square"].tobytes()  # type: ignore[union-attr]
    for batch in range(10, 30):
        fleet.w = fleet.exchange([gradient(fleet.w[0], node, batch) for node in range(4)])
        assert len({found.tobytes() for found in fleet.w}) == 1
        assert fleet.local(3).state_dict()["square"].tobytes() == frozen.tobytes()


def test_frozen_adam_without_compression_is_adam_with_a_fixed_second_moment() -> None:
    """1-bit Adam: w -= eta m / (sqrt(v) + eps) with the merged momentum, corrected as Adam's."""
    dense = Codec.of(AllToAll(), trigger=Warmup(5, Every(1)), local=FrozenAdam(0.01), name="Dense")
    fleet = Fleet(dense, 4)
    w, m, v = fleet.w[0].astype(np.float64), np.zeros(N), np.zeros(N)
    for batch in range(15):
        g = mean_gradient(w.astype(np.float32), batch, 4).astype(np.float64)
        m = 0.9 * m + 0.1 * g
        if batch < 5:
            v = 0.999 * v + 0.001 * g * g
        corrected = v / (1 - 0.999 ** min(batch + 1, 5))
        w = w - 0.01 * (m / (1 - 0.9 ** (batch + 1))) / (np.sqrt(corrected) + 1e-8)
        fleet.w = fleet.exchange([gradient(fleet.w[0], node, batch) for node in range(4)])
        np.testing.assert_allclose(fleet.w[1], w, atol=2e-5)


def test_both_residuals_of_one_bit_adam() -> None:
    """1-bit Adam: two EF identities - of each worker and of each owner of a shard."""
    kind = Codec.of(
        ShardedPS(smallest=12),
        up=ErrorFeedback(Sign()),
        down=ErrorFeedback(Sign()),
        trigger=Warmup(3),
        local=FrozenAdam(0.01),
        name="Small",
    )
    fleet, steps = Fleet(kind, 2), 200
    given, got = np.zeros(N), np.zeros(N)
    for batch in range(3 + steps):
        momentum = None if batch < 3 else fleet.local(0).state_dict()["momentum"].copy()
        gradients = [gradient(fleet.w[0], node, batch) for node in range(2)]
        fleet.w = fleet.exchange(gradients)
        if momentum is not None:
            given += 0.9 * momentum.astype(np.float64) + np.mean(gradients, axis=0, dtype=np.float64)
            got += fleet.local(0).state_dict()["momentum"]
    left = np.zeros(N)
    for node in range(2):
        for name, value in fleet.codecs[node].state_dict().items():
            if name.endswith("residual"):
                shard = int(name.split(".")[1].split(",")[-1])
                left[12 * shard : 12 * shard + 12] += value / (2 if name.startswith("up.") else 1)
    np.testing.assert_allclose(got + left, given, atol=1e-3)
    assert np.abs(left).max() > 1e-2, "the residuals matter"


LOCAL: list[tuple[type[Codec], dict[str, Any]]] = [
    (FedProx, {"mu": 0.5, "local_batches": 3}),
    (SCAFFOLD, {"local_batches": 3}),
    (SMA, {}),
    (OneBitAdam, {"warmup": 4}),
]


@covers("LAW-5")
@pytest.mark.parametrize(("kind", "parameters"), LOCAL, ids=lambda value: getattr(value, "__name__", ""))
def test_a_saved_state_goes_on_to_the_bit(kind: type[Codec], parameters: dict[str, Any]) -> None:
    """Save and load in the middle of a run, between two exchanges."""
    rule = lambda: SGDOptimizer(StepDecay(RATE, 2, 0.9))  # noqa: E731
    first, second = Fleet(kind, 2, parameters, rule), Fleet(kind, 2, parameters, rule)
    first.steps(8)
    for node, codec in second.codecs.items():
        codec.load_state_dict(deepcopy(first.codecs[node].state_dict()))
    second.batch, second.w = first.batch, [w.copy() for w in first.w]
    for one, two in zip(first.rules, second.rules, strict=True):
        two.load_state_dict(one.state_dict())
    assert [w.tobytes() for w in first.steps(7).w] == [w.tobytes() for w in second.steps(7).w]
