"""Stop a job for good, whoever drives it."""

from __future__ import annotations

import argparse
import sys

from rpc import Reclaimer

from .codes import EXIT_OK
from .nodes import reach_all
from .output import print_json


def stop(options: argparse.Namespace) -> int:
    """Tell all workers and the driver to end the job, and wait for that; returns the exit code. Files stay with the workers.

    Raises: NetworkError when no worker can be reached or knows the job.
    """
    with reach_all(options) as com:
        reclaimer = Reclaimer(com)
        reclaimer.stop(options.stop, "It was stopped by psgd-submit --stop.")
        states = reclaimer.follow(options.stop)
    if options.json:
        print_json({"job": options.stop, "outcome": reclaimer.outcome, "nodes": {str(n): s for n, (s, _) in states.items()}})
    else:
        sys.stdout.write(f"The job {options.stop} has ended: {reclaimer.outcome}.\n")
    return EXIT_OK
