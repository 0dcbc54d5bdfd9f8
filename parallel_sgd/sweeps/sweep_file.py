"""Reader of `sweep.toml`, a sweep as a file.

Its options have the names and the values of those in `job.toml`, and are read by the same code; in `[grid]` each has a list of
values.
"""

from __future__ import annotations

import os
from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Final

from ..options.fields import Flag
from ..options.forms import FORMS
from ..options.job_options import options as known_options
from ..record.bounds import check_title
from ..record.door import Door, RecordError
from ..record.job_file import check_type, is_model, refuse_unknown, types
from ..record.settings import text_of
from .grid import PARAMETERS, PARTS, WORKERS, checked_options, checked_seeds

__all__ = ["SweepFile"]
_TAKES: Final = "The sweep file must be a text in TOML with a table [grid]"
_KEYS: Final[Mapping[str, tuple[type, ...]]] = {
    "title": (str,),
    "model": (str,),
    "dataset": (str,),
    "transform": (str,),
    "seeds": (int, list),
    WORKERS: (int,),
    "platform": (str,),
    "new_weights": (bool,),
}
_TABLES: Final = ("options", "grid")


@dataclass(frozen=True)
class SweepFile:
    """Content of a sweep file.

    Args:
        title: name of the sweep.
        parts: by `model`, `dataset` and `transform`, its text, where it is given.
        seeds: number of seeds, or the seeds.
        options: options of all runs, and `workers`, by name.
        grids: by setting, the value behind each label; of a part its text.
        platform: that of simulated nodes, or None.
        new_weights: whether each seed has first weights of its own.
    """

    title: str
    parts: Mapping[str, str]
    seeds: int | list[int]
    options: Mapping[str, Any]
    grids: list[dict[str, Any]]
    platform: str | None
    new_weights: bool

    @classmethod
    def read(cls, path: Path) -> SweepFile:
        """Read a sweep file.

        Args:
            path: the file.

        Raises: ValueError naming the file, the key, the expectation and the value.
        """
        if os.path.isdir(path):
            raise ValueError(f"{_TAKES}, and {path} is a folder.")
        try:
            content = Door(path.parent).toml(path.name)
        except OSError as error:
            raise ValueError(f"The sweep file {path} cannot be read: {error.strerror or error}.") from error
        except RecordError as error:
            if is_model(path):
                raise ValueError(f"{_TAKES}, and {path} is a model.") from error
            raise ValueError(f"The sweep file {error}.") from error
        try:
            return cls(**_checked(content, path.stem))
        except (ValueError, TypeError) as error:
            text = str(error)
            raise ValueError(
                f"The sweep file {path} cannot be used: {text}{'' if text.endswith(('?', '.')) else '.'}"
            ) from error


def _checked(content: Mapping[str, Any], stem: str) -> dict[str, Any]:
    refuse_unknown("", content, {*_KEYS, *_TABLES})
    for name in _KEYS.keys() & content.keys():
        if not (name == "seeds" and isinstance(content[name], list)):  # its items are looked at below
            _common(name, content[name], lambda key, value: check_type(key, value, _KEYS[key]))
    seeds = content.get("seeds", 1)
    checked_seeds(seeds)
    common = content.get("options", {})
    if not isinstance(common, dict):
        raise ValueError(f"[options] must be a table, got {common!r}")
    flags = {name: about.flag for name, about in known_options() if about.flag is not None}
    checked_options(common)
    refuse_unknown("options", common, flags)
    options = {name: _common(f"options.{name}", value, _reader(name, flags)) for name, value in common.items()}
    if WORKERS in content:
        if content[WORKERS] < 1:
            raise ValueError(f"{WORKERS!r} must be a positive integer, got {content[WORKERS]}")
        options[WORKERS] = content[WORKERS]
    if "grid" not in content:
        raise ValueError("'grid' is missing: a table [grid] with lists of values, such as codec = ['plain', 'topk']")
    grids = content["grid"] if isinstance(content["grid"], list) else [content["grid"]]
    if not all(isinstance(grid, dict) for grid in grids):
        raise ValueError(f"[grid] must be a table, or several as [[grid]], got {content['grid']!r:.200}")
    return {
        "title": check_title(content.get("title", stem), "title"),
        "parts": {name: content[name] for name in PARTS if name in content},
        "seeds": seeds,
        "options": options,
        "grids": [dict(_axes(grid, flags)) for grid in grids],
        "platform": content.get("platform"),
        "new_weights": content.get("new_weights", True),
    }


def _common(key: str, value: Any, read: Callable[[str, Any], Any]) -> Any:
    """Read a value that all runs have; where it is a list, and must be none, the error names the table for lists of values."""
    try:
        return read(key, value)
    except ValueError as error:
        if not isinstance(value, list) or not (key in PARTS or key == WORKERS or key.startswith("options.")):
            raise
        raise ValueError(f"{error}; several values, a run for each, stand as a list in [grid]") from None


def _axes(grid: Mapping[str, Any], flags: Mapping[str, Flag]) -> Iterable[tuple[str, Any]]:
    known = {*flags, *PARTS, WORKERS}
    refuse_unknown("grid", grid, known)
    for name, values in grid.items():
        if isinstance(values, dict) and name in PARAMETERS:
            for key, each in values.items():
                _check_list(f"grid.{name}.{key}", each)
            yield name, values
            continue
        where, read = f"grid.{name}", _reader(name, flags)
        if isinstance(values, dict):
            # as in a program, labels in place of texts that may be long
            yield name, {label: read(where, value) for label, value in values.items()}
            continue
        _check_list(where, values)
        yield name, _labelled(where, values, read)


def _reader(name: str, flags: Mapping[str, Flag]) -> Callable[[str, Any], Any]:
    if name in flags:
        return lambda key, value: _read(key, flags[name], value)
    kinds = (int,) if name == WORKERS else (str,)

    def read(key: str, value: Any) -> Any:
        check_type(key, value, kinds)
        return value

    return read


def _check_list(key: str, values: Any) -> None:
    if not isinstance(values, list) or not values:
        raise ValueError(f"'{key}' must be a list of at least one value, got {values!r:.200}")


def _labelled(key: str, values: list[Any], read: Callable[[str, Any], Any]) -> dict[str, Any]:
    found: dict[str, Any] = {}
    for value in values:
        label = text_of(value)
        if label in found:
            raise ValueError(f"'{key}' must have different values, got {label!r} twice")
        found[label] = read(key, value)
    return found


def _read(key: str, flag: Flag, value: Any) -> Any:
    """Return the value of an option that an entry of the file stands for."""
    table, _, name = key.partition(".")
    try:
        # by the name in a job file, which has bounds for it
        check_type(f"options.{name}", value, types(flag))
    except ValueError as error:
        raise ValueError(str(error).replace("'options.", f"'{table}.", 1)) from error
    return FORMS[flag.form].read(f"'{key}'", value)
