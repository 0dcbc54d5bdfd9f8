"""A job without a model: workers exchange given arrays in memory, so that one sees the engine and nothing else."""

from __future__ import annotations

import functools
from collections.abc import Callable, Generator, Hashable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, Final

import numpy as np
from numpy.typing import NDArray

from network.testing import VirtualClock
from nn.gradient_descent import SGDOptimizer
from nn.gradient_descent.interface import IGradientDescent
from parallel_sgd.batch_sync import SyncChoice, SynchronizedSGD
from parallel_sgd.codec import Codec
from parallel_sgd.codec.bank import CodecBank
from parallel_sgd.codec.choice import CodecChoice, choose_codecs, is_whole
from parallel_sgd.codec.plain import Plain
from parallel_sgd.codec.settings import JobSettings
from parallel_sgd.engine.accounts import Joined
from parallel_sgd.engine.channel import Parameter_Server, Wait
from parallel_sgd.engine.exchange import BlockExchange
from parallel_sgd.engine.parameter_server import ParameterServer, Server
from parallel_sgd.engine.plan import whole_like
from parallel_sgd.engine.unusable import Like
from parallel_sgd.engine.whole_exchange import WholeExchange
from parallel_sgd.engine.worker import Worker
from parallel_sgd.profiles.blockassignment.abstract import ISetting
from parallel_sgd.simulation.immediate import Link, reliable
from parallel_sgd.simulation.kernel import Build, MemoryChannel, run_in_process

__all__ = ["SHAPES", "ArrayJob", "expected", "gradient", "start", "tree_mean"]

SHAPES: Final = ((3, 4), (4,))
Array = NDArray[np.float32]
Shapes = Sequence[tuple[int, ...]]


def gradient(batch: int, block: int, variable: int, shapes: Shapes = SHAPES) -> Array:
    """Return the gradient that each worker computes for a block; the sum of such values depends on the order of addition.

    Args:
        batch: number of the batch, from 0.
        block: id of the block.
        variable: place of the variable in `shapes`.
        shapes: of all variables.

    Returns: a float32 array of the shape `shapes[variable]`, drawn from (batch, block, variable).
    """
    # a copy: the caller may write into it, and the cache keeps the original
    return _drawn(batch, block, variable, tuple(shapes[variable])).copy()


@functools.lru_cache(maxsize=4096)  # jobs that are compared with each other compute the same
def _drawn(batch: int, block: int, variable: int, shape: tuple[int, ...]) -> Array:
    rng = np.random.default_rng((batch, block, variable))
    # sizes differ by up to 10^6, so a sum in another order has other bits
    scale = 10.0 ** rng.integers(-3, 4, shape)
    return (rng.standard_normal(shape) * scale).astype(np.float32)


def start(variable: int, shapes: Shapes = SHAPES) -> Array:
    """Return the value of a variable before the first batch.

    Args:
        variable: place of the variable in `shapes`.
        shapes: of all variables.

    Returns: a float32 array of the shape `shapes[variable]`, drawn from `variable`.
    """
    return np.random.default_rng(variable).standard_normal(shapes[variable]).astype(np.float32)


def tree_mean(values: Sequence[Array]) -> Array:
    """Return the mean of `values` in the reference order: halves, the left one larger, added recursively.

    `engine.merge` adds in this order too, so that results can be compared bit for bit.
    """

    def total(part: Sequence[Array]) -> Array:
        middle = (len(part) + 1) // 2
        return part[0] if len(part) == 1 else total(part[:middle]) + total(part[middle:])

    return np.divide(total(values), np.float32(len(values)))


def expected(batch: int, blocks: int, shapes: Shapes = SHAPES) -> list[Array]:
    """Return the exact mean of each variable over the blocks of a batch.

    Args:
        batch: number of the batch, from 0.
        blocks: number of blocks in the batch.
        shapes: of all variables.
    """
    found = range(len(shapes))
    return [tree_mean([gradient(batch, block, variable, shapes) for block in range(blocks)]) for variable in found]


