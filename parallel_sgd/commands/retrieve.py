"""Fetch the logs and files of a job."""

from __future__ import annotations

import argparse

from rpc import Reclaimer

from .codes import EXIT_OK
from .nodes import reach_all
from .output import paths_of, print_json


def retrieve(options: argparse.Namespace) -> int:
    """From all workers of the node file that can be reached, unless fewer are asked for; returns the exit code.

    Raises: NetworkError when no node has files of the job.
    """
    with reach_all(options) as com:
        files = Reclaimer(com).require_client_log(options.retrieve or None)
    if options.json:
        print_json({"files": paths_of(files)})
    return EXIT_OK
