"""Section on the clients of a run on its page, made of their figures."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any

from . import tables

__all__ = ["clients_section"]


def clients_section(data: Mapping[str, Any] | None, chart: Callable[[str, str, str, str], str]) -> str:
    """Return the section of the clients, "" for a run without any.

    Args:
        data: that of the clients.
        chart: makes a chart of its name, caption, text and rows.
    """
    if data is None:
        return ""
    held = data["held"]
    names = [f"client {each}" for each in held["clients"]]
    some = f" {len(names)} of {held['all']} clients are shown." if len(names) < held["all"] else ""
    pictures = ""
    if held["cells"]:
        pictures = chart(
            "held",
            "Clients and their samples",
            f"Samples of each client (row), the largest first, by class (column).{some}",
            tables.cells_table(names, held["columns"], held["cells"], ["client", "class", "samples"]),
        )
    pictures += chart(
        "drawn",
        "Clients of each round",
        "How often a client (row) was trained, and its change counted, in a round (column).",
        tables.table(
            ["client", "samples", "rounds", "steps", "bytes up", "bytes down"], data["totals"], "Clients, by their rounds"
        ),
    )
    rounds = ""
    if data["rounds"]:
        head = ["round", "begins", "ends", "asked", "counted", "lost", "late"]
        rows = [
            [number, tables.Seconds(begins), tables.Seconds(ends), *counts] for number, begins, ends, *counts in data["rounds"]
        ]
        rounds = tables.folded("Rounds on the clients' clock", tables.table(head, rows, "Rounds on the clients' clock"))
    if (tests := data["tests"])["rows"]:
        caption = f"Clients on samples that they hold out, after epoch {tests['epoch']}, by loss"
        rounds += tables.folded(caption, tables.table(tests["head"], tests["rows"], caption))
    up, down = data["bytes"]
    note = (
        f'<p class="note">Clients on machines of their own would have sent {up:,} bytes and got {down:,}. '
        "Those that workers have sent stand under Bytes.</p>"
    )
    return f'{note}<div class="pair">{pictures}</div>{rounds}'
