"""Gradient coding: any n - s of n workers give the exact mean, whoever is slow, for the traffic of one gradient each."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any

import numpy as np

from parallel_sgd.node_ids import Parameter_Server
from parallel_sgd.unusable import Like, Unusable

from .cyclic_code import cyclic_code
from .interfaces import Array, BlockWeight, Codec, netEncapsulation
from .settings import GlobalSettings
from .weighted_sum import WeightedSum

#: To the server: `(round, worker, coded sum, whether the worker asks for an answer)`, rounds being the results so far.
Coded = tuple[int, int, Array, bool]
#: To a worker: the mean; or, for one that asks too early, the workers that the server has not heard of.
Answer = Array | tuple[int, ...]

_UP: tuple[Any, ...] = ((int, int, np.ndarray, bool),)
_DOWN: tuple[Any, ...] = (np.ndarray, (int, ...))


class GradCode(Codec):
    """Every worker sends sum_j B_ij g_j over its s + 1 blocks to the server; of any n - s of them it makes the mean over all
    blocks, (1/n) sum_i a_i c_i with a^T B = 1^T (`cyclic_code.CyclicCode`), and sends it to every worker.

    For both sides, with `CyclicAssignment(n, s + 1)`. Sums are taken in float64 and sent in the gradient's own type. Their
    rounding grows with the code's `amplification`: the relative error of the mean was at most 6e-8 for n=4, s=1; 8e-7 for n=8,
    s=3; 3e-6 for n=10, s=3; 1e-4 for n=16, s=4. All workers get the same bits; which ones depends on who came first. With more
    than s workers missing a batch ends in a time-out. Bytes per worker and variable of n elements: 4n up and 4n down, whatever
    s is.

    Raises: ValueError where the assignment is not cyclic.
    """

    keeps_content = False
    keeps_type = True
    takes_first_copy = True
    needs_server = True
    serves = True
    synchronous = True

    def __init__(self, node_id: int) -> None:
        super().__init__(node_id)
        self._hears_workers = node_id == Parameter_Server
        self.forms = _UP if self._hears_workers else _DOWN
        self._settings = GlobalSettings.current()
        job = self._settings.assignment
        if node_id != Parameter_Server and node_id not in job.nodes:
            raise ValueError(
                f"{type(self).__name__} runs on the workers {job.nodes} and the parameter server {Parameter_Server}, "
                f"got node {node_id}"
            )
        count, copies = job.node_count, job.redundancy
        cyclic = [sorted((node + ahead) % count for ahead in range(copies)) for node in job.nodes]
        if [sorted(blocks) for blocks in job.node_2_block] != cyclic:
            raise ValueError(
                f"{type(self).__name__} needs a CyclicAssignment, got {type(job).__name__} with the blocks {job.node_2_block}"
            )
        self._workers = job.nodes
        self._code = cyclic_code(count, copies - 1)
        self._sum = WeightedSum()
        self._round = 0
        self._sent: Array | None = None
        self._buffer: Array | None = None
        self._coded: dict[int, Array] = {}
        self._mean: Array | None = None
        self._missing: tuple[int, ...] = ()
        self.late = 0

    def update_blocks(self, block_weight: BlockWeight) -> netEncapsulation | None:
        """Add a block; send the coded sum when the last one is computed."""
        if not self._encodes(block_weight):
            return None
        return netEncapsulation(Parameter_Server, (self._round, self.node_id, self._sent, False))

    def _encodes(self, block_weight: BlockWeight) -> bool:
        """Add a block; True when the coded sum, `_sent`, is complete."""
        content, block = block_weight
        self._sum.add(float(self._code.matrix[self.node_id, block]), content)
        if self._sum.terms <= self._code.stragglers:
            return False
        if self._buffer is None:
            self._buffer = np.empty_like(content, subok=False)
        self._sent = self._sum.write(self._buffer)
        return True

    def _decoded(self) -> Array | None:
        """Return the mean in an array of its own, and begin anew, when enough coded sums are there."""
        alive = sorted(self._coded)
        if len(alive) + self._code.stragglers < len(self._workers):
            return None
        for worker, coefficient in zip(alive, self._code.decoder(alive), strict=True):
            self._sum.add(coefficient / len(self._workers), self._coded[worker])
        mean = self._sum.write(np.empty_like(self._coded[alive[0]], subok=False))
        self._coded.clear()
        return mean

    def check(self, content: Any, like: Like | None) -> None:
        """Refuse coded sums in the name of another worker, and answers of anybody but the server."""
        super().check(content, like)
        self._settings.check_sender(content[1] if self._hears_workers else Parameter_Server)
        named = content[1:2] if self._hears_workers else content if isinstance(content, tuple) else ()
        if not set(named) <= set(self._workers):
            raise Unusable(f"it names the workers {str(named)[:80]}, and there are {len(self._workers)}")

    def receive_blocks(self, content: Any) -> netEncapsulation | None:
        """A coded sum, on the server; on a worker its answer."""
        if self.node_id == Parameter_Server:
            return self._serve(content)
        self._take(content)
        return None

    def _serve(self, content: Coded) -> netEncapsulation | None:
        """Keep a coded sum; answer all workers when there are enough, and the asking one in any case."""
        round_, node, coded, asks = content
        if round_ > self._round:
            raise ValueError(f"The parameter server is in round {self._round}, but a worker is in round {round_} already")
        if round_ < self._round:
            self.late += 1
            return netEncapsulation(node, self._mean) if asks and round_ == self._round - 1 else None
        self._coded[node] = coded
        mean = self._decoded()
        if mean is None:
            return netEncapsulation(node, tuple(sorted(set(self._workers) - set(self._coded)))) if asks else None
        self._mean = mean  # an array of its own, for the one before may be on its way still
        self._round += 1
        return netEncapsulation(self._workers, self._mean)

    def _take(self, content: Answer) -> None:
        if isinstance(content, tuple):
            self._missing = content
        elif self._result is None:
            self.set_result(content)

    def do_something_to_save_yourself(self) -> netEncapsulation | None:
        """Send the coded sum again and ask for an answer."""
        if self._sent is None:
            return None
        return netEncapsulation(Parameter_Server, (self._round, self.node_id, self._sent, True))

    def get_result(self) -> Array | None:
        """The mean over all blocks."""
        if self._result is not None:
            self._round += 1
            self._sent = None
            self._sum.reset()
            self._missing = ()
        return super().get_result()

    def missing_nodes(self) -> Iterable[int]:
        """The workers that the server had not heard of when it was asked."""
        return self._missing

    def dispose(self) -> None:
        """Let go of all arrays."""
        super().dispose()
        self._sent = self._buffer = self._mean = None
        self._coded.clear()
        self._sum = WeightedSum()
