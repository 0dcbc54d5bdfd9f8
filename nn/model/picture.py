"""A diagram as SVG, written by hand: boxes in rows, arrows between."""

from __future__ import annotations

from collections.abc import Iterator
from html import escape
from unicodedata import east_asian_width

from nn.arrays import Shape
from nn.model.diagram import Box, Diagram
from nn.model.placement import Arrow, Placement, Spot

CHARACTER = 7.3
"""Pixels that a character takes: 12 pixel type of one width."""
HEIGHT = 44
SPACE = 42
MARGIN = 24
TITLE = 34
PORT = 14
"""Pixels between the heads of arrows into one box."""

_STYLE = (
    "text{font:12px ui-monospace,Menlo,Consolas,'DejaVu Sans Mono',monospace;text-anchor:middle;fill:#1a1a1a}"
    ".small{fill:#555}.title{font-size:15px;font-weight:bold}"
    "rect{stroke:#4a6fa5;fill:#eaf1fb}.input{stroke:#777;fill:#f2f2f2}.own{stroke:#a5844a;fill:#fbf4e6}"
    ".shared{stroke-dasharray:5 3}path{fill:none;stroke:#555;stroke-width:1.3}"
)


def draw(title: str, diagram: Diagram) -> str:
    """Return the SVG text of a diagram. A dashed box is a layer that is used several times, with the same variables."""
    texts = [_texts(box) for box in diagram.boxes]
    widths = [max(_width(line) for line in lines) + 24 for lines in texts]
    placement = Placement(widths, [box.sources for box in diagram.boxes])
    width = max(placement.width, _width(title) * 15 / 12) + 2 * MARGIN
    height = TITLE + len(placement.rows) * (HEIGHT + SPACE) - SPACE + 2 * MARGIN
    shift = (width - placement.width) / 2
    parts = [
        f'<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 {width:.0f} {height:.0f}" '
        f'width="{width:.0f}" height="{height:.0f}">',
        f"<title>{_clean(title)}</title><style>{_STYLE}</style>",
        '<defs><marker id="head" viewBox="0 0 8 8" refX="8" refY="4" markerWidth="8" markerHeight="8" orient="auto">'
        '<polygon points="0,1 8,4 0,7" fill="#555"/></marker></defs>',
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
    notes += [f"with {variable.name} {_shape(variable.shape)}" for variable in box.variables]
    return head, "  ".join([_shape(box.shape), *notes])


def _shape(shape: Shape) -> str:
    return f"({', '.join(str(axis) for axis in shape)})"


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
    width = min(PORT, placement.spots[arrow.target].width / (len(ends) + 1))
    return (ends.index(arrow) - (len(ends) - 1) / 2) * width


def _top(row: int) -> int:
    return MARGIN + TITLE + row * (HEIGHT + SPACE)


def _width(text: str) -> float:
    return CHARACTER * sum(2 if east_asian_width(character) in "WF" else 1 for character in text)


def _clean(text: str) -> str:
    """Return text that XML can hold: escaped, and without the characters that it cannot."""
    return escape("".join(character if character.isprintable() else "�" for character in text))
