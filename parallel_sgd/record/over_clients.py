"""Figures of a history over all clients of a job, each on the samples that it holds out: their columns and their words."""

from __future__ import annotations

from typing import Final

__all__ = ["columns_over_clients", "is_over_clients", "lines_over_clients", "words_over_clients"]
_START: Final = "clients_"
_TESTED: Final = "val_"
#: Ends of the names of columns, and what they are.
_WORDS: Final = {"": "clients", "_worst": "worst tenth of clients", "_spread": "spread over clients"}


def columns_over_clients(name: str) -> tuple[str, str, str]:
    """Return the columns of mean, worst tenth and spread of a figure.

    Args:
        name: the figure, `Loss` or a metric.
    """
    mean, worst, spread = (f"{_TESTED}{_START}{name}{end}" for end in _WORDS)
    return mean, worst, spread


def is_over_clients(column: str) -> bool:
    """Tell whether a column has a figure over all clients.

    Args:
        column: its name.
    """
    return column.startswith(_TESTED + _START)


def lines_over_clients(name: str) -> list[tuple[str, str]]:
    """Return the columns that are drawn beside a figure, each with its label.

    Args:
        name: the figure, `Loss` or a metric.
    """
    return list(zip(columns_over_clients(name)[:2], _WORDS.values(), strict=False))


def words_over_clients(name: str) -> str | None:
    """Return the words for a figure over clients; None for any other figure.

    Args:
        name: that of its column, without `val_` before it.

    >>> words_over_clients("clients_accuracy_worst")
    'accuracy, worst tenth of clients'
    """
    if not name.startswith(_START):
        return None
    end = next(each for each in reversed(_WORDS) if name.endswith(each))  # the empty end, which every name has, comes last
    return f"{name.removeprefix(_START).removesuffix(end)}, {_WORDS[end]}"
