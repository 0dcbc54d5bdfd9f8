"""Gradient coding: any n - s of n workers, however slow the others, give the exact mean, at the traffic of a gradient."""

from __future__ import annotations

from collections.abc import Collection, Iterable
from dataclasses import replace
from functools import lru_cache
from itertools import combinations
from math import comb
from typing import Any, Final

import numpy as np
from numpy.typing import NDArray

from nn.random import keyed
from parallel_sgd.engine.channel import Parameter_Server
from parallel_sgd.engine.unusable import Like, Unusable

from .interfaces import Array, BlockWeight, CheckingPackets, TakingLate, Tracking, netEncapsulation
from .settings import GlobalSettings
from .traits import PacketTraits, Traits

#: To the server: `(round, worker, coded sum, whether the worker asks for an answer)`, rounds being the results so far.
Coded = tuple[int, int, Array, bool]
#: To a worker: the mean; or, for one that asks too early, the workers that the server has not heard of.
Answer = Array | tuple[int, ...]

_UP: tuple[Any, ...] = ((int, int, np.ndarray, bool),)
_DOWN: tuple[Any, ...] = (np.ndarray, (int, ...))


class GradCode(CheckingPackets, Tracking):
    """Gradient coding: every worker sends sum_j B_ij g_j over its s + 1 blocks to the server. Of any n - s of these sums the
    server makes the mean over all blocks, (1/n) sum_i a_i c_i with a^T B = 1^T (`CyclicCode`), and sends it to
    every worker.

    For both sides, with `CyclicAssignment(n, s + 1)`. Sums are taken in float64 and sent in the gradient's own type. Their
    rounding grows with the code's `amplification`: the relative error of the mean was at most 6e-8 for n=4, s=1; 8e-7 for n=8,
    s=3; 3e-6 for n=10, s=3; 1e-4 for n=16, s=4. All workers get the same bits, which depend on the workers that came first.
    With more than s workers missing a batch ends in a time-out. Bytes per worker and variable of n elements: 4n up and 4n
    down, for any s.

    Raises: ValueError where the assignment is not cyclic.
    """

    traits = Traits(
        keeps_content=False,
        takes_first_copy=True,
        needs_server=True,
        serves=True,
        synchronous=True,
        by_arrival=True,
        packets=PacketTraits(keeps_type=True),
    )

    def __init__(self, node_id: int) -> None:
        super().__init__(node_id)
        self._hears_workers = node_id == Parameter_Server
        self.traits = self.traits.with_forms(*(_UP if self._hears_workers else _DOWN))
        self._settings = GlobalSettings.current()
        job = self._settings.assignment
        self._settings.check_node(self)
        count, copies = job.node_count, job.redundancy
        cyclic = [sorted((node + ahead) % count for ahead in range(copies)) for node in job.nodes]
        # the code's zeros are those of a cyclic assignment alone
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
        if not self._encodes(block_weight):
            return None
        return netEncapsulation(Parameter_Server, (self._round, self.node_id, self._sent, False))

    def _encodes(self, block_weight: BlockWeight) -> bool:
        content, block = block_weight
        self._sum.add(float(self._code.matrix[self.node_id, block]), content)
        # s + 1 terms: one for each block of this worker
        if self._sum.terms <= self._code.stragglers:
            return False
        if self._buffer is None:
            self._buffer = np.empty_like(content, subok=False)
        self._sent = self._sum.write(self._buffer)
        return True

    def _decoded(self) -> Array | None:
        """Return the mean in an array of its own, and begin anew, when enough coded sums are there."""
        # sorted, so that the bits depend on which workers these are, not on their order
        alive = sorted(self._coded)
        # n - s sums are enough; one more would be another code
        if len(alive) + self._code.stragglers < len(self._workers):
            return None
        for worker, coefficient in zip(alive, self._code.decoder(alive), strict=True):
            # divided by the workers: cyclic blocks are as many as workers
            self._sum.add(coefficient / len(self._workers), self._coded[worker])
        mean = self._sum.write(np.empty_like(self._coded[alive[0]], subok=False))
        self._coded.clear()
        return mean

    def check(self, content: Any, like: Like | None) -> None:
        """Refuse coded sums in the name of another worker, and answers of any node but the server."""
        super().check(content, like)
        self._settings.check_sender(content[1] if self._hears_workers else Parameter_Server)
        named = content[1:2] if self._hears_workers else content if isinstance(content, tuple) else ()
        if not set(named) <= set(self._workers):
            raise Unusable(f"it names the workers {str(named)[:80]}, and there are {len(self._workers)}")

    def receive_blocks(self, content: Any) -> netEncapsulation | None:
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
            # the mean of the last round alone is still there
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
        if self._sent is None:
            return None
        return netEncapsulation(Parameter_Server, (self._round, self.node_id, self._sent, True))

    def get_result(self) -> Array | None:
        if self._result is not None:
            self._round += 1
            self._sent = None
            self._sum.reset()
            self._missing = ()
        return super().get_result()

    def missing_nodes(self) -> Iterable[int]:
        return self._missing

    def dispose(self) -> None:
        super().dispose()
        self._sent = self._buffer = self._mean = None
        self._coded.clear()
        self._sum = WeightedSum()


