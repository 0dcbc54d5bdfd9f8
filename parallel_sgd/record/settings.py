"""Settings of a run as its `job.toml` tells them."""

from __future__ import annotations

from typing import Any, Final

import nn.dataset
from nn.dataset import Plan, transforms
from nn.dataset.interface import AbsDataset
from nn.dataset.transforms.abstract import AbsTransformer

from ..options.names import known_classes, without_defaults
from .door import Door
from .files import JOB_FILE

__all__ = ["DATA", "settings_of_run", "text_of"]
DATA: Final = ("dataset", "transform")
"""Settings that tell the data of a run."""
_RUN: Final = ("workers", "server", "blocks")
_MOST_TEXT: Final = 200
#: Characters of a data set or transforms of which defaults are left out: text in brackets is read once for each of them.
_MOST_READ: Final = 4096


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
    for table, names in (("data", DATA), ("run", _RUN), ("options", None)):
        values = content.get(table, {})
        if not isinstance(values, dict):
            raise door.error(JOB_FILE, f"cannot be used: '{table}' must be a table")
        found |= {name: text_of(short(name, value)) for name, value in values.items() if names is None or name in names}
        # samples that a program had in memory have no name, and are no default
        if table == "data" and "dataset" not in values and isinstance(digest := values.get("sha256"), str):
            found["dataset"] = f"arrays {digest[:8]}"
    return found


def short(name: str, value: Any) -> Any:
    """Return a data set or transforms without the arguments that are defaults; any other setting as it is.

    Args:
        name: name of the setting.
        value: its value in a job file.
    """
    if name not in DATA or not isinstance(value, str) or len(value) > _MOST_READ:
        return value
    if name == "transform":
        return without_defaults(value, known_classes(transforms, AbsTransformer))
    plan = Plan()
    unsaid = {each: getattr(plan, each) for each in ("delimiter", "encoding", "missing", "unknown")} | plan.spelling._asdict()
    return without_defaults(value, known_classes(nn.dataset, AbsDataset), unsaid)


def text_of(value: Any) -> str:
    """Return a value of TOML as a text for people."""
    if isinstance(value, bool):
        return "yes" if value else "no"
    if isinstance(value, list):
        return _cut(", ".join(map(text_of, value)))
    if isinstance(value, dict):
        return _cut(", ".join(f"{name}: {text_of(one)}" for name, one in value.items()))
    return f"{value:.10g}" if isinstance(value, float) else _cut(str(value))


def _cut(text: str) -> str:
    return text if len(text) <= _MOST_TEXT else f"{text[:_MOST_TEXT]}..."
