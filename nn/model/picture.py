"""A diagram as SVG, written by hand: boxes in rows, arrows between.

The boxes are placed after Sugiyama, Tagawa and Toda (1981).
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field
from html import escape
from itertools import pairwise
from unicodedata import east_asian_width

from nn.model.diagram import Box, Diagram, shape_text

CHARACTER = 7.3
"""Pixels that a character takes: 12 pixel type of one width."""
# Pixels: of a box, between rows of boxes, around the picture, and of the title.
HEIGHT = 44
SPACE = 42
MARGIN = 24
TITLE = 34
PORT = 14
"""Pixels between the heads of arrows into one box."""

_RULES = (
    "text{font:12px ui-monospace,Menlo,Consolas,'DejaVu Sans Mono',monospace;text-anchor:middle;fill:#1a1a1a}",
    ".small{fill:#555}", ".title{font-size:15px;font-weight:bold}",
    "rect{stroke:#4a6fa5;fill:#eaf1fb}", ".input{stroke:#777;fill:#f2f2f2}", ".own{stroke:#a5844a;fill:#fbf4e6}",
    ".shared{stroke-dasharray:5 3}", "path{fill:none;stroke:#555;stroke-width:1.3}",
)  # fmt: skip
#: For this picture only: within a page, such as a notebook, a style holds everywhere.
_STYLE = "".join(f".psgd-model {rule}" for rule in _RULES)


def draw(title: str, diagram: Diagram) -> str:
    """Return the SVG text of a diagram. A dashed box is a layer used several times, with the same variables.

    Args:
        title: title of the picture.
        diagram: the diagram.
    """
    texts = [_texts(box) for box in diagram.boxes]
    # 12 pixels on each side of the text.
    widths = [max(_width(line) for line in lines) + 24 for lines in texts]
    placement = Placement(widths, [box.sources for box in diagram.boxes])
    # The title is of 15 pixels, other text of 12.
    width = max(placement.width, _width(title) * 15 / 12) + 2 * MARGIN
    height = TITLE + len(placement.rows) * (HEIGHT + SPACE) - SPACE + 2 * MARGIN
    shift = (width - placement.width) / 2
    parts = [
        f'<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 {width:.0f} {height:.0f}" '
        f'width="{width:.0f}" height="{height:.0f}" class="psgd-model">',
        f"<title>{_clean(title)}</title><style>{_STYLE}</style>",
        '<defs><marker id="head" viewBox="0 0 8 8" refX="8" refY="4" markerWidth="8" markerHeight="8" orient="auto">'
        '<polygon points="0,1 8,4 0,7" fill="#555"/></marker></defs>',
        # White under the picture, whichever colour the page has.
        f'<rect x="0" y="0" width="{width:.0f}" height="{height:.0f}" style="fill:#fff;stroke:none"/>',
        f'<text class="title" x="{width / 2:.1f}" y="{MARGIN + 8}">{_clean(title)}</text>',
        *(_arrow(arrow, placement, shift) for arrow in placement.arrows),
        *(
            line
            for box, spot, lines in zip(diagram.boxes, placement.spots, texts, strict=True)
            for line in _box(box, spot, lines, shift)
        ),
        "</svg>\n",
    ]
    return "\n".join(parts)


def _texts(box: Box) -> tuple[str, str]:
    head = box.label + (f" use {box.use} of {box.uses}" if box.uses > 1 else "")
    notes = [f"{box.parameters:,} parameters"] if box.parameters and box.use == 1 else []
    notes += [f"with {variable.name} {shape_text(variable.shape)}" for variable in box.variables]
    return head, "  ".join([shape_text(box.shape), *notes])


def _box(box: Box, spot: Spot, lines: tuple[str, str], shift: float) -> Iterator[str]:
    kind = "layer" if box.layer is not None else "own" if box.kind else "input"
    x, y = spot.x + shift, _top(spot.row)
    yield (
        f'<rect class="{kind}{" shared" if box.uses > 1 else ""}" x="{x - spot.width / 2:.1f}" y="{y}" '
        f'width="{spot.width:.1f}" height="{HEIGHT}" rx="5"/>'
    )
    yield f'<text x="{x:.1f}" y="{y + 18}">{_clean(lines[0])}</text>'
    yield f'<text class="small" x="{x:.1f}" y="{y + 34}">{_clean(lines[1])}</text>'


def _arrow(arrow: Arrow, placement: Placement, shift: float) -> str:
    """A curve through the gaps between rows, straight down where it passes through a row."""
    first, *between, last = arrow.spots
    x = first.x + shift
    path = f"M{x:.1f},{_top(first.row) + HEIGHT}"
    for spot in [*between, last]:
        target = spot.x + shift + (_port(arrow, placement) if spot is last else 0)
        y, start = _top(spot.row), _top(spot.row) - SPACE
        path += f" C{x:.1f},{start + SPACE / 2:.1f} {target:.1f},{y - SPACE / 2:.1f} {target:.1f},{y}"
        if spot is not last:
            path += f" L{target:.1f},{y + HEIGHT}"
        x = target
    return f'<path d="{path}" marker-end="url(#head)"/>'


def _port(arrow: Arrow, placement: Placement) -> float:
    """Return how far from the middle of its box an arrow ends: side by side with the others, in the order they come from."""
    ends = [other for other in placement.arrows if other.target == arrow.target]
    ends.sort(key=lambda other: (other.spots[-2].x, other.source))
    # Closer together where the box is too narrow for all.
    width = min(PORT, placement.spots[arrow.target].width / (len(ends) + 1))
    return (ends.index(arrow) - (len(ends) - 1) / 2) * width


def _top(row: int) -> int:
    return MARGIN + TITLE + row * (HEIGHT + SPACE)


def _width(text: str) -> float:
    # Wide characters take the room of two.
    return CHARACTER * sum(2 if east_asian_width(character) in "WF" else 1 for character in text)


def _clean(text: str) -> str:
    """Return text that XML can hold: escaped, and without the characters that it cannot."""
    # Control characters are no XML, not even escaped.
    return escape("".join(character if character.isprintable() else "�" for character in text))


# Where the boxes of a diagram go: in rows from top to bottom, after Sugiyama, Tagawa and Toda (1981).
#
# Every box stands one row below the lowest of those that feed it. An arrow across several rows gets a place of its own in each
# row between, so that it never runs behind a box. Rows are ordered by the mean place of neighbours (barycentres), which
# leaves few crossings, and then pulled towards their neighbours without overlap.

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
    """Line from one box to another, by way of the spots between."""

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
        # The picture begins at 0, wherever the rows have been pulled.
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
                # Anew for each row, since the row before has just been sorted.
                places = {spot: place for other in self.rows for place, spot in enumerate(other)}
                means = {
                    spot: _mean([places[each] for each in (spot.above if down else spot.below)], places[spot]) for spot in row
                }
                row.sort(key=means.__getitem__)
            crossings = self._crossings()
            # A sweep can make it worse, so the best order counts.
            if crossings < fewest:
                fewest, best = crossings, [list(row) for row in self.rows]
        self.rows = best

    def _crossings(self) -> int:
        total = 0
        for upper, lower in pairwise(self.rows):
            places = {spot: place for place, spot in enumerate(lower)}
            ends = [place for spot in upper for place in sorted(places[each] for each in spot.below)]
            # Two arrows cross where the one that begins further left ends further right.
            total += sum(later < earlier for number, earlier in enumerate(ends) for later in ends[number + 1 :])
        return total

    def _place(self) -> None:
        for row in self.rows:
            # Side by side about one point; the sweeps need a place to begin from.
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
