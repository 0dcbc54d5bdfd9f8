"""Reader of `job.toml`, the settings of a run from which `psgd run` trains it again.

Its `[options]` are the fields of `JobOptions` that have a flag, with the values that the flags take; so there is one schema,
and the code that reads the command line reads the file. A part that only a program can make (a codec class of a notebook,
arrays in memory) has no text: `[unnamed]` says so, and asks for another one.
"""

from __future__ import annotations

import os
import re
from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, Final, NamedTuple

from network.names import did_you_mean
from nn.dataset.interface import PARTS
from nn.tensor_files import MAX_FILE

from ..options.fields import Flag
from ..options.forms import FORMS, Callbacks, Parts, PathOrText, Population, Writers
from ..options.job_options import options as known_options
from .bounds import bounded
from .door import Door, RecordError, is_plain
from .files import JOB_FILE
from .identity import Identities
from .job_record import CODE_TABLE, FETCHED, FORMAT
from .kept_data import KeptData
from .paths import as_seen, found_path, found_paths, meant_instead, missing_code

#: Key of [run] in files of release 1.0.0.
_RELEASE: Final = "parallel_sgd"
_FAMILY: Final = "psgd.job/"
_TABLES: Final[Mapping[str, Mapping[str, tuple[type, ...]]]] = {
    "model": {"file": (str,), "sha256": (str,)},
    "data": {"dataset": (str,), "transform": (str,), "sha256": (str,), "file": (str,), "file_sha256": (str,)},
    "run": {
        "job": (str,),
        "workers": (int,),
        "server": (bool,),
        "blocks": (int,),
        "writers": (int,),
        "clients": (str,),
    },
    "rows": dict.fromkeys(PARTS, (str,)),
}
# written as TOML lists of numbers, where all other lists are texts
_PLAIN_LISTS: Final = ("options.gd_params",)
ROWS: Final = re.compile(r"\S{1,40} \d{1,20}(x\d{1,20})*( [0-9a-f]{8})*")
_NEEDED: Final = {"model": ("file", "sha256"), "data": ("sha256",), "run": ("workers", "blocks"), "rows": ()}


