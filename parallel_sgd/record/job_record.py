"""Writer of `job.toml`, the settings of a run, and beside it the model that it begins with; `job_file` tells more, and reads
it.
"""

from __future__ import annotations

import contextlib
import csv
import hashlib
import io
import json
import os
import re
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import fields
from functools import partial
from pathlib import Path
from typing import Any, Final

from nn.dataset import ArrayDataset
from nn.dataset.interface import Arrays
from nn.tensor_files import MAX_FILE
from rpc.support.files import publish
from rpc.support.logs import SUBMIT_LOGGER, get_logger

from ..options.fields import CODE
from ..options.forms import Callbacks, Codecs, Parts, Population, Unnamed, object_text
from ..options.job_options import JobOptions
from ..options.names import files_of, place_in, split_objects
from ..options.spec import JobSpec
from .door import MOST_TOML, Door, RecordError
from .files import IDENTITIES, JOB_FILE
from .hashes import sha256_of
from .identity import ATTEMPT_COLUMNS, Identities, Told
from .kept_data import keep
from .paths import Tell, found_paths, quoted_texts, told_path
from .plain import toml_of
from .report import RECORD_FILES
from .tables import read_identities

FORMAT: Final = "psgd.job/1"
MODEL_FILE: Final = "start.model"
_KEPT: Final = "file_sha256"
CODE_TABLE: Final = "code"
"""Table with the hashes of the files of code that the job needs."""
_log = get_logger(SUBMIT_LOGGER)
FETCHED: Final = "fetched"
"""Key of a file that nodes have told."""


def write_job_file(folder: Path, spec: JobSpec, arrays: Arrays, job: str) -> str:
    """Write `job.toml`, and beside it the model that the run begins with. Return the content of `job.toml`.

    Args:
        folder: that of the run.
        spec: the job.
        arrays: the four arrays that its data set has loaded.
        job: id of the job.

    Raises: OSError.
    """
    publish(folder / MODEL_FILE, spec.model_file, 0o644)
    text = job_text(spec, job, folder, arrays)
    publish(folder / JOB_FILE, text, 0o644)
    return text


def text_for_nodes(text: str, spec: JobSpec, job: str, folder: Path) -> str:
    """Return the content of `job.toml` as the nodes keep it, for a submitter that fetches the run from elsewhere (SUB-15).

    Args:
        text: the content in the folder of the run.
        spec: the job.
        job: its id.
        folder: that of the run.
    """
    # made anew only where it tells of samples that lie beside it, which no node has
    return job_text(spec, job, folder) if f"\n{_KEPT} = " in text else text


def job_text(spec: JobSpec, job: str, folder: Path, samples: Arrays | None = None) -> str:
    """Return the content of `job.toml`.

    Args:
        spec: the job.
        job: its id.
        folder: that of the run.
        samples: the four arrays of the data set, which are kept there if no text stands for them; None keeps none.
    """
    tell = partial(told_path, folder=folder)
    unnamed: dict[str, str] = {}
    tables: dict[str, dict[str, Any]] = {
        "model": {"file": MODEL_FILE, "sha256": hashlib.sha256(spec.model_file).hexdigest()},
        "data": {},
        "options": {},
    }
    steps = () if spec.transform is None else spec.transform.steps
    for name, parts in (("dataset", (spec.data,)), ("transform", steps)):
        try:
            tables["data"][name] = ",".join(_object(part, tell) for part in parts) or "none"
            # tried at once, so that one value without a text costs its own line and not the file
            toml_of(tables["data"][name])
        except Unnamed as error:
            tables["data"].pop(name, None)
            unnamed[name] = str(error)
    # kept only where no text stands for them: a named data set is loaded again
    if samples is not None and "dataset" in unnamed:
        try:
            kept = keep(folder, samples, spec.options.keep_data)
            tables["data"] |= {"file": kept.file, _KEPT: kept.sha256}
            del unnamed["dataset"]
        except Unnamed as error:
            unnamed["dataset"] = str(error)
    tables["data"]["sha256"] = spec.data.checksum()
    tables["options"], without = options_of(spec, tell)
    unnamed |= without
    if spec.resume is not None:
        tables["options"]["resume"] = spec.resume.name
    plan = spec.plan
    tables["run"] = {
        "job": job,
        "workers": plan.assignment.node_count,
        "server": spec.options.nodes.has_parameter_server,
        "blocks": plan.assignment.block_count,
        **({"writers": len(spec.asked.writers)} if spec.asked.writers else {}),
        **({"clients": plan.population} if plan.population else {}),
    }
    # texts of objects may have lone surrogates, which no TOML has
    tables["unnamed"] = {name: what.encode("utf-8", "backslashreplace").decode() for name, what in unnamed.items()}
    # hashes of the code that was named, so that another file is noticed before it runs
    tables[CODE_TABLE] = _code(tables, folder)
    tables["rows"] = spec.data.row_checksums()
    lines = ["# What this run was; `psgd run` of this file trains it again.", f"format = {json.dumps(FORMAT)}"]
    for table, values in tables.items():
        if values:
            lines += ["", f"[{table}]", *(f"{_key(name)} = {toml_of(value)}" for name, value in values.items())]
    return "\n".join(lines) + "\n"


