"""Codecs without a common result: every worker mixes what its neighbours have with its own."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import numpy as np

from parallel_sgd.codec.interfaces import Array
from parallel_sgd.codec.pipeline import PayloadError
from parallel_sgd.merge import Span
from parallel_sgd.unusable import Like

from .batch import Batch
from .conversing import Conversing
from .neighbours import Neighbours
from .packet import DENSE, DOWN, LACKING, PAST, RESULT, Packet
from .pipelines import Pipelines
from .units import Grain
from .ways import dense


class Mixing(Conversing):
    """x_i <- sum_j a_ij x_j over the worker and its neighbours, in the order of their ids.

    With a pipeline x_i <- x_i + gamma sum_j a_ij (y_j - y_i), where y are what receivers decode: with DiffRef these are the
    public copies of CHOCO-SGD.
    """

    def __init__(self, node_id: int) -> None:
        super().__init__(node_id)
        pattern = self.composition.exchange
        if not isinstance(pattern, Neighbours):
            raise TypeError(f"{type(self).__name__} needs an exchange among neighbours, got {pattern!r}")
        self._pattern = pattern
        self._pattern.fit(self.job.assignment.node_count)
        _, rest = self.parts.split()
        self._up = None if rest is None else Pipelines(rest)
        self._weights: dict[int, float] = {}
        self._heard: dict[int, Array] = {}
        self._rooms: dict[int, Array] = {}
        self._own_value: Array = np.empty(0, np.float32)
        self._result_room: Array = np.empty(0, np.float32)

    def _grain(self) -> Grain:
        return Grain.WORKERS

    def open(self, step: tuple[int, int], dense: bool) -> None:
        """Begin a batch."""
        super().open(step, dense)
        self._heard.clear()
        self._weights = self._pattern.weights(self.node_id, self.job.assignment.node_count, self.draw(step, 0))

    def contribute(self, span: Span, value: Array) -> None:
        """Send the own parameters to the neighbours."""
        batch = self.under_way()
        targets = [node for node in self._weights if node != self.node_id]
        self._own_value = value
        if self._up is None or batch.dense:
            payload, flags = value.copy(), DENSE | (PAST if batch.dense else 0)
        else:
            payload, flags = self._up(0).encode(value, self.draw(batch.step, self.node_id)), 0
        packet = Packet(self.fingerprint, flags, self.node_id, 0, *span, value.size, payload)
        self.send(batch, targets, packet)
        self.accept(batch, packet)

    def check_part(self, packet: Packet, like: Like, numbers: int) -> None:
        """A worker sends what it has."""
        if packet.size != numbers:
            raise PayloadError(f"it is for {packet.size} numbers, and must be for {numbers}")
        if packet.place or packet.flags & (DOWN | RESULT | LACKING):
            raise PayloadError("it is no contribution, and nobody merges for others")
        self.check_contribution(packet)

    def accept(self, batch: Batch, packet: Packet) -> None:
        """Keep what a neighbour sent; mix when all have."""
        node, payload = packet.low, packet.payload
        if batch is not self.batch or node in self._heard:
            self.repeated += 1
            return
        if node not in self._weights or payload is None:
            raise PayloadError(f"{type(self).__name__} of node({self.node_id}) has no neighbour {node} in this batch")
        if packet.flags & DENSE or self._up is None:
            value = dense(payload, packet.size)
        else:
            value = self._up(0).decode(payload, (packet.size,), self.draw(batch.step, node))
        if value.size != self._own_value.size:
            raise PayloadError(f"it has {value.size} numbers, and the variable here {self._own_value.size}")
        room = self._rooms.get(node)
        if room is None or room.shape != value.shape or room.dtype != value.dtype:
            room = self._rooms[node] = np.empty_like(value, subok=False)
        np.copyto(room, value)
        self._heard[node] = room
        if len(self._heard) == len(self._weights):
            batch.done, batch.result = True, self._mixed(batch).reshape(self.shape)
            self.set_result(batch.result)

    def _mixed(self, batch: Batch) -> Array:
        """Return the mixture; what was heard is used up."""
        own, exact = self._own_value, self._up is None or batch.dense
        if self._result_room.shape != own.shape or self._result_room.dtype != own.dtype:
            self._result_room = np.empty_like(own, subok=False)
        total = self._result_room
        total.fill(0)
        reference = self._heard[self.node_id]
        for node in sorted(self._weights):
            value = self._heard[node]
            if not exact and node != self.node_id:
                np.subtract(value, reference, out=value)
            elif not exact:
                continue
            np.multiply(value, self._weights[node], out=value)
            np.add(total, value, out=total)
        if not exact:
            np.multiply(total, self._pattern.gamma, out=total)
            np.add(total, own, out=total)
        return total

    def silent(self, batch: Batch) -> set[int]:
        """The neighbours that were not heard."""
        return set(self._weights) - set(self._heard)

    def missing_units(self, batch: Batch) -> list[int]:
        """Their numbers."""
        return sorted(self.silent(batch))

    def state_dict(self) -> dict[str, Any]:
        """What the stages remember, beside what all composed codecs do."""
        up = {} if self._up is None else self._up.state_dict()
        return {**super().state_dict(), **{f"up.{name}": value for name, value in up.items()}}

    def load_state_dict(self, state: Mapping[str, Any]) -> None:
        """Take over a copy of what `state_dict` returned."""
        own = {name[3:]: value for name, value in state.items() if name.startswith("up.")}
        if self._up is not None:
            self._up.load_state_dict(own)
            state = {name: value for name, value in state.items() if not name.startswith("up.")}
        super().load_state_dict(state)
