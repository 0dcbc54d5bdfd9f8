"""Tasks that a node holds, and its second thread: it moves the bytes, so that results leave and tasks are given back while a
task runs, and it enforces the limit of the running task.
"""

from __future__ import annotations

import _thread
import contextlib
import faulthandler
import logging
import signal
import threading
import time
from collections import deque
from types import FrameType
from typing import Any, NamedTuple

from network.controller import Controller
from network.errors import NetworkError, ProtocolError
from network.session import Session
from network.values import LONG_BYTES
from rpc.errors import JobAborted
from rpc.job.hardening import end_process
from rpc.support.forks import catch
from rpc.support.logs import get_logger

from .keeper import Shelves
from .messages import BATCH_BYTES, BATCH_TASKS, STDERR, TaskOutput
from .payload import Payload
from .process_setup import Initializer, ReceivedValue

HIGH_WATER = 64 << 20  # bytes of results that wait for the submitter, beyond which no task is begun
PRECIOUS_SECONDS = 0.005  # of work, whose result is not left in this process while the next task runs,
PROMPT_BYTES, PROMPT_SECONDS = 64 << 10, 0.05  # if it is no larger, for so long
GRACE_SECONDS = 1.0  # for a running task to end once no future waits for it
logger = get_logger(__name__)


class Assignment(NamedTuple):
    """Task as its message brought it; see `messages`."""

    task: int
    function: int
    many: bool
    tree: Any
    arrays: Any
    limit: float  # seconds that it may run, 0 for as long as it likes