def options_of(spec: JobSpec, tell: Tell) -> tuple[dict[str, Any], dict[str, str]]:
    """Return the options of a job by name, as `job.toml` has them, and the description of each that has no text.

    Args:
        spec: the job.
        tell: makes the text that stands for the path of a file.
    """
    found: dict[str, Any] = {}
    unnamed: dict[str, str] = {}
    for each in fields(JobOptions):
        # the options as they were asked for: what was decided follows again from them
        about = each.metadata["option"]
        if about.flag is None and about.travels == CODE and getattr(spec.asked, each.name):
            unnamed[each.name] = "objects of a program"
        if about.flag is not None:
            try:
                # a SizeAdaptive has no text, the codecs that it has chosen do; other defaults are decided anew
                source = spec.options if isinstance(about.form, Codecs) else spec.asked
                value = about.form.write(getattr(source, each.name), tell)
                toml_of(value)  # a text may be none in TOML
            except Unnamed as error:
                unnamed[each.name] = str(error)
                continue
            if value is not None:
                found[each.name] = value
    return found, unnamed


def keep_identities(folder: Path, identities: Iterable[Told], *, ended: bool = True) -> None:
    """Write the identities that the nodes of a run told at the start of each attempt into its folder and, if it has `ended`,
    into `job.toml`. No job depends on that, so a full disk is a warning."""
    rows = io.StringIO(newline="")
    csv.writer(rows, lineterminator="\n").writerows([ATTEMPT_COLUMNS, *sorted(identities)])
    try:
        publish(folder / IDENTITIES, rows.getvalue(), 0o644)
        if ended:
            add_identities(folder, read_identities(folder))
    except (OSError, RecordError) as error:
        _log.warning("What the nodes computed with cannot be written: %s.", getattr(error, "strerror", None) or error)


def add_identities(folder: Path, nodes: Identities) -> None:
    """Add the identities of the processes that trained to the `job.toml` of a run that has ended, as its table `[nodes]`.

    Raises: OSError; RecordError where there is none that can be read.
    """
    # once: TOML refuses a table that stands twice
    if nodes and "nodes" not in Door(folder).toml(JOB_FILE):
        lines = [f"{node} = {toml_of(texts)}" for node, texts in sorted(nodes.items())]
        # as text behind the rest, so that the file stays as it was written
        publish(
            folder / JOB_FILE,
            "\n".join([Door(folder).text(JOB_FILE, MOST_TOML).rstrip("\n"), "", "[nodes]", *lines]) + "\n",
            0o644,
        )


def adopt(run: Path, files: Mapping[int, list[Path]]) -> None:
    """Move the record of a run that nodes have into its folder, out of their `files`; a record that is there stays as it is."""
    for paths in files.values():
        # moved, not copied: beside the tables they would be taken for files of the node
        for path in [path for path in paths if path.name in RECORD_FILES]:
            paths.remove(path)
            target = run / (JOB_FILE, MODEL_FILE)[RECORD_FILES.index(path.name)]
            with contextlib.suppress(OSError, RecordError):  # it then stays where it is
                # the submitter's own record counts more than what a node tells
                if not target.exists():
                    # marked, since a node could have named any code
                    head = f"{FETCHED} = true\n".encode() if target.name == JOB_FILE else b""
                    publish(path, head + Door(path.parent).read(path, MAX_FILE if not head else MOST_TOML), 0o644)
                    os.replace(path, target)
                path.unlink(missing_ok=True)


def _object(made: Any, tell: Tell) -> str:
    """Return `JOB_FILE:KEY=VALUE,..` for a data set or a transform."""
    if isinstance(made, ArrayDataset):
        raise Unnamed("samples in the memory of a program")
    return object_text(type(made), made.get_config(), tell)


def _code(tables: Mapping[str, Mapping[str, Any]], folder: Path) -> dict[str, str]:
    """Return the SHA-256 of each file of code that the texts of a job name, by its path as the texts tell it."""
    forms = {each.name: each.metadata["option"].form for each in fields(JobOptions)}
    values = [tables["data"].get(name, "") for name in ("dataset", "transform")]
    values += [value for name, value in tables["options"].items() if isinstance(forms[name], (Parts, Callbacks))]
    texts = [part for value in values for given in texts_in(value) for part in split_objects(given)]
    # parts of clients stand in quotation marks
    texts += [
        part
        for name, value in tables["options"].items()
        if isinstance(forms[name], Population)
        for text in texts_in(value)
        for part in quoted_texts(text)
    ]
    found: dict[str, str] = {}
    for text in texts:
        if told := place_in(text):
            for file in files_of(place_in(found_paths(text, folder, arguments=False))):
                # a file that cannot be read has no hash, and needs `--allow-code` then
                with contextlib.suppress(OSError):
                    found[told if told.endswith(".py") else f"{told} ({file.name})"] = sha256_of(file)
    return found


def texts_in(value: Any) -> Iterator[str]:
    """Yield the texts in the value of an option: itself, those of a list or a table."""
    for each in value.values() if isinstance(value, dict) else value if isinstance(value, list) else [value]:
        if isinstance(each, str):
            yield each


def _key(name: str) -> str:
    return name if re.fullmatch(r"[A-Za-z0-9_-]+", name) else toml_of(name)
