"""`job.toml`: what a run was, so that `psgd run` trains it again.

Its `[options]` are the fields of `JobOptions` that have a flag, with the values that the flags take; so there is one schema,
and what reads the command line reads the file. A part that only a program can make (a codec class of a notebook, arrays in
memory) has no text: `[unnamed]` says so, and asks for another one.
"""

from __future__ import annotations

import hashlib
import json
import os
import sys
from collections.abc import Mapping
from dataclasses import dataclass, field, fields
from pathlib import Path
from typing import Any, Final

from network.names import did_you_mean
from nn.dataset import ArrayDataset
from rpc.files import publish, read_toml

from .batch_sync.sync.interface import SyncSetting
from .checkpoint.snapshot import versions
from .option_fields import CODE, Flag
from .options import JobOptions
from .profiles import FixedBlocks
from .spec import JobSpec

FORMAT: Final = "psgd.job/1"
_FAMILY: Final = "psgd.job/"
NAME: Final = "job.toml"
MODEL_FILE: Final = "start.model"
_TABLES: Final[Mapping[str, Mapping[str, tuple[type, ...]]]] = {
    "model": {"file": (str,), "sha256": (str,)},
    "data": {"dataset": (str,), "transform": (str,), "sha256": (str,)},
    "run": {
        "job": (str,),
        "workers": (int,),
        "server": (bool,),
        "blocks": (int,),
        "parallel_sgd": (str,),
        "numpy": (str,),
        "python": (str,),
        "kernels": (str,),
    },
}
_NEEDED: Final = {"model": ("file", "sha256"), "data": ("sha256",), "run": ("workers", "blocks")}


@dataclass(frozen=True)
class JobFile:
    """What a job file says; `options` by field name, `dataset` and `transform`, as flags take them, if they have a text.

    `server`: whether there was a parameter server; `blocks` of a batch; `identity` is what the bits depend on besides: versions
    and kernels. `unnamed` tells, by option, what only a program can make.
    """

    path: Path
    model: Path
    model_sha256: str
    data_sha256: str
    dataset: str | None
    transform: str | None
    workers: int
    server: bool
    blocks: int
    options: Mapping[str, Any]
    identity: Mapping[str, str] = field(default_factory=dict)
    unnamed: Mapping[str, str] = field(default_factory=dict)

    @classmethod
    def read(cls, path: Path) -> JobFile:
        """The job in a file, or in the `job.toml` of a run's folder.

        Raises: ValueError naming the file, the key, what it must be and what came; OSError.
        """
        if path.is_dir():
            path = path / NAME
        try:
            content = read_toml(path)
        except OSError as error:
            raise ValueError(f"The job file {path} cannot be read: {error.strerror or error}.") from error
        except ValueError as error:
            raise ValueError(f"The job file {path} is no valid TOML: {error}.") from error
        try:
            return cls(path=path, **_checked(content, path.parent))
        except ValueError as error:
            raise ValueError(f"The job file {path} cannot be used: {error}{'' if str(error).endswith('?') else '.'}") from error


def _checked(content: Mapping[str, Any], folder: Path) -> dict[str, Any]:
    found = content.get("format")
    if found != FORMAT:
        if isinstance(found, str) and found.startswith(_FAMILY):
            raise ValueError(f"its format is {found!r}, of another version than {FORMAT!r}, which this release reads")
        raise ValueError(f"'format' must be {FORMAT!r}, got {found!r}")
    known = {"format", *_TABLES, "options", "unnamed"}
    _refuse_unknown("", content, known)
    for name in known - {"format"}:
        if not isinstance(content.get(name, {}), dict):
            raise ValueError(f"[{name}] must be a table, got {content[name]!r}")
    for table, kinds in _TABLES.items():
        values = content.get(table, {})
        _refuse_unknown(table, values, kinds)
        for name, value in values.items():
            _check_type(f"{table}.{name}", value, kinds[name])
        for name in _NEEDED[table]:
            if name not in values:
                raise ValueError(f"'{table}.{name}' is missing")
    model, data, run = (content[name] for name in ("model", "data", "run"))
    for name in ("workers", "blocks"):
        if run[name] < 1:
            raise ValueError(f"'run.{name}' must be a positive integer, got {run[name]}")
    flags = {each.name: each.metadata["option"].flag for each in fields(JobOptions)}
    options = content.get("options", {})
    _refuse_unknown("options", options, {name for name, flag in flags.items() if flag is not None})
    for name, value in options.items():
        _check_type(f"options.{name}", value, _types(name, flags[name]))
    file = folder / model["file"]
    if not file.is_file():
        raise ValueError(f"'model.file' must be a file, and there is none at {file}")
    return {
        "model": file,
        "model_sha256": model["sha256"],
        "data_sha256": data["sha256"],
        "dataset": data.get("dataset"),
        "transform": data.get("transform"),
        "workers": run["workers"],
        "server": run.get("server", False),
        "blocks": run["blocks"],
        "options": options,
        "identity": {name: run[name] for name in ("parallel_sgd", "numpy", "python", "kernels") if name in run},
        "unnamed": content.get("unnamed", {}),
    }


def _refuse_unknown(table: str, values: Mapping[str, Any], known: Any) -> None:
    for name in values:
        if name not in known:
            where = f"[{table}]" if table else "it"
            raise ValueError(f"{where} has no key {name!r}{did_you_mean(name, known)}")


def _types(name: str, flag: Flag) -> tuple[type, ...]:
    """The types that an option may have in the file: that of its flag, or data in place of a text that stands for it."""
    if name in ("codec", "ps_codec"):
        return (str, dict)
    if name == "gd_params":
        return (list, dict)
    if flag.settings.get("action") == "append":
        return (list,)
    if flag.settings.get("action") == "store_false":
        return (bool,)
    return {int: (int,), float: (float, int)}.get(flag.settings.get("type", str), (str,))


def _check_type(name: str, value: Any, kinds: tuple[type, ...]) -> None:
    if type(value) not in kinds:
        words = {str: "a text", int: "an integer", float: "a number", bool: "true or false", list: "a list", dict: "a table"}
        raise ValueError(f"'{name}' must be {' or '.join(words[kind] for kind in kinds[:2])}, got {value!r}")


# ---- writing


class _Unnamed(ValueError):
    """Only a program can make it; the message says what it is."""


def write_job_file(folder: Path, spec: JobSpec, job: str) -> None:
    """Write `job.toml`, and beside it the model that the run begins with.

    Raises: OSError.
    """
    content = spec.model.to_bytes()
    (folder / MODEL_FILE).write_bytes(content)
    unnamed: dict[str, str] = {}
    tables: dict[str, dict[str, Any]] = {
        "model": {"file": MODEL_FILE, "sha256": hashlib.sha256(content).hexdigest()},
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
        **versions(),
    }
    tables["unnamed"] = unnamed
    lines = ["# What this run was; `psgd run` of this file trains it again.", f"format = {json.dumps(FORMAT)}"]
    for table, values in tables.items():
        if values:
            lines += ["", f"[{table}]", *(f"{name} = {_toml(value)}" for name, value in values.items())]
    publish(folder / NAME, "\n".join(lines) + "\n", 0o644)


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
    given = made.get_config()
    _check_plain(given)
    return _name(type(made)) + (":" if given else "") + ",".join(f"{name}={value!r}" for name, value in given.items())


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
