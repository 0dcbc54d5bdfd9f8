"""Settings of a run beside the defaults of `parallel()`."""

from __future__ import annotations

from dataclasses import MISSING, fields
from typing import Final

from ..options.forms import Unnamed
from ..options.job_options import JobOptions
from .settings import text_of

__all__ = ["defaults", "differing"]
_TITLE: Final = "mission_title"


def differing(settings: dict[str, str]) -> dict[str, str]:
    """Return those settings that differ from the default of `parallel()`, without the title; data and workers always do.

    One block per worker is the default.
    """
    known = {**defaults(), "blocks": settings.get("workers", "")}
    # against the texts that defaults have, since the file holds texts
    return {name: value for name, value in settings.items() if name != _TITLE and known.get(name, "") != value}


def defaults() -> dict[str, str]:
    """Return the defaults of `parallel()` by name, as texts like those of `settings_of_run`."""
    found = {"server": text_of(False), "transform": "none"}
    for each in fields(JobOptions):
        about = each.metadata["option"]
        if about.flag is not None and each.default not in (MISSING, None):
            try:
                found[each.name] = text_of(about.form.write(each.default, str))
            except Unnamed:
                continue  # no job file holds a default without a text
    return found
