"""`psgd calibrate` and `psgd plan`: measure a cluster, and find out by simulation how to train on it."""

from __future__ import annotations

import argparse
from functools import partial

from parallel_sgd.commands import calibrate as calibration
from parallel_sgd.commands import options
from parallel_sgd.commands.output import carry_out

from . import new_file, positive
from .cli import Task

_EXIT_CODES = (
    "Exit codes: 0 done, 2 wrong argument, 3 a node is busy or refuses, 4 a node cannot be reached, 130 interrupted: "
    "then nothing is written."
)


def calibrate(parser: argparse.ArgumentParser) -> Task:
    """Configure `psgd calibrate`: add its options to `parser`."""
    parser.description = (
        "Measure the links of real workers, alone and all at once, their speeds, the compute of a model and its codecs, within "
        "a minute, and write all of it into a TOML file, a platform for parallel_sgd.simulated and psgd plan."
    )
    parser.epilog = f"{_EXIT_CODES} Example: %(prog)s --local 2 -o here.toml"
    options.add_nodes(parser, "so many workers (default: all of the node file)").add_argument(
        "--local", type=positive, metavar="N", help="start N workers on this machine, and measure them"
    )
    parser.add_argument(
        "-o", "--out", type=new_file, default="platform.toml", metavar="FILE", help="the file (default: platform.toml)"
    )
    parser.add_argument("--force", action="store_true", help="replace the file if there is one")
    parser.add_argument("-m", "--model", metavar="FILE", help="model whose block step is timed (default: 784-128-128-10)")
    parser.add_argument("--dataset", metavar="NAME", help="its samples (default: random ones of its shape)")
    parser.add_argument("--block-size", type=positive, default=16, metavar="N", help="samples of a block (default: 16)")
    parser.add_argument(
        "--codecs", default=calibration.CODECS, metavar="NAME,..", help=f"codecs that are timed (default: {calibration.CODECS})"
    )
    options.add_output(parser)
    parser.set_defaults(worker_count=None, wait=0.0, discovery=None)
    return partial(carry_out, calibration.calibrate)
