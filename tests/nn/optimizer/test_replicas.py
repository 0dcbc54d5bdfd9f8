"""The optimizers' meaning, proven on replicas that exchange in memory."""

from collections.abc import Callable
from copy import deepcopy

import numpy as np
import pytest

from nn.arrays import Array
from nn.gradient_descent import ADAMOptimizer, IGradientDescent, LAMBOptimizer, MomentumOptimizer, SGDOptimizer
from nn.optimizer import (
    DoubleBufferingOptimizer,
    FederatedOptimizer,
    GDOptimizer,
    GradientAveragingOptimizer,
    IOptimizer,
    LocalUpdateOptimizer,
    ParameterAveragingOptimizer,
    PSGDOptimizer,
)
from tests.contract.nn_rows import RULES
from tests.nn.optimizer.replicas import SIZE, Cluster, new_store, quadratic

ONE, TWO, THREE = [[0, 1, 2, 3]], [[0, 1], [2, 3]], [[0], [1, 3], [2]]


class EveryThird(FederatedOptimizer):
    local_batches = 3


class EveryBatch(FederatedOptimizer):
    local_batches = 1


def sgd() -> IGradientDescent:
    return SGDOptimizer(0.1)


def momentum() -> IGradientDescent:
    return MomentumOptimizer(0.1)


def mean_gradient(values: Array, batch: int, blocks: range | list[int] = range(4)) -> Array:
    return np.asarray(sum(quadratic(values, batch, block) for block in blocks) / len(blocks))


def whole_batches(rule: IGradientDescent, batches: int) -> Array:
    """One process, the whole batch at once."""
    store = new_store()
    optimizer = GDOptimizer(rule, store)
    for batch in range(batches):
        store.gradients[:] = mean_gradient(store.values, batch)
        assert list(optimizer.finish_batch()) == []
    return store.values


def assert_all(found: list[Array], expected: Array) -> None:
    for values in found:
        np.testing.assert_allclose(values, expected, rtol=1e-12, atol=1e-14)


@pytest.mark.parametrize("shares", [ONE, TWO, THREE], ids=str)
@pytest.mark.parametrize("rule", [sgd, momentum, ADAMOptimizer, LAMBOptimizer])
def test_parallel_sgd_is_one_worker_with_the_whole_batch(shares: list[list[int]], rule: Callable[[], IGradientDescent]) -> None:
    assert_all(Cluster(PSGDOptimizer, rule, shares).train(6, quadratic).values(), whole_batches(rule(), 6))


@pytest.mark.parametrize("shares", [ONE, TWO, THREE], ids=str)
@pytest.mark.parametrize("kind", [LocalUpdateOptimizer, ParameterAveragingOptimizer])
def test_with_sgd_updates_and_parameters_are_as_good_as_gradients(kind: type[IOptimizer], shares: list[list[int]]) -> None:
    """Also where workers have unequal numbers of blocks."""
    assert_all(Cluster(kind, sgd, shares).train(6, quadratic).values(), whole_batches(sgd(), 6))


@pytest.mark.parametrize("kind", [LocalUpdateOptimizer, ParameterAveragingOptimizer])
def test_other_rules_run_on_each_worker_by_itself(kind: type[IOptimizer]) -> None:
    """Two workers of two blocks each: the mean of two steps of Adam, with moments that stay apart."""
    expected = new_store().values.copy()
    rules = [ADAMOptimizer(0.1), ADAMOptimizer(0.1)]
    for batch in range(5):
        steps = [np.empty(SIZE), np.empty(SIZE)]
        for rule, step, blocks in zip(rules, steps, TWO, strict=True):
            rule.delta(expected, mean_gradient(expected, batch, blocks), step)
        expected += (steps[0] + steps[1]) / 2
    cluster = Cluster(kind, lambda: ADAMOptimizer(0.1), TWO).train(5, quadratic)
    assert_all(cluster.values(), expected)
    assert not np.allclose(expected, whole_batches(ADAMOptimizer(0.1), 5))


def test_double_buffering_is_the_delayed_recursion() -> None:
    rule, history = MomentumOptimizer(0.05), [new_store().values.copy()]
    for batch in range(7):
        values = history[-1].copy()
        if batch > 0:
            rule.update(values, mean_gradient(history[-2], batch - 1))
        history.append(values)
    assert np.array_equal(history[0], history[1])
    for shares in (ONE, TWO, THREE):
        assert_all(
            Cluster(DoubleBufferingOptimizer, lambda: MomentumOptimizer(0.05), shares).train(7, quadratic).values(), history[-1]
        )


def test_double_buffering_sends_before_its_batch_is_computed() -> None:
    cluster = Cluster(DoubleBufferingOptimizer, sgd, ONE).train(1, quadratic)
    (replica,) = cluster.replicas
    assert replica.exchange.puts == [], "the first batch has nothing to send"
    replica.exchange.begin()
    replica.optimizer.begin_batch()
    assert replica.exchange.puts == [(variable, block) for variable in (2, 1, 0) for block in range(4)]
    replica.optimizer.gradient_ready(replica.store.variables[2], 0)
    assert len(replica.exchange.puts) == 12, "not twice"


def test_federated_with_one_local_batch_is_parameter_averaging() -> None:
    for rule in (sgd, momentum, ADAMOptimizer):
        often = Cluster(EveryBatch, rule, THREE).train(5, quadratic).values()
        averaged = Cluster(ParameterAveragingOptimizer, rule, THREE).train(5, quadratic).values()
        assert all(np.array_equal(a, b) for a, b in zip(often, averaged, strict=True))


