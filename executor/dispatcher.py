"""The thread at the submitter that owns the connections: it sends tasks as the scheduler decides, and completes futures."""

from __future__ import annotations

import contextlib
import logging
import socket
import threading
import time
from collections import deque
from collections.abc import Callable, Iterable, Mapping
from typing import Any

from network.errors import NetworkError, ProtocolError
from network.session import Session
from network.sockets import wait_sockets
from rpc.errors import InvalidTransition

from . import scheduler as plan
from .errors import NodeLost
from .failure import unpack_failure
from .functions import Function
from .messages import RESULT, Done, parse_from_node
from .outbox import Outbox, Task
from .payload import unpack_payload

_LEAVE_SECONDS = 5.0
_AT_ONCE = 1000  # tasks that go to the scheduler, between looks at the nodes
logger = logging.getLogger(__name__)


class Dispatcher:
    """Carries out what the `Scheduler` decides. `submit`, `order` and what stands beside them may be called from any thread.

    `sessions` lead to the `TaskServer` of each node and belong to the dispatcher, `names` are shown in errors; `on_end` is
    called in its thread at the end, when the nodes have been told that there are no more tasks.
    """

    def __init__(
        self, sessions: Mapping[int, Session], names: Mapping[int, str], retries: int, pure: bool, on_end: Callable[[], None]
    ) -> None:
        self._sessions, self._names, self._on_end = dict(sessions), names, on_end
        self._scheduler = plan.Scheduler(sessions, retries, pure)
        self._outbox = Outbox(self._sessions)
        self._tasks: dict[int, Task] = {}  # all unfinished ones
        self._next = 0
        self._arrived: deque[int] = deque()  # on the way to the scheduler
        self._orders: deque[tuple[Iterable[int] | None, list[Any]]] = deque()  # (nodes or all, message)
        self._forgotten: deque[Function] = deque()
        self._cancel = False
        self._finishing = False
        self.broken: BaseException | None = None  # why no task can be executed any more
        self._lost: dict[int, str] = {}
        self._asleep = False
        self._waker, self._woken = socket.socketpair()
        self._waker.setblocking(False)
        self._woken.setblocking(False)
        self.thread = threading.Thread(target=self._run, name="executor", daemon=True)
        self.thread.start()

    # ---- any thread; the executor's lock orders `submit` and `finish`

    def submit(self, task: Task) -> None:
        """Execute `task`, which is its future's only way to an end."""
        number = self._next
        self._next += 1
        self._tasks[number] = task
        self._arrived.append(number)
        self._call()

    def order(self, message: list[Any], nodes: Iterable[int] | None = None) -> None:
        """Send a message to `nodes` (default: all) before the tasks that are submitted later."""
        self._orders.append((nodes, message))
        self._call()

    def forget(self, function: Function) -> None:
        """Have the nodes forget a function when its last task has ended."""
        self._forgotten.append(function)
        self._call()

    def cancel_waiting(self) -> None:
        """Cancel all tasks that no node holds."""
        self._cancel = True
        self._call()

    def finish(self) -> None:
        """End when all tasks have; idempotent."""
        self._finishing = True
        self._call()

    def finish_and_wait(self) -> None:
        """End when all tasks have, and return then."""
        self.finish()
        self.thread.join()

    def _call(self) -> None:
        if self._asleep:
            self._asleep = False
            with contextlib.suppress(OSError):  # a full or closed pair needs no more bytes
                self._waker.send(b"!")

    # ---- the thread

    def _run(self) -> None:
        try:
            while not (self._finishing and not self._arrived and not self._cancel and not self._scheduler.unfinished):
                self._wait()
                self._take_calls()
                for node in list(self._sessions):
                    self._serve(node)
                self._feed(plan.Tick())
            self._leave()
        except BaseException as error:
            logger.exception("The executor failed")
            self.broken = error
            for session in self._sessions.values():
                session.close()
        finally:
            self._fail_rest()
            try:
                self._on_end()
            finally:
                self._waker.close()
                self._woken.close()

    def _wait(self) -> None:
        self._asleep = True
        if not (
            self._arrived
            or self._orders
            or self._forgotten
            or self._cancel
            or (self._finishing and not self._scheduler.unfinished)
        ):
            links = [session.link for session in self._sessions.values()]
            writing = [session.link for session in self._sessions.values() if session.pending_bytes]
            deadline = self._scheduler.deadline
            timeout = None if deadline is None else deadline - time.monotonic()
            if not any(session.inbox for session in self._sessions.values()):
                wait_sockets([*links, self._woken], writing, timeout)  # type: ignore[list-item,arg-type]
        self._asleep = False
        with contextlib.suppress(BlockingIOError):
            self._woken.recv(64)

    def _take_calls(self) -> None:
        while self._orders:
            nodes, message = self._orders.popleft()
            for node in list(self._sessions if nodes is None else nodes):
                self._outbox.tell(node, message)
        while self._forgotten:
            function = self._forgotten.popleft()
            if function.is_unused:
                self._outbox.forget(function, function.nodes)
        if self._arrived:
            count = len(self._arrived) if self._cancel else min(_AT_ONCE, len(self._arrived))
            new = tuple(self._arrived.popleft() for _ in range(count))
            self._feed(plan.Submitted(new, tuple(self._tasks[number].payload.size for number in new)))
        if self._cancel:
            self._cancel = False
            self._feed(plan.Cleared())

    def _serve(self, node: int) -> None:
        session = self._sessions[node]
        session.send()
        try:
            session.receive()
            while (message := session.take()) is not None:
                self._obey(node, parse_from_node(message.value))
        except (ProtocolError, InvalidTransition) as error:
            session.close()
            self._lose(node, f"it broke the protocol: {error}")
            return
        if not session.alive:
            self._lose(node, "it has left" if session.left else str(session.lost))

    def _obey(self, node: int, said: list[Done] | tuple[int, ...]) -> None:
        if isinstance(said, tuple):
            self._feed(plan.GaveBack(node, said))
            return
        first = [done for done in said if done.task in self._tasks]  # the others are second copies
        self._feed(plan.Finished(node, tuple(done.task for done in said), sum(done.seconds for done in said)))
        problem: ProtocolError | None = None
        for done in first:
            classes = self._tasks[done.task].function.classes
            value: Any = None
            error: BaseException | None = None
            try:
                if done.kind == RESULT:
                    value = unpack_payload(done.tree, done.arrays, classes)
                else:
                    error = unpack_failure(done.tree, done.arrays, classes, node)
            except ProtocolError as malformed:
                problem = error = malformed
            self._complete(done.task, value, error)
        if problem is not None:
            raise problem

    def _lose(self, node: int, reason: str) -> None:
        session = self._sessions.pop(node)
        session.close()
        self._lost[node] = reason
        logger.warning("%s is lost: %s", self._names[node], reason)
        if not self._sessions:
            self.broken = NodeLost(f"No node is left: {'; '.join(f'{self._names[n]}: {r}' for n, r in self._lost.items())}")
        self._feed(plan.Lost(node, reason))

    # ---- actions

    def _feed(self, event: object) -> None:
        events = deque([event])
        while events:
            for action in self._scheduler.handle(events.popleft(), time.monotonic()):
                if isinstance(action, plan.Send):
                    withdrawn = self._send(action.node, action.tasks)
                    if withdrawn:
                        events.append(plan.Withdrawn(action.node, tuple(withdrawn)))
                elif isinstance(action, plan.TakeBack):
                    self._outbox.tell(action.node, ["back", action.count])
                elif isinstance(action, plan.Cancel):
                    for number in action.tasks:
                        self._cancel_task(number)
                elif isinstance(action, plan.Fail):
                    for number in action.tasks:
                        self._complete(number, error=self._loss(action))

    def _loss(self, action: plan.Fail) -> BaseException:
        if action.node is None:
            return NodeLost(str(self.broken))
        return NodeLost(f"{self._names[action.node]} was lost with this task: {action.reason}", action.node)

    def _send(self, node: int, numbers: Iterable[int]) -> list[int]:
        """Send tasks; returns those that were cancelled."""
        withdrawn: list[int] = []
        going: list[tuple[int, Task]] = []
        for number in numbers:
            task = self._tasks[number]
            if task.started or task.future.set_running_or_notify_cancel():
                task.started = True
                going.append((number, task))
            else:
                withdrawn.append(number)
                self._end_task(number)
        self._outbox.send(node, going)
        return withdrawn

    def _complete(self, number: int, value: Any = None, error: BaseException | None = None) -> None:
        task = self._end_task(number)
        if not task.started and not task.future.set_running_or_notify_cancel():
            return
        if error is None:
            task.future.set_result(value)
        else:
            task.future.set_exception(error)

    def _cancel_task(self, number: int) -> None:
        task = self._end_task(number)
        if not task.started:
            task.future.cancel()
            task.future.set_running_or_notify_cancel()
        else:  # it was on a node that was lost, or gave it back
            task.future.set_exception(
                NodeLost("The task was taken from its node, and the executor was shut down before it could go on.")
            )

    def _end_task(self, number: int) -> Task:
        task = self._tasks.pop(number)
        task.function.ended += 1
        if task.function.is_unused:
            self._outbox.forget(task.function, task.function.nodes)
        return task

    # ---- the end

    def _leave(self) -> None:
        """Tell the nodes that there are no more tasks, and wait until they have hung up."""
        deadline = time.monotonic() + _LEAVE_SECONDS
        for session in self._sessions.values():
            with contextlib.suppress(NetworkError):
                session.queue(["end"])
        while any(s.alive for s in self._sessions.values()) and (left := deadline - time.monotonic()) > 0:
            for session in self._sessions.values():
                session.send()
                with contextlib.suppress(ProtocolError):
                    session.receive()
                session.inbox.clear()
            alive = [s for s in self._sessions.values() if s.alive]
            if alive:
                writing = [s.link for s in alive if s.pending_bytes]
                wait_sockets([s.link for s in alive], writing, left)  # type: ignore[misc,arg-type]
        for session in self._sessions.values():
            session.close()

    def _fail_rest(self) -> None:
        """No future may wait for ever."""
        if self.broken is None and self._tasks:
            self.broken = RuntimeError("The executor ended before its tasks.")
        for number in list(self._tasks):
            self._complete(number, error=NodeLost(f"The executor failed: {self.broken}"))
