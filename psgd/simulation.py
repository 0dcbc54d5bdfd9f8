"""`psgd calibrate` and `psgd plan`: measure a cluster, and find out by simulation how to train on it."""

from __future__ import annotations

import argparse
from functools import partial

from parallel_sgd.commands import calibrate as calibration
from parallel_sgd.commands import options
from parallel_sgd.commands import plan as planning
from parallel_sgd.commands.output import carry_out

from . import above_0, new_file, number, positive
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
        "-o",
        "--out",
        type=new_file,
        default="platform.toml",
        metavar="FILE",
        help="the file, whose name ends in .toml (default: platform.toml)",
    )
    parser.add_argument("--force", action="store_true", help="replace the file if there is one")
    parser.add_argument("-m", "--model", metavar="FILE", help="model whose block step is timed (default: 784-128-128-10)")
    parser.add_argument("--dataset", metavar="NAME", help="its samples (default: random ones of its shape)")
    parser.add_argument(
        "--block-size", "--batch-size", type=positive, default=16, metavar="N", help="samples per block (default: 16)"
    )
    parser.add_argument(
        "--codecs", default=calibration.CODECS, metavar="NAME,..", help=f"codecs that are timed (default: {calibration.CODECS})"
    )
    options.add_output(parser)
    # the code for nodes reads these, for which there are no options here
    parser.set_defaults(worker_count=None, wait=0.0, discovery=None)
    return partial(carry_out, calibration.calibrate)


def plan(parser: argparse.ArgumentParser) -> Task:
    """Configure `psgd plan`: add its options to `parser`."""
    parser.description = (
        "Rank codecs, numbers of workers and exchanges by the predicted time until a model is good enough on a platform: from "
        "a few real epochs of each codec in this process, and a few simulated steps of each setting."
    )
    parser.epilog = (
        "Exit codes: 0 done, 2 wrong argument, 130 interrupted. Example: %(prog)s --platform 'star 100Mbit/s 1ms' --workers "
        "2..16 -m digits.model --dataset digits --transform shuffle,imagecls --target 0.9"
    )
    parser.add_argument(
        "--platform", required=True, metavar="P", help="a text such as 'star 1Gbit/s 50us', or a file of psgd calibrate"
    )
    parser.add_argument(
        "--workers", default="2..16", metavar="N..M", help="a range, of powers of two, or N,M,.. (default: 2..16)"
    )
    parser.add_argument("-m", "--model", metavar="FILE", help="the model (default: two layers of 128 units, for classes)")
    parser.add_argument("--dataset", default="digits", metavar="NAME", help="its data (default: digits)")
    parser.add_argument(
        "--transform", default="shuffle,imagecls", metavar="NAME,..", help="of the data (default: shuffle,imagecls)"
    )
    parser.add_argument("--target", type=number, default=0.9, metavar="X", help="of the first metric (default: 0.9)")
    parser.add_argument("--codecs", default=planning.CODECS, metavar="NAME,..", help=f"(default: {planning.CODECS})")
    parser.add_argument(
        "--local-steps", type=_numbers, default=[1, 8], metavar="N,..", help="batches between averages by LocalSGD (default: 8)"
    )
    parser.add_argument("--blocks", type=positive, metavar="N", help="blocks of a batch (default: the most workers)")
    parser.add_argument(
        "--block-size", "--batch-size", type=positive, default=4, metavar="N", help="samples per block (default: 4)"
    )
    parser.add_argument("--learn-rate", type=above_0, default=0.1, metavar="X", help="of SGD (default: 0.1)")
    parser.add_argument(
        "--epochs",
        type=positive,
        default=3,
        metavar="N",
        help="real epochs of each codec, doubled where it is close (default: 3)",
    )
    parser.add_argument(
        "--limit", type=above_0, default=50.0, metavar="SECONDS", help="after which no further setting is begun (default: 50)"
    )
    parser.add_argument("--all", action="store_true", help="show all settings")
    parser.add_argument(
        "--check",
        type=positive,
        default=0,
        metavar="N",
        help="also run steps of the first N on this machine, with throttled links: a start of the workers and five steps each; "
        "where the machine does other things these are repeated for 30 s in all, since the fastest counts",
    )
    options.add_output(parser)
    return partial(carry_out, planning.plan)


def _numbers(text: str) -> list[int]:
    return [positive(part) for part in text.split(",")]
