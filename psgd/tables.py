"""`psgd predict` and `psgd evaluate`: a trained model and the rows of a CSV file."""

from __future__ import annotations

import argparse
from functools import partial

from parallel_sgd.commands import options, tables
from parallel_sgd.commands.output import carry_out
from rpc import OptionParser

from . import new_file
from .cli import Task

_EXIT_CODES = "Exit codes: 0 done, 2 a wrong argument or file, or a row that the model does not take."


def predict(parser: argparse.ArgumentParser) -> Task:
    """Configure `psgd predict`: add its options to `parser`."""
    parser.epilog = (
        f"{_EXIT_CODES} "
        "The rows need the columns that the model was trained on, by name, in any order; others do not count. The result has a "
        "line for each row, in their order: what is predicted, and of classes the probability of each. "
        "Example: %(prog)s houses.model rows.csv --out predictions.csv"
    )
    _add(parser, "rows")
    parser.add_argument("--out", type=new_file, metavar="FILE", help="write a CSV file (default: standard output)")
    return partial(carry_out, tables.predict)


def evaluate(parser: argparse.ArgumentParser) -> Task:
    """Configure `psgd evaluate`: add its options to `parser`."""
    parser.epilog = (
        f"{_EXIT_CODES} "
        "The rows need the columns that the model was trained on and the column that it predicts. "
        "Example: %(prog)s houses.model newer.csv"
    )
    _add(parser, "data")
    return partial(carry_out, tables.evaluate)


def _add(parser: argparse.ArgumentParser, name: str) -> None:
    parser.add_argument(
        "model", metavar="MODEL", help="a model file with a plan of columns, of save(.., inputs=), or a run, such as houses-1"
    )
    # `rows` for both, as the tasks read it; the help has the name that fits each
    parser.add_argument("rows", metavar=f"{name.upper()}.CSV", help="a CSV file, plain or packed")
    table = parser.add_argument_group("table")
    table.add_argument("--delimiter", help="mark between cells (default: that of the training file)")
    table.add_argument("--encoding", help="encoding of the file (default: that of the training file)")
    table.add_argument(
        "--unknown",
        choices=("error", "none"),
        help="a category that the model does not know is refused, or none of them (default: what the plan says)",
    )
    if isinstance(parser, OptionParser):
        file = f"the file without an option, as in '{parser.prog} MODEL {name.upper()}.CSV'"
        parser.meant_options = {
            **dict.fromkeys(("dataset", "data", "rows", "csv", "file", "input"), file),
            "model": f"the model, or a run, without an option, as in '{parser.prog} MODEL {name.upper()}.CSV'",
            **({"output": "--out"} if name == "rows" else {}),
        }
    options.add_output(parser)
