"""Exchange among neighbours: every worker mixes the parameters of a few others with its own, without a common result."""

from __future__ import annotations

from abc import abstractmethod
from collections.abc import Sequence
from typing import Any, ClassVar

import numpy as np

from nn.arguments import number, sequence
from parallel_sgd.codec.interfaces import Array, Codec
from parallel_sgd.codec.pipeline import Draw, PayloadError, Pipeline
from parallel_sgd.codec.pipeline.stage import Remembers, room_for, share
from parallel_sgd.engine.block_tree import Span
from parallel_sgd.engine.unusable import Like

from .builder import build
from .composed import Batch, Composed
from .encoders import dense
from .packet import DENSE, DOWN, LACKING, PAST, RESULT, Packet
from .parts import Copies, ExchangePattern, Grain


class Neighbours(ExchangePattern):
    """Exchange pattern in which a worker mixes parameters of a few others with its own: models differ, and meet over time.

    For parameters: `send="weights"` with op_type=ParameterAveragingOptimizer. `gamma` is the step towards the decoded
    parameters, where a pipeline leaves something out.

    Raises: TypeError, ValueError unless 0 < gamma <= 1.
    """

    agrees: ClassVar[bool] = False

    def __init__(self, gamma: float = 1.0) -> None:
        self.gamma = share(self, "gamma", gamma)

    def fit(self, workers: int) -> None:
        """Raise ValueError where the pattern is not one for this number of workers."""
        return

    def compose(self, **parts: Any) -> type[Codec]:
        return build(Mixing, self, **parts)

    @abstractmethod
    def weights(self, node: int, workers: int, draw: Draw) -> dict[int, float]:
        """Return the weights of a worker and of its neighbours in a batch, by node.

        A neighbour gives this worker the same weight.

        Args:
            node: the worker, counted from 0.
            workers: how many workers the job has.
            draw: keys the random numbers of the batch; those of its `shared` generator are equal on all nodes.
        """


TOLERANCE = 1e-6


class Gossip(Neighbours):
    """Decentralised parallel SGD: x_i <- sum_j a_ij x_j with a fixed symmetric matrix of rows that add up to 1.

    The mean over workers stays as it is; differences from it shrink in each step by the second largest eigenvalue of the
    matrix, 1/3 for a ring of 4, 0.805 of 8. Bytes per worker: a payload for each neighbour.

    Lian et al., "Can decentralized algorithms outperform centralized algorithms?", 2017, here with the local step before the
    mixture; with `up=DiffRef(...)` and gamma < 1 Koloskova et al., "Decentralized stochastic optimization and gossip
    algorithms with compressed communication" (CHOCO-SGD), 2019.

    Args:
        matrix: a, a row of numbers >= 0 for each worker; `"ring"` has 1/3 for a worker and for each of its two neighbours, of
            two workers 1/2.
        gamma: the step towards the decoded parameters, where a pipeline leaves something out.

    Raises: TypeError, ValueError for another name, a matrix that is not square, symmetric, >= 0 and of row sums 1, or gamma.
    """

    def __init__(self, matrix: Sequence[Sequence[float]] | str = "ring", gamma: float = 1.0) -> None:
        super().__init__(gamma)
        self.matrix: list[list[float]] | str = "ring"
        if isinstance(matrix, str):
            if matrix != "ring":
                raise ValueError(f"Gossip 'matrix' must be 'ring' or a matrix, got {matrix!r}")
            return
        rows = [sequence(self, "matrix", row, "numbers") for row in sequence(self, "matrix", matrix, "rows")]
        even = len({*map(len, rows)}) == 1
        a = np.array([[number(self, "matrix", each) for each in row] for row in rows] if even else 0)
        square = a.ndim == 2 and a.shape[0] == a.shape[1]
        if not square or (a < 0).any() or abs(a - a.T).max() > TOLERANCE or abs(a.sum(axis=1) - 1).max() > TOLERANCE:
            raise ValueError(f"Gossip 'matrix' must be square, symmetric, >= 0 and have rows that add up to 1, got {matrix!r}")
        self.matrix = a.tolist()

    def fit(self, workers: int) -> None:
        if self.matrix != "ring" and len(self.matrix) != workers:
            raise ValueError(f"Gossip 'matrix' is for {len(self.matrix)} workers, the job has {workers}")

    def weights(self, node: int, workers: int, draw: Draw) -> dict[int, float]:
        if not isinstance(self.matrix, str):
            # also with a weight of 0: mixing needs the own vector as its reference
            return {other: a for other, a in enumerate(self.matrix[node]) if a > 0 or other == node}
        around = sorted({(node - 1) % workers, node, (node + 1) % workers})
        return dict.fromkeys(around, 1 / len(around))


