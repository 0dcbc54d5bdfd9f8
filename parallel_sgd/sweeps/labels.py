"""Labels of the settings of a sweep: the texts that stand for their values in tables and curves."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, Final

from ..options.fields import Option
from ..options.forms import Unnamed
from ..record.settings import text_of

__all__ = ["DEFAULT", "label_of"]
DEFAULT: Final = "-"
"""Label of a setting that a grid leaves as it is."""


def label_of(value: Any, about: Option | None = None) -> str:
    """Return the text that stands for the value of a setting in tables.

    Args:
        value: the value.
        about: its option, None for another setting.
    """
    if value is None or isinstance(value, (bool, int, float, str)):
        return "none" if value is None else text_of(value)
    if isinstance(value, type):
        return value.__name__
    if about is not None:
        try:
            return text_of(about.form.write(value, lambda path: path.rpartition("/")[2]))
        except (Unnamed, AttributeError, TypeError, ValueError):
            pass  # the form is of other values
    if isinstance(value, Mapping):
        return ", ".join(f"{key}: {label_of(each)}" for key, each in value.items())
    if isinstance(value, (list, tuple)):
        return ", ".join(label_of(each) for each in value)
    return repr(value)[:80]