class TaskQueue:
    """Queue between the connection with the submitter and the main thread of a node.

    The main thread calls `next` and `put`; the queue's own thread owns `controller` until `close` has returned. Attributes:
    `code`, {function: (objects, code)}; `limit` of the running task; `values`, broadcast ones by number; `shelves`, values that
    tasks keep; `output`, which catches the output of tasks, if the submitter listens; `initializer`, to be called before them.
    """

    def __init__(self, controller: Controller, session: Session) -> None:
        self.code: dict[int, tuple[bytes, bytes]] = {}
        self.values: dict[int, ReceivedValue] = {}
        self.shelves = Shelves(controller.node_id)
        self.output: TaskOutput | None = None
        self.initializer: Initializer | None = None
        self._controller, self._session = controller, session
        # in order, each in a cell: the thread that takes it out has it, the main one to execute it or the queue to give it back
        self._tasks: deque[list[Assignment]] = deque()
        self._cells: dict[int, list[Assignment]] = {}  # by task, until it is taken out
        self._arrived = threading.Event()  # set when the main thread has something to look at
        self._room = threading.Event()
        self._idle = threading.Event()
        self._sent = threading.Event()  # set when no result is left here,
        self._sent_bytes = 0  # after so many
        self._results: deque[tuple[str, list[Any], int]] = deque()  # (word, entry, bytes)
        self._waiting_bytes = 0  # of results that no session has taken yet; written by the main thread
        self._said_bytes = 0  # and of the output of tasks; written by one thread at a time
        self._taken_bytes = 0  # of results that a session has taken; written by the queue's thread
        self._asleep = False
        self._end = False
        self._closing = False
        self._error: BaseException | None = None
        self.limit = TimeLimit()
        self._thread = threading.Thread(target=self._run, name="task queue", daemon=True)
        # last: it uses all of the above
        self._thread.start()

    # ---- the main thread's side

    def next(self) -> Assignment | None:
        """Return the next task, waiting for one; None when the submitter has no more.

        Raises: JobAborted when the job is stopped or the submitter is gone.
        """
        while True:
            # popping the cell decides between this thread and the queue's: only one gets it
            while self._tasks and self._error is None:
                try:
                    assignment = self._tasks.popleft().pop()
                except IndexError:  # it was given back
                    continue
                self._cells.pop(assignment.task, None)
                return assignment
            # cleared before the looks below: what comes behind them sets it again
            self._arrived.clear()
            if self._error is not None:
                raise self._error
            if self._tasks:
                continue
            if self._end:
                return None
            self._idle.set()
            self._arrived.wait()
            self._idle.clear()

    def begin_limit(self, assignment: Assignment) -> None:
        """Begin the limit of a task that the main thread begins; `limit` must be ended with it."""
        self.limit.begin(assignment.task, assignment.limit)
        self._controller.wake()  # so that the queue waits no longer than that

    def put(self, task: int, kind: int, seconds: float, payload: Payload) -> None:
        """Send a result; waits while too many are on their way. Its arrays must not change any more.

        A result that took some time leaves before the next task begins, which may end the process and the results that it has.

        Args:
            task: number of the task.
            kind: RESULT, FAILURE, PICKLED or BROKEN.
            seconds: its duration.
            payload: the result, or the exception.
        """
        is_precious = seconds > PRECIOUS_SECONDS and payload.size < PROMPT_BYTES
        self._waiting_bytes += payload.size
        # appended before the look at `_asleep` in `_wake`: the queue looks the other way round
        self._results.append(("done", [task, kind, seconds, payload.tree, payload.arrays], payload.size))
        here = self._waiting_bytes + self._said_bytes
        self._wake()
        if is_precious:
            # before the comparison: a `set` between the two is seen there
            self._sent.clear()
            if self._sent_bytes < here:
                self._sent.wait(PROMPT_SECONDS)
        # back-pressure: a submitter that does not read must not fill this memory
        while self._on_the_way > HIGH_WATER and self._error is None:
            self._room.clear()
            if self._on_the_way > HIGH_WATER and self._error is None:
                self._room.wait()

    def say(self, task: int, kind: int, name: str, text: bytes) -> None:
        """Send output of a task, in UTF-8; in any thread, one at a time. The arguments are those of `messages.Said`."""
        self._said_bytes += len(text)
        self._results.append(("said", [task, kind, name, text], len(text)))
        self._wake()

    @property
    def _on_the_way(self) -> int:
        return self._waiting_bytes + self._said_bytes - self._taken_bytes

    def _wake(self) -> None:
        if self._asleep:
            self._asleep = False
            self._controller.wake()

    def close(self) -> None:
        """Send the results left over, and end the thread; from then on the main thread owns the controller."""
        self._closing = True
        # an `_abort` that waits for the task to end need not wait any more
        self._idle.set()
        self._controller.wake()
        self._thread.join()

    # ---- the queue's thread

    def _run(self) -> None:
        try:
            while not (self._closing and not self._results and not self._session.pending_bytes):
                self._send_results()
                # all has left: a result that is waited for is safe from the next task
                if not self._results and not self._session.pending_bytes:
                    self._sent_bytes = self._taken_bytes
                    self._sent.set()
                # before the look at the results: one that is appended behind it wakes the pump
                self._asleep = True
                if not self._results or self._session.pending_bytes >= HIGH_WATER:
                    self._controller.pump(self.limit.left)
                self._asleep = False
                self.limit.look()
                self._take_messages()
                # behind "end" the submitter may hang up at any moment
                if not self._session.alive and not self._end:
                    raise JobAborted(f"The submitter is gone: {self._session.lost or 'it has left.'}")
                if not self._session.alive:
                    return
        except BaseException as error:  # noqa: BLE001  the main thread raises it
            self._abort(error)

    def _abort(self, error: BaseException) -> None:
        """End the running task, by force if it does not end by itself: no submitter waits for results any more."""
        self._error = error if isinstance(error, JobAborted) else JobAborted(str(error))
        self._error.__cause__ = None if error is self._error else error
        self._arrived.set()
        # the main thread may wait for room, which never comes now
        self._room.set()
        if not self._idle.is_set() and not self._idle.wait(GRACE_SECONDS / 2):
            # gently first: a task may want to clean up
            _thread.interrupt_main()
            if not self._idle.wait(GRACE_SECONDS / 2):
                logger.error("The running task does not end, so its process is ended: %s", error)
                # `end_process` flushes nothing
                logging.shutdown()
                end_process(1)

    def _send_results(self) -> None:
        while self._results and self._session.pending_bytes < HIGH_WATER:
            word, batch, size = self._next_batch()
            try:
                self._session.queue([word, batch])
            except NetworkError as error:
                raise JobAborted(f"The submitter is gone: {error}") from error
            self._taken_bytes += size
            self._controller.push()
        if self._on_the_way <= HIGH_WATER and not self._room.is_set():
            self._room.set()

    def _next_batch(self) -> tuple[str, list[list[Any]], int]:
        """Collect the entries of one message, and their bytes; those of one word, in order. Lines of a task become one text."""
        batch: list[list[Any]] = []
        inline = size = 0
        first = self._results[0][0]
        while self._results and len(batch) < BATCH_TASKS and inline < BATCH_BYTES and size < HIGH_WATER:
            word, entry, weight = self._results[0]
            # in order: output of a task comes before its result
            if word != first:
                break
            self._results.popleft()
            size += weight
            inline += min(len(entry[3]), LONG_BYTES) if word == "done" else len(entry[3])
            if batch and word == "said" and entry[1] <= STDERR and batch[-1][:3] == entry[:3]:
                batch[-1][3] += entry[3]
            else:
                batch.append(entry)
        return first, batch, size

    def _take_messages(self) -> None:
        while (message := self._session.take()) is not None:
            try:
                self._obey(message.value)
            # what taking apart a message of another shape may raise
            except (TypeError, ValueError, LookupError, AttributeError) as error:
                raise ProtocolError(f"The submitter sent what is no message about tasks: {error}.") from error

    def _obey(self, value: Any) -> None:
        word, *rest = value
        if word == "run":
            self._take_in([Assignment(*entry) for entry in rest[0]])
        elif word == "code":
            number, objects, code = rest
            self.code[number] = (bytes(objects), bytes(code))
        elif word == "back":
            self._give_back(rest[0])
        elif word == "forget":
            for number in rest[0]:
                self.code.pop(number, None)
        elif word == "hold":
            number, tree, arrays = rest
            self.values[number] = ReceivedValue(tree, arrays)
        elif word == "drop":
            for number in rest[0]:
                if number in self.values:
                    self.values.pop(number).drop()
        elif word == "room":
            self.shelves.room = int(rest[0])
        elif word == "clear":
            for shelf in rest[0]:
                self.shelves.clear(shelf)
        elif word == "listen":
            self.output = TaskOutput(self.say)
            self.output.install()
        elif word == "initializer":
            self.initializer = Initializer(*rest)
        elif word == "end":
            # the thread that computes may wait for a task, and wakes to see this
            self._end = True
            self._arrived.set()
        else:
            raise ValueError(f"unknown word {word!r:.40}")

    def _take_in(self, assignments: list[Assignment]) -> None:
        cells = [[assignment] for assignment in assignments]
        self._cells.update((cell[0].task, cell) for cell in cells)
        self._tasks.extend(cells)
        self._arrived.set()

    def _give_back(self, wanted: list[int]) -> None:
        back: list[int] = []
        for task in wanted:
            with contextlib.suppress(IndexError):  # the main thread has taken it
                # see `next`: whichever thread pops the cell has the task
                self._cells.get(task, []).pop()
                self._cells.pop(task, None)
                back.append(task)
        # also an empty answer: the scheduler waits for one to each question
        self._session.queue(["back", back])
        self._controller.push()


