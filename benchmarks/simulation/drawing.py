"""Pictures of the studies, as SVG: lines over logarithmic axes, and a map."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from html import escape
from typing import Final, NamedTuple

#: Colours that differ also for those who see no red or green (Okabe and Ito, 2008).
COLOURS: Final = ("#0072b2", "#e69f00", "#009e73", "#cc79a7", "#d55e00", "#56b4e9")
_STYLE: Final = (
    "text{font:13px sans-serif;fill:#222}.title{font:bold 16px sans-serif}.small{font:11px sans-serif;fill:#444}"
    ".axis{stroke:#444;fill:none}.grid{stroke:#ddd}.curve{fill:none;stroke-width:2.2}.level{fill:none;stroke:#fff;stroke-width:1.6}"
    ".time{font:11px sans-serif;fill:#000;paint-order:stroke;stroke:#fff;stroke-opacity:.6;stroke-width:3px}"
)
Points = Sequence[tuple[float, float]]


class Frame(NamedTuple):
    """Place of a chart, in pixels, and the ranges of its axes."""

    left: float
    top: float
    width: float
    height: float
    x: tuple[float, float]
    y: tuple[float, float]

    def at(self, x: float, y: float) -> tuple[float, float]:
        """Return the place of a point; both axes are logarithmic."""
        across = math.log(x / self.x[0]) / math.log(self.x[1] / self.x[0])
        up = math.log(y / self.y[0]) / math.log(self.y[1] / self.y[0])
        return self.left + across * self.width, self.top + (1 - up) * self.height


def document(width: int, height: int, title: str, parts: Sequence[str], about: str) -> str:
    """Return an SVG file with a white ground."""
    return (
        f'<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 {width} {height}" width="{width}" height="{height}" role="img" '
        f'aria-label="{escape(about, quote=True)}"><style>{_STYLE}</style><rect width="{width}" height="{height}" fill="#fff"/>'
        f"{text(20, 26, title, 'title')}{''.join(parts)}</svg>\n"
    )


def text(x: float, y: float, words: str, kind: str = "", anchor: str = "start", colour: str = "", turn: int = 0) -> str:
    """Return a line of text."""
    more = (f' class="{kind}"' if kind else "") + (f' style="fill:{colour}"' if colour else "")
    turned = f' transform="rotate({turn} {x:.1f} {y:.1f})"' if turn else ""
    return f'<text x="{x:.1f}" y="{y:.1f}" text-anchor="{anchor}"{more}{turned}>{escape(words)}</text>'


def chart(
    title: str, about: str, labels: tuple[str, str], curves: Mapping[str, Points], dots: Mapping[str, Points] | None = None
) -> str:
    """Return a chart of curves, with their names at their ends, and of dots.

    Args:
        title: above it.
        about: for those who do not see it, and below it.
        labels: of the two axes, which are logarithmic.
        curves: points by name.
        dots: measured or simulated points beside a curve of the same name.
    """
    points = [point for curve in (*curves.values(), *(dots or {}).values()) for point in curve]
    x = min(p[0] for p in points), max(p[0] for p in points)
    y = min(p[1] for p in points) / 1.3, max(p[1] for p in points) * 1.3
    frame = Frame(80, 48, 520, 330, x, y)
    parts = [*_axes(frame, labels)]
    ends = sorted(((frame.at(*curve[-1])[1], number, name) for number, (name, curve) in enumerate(curves.items())))
    least = frame.top + frame.height
    for height, number, name in reversed(ends):  # from below, so that none is under the axis
        least = min(least, height)
        parts.append(text(frame.left + frame.width + 8, least + 4, name, colour=COLOURS[number]))
        least -= 16
    for number, (name, curve) in enumerate(curves.items()):
        way = " ".join(f"{px:.1f},{py:.1f}" for px, py in (frame.at(*point) for point in curve))
        parts.append(f'<polyline class="curve" points="{way}" stroke="{COLOURS[number]}"/>')
        for px, py in (frame.at(*point) for point in (dots or {}).get(name, ())):
            parts.append(f'<circle cx="{px:.1f}" cy="{py:.1f}" r="4" fill="{COLOURS[number]}"/>')
    parts.append(text(20, 444, about, "small"))
    return document(780, 460, title, parts, about)


def scatter(title: str, about: str, labels: tuple[str, str], dots: Mapping[str, Points], within: float) -> str:
    """Return a scatter plot of values beside others that should be equal to them.

    Args:
        title: above it.
        about: for those who do not see it, and below it.
        labels: of the two axes, which are logarithmic.
        dots: points by name.
        within: share by which a point may be off: a line is drawn above and below those of equal values.
    """
    values = [value for points in dots.values() for point in points for value in point]
    both = min(values) / 1.3, max(values) * 1.3
    frame = Frame(80, 48, 420, 330, both, both)
    parts = [*_axes(frame, labels)]
    for factor in (1.0, 1 + within, 1 - within):
        ends = (max(both[0], both[0] / factor), min(both[1], both[1] / factor))
        (x1, y1), (x2, y2) = (frame.at(x, x * factor) for x in ends)
        parts.append(
            f'<line class="axis" x1="{x1:.1f}" y1="{y1:.1f}" x2="{x2:.1f}" y2="{y2:.1f}" stroke-width="{factor == 1 or 0.5}"/>'
        )
    for number, (name, points) in enumerate(dots.items()):
        place, colour = frame.top + 20 * number + 10, COLOURS[number]
        parts.append(f'<circle cx="{frame.left + frame.width + 16:.1f}" cy="{place - 4:.1f}" r="4" fill="{colour}"/>')
        parts.append(text(frame.left + frame.width + 28, place, f"{name}, {len(points)}"))
        for px, py in (frame.at(*point) for point in points):
            parts.append(f'<circle cx="{px:.1f}" cy="{py:.1f}" r="4" fill="{colour}" fill-opacity=".75"/>')
    parts.append(text(20, 444, about, "small"))
    return document(680, 460, title, parts, about)


def _axes(frame: Frame, labels: tuple[str, str]) -> list[str]:
    parts = []
    for value in _ticks(*frame.x):
        px = frame.at(value, frame.y[0])[0]
        parts.append(f'<line class="grid" x1="{px:.1f}" x2="{px:.1f}" y1="{frame.top}" y2="{frame.top + frame.height}"/>')
        parts.append(text(px, frame.top + frame.height + 18, f"{value:g}", anchor="middle"))
    for value in _ticks(*frame.y):
        py = frame.at(frame.x[0], value)[1]
        parts.append(f'<line class="grid" x1="{frame.left}" x2="{frame.left + frame.width}" y1="{py:.1f}" y2="{py:.1f}"/>')
        parts.append(text(frame.left - 8, py + 4, f"{value:g}", anchor="end"))
    parts.append(f'<rect class="axis" x="{frame.left}" y="{frame.top}" width="{frame.width}" height="{frame.height}"/>')
    parts.append(text(frame.left + frame.width / 2, frame.top + frame.height + 42, labels[0], anchor="middle"))
    parts.append(text(24, frame.top + frame.height / 2, labels[1], anchor="middle", turn=-90))
    return parts


def _ticks(low: float, high: float) -> list[float]:
    powers = range(math.floor(math.log10(low)), math.ceil(math.log10(high)) + 1)
    steps = range(1, 10) if high / low < 4 else (1, 2, 5) if high / low < 200 else (1,)
    return [step * 10.0**power for power in powers for step in steps if low * 0.999 <= step * 10.0**power <= high * 1.001]


class Field(NamedTuple):
    """Field of a map: the best name there, and its seconds."""

    name: str
    seconds: float


def world(
    title: str,
    notes: Sequence[str],
    labels: tuple[str, str],
    columns: Sequence[float],
    rows: Sequence[float],
    fields: Sequence[Sequence[Field]],
    dots: Sequence[tuple[int, int, str]],
) -> str:
    """Return a map: each field in the colour of its name, lines of equal time, and dots with words.

    Args:
        title: above it.
        notes: lines below it.
        labels: of the two axes.
        columns: values across.
        rows: values up.
        fields: by row and column.
        dots: column and row of a field, and the words beside its dot.
    """
    left, top, wide, high = 80.0, 72.0, 92.0, 66.0
    names = sorted({field.name for line in fields for field in line})
    parts, times = [], []
    for number, name in enumerate(names):
        place = left + 150 * number
        parts.append(f'<rect x="{place}" y="42" width="14" height="14" fill="{COLOURS[number]}"/>')
        parts.append(text(place + 20, 54, f"{name} is first"))
    height = top + high * len(rows)
    for r, line in enumerate(fields):
        py = height - high * (r + 1)
        parts.append(text(left - 10, py + high / 2 + 4, f"{rows[r]:g}", anchor="end"))
        for c, field in enumerate(line):
            colour = COLOURS[names.index(field.name)]
            px = left + wide * c
            parts.append(f'<rect x="{px:.1f}" y="{py:.1f}" width="{wide}" height="{high}" fill="{colour}" fill-opacity=".8"/>')
            times.append(text(px + wide - 6, py + high - 7, _seconds(field.seconds), "time", "end"))
    for value in _levels(fields):
        for a, b in _contour(fields, value):
            ends = [(left + wide * (c + 0.5), height - high * (r + 0.5)) for r, c in (a, b)]
            (x1, y1), (x2, y2) = ends
            parts.append(f'<line class="level" x1="{x1:.1f}" y1="{y1:.1f}" x2="{x2:.1f}" y2="{y2:.1f}"/>')
    # above the lines, which would cross the digits
    parts += times
    for c, r, words in dots:
        px, py = left + wide * (c + 0.5), height - high * (r + 0.5)
        parts.append(f'<circle cx="{px - 28:.1f}" cy="{py:.1f}" r="5" fill="#000"/>')
        parts.append(text(px - 18, py + 4, words, "time"))
    for c, value in enumerate(columns):
        parts.append(text(left + wide * (c + 0.5), height + 18, f"{value:g}", anchor="middle"))
    width = int(left + wide * len(columns) + 30)
    parts.append(text(left + wide * len(columns) / 2, height + 40, labels[0], anchor="middle"))
    parts.append(text(26, (top + height) / 2, labels[1], anchor="middle", turn=-90))
    parts += [text(20, height + 64 + 17 * number, note, "small") for number, note in enumerate(notes)]
    return document(width, int(height + 70 + 17 * len(notes)), title, parts, f"{title}. {' '.join(notes)}")


def _levels(fields: Sequence[Sequence[Field]]) -> list[float]:
    values = [field.seconds for line in fields for field in line]
    return [tick for tick in _ticks(min(values), max(values)) if min(values) < tick < max(values)]


def _contour(fields: Sequence[Sequence[Field]], value: float) -> list[tuple[tuple[float, float], tuple[float, float]]]:
    """Return pieces of the line on which the time is `value`, between the middles of the fields, as (row, column)."""
    pieces = []
    for r in range(len(fields) - 1):
        for c in range(len(fields[0]) - 1):
            corners = [(r, c), (r, c + 1), (r + 1, c + 1), (r + 1, c)]
            cuts = []
            for first, second in zip(corners, corners[1:] + corners[:1], strict=True):
                low, high = (math.log(fields[i][j].seconds / value) for i, j in (first, second))
                if low * high < 0:
                    share = low / (low - high)
                    cuts.append((first[0] + share * (second[0] - first[0]), first[1] + share * (second[1] - first[1])))
            pieces += [(cuts[i], cuts[i + 1]) for i in range(0, len(cuts) - 1, 2)]
    return pieces


def _seconds(value: float) -> str:
    return f"{1e3 * value:.3g} ms" if value < 1 else f"{value:.3g} s" if value < 600 else f"{value / 60:.0f} min"
