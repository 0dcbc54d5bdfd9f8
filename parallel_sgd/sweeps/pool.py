"""Pool of processes for the runs of a sweep: children of this process, each of which trains one run after the other."""

from __future__ import annotations

import contextlib
import multiprocessing
import os
import signal
import threading
import time
import warnings
from collections.abc import Callable, Iterator
from multiprocessing.connection import Connection, wait
from queue import SimpleQueue
from typing import Any, Final, Generic, TypeVar

from rpc.support.forks import close_in_children

__all__ = ["Ended", "Pool"]

Order = TypeVar("Order")
Answer = TypeVar("Answer")
_END_SECONDS: Final = 10.0


class Ended(Exception):
    """Error for a process of the pool that has ended before its order was carried out; the message tells how."""


class _Child(Generic[Order, Answer]):
    """Process of the pool, with the order that it carries out, or None."""

    def __init__(self, carry_out: Callable[[Order], Answer]) -> None:
        self.order: Order | None = None
        context = multiprocessing.get_context("fork")
        self.connection, theirs = context.Pipe()
        # else each younger sibling would hold this end, and the child would not see the end of its parent
        close_in_children(self.connection)
        # forked, so that models, data and classes of a program or a notebook are there without being sent
        self.process = context.Process(target=_serve, args=(theirs, carry_out))
        with warnings.catch_warnings():
            # of Python 3.12 and later, for threads of BLAS: the library stops them before a fork and starts them after it
            warnings.simplefilter("ignore", DeprecationWarning)
            self.process.start()
        theirs.close()

    def give(self, order: Order) -> None:
        """Have the process carry out an order."""
        self.connection.send(order)
        self.order = order

    def answer(self) -> Answer | Ended:
        """Return the answer to the order, or how the process has ended."""
        try:
            answer: Answer = self.connection.recv()
        except (EOFError, OSError):
            self.process.join(_END_SECONDS)  # the exit code of a child is known when it has been waited for
            code = self.process.exitcode
            how = "" if code is None else f" by signal {-code}" if code < 0 else f" with exit code {code}"
            return Ended(f"the process of the run has ended{how}")
        self.order = None
        return answer

    def interrupt(self) -> None:
        """Ask the process to stop: what it computes ends as after Ctrl-C."""
        with contextlib.suppress(OSError, ValueError, BrokenPipeError):  # it may have ended by itself
            if self.order is None:
                self.connection.close()  # a child that waits for an order ends with its connection
            elif self.process.pid is not None:
                os.kill(self.process.pid, signal.SIGINT)

    def end(self, deadline: float) -> None:
        """Wait for the end of the process until a moment of the monotonic clock, then kill it."""
        self.process.join(max(0.0, deadline - time.monotonic()))
        if self.process.is_alive():
            self.process.kill()
            self.process.join()
        self.connection.close()
        self.process.close()


class Pool(Generic[Order, Answer]):
    """Processes that are forked when they are needed, and end with this object.

    Args:
        most: the largest number of them.
        carry_out: carries out an order, in a child.
    """

    def __init__(self, most: int, carry_out: Callable[[Order], Answer]) -> None:
        self._most, self._carry_out = most, carry_out
        self._children: list[_Child[Order, Answer]] = []

    @property
    def has_room(self) -> bool:
        """Whether a further order would be carried out at once."""
        return self.under_way < self._most

    @property
    def under_way(self) -> int:
        """Number of orders that are carried out."""
        return sum(child.order is not None for child in self._children)

    def give(self, order: Order) -> None:
        """Have an order carried out."""
        for child in [child for child in self._children if child.order is None]:
            try:
                child.give(order)
            except OSError:  # it was killed while it had nothing to do
                self._children.remove(child)
                child.end(time.monotonic())
            else:
                return
        child = _Child(self._carry_out)
        self._children.append(child)
        child.give(order)

    def answers(self, seconds: float | None = None) -> Iterator[tuple[Order, Answer | Ended]]:
        """Wait for answers, and yield each with its order.

        Args:
            seconds: to wait at most, None for no limit.
        """
        busy = {child.connection: child for child in self._children if child.order is not None}
        for connection in wait(list(busy), seconds):
            child = busy[connection]  # type: ignore[index]
            order = child.order
            answer = child.answer()
            if isinstance(answer, Ended):
                self._children.remove(child)
                child.end(time.monotonic())
            if order is not None:
                yield order, answer

    def __enter__(self) -> Pool[Order, Answer]:
        return self

    def __exit__(self, *_error: object) -> None:
        for child in self._children:  # all of them before the first wait, so that they end at the same time
            child.interrupt()
        deadline = time.monotonic() + _END_SECONDS
        for child in self._children:
            child.end(deadline)
        self._children.clear()


def _serve(connection: Connection, carry_out: Callable[[Any], Any]) -> None:
    """Carry out orders until the parent closes the connection, or ends."""
    # the terminal's Ctrl-C is the parent's, which then asks each child once
    os.setpgid(0, 0)
    orders: SimpleQueue[Any] = SimpleQueue()
    # a thread of its own sees the end of the parent while the main thread computes
    threading.Thread(target=_listen, args=(connection, orders), daemon=True).start()
    with contextlib.suppress(KeyboardInterrupt, BrokenPipeError):
        while True:
            connection.send(carry_out(orders.get()))


def _listen(connection: Connection, orders: SimpleQueue[Any]) -> None:
    with contextlib.suppress(EOFError, OSError):
        while True:
            orders.put(connection.recv())
    # at once, in the middle of a run: no process is left that takes its result
    os._exit(1)
