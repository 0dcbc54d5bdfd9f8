"""The worker's thread that talks with the driver of the job, so that the worker hears the driver while its function runs."""

from __future__ import annotations

import logging
import math
import queue
import threading
import time
from collections import deque
from collections.abc import Callable

from network.budget import OBJECT_BYTES
from network.controller import Controller
from network.errors import NetworkError
from network.session import Session
from rpc import JobAborted
from rpc.elastic import HostUpdateResult
from rpc.job import end_process
from rpc.messages import Operation, operations
from rpc.monitor import monitor_alive
from rpc.support.logs import get_logger

from .group import Listener, WorkerRemoved, WorkersLostError
from .messages import TO_WORKER, Broken, End, HostsChanged, Noted, Removed, Round, Void

GRACE_SECONDS = 2.0  # for the function to notice that it is done, before its process is ended
CLOSE_SECONDS = 10.0  # for the last words to go out
_LIFE_SECONDS = 0.25  # between signs of life while the worker waits for the driver
logger = get_logger("parallel_sgd.elastic")


class DriverLink:
    """Link of a worker to the driver: owns `controller` and the `line` to the driver in it until `close`.

    Its methods belong to the thread of the function. `on_break(error)` is called in this link's thread when the present round
    gives no more results: with WorkersLostError when another round follows, WorkerRemoved or JobAborted when this worker is
    done. While the link waits for the driver, it shows the failure detector that the worker lives.
    """

    def __init__(self, controller: Controller, line: Session) -> None:
        self._controller, self._line = controller, line
        self._orders: queue.SimpleQueue[Round | Void | None] = queue.SimpleQueue()  # None: see `_error`
        self._said: deque[Operation] = deque()
        # attempt, what broke and the callback change together: a round that breaks while it begins must not be missed
        self._lock = threading.Lock()
        self._listeners: list[Listener] = []
        self._broken: dict[int, str] = {}  # by attempt, why
        self._on_break: Callable[[Exception], None] | None = None
        self._attempt = -1
        self._error: Exception | None = None
        self._over = threading.Event()
        self._closing, self._deadline = False, math.inf
        self._closed = threading.Event()
        self._thread = threading.Thread(target=self._run, name="driver link", daemon=True)
        self._thread.start()

    # ---- the thread of the function

    def say(self, operation: Operation) -> None:
        """Tell the driver `operation`; it goes out in the background."""
        self._said.append(operation)
        self._controller.wake()

    def check(self) -> None:
        """Raise WorkerRemoved or JobAborted when this worker is done."""
        if self._error is not None:
            raise self._error

    def await_order(self) -> Round | Void:
        """Return the driver's next message on rounds. Raises: as `check`."""
        while True:
            # a worker that waits for the others is no stuck one
            monitor_alive()
            self.check()
            try:
                order = self._orders.get(timeout=_LIFE_SECONDS)
            except queue.Empty:
                continue
            # None wakes the waiting thread: the next turn raises the error
            if order is not None:
                return order

    def is_broken(self, attempt: int) -> bool:
        """Tell whether a round is known to give no more results; shows the failure detector that the worker lives."""
        monitor_alive()
        return self._error is not None or attempt in self._broken

    def begin(self, attempt: int, on_break: Callable[[Exception], None]) -> None:
        with self._lock:
            self._attempt, self._on_break = attempt, on_break
            reason, error = self._broken.get(attempt), self._error
        # broken already: the notice came before the round began here
        if error is not None or reason is not None:
            on_break(error or WorkersLostError(reason or ""))

    def subscribe(self, listener: Listener) -> None:
        """Tell `listener` of host changes from now on; the driver repeats those of which no listener was told."""
        with self._lock:
            self._listeners.append(listener)

    def unsubscribe(self, listener: Listener) -> None:
        with self._lock:
            self._listeners.remove(listener)

    def await_end(self) -> None:
        """Return when the driver has heard everything and says that the job is over. Raises: as `check`."""
        while not self._over.wait(_LIFE_SECONDS):
            self.check()

    def close(self) -> None:
        """Send the messages that are left and end the thread; the controller belongs to the caller then. Idempotent."""
        # the thread ends when all that was said has gone out, or at the deadline
        self._closing = True
        self._deadline = time.monotonic() + CLOSE_SECONDS
        self._closed.set()
        self._controller.wake()
        self._thread.join()

    # ---- the thread of the link

    def _run(self) -> None:
        try:
            # last words, such as the result, go out before the thread ends
            while not self._closing or ((self._said or self._line.pending_bytes) and time.monotonic() < self._deadline):
                while self._said:
                    self._line.queue(self._said.popleft().to_value())
                self._controller.push()
                if not self._said and (not self._closing or self._line.pending_bytes):
                    # while there is nothing to say it waits without limit: `say` and `close` wake it
                    self._controller.pump(CLOSE_SECONDS / 2 if self._closing else None)
                for operation in operations(self._line, TO_WORKER, OBJECT_BYTES):
                    self._obey(operation)
                if not self._line.alive and not self._over.is_set():
                    raise JobAborted(f"The driver of the job is gone: {self._line.lost or 'it has left.'}")
                # after the end of the job the driver may leave first
                if not self._line.alive:
                    return
        except WorkerRemoved as error:
            self._fail(error)
        except (JobAborted, NetworkError) as error:
            if not self._over.is_set():
                self._fail(error if isinstance(error, JobAborted) else JobAborted(str(error)))
        except Exception as error:
            logger.exception("The link to the driver failed")
            self._fail(error)

    def _obey(self, message: Operation) -> None:
        if isinstance(message, (Round, Void)):
            self._orders.put(message)
        elif isinstance(message, Broken):
            with self._lock:
                self._broken[message.attempt] = message.reason
                # of an earlier round: it is kept, and asked for by `is_broken`
                on_break = self._on_break if message.attempt == self._attempt else None
            if on_break is not None:
                on_break(WorkersLostError(message.reason))
        elif isinstance(message, HostsChanged):
            with self._lock:
                # a copy, called without the lock: a listener may unsubscribe
                listeners = list(self._listeners)
            for listener in listeners:
                listener(message.sequence, HostUpdateResult(message.result))
            # no receipt without a listener: the driver then tells it again, or tells the next rank 0 (EL-10)
            if listeners:
                self.say(Noted(message.sequence))
        elif isinstance(message, Removed):
            raise WorkerRemoved(message.message)
        elif isinstance(message, End):
            self._over.set()

    def _fail(self, error: Exception) -> None:
        """End a worker for which the job waits no more: its function ends at its next operation, else its process by force."""
        with self._lock:
            # the error before the wake-up, so that the thread of the function finds it
            self._error, on_break = error, self._on_break
        self._orders.put(None)
        if on_break is not None:
            on_break(error)
        # a function that computes for ever hears of nothing: its process is ended
        if not self._closed.wait(GRACE_SECONDS):
            logger.error("The function does not end, so its process is ended: %s", error)
            # the last lines of the log are on the disk before the process is gone
            logging.shutdown()
            end_process(1)
