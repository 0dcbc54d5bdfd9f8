"""The optimizers' meaning, proven by hand and on replicas that exchange in memory."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from copy import deepcopy
from typing import Any

import numpy as np
import pytest

from nn.arrays import Array
from nn.gradient_descent import ADAMOptimizer, Cosine, IGradientDescent, LAMBOptimizer, MomentumOptimizer, SGDOptimizer
from nn.optimizer import (
    DoubleBufferingOptimizer,
    FederatedOptimizer,
    GAOptimizer,
    GDOptimizer,
    GradientAveragingOptimizer,
    IOptimizer,
    LocalUpdateOptimizer,
    OpContainer,
    ParameterAveragingOptimizer,
    PSGDOptimizer,
    ShardedPSGDOptimizer,
)  # fmt: skip
from nn.value import Buffer, Variable, VariableStore
from tests.contract.nn_rows import RULES
from tests.nn.optimizer.replicas import SIZE, Cluster, new_store, quadratic

ONE, TWO, THREE = [[0, 1, 2, 3]], [[0, 1], [2, 3]], [[0], [1, 3], [2]]
SHARES = pytest.mark.parametrize("shares", [ONE, TWO, THREE], ids=str)


class EveryThird(FederatedOptimizer):
    local_batches = 3


class EverySecond(FederatedOptimizer):
    local_batches = 2


class EveryBatch(FederatedOptimizer):
    local_batches = 1


EXCHANGING = [
    PSGDOptimizer, LocalUpdateOptimizer, GradientAveragingOptimizer, ParameterAveragingOptimizer, DoubleBufferingOptimizer,
    EveryThird,
]  # fmt: skip


class Recorder:
    """An exchange under the test's control: it merges to twice the content, when told."""

    def __init__(self, *arrived: int) -> None:
        self.put_calls: list[tuple[int, int]] = []
        self.contents: dict[int, Array] = {}
        self.arrived = set(arrived)

    def put(self, variable_id: int, block_id: int, content: Array) -> None:
        self.put_calls.append((variable_id, block_id))
        self.contents[variable_id] = content

    def ready(self, variable_id: int) -> bool:
        return variable_id in self.arrived

    def get(self, variable_id: int) -> Array:
        return 2 * self.contents[variable_id]


def small_store(*buffers: Buffer) -> VariableStore:
    return VariableStore([Variable([2]), Variable([1, 3])], buffers, np.dtype("float32"), 0)


@pytest.mark.parametrize(("kind", "sign"), [(PSGDOptimizer, -1), (GAOptimizer, 1)])
def test_raw_gradients_are_exchanged_and_the_rule_applied_after(kind: type[IOptimizer], sign: int) -> None:
    store, exchange = small_store(), Recorder()
    store.values[:], store.gradients[:] = 0, np.arange(5)
    optimizer = kind(SGDOptimizer(1), store, exchange)
    for variable in reversed(store.variables):
        optimizer.gradient_ready(variable, 7)
    assert exchange.put_calls == [(1, 7), (0, 7)]
    assert np.shares_memory(exchange.contents[1], store.variables[1].gradient)
    waiting: Iterator[int] = optimizer.finish_batch()
    assert next(waiting) == 1
    assert next(waiting) == 1  # resumed too early: it asks again
    exchange.arrived.add(1)
    assert next(waiting) == 0
    assert store.values.tolist() == [0] * 5, "nothing changes before everything is there"
    exchange.arrived.add(0)
    assert next(waiting, None) is None
    assert store.values.tolist() == [sign * 2 * place for place in range(5)]
    assert store.gradients.tolist() == [0, 2, 4, 6, 8]


