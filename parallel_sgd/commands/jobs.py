"""Commands for jobs that were submitted before: list, attach to, stop, fetch the files of."""

from __future__ import annotations

import argparse
import math
import sys
import time
from collections.abc import Mapping, Sequence
from functools import partial
from pathlib import Path
from typing import Any

from network.controller import Controller
from rpc import Reclaimer, UnknownJob
from rpc.submit import list_jobs
from rpc.submit.run_folder import shown
from rpc.support.console import columns_of, in_columns, show
from rpc.support.logs import clean, clean_text, is_short

from ..record.files import PAGE
from .nodes import reach_all
from .output import EXIT_FAILED, EXIT_NODE_LOST, EXIT_OK, folder_of, paths_of, program_name, tell

_OVER = ("done", "failed", "stopped")  # how a job ends; a node that it went on without has "left"
_HEAD = ("JOB", "TITLE", "NODE", "ADDRESS", "STATE", "SINCE", "ATTEMPT", "DRIVEN BY")
_TAKEN_BACK = "aborted"  # state of a node that had taken a job which others refused
_LOST = "not reached"  # state of a node of which no agent tells that answers


def jobs(options: argparse.Namespace) -> int:
    """Print a table, newest last, or JSON; return the exit code.

    Raises: NetworkError when no worker can be reached.
    """
    with reach_all(options) as com:
        entries = _entries(com)
    return tell(options, {"jobs": entries}, _table(entries), done=_LISTED, seconds=None)


def watch(options: argparse.Namespace) -> int:
    """Print the table of `jobs` every `options.watch` seconds until Ctrl-C: on a terminal in place of the one before, else one
    after the other, as JSON one line each.

    Raises: NetworkError when no worker can be reached.
    """
    while True:
        with reach_all(options) as com:
            entries = _entries(com)
        words = f"{_table(entries)}\n"
        # cleared on a terminal alone: in a file tables follow each other
        if sys.stdout.isatty():
            words = f"{_CLEAR}{words}\n{time.strftime('%H:%M:%S')}, again every {options.watch:g} s"
        if code := tell(options, {"jobs": entries}, words, done=_LISTED, seconds=None):
            return code
        time.sleep(options.watch)


_LISTED = "The jobs are listed"
_CLEAR = "\x1b[H\x1b[2J"


def _entries(com: Controller) -> list[dict[str, Any]]:
    return entries_of(list_jobs(com), com.addresses)


def entries_of(told: Mapping[int, Sequence[Mapping[str, Any]]], addresses: Mapping[int, object]) -> list[dict[str, Any]]:
    """List the entries of the agents on all jobs, those of the newest last, in the order of its nodes.

    A node of the newest attempt of a job that no agent tells of has an entry, too: its agent has died, or cannot be reached.
    It has none where an agent tells of it in an attempt before, and has not heard yet that the job goes on, nor in a job that
    was taken back before its start, as where another node is busy.

    Args:
        told: the entries of each agent, by the node that it is called by.
        addresses: the addresses of the agents.
    """
    entries = [{**entry, "address": str(addresses[node])} for node, known in told.items() for entry in known]
    unique = {(entry["job"], entry["node"], entry["address"]): entry for entry in entries}  # one agent may be several nodes
    begun: dict[str, float] = {}
    for entry in unique.values():
        begun[entry["job"]] = min(entry["started"], begun.get(entry["job"], math.inf))
    # nodes of the newest attempt that no agent tells of: a user must see that they are missing
    for job in begun:
        own = [entry for entry in unique.values() if entry["job"] == job]
        newest = max(own, key=lambda entry: entry["attempt"])
        # an agent that has refused the job keeps nothing of it
        if newest["state"] == _TAKEN_BACK:
            continue
        # an attempt before may have given their numbers to others
        known = {entry["node"] for entry in own if entry["attempt"] == newest["attempt"]}
        heard = {entry["address"] for entry in own if entry["attempt"] == newest["attempt"]}
        # an agent without which the job went on has been told so, and has an outcome
        behind = {entry["node"] for entry in own if entry["address"] not in heard and not entry["outcome"]}
        for node in set(newest.get("nodes", ())) - known - behind:
            lost = {"node": node, "address": "", "state": _LOST, "started": begun[job], "driver": ""}
            unique[job, node, ""] = {**newest, **lost}
    return sorted(unique.values(), key=lambda e: (begun[e["job"]], e["job"], e["node"] < 0, e["node"]))


def _row(entry: Mapping[str, Any]) -> tuple[str, ...]:
    # a node may be done while its driver still collects: it counts as running there
    running = entry["state"] in ("starting", "running") or (entry["driver"] and not entry["outcome"])
    return (
        clean(str(entry["job"])),
        clean(str(entry["title"])),
        str(entry["node"]),
        entry["address"] or "-",
        str(entry["state"]),
        time.strftime("%Y-%m-%d %H:%M:%S", time.localtime(entry["started"])),
        str(int(entry["attempt"]) + 1),
        (clean(str(entry["driver"])) or "-") if running else "-",
    )


