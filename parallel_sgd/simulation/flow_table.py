"""Table of the flows of a network: arrays with a column for each flow, in the order in which they began."""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import Final

import numpy as np

from .routes import Route
from .sharing import Floats, Integers

_LEFT, _RATE, _END, _BOUND, _WEIGHT = range(5)
_FEW: Final = 3  # columns that are taken out one by one
_NOWHERE: Final = 0  # number of a link with infinite capacity, with which short paths are filled up


class Flow:
    """Message on its way.

    Args:
        sequence: its number in the order of sending, in which those that arrive at one instant are told.
        source: id of the sending node.
        target: id of the receiving node.
        size: bytes on the wire.
        item: object that arrives.
        route: its route.

    Attributes: `left` (bytes to carry when it enters the table), `rate` (bytes per second then, 0 when it has none yet), `end`
    (when it ends with that rate), and `is_alone` (whether no link of it has another flow, so that it is in no table).
    """

    __slots__ = ("end", "is_alone", "item", "left", "rate", "route", "sequence", "size", "source", "target")

    def __init__(self, sequence: int, source: int, target: int, size: float, item: object, route: Route) -> None:
        self.sequence, self.source, self.target, self.size, self.item, self.route = sequence, source, target, size, item, route
        self.left, self.rate, self.end, self.is_alone = size, 0.0, math.inf, False

    @property
    def pair(self) -> tuple[int, int]:
        """Ids of its nodes."""
        return self.source, self.target


class FlowTable:
    """Flows that have begun.

    The paths are numbers of links plus 1, those of a flow below each other; 0 fills up the shorter ones.

    Attributes: `flows` (in the order of the columns), and `next_end` (the first moment at which one ends).
    """

    def __init__(self) -> None:
        self.flows: list[Flow] = []
        self.next_end = math.inf
        self._values = np.zeros((5, 16))
        # a star has two links for each message; `_written` adds rows for longer ways
        self._paths: Integers = np.zeros((2, 16), np.intp)
        self._backs: Integers = np.zeros((0, 16), np.intp)  # without rows, unless acknowledgements count

    def __len__(self) -> int:
        return len(self.flows)

    @property
    def rates(self) -> Floats:
        """Bytes per second of each flow, 0 of one that has none yet."""
        return self._row(_RATE)

    @property
    def bounds(self) -> Floats:
        """Most of each rate."""
        return self._row(_BOUND)

    @property
    def weights(self) -> Floats:
        """Weights by which rates are shared."""
        return self._row(_WEIGHT)

    @property
    def paths(self) -> Integers:
        """Links of each flow (hops, flows)."""
        return self._paths[:, : len(self)]

    @property
    def backs(self) -> Integers:
        """Links of the way back of each flow (hops, flows)."""
        return self._backs[:, : len(self)]

    def _row(self, row: int) -> Floats:
        return self._values[row, : len(self)]

    def add(
        self, flows: Sequence[Flow], backs: Sequence[Sequence[int]], bounds: Sequence[float], weights: Sequence[float]
    ) -> None:
        """Let flows begin, or go on here.

        Args:
            flows: with their rates and the bytes that are left.
            backs: numbers of the links of each one's way back; empty unless acknowledgements count.
            bounds: most of each rate.
            weights: by which rates are shared.
        """
        start, end = len(self), len(self) + len(flows)
        # doubled, so that flows that begin one by one are seldom copied
        while end > self._values.shape[1]:
            self._values, self._paths, self._backs = (
                np.concatenate([each, np.zeros_like(each)], axis=1) for each in (self._values, self._paths, self._backs)
            )
        self._paths = _written(self._paths, slice(start, end), [flow.route.links for flow in flows])
        if backs:
            self._backs = _written(self._backs, slice(start, end), backs)
        self._values[_LEFT, start:end] = [flow.left for flow in flows]
        self._values[_RATE, start:end] = [flow.rate for flow in flows]
        self._values[_END, start:end] = math.inf
        self._values[_BOUND, start:end] = bounds
        self._values[_WEIGHT, start:end] = weights
        self.flows += flows

    def follow(self, column: int, flow: Flow, now: float, since: float) -> None:
        """Let another message follow on the connection of a flow that ends, with its rate.

        Args:
            column: of the flow that ends.
            flow: the next message.
            now: when the flow ends.
            since: until when all flows have carried bytes.
        """
        rate = self._values[_RATE, column]
        # as if it had begun with the others at `since`: until `now` they carry bytes all the same
        self._values[_LEFT, column] = flow.size + rate * (now - since)
        self._values[_END, column] = now + flow.size / rate
        self.flows[column] = flow

    def ending(self, moment: float) -> list[int]:
        """List the columns of the flows that end until `moment`."""
        return [int(column) for column in np.flatnonzero(self._row(_END) <= moment)]

    def remove(self, columns: Sequence[int]) -> None:
        """Take flows out.

        Args:
            columns: of the flows, in ascending order.
        """
        count, few = len(self), len(columns) <= _FEW
        if few:
            for column in reversed(columns):
                del self.flows[column]
        else:
            gone = set(columns)
            self.flows = [item for column, item in enumerate(self.flows) if column not in gone]
        rest = None if few else np.delete(np.arange(count), columns)
        for each in (self._values, self._paths, self._backs):
            if rest is not None:
                each[:, : len(rest)] = each[:, rest]
                continue
            for column in reversed(columns):  # moves less than a selection copies
                each[:, column : count - 1] = each[:, column + 1 : count]

    def elapse(self, seconds: float) -> None:
        """Let the flows carry bytes for `seconds`."""
        left = self._row(_LEFT)
        left -= self._row(_RATE) * seconds
        # a rounding may leave less than nothing of a flow that ends now
        np.maximum(left, 0.0, out=left)

    def set_rates(self, rates: Floats, now: float) -> None:
        """Give the flows their rates from `now` on; one with a rate of 0 does not end."""
        self._row(_RATE)[:] = rates
        ends = self._row(_END)
        ends.fill(math.inf)
        np.divide(self._row(_LEFT), rates, out=ends, where=rates > 0.0)
        ends += now
        self.find_next_end()

    def find_next_end(self) -> None:
        """Set `next_end`."""
        self.next_end = float(self._row(_END).min(initial=math.inf))


def _written(paths: Integers, columns: slice, given: Sequence[Sequence[int]]) -> Integers:
    """Write paths into columns, and return the array, which may have got more rows."""
    hops = max(map(len, given))
    if hops > len(paths):
        paths = np.concatenate([paths, np.full((hops - len(paths), paths.shape[1]), _NOWHERE, np.intp)])
    for row, links in enumerate(paths):
        links[columns] = [path[row] + 1 if row < len(path) else _NOWHERE for path in given] if row < hops else _NOWHERE
    return paths
