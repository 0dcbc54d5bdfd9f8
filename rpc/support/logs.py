"""Log lines: their form, everywhere (`INFO P-SGD Submit@23:23:13: Start job.`), and how much of them a console shows."""

from __future__ import annotations

import logging
import os
import sys
from collections.abc import Callable, Iterator
from contextlib import AbstractContextManager, contextmanager
from contextvars import ContextVar
from datetime import datetime
from io import TextIOWrapper
from logging.handlers import RotatingFileHandler
from pathlib import Path
from typing import TYPE_CHECKING, Final, TextIO, cast

import _psgd_packages

from .console import console_stream, fitted, tell_where

SUBMIT_LOGGER = "P-SGD Submit"
_FORMAT, _TIME = "%(levelname)s %(name)s@%(asctime)s: %(message)s", "%H:%M:%S"
AGENT_LOG_BYTES, _AGENT_LOG_PARTS = 10 << 20, 5


class _PrivateFileHandler(RotatingFileHandler):
    """Handler of a file that, in every part, also those begun by rotation, is readable by its owner only.

    Where the disk refuses lines, one warning tells it to the other handlers, and another line that it takes them again.
    """

    _refusal: OSError | None = None  # of the record in hand
    _refuses = False
    _news: str | None = None  # to be told

    def _open(self) -> TextIOWrapper:
        return cast(TextIOWrapper, open(self.baseFilename, self.mode, encoding=self.encoding, opener=_private))

    def handle(self, record: logging.LogRecord) -> bool:
        """Handle a record, and tell where the disk has begun or ceased to refuse lines."""
        found = super().handle(record)
        # without the lock: the handler of another file may tell this one of its disk at the same moment
        news, self._news = self._news, None
        if news is not None:
            (_log.warning if self._refuses else _log.info)("%s", news)
        return bool(found)

    def emit(self, record: logging.LogRecord) -> None:
        """Write a record, or leave it to the other handlers where the disk does not take it."""
        self._refusal = None
        super().emit(record)
        refused = self._refusal is not None
        if refused is self._refuses:
            return
        self._refuses = refused
        if self._refusal is None:
            self._news = f"The disk takes lines for {self.baseFilename} again; some may be missing."
        else:
            reason = self._refusal.strerror or self._refusal
            self._news = f"The disk refuses lines for {self.baseFilename} ({reason}): they are on the console alone."

    def handleError(self, record: logging.LogRecord) -> None:  # the name is logging's
        """Note that the disk refuses a line; any other error is told as any handler does."""
        error = sys.exc_info()[1]
        if isinstance(error, OSError):
            self._refusal = error
        else:
            super().handleError(record)


def _private(path: str, flags: int) -> int:
    # a link that another user has put there would have the log written elsewhere
    return os.open(path, flags | os.O_NOFOLLOW, 0o600)


class CleanFormatter(logging.Formatter):
    """Formatter of records: text of peers can neither act on a terminal nor pass for a line of its own. `told` changes the
    text.
    """

    def __init__(self, told: Callable[[str], str] = str) -> None:
        super().__init__(_FORMAT, _TIME)
        self._told = told

    def format(self, record: logging.LogRecord) -> str:
        """Format a record: the line as `told` tells it, its continuation lines indented, control characters but tabs shown
        as escapes.
        """
        if getattr(record, "plain", False):
            return clean_text(record.getMessage())
        return clean_lines(self._told(super().format(record)))


class ConsoleFormatter(CleanFormatter):
    """Formatter that gives errors and warnings of a job the look of its other lines on a short console, and breaks sentences
    where the terminal ends.

    Args:
        stream: the stream where they are shown.
    """

    def __init__(self, stream: TextIO) -> None:
        super().__init__()
        self._stream = stream

    def format(self, record: logging.LogRecord) -> str:
        is_ours = record.name == SUBMIT_LOGGER or record.name.partition(".")[0] in _psgd_packages.NEEDED
        is_brief = is_ours and record.levelno >= logging.WARNING and _tells_briefly()
        if is_brief:
            text = clean_lines(f"{record.levelname.lower():8} {record.getMessage()}")
        else:
            text = super().format(record)
        # in the form of the log a line stays one, and so does what is to be copied
        is_told = is_brief or getattr(record, "plain", False)
        return fitted(text, console_stream(self._stream)) if is_told and not hasattr(record, "copied") else text


