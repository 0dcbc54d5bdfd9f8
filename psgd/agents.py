"""`psgd worker` and `psgd doctor`: an agent on this machine, and how agents stand."""

from __future__ import annotations

import argparse

from rpc.agent import cli

from .cli import Task


def worker(parser: argparse.ArgumentParser) -> Task:
    """Configure `psgd worker`: add its options to `parser`."""
    # its own texts: `psgd-worker` shows the same
    parser.description, parser.epilog = cli.DESCRIPTION, cli.EPILOG
    cli.add_options(parser)
    return cli.serve


def doctor(parser: argparse.ArgumentParser) -> Task:
    """Configure `psgd doctor`: add its options to `parser`."""
    parser.epilog = "Exit codes: 0 all is well, 1 something is wrong, 2 an option is."
    cli.add_doctor_options(parser)
    parser.add_argument(
        "--workers", type=_node_file, metavar="FILE", help="node file, as of the other commands; the same as FILE for a HOST"
    )
    return _examine


def _node_file(text: str) -> str:
    # by this ending a HOST is known for one
    if not text.endswith(".json"):
        raise argparse.ArgumentTypeError(f"must be a node file, whose name ends in .json, got {text!r}")
    return text


def _examine(given: argparse.Namespace) -> int:
    if given.workers is not None:
        given.hosts = [*given.hosts, given.workers]
    return cli.examine(given)