class GradCodePeers(GradCode, TakingLate):
    """`GradCode` where every worker sends its coded sum to all others and decodes the first n - s that are there.

    Workers that have heard different ones get means that differ by rounding (`GradCode` tells how much), and so do their
    models, as if each summed in another order: none can know which sums the others have had without waiting for the slow ones.
    Where replicas must have the same bits, take `GradCode` with a server; or `Plain` with the same `CyclicAssignment`, which
    bears as many stragglers and sends each block by itself. With more than s workers missing a batch ends in a time-out.
    Bytes per worker and variable of n elements: 4n for each other worker, for any s.

    Raises: ValueError where the assignment is not cyclic.
    """

    traits = replace(GradCode.traits, needs_server=False, serves=False, agrees=False)

    def __init__(self, node_id: int) -> None:
        super().__init__(node_id)
        self.traits = self.traits.with_forms((int, int, np.ndarray, bool))
        self._hears_workers = True
        self._others = [node for node in self._workers if node != node_id]
        self._before: tuple[int, Array | None] = (-1, None)

    def update_blocks(self, block_weight: BlockWeight) -> netEncapsulation | None:
        if not self._encodes(block_weight) or self._sent is None:
            return None
        self._take_in(self.node_id, self._sent)
        return netEncapsulation(self._others, (self._round, self.node_id, self._sent, False))

    def receive_blocks(self, content: Any) -> netEncapsulation | None:
        round_, node, coded, asks = content
        if round_ == self._round and self._result is None:
            self._take_in(node, coded)
        else:
            self.late += 1
        own = self._sent if round_ == self._round else self._before[1] if round_ == self._before[0] else None
        return netEncapsulation(node, (round_, self.node_id, own, False)) if asks and own is not None else None

    def receive_late(self, content: Any) -> netEncapsulation | None:
        return self.receive_blocks(content)

    def _take_in(self, node: int, coded: Array) -> None:
        """Keep a coded sum; the own one counts last, when its buffer is free for the mean."""
        self._coded[node] = coded
        mean = self._decoded() if self._sent is not None else None
        if mean is not None:
            self.set_result(mean)

    def do_something_to_save_yourself(self) -> netEncapsulation | None:
        """Send the coded sum again to the workers that were not heard, and ask for theirs."""
        if self._sent is None:
            return None
        return netEncapsulation(self.missing_nodes(), (self._round, self.node_id, self._sent, True))

    def get_result(self) -> Array | None:
        if self._result is not None:
            self._before = (self._round, self._sent)
            self._buffer = None  # a worker that asks late gets the sum that was sent, so its array must not change
        return super().get_result()

    def missing_nodes(self) -> Iterable[int]:
        return tuple(node for node in self._others if node not in self._coded)

    def dispose(self) -> None:
        super().dispose()
        self._before = (-1, None)


Matrix = NDArray[np.float64]

# the best of some draws: a bad H makes rounding errors large
CODE_SEEDS: Final = 20
#: Sets of workers that a code is judged by: all, or as many drawn at random.
MOST_SETS: Final = 2048