class _DatedFormatter(CleanFormatter):
    """Formatter that writes times as dates and times of ISO 8601, such as 2026-11-28T20:19:08+01:00."""

    def formatTime(self, record: logging.LogRecord, datefmt: str | None = None) -> str:
        return datetime.fromtimestamp(record.created).astimezone().isoformat(timespec="seconds")


class _CleanFilter(logging.Filter):
    """Filter that cleans a record before any handler formats it."""

    def filter(self, record: logging.LogRecord) -> bool:
        try:
            text = record.getMessage()
        except (TypeError, ValueError, KeyError):  # arguments that do not fit, which the handler will complain about
            return True
        shown = clean_lines(text)
        if shown != text:
            # formatted here: handlers of the application would else format the peer's text themselves
            record.msg, record.args = shown, None
        if record.exc_info and not record.exc_text:  # formatters take this text where it is there
            record.exc_text = clean_lines("\n" + logging.Formatter().formatException(record.exc_info))[1:]
        return True


_CLEAN_FILTER = _CleanFilter()


def get_logger(name: str) -> logging.Logger:
    """Return the logger of that name; its records are clean for any handler: an application may have configured its own."""
    return cleaned(logging.getLogger(name))


def cleaned(logger: logging.Logger) -> logging.Logger:
    logger.addFilter(_CLEAN_FILTER)
    return logger


def clean_text(text: str, limit: int = 4096) -> str:
    """Clean text of a peer for a terminal: each line cleaned, and cut at `limit`."""
    return "\n".join(clean(line, limit) for line in text.split("\n"))


def clean_lines(text: str) -> str:
    """Clean text of a peer for the log: each line cleaned, those after the first behind a tab, so that none passes for
    another.
    """
    first, *rest = (_escape(line, keep="\t") for line in text.split("\n"))
    return "\n".join([first, *(line if line.startswith("\t") else "\t" + line for line in rest)])


def clean(text: str, limit: int = 512) -> str:
    """Clean text of a peer for one log line: control characters escaped, cut at `limit`."""
    # cut before it is escaped: a huge text costs no more than a short one
    shown = _escape(text[: limit + 1])
    return shown if len(shown) <= limit else shown[:limit] + "..."


def _escape(text: str, keep: str = "") -> str:
    if text.isprintable():  # nearly all texts: by character it takes ten times as long
        return text
    return "".join(c if c.isprintable() or c in keep else ascii(c)[1:-1] for c in text)


if TYPE_CHECKING:
    _TextHandler = logging.StreamHandler[TextIO]
else:
    _TextHandler = logging.StreamHandler  # which takes no parameter in Python 3.10


class ConsoleHandler(_TextHandler):
    """Handler that shows records on a standard stream; a reader that does not read cannot hold up the program."""

    def emit(self, record: logging.LogRecord) -> None:
        """Show a record, or leave it out where the stream does not take it (see `rpc.support.console`)."""
        try:
            shown = console_stream(self.stream)
            shown.write(self.format(record) + self.terminator)
            shown.flush()
        except Exception:  # noqa: BLE001  as any handler of logging: a record that cannot be shown ends no program
            self.handleError(record)


def attach_console(level: int = logging.INFO) -> None:
    """Show the log on stderr, in a notebook with its output, unless the application has configured logging itself.

    A level that it has set stays; WARNING is no such level, because every program begins with it.
    """
    root = logging.getLogger()
    if root.handlers:
        # an application that has configured logging has decided what is shown
        return
    stream = sys.stdout if in_notebook() else sys.stderr
    handler = ConsoleHandler(stream)
    # bars, above which the lines of the log are shown, take the formatter over
    handler.setFormatter(ConsoleFormatter(stream))
    handler.addFilter(ConsoleFilter())
    root.addHandler(handler)
    if root.level in (logging.NOTSET, logging.WARNING):
        root.setLevel(level)


def attach_file(path: Path) -> logging.Handler:
    """Write the log to a rotating file too, readable by its owner only: 10 MiB, five parts, which may span months; so each
    line has the date, and the distance to UTC, where the console has the time alone.
    """
    handler = _PrivateFileHandler(path, maxBytes=AGENT_LOG_BYTES, backupCount=_AGENT_LOG_PARTS - 1, encoding="utf-8")
    handler.setFormatter(_DatedFormatter())
    logging.getLogger().addHandler(handler)
    tell_where(str(path))
    return handler


