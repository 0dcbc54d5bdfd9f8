"""A sharded rule: how the vector is cut, and states that can be taken apart and put together."""

from itertools import pairwise

import numpy as np
import pytest

from nn.arrays import Array
from nn.gradient_descent import ADAMOptimizer, SGDOptimizer
from nn.optimizer import ShardedPSGDOptimizer
from nn.optimizer.sharded import ALIGNMENT, shard_bounds
from tests.nn.optimizer.replicas import SIZE, Cluster


@pytest.mark.parametrize(("size", "count"), [(0, 2), (1, 3), (16, 2), (17, 2), (118_282, 2), (118_282, 7), (1000, 64)])
def test_shards_cover_the_vector(size: int, count: int) -> None:
    bounds = shard_bounds(size, count)
    assert bounds[0] == 0 and bounds[-1] == size and len(bounds) == count + 1
    assert sorted(bounds) == bounds
    assert all(start % ALIGNMENT == 0 or start == size for start in bounds)
    assert max(b - a for a, b in pairwise(bounds)) <= -(-size // count) + ALIGNMENT


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