def _table(entries: Sequence[Mapping[str, Any]]) -> str:
    if not entries:
        return "The workers know no job."
    return in_columns([_HEAD, *map(_row, entries)], columns_of(sys.stdout))


def attach(options: argparse.Namespace) -> int:
    """Show the progress until the job is over, through all its attempts and by whichever driver; return the exit code.

    Raises: NetworkError when no worker can be reached, UnknownJob when none knows the job.
    """
    with reach_all(options, partial(_are_all, options.attach)) as com:
        job = options.attach or _newest(com)
        reclaimer = Reclaimer(com)
        states = reclaimer.follow(job)
        files = reclaimer.require_client_log(job)
    outcome = reclaimer.outcome
    # what was followed is newer than what the agents had noted
    _complete(files, {**reclaimer.states, **{node: state for node, (state, _) in states.items()}}, outcome, reclaimer.detail)
    detail = {"detail": reclaimer.detail} if reclaimer.detail else {}
    content = {"job": job, "outcome": outcome, "files": paths_of(files), **detail}
    all_done = all(state in ("done", "unknown") for state, _ in states.values())
    # "unknown" is of agents that had no part in the job
    code = EXIT_FAILED if outcome != "done" else EXIT_OK if all_done else EXIT_NODE_LOST
    ended = f"The job {job} has ended: {outcome}"
    code = tell(options, content, f"{ended}.", code, done=ended, place=folder_of(files))
    if detail and not options.json:
        show(sys.stderr, f"{program_name()}: {clean_text(reclaimer.detail)}\n")
    return code


def _are_all(job: str | None, com: Controller) -> bool:
    """Tell if all nodes of the newest attempt of a job are at agents that were reached; no job stands for the newest one."""
    entries = _entries(com)
    job = job or (_newest(com) if entries else "")
    states = [entry["state"] for entry in entries if entry["job"] == job]
    return bool(states) and _LOST not in states


def _newest(com: Controller) -> str:
    """Return the id of the newest job; one that was taken back before its start only where there is no other.

    Raises: UnknownJob.
    """
    entries = [entry for listed in list_jobs(com).values() for entry in listed]
    if not entries:
        raise UnknownJob("None of the workers knows any job.")
    return str(max(entries, key=lambda entry: (entry["state"] != _TAKEN_BACK, entry["started"]))["job"])


def stop(options: argparse.Namespace) -> int:
    """Tell all workers and the driver to end the job, and wait for that; return the exit code. Files stay with the workers.

    Raises: NetworkError when no worker can be reached, UnknownJob when none knows the job.
    """
    with reach_all(options, partial(_are_all, options.stop)) as com:
        reclaimer = Reclaimer(com)
        reclaimer.stop(options.stop, "It was stopped by 'psgd stop'.")
        states = reclaimer.follow(options.stop)
    content = {"job": options.stop, "outcome": reclaimer.outcome, "nodes": {str(n): s for n, (s, _) in states.items()}}
    ended = f"The job {options.stop} has ended: {reclaimer.outcome}"
    return tell(options, content, f"{ended}.", done=ended)


def retrieve(options: argparse.Namespace) -> int:
    """Fetch the files from all workers of the node file that can be reached, unless fewer are asked for; return the exit code.

    Raises: NetworkError when no worker can be reached, UnknownJob when none has files of the job.
    """
    with reach_all(options, partial(_are_all, options.retrieve)) as com:
        reclaimer = Reclaimer(com)
        # only final states: others may have changed meanwhile
        ended = {
            entry["job"]: entry["outcome"] for known in list_jobs(com).values() for entry in known if entry["outcome"] in _OVER
        }
        # of all agents, not of each: where an agent had no part in the newest job, it would send files of another one
        files = reclaimer.require_client_log(options.retrieve or _newest(com))
    _complete(files, reclaimer.states, ended=ended)
    words = "\n".join(_places(files, reclaimer.states)) if is_short() else ""
    return tell(options, {"files": paths_of(files)}, words, done="The files are saved", place=folder_of(files))


def _places(files: Mapping[int, Sequence[Path]], states: Mapping[int, str]) -> list[str]:
    """Return lines with the folders of fetched runs, for a console without a list of each file."""
    runs = any(state in ("starting", "running") for state in states.values())
    lines = ["The job still runs, so only its logs are here yet."] if runs else []
    for folder in dict.fromkeys(path.parent.parent for paths in files.values() for path in paths):
        lines.append(f"files    {shown(folder)}")
        # of a job that runs it would be the page of a moment
        lines += [f"report   {shown(page)}"] if not runs and (page := folder / PAGE).is_file() else []
    return lines


def _complete(
    files: Mapping[int, list[Path]],
    states: Mapping[int, str],
    outcome: str = "",
    detail: str = "",
    ended: Mapping[str, str] | None = None,
) -> None:
    from ..record.fetched_run import complete  # noqa: PLC0415 - it loads the page of a run, which only a fetched run needs

    complete(files, states, outcome, detail, ended)
