"""Keeps, batch by batch, whose copies a worker has merged."""

from __future__ import annotations

from parallel_sgd.codec.bank import CodecBank
from parallel_sgd.merge import Copy

from .history import NOBODY, History, Stretch
from .table import LedgerTable

_MOST_ORDERS = 1024


class Recorder:
    """The history of one worker, from `begun` on; `attempt` is that of its job. `table` is told too.

    It believes the codecs (`Codec.copies`). Copies of a block are equal to the bit, and variables may take different ones:
    the first variable whose codec keeps track names the node; a block that any of them lacks has nobody's.
    """

    def __init__(self, bank: CodecBank, attempt: int, begun: History, table: LedgerTable | None = None) -> None:
        self._bank = bank
        self._attempts = begun.attempts
        self._attempt = begun.attempts + attempt
        self._stretches = list(begun.stretches)
        self._table = table
        self._holders = [tuple(holders) for holders in bank.assignment.block_2_node]
        self._only = tuple(holders[0] for holders in self._holders) if bank.assignment.redundancy == 1 else None
        self._known: dict[tuple[Copy, ...], tuple[int, ...]] = {}

    @property
    def history(self) -> History:
        """All batches that have been applied."""
        return History(self._attempts, tuple(self._stretches))

    def applied(self, epoch: int, batch: int) -> None:
        """The results of this batch, counted from 0, are in the weights."""
        nodes = self._nodes()
        now = Stretch(self._attempt, epoch, batch, batch + 1, nodes)
        last = self._stretches[-1] if self._stretches else now
        if (last.attempt, last.epoch, last.end, last.nodes) == (self._attempt, epoch, batch, nodes):
            self._stretches[-1] = Stretch(self._attempt, epoch, last.begin, batch + 1, nodes)
        else:
            self._stretches.append(now)
        if self._table is not None:
            self._table.applied(now)

    def _nodes(self) -> tuple[int, ...]:
        told: tuple[int, ...] | None = None
        for codec in self._bank.codecs:
            if codec.copies is not None:
                nodes = self._known.get(codec.copies) or self._resolve(codec.copies)
                if told is None:
                    told = nodes
                elif NOBODY in nodes:
                    told = tuple(node if there != NOBODY else NOBODY for node, there in zip(told, nodes, strict=True))
        return told or self._only or self._likely()

    def _resolve(self, copies: tuple[Copy, ...]) -> tuple[int, ...]:
        """The node of each block."""
        nodes = [NOBODY] * len(self._holders)
        for (low, high), node in copies:
            nodes[low:high] = [node] * (high - low)
        if len(self._known) >= _MOST_ORDERS:  # of arrival there can be any number
            self._known.clear()
        return self._known.setdefault(copies, tuple(nodes))

    def _likely(self) -> tuple[int, ...]:
        """Where the codecs do not say: the own copy, which is there first, or that of the first worker which is there."""
        here = {self._bank.node_id, *self._bank.peers()}
        own = self._bank.node_id
        return tuple(
            own if own in holders else next((node for node in holders if node in here), holders[0]) for holders in self._holders
        )
