"""Figures of the clients of a run for its page: samples by class, the clients of each round, their bytes and seconds."""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping
from math import isfinite
from typing import Any, Final

from parallel_sgd.record.history import JobHistory
from parallel_sgd.record.tables import Column

from .records import RunRecords

__all__ = ["clients_data"]

#: Rows and columns of a picture; of more clients and rounds neighbours are added up, or left out.
_MOST_PLACES: Final = 100
_MOST_ROWS: Final = 200
_CLASS: Final = "Class "


def clients_data(records: RunRecords, history: JobHistory) -> dict[str, Any] | None:
    """Return the pictures and tables of the clients of a run, as plain data; None of a run without clients.

    Args:
        records: those of the run.
        history: that in its tables.
    """
    if not history.clients:
        return None
    held: Mapping[str, Column] = next((each["PO"] for each in records.tables.values() if "PO" in each), {})
    sent = [sum(int(row[name]) for row in history.clients) for name in ("bytes_up", "bytes_down")]
    pictures = {"held": _held(held), "drawn": _drawn(history)}
    return {
        **pictures,
        "totals": _totals(history),
        "rounds": _rounds(history),
        "tests": _tests(history),
        "bytes": sent,
    }


def _held(table: Mapping[str, Column]) -> dict[str, Any]:
    """Return the samples of each client and class: the largest clients first, or every n-th of them."""
    names = [name for name in table if name.startswith(_CLASS)]
    sizes = [int(each) for each in table.get("Samples", ())]
    order = sorted(range(len(sizes)), key=lambda client: (-sizes[client], client))
    shown = order[:: -(-len(order) // _MOST_PLACES) or 1]  # a step of 0 would be an error where there are no clients
    columns = names or ["Samples"] if sizes else []
    cells = [
        [column, row, int(table[name][client])]
        for row, client in enumerate(shown)
        for column, name in enumerate(columns)
        if int(table[name][client])
    ]
    words = [name.removeprefix(_CLASS) for name in columns]
    return {"clients": [int(table["Client"][each]) for each in shown], "columns": words, "cells": cells, "all": len(sizes)}


def _drawn(history: JobHistory) -> dict[str, Any]:
    """Return how often clients were trained in rounds, neighbours of either together where there are many."""
    rounds = int(max(row["round"] for row in history.clients))
    clients = int(max(row["client"] for row in history.clients)) + 1
    wide, high = -(-rounds // _MOST_PLACES), -(-clients // _MOST_PLACES)
    found = Counter((int(row["round"] - 1) // wide, int(row["client"]) // high) for row in history.clients)
    return {
        "rounds": _spans(1, rounds, wide),
        "clients": _spans(0, clients - 1, high),
        "cells": [[column, row, count] for (column, row), count in sorted(found.items())],
    }


def _spans(first: int, last: int, step: int) -> list[str]:
    ends = [(start, min(start + step - 1, last)) for start in range(first, last + 1, step)]
    return [str(start) if start == end else f"{start} to {end}" for start, end in ends]


def _totals(history: JobHistory) -> list[list[Any]]:
    """Return rounds, samples, steps and bytes of each client, those with most rounds first."""
    sums: dict[int, list[int]] = {}
    samples: dict[int, int] = {}
    for row in history.clients:
        client = int(row["client"])
        own = sums.setdefault(client, [0, 0, 0, 0])
        own[:] = [own[0] + 1, *(own[n] + int(row[name]) for n, name in enumerate(("steps", "bytes_up", "bytes_down"), 1))]
        samples[client] = int(row["samples"])
    order = sorted(sums, key=lambda client: (-sums[client][0], client))[:_MOST_ROWS]
    return [[client, samples[client], *sums[client]] for client in order]


def _rounds(history: JobHistory) -> list[list[Any]]:
    """Return the rounds of clients with a clock, or every n-th of them."""
    rows = history.rounds[:: -(-len(history.rounds) // _MOST_ROWS) or 1]
    counts = ("asked", "counted", "lost", "late")
    return [[int(row["round"]), row["begins"], row["ends"], *(int(row[name]) for name in counts)] for row in rows]


def _tests(history: JobHistory) -> dict[str, Any]:
    """Return loss and metrics of each client on held out samples after the last epoch, those with the greatest loss first."""
    last = max((row["epoch"] for row in history.client_tests), default=0)
    rows = sorted((row for row in history.client_tests if row["epoch"] == last), key=lambda row: (-row["Loss"], row["client"]))
    names = [name for row in rows[:1] for name in row if name not in ("epoch", "client", "of", "samples", "node")]
    # JSON has no word for a metric that is not defined for the samples of a client
    told = [
        [int(row["client"]), int(row["samples"]), *(row[name] if isfinite(row[name]) else str(row[name]) for name in names)]
        for row in rows[:_MOST_ROWS]
    ]
    return {"epoch": int(last), "head": ["client", "held out samples", *names], "rows": told}
