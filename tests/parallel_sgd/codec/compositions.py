"""Jobs of composed codecs on given arrays, for tests."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from typing import Any

import numpy as np

from nn.gradient_descent import IGradientDescent
from parallel_sgd import Parameter_Server
from parallel_sgd.codec import BlockWeight, Codec, GlobalSettings, netEncapsulation
from parallel_sgd.profiles import IIDBlockAssignment, ISetting
from parallel_sgd.testing.array_job import ArrayJob, expected


def run(kind: type[Codec], assignment: ISetting, **settings: Any) -> ArrayJob:
    """Run a job whose server, where there is one, has the same class."""
    return ArrayJob(assignment, **{"codec": kind, "server": kind if kind.traits.needs_server else None, **settings}).run()


def bits(job: ArrayJob) -> list[tuple[bytes, ...]]:
    """The results of each worker."""
    return [tuple(value.tobytes() for batch in job.results[node] for value in batch) for node in job.assignment.nodes]


def check_exact(job: ArrayJob, nodes: Iterable[int] | None = None) -> None:
    """Every worker has got the mean over all blocks along the tree, to the bit, in every batch."""
    for node in job.assignment.nodes if nodes is None else nodes:
        assert len(job.results[node]) == job.batches
        for batch, got in enumerate(job.results[node]):
            wanted = expected(batch, job.assignment.block_count, job.shapes)
            assert [(value.dtype, value.tobytes()) for value in got] == [(value.dtype, value.tobytes()) for value in wanted]


def codec_of(job: ArrayJob, node: int = 0, variable: int = 0) -> Any:
    """The codec of a worker, after the job."""
    return job.exchanges[node].bank.codecs[variable]


class ByHand:
    """Codecs of one variable on all nodes, one block for each worker, whose packets are passed on at once."""

    def __init__(
        self,
        kind: type[Codec],
        workers: int,
        parameters: Mapping[Any, Any] | None = None,
        value: np.ndarray | None = None,
        rule: Callable[[], IGradientDescent] | None = None,
    ) -> None:
        nodes = [*range(workers), *([Parameter_Server] if kind.traits.needs_server else [])]
        value = np.zeros((5, 8), np.float32) if value is None else value
        with GlobalSettings.use(IIDBlockAssignment(workers), parameters, values=[value], rule=rule) as self.job:
            self.codecs: dict[int, Any] = {node: kind(node) for node in nodes}
        self.batch = self.payloads = 0

    def exchange(self, values: Sequence[np.ndarray]) -> list[np.ndarray]:
        """Give every worker's value to its codec; return the results."""
        self.job.step = (0, self.batch)
        self.batch += 1
        packets: list[Any] = []
        for node, value in enumerate(values):
            posted = self.codecs[node].update_blocks(BlockWeight(value.copy(), node)) or ()
            packets += [posted] if isinstance(posted, netEncapsulation) else posted
        self.payloads += sum(packet.content[-1] is not None for packet in packets)
        while packets:
            packet = packets.pop(0)
            for target in packet.targets:
                content = tuple(part.copy() if isinstance(part, np.ndarray) else part for part in packet.content)
                packets += self.codecs[target].receive_blocks(content) or ()
        return [np.array(self.codecs[node].get_result()) for node in range(len(values))]