@pytest.mark.parametrize("rule", [ADAMOptimizer(0.1, weight_decay=0.1), SGDOptimizer(0.1, clip_norm=0.5), LAMBOptimizer(0.1)])
def test_merged_gradients_are_read_where_they_lie(rule: IGradientDescent) -> None:
    """Of several variables, also where a stretch of the rule goes over two or all of them: the bits of one vector."""

    class Doubled(PSGDOptimizer):
        shows_gradients = False

    values = []
    for kind in (PSGDOptimizer, Doubled):
        store = VariableStore([Variable([n]) for n in (70_000, 2, 65_536, 5, 1)], (), np.dtype("float32"), 0)
        store.values[:] = np.linspace(-1, 1, len(store.values))
        optimizer = kind(deepcopy(rule), store, Recorder(*range(5)))
        for step in range(2):
            store.gradients[:] = np.sin(np.arange(len(store.values)) + step)
            for variable in store.variables:
                optimizer.gradient_ready(variable, 0)
            assert list(optimizer.finish_batch()) == []
        values.append(store.values.tobytes())
    assert values[0] == values[1]


def test_ascent_is_descent_on_the_negative() -> None:
    store, up, down = small_store(), ADAMOptimizer(0.1, weight_decay=0.5), ADAMOptimizer(0.1, weight_decay=0.5)
    expected, optimizer = np.zeros(5, np.float32), GAOptimizer(up, store)
    store.values[:] = 0
    for step in range(3):
        store.gradients[:] = np.arange(5) - step
        list(optimizer.finish_batch())
        down.update(expected, -store.gradients)
    assert np.array_equal(store.values, expected)


@pytest.mark.parametrize("kind", [GDOptimizer, GAOptimizer, FederatedOptimizer, *EXCHANGING[:-1]])
def test_buffers_change_once_for_each_batch(kind: type[IOptimizer]) -> None:
    """By the last block's changes where nobody is asked, else by what the exchange makes of them, here twice their mean."""
    buffer, exchange = Buffer([2]), Recorder(0, 1, 2)
    store = small_store(buffer)
    optimizer, found = kind(SGDOptimizer(), store, exchange), []
    for _ in range(3):
        for block in range(2):
            store.buffer_changes[:] = 1
            for variable in store.variables:
                optimizer.gradient_ready(variable, block)
            optimizer.buffers_ready(block)
        assert list(optimizer.finish_batch()) == []
        assert buffer.value[0] == buffer.value[1]
        found.append(buffer.value[0])
    alone = not kind.exchanges or kind is FederatedOptimizer  # this one in its first batches
    values = {DoubleBufferingOptimizer: [0, 2, 4], ParameterAveragingOptimizer: [2, 6, 14]}  # where the values are doubled
    assert found == ([1, 2, 3] if alone else values.get(kind, [2, 4, 6]))
    assert ((2, 1) in exchange.put_calls) == (not alone)


def test_where_parameters_are_put_so_are_values_of_buffers() -> None:
    """Both after the own step, which is made of the mean of the blocks' changes; here all become twice the last ones put."""
    buffer = Buffer([1])
    store = small_store(buffer)
    optimizer, found = EverySecond(SGDOptimizer(), store, Recorder(0, 1, 2)), []
    for _ in range(4):
        for block in range(2):
            store.buffer_changes[:] = 1 + 2 * block
            for variable in store.variables:
                optimizer.gradient_ready(variable, block)
            optimizer.buffers_ready(block)
        assert list(optimizer.finish_batch()) == []
        found.append(float(buffer.value[0]))
    assert found == [2, 8, 10, 24]


def test_changes_of_buffers_that_wait_are_part_of_the_state() -> None:
    (store, again) = small_store(Buffer([1])), small_store(Buffer([1]))
    first, second = (DoubleBufferingOptimizer(SGDOptimizer(), each, Recorder(0, 1, 2)) for each in (store, again))
    store.buffer_changes[:] = 3
    for block in (4, 5):
        for variable in store.variables:
            first.gradient_ready(variable, block)
        first.buffers_ready(block)
    list(first.finish_batch())
    state = first.state_dict()
    assert sorted(state) == ["changes:4", "changes:5", "pending:4", "pending:5", "rule:step"]
    second.load_state_dict(state)
    second.begin_batch()
    list(second.finish_batch())
    assert again.buffer_values.tolist() == [6]
    with pytest.raises(ValueError, match=r"'changes:4' must be float32 of shape \(1,\), got float32 of shape \(2,\)"):
        second.load_state_dict({**state, "changes:4": np.zeros(2, np.float32)})