def test_federated_with_three_local_batches_by_hand() -> None:
    values = [new_store().values.copy() for _ in THREE]
    cluster = Cluster(EveryThird, sgd, THREE)
    for batch in range(7):
        for own, blocks in zip(values, THREE, strict=True):
            own -= 0.1 * mean_gradient(own, batch, blocks)
        if batch % 3 == 2:
            mean = (values[0] + 2 * values[1] + values[2]) / 4
            values = [mean.copy() for _ in THREE]
        cluster.train(1, quadratic)
        sent = [len(replica.exchange.puts) for replica in cluster.replicas]
        assert sent == ([3, 6, 3] if batch % 3 == 2 else [0, 0, 0])
        for own, replica in zip(values, cluster.replicas, strict=True):
            np.testing.assert_allclose(replica.store.values, own, rtol=1e-12)
    assert not np.allclose(values[0], values[1]), "between exchanges they part"


def test_gradient_averaging_takes_the_parameters_of_the_server() -> None:
    """The server keeps the parameters and steps with momentum; the workers' own rule is not asked."""
    kept = new_store()
    rules = [momentum() for _ in kept.variables]

    def serve(variable: int, gradient: Array) -> Array:
        value = kept.variables[variable].value
        rules[variable].update(value.reshape(-1), gradient.reshape(-1))
        return value.copy()

    cluster = Cluster(GradientAveragingOptimizer, sgd, TWO, serve).train(6, quadratic)
    assert_all(cluster.values(), whole_batches(momentum(), 6))


EXCHANGING = [
    PSGDOptimizer,
    LocalUpdateOptimizer,
    GradientAveragingOptimizer,
    ParameterAveragingOptimizer,
    DoubleBufferingOptimizer,
    EveryThird,
]


@pytest.mark.parametrize("row", RULES, ids=lambda row: f"{row.kind.__name__} {row.label}".strip())
@pytest.mark.parametrize("kind", EXCHANGING, ids=lambda kind: kind.__name__)
def test_resumed_is_never_stopped(kind: type[IOptimizer], row: object) -> None:
    """Bit for bit, from the values and `state_dict` alone, after every batch."""
    make: Callable[[], IGradientDescent] = row.make  # type: ignore[attr-defined]
    straight = Cluster(kind, make, THREE).train(6, quadratic)
    stopped = Cluster(kind, make, THREE)
    for _ in range(6):
        stopped = stopped.restarted(kind, make).train(1, quadratic)
    for a, b in zip(straight.values(), stopped.values(), strict=True):
        assert np.array_equal(a, b)


@pytest.mark.parametrize("kind", EXCHANGING, ids=lambda kind: kind.__name__)
def test_what_each_puts_is_declared(kind: type[PSGDOptimizer]) -> None:
    """Where content does not depend on the worker's other blocks, any worker that computes a block puts the same."""
    contents = []
    for shares in (ONE, THREE):
        cluster = Cluster(kind, momentum, shares)
        for replica in cluster.replicas:  # moments that differ between the workers
            replica.optimizer.rule.update(np.zeros(SIZE), np.full(SIZE, replica.blocks[0] + 1.0))
        contents.append(cluster.train(2, quadratic).wire.contents)
    if kind.by_block:
        keys = [key for key in contents[0] if key[0] == (1 if kind is DoubleBufferingOptimizer else 0)]
        assert keys
        assert all(np.array_equal(contents[0][key], contents[1][key]) for key in keys)
    else:
        assert {kind.puts, kind.gets} <= {"updates", "parameters"}
        assert any(not np.array_equal(contents[0][key], contents[1][key]) for key in contents[0])


def test_states_that_do_not_fit_are_refused() -> None:
    optimizer = Cluster(DoubleBufferingOptimizer, sgd, ONE).replicas[0].optimizer
    with pytest.raises(ValueError, match="state must hold 'pending:<block>' beside the rule's, got 'pending:-1'"):
        optimizer.load_state_dict({"rule:step": 0, "pending:-1": np.zeros(SIZE)})
    with pytest.raises(ValueError, match=r"'pending:0' must be float64 of shape \(13,\), got float64 of shape \(12,\)"):
        optimizer.load_state_dict({"rule:step": 0, "pending:0": np.zeros(12)})
    local = Cluster(LocalUpdateOptimizer, sgd, ONE).replicas[0].optimizer
    with pytest.raises(ValueError, match="LocalUpdateOptimizer has no state but the rule's, got moments"):
        local.load_state_dict({"rule:step": 0, "moments": np.zeros(SIZE)})
    with pytest.raises(ValueError, match="SGDOptimizer state must hold step; got nothing"):
        local.load_state_dict({})


def test_the_state_is_a_copy() -> None:
    cluster = Cluster(DoubleBufferingOptimizer, momentum, ONE).train(2, quadratic)
    (replica,) = cluster.replicas
    state = replica.optimizer.state_dict()
    assert sorted(state) == ["pending:0", "pending:1", "pending:2", "pending:3", "rule:step", "rule:velocity"]
    again = cluster.restarted(DoubleBufferingOptimizer, momentum)
    kept = deepcopy(again.replicas[0].optimizer.state_dict())
    cluster.train(2, quadratic)
    for name, value in again.replicas[0].optimizer.state_dict().items():
        assert np.array_equal(value, kept[name])


def test_the_number_of_local_batches_is_checked() -> None:
    class Never(FederatedOptimizer):
        local_batches = 0

    with pytest.raises(ValueError, match="Never 'local_batches' must be a positive integer, got 0"):
        Cluster(Never, sgd, ONE)
    assert FederatedOptimizer.local_batches == 150
