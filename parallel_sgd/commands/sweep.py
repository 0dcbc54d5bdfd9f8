"""Command that trains every combination of the grid of a sweep file, and tells mean and spread."""

from __future__ import annotations

import argparse
import sys
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path
from typing import Any

from network.nodes import NodeAssignment
from rpc.support.console import columns_of, in_columns

from ..job import ParallelSGD
from ..simulation.nodes import simulated
from ..sweeps.grid import PARTS
from ..sweeps.page import PAGE
from ..sweeps.results import RESULTS, SweepResult
from ..sweeps.runs import DONE
from ..sweeps.sweep import sweep as train_all
from ..sweeps.sweep_file import SweepFile
from .nodes import all_nodes, launcher_from
from .options import load_model, make_dataset, make_transform
from .output import EXIT_FAILED, EXIT_OK, tell, verbosity_of
from .submit import nodes_of

_MAKERS = {"model": load_model, "dataset": make_dataset, "transform": make_transform}
_DEFAULTS = {"dataset": "mnist", "transform": "shuffle,imagecls"}


def sweep(options: argparse.Namespace) -> int:
    """Train what is missing of the sweep of the file `options.sweep_file`, and print mean and spread; return the exit code.

    Raises: ValueError naming the key, before anything runs; each error of `ParallelSGD.parallel`.
    """
    file = SweepFile.read(Path(options.sweep_file))
    parts = {name: _made(name, {**_DEFAULTS, **file.parts}[name]) for name in PARTS if name in {**_DEFAULTS, **file.parts}}
    grids = [{name: _objects(name, values) for name, values in grid.items()} for grid in file.grids]
    if "model" not in parts:
        models = next((grid["model"] for grid in grids if "model" in grid), None)
        if models is None or not all("model" in grid for grid in grids):
            raise ValueError(f"The sweep file {options.sweep_file} cannot be used: 'model' is missing, the file of the model.")
        parts["model"] = next(iter(models.values()))
    job = ParallelSGD(parts["model"], parts["dataset"], parts["transform"])
    with _nodes(options, file) as nodes:
        result = train_all(
            job,
            grids,
            file.seeds,
            nodes=nodes,
            title=file.title,
            directory=options.directory,
            processes=options.processes,
            new_weights=file.new_weights,
            retry=options.retry,
            verbose=verbosity_of(options),
            **file.options,
        )
    code = EXIT_OK if result.count(DONE) == len(result.rows) and not result.problem else EXIT_FAILED
    return tell(
        options, _data(result), _words(options, result), code, done="The sweep is done", place=result.folder, seconds=None
    )


@contextmanager
def _nodes(options: argparse.Namespace, file: SweepFile) -> Iterator[NodeAssignment | None]:
    """Yield the nodes of the command line, the simulated ones of the file, or None for those in process."""
    given = [name for name in ("launch", "local", "workers") if getattr(options, name) is not None]
    if not given:
        if options.worker_count is not None or options.ps:
            raise ValueError("-n and --ps are for agents, which --local, --launch or --workers name.")
        yield None if file.platform is None else simulated(file.options.get("workers", 2), file.platform)
    elif file.platform is not None:
        raise ValueError(f"--{given[0]} does not go with 'platform' of the sweep file, which has its nodes simulated.")
    elif given == ["workers"]:
        yield all_nodes(options)
    else:
        with nodes_of(options, launcher_from(options)) as nodes:
            yield nodes


def _made(name: str, text: str) -> Any:
    try:
        return _MAKERS[name](text)
    except ValueError as error:
        # as on the command line, but named by its key
        raise ValueError(str(error).replace(f"--{name} ", f"'{name}' ", 1).replace(f"--{name}:", f"'{name}':", 1)) from error


def _objects(name: str, values: Mapping[str, Any]) -> Mapping[str, Any]:
    return {label: _made(name, text) for label, text in values.items()} if name in _MAKERS else values


def _data(result: SweepResult) -> dict[str, Any]:
    head, rows = result.table()
    return {
        "runs": [{name: value for name, value in zip(head, row, strict=True) if value != ""} for row in rows],
        "clock": result.clock,
        "folder": str(result.folder),
    }


def _words(options: argparse.Namespace, result: SweepResult) -> str:
    if options.latex:
        return result.to_latex().rstrip("\n")
    lines = [
        in_columns(result.told(), columns_of(sys.stdout)),
        f"Mean ± standard deviation over the seeds; seconds are {result.clock}.",
    ]
    if (missing := len(result.rows) - result.count(DONE)) and not result.problem:
        lines.append(f"{missing} of {len(result.rows)} runs are not done; the column 'message' of {RESULTS} tells why.")
    # a log that is shown has told them
    shows = options.quiet and not result.problem
    lines += [f"tables   {result.folder / RESULTS}", f"page     {result.folder / PAGE}"] if shows else []
    return "\n".join(lines)