def test_a_container_builds_a_new_rule_each_time() -> None:
    container, store = OpContainer(GDOptimizer, ADAMOptimizer, gd_params=(0.5, 0.8)), small_store()
    first, second = container.build(store), container.build(store)
    assert isinstance(first, GDOptimizer) and first.rule is not second.rule
    assert first.rule.get_config()["beta1"] == 0.8
    named = OpContainer(GDOptimizer, ADAMOptimizer, gd_params={"learn_rate": Cosine(0.1, 9), "clip_norm": 2})
    assert repr(named.rule()) == repr(ADAMOptimizer(Cosine(0.1, 9), clip_norm=2))


@pytest.mark.parametrize(
    ("error", "message", "make"),
    [
        (TypeError, "OpContainer 'op_type' must be a class derived from IOptimizer",
         lambda: OpContainer(SGDOptimizer, SGDOptimizer)),
        (TypeError, "OpContainer 'gd_type' must be a class derived from IGradientDescent",
         lambda: OpContainer(GDOptimizer, SGDOptimizer())),
        (TypeError, r"^'gd_params' must be a tuple of arguments or a dict of them, got 0\.1; write \(0\.1,\)$",
         lambda: OpContainer(GDOptimizer, SGDOptimizer, gd_params=0.1)),
        (TypeError, r"SGDOptimizer cannot be built from gd_params=\(1, 2, 3, 4, 5, 6, 7, 8\)",
         lambda: OpContainer(GDOptimizer, SGDOptimizer, gd_params=(1, 2, 3, 4, 5, 6, 7, 8)).rule()),
        (TypeError, r"SGDOptimizer cannot be built from gd_params=\{'rate': 1\}",
         lambda: OpContainer(GDOptimizer, SGDOptimizer, gd_params={"rate": 1}).rule()),
        *((ValueError, f"{kind.__name__} exchanges {kind.puts} and needs an exchange; it runs in ParallelSGD",
           lambda kind=kind: kind(SGDOptimizer(), small_store())) for kind in (*EXCHANGING, ShardedPSGDOptimizer)),
        (ValueError, "Never 'local_batches' must be a positive integer, got 0",
         lambda: Cluster(type("Never", (FederatedOptimizer,), {"local_batches": 0}), SGDOptimizer, ONE)),
        (ValueError, "ShardedPSGDOptimizer needs a rule .* got LAMBOptimizer whose step depends on whole variables; use PSGD",
         lambda: Cluster(ShardedPSGDOptimizer, LAMBOptimizer, TWO)),
        (ValueError, "ShardedPSGDOptimizer needs a rule .* got SGDOptimizer with 'clip_norm'; use PSGD",
         lambda: Cluster(ShardedPSGDOptimizer, lambda: SGDOptimizer(0.1, clip_norm=1.0), TWO)),
    ],
)  # fmt: skip
def test_what_does_not_go_together_is_refused(error: type[Exception], message: str, make: Callable[[], object]) -> None:
    with pytest.raises(error, match=message):
        make()


def test_what_kinds_put() -> None:
    assert {kind: kind.puts for kind in EXCHANGING} == {
        PSGDOptimizer: "gradients", LocalUpdateOptimizer: "updates", GradientAveragingOptimizer: "gradients",
        ParameterAveragingOptimizer: "parameters", DoubleBufferingOptimizer: "gradients", EveryThird: "parameters",
    }  # fmt: skip
    assert FederatedOptimizer.local_batches == 150


