"""Ctrl-C that comes while Python runs the finalizer of an object or the callback of a weak reference.

Python prints an exception of such a place ("Exception ignored in ..") and goes on, so that the program would neither end nor be
quiet.
"""

from __future__ import annotations

import _thread
import contextlib
import sys
import threading
from collections.abc import Iterator
from typing import Any, Final

_LATER_SECONDS: Final = 0.01  # by then the finalizer has mostly returned; if not, it is put off again


@contextlib.contextmanager
def interrupts_put_off() -> Iterator[None]:
    """Raise, in the block, a Ctrl-C of such a place a moment later, where the program can take it, and print nothing of it.

    It does nothing outside of the main thread, the only one that Ctrl-C reaches.
    """
    if threading.current_thread() is not threading.main_thread():
        yield
        return
    before = sys.unraisablehook

    def put_off(told: Any) -> None:
        if not issubclass(told.exc_type, KeyboardInterrupt):
            before(told)
            return
        # not from here: Python would take it before it leaves this function
        with contextlib.suppress(RuntimeError):  # the interpreter ends, which is all that was wanted
            timer = threading.Timer(_LATER_SECONDS, _thread.interrupt_main)
            timer.daemon = True
            timer.start()

    sys.unraisablehook = put_off
    try:
        yield
    finally:
        if sys.unraisablehook is put_off:
            sys.unraisablehook = before
