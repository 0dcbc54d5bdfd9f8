"""Arguments about columns, checked, that data sets of tables have in common."""

from __future__ import annotations

import os
from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np

from nn import arguments
from nn.dataset.plan.cells import ISO, Spelling
from nn.dataset.plan.marks import check_marks
from nn.dataset.plan.plan import Plan

__all__ = ["forms_of", "given_plan", "names_of", "spelling_of"]


def names_of(owner: object, argument: str, value: Sequence[str] | None, *, empty: bool = False) -> list[str]:
    """Return a list of different column names.

    Args:
        owner: data set with the argument, named by its class in errors.
        argument: name of the argument, for errors.
        value: the names.
        empty: whether there may be none, which None stands for, too.

    Raises TypeError or ValueError naming the argument.
    """
    name = type(owner).__name__
    names = [] if empty and value is None else arguments.sequence(owner, argument, value, "column names")
    if not all(isinstance(each, str) for each in names):
        raise TypeError(f"{name} '{argument}' must be a list of column names, got {arguments.short(value)}")
    if not (names or empty) or len(set(names)) != len(names):
        raise ValueError(f"{name} '{argument}' must be a list of different column names, got {value!r}")
    # Those of NumPy are texts with another `repr`.
    return [str(each) for each in names]


def forms_of(owner: object, dates: Mapping[str, str] | Sequence[str] | None) -> dict[str, str]:
    """Return the form of the dates in each column by its name.

    Args:
        owner: data set with the argument, named by its class in errors.
        dates: forms by column name, or a list of names for ISO 8601.

    Raises TypeError naming the argument.
    """
    if dates is None:
        return {}
    if not isinstance(dates, Mapping):
        names = () if isinstance(dates, (str, bytes)) or hasattr(dates, "columns") or not np.iterable(dates) else list(dates)
        if names == () or not all(isinstance(name, str) for name in names):
            raise TypeError(_wrong_dates(owner, dates))
        return dict.fromkeys(map(str, names), ISO)
    if not all(isinstance(part, str) for pair in dates.items() for part in pair):
        raise TypeError(_wrong_dates(owner, dates))
    return dict(dates)


def _wrong_dates(owner: object, dates: object) -> str:
    return f"{type(owner).__name__} 'dates' must map column names to formats, as {{'built': '%d.%m.%Y'}}, got {dates!r}"


def spelling_of(
    owner: object, na_values: Sequence[str] | str | None, decimal: str | None, thousands: str | None, usual: Spelling
) -> tuple[list[str], str, str]:
    """Return further words for a gap, the decimal mark and that of thousands, those of `usual` for None.

    Args:
        owner: data set with the arguments, named by its class in errors.
        na_values: words for a gap, one or several.
        decimal: the mark before the fraction of a number.
        thousands: the mark between groups of digits, "" for none.
        usual: spelling that stands in for arguments that are None.

    Raises:
        TypeError, ValueError: naming the argument.
    """
    name = type(owner).__name__
    # One word, or several.
    words = list(usual.na_values)
    if na_values is not None:
        words = [na_values] if isinstance(na_values, str) else arguments.sequence(owner, "na_values", na_values, "texts")
    if not all(isinstance(word, str) for word in words):
        raise TypeError(f"{name} 'na_values' must be a list of texts, got {na_values!r}")
    decimal = usual.decimal if decimal is None else decimal
    thousands = usual.thousands if thousands is None else thousands
    check_marks(name, decimal, thousands)
    # As cells are stripped before they are compared.
    return [word.strip() for word in words], decimal, thousands


def given_plan(owner: object, plan: Plan | Mapping[str, Any] | str | os.PathLike[str] | None) -> Plan:
    """Return a plan that is given as itself, as its content, or as a file; an empty one for None.

    Args:
        owner: data set with the argument, named by its class in errors.
        plan: the plan, the content that `Plan.to_dict` gave, or a path.

    Raises:
        TypeError: for something else.
        ValueError, OSError: for a content or a file that is none.
    """
    if plan is None:
        return Plan()
    if isinstance(plan, Plan):
        return plan
    if isinstance(plan, (str, os.PathLike)):
        try:
            return Plan.load(plan)
        except OSError as error:
            raise type(error)(
                f"{type(owner).__name__} 'plan' must be a Plan, a file of one or its content, got {os.fspath(plan)!r}: "
                f"{error.strerror or error}"
            ) from error
    if isinstance(plan, Mapping):
        return Plan.from_dict(plan)
    raise TypeError(f"{type(owner).__name__} 'plan' must be a Plan, a file of one or its content, got {type(plan).__name__}")
