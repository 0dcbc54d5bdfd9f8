"""Queues of the dispatcher: requests of other threads, cancellations that wait for the answer of a node, and messages to the
nodes.
"""

from __future__ import annotations

import contextlib
import threading
import time
from collections import deque
from collections.abc import Callable, Collection, Iterable, Sequence
from concurrent.futures import Future, InvalidStateError
from concurrent.futures import TimeoutError as TooLate
from typing import Any

from network.errors import NetworkError, ProtocolError
from network.session import Session
from network.transport import Waker, wait_sockets
from network.wire import Limits

from .functions import Function
from .messages import BATCH_BYTES, BATCH_TASKS
from .tasks import Task, Tasks

RECALL_SECONDS = 1.0  # that a caller of `cancel` waits; a node whose task holds Python's lock does not answer


class Inbox:
    """Requests of other threads to the dispatcher's, which they wake. `submit` is called by one thread at a time.

    `_asleep` tells that the dispatcher waits for sockets, or is about to: a request then wakes it.
    """

    def __init__(self, tasks: Tasks) -> None:
        self._tasks = tasks
        self._near: dict[int, frozenset[int]] = {}  # of those that have not arrived
        self._arrived: deque[int] = deque()  # on the way to the scheduler
        self._orders: deque[tuple[Iterable[int] | None, list[Any]]] = deque()  # (nodes or all, message)
        self._forgotten: deque[Function] = deque()
        self._cancel = False
        self._finishing = False
        self._abandoned = False
        self._asleep = False
        self._waker = Waker()

    def submit(self, task: Task, near: Collection[int] = ()) -> None:
        """Execute `task`, which is its future's only way to an end, on one of the nodes `near` while there is one."""
        # added before it arrives: the dispatcher looks it up
        number = self._tasks.add(task)
        # before the number arrives, as the dispatcher takes both together
        if near:
            self._near[number] = frozenset(near)
        self._arrived.append(number)
        self._wake()

    def order(self, message: list[Any], nodes: Iterable[int] | None = None) -> None:
        self._orders.append((nodes, message))
        self._wake()

    def forget(self, function: Function) -> None:
        """Have the nodes forget a function when its last task has ended."""
        self._forgotten.append(function)
        self._wake()

    def cancel_waiting(self) -> None:
        self._cancel = True
        self._wake()

    def finish(self) -> None:
        self._finishing = True
        self._wake()

    def abandon(self) -> None:
        """End without the tasks that have begun: their futures raise BrokenExecutor, and the nodes end them."""
        self._abandoned = True
        self._wake()

    def _wake(self) -> None:
        # only where it sleeps: each wake is a system call, and there may be one for each task
        if self._asleep:
            self._asleep = False
            self._waker.wake()

    # ---- the dispatcher's thread

    @property
    def _has_requests(self) -> bool:
        """Whether there is something to do at once, apart from the end."""
        return bool(self._arrived or self._orders or self._forgotten or self._cancel or self._abandoned)

    def _take_tasks(self, most: int) -> tuple[tuple[int, ...], dict[int, frozenset[int]]]:
        """Take out new tasks, `most` of them, and the nodes that some of them are to run near."""
        # bounded by what is there now: others append meanwhile
        new = tuple(self._arrived.popleft() for _ in range(min(most, len(self._arrived))))
        return new, {number: self._near.pop(number) for number in new if number in self._near} if self._near else {}


