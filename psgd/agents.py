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
    return cli.examine