@dataclass(frozen=True)
class JobFile:
    """Contents of a job file.

    Args:
        path: the file.
        model: the file of the model with which the run begins.
        model_sha256: hash that the model must have.
        data_sha256: checksum that the data set must have.
        dataset: the data set, as its flag takes it, None where it has no text.
        transform: the transform, as its flag takes it, None where it has no text.
        workers: number of workers.
        server: whether there was a parameter server.
        blocks: number of blocks of a batch.
        options: the options by field name.
        nodes: the identities of the processes that trained, by node (`record.identity`), once the run has ended.
        unnamed: by option, the parts that only a program can make.
        job: id of the job.
        rows: `row_checksums` of the data set.
        kept: the file of its samples beside the job file, if it has no text.
        code: the SHA-256 of each file of code that the job needed.
        population: identity of the clients of the job, "" where it had none.
        fetched: nodes have told it, so only built-in parts that it names may be imported (`record.code`).
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
    nodes: Identities = field(default_factory=dict)
    unnamed: Mapping[str, str] = field(default_factory=dict)
    job: str = ""
    rows: Mapping[str, str] = field(default_factory=dict)
    kept: KeptData | None = None
    code: Mapping[str, str] = field(default_factory=dict)
    population: str = ""
    fetched: bool = False

    @classmethod
    def read(cls, path: Path) -> JobFile:
        """Read the job in a file, or in the `job.toml` of a run's folder.

        Raises: ValueError naming the file, the key, the expectation and the value; OSError.
        """
        given = path
        if os.path.isdir(path):
            # by Door: a job file is of a stranger like all others (RUN-7)
            path = path / JOB_FILE
        try:
            content = Door(path.parent).toml(path.name)
        except OSError as error:
            near = meant_instead(path.parent) if isinstance(error, FileNotFoundError) and path.parent == given else ""
            raise ValueError(f"The job file {as_seen(path)} cannot be read: {error.strerror or error}{near}.") from error
        except RecordError as error:
            if is_model(path):
                raise ValueError(
                    f"The job file must be the job.toml of a run, or its folder, and {as_seen(path)} is a model, which "
                    f"'psgd submit -m {as_seen(path)}' trains."
                ) from error
            raise ValueError(f"The job file {error}.") from error
        try:
            found = path.parent.resolve() / path.name  # a link such as runs/latest names another run once one has begun
            return cls(path=found, **_checked(content, found.parent))
        except ValueError as error:
            # a question is its own end of the sentence
            raise ValueError(
                f"The job file {as_seen(path)} cannot be used: {error}{'' if str(error).endswith('?') else '.'}"
            ) from error


def is_model(path: Path) -> bool:
    """Tell if a file begins as a model does: with the length of a header (8 bytes) and a brace."""
    try:
        with Door(path.parent).open(path.name, MAX_FILE) as file:
            return file.read(9)[8:] == b"{"
    except (OSError, RecordError):
        return False


def _checked(content: Mapping[str, Any], folder: Path) -> dict[str, Any]:
    """Return the fields of `JobFile` that the content gives, with the files that it names where they are."""
    content = _as_today(content)
    _check_tables(content)
    model, data, run = (content[name] for name in ("model", "data", "run"))
    unnamed = dict(content.get("unnamed", {}))
    kept = _kept(data, folder, unnamed)
    texts = {name: found_paths(data[name], folder) for name in ("dataset", "transform") if name in data}
    options = _options(content, folder)
    for name, value in {**texts, **options.parts}.items():
        # each text may name a class whose file is gone
        values = value.values() if isinstance(value, dict) else value if isinstance(value, list) else [value]
        missing = next(filter(None, (missing_code(str(each), folder) for each in values)), "")
        if missing and name not in unnamed:
            unnamed[name] = missing
    if not is_plain(model["file"]):
        # a path upwards could have any file hashed or loaded
        raise ValueError(f"'model.file' must be a plain path below the folder, got {model['file'][:80]!r}")
    file = folder / model["file"]
    if not _is_there(folder, model["file"], MAX_FILE):
        raise ValueError(f"'model.file' must be a file, and there is none at {file}")
    return {
        "model": file,
        "model_sha256": model["sha256"],
        "data_sha256": data["sha256"],
        "dataset": None if "dataset" in unnamed else texts.get("dataset"),
        "transform": None if "transform" in unnamed else texts.get("transform"),
        "workers": run["workers"],
        "job": run.get("job", ""),
        "rows": content.get("rows", {}),
        "kept": None if "dataset" in unnamed else kept,
        "server": run.get("server", False),
        "blocks": run["blocks"],
        "options": {name: value for name, value in options.values.items() if name not in unnamed},
        "nodes": _identities(content.get("nodes", {})),
        "unnamed": unnamed,
        "code": content.get(CODE_TABLE, {}),
        "population": run.get("clients", ""),
        "fetched": bool(content.get(FETCHED)),
    }


def _as_today(content: Mapping[str, Any]) -> Mapping[str, Any]:
    """Return the content of a file of release 1.0.0 without the versions of its submitter in [run]."""
    run = content.get("run")
    if not isinstance(run, dict) or _RELEASE not in run:
        return content
    return {
        **content,
        "run": {name: value for name, value in run.items() if name not in (_RELEASE, "numpy", "python", "kernels")},
    }


def _check_tables(content: Mapping[str, Any]) -> None:
    """Refuse another format, unknown keys, values of another type, and missing keys."""
    found = content.get("format")
    if found != FORMAT:
        if isinstance(found, str) and found.startswith(_FAMILY):
            raise ValueError(f"its format is {found!r}, of another version than {FORMAT!r}, which this release reads")
        raise ValueError(f"'format' must be {FORMAT!r}, got {found!r}")
    known = {"format", FETCHED, *_TABLES, "options", "unnamed", "nodes", CODE_TABLE}
    refuse_unknown("", content, known)
    for name in known - {"format", FETCHED}:
        if not isinstance(content.get(name, {}), dict):
            raise ValueError(f"[{name}] must be a table, got {content[name]!r}")
    for table, kinds in _TABLES.items():
        values = content.get(table, {})
        # a key that is not known may be a misspelt one, and its default would train something else (RUN-9)
        refuse_unknown(table, values, kinds)
        # types before what is missing: numbers are compared below
        for name, value in values.items():
            check_type(f"{table}.{name}", value, kinds[name])
        for name in _NEEDED[table]:
            if name not in values:
                raise ValueError(f"'{table}.{name}' is missing")
    for table in ("unnamed", CODE_TABLE):
        for name, value in content.get(table, {}).items():
            check_type(f"{table}.{name}", value, (str,))
    run = content["run"]
    for name in ("workers", "blocks"):
        if run[name] < 1:
            # bounds are looked at by `check_type`; this is the lower end
            raise ValueError(f"'run.{name}' must be a positive integer, got {run[name]}")
    for name, value in content.get("rows", {}).items():
        if not ROWS.fullmatch(value):
            raise ValueError(f"'rows.{name}' must be a type, a shape and checksums, got {value[:60]!r}")


def _kept(data: Mapping[str, Any], folder: Path, unnamed: dict[str, str]) -> KeptData | None:
    """Return the file of the samples beside the job file; where it is gone, `unnamed` asks for the data set."""
    if "file" not in data:
        return None
    kept = KeptData(data["file"], data.get("file_sha256", ""))
    # a plain name: the file lies beside it, nowhere else
    if Path(kept.file).name != kept.file:
        raise ValueError(f"'data.file' must be the name of a file beside it, got {kept.file[:80]!r}")
    if not _is_there(folder, kept.file, MAX_FILE):
        # asked for like any other part that is not there
        unnamed["dataset"] = f"samples in the memory of a program, kept as {kept.file}, which is not in this folder"
    return kept


class _Options(NamedTuple):
    """Options of a job file by field name, and those among them that name parts or callbacks, so perhaps code of a user."""

    values: Mapping[str, Any]
    parts: Mapping[str, Any]


def _options(content: Mapping[str, Any], folder: Path) -> _Options:
    # options without a flag have no text, so a file cannot have them
    flags = {name: about.flag for name, about in known_options() if about.flag is not None}
    given = content.get("options", {})
    refuse_unknown("options", given, flags)
    for name, value in given.items():
        check_type(f"options.{name}", value, types(flags[name]))
    # of a run that nodes told: these would call what they name
    refused = ("discovery", "writers") if content.get(FETCHED) else ()
    found = {name: _found(flags[name].form, value, folder) for name, value in given.items() if name not in refused}
    return _Options(found, {name: found[name] for name in found if isinstance(FORMS[flags[name].form], (Parts, Callbacks))})


def _identities(table: Mapping[str, Any]) -> dict[int, list[str]]:
    for name, texts in table.items():
        if not re.fullmatch(r"-?[0-9]{1,9}", name):
            raise ValueError(f"[nodes] has nodes by their number, got {name[:40]!r}")
        check_type(f"nodes.{name}", texts, (list,))
    return {int(name): texts for name, texts in table.items()}


def _found(form: str, value: Any, folder: Path) -> Any:
    """Return the value of an option with the files that it names where they are."""
    if isinstance(value, list):
        return [_found(form, each, folder) for each in value]
    if isinstance(value, dict):
        return {name: _found(form, each, folder) for name, each in value.items()}
    if not isinstance(value, str):
        return value
    # by its form: only paths, parts and callbacks may name files
    made = FORMS[form]
    if isinstance(made, PathOrText):
        return found_path(value, folder)
    if not isinstance(made, (Parts, Callbacks, Population)):
        return value
    return found_paths(value, folder, arguments=isinstance(made, (Writers, Population)))


def _is_there(folder: Path, name: str, most: int) -> bool:
    """Tell if there is a regular file of this name. Raises: RecordError for an entry that is something else, or too large."""
    try:
        Door(folder).open(name, most).close()
    except FileNotFoundError:
        return False
    return True


def refuse_unknown(table: str, values: Mapping[str, Any], known: Any) -> None:
    for name in values:
        if name not in known:
            where = f"[{table}]" if table else "it"
            raise ValueError(f"{where} has no key {name!r}{did_you_mean(name, known)}")


def types(flag: Flag) -> tuple[type, ...]:
    """Return the types that an option may have in the file: that of its flag, or data in place of a text that stands for it."""
    if flag.settings.get("action") in ("store_false", "store_true"):
        return (bool,)
    return FORMS[flag.form].kinds or {int: (int,), float: (float, int)}.get(flag.settings.get("type", str), (str,))


def check_type(name: str, value: Any, kinds: tuple[type, ...]) -> None:
    """Check the type of a value. Raises: ValueError naming the key, for another type, and for a number beyond its bounds."""
    # exact types: true is no number here
    if type(value) not in kinds:
        words = {str: "a text", int: "an integer", float: "a number", bool: "true or false", list: "a list", dict: "a table"}
        shown = repr(value) if not isinstance(value, int) or abs(value) < 10**30 else "a long integer"
        raise ValueError(f"'{name}' must be {' or '.join(words[kind] for kind in kinds[:2])}, got {shown[:200]}")
    # texts alone, but for the parameters of the rule
    if type(value) is list and name not in _PLAIN_LISTS and not all(isinstance(item, str) for item in value):
        raise ValueError(f"'{name}' must be a list of texts, got {value!r}")
    # before anything is made of the number (RUN-9)
    bounded(name, value)
