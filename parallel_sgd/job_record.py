"""Writes `job.toml`, what a run was, and beside it the model that it begins with; `job_file` tells more, and reads it."""

from __future__ import annotations

import contextlib
import hashlib
import inspect
import json
import os
import re
import sys
from collections.abc import Mapping
from dataclasses import fields
from pathlib import Path
from typing import Any, Final

from nn.callback import Callback
from nn.dataset import ArrayDataset
from rpc.files import publish

from .batch_sync.sync.interface import SyncSetting
from .checkpoint.snapshot import versions
from .option_fields import CODE
from .options import JobOptions
from .profiles import FixedBlocks
from .report import RECORD_FILES
from .spec import JobSpec

FORMAT: Final = "psgd.job/1"
NAME: Final = "job.toml"
MODEL_FILE: Final = "start.model"
FETCHED: Final = "fetched"
"""The key of a file that nodes have told."""


class _Unnamed(ValueError):
    """Only a program can make it; the message says what it is."""


def write_job_file(folder: Path, spec: JobSpec, job: str) -> None:
    """Write `job.toml`, and beside it the model that the run begins with.

    Raises: OSError.
    """
    content = spec.model.to_bytes()
    (folder / MODEL_FILE).write_bytes(content)
    publish(folder / NAME, job_text(spec, job, content), 0o644)


def job_text(spec: JobSpec, job: str, model: bytes) -> str:
    """The content of `job.toml`; `model` is that of the file of the model."""
    unnamed: dict[str, str] = {}
    tables: dict[str, dict[str, Any]] = {
        "model": {"file": MODEL_FILE, "sha256": hashlib.sha256(model).hexdigest()},
        "data": {},
        "options": {},
    }
    steps = () if spec.transform is None else spec.transform.steps
    for name, parts in (("dataset", (spec.data,)), ("transform", steps)):
        try:
            tables["data"][name] = ",".join(map(_object, parts)) or "none"
        except _Unnamed as error:
            unnamed[name] = str(error)
    tables["data"]["sha256"] = spec.data.checksum()
    for each in fields(JobOptions):
        about = each.metadata["option"]
        if about.flag is None and about.travels == CODE and getattr(spec.asked, each.name):
            unnamed[each.name] = "objects of a program"
        if about.flag is not None:
            try:
                value = _value(each.name, getattr(spec.plan.options if "codec" in each.name[-5:] else spec.asked, each.name))
            except _Unnamed as error:
                unnamed[each.name] = str(error)
                continue
            if value is not None:
                tables["options"][each.name] = value
    if spec.resume is not None:
        tables["options"]["resume"] = spec.resume.name
    plan = spec.plan
    tables["run"] = {
        "job": job,
        "workers": plan.assignment.node_count,
        "server": spec.options.nodes.has_parameter_server,
        "blocks": plan.assignment.block_count,
        **identity(spec.options.bits),
    }
    tables["unnamed"] = unnamed
    tables["rows"] = spec.data.row_checksums()
    lines = ["# What this run was; `psgd run` of this file trains it again.", f"format = {json.dumps(FORMAT)}"]
    for table, values in tables.items():
        if values:
            lines += ["", f"[{table}]", *(f"{name} = {_toml(value)}" for name, value in values.items())]
    return "\n".join(lines) + "\n"


def identity(bits: str | None) -> dict[str, str]:
    """What the bits of a job depend on besides its settings: versions, and the kernels here; `bits` is its option.

    Each worker has as many threads as another option says, however many there are here.
    """
    found = versions()
    return {**found, "kernels": f"{bits} bits" if bits else re.sub(r", \d+ thread\(s\)$", "", found["kernels"])}


def adopt(run: Path, files: Mapping[int, list[Path]]) -> None:
    """Move what nodes have of the record of a run into its folder, out of their `files`; what is there stays as it is."""
    for paths in files.values():
        for path in [path for path in paths if path.name in RECORD_FILES]:
            paths.remove(path)
            target = run / (NAME, MODEL_FILE)[RECORD_FILES.index(path.name)]
            with contextlib.suppress(OSError):  # it then stays where it is
                if not target.exists():
                    head = f"{FETCHED} = true\n".encode() if target.name == NAME else b""
                    path.write_bytes(head + path.read_bytes())
                    os.replace(path, target)
                path.unlink(missing_ok=True)


