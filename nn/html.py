"""Tables for notebooks."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from html import escape

__all__ = ["table"]


def table(title: str, heads: Sequence[str], rows: Iterable[Sequence[object]]) -> str:
    """Return a table as HTML: texts stand as they are, numbers to the right, floats with six digits.

    Args:
        title: caption of the table.
        heads: texts above the columns.
        rows: cells of each row, as many as there are heads.
    """
    head = "".join(f"<th>{escape(name)}</th>" for name in heads)
    body = "".join(f"<tr>{''.join(map(_cell, row))}</tr>" for row in rows)
    return f"<table><caption>{escape(title)}</caption><thead><tr>{head}</tr></thead><tbody>{body}</tbody></table>"


def _cell(value: object) -> str:
    text = f"{value:.6g}" if isinstance(value, float) else f"{value:,}" if isinstance(value, int) else str(value)
    return f'<td style="text-align:{"left" if isinstance(value, str) else "right"}">{escape(text)}</td>'
