"""Terminal or notebook of a submitter: the progress of the workers, and Ctrl-C as an event."""

from __future__ import annotations

import contextlib
import logging
import signal
import socket
import sys
import threading
from collections.abc import Callable, Iterable, Iterator, Mapping
from contextvars import ContextVar
from html import escape
from time import monotonic
from types import FrameType, TracebackType
from typing import Any, Final, TextIO

from tqdm import tqdm

from _psgd_packages import is_told, mark_told
from network.transport import Waker

from ..support.console import console_stream
from ..support.forks import catch
from ..support.logs import BRIEF, ConsoleFilter, clean, in_notebook, is_quiet, is_short

PROGRESS: Final = "Current progress: %s | Running"
FIRST_LINE: Final = 30.0
"""Seconds of a job after which a short console without a terminal tells how far it is."""


class _View:
    """View of the (percent, note) of each worker; this one shows nothing."""

    def begin(self, state: Mapping[int, tuple[int, str]]) -> None:
        """Begin with these workers; they have begun again, if there were others before."""

    def show(self, state: Mapping[int, tuple[int, str]], changed: int) -> None:
        """Show that worker `changed` is further than before, or new."""

    def close(self) -> None:
        """Leave the display as it is."""


class ProgressDisplay:
    """Display of workers from 0 to 100, each with a note on how it stands, such as its loss; nothing where `verbose` is 0.

    One for a whole job, however often it starts again: its maker closes it when nothing follows.

    Args:
        nodes: the workers to begin with.
        logger: log of the lines that share the terminal.
    """

    def __init__(self, nodes: Iterable[int], logger: logging.Logger) -> None:
        self._logger = logger
        self._state: dict[int, tuple[int, str]] = {}
        self._view: _View | None = None
        self.begin(nodes)

    def begin(self, nodes: Iterable[int]) -> None:
        """Begin an attempt on these workers; more may come by `add`."""
        self._state = dict.fromkeys(sorted(nodes), (0, ""))
        if self._state or self._view is not None:
            self._shown.begin(self._state)

    @property
    def _shown(self) -> _View:
        if self._view is None:  # not before there is something to show
            self._view = _View() if is_quiet() else _Bar() if in_notebook() else _lines_or_bars(self._logger)
        return self._view

    def add(self, node: int, percent: int, note: str = "") -> None:
        self._state = dict(sorted([*self._state.items(), (node, (percent, clean(note)))]))
        # a new line for a worker that has done nothing yet says nothing
        if not isinstance(self._shown, _PlainLines):
            self._shown.show(self._state, node)

    def __contains__(self, node: int) -> bool:
        return node in self._state

    def update(self, node: int, percent: int, note: str = "") -> None:
        # by whole percent: notes alone would redraw it with each batch
        if node in self._state and self._state[node][0] != percent:
            self._state[node] = (percent, clean(note))
            self._shown.show(self._state, node)

    def close(self) -> None:
        """Leave the display as it is, for good."""
        if self._view is not None:
            self._view.close()
            self._view = None


def _lines_or_bars(logger: logging.Logger) -> _View:
    # in a file, carriage returns of bars would be one long line
    if not sys.stderr.isatty():
        return _FewLines(logger) if is_short() else _PlainLines(logger)
    return _OneBar() if is_short() else _Bars()


class _PlainLines(_View):
    def __init__(self, logger: logging.Logger) -> None:
        self._logger = logger

    def show(self, state: Mapping[int, tuple[int, str]], changed: int) -> None:
        shown = " ".join(f"Worker({node}):{percent:3d}%" for node, (percent, _) in state.items())
        self._logger.info(PROGRESS, shown)


class _FewLines(_PlainLines):
    """Lines of a short console without a terminal: one after `FIRST_LINE` seconds, others after twice the time each, so that an
    epoch that takes long is not silent. Those of `_PlainLines` are for log files, as a short console passes them over.
    """

    def __init__(self, logger: logging.Logger) -> None:
        super().__init__(logger)
        self._pace = _Pace()
        self._due = FIRST_LINE

    def begin(self, state: Mapping[int, tuple[int, str]]) -> None:
        """Go on from 0; the time goes on, too."""
        self._pace.restart()

    def show(self, state: Mapping[int, tuple[int, str]], changed: int) -> None:
        """Tell the mean of all workers, and the time, when it is due."""
        super().show(state, changed)
        words = self._pace.told(state)
        if self._pace.seconds >= self._due:
            self._due = 2 * self._pace.seconds
            self._logger.info("%s", ", ".join(words), extra=BRIEF)