class CyclicCode:
    """Cyclic code of Tandon et al., "Gradient coding: avoiding stragglers in distributed learning", ICML 2017, algorithm 2.

    Worker i sends sum_j B_ij g_j over its blocks i, ..., i+s modulo n. The rows of B lie in the null space of a random H
    (s x n) with H 1 = 0, so that those of any n - s workers span it, which holds 1: B_ii = 1 and the other coefficients of row
    i are -H_J^-1 H_i over the columns J of its other blocks. The effect of a worker's rounding on the result grows with
    `amplification`, the largest sum over n - s workers of |a_i| |B_i|: so H is the best of `CODE_SEEDS` draws, that of `seed`.

    >>> code = cyclic_code(3, 1)
    >>> bool(np.allclose(code.decoder([0, 2]) @ code.matrix[[0, 2]], 1))
    True
    """

    def __init__(self, workers: int, stragglers: int) -> None:
        if workers < 1 or not 0 <= stragglers < workers:
            raise ValueError(
                f"CyclicCode 'stragglers' must be at least 0 and less than the number of workers, got {stragglers} of {workers}"
            )
        self.workers = workers
        self.stragglers = stragglers
        # which sets of workers may be left: all of them, or a sample that is the same on all nodes
        sets = _alive_sets(workers, workers - stragglers)
        best: tuple[float, int, Matrix] | None = None
        for seed in range(CODE_SEEDS if stragglers else 1):
            # equal draws on all nodes: a coefficient is never sent
            matrix = _matrix(workers, stragglers, seed)
            decoders = _decoders(matrix, sets)
            grown = float((np.abs(decoders) * np.linalg.norm(matrix, axis=1)[sets]).sum(axis=1).max())
            if best is None or grown < best[0]:
                best = (grown, seed, matrix)
        if best is None:
            raise RuntimeError("CyclicCode has drawn no matrix")
        self.amplification, self.seed, self.matrix = best
        # shared by all codecs of a process
        self.matrix.flags.writeable = False

    def decoder(self, alive: Collection[int]) -> Matrix:
        """Return the vector a with a^T B_alive = 1^T, in ascending order of the workers in `alive`.

        Raises: ValueError unless there are exactly n - s workers.
        """
        needed = self.workers - self.stragglers
        nodes = sorted(set(alive))
        if len(nodes) != needed or not set(nodes) <= set(range(self.workers)):
            raise ValueError(
                f"A cyclic code for {self.workers} workers, of whom {self.stragglers} may be missing, needs the sums of "
                f"{needed}, got those of {nodes}"
            )
        solved: Matrix = _decoders(self.matrix, np.array([nodes]))[0]
        return solved


@lru_cache(maxsize=16)
def cyclic_code(workers: int, stragglers: int) -> CyclicCode:
    """Return the code for these numbers, the same on every node; shared by all codecs of a worker."""
    return CyclicCode(workers, stragglers)


def _matrix(workers: int, stragglers: int, seed: int) -> Matrix:
    """Return B for the H of this seed."""
    h = keyed(seed, "cyclic code", workers, stragglers).standard_normal((stragglers, workers))
    # H 1 = 0: the last column makes the rows add up to 0
    h[:, -1] = -h[:, :-1].sum(axis=1)
    matrix = np.eye(workers)
    if stragglers:
        for node in range(workers):
            others = [(node + ahead) % workers for ahead in range(1, stragglers + 1)]
            matrix[node, others] = -np.linalg.solve(h[:, others], h[:, node])
    return matrix


def _alive_sets(workers: int, alive: int) -> NDArray[Any]:
    if comb(workers, alive) <= MOST_SETS:
        return np.array(list(combinations(range(workers), alive)))
    draw = keyed(0, "alive sets", workers, alive)
    return np.array([np.sort(draw.permutation(workers)[:alive]) for _ in range(MOST_SETS)])


def _decoders(matrix: Matrix, sets: NDArray[Any]) -> Matrix:
    """Return a for each set: in an orthonormal basis of the row space of B, of n - s dimensions, the system is square."""
    alive = sets.shape[1]
    # the row space has n - s dimensions, so that many singular vectors span it
    basis = np.linalg.svd(matrix)[2][:alive].T
    rows = (matrix @ basis)[sets]
    ones = np.broadcast_to(basis.sum(axis=0)[:, None], (len(sets), alive, 1))
    solved: Matrix = np.linalg.solve(rows.swapaxes(1, 2), ones)[..., 0]
    return solved


# 256 KiB of products in float64, which stay in the second cache of a core
CHUNK: Final = 32 * 1024


class WeightedSum:
    """Sum sum_i c_i x_i of arrays of one shape; one rounding per term to float64, and one at the end. Its buffer is reused."""

    def __init__(self) -> None:
        self._total: NDArray[np.float64] = np.empty(0)
        self._product = np.empty(CHUNK)
        self.terms = 0

    def add(self, coefficient: float, array: Array) -> None:
        if self.terms == 0:
            if self._total.shape != array.shape:
                # made anew only where the shape changes
                self._total = np.empty(array.shape)
            np.multiply(array, coefficient, out=self._total, dtype=np.float64)
        else:
            total, flat = self._total.reshape(-1), array.reshape(-1)
            # in pieces: product and sum stay in the cache
            for start in range(0, flat.size, CHUNK):
                part = slice(start, start + CHUNK)
                product = np.multiply(flat[part], coefficient, out=self._product[: flat[part].size], dtype=np.float64)
                np.add(total[part], product, out=total[part])
        self.terms += 1

    def write(self, out: Array) -> Array:
        # same_kind: float64 into the gradient's own float32 on purpose, and never into integers
        np.copyto(out, self._total, casting="same_kind")
        self.terms = 0
        return out

    def reset(self) -> None:
        self.terms = 0
