"""Commands for a trained model and the rows of a CSV file: predictions with the names of the classes, and an evaluation."""

from __future__ import annotations

import argparse
import csv
import io
import math
import os
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import numpy as np

from nn.dataset.csv_table import Table, read_table
from nn.dataset.plan.kinds import CellError, missing_rows
from nn.dataset.plan.marks import check_delimiter, check_encoding
from nn.dataset.plan.plan import Plan
from nn.dataset.plan.rows import MissingColumn
from nn.model import Model
from nn.model.inputs import Answers, answers
from rpc.support.console import show

from .options import load_model, trained_model
from .output import tell


def predict(options: argparse.Namespace) -> int:
    """Predict the rows of a file and write the result; return the exit code.

    Raises:
        ValueError, OSError: naming file, line and column of the cell that the model does not take.
    """
    out: Path | None = options.out
    # before the model is read, which takes longest
    for path in map(Path, (options.model, options.rows)):
        if out is not None and out.exists() and path.exists() and out.samefile(path):
            raise ValueError(f"--out must be another file than those that are read, got {out}, which it would replace.")
    model, plan = _planned(options)
    table = _read(options, plan)
    with _lines_told(table):
        found = answers(model, plan.apply(_rows(table, plan), options.unknown))
    header, rows = _lines(found)
    text = io.StringIO()
    writer = csv.writer(text, lineterminator="\n")
    writer.writerows([header, *rows])
    words = text.getvalue().rstrip("\n")
    if out is not None:
        out.write_text(text.getvalue(), "utf-8")
        words = ""
    return tell(
        options, {"columns": header, "predictions": rows}, words, done="The rows are predicted", place=out, seconds=None
    )


def evaluate(options: argparse.Namespace) -> int:
    """Evaluate a model on the rows of a file and print loss and metrics; return the exit code.

    Raises:
        ValueError, OSError: naming file, line and column of the cell that the model does not take.
    """
    model, plan = _planned(options)
    if not plan.labels:
        raise ValueError(f"The plan of {options.model} names no column of labels, so there is nothing to compare with.")
    table = _read(options, plan)
    with _lines_told(table):
        x, y = plan.labelled(_rows(table, plan, with_labels=True), options.unknown)
        figures = model.evaluate(x, y)
    content = {name: value if math.isfinite(value) else None for name, value in figures.items()} | {"rows": len(table)}
    words = f"{len(table)} rows: {', '.join(f'{name} {value:.6g}' for name, value in figures.items())}"
    if scaled := _scaled(plan):
        words += f"\n{scaled}"
    return tell(options, content, words, done="The model is evaluated", seconds=None)


def _scaled(plan: Plan) -> str:
    """Return a sentence on scaled labels; "" for those with the size that the file has."""
    names = [label.name for label in plan.labels]
    sizes = (plan.restore(np.ones((1, len(names)))) - plan.restore(np.zeros((1, len(names))))).reshape(-1)
    if (sizes == 1).all():
        return ""
    told = " and ".join(f"{size:.6g} of {name!r}" for name, size in zip(names, sizes, strict=True))
    return f"They are of scaled labels, of which 1 is {told}; 'psgd predict' gives values as the file has them."


def _planned(options: argparse.Namespace) -> tuple[Model, Plan]:
    # a run, as other commands take it, for the model that it has trained
    trained = "" if os.path.isfile(options.model) else trained_model(options.model)
    path = trained or options.model
    model = load_model(path)
    if trained and not options.quiet:
        show(sys.stderr, f"model    {trained}\n")
    plan = model.inputs
    if plan is None or not plan.columns:
        raise ValueError(
            f"The model file {path} has no plan of columns, so it cannot take rows: train it by a job on a CSVDataset, or "
            "write it by model.save(path, inputs=data)."
        )
    return model, plan


def _read(options: argparse.Namespace, plan: Plan) -> Table:
    path = Path(options.rows)
    if not path.is_file():
        raise ValueError(f"{options.rows} is a folder, and no file." if path.is_dir() else f"There is no file {options.rows}.")
    delimiter = plan.delimiter if options.delimiter is None else check_delimiter("The table's", options.delimiter)
    encoding = plan.encoding if options.encoding is None else check_encoding("The table's", options.encoding)
    table = read_table(path, delimiter, encoding, plan.spelling, plan.of_texts)
    if not len(table):
        raise ValueError(f"'{path}' must have rows below its header")
    return table


def _rows(table: Table, plan: Plan, *, with_labels: bool = False) -> dict[str, Any]:
    """Return the columns that are used, by name; without a label that may be there, but for a plan that needs it."""
    rows: dict[str, Any] = dict(zip(table.header, table.columns, strict=True))
    # labels may be absent for predictions, and not for an evaluation
    if with_labels:
        for label in plan.labels:
            if label.name in rows:
                gaps = missing_rows(table.columns[table.header.index(label.name)], plan.spelling)
                if gaps.any():
                    raise CellError("", int(gaps.argmax()), f"column {label.name!r} is missing")
    return rows


@contextmanager
def _lines_told(table: Table) -> Iterator[None]:
    """Name the line of the file for an error that names a row."""
    try:
        yield
    except CellError as error:
        said = error.wrong.replace("; unknown='none' takes", "; --unknown none takes")
        raise ValueError(f"'{table.path}' line {table.line_of(error.row)}, {said}") from error
    except ValueError as error:
        if isinstance(error, MissingColumn):
            raise ValueError(
                f"'{table.path}' must have the column {error.name!r} of the model's plan, it has ({error.held}){error.hint}"
            ) from error
        raise


def _lines(found: Answers) -> tuple[list[str], list[list[Any]]]:
    """Return the header and the rows of a table of predictions."""
    header, columns = [found.label], [found.values]
    if found.values.ndim == 2:
        header = list(found.columns or (f"{found.label}_{place}" for place in range(found.values.shape[1])))
        columns = [found.values[:, place] for place in range(found.values.shape[1])]
    if found.probabilities is not None and found.classes is not None:
        header += [f"{found.label}={name}" for name in found.classes]
        columns += [found.probabilities[:, place] for place in range(found.probabilities.shape[1])]
    return header, [list(row) for row in zip(*(column.tolist() for column in columns), strict=True)]
