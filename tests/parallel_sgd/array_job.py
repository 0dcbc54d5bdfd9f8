"""A job without a model: workers exchange given arrays, so that a test sees the engine and nothing else."""

from __future__ import annotations

from collections.abc import Callable, Hashable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

import numpy as np

from network.testing.clock import VirtualClock
from parallel_sgd.batch_sync import ISyncType, SynchronizedSGD
from parallel_sgd.codec import Codec
from parallel_sgd.codec.bank import CodecBank, CodecChoice, choose_codecs
from parallel_sgd.codec.plain import Plain
from parallel_sgd.codec.settings import JobSettings
from parallel_sgd.exchange import BlockExchange
from parallel_sgd.memory_channel import Link, MemoryChannel, reliable
from parallel_sgd.node_ids import Parameter_Server
from parallel_sgd.parameter_server import ParameterServer, Server
from parallel_sgd.profiles import ISetting
from parallel_sgd.turns import Build, run_in_process
from parallel_sgd.wait import Wait
from parallel_sgd.worker import Worker

SHAPES = ((3, 4), (4,))
NAMES = ("dense/kernel", "dense/bias")


def gradient(batch: int, block: int, variable: int) -> np.ndarray:
    """The gradient that whoever holds this block computes; values whose sum depends on the order of addition."""
    rng = np.random.default_rng((batch, block, variable))
    scale = 10.0 ** rng.integers(-3, 4, SHAPES[variable])
    return (rng.standard_normal(SHAPES[variable]) * scale).astype(np.float32)


def tree_mean(values: Sequence[np.ndarray]) -> np.ndarray:
    """The reference: halves, the left one larger, added recursively."""

    def total(part: Sequence[np.ndarray]) -> np.ndarray:
        middle = (len(part) + 1) // 2
        return part[0] if len(part) == 1 else total(part[:middle]) + total(part[middle:])

    return total(values) / np.float32(len(values))


def expected(batch: int, blocks: int) -> list[np.ndarray]:
    """The merged result of each variable."""
    return [tree_mean([gradient(batch, block, variable) for block in range(blocks)]) for variable in range(len(SHAPES))]


@dataclass
class ArrayJob:
    """Runs `batches` batches on all workers; afterwards `results[node][batch][variable]` are the merged arrays."""

    assignment: ISetting
    batches: int = 3
    codec: CodecChoice = Plain
    sync_type: type[ISyncType] = SynchronizedSGD
    timeout: float = 10.0
    link: Link = reliable
    server: type[Codec] | None = None  # the codec of a parameter server
    parameters: Mapping[Hashable, Any] = field(default_factory=dict)
    ends_after: Mapping[int, int] = field(default_factory=dict)  # node: batches after which it dies
    attempts: Mapping[int, int] = field(default_factory=dict)
    clock: VirtualClock = field(default_factory=VirtualClock)
    on_batch: Callable[[int, int], None] = lambda node, batch: None

    def __post_init__(self) -> None:
        self.results: dict[int, list[list[np.ndarray]]] = {node: [] for node in self.assignment.nodes}
        self.exchanges: dict[int, BlockExchange] = {}

    def run(self) -> ArrayJob:
        builds: dict[int, Build] = dict.fromkeys(self.assignment.nodes, self._build)
        if self.server is not None:
            builds[Parameter_Server] = self._build_server
        run_in_process(builds, self.clock, link=self.link)
        return self

    def sync(self, node: int) -> SynchronizedSGD:
        sync = self.exchanges[node].sync
        assert isinstance(sync, SynchronizedSGD)
        return sync

    def _build(self, channel: MemoryChannel) -> Worker:
        attempt = self.attempts.get(channel.node_id, 0)
        settings = JobSettings(self.assignment, self.parameters)
        bank = CodecBank(choose_codecs(self.codec, Plain, len(SHAPES)), settings, channel, attempt)
        exchange = BlockExchange(bank, self.sync_type(bank, self.timeout, self.clock.monotonic, NAMES))
        self.exchanges[channel.node_id] = exchange
        return Worker(None, exchange, self._train(channel.node_id, exchange))  # type: ignore[arg-type]

    def _build_server(self, channel: MemoryChannel) -> Server:
        settings = JobSettings(self.assignment, self.parameters)
        self.server_bank = CodecBank(choose_codecs(self.server, Plain, len(SHAPES)), settings, channel, 0)
        served = ParameterServer(self.server_bank, channel, self.timeout, 1.0, self.clock.monotonic)
        return Server(served, served.run())

    def _train(self, node: int, exchange: BlockExchange) -> Iterator[Wait]:
        buffers = [np.empty(shape, np.float32) for shape in SHAPES]  # reused, as the gradients of a model are
        for batch in range(min(self.batches, self.ends_after.get(node, self.batches))):
            exchange.begin(0, batch)
            for block in self.assignment.node_2_block[node]:
                for variable in (1, 0):
                    buffers[variable][...] = gradient(batch, block, variable)
                    exchange.put(variable, block, buffers[variable])
            for variable in (1, 0):
                yield from exchange.wait(variable)
            self.results[node].append([exchange.get(variable).copy() for variable in range(len(SHAPES))])
            self.on_batch(node, batch)
        return {}
