"""Words of a page for the work of a worker: a short one that anybody knows, and the exact term, which stands in a tooltip."""

from __future__ import annotations

from collections.abc import Mapping
from html import escape
from types import MappingProxyType
from typing import Final

from network.nodes import PARAMETER_SERVER
from parallel_sgd.record.over_clients import words_over_clients

__all__ = ["ORDER", "PHASES", "WAIT", "figure", "term", "word", "worker"]

WAIT: Final = "wait"
ORDER: Final = ("data", "compute", "encode", "send", "wait", "merge", "rule")
"""Phases of a batch in the order in which they are drawn; in truth packets are encoded and merged in between."""
PHASES: Final[Mapping[str, tuple[str, str]]] = MappingProxyType(
    {
        "data": ("load", "data: the worker fetches and transforms the samples of its blocks"),
        "compute": ("compute", "compute: forward and backward pass over the blocks of the worker"),
        "encode": ("encode", "encode: codecs make packets of the worker's gradients"),
        "send": ("send", "send: the worker hands packets to the operating system"),
        "wait": ("wait", "wait: for packets of other workers"),
        "merge": ("combine", "merge: codecs decode and combine the packets of other workers"),
        "rule": ("update", "rule: the gradient descent rule changes the weights"),
        "between": ("evaluate", "between: the time between two batches, for evaluation, checkpoints and tables"),
        "restart": ("restart", "restart: from the last batch before a failure to the first one after it"),
    }
)
"""By the name of a phase in tables: the word that a page shows, and the exact term with its meaning."""


_FIGURES: Final[Mapping[str, str]] = MappingProxyType(
    {"bytes": "bytes sent", "client_bytes": "bytes of clients", "seconds": "seconds of the clients' clock"}
)


def figure(name: str) -> str:
    """Return the words that a page shows for a figure of a history, such as `client_bytes`; its name where there are none."""
    return _FIGURES.get(name) or words_over_clients(name) or name


def word(phase: str) -> str:
    """Return the word that a page shows for a phase; the name itself where there is none."""
    return PHASES[phase][0] if phase in PHASES else phase


def term(shown: str, exact: str) -> str:
    """Return HTML of a text with its exact term as a tooltip.

    Args:
        shown: text that a newcomer knows.
        exact: term of the field; only the text is returned where it is empty.
    """
    return f'<abbr title="{escape(exact, quote=True)}">{escape(shown)}</abbr>' if exact else escape(shown)


def worker(node: int) -> str:
    """Return the name of a `node` on a page: its number, or parameter server."""
    return "parameter server" if node == PARAMETER_SERVER else f"worker {node}"