def sgd() -> IGradientDescent:
    return SGDOptimizer(0.1)


def momentum() -> IGradientDescent:
    return MomentumOptimizer(0.1)


def mean_gradient(values: Array, batch: int, blocks: range | list[int] = range(4)) -> Array:
    return np.asarray(sum(quadratic(values, batch, block) for block in blocks) / len(blocks))


def whole_batches(rule: IGradientDescent, batches: int = 6) -> Array:
    """One process, the whole batch at once."""
    store = new_store()
    optimizer = GDOptimizer(rule, store)
    for batch in range(batches):
        store.gradients[:] = mean_gradient(store.values, batch)
        assert list(optimizer.finish_batch()) == []
    return store.values


def assert_all(found: Cluster, expected: Array) -> None:
    for values in found.values():
        np.testing.assert_allclose(values, expected, rtol=1e-12, atol=1e-14)


@SHARES
@pytest.mark.parametrize(
    ("kind", "rule"),
    [
        *((PSGDOptimizer, rule) for rule in (sgd, momentum, ADAMOptimizer, LAMBOptimizer)),
        (LocalUpdateOptimizer, sgd),  # with SGD updates and parameters are as good as gradients
        (ParameterAveragingOptimizer, sgd),
    ],
)
def test_many_workers_are_one_with_the_whole_batch(kind: type[IOptimizer], rule: Any, shares: list[list[int]]) -> None:
    """Also where they have unequal numbers of blocks."""
    assert_all(Cluster(kind, rule, shares).train(6, quadratic), whole_batches(rule()))


@pytest.mark.parametrize("kind", [LocalUpdateOptimizer, ParameterAveragingOptimizer])
def test_other_rules_run_on_each_worker_by_itself(kind: type[IOptimizer]) -> None:
    """Two workers of two blocks each: the mean of two steps of Adam, with moments that stay apart."""
    expected = new_store().values.copy()
    rules, steps = [ADAMOptimizer(0.1), ADAMOptimizer(0.1)], np.empty((2, SIZE))
    for batch in range(5):
        for rule, step, blocks in zip(rules, steps, TWO, strict=True):
            rule.write_change(expected, mean_gradient(expected, batch, blocks), step)
        expected += (steps[0] + steps[1]) / 2
    assert_all(Cluster(kind, lambda: ADAMOptimizer(0.1), TWO).train(5, quadratic), expected)
    assert not np.allclose(expected, whole_batches(ADAMOptimizer(0.1), 5))


@SHARES
def test_double_buffering_is_the_delayed_recursion(shares: list[list[int]]) -> None:
    rule, history = MomentumOptimizer(0.05), [new_store().values.copy()]
    for batch in range(7):
        values = history[-1].copy()
        if batch > 0:
            rule.update(values, mean_gradient(history[-2], batch - 1))
        history.append(values)
    assert np.array_equal(history[0], history[1])
    cluster = Cluster(DoubleBufferingOptimizer, lambda: MomentumOptimizer(0.05), shares)
    assert_all(cluster.train(7, quadratic), history[-1])


def test_double_buffering_sends_before_its_batch_is_computed() -> None:
    (replica,) = Cluster(DoubleBufferingOptimizer, sgd, ONE).train(1, quadratic).replicas
    assert replica.exchange.puts == [], "the first batch has nothing to send"
    replica.exchange.begin()
    replica.optimizer.begin_batch()
    assert replica.exchange.puts == [(variable, block) for variable in (2, 1, 0) for block in range(4)]
    replica.optimizer.gradient_ready(replica.store.variables[2], 0)
    assert len(replica.exchange.puts) == 12, "not twice"


