"""List the jobs that workers run or remember."""

from __future__ import annotations

import argparse
import math
import sys
import time
from collections.abc import Mapping, Sequence
from typing import Any

from rpc.logs import clean
from rpc.submit.diagnostics import list_jobs

from .codes import EXIT_OK
from .nodes import reach_all
from .output import print_json

_HEAD = ("JOB", "TITLE", "NODE", "ADDRESS", "STATE", "SINCE", "ATTEMPT", "DRIVER")


def jobs(options: argparse.Namespace) -> int:
    """Print a table, newest last, or JSON; returns the exit code.

    Raises: NetworkError when no worker can be reached.
    """
    with reach_all(options) as com:
        known = list_jobs(com)
        addresses = {node: str(com.addresses[node]) for node in known}
    entries = [{**entry, "address": addresses[node]} for node, listed in known.items() for entry in listed]
    unique = {(entry["job"], entry["node"], entry["address"]): entry for entry in entries}  # one agent may be several nodes
    begun: dict[str, float] = {}
    for entry in unique.values():
        begun[entry["job"]] = min(entry["started"], begun.get(entry["job"], math.inf))
    entries = sorted(unique.values(), key=lambda e: (begun[e["job"]], e["job"], e["node"] < 0, e["node"]))
    if options.json:
        print_json({"jobs": entries})
    elif entries:
        _print_table([_HEAD, *(_row(entry) for entry in entries)])
    else:
        sys.stdout.write("The workers know no job.\n")
    return EXIT_OK


def _row(entry: Mapping[str, Any]) -> tuple[str, ...]:
    running = entry["state"] in ("starting", "running") or (entry["driver"] and not entry["outcome"])
    return (
        clean(str(entry["job"])),
        clean(str(entry["title"])),
        str(entry["node"]),
        entry["address"],
        str(entry["state"]),
        time.strftime("%Y-%m-%d %H:%M:%S", time.localtime(entry["started"])),
        str(int(entry["attempt"]) + 1),
        (clean(str(entry["driver"])) or "-") if running else "-",
    )


def _print_table(rows: Sequence[Sequence[str]]) -> None:
    widths = [max(map(len, column)) for column in zip(*rows, strict=True)]
    for row in rows:
        cells = (cell.ljust(width) for cell, width in zip(row, widths, strict=True))
        sys.stdout.write("  ".join(cells).rstrip() + "\n")