# A task that takes too long is interrupted where it is, and if that does not help, its process is ended.
#
# The interruption is a KeyboardInterrupt in the main thread, by a real signal, so that a task that sleeps or waits for bytes
# hears of it. A task that holds Python's lock hears nothing: a thread of `faulthandler`, which needs no lock, ends the process.

INTERRUPT_SECONDS = 2.0  # for a task to end after it was interrupted


class TimeLimit:
    """Time limit of the running task. The main thread begins and ends it, another one calls `look` at `deadline`
    (monotonic).
    """

    def __init__(self) -> None:
        self.deadline: float | None = None
        self._task: int | None = None
        self._overdue: int | None = None  # was sent a signal, which has not come yet
        self._hit: int | None = None
        self._main = threading.main_thread().ident

    def install(self) -> None:
        """Install the handler, in the main thread: a late interruption must not hit the next task."""
        catch(signal.SIGINT, self._interrupt)

    def _interrupt(self, number: int, frame: FrameType | None) -> None:
        overdue, self._overdue = self._overdue, None
        # a signal that comes late is dropped if its task has ended; a real Ctrl-C has no task
        if overdue is None or overdue == self._task:
            self._hit = overdue
            raise KeyboardInterrupt

    def begin(self, task: int, seconds: float) -> None:
        # armed first, so that no task runs without it
        faulthandler.dump_traceback_later(seconds + INTERRUPT_SECONDS, exit=True)
        self._task, self.deadline = task, time.monotonic() + seconds

    def end(self) -> None:
        # before the timer is cancelled: a signal on its way must not hit the next task
        self._task = self.deadline = None
        faulthandler.cancel_dump_traceback_later()

    def has_hit(self, task: int) -> bool:
        return self._hit == task

    def look(self) -> None:
        """Interrupt the task if its time is over."""
        task, deadline = self._task, self.deadline
        if task is not None and deadline is not None and time.monotonic() >= deadline and self._main is not None:
            # before the signal: its handler looks at it
            self._overdue, self.deadline = task, None
            # to the main thread itself: a system call that it waits in is interrupted, too
            signal.pthread_kill(self._main, signal.SIGINT)

    @property
    def left(self) -> float | None:
        deadline = self.deadline
        return None if deadline is None else max(0.0, deadline - time.monotonic())
