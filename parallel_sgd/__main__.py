"""Program of `psgd-submit`, `job_submit.py` and `python -m parallel_sgd`: submit a saved model as a job, or look after earlier
ones.

`commands.output` tells its exit codes.
"""

from __future__ import annotations

import argparse
import sys
from collections.abc import Sequence

from rpc.support.console import run_program

from .commands.jobs import attach, jobs, retrieve, stop
from .commands.options import make_parser
from .commands.output import carry_out
from .commands.submit import post_mortem, submit


def main(arguments: Sequence[str] | None = None) -> int:
    """Run the command that the `arguments` name, by default those of this process; return its exit code."""
    return carry_out(_do, make_parser().parse_args(arguments))


def _do(options: argparse.Namespace) -> int:
    if options.post_mortem:
        return post_mortem(options)
    if options.retrieve is not None:
        return retrieve(options)
    if options.jobs:
        return jobs(options)
    if options.attach is not None:
        return attach(options)
    if options.stop is not None:
        return stop(options)
    return submit(options)


if __name__ == "__main__":
    sys.exit(run_program(main))
