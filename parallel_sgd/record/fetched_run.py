"""Completion of the folder of a run that was fetched later, as that of one that was waited for: record, ledger, manifest,
outcome, page.
"""

from __future__ import annotations

import contextlib
import json
import time
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from network.errors import ProtocolError
from nn.model import Model
from nn.model.diagram import Diagram, summarize
from nn.model.history import VALIDATION
from nn.model.picture import draw
from nn.tensor_files import ModelFileError
from rpc.submit import Run
from rpc.support.files import RESULT_FILE, publish, read_result
from rpc.support.logs import SUBMIT_LOGGER, get_logger
from rpc.support.places import data_without_places

from ..run_page.report import write_report
from .door import Door, RecordError
from .history import JobHistory
from .job_file import JobFile
from .job_record import adopt
from .ledger import Extent, Grid, collect
from .outcome import OUTCOME, read_outcome
from .run import write_run_manifest
from .spared import spared

Files = Mapping[int, list[Path]]
_RUNNING = ("starting", "running")
_log = get_logger(SUBMIT_LOGGER)


def complete(
    files: Files, states: Mapping[int, str], outcome: str = "", detail: str = "", ended: Mapping[str, str] | None = None
) -> None:
    """Complete the runs of `files` that have come from nodes. Of a run that goes on its record alone is kept.

    A part that cannot be made is told in a warning: the files are here.

    Args:
        files: by node, the files that have come.
        states: state of the job at each node.
        outcome: how the job has ended just now, where that was told.
        detail: why it has.
        ended: by job, how others had ended.
    """
    # a node that does not know the job says nothing about its end
    known = {node: state for node, state in states.items() if state != "unknown"}
    runs: dict[Path, dict[int, list[Path]]] = {}
    for node, paths in files.items():
        if paths:
            # the folder of the run, above that of the node
            runs.setdefault(paths[0].parent.parent, {})[node] = paths
    for run, own in runs.items():
        try:
            adopt(run, own)
            # as long as any node trains, tables and outcome would be of a moment
            if not any(known.get(node) in _RUNNING for node in own):
                _log.info("The page of the run: %s", _complete(run, own, known, outcome, detail, ended or {}))
        except Exception as error:  # noqa: BLE001  the files may hold anything
            _log.warning("The run in %s cannot be completed (%s: %s).", run, type(error).__name__, error)


def _complete(run: Path, files: Files, states: Mapping[int, str], outcome: str, detail: str, ended: Mapping[str, str]) -> Path:
    begun = Run.read(run)
    before = "" if begun is None else ended.get(begun.job, "")
    # a failed node decides, then a good end
    ways = (way for way in ("failed", "done", "stopped") if way in states.values())
    state = outcome or before or next(ways, "failed")
    history = JobHistory.read(files)
    # what the submitter knew until it left, such as incidents, is in no table
    about = _told(run)
    problems: list[str] = []
    done = ""
    try:
        # the record came from nodes and may be anything; the page needs none of it
        file = JobFile.read(run)
    except ValueError as error:
        _log.warning("The run has no record of its settings: %s", error)
    else:
        about = about or _described(file)
        # the ledger of a job that failed has holes by nature
        if state == "done":
            ledger = collect(str(file.options.get("mission_title", "P-SGD")), files, _grid(file, history, _results(files)))
            problems = list(ledger.problems) if ledger else []
            done = file.job
    last = history.rows[-1] if state == "done" and history.rows else {}
    about |= {
        "state": state,
        "message": "" if state == "done" else detail,
        "figures": {name.removeprefix(VALIDATION): value for name, value in last.items() if name.startswith(VALIDATION)},
        "failures": [[node, told, ""] for node, told in sorted(states.items()) if told != "done"],
        "problems": problems,
    }
    about.setdefault("incidents", [])
    if outcome:  # else it may have ended long ago
        about["ended"] = time.time()
    publish(run / OUTCOME, json.dumps(data_without_places(about, run), indent=1), 0o644)
    page = write_report(run)
    # after the page was written: the manifest has no page, and all other files are complete
    if done:
        with spared("The manifest of the run"):
            write_run_manifest(run, done)
    return page


def _told(run: Path) -> dict[str, Any]:
    """Return the outcome that the submitter has written of the run until it left it."""
    try:
        content = read_outcome(Door(run))
    except RecordError:
        return {}
    # the time of the end is told anew, if it is known
    return {name: value for name, value in content.items() if name != "ended"}


def _grid(file: JobFile, history: JobHistory, results: Mapping[int, Mapping[str, Any]]) -> Grid:
    """Return the batches and blocks that were to be applied, as the workers tell them with their results; without any, as
    far as the record and the tables tell.
    """
    epochs, redundancy = (int(file.options.get(name, 1)) for name in ("epoch", "redundancy"))
    with contextlib.suppress(ValueError):
        told = Extent.told(results)
        sizes, resumed = told.sizes, "resume" in file.options
        return Grid(told.epochs or epochs, told.batches, file.blocks, redundancy, resumed, told.before, sizes)
    # callbacks may have ended training: tables tell how far it came, options only how far it might have
    if file.options.get("callbacks"):
        epochs = int(max((row["epoch"] for row in history.rows), default=epochs))
    batches = int(max((row["batch"] for row in history.steps), default=1))
    return Grid(epochs, batches, file.blocks, redundancy, "resume" in file.options)


def _results(files: Files) -> dict[int, Mapping[str, Any]]:
    """Read the results that nodes have left; those that are none are left out."""
    found: dict[int, Mapping[str, Any]] = {}
    for node, paths in files.items():
        for path in (path for path in paths if path.name == RESULT_FILE):
            # of any class of the user's there is none here
            with contextlib.suppress(OSError, ProtocolError):
                content = read_result(path, ())
                if isinstance(content, dict):
                    found[node] = content
    return found


def _described(file: JobFile) -> dict[str, Any]:
    """Return the contents of the page of a run besides its tables."""
    settings = {"data": file.dataset or "", "transform": file.transform or "", "workers": file.workers, **file.options}
    content: dict[str, Any] = {
        "format": 1,
        "settings": {name: str(value) for name, value in settings.items()},
        "environment": {f"node {node}": "; ".join(texts) for node, texts in file.nodes.items()},
    }
    try:
        model = Model.load(file.model)
    # a model of a user's classes cannot be drawn without their code, which is not run here (RUN-6)
    except (ModelFileError, OSError, ValueError):
        return content
    name = type(model).__name__
    picture = draw(name, Diagram(model.graph))
    return {**content, "model": {"name": name, "summary": summarize(name, model.graph, model.store), "svg": picture}}
