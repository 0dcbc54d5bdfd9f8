from collections.abc import Iterator

import numpy as np
import pytest

from nn.arrays import Array
from nn.gradient_descent import ADAMOptimizer, SGDOptimizer
from nn.optimizer import GDOptimizer, OpContainer, PSGDOptimizer
from nn.value import Variable, VariableStore


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


def test_gradient_descent_waits_for_nobody(store: VariableStore) -> None:
    store.values[:], store.gradients[:] = 1, 2
    optimizer = GDOptimizer(SGDOptimizer(0.5), store)
    for variable in store.variables:
        optimizer.gradient_ready(variable, 0)
    assert list(optimizer.finish_batch()) == []
    assert store.values.tolist() == [0] * 5


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


def test_parallel_sgd_needs_an_exchange(store: VariableStore) -> None:
    with pytest.raises(ValueError, match="PSGDOptimizer exchanges gradients and needs an exchange"):
        PSGDOptimizer(SGDOptimizer(), store)


def test_a_container_builds_a_new_rule_each_time(store: VariableStore) -> None:
    container = OpContainer(GDOptimizer, ADAMOptimizer, gd_params=(0.5, 0.8))
    first, second = container.build(store), container.build(store)
    assert isinstance(first, GDOptimizer)
    assert first.rule is not second.rule
    assert first.rule.get_config()["beta1"] == 0.8


def test_a_container_refuses_what_it_cannot_build() -> None:
    with pytest.raises(TypeError, match="OpContainer 'op_type' must be a class derived from IOptimizer"):
        OpContainer(SGDOptimizer, SGDOptimizer)  # type: ignore[arg-type]
    with pytest.raises(TypeError, match="OpContainer 'gd_type' must be a class derived from IGradientDescent"):
        OpContainer(GDOptimizer, SGDOptimizer())  # type: ignore[arg-type]
    with pytest.raises(TypeError, match=r"OpContainer 'gd_params' must be a tuple of arguments, got 0\.1"):
        OpContainer(GDOptimizer, SGDOptimizer, gd_params=0.1)  # type: ignore[arg-type]
    with pytest.raises(TypeError, match=r"SGDOptimizer cannot be built from gd_params=\(1, 2\)"):
        OpContainer(GDOptimizer, SGDOptimizer, gd_params=(1, 2)).rule()
