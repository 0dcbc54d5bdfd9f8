"""Futures that somebody wants to cancel while a node holds their tasks: the question, and whoever waits for the answer."""

from __future__ import annotations

import contextlib
import threading
from collections import deque
from collections.abc import Callable
from concurrent.futures import Future, InvalidStateError
from concurrent.futures import TimeoutError as TooLate

RECALL_SECONDS = 1.0  # that a caller of `cancel` waits; a node whose task holds Python's lock does not answer


class Recalls:
    """`ask` may be called from any thread; it wakes the dispatcher's by `call`. All else is for that thread."""

    def __init__(self, call: Callable[[], None]) -> None:
        self._call = call
        self._asked: deque[tuple[int, Future[bool]]] = deque()
        self._open: dict[int, list[Future[bool]]] = {}
        self._closed = False

    def ask(self, number: int, thread: threading.Thread) -> bool:
        """Whether task `number` was taken back and cancelled. Within `thread`, which would have to hear the answer, it is not.

        Who has waited for too long does not want it any more: a task that is given back after that will run.
        """
        if threading.current_thread() is thread:
            return False
        answer: Future[bool] = Future()
        self._asked.append((number, answer))
        self._call()
        try:
            return not self._closed and answer.result(RECALL_SECONDS)
        except TooLate:
            return not answer.cancel() and answer.result()
        except BaseException:  # Ctrl-C
            answer.cancel()
            raise

    def __bool__(self) -> bool:
        """Whether there are questions that nobody has taken yet."""
        return bool(self._asked)

    def take(self) -> list[int]:
        """The tasks that are asked for since the last call."""
        found = []
        while self._asked:
            number, answer = self._asked.popleft()
            self._open.setdefault(number, []).append(answer)
            found.append(number)
        return found

    def is_wanted(self, number: int) -> bool:
        """Whether somebody still waits for task `number`; then it must be cancelled, and that be told by `settle`."""
        waiting = [answer for answer in self._open.get(number, []) if not answer.cancelled()]
        return len([answer for answer in waiting if answer.running() or answer.set_running_or_notify_cancel()]) > 0

    def settle(self, number: int, cancelled: bool) -> None:
        """Answer those who wait for a task, if any."""
        for answer in self._open.pop(number, []):
            with contextlib.suppress(InvalidStateError):  # who does not wait any more
                answer.set_result(cancelled)

    def ask_again(self) -> None:
        """A node is gone: see where the tasks are now."""
        self._asked.extend((number, answer) for number, answers in self._open.items() for answer in answers)
        self._open.clear()

    def close(self) -> None:
        """From now on nothing is taken back."""
        self._closed = True
        for number in self.take():
            self.settle(number, False)
