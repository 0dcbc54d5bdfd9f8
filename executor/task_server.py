"""Program of a node for `ClusterExecutor`: it takes tasks from the submitter until there are no more."""

from __future__ import annotations

import sys
import time
from collections.abc import Callable, Sequence
from typing import Any, ClassVar, NamedTuple

import numpy as np

from network.errors import ProtocolError
from rpc.communication import Communication
from rpc.dialing import await_submitter, watch_for_silence
from rpc.executable import AbsSimpleExecutor
from rpc.job import add_remedy
from rpc.monitor import job_monitor
from rpc.support.forks import OwnProcess

from .errors import NotData
from .functions import name_of
from .keeper import SHELVES
from .messages import BROKEN, FAILURE, PICKLED, RESULT
from .payload import Payload, pack_failure, pack_payload, pack_pickled, unpack_payload
from .process_setup import HELD
from .task_queue import Assignment, TaskQueue
from .values import Registered

_SWITCH_SECONDS = 0.001  # between threads: the queue must not wait 5 ms for a task that computes in Python
_OURS = 2  # references to an array that only the result holds: the list of arrays, and the argument of getrefcount


class TaskServer(AbsSimpleExecutor):
    """Server that executes tasks one after the other, in the main thread of its process."""

    serves_submitter: ClassVar[bool] = True

    _count = 0

    def run(self, com: Communication) -> int:
        """Serve until the submitter says that there are no more tasks; return how many there were."""
        session = await_submitter(com.controller)
        # a submitter whose host vanishes must not leave its nodes busy for ever
        watch_for_silence(session)
        sys.setswitchinterval(_SWITCH_SECONDS)
        queue = TaskQueue(com.controller, session)
        # in the main thread, where handlers of signals run
        queue.limit.install()
        HELD.set(queue.values)
        SHELVES.set(queue.shelves)
        functions = _Loaded(com, queue)
        process = OwnProcess()
        try:
            while (assignment := queue.next()) is not None:
                job_monitor.work_begins(assignment.task + 1)  # its agent reads this if the process does not survive the task
                self._execute(assignment, functions, queue, process)
                del assignment  # its arguments must not live until the next task comes
        finally:
            # a fork of a task that came back has no queue
            if process.is_here:
                queue.close()
        return self._count

    def _execute(self, assignment: Assignment, functions: _Loaded, queue: TaskQueue, process: OwnProcess) -> None:
        classes: Sequence[type] = ()
        if queue.output is not None:
            queue.output.begin(assignment.task)
        begin = time.perf_counter()
        wrong = BROKEN
        try:
            # within the try: its exception is the answer to the task, as BROKEN
            functions.initialize()
            wrong = FAILURE
            if assignment.limit:
                queue.begin_limit(assignment)
            callee = functions.get(assignment.function)
            classes = callee.classes
            # handed over unnamed, so that the references of the result are counted right
            kind, payload = _pack_result(_call(callee, assignment), callee)
            # before anything is sent: a fork of the task must not answer in its place
            process.end_child()
            seconds = time.perf_counter() - begin
            # within the try: an interruption that comes until here is this task's
            if assignment.limit:
                queue.limit.end()
        except BaseException as error:  # whatever a task raises is its result
            if not process.is_here:  # of a process that the task has forked: it ends as it would anywhere
                raise
            seconds = time.perf_counter() - begin
            # first of all: no interruption may come while the exception is packed
            queue.limit.end()
            kind, payload = wrong, pack_failure(_named(error, assignment, queue), classes)
        self._count += 1
        if queue.output is not None:
            queue.output.end()  # before the result
        queue.put(assignment.task, kind, seconds, payload)


def _named(error: BaseException, assignment: Assignment, queue: TaskQueue) -> BaseException:
    """Name the exception of a task, or that it has taken too long, if it was interrupted for that."""
    add_remedy(error)
    if not isinstance(error, KeyboardInterrupt) or not queue.limit.has_hit(assignment.task):
        return error
    late = TimeoutError(f"It took longer than its limit of {assignment.limit:g} s.")
    late.__traceback__ = error.__traceback__
    return late


class _Callee(NamedTuple):
    """Function, the classes and registered types of its arguments and results, and whether these may be pickled."""

    function: Callable[..., Any]
    classes: Sequence[type]
    registered: Registered
    trusted: bool


class _Loaded:
    """Functions by number, loaded when they are first called."""

    def __init__(self, com: Communication, queue: TaskQueue) -> None:
        self._com, self._queue = com, queue
        self._known: dict[int, _Callee] = {}

    def initialize(self) -> None:
        """Call the initializer before the first task. Raises: its exception, each time."""
        if self._queue.initializer is not None:
            self._queue.initializer.call(self._com.load_code)

    def get(self, number: int) -> _Callee:
        found = self._known.get(number)
        if found is None:
            # forgotten by the submitter since; only this thread may delete from the table
            for old in self._known.keys() - self._queue.code.keys():
                del self._known[old]
            if number not in self._queue.code:
                raise ProtocolError(f"The submitter sent a task before its function {number}.")
            objects, classes = self._com.load_code(*self._queue.code[number])
            if self._queue.initializer is not None:
                # before its first call: it may read what the initializer has set
                self._queue.initializer.share(objects)
            registered = {converter.type: converter for converter in objects.get("registered", ())}
            found = self._known[number] = _Callee(objects["function"], classes, registered, objects.get("trusted", False))
        return found


def _call(callee: _Callee, assignment: Assignment) -> Any:
    function = callee.function
    arguments = unpack_payload(assignment.tree, assignment.arrays, callee.classes, callee.registered)
    if assignment.many:
        return [function(*each) for each in arguments]
    if type(arguments) is list:
        return function(*arguments)
    args, kwargs = arguments
    return function(*args, **kwargs)


def _pack_result(value: Any, callee: _Callee) -> tuple[int, Payload]:
    kind = RESULT
    try:
        payload = pack_payload(value, callee.classes, callee.registered)
    except (TypeError, ValueError) as error:
        if not callee.trusted and isinstance(error, ValueError):  # data, but too much of it
            raise
        if not callee.trusted:
            raise NotData(f"The result of {name_of(callee.function)} is no data: {error}") from None
        kind, payload = PICKLED, _pickled(value, callee)
    # the count of references below must not include this name
    del value
    arrays = payload.arrays
    for number in range(len(arrays)):  # the result leaves while later tasks run, which may write into arrays that they share
        own = arrays[number].flags.owndata and sys.getrefcount(arrays[number]) <= _OURS
        if not own and not isinstance(arrays[number].base, bytes):  # which no task can change
            arrays[number] = np.array(arrays[number], order="C")
    return kind, payload


def _pickled(value: Any, callee: _Callee) -> Payload:
    try:
        return pack_pickled(value, callee.classes)
    except TypeError as error:
        raise NotData(f"The result of {name_of(callee.function)} is no data, nor can it be pickled: {error}") from None
