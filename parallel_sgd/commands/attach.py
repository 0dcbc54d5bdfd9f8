"""Watch a job that goes on without the one who submitted it, and fetch its files when it is over."""

from __future__ import annotations

import argparse
import sys

from network.controller import Controller
from network.errors import NetworkError
from rpc import Reclaimer
from rpc.logs import clean_text
from rpc.submit.diagnostics import list_jobs

from .codes import EXIT_FAILED, EXIT_NODE_LOST, EXIT_OK
from .nodes import reach_all
from .output import paths_of, print_json, program_name


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
    if options.json:
        content = {"job": job, "outcome": outcome, "files": paths_of(files)}
        if reclaimer.detail:
            content["detail"] = reclaimer.detail
        print_json(content)
    else:
        sys.stdout.write(f"The job {job} has ended: {outcome}.\n")
        if reclaimer.detail:
            sys.stderr.write(f"{program_name()}: {clean_text(reclaimer.detail)}\n")
    if outcome != "done":
        return EXIT_FAILED
    return EXIT_OK if all(state in ("done", "unknown") for state, _ in states.values()) else EXIT_NODE_LOST


def _newest(com: Controller) -> str:
    entries = [entry for listed in list_jobs(com).values() for entry in listed]
    if not entries:
        raise NetworkError("None of the workers knows any job.")
    return str(max(entries, key=lambda entry: entry["started"])["job"])
