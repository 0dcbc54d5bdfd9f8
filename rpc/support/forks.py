"""Rules for processes that user code forks from one of ours: they end as they would anywhere, and hold nothing of ours.

Signals have their usual meaning again, connections and pipes of the parent are closed, and code that cleans up after the
parent's work does nothing. A child that comes back to code of ours ends there: that code serves the parent's job.
"""

from __future__ import annotations

import contextlib
import os
import signal
import threading
from collections.abc import Callable
from types import FrameType
from typing import Any, Final, Protocol
from weakref import WeakSet

Handler = Callable[[int, FrameType | None], Any]


class Closable(Protocol):
    """Socket, pipe or channel."""

    def close(self) -> object:
        """Close the socket, pipe or channel."""


def catch(number: int, handler: Handler) -> None:
    """Handle a signal in this process; in children that are forked from it the signal has its effect of any program.

    Call it in the main thread.
    """
    # Python allows this in the main thread alone
    signal.signal(number, handler)
    _caught[number] = handler


def close_in_children(held: Closable) -> None:
    """Close `held` in each process that is forked from this one, for as long as it exists: its other end waits for its end."""
    _held.add(held)


class OwnProcess:
    """Process in which this object was made. Code that cleans up or serves asks whether it still runs there."""

    def __init__(self) -> None:
        self.pid: Final = os.getpid()

    @property
    def is_here(self) -> bool:
        """Whether this process is the one in which the object was made, not a child of it."""
        return os.getpid() == self.pid

    def check(self, what: str) -> None:
        """Refuse to use something of the parent, named by `what`.

        Raises: RuntimeError naming it, such as "executor", both processes and the remedy.
        """
        if not self.is_here:
            raise self.refusal(what)

    def refusal(self, what: str) -> RuntimeError:
        """Return the error that `check` raises in a process that was forked from this one."""
        return RuntimeError(
            f"This {what} belongs to process {self.pid}, and process {os.getpid()} was forked from it: use it there, or make "
            f"one of its own here."
        )

    def end_child(self) -> None:
        """End a process that was forked from this one and has come back from user code, as the end of a program would.

        Raises: SystemExit, in such a process.
        """
        if not self.is_here:
            raise SystemExit(0)


_caught: Final = dict[int, Handler]()
# weak: being noted here must keep nothing alive
_held: Final = WeakSet[Closable]()


_masks: Final = dict[int, set[int]]()  # blocked signals of threads that fork just now


def _before_fork() -> None:
    """Keep a signal that comes while the child still has our handlers until it has none: Python would lose it there."""
    _masks[threading.get_ident()] = signal.pthread_sigmask(signal.SIG_BLOCK, _caught.keys())


def _unblock() -> None:
    signal.pthread_sigmask(signal.SIG_SETMASK, _masks.pop(threading.get_ident()))


def _in_child() -> None:
    # while they are blocked: the first signal must find the new handlers
    for number, handler in _caught.items():
        if signal.getsignal(number) is handler:  # the program has put none of its own in its place
            signal.signal(number, signal.default_int_handler if number == signal.SIGINT else signal.SIG_DFL)
    _unblock()
    for held in list(_held):
        with contextlib.suppress(OSError, ValueError):
            held.close()


os.register_at_fork(before=_before_fork, after_in_parent=_unblock, after_in_child=_in_child)