class RandomPair(Neighbours):
    """Random pairs of workers, drawn anew in every batch, on all nodes alike; both of a pair get (x_i + x_j) / 2.

    Of an odd number one keeps its parameters. Since the pairs are a matching that all workers know, no worker waits for one
    that waits for another. Bytes per worker: a payload. A worker may be several batches ahead of another with which it is not
    paired, so a packet that was lost is only sent again while its sender is no more than one batch ahead.

    Lian et al., "Asynchronous decentralized parallel stochastic gradient descent", 2018, here in step.
    """

    def weights(self, node: int, workers: int, draw: Draw) -> dict[int, float]:
        # without the variable: all variables of a worker are mixed with the same partner
        order = draw._replace(variable=-1).generator(shared=True).permutation(workers).tolist()
        # position of the worker in an order that all draw alike
        place = order.index(node)
        # neighbours in that order are pairs: 0 and 1, 2 and 3, ..
        partner = place ^ 1
        return {node: 0.5, order[partner]: 0.5} if partner < workers else {node: 1.0}


class Mixing(Composed):
    """Mixture x_i <- sum_j a_ij x_j over the worker and its neighbours, in the order of their ids.

    With a pipeline x_i <- x_i + gamma sum_j a_ij (y_j - y_i), where y are the vectors that receivers decode: with DiffRef these
    are the public copies of CHOCO-SGD.
    """

    def __init__(self, node_id: int) -> None:
        super().__init__(node_id)
        pattern = self.composition.exchange
        if not isinstance(pattern, Neighbours):
            raise TypeError(f"{type(self).__name__} needs an exchange among neighbours, got {pattern!r}")
        self._pattern = pattern
        self._pattern.fit(self.job.assignment.node_count)
        _, rest = self.parts.split()
        self._up = None if rest is None else Copies(Pipeline(rest))
        self._weights: dict[int, float] = {}
        self._heard: dict[int, Array] = {}
        self._rooms: dict[int, Array] = {}
        self._own_value: Array = np.empty(0, np.float32)
        self._result_room: Array = np.empty(0, np.float32)

    def _grain(self) -> Grain:
        return Grain.WORKERS

    def open(self, step: tuple[int, int], dense: bool) -> None:
        super().open(step, dense)
        # rooms stay: only what was heard is forgotten
        self._heard.clear()
        self._weights = self._pattern.weights(self.node_id, self.job.assignment.node_count, self.draw(step, 0))

    def contribute(self, span: Span, value: Array) -> None:
        batch = self.under_way()
        targets = [node for node in self._weights if node != self.node_id]
        self._own_value = value
        if self._up is None or batch.dense:
            # copied: packets may be asked for again after the parameters have moved on
            payload, flags = value.copy(), DENSE | (PAST if batch.dense else 0)
        else:
            payload, flags = self._up(0).encode(value, self.draw(batch.step, self.node_id)), 0
        packet = Packet(self.fingerprint, flags, self.node_id, 0, *span, value.size, payload)
        self.send(batch, targets, packet)
        # its own packet too: all decode the same bytes, this worker among them
        self.accept(batch, packet)

    def check_part(self, packet: Packet, like: Like, numbers: int) -> None:
        if packet.size != numbers:
            raise PayloadError(f"it is for {packet.size} numbers, and must be for {numbers}")
        if packet.place or packet.flags & (DOWN | RESULT | LACKING):
            raise PayloadError("it is no contribution, and nobody merges for others")
        self.check_contribution(packet)

    def accept(self, batch: Batch, packet: Packet) -> None:
        node, payload = packet.low, packet.payload
        # of the batch before, or the second of a pair
        if batch is not self.batch or node in self._heard:
            self.repeated += 1
            return
        if node not in self._weights or payload is None:
            # draws are equal on all nodes, so another worker has no business here
            raise PayloadError(f"{type(self).__name__} of node({self.node_id}) has no neighbour {node} in this batch")
        if packet.flags & DENSE or self._up is None:
            value = dense(payload, packet.size)
        else:
            value = self._up(0).decode(payload, (packet.size,), self.draw(batch.step, node))
        if value.size != self._own_value.size:
            raise PayloadError(f"it has {value.size} numbers, and the variable here {self._own_value.size}")
        room = self._rooms[node] = room_for(value, self._rooms.get(node))
        # copied, since the pipeline decodes the next one into the same memory
        np.copyto(room, value)
        self._heard[node] = room
        if len(self._heard) == len(self._weights):
            self.finish(batch, self._mixed(batch).reshape(self.shape))

    def _mixed(self, batch: Batch) -> Array:
        own, exact = self._own_value, self._up is None or batch.dense
        total = self._result_room = room_for(own, self._result_room)
        total.fill(0)
        reference = self._heard[self.node_id]
        # by id: each worker adds in the same order, whatever came first
        for node in sorted(self._weights):
            value = self._heard[node]
            # y_j - y_i, both as receivers decode them
            if not exact and node != self.node_id:
                np.subtract(value, reference, out=value)
            elif not exact:
                continue
            np.multiply(value, self._weights[node], out=value)
            np.add(total, value, out=total)
        if not exact:
            # gamma is the step of CHOCO-SGD towards the decoded parameters
            np.multiply(total, self._pattern.gamma, out=total)
            np.add(total, own, out=total)
        return total

    def silent(self, batch: Batch) -> set[int]:
        return set(self._weights) - set(self._heard)

    def missing_units(self, batch: Batch) -> list[int]:
        return sorted(self.silent(batch))

    def within(self) -> dict[str, Remembers]:
        return super().within() if self._up is None else {**super().within(), "up": self._up}