_log = get_logger(__name__)

QUIET: Final = 0
NORMAL: Final = 1
VERBOSE: Final = 2

#: Mark of records that the short console shows, too, in the form of the log: `logger.info("Job id: %s.", job, extra=HEADLINE)`.
HEADLINE: Final = {"headline": True}
#: Mark of such records that are shown as text alone, without level, name and time.
PLAIN: Final = {"headline": True, "plain": True}
#: Mark of such records for the short console alone: the console of the whole story has other lines for them.
BRIEF: Final = {"headline": True, "plain": True, "brief": True}
#: Mark of PLAIN records with a command or a path, to be copied as they stand: no narrow terminal breaks their line.
COPIED: Final = {**PLAIN, "copied": True}
#: Key of warnings of a job process that a disk refuses what it writes, and of records that it takes it again, with what that
#: is: the submitter hears the first warning, and of the end when nothing is refused any more; the log of the node has all.
DISK_REFUSES: Final = "disk_refuses"
DISK_TAKES: Final = "disk_takes"
#: An error or a warning of which a short console has another line, and such a line.
DETAIL: Final = {"detail": True}
IN_BRIEF: Final = {"brief": True}
#: A verdict on a node, of which an owner of the job that starts a process again has a line of its own.
VERDICT: Final = {"verdict": True}

_VERBOSITY: ContextVar[int] = ContextVar("rpc_verbosity", default=NORMAL)
_SHORT: ContextVar[bool] = ContextVar("rpc_short_console", default=False)


def verbosity(level: int, *, short: bool | None = None) -> AbstractContextManager[None]:
    """Set how much this context shows in a `with` block.

    Args:
        level: 0 for warnings and errors; 1 for the story of a job and its progress, or a short console, which a notebook always
            has; 2 for all of it everywhere.
        short: whether level 1 has the short console; None for what the context around has.

    Raises: ValueError for another level.
    """
    if not isinstance(level, int) or level not in (QUIET, NORMAL, VERBOSE):
        raise ValueError(f"'verbose' must be 0, 1 or 2, got {level!r}")
    return _shown(int(level), short)


def short_console(wanted: bool = True) -> AbstractContextManager[None]:
    """Give this context the short console in a `with` block, if it is wanted or the context around has it.

    Args:
        wanted: whether it is. How much is shown, `verbosity`, stays.
    """
    return _shown(_VERBOSITY.get(), wanted or _SHORT.get())


@contextmanager
def _shown(level: int, short: bool | None) -> Iterator[None]:
    # of the context, not of the process: two jobs in two threads may differ
    token, other = _VERBOSITY.set(level), _SHORT.set(_SHORT.get() if short is None else short)
    try:
        yield
    finally:
        _VERBOSITY.reset(token)
        _SHORT.reset(other)


def is_quiet() -> bool:
    return _VERBOSITY.get() == QUIET


def is_short() -> bool:
    """Tell if the console shows the headlines of a job in place of its whole story."""
    return _VERBOSITY.get() == NORMAL and _tells_briefly()


def _tells_briefly() -> bool:
    """Tell if warnings and errors have their short form here, also where nothing else is shown."""
    return _VERBOSITY.get() != VERBOSE and (_SHORT.get() or in_notebook())


def has_short_console() -> bool:
    """Tell if the context has asked for the short console, at any level."""
    return _SHORT.get()


def in_notebook() -> bool:
    # from what is loaded: asking must not import IPython
    shell = getattr(sys.modules.get("IPython"), "get_ipython", lambda: None)()
    return getattr(shell, "kernel", None) is not None


class ConsoleFilter(logging.Filter):
    """Filter of the log for the console; files and handlers of the application get all of it."""

    def filter(self, record: logging.LogRecord) -> bool:
        level = _VERBOSITY.get()
        if level == VERBOSE:
            return True
        if record.levelno >= logging.WARNING:
            return not hasattr(record, "detail" if _tells_briefly() else "brief")
        return level == NORMAL and (hasattr(record, "headline") if is_short() else not hasattr(record, "brief"))
