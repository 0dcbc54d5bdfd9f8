"""Jobs that somebody has submitted before: list, attach to, stop, fetch the files of."""

from __future__ import annotations

import argparse
import math
import sys
import time
from collections.abc import Mapping, Sequence
from typing import Any

from network.controller import Controller
from network.errors import NetworkError
from rpc import Reclaimer
from rpc.logs import clean, clean_text
from rpc.submit import list_jobs

from .nodes import reach_all
from .output import EXIT_FAILED, EXIT_NODE_LOST, EXIT_OK, paths_of, print_json, program_name, tell

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


def attach(options: argparse.Namespace) -> int:
    """Show the progress until the job is over, through all its attempts and whoever drives it; returns the exit code.

    Raises: NetworkError when no worker can be reached or knows the job.
    """
    with reach_all(options) as com:
        job = options.attach or _newest(com)
        reclaimer = Reclaimer(com)
        states = reclaimer.follow(job)
        files = reclaimer.require_client_log(job)
    outcome = reclaimer.outcome
    detail = {"detail": reclaimer.detail} if reclaimer.detail else {}
    content = {"job": job, "outcome": outcome, "files": paths_of(files), **detail}
    tell(options, content, f"The job {job} has ended: {outcome}.")
    if detail and not options.json:
        sys.stderr.write(f"{program_name()}: {clean_text(reclaimer.detail)}\n")
    if outcome != "done":
        return EXIT_FAILED
    return EXIT_OK if all(state in ("done", "unknown") for state, _ in states.values()) else EXIT_NODE_LOST


def _newest(com: Controller) -> str:
    entries = [entry for listed in list_jobs(com).values() for entry in listed]
    if not entries:
        raise NetworkError("None of the workers knows any job.")
    return str(max(entries, key=lambda entry: entry["started"])["job"])


def stop(options: argparse.Namespace) -> int:
    """Tell all workers and the driver to end the job, and wait for that; returns the exit code. Files stay with the workers.

    Raises: NetworkError when no worker can be reached or knows the job.
    """
    with reach_all(options) as com:
        reclaimer = Reclaimer(com)
        reclaimer.stop(options.stop, "It was stopped by psgd-submit --stop.")
        states = reclaimer.follow(options.stop)
    content = {"job": options.stop, "outcome": reclaimer.outcome, "nodes": {str(n): s for n, (s, _) in states.items()}}
    tell(options, content, f"The job {options.stop} has ended: {reclaimer.outcome}.")
    return EXIT_OK


def retrieve(options: argparse.Namespace) -> int:
    """From all workers of the node file that can be reached, unless fewer are asked for; returns the exit code.

    Raises: NetworkError when no node has files of the job.
    """
    with reach_all(options) as com:
        files = Reclaimer(com).require_client_log(options.retrieve or None)
    if options.json:
        print_json({"files": paths_of(files)})
    return EXIT_OK
