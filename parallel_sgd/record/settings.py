"""Settings of a run as its `job.toml` tells them, and which of them differ from the defaults."""

from __future__ import annotations

from dataclasses import MISSING, fields
from typing import Any, Final

from ..options.forms import Unnamed
from ..options.job_options import JobOptions
from .door import Door
from .files import JOB_FILE

__all__ = ["differing", "settings_of_run"]
_DATA: Final = ("dataset", "transform")
_RUN: Final = ("workers", "server", "blocks")
_TITLE: Final = "mission_title"
_MOST_TEXT: Final = 200


def settings_of_run(door: Door) -> dict[str, str]:
    """Return the settings in `job.toml` by name, as texts; none where there is none. Raises: RecordError.

    Args:
        door: of the folder of the run.
    """
    try:
        content = door.toml(JOB_FILE)
    except FileNotFoundError:
        return {}
    found: dict[str, str] = {}
    for table, names in (("data", _DATA), ("run", _RUN), ("options", None)):
        values = content.get(table, {})
        if not isinstance(values, dict):
            raise door.error(JOB_FILE, f"cannot be used: '{table}' must be a table")
        found |= {name: _text(value) for name, value in values.items() if names is None or name in names}
    return found


def differing(settings: dict[str, str]) -> dict[str, str]:
    """Return those settings that differ from the default of `parallel()`, without the title; data and workers always do."""
    defaults = _defaults()
    # against the texts that defaults have, since the file holds texts
    return {name: value for name, value in settings.items() if name != _TITLE and defaults.get(name, "") != value}


def _defaults() -> dict[str, str]:
    found = {"server": _text(False)}
    for each in fields(JobOptions):
        about = each.metadata["option"]
        if about.flag is not None and each.default not in (MISSING, None):
            # as a text of the file: both sides pass the same form
            try:
                found[each.name] = _text(about.form.write(each.default, str))
            except Unnamed:
                continue
    return found


def _text(value: Any) -> str:
    """Return a value of TOML as a text for people."""
    if isinstance(value, bool):
        return "yes" if value else "no"
    if isinstance(value, list):
        return _cut(", ".join(map(_text, value)))
    if isinstance(value, dict):
        return _cut(", ".join(f"{name}: {_text(one)}" for name, one in value.items()))
    return f"{value:.10g}" if isinstance(value, float) else _cut(str(value))


def _cut(text: str) -> str:
    return text if len(text) <= _MOST_TEXT else f"{text[:_MOST_TEXT]}..."
