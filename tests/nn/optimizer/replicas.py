"""Real optimizers on real stores, connected by an exchange in memory that takes the mean over the blocks of a batch."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from typing import Any

import numpy as np

from nn.arrays import Array
from nn.gradient_descent import IGradientDescent
from nn.optimizer import IOptimizer
from nn.value import Variable, VariableStore

SHAPES = [(2, 3), (3,), (1, 4)]
SIZE = 13
Server = Callable[[int, Array], Array]
Objective = Callable[[Array, int, int], Array]


class Wire:
    """What all replicas have put, by (batch, variable) and block."""

    def __init__(self, blocks: int, server: Server | None) -> None:
        self.blocks, self.server = blocks, server
        self.contents: dict[tuple[int, int], dict[int, Array]] = {}
        self._results: dict[tuple[int, int], Array] = {}

    def result(self, batch: int, variable: int) -> Array:
        key = batch, variable
        if key not in self._results:
            there = self.contents[key]
            mean = np.asarray(sum(there[block] for block in sorted(there)) / len(there))
            self._results[key] = self.server(variable, mean) if self.server else mean
        return self._results[key]


class MemoryExchange:
    """One replica's side of the wire. What was put for the last block must stay unchanged until all results are ready."""

    def __init__(self, wire: Wire, shards: int, shard: int, by_shard: bool) -> None:
        self.wire, self.shards, self.shard, self.by_shard = wire, shards, shard, by_shard
        self.batch = -1
        self.puts: list[tuple[int, int]] = []
        self._watched: dict[int, tuple[Array, Array]] = {}

    def put(self, variable_id: int, block_id: int, content: Array) -> None:
        there = self.wire.contents.setdefault((self.batch, variable_id), {})
        assert block_id not in there, "each variable and block once"
        self.puts.append((variable_id, block_id))
        there[block_id] = content.copy()
        self._watched[variable_id] = content, there[block_id]

    def ready(self, variable_id: int) -> bool:
        assert all(np.array_equal(content, copy) for content, copy in self._watched.values())
        owned = self.by_shard and variable_id >= self.shards  # the parameters of a shard, which its owner puts
        return len(self.wire.contents.get((self.batch, variable_id), ())) == (1 if owned else self.wire.blocks)

    def get(self, variable_id: int) -> Array:
        self._watched.clear()
        return self.wire.result(self.batch, variable_id)

    def begin(self) -> None:
        self.batch += 1
        self.puts.clear()


class Replica:
    """A worker: a store, an optimizer, and the blocks that it computes."""

    def __init__(self, optimizer: Callable[[VariableStore], IOptimizer], blocks: Sequence[int], shapes: Sequence[Any]) -> None:
        self.store = new_store(shapes)
        self.optimizer = optimizer(self.store)
        self.exchange: Any = self.optimizer.exchange
        self.blocks = blocks

    def batch(self, objective: Objective) -> Iterator[int]:
        """One batch as the engine runs it."""
        self.exchange.begin()
        for block in self.blocks:
            self.store.gradients[:] = objective(self.store.values, self.exchange.batch, block)
            for variable in reversed(self.store.variables):
                self.optimizer.gradient_ready(variable, block)
        yield from self.optimizer.finish_batch()

    def gather(self) -> Iterator[int]:
        self.exchange.begin()
        yield from self.optimizer.gather_state()  # type: ignore[attr-defined]


class Cluster:
    """n replicas with the same start; block b of a batch is computed by one of them."""

    def __init__(
        self,
        kind: type[IOptimizer],
        rule: Callable[[], IGradientDescent],
        shares: Sequence[Sequence[int]],
        server: Server | None = None,
        shapes: Sequence[Any] = SHAPES,
    ) -> None:
        self.wire, self.shapes, count = Wire(sum(map(len, shares)), server), shapes, len(shares)
        sides = [MemoryExchange(self.wire, count, place, kind.by_shard) for place in range(count)]
        self.replicas = [
            Replica(lambda store, side=side: kind(rule(), store, side), share, shapes)  # type: ignore[misc]
            for share, side in zip(shares, sides, strict=True)
        ]

    def train(self, batches: int, objective: Objective) -> Cluster:
        for _ in range(batches):
            self.run(lambda replica: replica.batch(objective))
        return self

    def run(self, begin: Callable[[Replica], Iterator[int]]) -> Cluster:
        """Run something on all replicas, one that is ready at a time."""
        running = [(replica, begin(replica)) for replica in self.replicas]
        waiting: list[int | None] = [None] * len(running)
        left = set(range(len(running)))
        while left:
            before = list(waiting), set(left)
            for place in sorted(left):
                (replica, steps), awaited = running[place], waiting[place]
                if awaited is None or replica.exchange.ready(awaited):
                    waiting[place] = next(steps, None)
                    if waiting[place] is None:
                        left.discard(place)
            assert before != (waiting, left), f"replicas {left} wait for each other"
        return self

    def values(self) -> list[Array]:
        return [replica.store.values for replica in self.replicas]

    def restarted(self, kind: type[IOptimizer], rule: Callable[[], IGradientDescent]) -> Cluster:
        """New objects with copies of values and states only."""
        again = Cluster(kind, rule, [replica.blocks for replica in self.replicas], self.wire.server, self.shapes)
        for old, new in zip(self.replicas, again.replicas, strict=True):
            new.store.values[:] = old.store.values
            state: dict[str, Any] = old.optimizer.state_dict()
            new.optimizer.load_state_dict({name: np.copy(v) if np.ndim(v) else v for name, v in state.items()})
            new.exchange.batch = old.exchange.batch
        return again


def new_store(shapes: Sequence[Any] = SHAPES) -> VariableStore:
    return VariableStore([Variable(shape) for shape in shapes], [], np.dtype("float64"), 0)


def quadratic(values: Array, batch: int, block: int) -> Array:
    """Gradient of a bowl whose centre differs from block to block and moves from batch to batch."""
    places = np.arange(SIZE)
    return np.asarray((values - np.sin(places + block + 0.1 * batch)) * (1 + places % 3))
