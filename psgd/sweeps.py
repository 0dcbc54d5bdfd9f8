"""`psgd sweep`: every combination of options, codecs, parameters and seeds of a sweep file."""

from __future__ import annotations

from functools import partial

from parallel_sgd.commands import options
from parallel_sgd.commands import sweep as sweeping
from parallel_sgd.commands.output import carry_out
from rpc import OptionParser

from . import folder, positive
from .cli import Task


def sweep(parser: OptionParser) -> Task:
    """Configure `psgd sweep`: add its options to `parser`."""
    parser.usage = "%(prog)s SWEEP.TOML [options]"
    parser.epilog = (
        "Runs that are done are known by their identity and not trained again; those that were interrupted are. Without "
        "--local, --launch or --workers each run computes in one process of this machine, as many at once as there are "
        "usable cores. Exit codes: 0 all are done, 1 some are not, or a table is not written, 2 wrong argument or file, "
        "before anything runs, 3 not started, 4 too few agents can be reached, 130 interrupted: what is done stays."
    )
    parser.add_argument("sweep_file", metavar="SWEEP.TOML", help="the sweep: model, data, options, grid and seeds")
    parser.add_argument("--retry", action="store_true", help="train runs again that have failed")
    parser.add_argument(
        "--processes", type=positive, metavar="N", help="most runs at once (default: what cores or agents suffice for)"
    )
    parser.add_argument("--latex", action="store_true", help="print the table of mean and spread for LaTeX")
    parser.add_argument(
        "--directory", type=folder, default=".", metavar="DIR", help="gets runs/ and sweeps/ (default: the current one)"
    )
    options.add_nodes(parser, "take so many agents (default: all of the file)", None).add_argument(
        "--local", type=positive, metavar="N", help="start N workers on this machine, and share them out among the runs"
    )
    options.add_output(parser)
    parser.meant_options = {**parser.meant_options, **options.in_a_sweep()}
    parser.set_defaults(wait=0.0, discovery=None)
    return partial(carry_out, sweeping.sweep, short=True)