def test_federated_averaging() -> None:
    """By hand; with one local batch it is parameter averaging."""
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
        for own, found in zip(values, cluster.values(), strict=True):
            np.testing.assert_allclose(found, own, rtol=1e-12)
    assert not np.allclose(values[0], values[1]), "between exchanges they part"
    for rule in (sgd, momentum, ADAMOptimizer):
        kinds = (EveryBatch, ParameterAveragingOptimizer)
        often, averaged = (Cluster(kind, rule, THREE).train(5, quadratic).values() for kind in kinds)
        assert all(np.array_equal(a, b) for a, b in zip(often, averaged, strict=True))


def test_gradient_averaging_takes_the_parameters_of_the_server() -> None:
    """The server keeps the parameters and steps with momentum; the workers' own rule is not asked."""
    kept = new_store()
    rules = [momentum() for _ in kept.variables]

    def serve(variable: int, gradient: Array) -> Array:
        value = kept.variables[variable].value
        rules[variable].update(value.reshape(-1), gradient.reshape(-1))
        return value.copy()

    assert_all(Cluster(GradientAveragingOptimizer, sgd, TWO, serve).train(6, quadratic), whole_batches(momentum()))


@pytest.mark.share(8)
@pytest.mark.parametrize("row", RULES, ids=lambda row: f"{row.kind.__name__} {row.label}".strip())
@pytest.mark.parametrize("kind", EXCHANGING, ids=lambda kind: kind.__name__)
def test_resumed_is_never_stopped(kind: type[IOptimizer], row: Any) -> None:
    """Bit for bit, from the values and `state_dict` alone, after every batch."""
    straight, stopped = Cluster(kind, row.make, THREE).train(6, quadratic), Cluster(kind, row.make, THREE)
    for _ in range(6):
        stopped = stopped.restarted(kind, row.make).train(1, quadratic)
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
    same = {
        key: all(np.array_equal(content, contents[1][key][block]) for block, content in there.items())
        for key, there in contents[0].items()
    }
    if kind.by_block:
        batch = 1 if kind is DoubleBufferingOptimizer else 0
        assert [key for key in same if key[0] == batch] and all(same[key] for key in same if key[0] == batch)
    else:
        assert {kind.puts, kind.gets} <= {"updates", "parameters"}
        assert not all(same.values())


def test_states_are_copies_and_those_that_do_not_fit_are_refused() -> None:
    cluster = Cluster(DoubleBufferingOptimizer, momentum, ONE).train(2, quadratic)
    optimizer = cluster.replicas[0].optimizer
    state = optimizer.state_dict()
    assert sorted(state) == ["pending:0", "pending:1", "pending:2", "pending:3", "rule:step", "rule:velocity"]
    again = cluster.restarted(DoubleBufferingOptimizer, momentum).replicas[0].optimizer
    kept = deepcopy(again.state_dict())
    cluster.train(2, quadratic)
    for name, value in again.state_dict().items():
        assert np.array_equal(value, kept[name])
    local = Cluster(LocalUpdateOptimizer, sgd, ONE).replicas[0].optimizer
    late = Cluster(DoubleBufferingOptimizer, sgd, ONE).replicas[0].optimizer
    for refusing, given, message in [
        (late, {"rule:step": 0, "pending:-1": np.zeros(SIZE)},
         "must hold 'pending:<block>' beside the rule's, got 'pending:-1'"),
        (late, {"rule:step": 0, "pending:0": np.zeros(12)},
         r"'pending:0' must be float64 of shape \(13,\), got float64 of shape \(12,\)"),
        (local, {"rule:step": 0, "moments": np.zeros(SIZE)}, "LocalUpdateOptimizer has no state but the rule's, got moments"),
        (local, {}, "SGDOptimizer state must hold step; got nothing"),
    ]:  # fmt: skip
        with pytest.raises(ValueError, match=message):
            refusing.load_state_dict(given)


# ---- a sharded rule


