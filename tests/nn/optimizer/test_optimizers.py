from collections.abc import Iterator

import numpy as np
import pytest

from nn.arrays import Array
from nn.gradient_descent import ADAMOptimizer, Cosine, SGDOptimizer
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
)
from nn.value import Buffer, Variable, VariableStore


class Recorder:
    """An exchange under the test's control: it merges to twice the content, when told."""

    def __init__(self) -> None:
        self.put_calls: list[tuple[int, int]] = []
        self.contents: dict[int, Array] = {}
        self.arrived: set[int] = set()

    def put(self, variable_id: int, block_id: int, content: Array) -> None:
        self.put_calls.append((variable_id, block_id))
        self.contents[variable_id] = content

    def ready(self, variable_id: int) -> bool:
        return variable_id in self.arrived

    def get(self, variable_id: int) -> Array:
        return 2 * self.contents[variable_id]


@pytest.fixture
def store() -> VariableStore:
    return VariableStore([Variable([2]), Variable([1, 3])], [], np.dtype("float32"), 0)


def test_parallel_sgd_exchanges_raw_gradients_and_applies_the_rule_after(store: VariableStore) -> None:
    store.values[:], store.gradients[:] = 0, np.arange(5)
    exchange = Recorder()
    optimizer = PSGDOptimizer(SGDOptimizer(1), store, exchange)
    for variable in reversed(store.variables):
        optimizer.gradient_ready(variable, 7)
    assert exchange.put_calls == [(1, 7), (0, 7)]
    assert exchange.contents[1] is store.variables[1].gradient

    waiting: Iterator[int] = optimizer.finish_batch()
    assert next(waiting) == 1
    assert next(waiting) == 1  # resumed too early: it asks again
    exchange.arrived.add(1)
    assert next(waiting) == 0
    assert store.values.tolist() == [0] * 5, "nothing changes before everything is there"
    exchange.arrived.add(0)
    assert next(waiting, None) is None
    assert store.values.tolist() == [0, -2, -4, -6, -8]
    assert store.gradients.tolist() == [0, 2, 4, 6, 8]


def test_ascent_is_descent_on_the_negative(store: VariableStore) -> None:
    up, down = ADAMOptimizer(0.1, weight_decay=0.5), ADAMOptimizer(0.1, weight_decay=0.5)
    expected, optimizer = np.zeros(5, np.float32), GAOptimizer(up, store)
    store.values[:] = 0
    for step in range(3):
        store.gradients[:] = np.arange(5) - step
        list(optimizer.finish_batch())
        down.update(expected, -store.gradients)
    assert np.array_equal(store.values, expected)


def test_ascent_on_many_workers_climbs_along_the_merged_gradient(store: VariableStore) -> None:
    """What is put are the raw gradients, and it waits for the merged ones as PSGDOptimizer does."""
    store.values[:], store.gradients[:] = 0, np.arange(5)
    exchange = Recorder()
    optimizer = GAOptimizer(SGDOptimizer(1), store, exchange)
    for variable in reversed(store.variables):
        optimizer.gradient_ready(variable, 7)
    assert exchange.put_calls == [(1, 7), (0, 7)]
    waiting = optimizer.finish_batch()
    assert next(waiting) == 1
    exchange.arrived |= {0, 1}
    assert next(waiting, None) is None
    assert store.values.tolist() == [0, 2, 4, 6, 8]
    assert store.gradients.tolist() == [0, 2, 4, 6, 8]


@pytest.mark.parametrize(
    ("kind", "what"),
    [
        (PSGDOptimizer, "gradients"),
        (GradientAveragingOptimizer, "gradients"),
        (DoubleBufferingOptimizer, "gradients"),
        (LocalUpdateOptimizer, "updates"),
        (ParameterAveragingOptimizer, "parameters"),
        (FederatedOptimizer, "parameters"),
    ],
)
def test_what_exchanges_needs_an_exchange(kind: type[IOptimizer], what: str, store: VariableStore) -> None:
    with pytest.raises(ValueError, match=f"{kind.__name__} exchanges {what} and needs an exchange; it runs in ParallelSGD"):
        kind(SGDOptimizer(), store)