def _value(name: str, value: Any) -> Any:
    """The value of an option as the file has it; None where it is left out."""
    if name == "assignment_type" and isinstance(value, FixedBlocks):
        return f"fixed:{value.blocks}"
    if isinstance(value, SyncSetting):
        return f"{value.forms[0].partition(':')[0]}:{value.staleness:g}"
    if isinstance(value, type) or (name == "assignment_type" and callable(value)):
        return _name(value)
    if name in ("codec", "ps_codec") and isinstance(value, Mapping):
        return {str(variable): _name(kind) for variable, kind in value.items()}
    if name == "codec_extra_parameters":
        return [f"{key}={item}" for key, item in value.items() if _is_plain_pair(key, item)]
    if name == "class_weight" and value is not None:
        return ",".join(f"{number}={weight!r}" for number, weight in value.items())
    if name == "checkpoint_every":
        return "off" if value is None else str(value)
    if name == "callbacks":
        return [_callback(each) for each in value]
    if name == "writers":
        return [text for each in value if (text := _writer(each))]
    if name in ("blas_threads", "fault"):
        return str(value)
    if name == "gd_params":
        value = dict(value) if isinstance(value, Mapping) else list(value)
    if name == "discovery" and isinstance(value, os.PathLike):
        value = os.fspath(value)
    if name == "resume":  # by the name that it has for good
        return None
    _check_plain(value)
    return value


def _is_plain_pair(key: Any, item: Any) -> bool:
    if not isinstance(key, str) or type(item) not in (int, float, str):
        raise _Unnamed(f"{key!r} has a value that no text stands for")
    return True


def _check_plain(value: Any) -> None:
    if isinstance(value, (list, tuple, dict)):
        for item in value.values() if isinstance(value, dict) else value:
            _check_plain(item)
    elif value is not None and type(value) not in (bool, int, float, str):
        raise _Unnamed(f"an object of a program, {type(value).__name__}")


def _object(made: Any) -> str:
    """`NAME:KEY=VALUE,..` for a data set or a transform."""
    if isinstance(made, ArrayDataset):
        raise _Unnamed("samples in the memory of a program")
    parameters = inspect.signature(type(made)).parameters
    given = dict(made.get_config())
    for name, value in given.items():  # a file of this directory is found from any other one, too
        if name in parameters and "PathLike" in str(parameters[name].annotation) and isinstance(value, str) and value:
            given[name] = os.path.abspath(value) if os.path.exists(value) else value
    return _with_arguments(type(made), given)


def _with_arguments(kind: type[Any], given: Mapping[str, Any]) -> str:
    _check_plain(given)
    return _name(kind) + (":" if given else "") + ",".join(f"{name}={value!r}" for name, value in given.items())


def _callback(made: Callback) -> str:
    """Likewise for a callback, whose `get_config` must tell all arguments: no hash would show that one is another."""
    given, kind = made.get_config(), type(made)
    if untold := inspect.signature(kind).parameters.keys() - given.keys():
        raise _Unnamed(f"{kind.__name__}, whose get_config() does not tell {', '.join(sorted(untold))}")
    return _with_arguments(kind, given)


def _writer(made: Any) -> str:
    """Likewise for a writer that ships; "" for others, and where it may have a password: no result depends on writers."""
    kind = type(made)
    if not kind.__module__.startswith(f"{__package__}.writers.") or kind.__name__.startswith("_"):
        return ""
    values = ((name, getattr(made, name, None)) for name in inspect.signature(kind).parameters)
    given = {name: os.fspath(value) if isinstance(value, os.PathLike) else value for name, value in values}
    return "" if "@" in str(given) else _with_arguments(kind, given)


def _name(kind: Any) -> str:
    """By what name the command line finds a class."""
    module, name = kind.__module__, getattr(kind, "__qualname__", "")
    place = sys.modules.get(module)
    if not name.isidentifier() or getattr(place, name, None) is not kind:
        raise _Unnamed(f"made in a program, {name or kind!r}")
    if module.partition(".")[0] in ("nn", "parallel_sgd"):
        return str(name)
    file = getattr(place, "__file__", None)
    if module == "__main__" and file is None:
        raise _Unnamed(f"a class of an interactive session, {name}")
    return f"{os.path.abspath(file)}:{name}" if file and "." not in module else f"{module}:{name}"


def _toml(value: Any) -> str:
    if isinstance(value, dict):
        return "{" + ", ".join(f"{json.dumps(str(name))} = {_toml(item)}" for name, item in value.items()) + "}"
    if isinstance(value, (list, tuple)):
        return "[" + ", ".join(map(_toml, value)) + "]"
    if isinstance(value, str):
        return json.dumps(value).replace("\x7f", "\\u007f")
    return {True: "true", False: "false"}[value] if isinstance(value, bool) else repr(value)