class _Pace:
    """Pace of all workers together: how far they are on average, for how long, and for how long still."""

    def __init__(self) -> None:
        self._began = self._since = monotonic()
        self._first: float | None = None

    @property
    def seconds(self) -> float:
        """Seconds since the first attempt began."""
        return monotonic() - self._began

    def restart(self) -> None:
        """Begin an attempt: the time that is left goes by its own pace."""
        self._since, self._first = monotonic(), None

    def told(self, state: Mapping[int, tuple[int, str]]) -> list[str]:
        """Return the mean of `state`, the seconds so far, and about how many are left where that is known."""
        mean = mean_of(state)
        self._first = mean if self._first is None else self._first
        now = monotonic()
        words = [f"{mean:.0f} % of {len(state)} worker{'s' * (len(state) != 1)}", f"{now - self._began:.0f} s"]
        # by the pace of this attempt, which may have begun beyond 0
        if self._first < mean < 100:
            words.append(f"about {(now - self._since) * (100 - mean) / (mean - self._first):.0f} s left")
        return words


def mean_of(state: Mapping[int, tuple[int, str]]) -> float:
    """Return the mean percentage of workers."""
    return sum(percent for percent, _ in state.values()) / max(len(state), 1)


class _ConsoleBar(tqdm):  # type: ignore[misc]  # tqdm has no types
    """Bar on standard error that no reader can hold up; so are the lines above it."""

    def __init__(self, **settings: Any) -> None:
        super().__init__(file=console_stream(sys.stderr), **settings)

    @classmethod
    def write(cls, s: str, file: TextIO | None = None, end: str = "\n", nolock: bool = False) -> None:
        """Show a line above the bars."""
        super().write(s, file=console_stream(sys.stdout if file is None else file), end=end, nolock=nolock)


class _Bars(_View):
    """Bars on a terminal, one per worker, in their order; log lines scroll above them."""

    def __init__(self, *, leave: bool = True) -> None:
        self.label = ""
        self._leave = leave
        # not above: in a notebook this module looks for widgets, and warns where there are none
        from tqdm.contrib.logging import logging_redirect_tqdm  # noqa: PLC0415

        self._bars: dict[int, _ConsoleBar] = {}
        self._above = contextlib.ExitStack()
        before = list(logging.getLogger().handlers)
        self._above.enter_context(logging_redirect_tqdm(tqdm_class=_ConsoleBar))
        for handler in logging.getLogger().handlers:
            if handler not in before:  # it writes above the bars in place of the console, and goes with them
                handler.addFilter(ConsoleFilter())

    def begin(self, state: Mapping[int, tuple[int, str]]) -> None:
        """Begin anew: bars of workers that are there again go on from 0, those of others go."""
        self._arrange(state)
        for bar in self._bars.values():
            # the time of the whole job, also where its attempts begin anew
            began = bar.start_t
            bar.set_postfix_str("", refresh=False)
            bar.reset()
            bar.start_t = began

    def show(self, state: Mapping[int, tuple[int, str]], changed: int) -> None:
        """Move the bar of one worker; make room for one that is new."""
        if list(self._bars) != list(state):
            self._arrange(state)
        percent, note = state[changed]
        bar = self._bars[changed]
        bar.set_postfix_str(note, refresh=False)
        bar.update(percent - bar.n)
        bar.refresh()

    def _arrange(self, state: Mapping[int, tuple[int, str]]) -> None:
        """Begin bars for new workers; from the first that is out of order on, they are drawn anew."""
        before, shown = self._bars, list(self._bars)
        kept = next((n for n, node in enumerate(state) if n >= len(shown) or shown[n] != node), len(state))
        for node in shown[kept:]:
            # drawn anew below, in another place
            before[node].leave = False
            before[node].close()
        self._bars = {node: before[node] for node in shown[:kept]}
        for position, (node, (percent, note)) in list(enumerate(state.items()))[kept:]:
            layout = f"{self.label or f'Worker({node})'}: {{percentage:3.0f}}%|{{bar:40}}| {{elapsed}}<{{remaining}}{{postfix}}"
            settings = {"initial": percent, "position": position, "leave": self._leave, "bar_format": layout}
            self._bars[node] = bar = _ConsoleBar(total=100, **settings)
            bar.set_postfix_str(note, refresh=False)
            if node in before:
                bar.start_t, bar.initial = before[node].start_t, before[node].initial

    def close(self) -> None:
        for bar in self._bars.values():
            bar.close()
        self._bars.clear()
        self._above.close()


class _OneBar(_View):
    """One bar for all workers, on a terminal with the short console; it goes when the job has ended."""

    def __init__(self) -> None:
        self._bars = _Bars(leave=False)

    def begin(self, state: Mapping[int, tuple[int, str]]) -> None:
        """Go on from 0."""
        self._bars.begin(self._all(state))

    def show(self, state: Mapping[int, tuple[int, str]], changed: int) -> None:
        """Show the mean of all workers, and the note of the one that has changed."""
        self._bars.show(self._all(state, state[changed][1]), 0)

    def _all(self, state: Mapping[int, tuple[int, str]], note: str = "") -> dict[int, tuple[int, str]]:
        self._bars.label = f"{len(state)} worker{'s' * (len(state) != 1)}"
        return {0: (int(mean_of(state)), note)}

    def close(self) -> None:
        """Take the bar away."""
        self._bars.close()