@pytest.mark.parametrize(
    "kind",
    [
        GDOptimizer,
        GAOptimizer,
        PSGDOptimizer,
        GradientAveragingOptimizer,
        DoubleBufferingOptimizer,
        LocalUpdateOptimizer,
        ParameterAveragingOptimizer,
        FederatedOptimizer,
    ],
)
def test_buffers_change_once_for_each_batch(kind: type[IOptimizer]) -> None:
    """By the last block's changes where nobody is asked, else by what the exchange makes of them, here twice their mean."""
    buffer = Buffer([2])
    store = VariableStore([Variable([2]), Variable([3])], [buffer], np.dtype("float32"), 0)
    exchange = Recorder()
    exchange.arrived = {0, 1, 2}
    optimizer = kind(SGDOptimizer(), store, exchange)
    found = []
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

    class EverySecond(FederatedOptimizer):
        local_batches = 2

    buffer = Buffer([1])
    store = VariableStore([Variable([2])], [buffer], np.dtype("float32"), 0)
    exchange = Recorder()
    exchange.arrived = {0, 1}
    optimizer = EverySecond(SGDOptimizer(), store, exchange)
    found = []
    for _ in range(4):
        for block in range(2):
            store.buffer_changes[:] = 1 + 2 * block
            optimizer.gradient_ready(store.variables[0], block)
            optimizer.buffers_ready(block)
        assert list(optimizer.finish_batch()) == []
        found.append(float(buffer.value[0]))
    assert found == [2, 8, 10, 24]


def test_changes_of_buffers_that_wait_are_part_of_the_state() -> None:
    def new() -> tuple[DoubleBufferingOptimizer, VariableStore]:
        store = VariableStore([Variable([2])], [Buffer([1])], np.dtype("float32"), 0)
        exchange = Recorder()
        exchange.arrived = {0, 1}
        return DoubleBufferingOptimizer(SGDOptimizer(), store, exchange), store

    (first, store), (second, again) = new(), new()
    store.buffer_changes[:] = 3
    for block in (4, 5):
        first.gradient_ready(store.variables[0], block)
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


def test_a_container_builds_a_new_rule_each_time(store: VariableStore) -> None:
    container = OpContainer(GDOptimizer, ADAMOptimizer, gd_params=(0.5, 0.8))
    first, second = container.build(store), container.build(store)
    assert isinstance(first, GDOptimizer)
    assert first.rule is not second.rule
    assert first.rule.get_config()["beta1"] == 0.8
    named = OpContainer(GDOptimizer, ADAMOptimizer, gd_params={"learn_rate": Cosine(0.1, 9), "clip_norm": 2})
    assert repr(named.rule()) == repr(ADAMOptimizer(Cosine(0.1, 9), clip_norm=2))


def test_a_container_refuses_what_it_cannot_build() -> None:
    with pytest.raises(TypeError, match="OpContainer 'op_type' must be a class derived from IOptimizer"):
        OpContainer(SGDOptimizer, SGDOptimizer)  # type: ignore[arg-type]
    with pytest.raises(TypeError, match="OpContainer 'gd_type' must be a class derived from IGradientDescent"):
        OpContainer(GDOptimizer, SGDOptimizer())  # type: ignore[arg-type]
    with pytest.raises(TypeError, match=r"OpContainer 'gd_params' must be a tuple of arguments or a dict of them, got 0\.1"):
        OpContainer(GDOptimizer, SGDOptimizer, gd_params=0.1)  # type: ignore[arg-type]
    with pytest.raises(TypeError, match=r"SGDOptimizer cannot be built from gd_params=\(1, 2, 3, 4, 5\)"):
        OpContainer(GDOptimizer, SGDOptimizer, gd_params=(1, 2, 3, 4, 5)).rule()
    with pytest.raises(TypeError, match=r"SGDOptimizer cannot be built from gd_params=\{'rate': 1\}"):
        OpContainer(GDOptimizer, SGDOptimizer, gd_params={"rate": 1}).rule()
