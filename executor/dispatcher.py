"""Thread at the submitter that owns the connections: it sends tasks as the scheduler decides, and completes futures."""

from __future__ import annotations

import threading
import time
from collections import deque
from collections.abc import Callable, Iterable, Mapping
from concurrent.futures import BrokenExecutor
from typing import Any

from network.errors import PeerLost, ProtocolError
from network.session import Session
from network.transport import wait_sockets
from rpc.errors import InvalidTransition
from rpc.machine import Tick
from rpc.support.logs import get_logger

from . import scheduler_state as plan
from .errors import NodeLost
from .job import Ending, Restarts, TaskJob
from .messages import BROKEN, FAILURE, Done, Said, parse_from_node
from .process_setup import SetupMessages, initializer_failure
from .queues import Cancellations, Inbox, Outbox, close_sessions
from .scheduler import Scheduler
from .tasks import Console, Task, Tasks, opened

_AT_ONCE = 1000  # tasks that go to the scheduler, between looks at the nodes
_LET_GO_SECONDS = 1.0  # for the nodes of a broken executor to end their tasks
logger = get_logger(__name__)


class Dispatcher(Inbox):
    """Dispatcher, which carries out the decisions of the `Scheduler`. Methods of `Inbox`, and those above `_run`, are for any
    thread.

    Args:
        sessions: sessions with the `TaskServer` of each node, owned from now on.
        names: names of the nodes, for errors.
        retries: how often a task is tried again after the loss of its node.
        pure: whether tasks may run twice.
        job: knows how processes have ended, starts new ones, and ends when the nodes have been told that there are no more
            tasks.
        console: shows the output of tasks.
    """

    def __init__(
        self,
        sessions: Mapping[int, Session],
        names: Mapping[int, str],
        retries: int,
        pure: bool,
        job: TaskJob,
        console: Console | None = None,
    ) -> None:
        super().__init__(Tasks(lambda function: self._outbox.forget(function)))
        self._sessions, self._names, self._job = dict(sessions), names, job
        self._restarts = Restarts(job, self._wake)
        self._setup = SetupMessages()
        self._console = console
        self._scheduler = Scheduler(sessions, retries, pure)
        self._outbox = Outbox(self._sessions)
        self._cancellations = Cancellations(self._wake, sessions)
        self._on_message: Mapping[str, Callable[[int, list[Any]], None]] = {
            "done": self._end_tasks,
            "back": self._take_back,
            "said": self._show,
        }
        self.process = self._tasks.process
        self._over = threading.Event()
        self.lock = threading.Lock()  # `submit` is called in it, after a look at `broken` and `ended`
        self.broken: BrokenExecutor | None = None  # why no task can be executed any more
        self.shut = False  # the user wants no more tasks
        self.ended = False  # by `finish`: no node would execute another task
        self.lost: dict[int, str] = {}  # nodes, and why they are lost, or not there just now
        # last: it uses all of the above. Daemon, as `finish_and_wait` is registered at exit
        self.thread = threading.Thread(target=self._run, name="executor", daemon=True)
        self.thread.start()

    # ---- any thread

    def recall(self, number: int) -> bool:
        """Cancel task `number`, which a node holds; False if it has begun, or no answer comes in time."""
        return self._cancellations.ask(number, self.thread)

    @property
    def counts(self) -> tuple[int, int, int]:
        """Number of tasks that wait, run and have ended, about: they go on meanwhile."""
        running = 0 if self.ended else self._scheduler.running
        # read without a lock, so the two may not fit together for a moment
        return max(0, len(self._tasks) - running), running, self._tasks.done

    @property
    def restarting(self) -> frozenset[int]:
        """Nodes, of those that are lost, on which a new process is being started."""
        return frozenset(self._restarts.under_way)

    def finish_and_wait(self) -> None:
        self.finish()
        self.wait()

    def wait(self) -> None:
        """Wait until the thread has ended; Ctrl-C may interrupt that, and it be called again, unlike `Thread.join`."""
        if not self.process.is_here:  # the thread is the parent's
            return
        self._over.wait()
        self.thread.join()

    # ---- the thread

    def _run(self) -> None:
        try:
            # orders that arrive behind `finish` are not waited for
            while not (self._finishing and not self._arrived and not self._cancel and not self._scheduler.unfinished):
                self._wait()
                self._take_requests()
                for node in list(self._sessions):
                    # results before losses: a node's last results may be all that is left of it
                    self._serve(node)
                for node, ending in self._restarts.look():
                    self._lose(node, ending)
                self._feed(Tick())
            # with "end": the servers return, and the nodes are free
            close_sessions([*self._sessions.values(), *self._restarts.end()])
        except BaseException as error:
            if isinstance(error, BrokenExecutor):
                broken = error  # which says enough
            else:
                logger.exception("The executor failed")
                broken = BrokenExecutor(f"The executor failed: {type(error).__name__}: {error}")
                broken.__cause__ = error
            with self.lock:  # a task is either submitted before, and fails below, or not at all
                self.broken = broken
            if broken is not error or self._abandoned:  # else they are let go below
                for session in self._sessions.values():
                    session.close()
        finally:
            with self.lock:  # and so with the end
                self.ended = True
                self._cancellations.close()
                if self.broken is None and len(self._tasks):
                    self.broken = BrokenExecutor("The executor ended before its tasks.")
            try:
                if self.broken is not None:
                    self.lost.update(dict.fromkeys(self._sessions, f"it was let go: {self.broken}"))
                    # before the nodes are told, which may take a second
                    self._tasks.fail_all(self.broken)
                    # so that they do not compute on in vain
                    for node in self._sessions:
                        self._outbox.tell(node, ["back", self._scheduler.held(node)])
                    close_sessions([*self._sessions.values(), *self._restarts.end()], _LET_GO_SECONDS)
                self._job.end()
            finally:
                self._waker.close()
                # last: `wait` returns when nothing of the thread is left
                self._over.set()

    def _wait(self) -> None:
        # before the look at requests: one that comes between the two wakes the thread
        self._asleep = True
        ends = self._finishing and not self._scheduler.unfinished
        if not (ends or self._has_requests or self._cancellations or self._restarts):
            links = [session.link for session in self._sessions.values()]
            # only these: a socket with nothing to send is always writable, and the poll would return at once
            writing = [session.link for session in self._sessions.values() if session.pending_bytes]
            deadlines = [self._restarts.deadline, *([] if self._scheduler.deadline is None else [self._scheduler.deadline])]
            timeout = max(0.0, min(deadlines) - time.monotonic())
            # what has come already wakes no poll
            if not any(session.inbox for session in self._sessions.values()):
                wait_sockets([*links, self._waker.sock], writing, timeout)  # type: ignore[list-item,arg-type]
        self._asleep = False
        self._waker.clear()

    def _take_requests(self) -> None:
        if self._abandoned:
            raise BrokenExecutor("The executor was ended before its tasks.")
        while self._orders:
            nodes, message = self._orders.popleft()
            # kept for processes that are started later
            if nodes is None:
                self._setup.note(message)
            for node in list(self._sessions if nodes is None else nodes):
                self._outbox.tell(node, message)
        while self._forgotten:
            function = self._forgotten.popleft()
            # not while a task of it is under way
            if function.is_unused:
                self._outbox.forget(function)
        for node, found in self._restarts.results():
            self._return_node(node, found)
        cancelling = self._cancel  # before a look at the arrived tasks: all that were submitted before it is set are among them
        if self._arrived:
            new, near = self._take_tasks(len(self._arrived) if cancelling else _AT_ONCE)
            infos: dict[plan.TaskInfo, plan.TaskInfo] = {}  # most are alike, and a hundred thousand of them are kept
            told = tuple(infos.setdefault(info, info) for info in (self._tasks[number].info for number in new))
            self._feed(plan.Submitted(new, told, near))
        # after the arrivals: a task may be submitted and cancelled at once
        if self._cancellations:
            self._take_cancellations()
        if cancelling:
            self._cancel = False
            self._feed(plan.Cleared())

    def _take_cancellations(self) -> None:
        asked = []
        for number in self._cancellations.take():
            holder = self._scheduler.holder(number)
            if (
                number not in self._tasks
                or self._tasks[number].started
                # a node that has not answered before is not waited for again
                or (holder is not None and self._cancellations.is_mute(holder))
            ):
                self._cancellations.settle(number, False)
            elif holder is None:
                self._cancellations.settle(
                    number, self._cancellations.is_wanted(number) and self._tasks[number].future.cancel()
                )
            else:
                asked.append(number)
        if asked:
            self._feed(plan.Recalled(tuple(asked)))

    def _serve(self, node: int) -> None:
        session = self._sessions[node]
        session.send()
        try:
            session.receive()
            while (message := session.take()) is not None:
                word, said = parse_from_node(message.value)
                self._on_message[word](node, said)
        except (ProtocolError, InvalidTransition) as error:
            # nothing of a stream that made no sense counts
            self._cut(node)
            self._lose(node, Ending(f"it broke the protocol: {error}"))
            return
        if not session.alive:
            lost = session.lost
            reason = lost.reason if isinstance(lost, PeerLost) else str(lost)  # the node is told with it
            self._cut(node)
            # why it ended its agent knows, and tells in a moment
            self._restarts.cut(node, "it has left" if session.left else reason)

    def _show(self, node: int, said: list[Said]) -> None:
        for part in said:
            if self._console is not None and part.task in self._tasks:  # else it is a second copy
                self._console.take(node, part, self._tasks[part.task].function.name, self._tasks[part.task].future)

    def _end_tasks(self, node: int, said: list[Done]) -> None:
        # an initializer that failed breaks the executor, so nothing else of this message matters
        for done in (done for done in said if done.kind == BROKEN):
            raise initializer_failure(done, node, self._names[node], self._setup)
        first = [done for done in said if done.task in self._tasks]  # the others are second copies
        # asked before the scheduler hears of the end, when it forgets the task
        again = frozenset(done.task for done in first if done.kind == FAILURE and self._is_tried_again(node, done))
        seconds = tuple(done.seconds for done in said)
        self._feed(plan.Finished(node, tuple(done.task for done in said), seconds, again))
        problem: ProtocolError | None = None
        # after the scheduler has heard of them: a callback of a future may submit
        for done in first:
            if done.task in again:
                continue
            value, error = opened(done, self._tasks[done.task].function, node)
            # a task may raise a ProtocolError as well, which comes with the remote traceback as its cause
            if isinstance(error, ProtocolError) and error.__cause__ is None:
                problem = error
            self._tasks.complete(done.task, value, error)
        # last: the other results of this message are good
        if problem is not None:
            raise problem

    def _is_tried_again(self, node: int, done: Done) -> bool:
        """Tell if the exception of a task is one of the errors after which it is to be tried once more."""
        wanted = self._tasks[done.task].options.retry_on
        return (
            bool(wanted)
            and self._scheduler.may_try_again(done.task)
            and isinstance(opened(done, self._tasks[done.task].function, node)[1], wanted)
        )

    def _take_back(self, node: int, tasks: list[int]) -> None:
        self._feed(plan.GaveBack(node, tuple(tasks), frozenset(filter(self._cancellations.is_wanted, tasks))))
        self._cancellations.note_answer(node)

    # ---- nodes that go and come

    def _cut(self, node: int) -> None:
        """Give up the connection with a node; the tasks it holds wait until its end is known."""
        self._sessions.pop(node).close()
        self.lost[node] = "its connection has ended"
        self._feed(plan.Cut(node))

    def _lose(self, node: int, ending: Ending) -> None:
        """Note why a node is gone. One whose process alone has crashed is started again, if there is something to do."""
        if node in self._sessions:  # its host has vanished or its agent stands still, which closes no connection
            self._cut(node)
        # else there is nothing to do for a process that would come up now
        wanted = bool(self._scheduler.unfinished or self._arrived or not self._finishing)
        reason = self._restarts.give_up(node, ending)
        returns = not reason and wanted
        self.lost[node] = reason or ending.reason
        logger.warning("%s is lost%s: %s", self._names[node], ", and started again" if returns else "", self.lost[node])
        if returns:
            self._restarts.start(node)
        self._forget_node(node, ending, returns)

    def _forget_node(self, node: int, ending: Ending, returns: bool) -> None:
        if not self._sessions and not self._restarts.under_way:
            # before the scheduler fails its tasks, which tell this reason
            self.broken = NodeLost(f"No node is left: {'; '.join(f'{self._names[n]}: {r}' for n, r in self.lost.items())}")
        self._feed(plan.Lost(node, self.lost[node], ending.last, returns))
        self._cancellations.lose_node(node)

    def _return_node(self, node: int, found: Session | BaseException) -> None:
        """Take in a new process of a node, or the error of its start."""
        if isinstance(found, BaseException):
            self.lost[node] = f"{self.lost[node]}; it could not be started again: {found}"
            logger.warning("%s is lost: %s", self._names[node], self.lost[node])
            self._forget_node(node, Ending(self.lost[node]), False)
            return
        self._sessions[node] = found
        self._cancellations.add_node(node)
        del self.lost[node]
        # before its first task: broadcasts, initializer and room, as to the first process
        for message in self._setup.all():
            self._outbox.tell(node, message)
        logger.info("%s is there again.", self._names[node])
        self._feed(plan.Returned(node))

    # ---- actions

    def _feed(self, event: object) -> None:
        # a queue, not a recursion: withdrawn tasks make others go out
        events = deque([event])
        while events:
            for action in self._scheduler.handle(events.popleft(), time.monotonic()):
                if isinstance(action, plan.Send):
                    withdrawn = self._send(action.node, action.tasks)
                    if withdrawn:
                        events.append(plan.Withdrawn(action.node, tuple(withdrawn)))
                elif isinstance(action, plan.Begin):
                    self._tasks.begin(action.task)
                elif isinstance(action, plan.Wait):
                    for number in action.tasks:
                        self._tasks.bring_home(number)
                elif isinstance(action, plan.TakeBack):
                    self._cancellations.note_question(action.node, action.tasks)
                    self._outbox.tell(action.node, ["back", list(action.tasks)])
                elif isinstance(action, plan.Cancel):
                    for number in action.tasks:
                        self._tasks.cancel(number)
                        self._cancellations.settle(number, True)
                elif isinstance(action, plan.Fail):
                    for number in action.tasks:
                        self._tasks.complete(number, error=self._loss(action, self._tasks[number]))

    def _loss(self, action: plan.Fail, task: Task) -> BaseException:
        if action.node is None:
            return NodeLost(str(self.broken))
        return task.loss(action.node, self._names[action.node], action.reason)

    def _send(self, node: int, numbers: Iterable[int]) -> list[int]:
        """Send tasks; return those that were cancelled."""
        withdrawn: list[int] = []
        going: list[tuple[int, Task]] = []
        for number in numbers:
            task = self._tasks.send(number, self.recall)
            if task is None:
                withdrawn.append(number)
            else:
                going.append((number, task))
        self._outbox.send(node, going)
        return withdrawn
