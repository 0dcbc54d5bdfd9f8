"""How much a job shows, and where: `verbose`, and whether this is a notebook."""

from __future__ import annotations

import logging
import sys
from collections.abc import Iterator
from contextlib import AbstractContextManager, contextmanager
from contextvars import ContextVar
from typing import Final

QUIET: Final = 0
NORMAL: Final = 1
VERBOSE: Final = 2

#: What a notebook shows of the log, too: `logger.info("Job id: %s.", job, extra=HEADLINE)`.
HEADLINE: Final = {"headline": True}

_VERBOSITY: ContextVar[int] = ContextVar("rpc_verbosity", default=NORMAL)


def verbosity(level: int) -> AbstractContextManager[None]:
    """How much is shown by what this context runs in a `with` block.

    0: warnings and errors. 1: the story of a job, and its progress; in a notebook one bar, and of the story a few lines.
    2: all of it in a notebook, too.

    Raises: ValueError for another level.
    """
    if not isinstance(level, int) or level not in (QUIET, NORMAL, VERBOSE):
        raise ValueError(f"'verbose' must be 0, 1 or 2, got {level!r}")
    return _shown(int(level))


@contextmanager
def _shown(level: int) -> Iterator[None]:
    token = _VERBOSITY.set(level)
    try:
        yield
    finally:
        _VERBOSITY.reset(token)


def is_quiet() -> bool:
    """Whether no progress is shown."""
    return _VERBOSITY.get() == QUIET


def in_notebook() -> bool:
    """Whether this process is the kernel of a notebook."""
    shell = getattr(sys.modules.get("IPython"), "get_ipython", lambda: None)()
    return getattr(shell, "kernel", None) is not None


class ConsoleFilter(logging.Filter):
    """What the console shows of the log; files and handlers of the application get all of it."""

    def filter(self, record: logging.LogRecord) -> bool:
        """Whether it shows a record."""
        level = _VERBOSITY.get()
        if record.levelno >= logging.WARNING or level == VERBOSE:
            return True
        return level == NORMAL and (not in_notebook() or bool(getattr(record, "headline", False)))
