"""Where the boxes of a diagram go: in rows from top to bottom, after Sugiyama, Tagawa and Toda (1981).

Every box stands one row below the lowest of those that feed it. An arrow across several rows gets a place of its own in each
row between, so that it never runs behind a box. Rows are ordered by the mean place of neighbours (barycentres), which
leaves few crossings, and then pulled towards their neighbours without overlap.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field
from itertools import pairwise

SWEEPS = 6
GAP = 28.0
"""Pixels between neighbours in a row."""
LANE = 10.0
"""Width of an arrow that passes through a row."""


@dataclass(eq=False)
class Spot:
    """A box, or an arrow's place in a row that it passes through (`box` is None)."""

    row: int
    width: float
    box: int | None = None
    x: float = 0.0
    above: list[Spot] = field(default_factory=list)
    below: list[Spot] = field(default_factory=list)


@dataclass
class Arrow:
    """From one box to another, by way of the spots between."""

    source: int
    target: int
    spots: list[Spot]


class Placement:
    """Rows of spots with their x, the middle of each, beginning at 0; `width` is that of the whole."""

    def __init__(self, widths: Sequence[float], sources: Sequence[Sequence[int]]) -> None:
        rows = _rows(sources)
        self.spots = [Spot(row, width, box) for box, (row, width) in enumerate(zip(rows, widths, strict=True))]
        self.rows: list[list[Spot]] = [[] for _ in range(max(rows, default=-1) + 1)]
        for spot in self.spots:
            self.rows[spot.row].append(spot)
        self.arrows = [self._connect(source, target) for target, found in enumerate(sources) for source in found]
        self._order()
        self._place()
        left = min(spot.x - spot.width / 2 for row in self.rows for spot in row)
        for row in self.rows:
            for spot in row:
                spot.x -= left
        self.width = max(spot.x + spot.width / 2 for row in self.rows for spot in row)

    def _connect(self, source: int, target: int) -> Arrow:
        first, last = self.spots[source], self.spots[target]
        between = [Spot(row, LANE) for row in range(first.row + 1, last.row)]
        for spot in between:
            self.rows[spot.row].append(spot)
        chain = [first, *between, last]
        for upper, lower in pairwise(chain):
            upper.below.append(lower)
            lower.above.append(upper)
        return Arrow(source, target, chain)

    def _order(self) -> None:
        """Sort every row by the mean place of its neighbours, downwards and upwards, and keep the best order found."""
        best = [list(row) for row in self.rows]
        fewest = self._crossings()
        for sweep in range(SWEEPS):
            down = sweep % 2 == 0
            for row in self.rows if down else reversed(self.rows):
                places = {spot: place for other in self.rows for place, spot in enumerate(other)}
                means = {
                    spot: _mean([places[each] for each in (spot.above if down else spot.below)], places[spot]) for spot in row
                }
                row.sort(key=means.__getitem__)
            crossings = self._crossings()
            if crossings < fewest:
                fewest, best = crossings, [list(row) for row in self.rows]
        self.rows = best

    def _crossings(self) -> int:
        total = 0
        for upper, lower in pairwise(self.rows):
            places = {spot: place for place, spot in enumerate(lower)}
            ends = [place for spot in upper for place in sorted(places[each] for each in spot.below)]
            total += sum(later < earlier for number, earlier in enumerate(ends) for later in ends[number + 1 :])
        return total

    def _place(self) -> None:
        for row in self.rows:
            _settle(row, [0.0] * len(row))
        for sweep in range(2 * SWEEPS):
            down = sweep % 2 == 0
            for row in self.rows if down else reversed(self.rows):
                _settle(row, [_mean([each.x for each in (spot.above if down else spot.below)], spot.x) for spot in row])


def _rows(sources: Sequence[Sequence[int]]) -> list[int]:
    """Return the row of every box; a box comes after those that feed it."""
    rows: list[int] = []
    for found in sources:
        rows.append(1 + max((rows[source] for source in found), default=-1))
    return rows


def _settle(row: Sequence[Spot], wanted: Sequence[float]) -> None:
    """Move the spots of a row as near to where they want to be as order and gaps allow: halfway between the two ways to
    push neighbours apart, to the right and to the left, both of which keep the gaps."""
    gaps = [(first.width + second.width) / 2 + GAP for first, second in pairwise(row)]
    right, left = list(wanted), list(wanted)
    for place, gap in enumerate(gaps, start=1):
        right[place] = max(right[place], right[place - 1] + gap)
    for place in range(len(gaps) - 1, -1, -1):
        left[place] = min(left[place], left[place + 1] - gaps[place])
    for spot, low, high in zip(row, left, right, strict=True):
        spot.x = (low + high) / 2


def _mean(values: Sequence[float], default: float) -> float:
    return sum(values) / len(values) if values else default