class _Bar(_View):
    """Bar in a notebook: one for all workers in the output of the cell, drawn anew as they go on. It needs no widgets."""

    def __init__(self) -> None:
        self._handle: Any = None
        self._pace = _Pace()

    def begin(self, state: Mapping[int, tuple[int, str]]) -> None:
        self._pace.restart()
        self._show(state, "starts again" if self._handle else "")

    def show(self, state: Mapping[int, tuple[int, str]], changed: int) -> None:
        """Show the mean of all workers, seconds so far and to come, and the note of the slowest worker that has one."""
        self._show(state, next((note for _, note in sorted(state.values()) if note), ""))

    def _show(self, state: Mapping[int, tuple[int, str]], note: str) -> None:
        words = self._pace.told(state)
        self._draw(mean_of(state), ", ".join([*words, note] if note else words))

    def _draw(self, mean: float, text: str) -> None:
        from IPython.display import display  # noqa: PLC0415 - is there in a notebook

        content = {
            "text/plain": f"|{'█' * round(mean * 0.4):40}| {text}",
            "text/html": f'<progress value="{mean:.0f}" max="100"></progress> {escape(text)}',
        }
        if self._handle is None:
            self._handle = display(content, raw=True, display_id=True)
        else:
            self._handle.update(content, raw=True)


class Interrupts:
    """Interrupts as events: while the `with` block runs, Ctrl-C makes `sock` readable, `take` and `noted` true, and raises no
    KeyboardInterrupt.

    Only in the main thread, where signals arrive, and only if the program has no handler of its own.
    """

    def __init__(self) -> None:
        # made for a loop that waits: short work that is not to be interrupted opens no socket
        self._waker: Waker | None = None
        self.noted = False
        self._installed = False

    @property
    def sock(self) -> socket.socket:
        """Socket that Ctrl-C makes readable."""
        if self._waker is None:
            self._waker = Waker()
            # pressed before there was anything to wake
            if self.noted:
                self._waker.wake()
        return self._waker.sock

    def _note(self, _number: int, _frame: FrameType | None) -> None:
        # before waking: a loop that wakes must find it
        self.noted = True
        if self._waker is not None:
            self._waker.wake()

    def take(self) -> bool:
        """Tell if Ctrl-C was pressed since the last call."""
        if self._waker is not None:
            self._waker.clear()
        noted, self.noted = self.noted, False
        return noted

    def __enter__(self) -> Interrupts:
        in_main = threading.current_thread() is threading.main_thread()
        # a handler of the program's own is its decision about Ctrl-C
        if in_main and signal.getsignal(signal.SIGINT) is signal.default_int_handler:
            catch(signal.SIGINT, self._note)
            self._installed = True
        return self

    def __exit__(self, *_: object) -> None:
        try:
            if self._installed:
                signal.signal(signal.SIGINT, signal.default_int_handler)
                self._installed = False
        finally:
            if self._waker is not None:
                self._waker.close()


def interrupted() -> KeyboardInterrupt:
    """Make the error to raise after Ctrl-C when the log has told its consequences: a plain program then ends without a
    traceback.

    It ends by the signal all the same. A program that shows errors in a way of its own, as notebooks do, goes on showing this
    one.
    """
    error = KeyboardInterrupt()
    mark_told(error)
    # a hook of the program's own knows better how to show errors
    if sys.excepthook is sys.__excepthook__:
        sys.excepthook = _show_untold
    return error


@contextlib.contextmanager
def uninterrupted() -> Iterator[None]:
    """Raise a Ctrl-C that comes in the block at its end, for short work that must not be left half done.

    A plain program then ends without a traceback.
    """
    interrupts = Interrupts()
    try:
        with interrupts:
            yield
    finally:
        if interrupts.noted:
            raise interrupted()


@contextlib.contextmanager
def telling(what: str | Callable[[], str], logger: logging.Logger, *, whole: bool = False) -> Iterator[None]:
    """Log that Ctrl-C has stopped the block, in a line that begins with `what`, unless it was told already, and end a plain
    program without a traceback.

    Args:
        what: name of the block that is stopped, or a function that returns it as it is then.
        logger: takes the line.
        whole: the blocks within are parts, of which the user knows nothing, so they leave the line to this one.
    """
    if _is_part.get():
        yield
        return
    before = _is_part.set(whole)
    # a program that goes on after an earlier one may begin this block while it handles that
    earlier = sys.exc_info()[1]
    try:
        yield
    except KeyboardInterrupt as error:
        # a second one comes while the first, which was told, is on its way
        if not _was_told(error, earlier):
            logger.warning("%s was stopped by Ctrl-C.", what if isinstance(what, str) else what())
        raise interrupted() from None
    finally:
        _is_part.reset(before)


_is_part: ContextVar[bool] = ContextVar("_is_part", default=False)


def _was_told(error: BaseException | None, earlier: BaseException | None) -> bool:
    while error is not None and error is not earlier:
        if is_told(error):
            return True
        error = error.__context__
    return False


def _show_untold(kind: type[BaseException], error: BaseException, traceback: TracebackType | None) -> None:
    if not is_told(error):
        sys.__excepthook__(kind, error, traceback)