@dataclass
class ArrayJob:
    """Job of workers that exchange given arrays in memory; after `run`, `results[node][batch][variable]` are the merged arrays.

    Args:
        assignment: the workers and their blocks.
        batches: number of batches.
        shapes: of the variables.
        codec: of the workers, as `parallel(codec=...)` takes it.
        sync_type: of the workers.
        timeout: T of the sync type, in seconds of `clock`.
        link: returns the delays in seconds with which each copy of a packet arrives, none for a packet that is lost.
        server: the codec of a parameter server; None for a job without one.
        parameters: `codec_extra_parameters`.
        rule: makes the rule that `GlobalSettings.get_rule` gives.
        ends_after: {node: batches after which it ends}; the other nodes end after `batches`.
        attempts: {node: attempt} of the nodes that are not in attempt 0.
        clock: of all nodes; no real time passes.
        on_batch: called with node and batch when a worker has all results of the batch.
        content: called with batch, block, variable and shapes, returns the array that the block gives for the variable.
    """

    assignment: ISetting
    batches: int = 3
    shapes: Shapes = SHAPES
    codec: CodecChoice = Plain
    sync_type: SyncChoice = SynchronizedSGD
    timeout: float = 10.0
    link: Link = reliable
    server: type[Codec] | None = None
    parameters: Mapping[Hashable, Any] = field(default_factory=dict)
    rule: Callable[[], IGradientDescent] = lambda: SGDOptimizer(0.1)
    ends_after: Mapping[int, int] = field(default_factory=dict)
    attempts: Mapping[int, int] = field(default_factory=dict)
    clock: VirtualClock = field(default_factory=VirtualClock)
    on_batch: Callable[[int, int], None] = lambda node, batch: None
    content: Callable[[int, int, int, Shapes], Array] = gradient

    def __post_init__(self) -> None:
        self.results: dict[int, list[list[Array]]] = {node: [] for node in self.assignment.nodes}
        self.exchanges: dict[int, BlockExchange] = {}

    def run(self) -> ArrayJob:
        """Run all batches on all nodes and return this job."""
        builds: dict[int, Build] = dict.fromkeys(self.assignment.nodes, self._build)
        if self.server is not None:
            builds[Parameter_Server] = self._build_server
        run_in_process(builds, self.clock, link=self.link)
        return self

    def sync(self, node: int) -> SynchronizedSGD:
        """Return the sync type of the worker `node`.

        Raises: TypeError where the job runs another type than SynchronizedSGD.
        """
        sync = self.exchanges[node].sync
        if not isinstance(sync, SynchronizedSGD):
            raise TypeError(f"node {node} runs {type(sync).__name__}")
        return sync

    def _build(self, channel: MemoryChannel) -> Worker:
        attempt = self.attempts.get(channel.node_id, 0)
        kinds, values = choose_codecs(self.codec, Plain, len(self.shapes)), self._values()
        likes, joined = [Like.of(value) for value in values], list[Joined]()
        names = tuple(f"dense/{('kernel', 'bias')[variable % 2]}" for variable in range(len(self.shapes)))
        if whole := is_whole(kinds):
            kinds, values = kinds[:1], [np.concatenate([value.reshape(-1) for value in values])]
            likes, joined = self._whole(likes)
        spoken = (f"{names[0]} to {names[-1]}",) if whole else names
        bank = CodecBank(kinds, JobSettings(self.assignment, self.parameters, values=values), channel, attempt, joined=joined)
        bank.expect(likes)
        sync = self.sync_type(bank, self.timeout, self.clock.monotonic, spoken)
        exchange = WholeExchange(bank, sync, None, names, self.shapes) if whole else BlockExchange(bank, sync)
        self.exchanges[channel.node_id] = exchange
        return Worker(None, exchange, self._train(channel.node_id, exchange))  # type: ignore[arg-type]

    def _whole(self, likes: Sequence[Like]) -> tuple[list[Like], list[Joined]]:
        return [whole_like(likes)], [Joined(range(len(likes)), tuple(like.size for like in likes))]

    def _values(self) -> list[Array]:
        return [start(variable, self.shapes) for variable in range(len(self.shapes))]

    def _build_server(self, channel: MemoryChannel) -> Server:
        settings = JobSettings(self.assignment, self.parameters, rule=self.rule)
        kinds, likes = choose_codecs(self.server, Plain, len(self.shapes)), [Like.of(value) for value in self._values()]
        joined: list[Joined] = []
        if is_whole(kinds):
            kinds = kinds[:1]
            likes, joined = self._whole(likes)
        self.server_bank = CodecBank(kinds, settings, channel, 0, joined=joined)
        self.server_bank.expect(likes)
        served = ParameterServer(self.server_bank, channel, self.timeout, 1.0, self.clock.monotonic, self.sync_type.staleness)
        return Server(served, served.run())

    def _train(self, node: int, exchange: BlockExchange) -> Generator[Wait, None, dict[str, float]]:
        # in the order of a backward pass
        backwards = tuple(reversed(range(len(self.shapes))))
        buffers = [np.empty(shape, np.float32) for shape in self.shapes]  # reused, as the gradients of a model are
        for batch in range(min(self.batches, self.ends_after.get(node, self.batches))):
            exchange.begin(0, batch)
            for block in self.assignment.node_2_block[node]:
                for variable in backwards:
                    buffers[variable][...] = self.content(batch, block, variable, self.shapes)
                    exchange.put(variable, block, buffers[variable])
            for variable in backwards:
                yield from exchange.wait(variable)
            # copied: the array of a codec is valid until the next batch alone
            self.results[node].append([exchange.get(variable).copy() for variable in range(len(self.shapes))])
            self.on_batch(node, batch)
        return {}
