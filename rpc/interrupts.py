"""Ctrl-C as an event: noted when it comes, looked at when it can be acted on, so that none falls between two statements."""

from __future__ import annotations

import contextlib
import logging
import signal
import sys
import threading
from collections.abc import Iterator
from types import FrameType, TracebackType

from network.transport import Waker


class Interrupts:
    """While the `with` block runs, Ctrl-C makes `sock` readable and `take` true instead of raising KeyboardInterrupt.

    Only in the main thread, where signals arrive, and only if the program has no handler of its own.
    """

    def __init__(self) -> None:
        self._waker = Waker()
        self.sock = self._waker.sock
        self._noted = False
        self._installed = False

    def _note(self, _number: int, _frame: FrameType | None) -> None:
        self._noted = True
        self._waker.wake()

    def take(self) -> bool:
        """Whether Ctrl-C was pressed since the last call."""
        self._waker.clear()
        noted, self._noted = self._noted, False
        return noted

    def __enter__(self) -> Interrupts:
        in_main = threading.current_thread() is threading.main_thread()
        if in_main and signal.getsignal(signal.SIGINT) is signal.default_int_handler:
            signal.signal(signal.SIGINT, self._note)
            self._installed = True
        return self

    def __exit__(self, *_: object) -> None:
        if self._installed:
            signal.signal(signal.SIGINT, signal.default_int_handler)
            self._installed = False
        self._waker.close()


def interrupted() -> KeyboardInterrupt:
    """What to raise after Ctrl-C when the log has told what came of it: a plain program then ends without a traceback.

    It ends by the signal all the same. Whoever shows errors in a way of its own, as notebooks do, goes on showing this one.
    """
    error = KeyboardInterrupt()
    vars(error)[_TOLD] = True
    if sys.excepthook is sys.__excepthook__:
        sys.excepthook = _show_untold
    return error


@contextlib.contextmanager
def telling(what: str, logger: logging.Logger) -> Iterator[None]:
    """Ctrl-C in the block is told in a line that begins with `what`, unless it was told already, and ends a plain program
    without a traceback."""
    try:
        yield
    except KeyboardInterrupt as error:
        if vars(error).get(_TOLD):
            raise
        logger.warning("%s was interrupted.", what)
        raise interrupted() from None


_TOLD = "told"


def _show_untold(kind: type[BaseException], error: BaseException, traceback: TracebackType | None) -> None:
    if not vars(error).get(_TOLD):
        sys.__excepthook__(kind, error, traceback)