class Cancellations:
    """Cancellations of futures of tasks that a node holds: questions to the nodes, and the callers that wait for the answers.

    `ask` may be called from any thread; it wakes the dispatcher's by `wake`. All else is for that thread.
    """

    def __init__(self, wake: Callable[[], None], nodes: Iterable[int]) -> None:
        self._wake = wake
        self._questions: dict[int, deque[tuple[float, tuple[int, ...]]]] = {node: deque() for node in nodes}  # unanswered
        self._asked: deque[tuple[int, Future[bool]]] = deque()
        self._open: dict[int, list[Future[bool]]] = {}
        self._closed = False

    def ask(self, number: int, thread: threading.Thread) -> bool:
        """Ask a node for task `number`; return whether it was taken back and cancelled. Within `thread`, which would have to
        hear the answer, it is not.

        A caller that has waited for too long gives up: a task that is given back after that will run.
        """
        # a callback of a future runs in it
        if threading.current_thread() is thread:
            return False
        answer: Future[bool] = Future()
        self._asked.append((number, answer))
        self._wake()
        try:
            # looked at after asking: `close` answers all that were asked before it
            return not self._closed and answer.result(RECALL_SECONDS)
        except TooLate:
            # the answer may have come just now, and then counts
            return not answer.cancel() and answer.result()
        except BaseException:  # Ctrl-C
            answer.cancel()
            raise

    def __bool__(self) -> bool:
        return bool(self._asked)

    def take(self) -> list[int]:
        """Take out the tasks that are asked for since the last call."""
        found = []
        while self._asked:
            number, answer = self._asked.popleft()
            self._open.setdefault(number, []).append(answer)
            found.append(number)
        return found

    def is_wanted(self, number: int) -> bool:
        """Tell if a caller still waits for task `number`; then it must be cancelled, and `settle` be called."""
        waiting = [answer for answer in self._open.get(number, []) if not answer.cancelled()]
        # from here on its caller cannot give up any more
        return len([answer for answer in waiting if answer.running() or answer.set_running_or_notify_cancel()]) > 0

    def settle(self, number: int, cancelled: bool) -> None:
        for answer in self._open.pop(number, []):
            with contextlib.suppress(InvalidStateError):  # of a caller that does not wait any more
                answer.set_result(cancelled)

    def note_question(self, node: int, tasks: tuple[int, ...]) -> None:
        self._questions[node].append((time.monotonic(), tasks))

    def note_answer(self, node: int) -> None:
        """Note that `node` has answered the first question that it was asked."""
        # answers come in the order of the questions
        for task in self._questions[node].popleft()[1]:
            self.settle(task, False)  # which those that are cancelled have been already

    def is_mute(self, node: int) -> bool:
        """Tell if `node` has left a question unanswered for so long that no caller need wait for it again."""
        questions = self._questions[node]
        return bool(questions) and time.monotonic() - questions[0][0] > RECALL_SECONDS

    def add_node(self, node: int) -> None:
        self._questions[node] = deque()

    def lose_node(self, node: int) -> None:
        """Find out where the tasks of a node that is gone are now."""
        self._questions.pop(node, None)
        # asked again: the tasks may be at another node by now, or waiting
        self._asked.extend((number, answer) for number, answers in self._open.items() for answer in answers)
        self._open.clear()

    def close(self) -> None:
        """Take nothing back from now on."""
        self._closed = True
        for number in self.take():
            self.settle(number, False)


_BATCH_ARRAYS = Limits().message // 4  # bytes of arrays in one message of several tasks


class Outbox:
    """Messages to each node of `sessions`; a node that cannot be told is lost, which shows when it is served."""

    def __init__(self, sessions: dict[int, Session]) -> None:
        self._sessions = sessions

    def tell(self, node: int, message: list[Any]) -> None:
        session = self._sessions.get(node)
        if session is not None:
            _send_message(session, message)

    def send(self, node: int, tasks: Sequence[tuple[int, Task]]) -> None:
        """Send tasks and their functions to `node`, in order."""
        session = self._sessions.get(node)
        if session is None:
            return
        batch: list[list[Any]] = []
        inline = size = 0
        for number, task in tasks:
            function, tree, arrays, weight = (task.function, task.tree, task.arrays, task.size)
            if session not in function.sessions:
                function.sessions.add(session)
                # before the first task of the function, in the same order of messages
                _send_message(session, ["code", function.number, function.bundle.objects, function.bundle.code])
            # the limits of a message: its meta of 1 MiB, and a quarter of its arrays
            if len(batch) >= BATCH_TASKS or inline > BATCH_BYTES or size + weight > _BATCH_ARRAYS:
                _send_message(session, ["run", batch])
                batch, inline, size = [], 0, 0
            batch.append([number, function.number, task.many, tree, arrays, task.options.timeout or 0])
            # about: a longer tree leaves the meta as an array, whose entry there is small
            inline += min(len(tree), 4096) + 64 * len(arrays)
            size += weight
        if batch:
            _send_message(session, ["run", batch])

    @staticmethod
    def forget(function: Function) -> None:
        """Tell the nodes that no task of `function` will come any more."""
        for session in function.sessions:
            _send_message(session, ["forget", [function.number]])


def _send_message(session: Session, message: list[Any]) -> None:
    if session.alive:
        with contextlib.suppress(NetworkError):
            session.queue(message)
            session.send()


CLOSE_SECONDS = 5.0  # for the nodes to hang up


def close_sessions(sessions: Collection[Session], seconds: float = CLOSE_SECONDS) -> None:
    """Tell the nodes that there are no more tasks, and close when they have hung up, or after `seconds`."""
    deadline = time.monotonic() + seconds
    for session in sessions:
        with contextlib.suppress(NetworkError):
            session.queue(["end"])
    # until the nodes hang up: results that are still on the way must not be cut off
    while any(s.alive for s in sessions) and (left := deadline - time.monotonic()) > 0:
        for session in sessions:
            session.send()
            with contextlib.suppress(ProtocolError):
                session.receive()
            session.inbox.clear()
        alive = [s for s in sessions if s.alive]
        if alive:
            writing = [s.link for s in alive if s.pending_bytes]
            wait_sockets([s.link for s in alive], writing, left)  # type: ignore[misc,arg-type]
    for session in sessions:
        session.close()
