"""`psgd submit`, and what looks after jobs that were submitted: `jobs`, `attach`, `stop`, `fetch`, `post-mortem`."""

from __future__ import annotations

import argparse
from functools import partial

from parallel_sgd.cli import carry_out
from parallel_sgd.commands import jobs as known
from parallel_sgd.commands import options
from parallel_sgd.commands import submit as submission

from . import above_0
from .cli import Task


def submit(parser: argparse.ArgumentParser) -> Task:
    parser.epilog = f"{options.EXIT_CODES} Example: %(prog)s -m dnn.model --local 2 --dataset digits --epochs 5"
    output = options.add_job(parser)
    output.add_argument(
        "--post-mortem",
        action="store_const",
        const="",
        help="should it fail, collect what all workers know of it into post-mortem-JOB.zip",
    )
    return partial(carry_out, submission.submit)


def jobs(parser: argparse.ArgumentParser) -> Task:
    parser.add_argument(
        "--watch", nargs="?", type=above_0, const=2.0, metavar="SECONDS", help="again so often, until Ctrl-C (every 2 s)"
    )
    return _looking_after(parser, lambda given: known.jobs(given) if given.watch is None else known.watch(given))


def attach(parser: argparse.ArgumentParser) -> Task:
    parser.add_argument("attach", nargs="?", default="", metavar="JOB", help="its id (default: the newest)")
    return _looking_after(parser, known.attach)


def stop(parser: argparse.ArgumentParser) -> Task:
    parser.add_argument("stop", type=options.job_id, metavar="JOB", help="its id")
    return _looking_after(parser, known.stop)


def fetch(parser: argparse.ArgumentParser) -> Task:
    parser.add_argument("retrieve", nargs="?", default="", metavar="JOB", help="its id (default: the newest)")
    return _looking_after(parser, known.retrieve)


def post_mortem(parser: argparse.ArgumentParser) -> Task:
    parser.add_argument("post_mortem", type=options.job_id, metavar="JOB", help="its id")
    return _looking_after(parser, submission.post_mortem)


def _looking_after(parser: argparse.ArgumentParser, task: Task) -> Task:
    parser.epilog = options.EXIT_CODES
    options.add_known_nodes(parser)
    options.add_output(parser)
    return partial(carry_out, task)
