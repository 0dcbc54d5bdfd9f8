"""Table of the flows of a network: arrays with a column for each flow, in the order in which they began."""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import Final, Generic, NamedTuple, TypeVar

import numpy as np

from .sharing import Floats, Integers

__all__ = ["FlowTable", "Values"]

Item = TypeVar("Item")
_LEFT, _RATE, _END, _BOUND, _WEIGHT = range(5)
_FEW: Final = 3
_NOWHERE: Final = 0
"""Number of a link with infinite capacity, with which short paths are filled up."""


class Values(NamedTuple):
    """Numbers of a flow.

    Args:
        left: bytes that it has not carried at the time until which the table's flows have elapsed.
        rate: bytes per second; 0 of one that has none yet.
        end: moment at which it ends with that rate.
        bound: most of its rate.
        weight: by which rates are shared.
    """

    left: float
    rate: float
    end: float
    bound: float
    weight: float


class FlowTable(Generic[Item]):
    """Flows that have begun.

    The paths are numbers of links plus 1, those of a flow below each other; 0 fills up the shorter ones.

    Attributes: `items` (of each flow, in the order of the columns), and `next_end` (the first moment at which one ends).
    """

    def __init__(self) -> None:
        self.items: list[Item] = []
        self.next_end = math.inf
        self._values = np.zeros((5, 16))
        self._paths: Integers = np.zeros((2, 16), np.intp)
        self._backs: Integers = np.zeros((0, 16), np.intp)

    def __len__(self) -> int:
        return len(self.items)

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

    def add(self, item: Item, links: Sequence[int], back: Sequence[int], values: Values) -> None:
        """Let a flow begin.

        Args:
            item: what it carries.
            links: numbers of the links of its route.
            back: those of the way back, none unless acknowledgements count.
            values: its numbers.
        """
        column = len(self)
        if column == self._values.shape[1]:
            self._values, self._paths, self._backs = (
                np.concatenate([each, np.zeros_like(each)], axis=1) for each in (self._values, self._paths, self._backs)
            )
        self._paths = _write(self._paths, column, links)
        self._backs = _write(self._backs, column, back)
        self._values[:, column] = values
        self.items.append(item)
        self.next_end = min(self.next_end, values.end)

    def follow(self, column: int, item: Item, size: float, now: float, since: float) -> None:
        """Let another item follow on the connection of a flow that ends, with its rate.

        Args:
            column: of the flow.
            item: what follows.
            size: bytes of it.
            now: when the flow ends.
            since: until when all flows have carried bytes.
        """
        rate = self._values[_RATE, column]
        self._values[_LEFT, column] = size + rate * (now - since)
        self._values[_END, column] = now + size / rate
        self.items[column] = item

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
                del self.items[column]
        else:
            gone = set(columns)
            self.items = [item for column, item in enumerate(self.items) if column not in gone]
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


def _write(paths: Integers, column: int, links: Sequence[int]) -> Integers:
    """Write a path into its column, and return the array, which may have got more rows."""
    if len(links) > len(paths):
        more = np.full((len(links) - len(paths), paths.shape[1]), _NOWHERE, np.intp)
        paths = np.concatenate([paths, more])
    paths[: len(links), column] = links
    paths[: len(links), column] += 1
    paths[len(links) :, column] = _NOWHERE
    return paths