@pytest.mark.parametrize(("size", "count"), [(1, 3), (16, 2), (17, 2), (11_828, 2), (11_828, 7), (1000, 64)])
def test_shards_cover_the_vector(size: int, count: int) -> None:
    """They begin at cache lines, of 16 numbers of single precision, and are equally long but for what is left."""
    cluster = Cluster(ShardedPSGDOptimizer, momentum, [[block] for block in range(count)], shapes=[(size,)])
    cluster.train(1, lambda values, batch, block: values)
    states = [np.atleast_1d(replica.optimizer.state_dict()["rule:velocity"]) for replica in cluster.replicas]
    lengths = [len(state) if state.any() else 0 for state in states]
    length = -(-size // count)
    full = length + -length % 16
    assert sum(lengths) == size
    assert lengths == [max(0, min(full, size - number * full)) for number in range(count)]


def test_a_model_of_fewer_parameters_than_a_cache_line_per_worker() -> None:
    """All workers but the first have nothing to own."""
    cluster = Cluster(ShardedPSGDOptimizer, lambda: SGDOptimizer(0.5), [[0], [1], [2]])
    start = cluster.values()[0].copy()
    for values in cluster.train(1, lambda values, batch, block: np.full(SIZE, block + 1.0)).values():
        np.testing.assert_array_equal(values, start - 0.5 * 2.0)


def gradients(values: Array, batch: int, block: int) -> Array:
    """Short numbers, of which the mean over three equal ones is exact."""
    return np.round(64 * np.random.default_rng(batch).standard_normal(60)) / 64


def sharded(count: int) -> Cluster:
    shares = [[block] for block in range(count)]
    return Cluster(ShardedPSGDOptimizer, lambda: ADAMOptimizer(0.1), shares, shapes=[(7, 7), (11,)])


def test_the_state_for_the_whole_vector_can_be_taken_up_by_any_number_of_workers() -> None:
    """Contract: rule state gathered for checkpoints. Resumed on 1, 2 or 4 workers is never stopped, bit for bit."""
    three = sharded(3).train(4, gradients)
    own = [replica.optimizer.state_dict() for replica in three.replicas]
    assert [len(np.atleast_1d(state["rule:momentum"])) for state in own] == [32, 28, 0]
    for state in (replica.optimizer.state_dict() for replica in three.run(lambda replica: replica.gather()).replicas):
        assert sorted(state) == ["rule:momentum", "rule:square", "rule:step"] and state["rule:step"] == 4
        for name in ("rule:momentum", "rule:square"):
            np.testing.assert_array_equal(state[name], np.concatenate([part[name] for part in own]))
        kept = {name: np.copy(value) if np.ndim(value) else value for name, value in state.items()}
    values = three.values()[0].copy()
    three.train(3, gradients)
    left = three.replicas[1].optimizer.state_dict()["rule:momentum"]
    assert len(np.atleast_1d(left)) == 28, "what was gathered is out of date"
    for count in (1, 2, 4):
        again = sharded(count)
        for replica in again.replicas:
            replica.store.values[:] = values
            replica.optimizer.load_state_dict(kept)
            replica.exchange.batch = 4
        for found in again.train(3, gradients).values():
            np.testing.assert_array_equal(found, three.values()[0])


def test_states_of_a_shard() -> None:
    """That of the own shard is enough to go on in its place; before the first step nothing has to be gathered."""
    two = sharded(2).run(lambda replica: replica.gather())
    assert two.replicas[0].optimizer.state_dict() == {"rule:step": 0}
    with pytest.raises(ValueError, match=r"'rule:square' must be a vector for all 60 .* for the 28 of shard 1 of 2, got 32"):
        state = {"rule:step": 1, "rule:momentum": np.zeros(28), "rule:square": np.zeros(32)}
        two.replicas[1].optimizer.load_state_dict(state)
    two.train(3, gradients)
    again = two.restarted(ShardedPSGDOptimizer, lambda: ADAMOptimizer(0.1)).train(1, gradients)
    np.testing.assert_array_equal(two.train(1, gradients).values()[0], again.values()[0])
