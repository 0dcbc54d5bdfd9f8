"""Executor that runs tasks on the nodes of a cluster; it is a `concurrent.futures.Executor`."""

from __future__ import annotations

import atexit
import copy
import functools
import itertools
import threading
import time
import weakref
from collections import deque
from collections.abc import Callable, Collection, Iterable, Iterator, Sequence
from concurrent.futures import Executor, Future
from contextlib import contextmanager
from pathlib import Path
from types import TracebackType
from typing import TYPE_CHECKING, Any, Final, TypeVar

from network.names import missing
from network.nodes import NodeAssignment
from rpc.launch.local import local_agents
from rpc.support.logs import get_logger

from .dispatcher import Dispatcher
from .errors import like
from .functions import Function, Functions, user_classes
from .job import TaskJob
from .keeper import KEEP_BYTES
from .payload import pack_payload
from .process_setup import INITIALIZER, Broadcast, Held, checked_initargs, initializer_message, pack_broadcast
from .tasks import NO_OPTIONS, OUTPUTS, Console, Errors, ExecutorStatus, Output, Task, TaskFuture

T = TypeVar("T")
logger = get_logger("executor")
#: Methods of Dask's clients and the pools of multiprocessing.
_MEANT: Final = {
    "gather": "[future.result() for future in futures]",
    "scatter": "broadcast(value)",
    **dict.fromkeys(("apply_async", "apply", "compute"), "submit(fn, ..)"),
    **dict.fromkeys(("starmap", "imap", "map_async"), "map(fn, ..)"),
    **dict.fromkeys(("imap_unordered", "as_completed"), "concurrent.futures.as_completed(futures)"),
    "persist": "persist() of a collection, executor.parallel.Context",
    "cancel": "cancel() of a future",
    **dict.fromkeys(("close", "join"), "shutdown()"),
    "terminate": "shutdown(cancel_futures=True)",
    "run": "the argument 'initializer', which each process calls",
    **dict.fromkeys(("ncores", "nthreads", "scheduler_info", "who_has", "dashboard_link"), "status()"),
    "wait_for_workers": "nothing: an executor has all its nodes when it is made",
    "upload_file": "nothing: functions travel with what they name",
}


class ClusterExecutor(Executor):
    """Executor of calls on agents: the interface of `concurrent.futures`, with its meaning. Its nodes are busy until
    `shutdown`.

    Functions travel by cloudpickle, with the classes and functions of the user's modules that they name; they are packed anew
    when one of the objects that they name is another object, not when it is changed in place. Arguments and results are data
    (see `executor.values`): numbers, texts, dates, arrays, frames of pandas, sparse matrices, containers of these, instances of
    the user's own plain classes, and types given to `register_value`. Arrays are not copied: do not change those of a call
    until it runs, and large ones travel faster alone than in pieces.

    Exceptions come back as their class where this process has it and they print as they did there, else as `RemoteError`;
    `__cause__` is the remote traceback.

    Args:
        nodes: places of the agents; each executes one task at a time.
        retries: how often a task whose node was lost is tried on another; then its future raises `NodeLost`, a
            `concurrent.futures.BrokenExecutor`, that names the node.
        pure: tasks may run more than once: they are retried three times unless `retries` says otherwise, and when a node has
            nothing to do, a task that takes much longer than others gets a second chance there.
        key_file: the cluster key; default as in `network.Request`.
        title: text that other users see while the nodes are busy.
        blas_threads: BLAS threads of each node; 0 for the cores of its host divided by the nodes there.
        keep_bytes: memory in which each node keeps partitions of collections (see `Collection.persist`), about.
        output: where `print`, stderr and the log records of tasks go, up to 1 MiB of each: "inline", to stdout, stderr and the
            logger `executor.tasks` here, behind the names of node and task; "future", to the attribute `output` of the future;
            "off", nowhere. The job's log on the node has them in any case.
        trust_results: take results that are no data, fitted estimators say, as pickles. Loading one runs code from the node: an
            attacker that has taken over a node then runs code here, as this user.
        initializer, initargs: called as `initializer(*initargs)` in each process before its first task. Globals that it sets in
            its module are those of all tasks. If it raises, the executor is broken: all futures raise `BrokenExecutor`.

    Attributes: `job`, the id of the job that keeps the nodes, which `psgd stop` or a `Reclaimer` can stop.

    Raises: NetworkError (SubmissionError, NodeBusy) naming the node that cannot be had.

    >>> with ClusterExecutor(nodes) as executor:  # doctest: +SKIP
    ...     print(list(executor.map(lambda x: x * x, range(10))))
    """

    _whole: ClusterExecutor | None = None  # of which this is a view: it ends when the program holds neither it nor a view

    def __init__(
        self,
        nodes: NodeAssignment,
        *,
        retries: int | None = None,
        pure: bool = False,
        key_file: str | Path | None = None,
        title: str = "executor",
        blas_threads: int = 1,
        keep_bytes: int = KEEP_BYTES,
        output: Output = "inline",
        trust_results: bool = False,
        initializer: Callable[..., object] | None = None,
        initargs: Sequence[Any] = (),
    ) -> None:
        if not isinstance(nodes, NodeAssignment):
            raise TypeError(f"ClusterExecutor 'nodes' must be a NodeAssignment, got {type(nodes).__qualname__}.")
        # tasks that may run twice are retried unless told otherwise; others only if their caller says so
        if retries is None:
            retries = 3 if pure else 0
        for name, value in (("retries", retries), ("keep_bytes", keep_bytes), ("blas_threads", blas_threads)):
            if isinstance(value, bool) or not isinstance(value, int) or value < 0:
                raise ValueError(f"ClusterExecutor {name!r} must be an integer from 0, got {value!r}.")
        if output not in OUTPUTS:
            raise ValueError(f"ClusterExecutor 'output' must be one of {', '.join(map(repr, OUTPUTS))}, got {output!r}.")
        if not isinstance(trust_results, bool):
            raise TypeError(f"ClusterExecutor 'trust_results' must be True or False, got {trust_results!r}.")
        # before a node is asked: a wrong initializer must not cost a submission
        arguments = checked_initargs(initializer, initargs)
        first = None if initializer is None else initializer_message(initializer, arguments)
        job = TaskJob(nodes, key_file, title, blas_threads)
        self.job, self._title = job.job, title
        self._names = dict(job.names)
        console = None if output == "off" else Console(keep=output == "future")
        # its thread owns the sessions from here on
        self._dispatcher = dispatcher = Dispatcher(job.sessions, job.names, retries, pure, job, console)
        # before any task: orders reach a node in this order
        dispatcher.order(["room", keep_bytes])
        if console is not None:
            dispatcher.order(["listen"])
        if first is not None:
            dispatcher.order(first)
        beside = {} if initializer is None else {INITIALIZER: initializer}
        self._functions = Functions(dispatcher.forget, beside=beside)
        self._trusts = trust_results
        self._options = NO_OPTIONS
        self._lock = dispatcher.lock
        self._numbers = itertools.count()
        self._at_exit = _at_exit(dispatcher)
        atexit.register(self._at_exit)  # submitted tasks are executed, as with the standard executors
        # without atexit: the handler above waits for the tasks, this one would not
        weakref.finalize(self, dispatcher.finish).atexit = False

    if not TYPE_CHECKING:  # else a type checker would take every name

        def __getattr__(self, name: str) -> Any:
            """Raise the error for an attribute that is not there, with the name here for one of Dask or multiprocessing."""
            return missing(self, name, _MEANT)

    @property
    def nodes(self) -> list[int]:
        """Ids of the nodes that the executor was made with, ascending."""
        return sorted(self._names)

    @property
    def live_nodes(self) -> list[int]:
        """Ids of the nodes that are not lost, as far as is known, ascending."""
        return [node for node in self.nodes if node not in self._dispatcher.lost]

    def status(self) -> ExecutorStatus:
        """Count the tasks and list the nodes of the executor, at this moment."""
        dispatcher = self._dispatcher
        # copies first: the dispatcher's thread goes on meanwhile
        gone, starting = dict(dispatcher.lost), dispatcher.restarting
        live = tuple(node for node in self.nodes if node not in gone)
        lost = {node: reason for node, reason in gone.items() if node not in starting}
        restarting = tuple(node for node in self.nodes if node in gone and node in starting)
        return ExecutorStatus(tuple(self.nodes), live, lost, *dispatcher.counts, dispatcher.shut, restarting)

    def __repr__(self) -> str:
        options = "" if self._options is NO_OPTIONS else f", with {self._options}"
        return f"<ClusterExecutor {self._title!r}: {self.status()}{options}>"

    def with_options(
        self, *, timeout: float | None = None, retries: int | None = None, retry_on: Errors = ()
    ) -> ClusterExecutor:
        """Make a view of this executor that gives its calls a limit or retries of their own.

        An example is `executor.with_options(timeout=5).submit(...)`. All tasks submitted to the view have the options; else it
        is the same executor: to shut it down shuts this one down. Options that are not given stay as they are.

        Args:
            timeout: seconds that a task may run, not counting the time that it waits. One that takes longer is interrupted
                where it is and raises TimeoutError; if it goes on for two seconds more, its process is ended and started again.
            retries: how often a task is tried again, instead of as often as the executor says, after the loss of its node, and
                after the exceptions in `retry_on`.
            retry_on: exceptions of a task after which it is tried again: TimeoutError, or others that may not come the next
                time.

        Raises: ValueError and TypeError naming the option and its value.
        """
        options = self._options.changed(timeout, retries, retry_on)
        view = copy.copy(self)  # with the same dispatcher
        view._options, view._whole = options, self._whole or self
        return view

    def submit(self, fn: Callable[..., T], /, *args: Any, **kwargs: Any) -> Future[T]:
        """Call `fn(*args, **kwargs)` on a node.

        Raises: TypeError naming the argument or the part of the function that cannot travel; ValueError for more than 2 GiB
        of arguments or 8 MiB of code; RuntimeError after `shutdown`, and in a process that was forked from that of the
        executor; BrokenExecutor when no node is left.
        """
        return self.submit_task(fn, (args, kwargs) if kwargs else list(args))

    def submit_near(self, nodes: Collection[int], fn: Callable[..., T], /, *args: Any) -> Future[T]:
        """Call `fn(*args)` on one of some nodes, because of the values they hold.

        Args:
            nodes: ids of these; on any node for none, or if all are lost.
            fn: the function; the arguments behind it are its own.
        """
        return self.submit_task(fn, list(args), near=nodes)

    def submit_task(
        self,
        fn: Callable[..., Any],
        arguments: Any,
        *,
        many: bool = False,
        near: Collection[int] = (),
        trust_results: bool | None = None,
    ) -> Future[Any]:
        """Submit a task, for `submit` and its kin.

        Args:
            fn: the function to call.
            arguments: a list, a tuple (args, kwargs), or with `many` a list of tuples.
            many: call `fn` with each tuple.
            near: ids of nodes, one of which is to run it; any node for none.
            trust_results: holds in place of the executor's, if it is not None.

        Returns: the future of the result, or with `many` of the list of results.

        Raises: as `submit`.
        """
        if not callable(fn):
            raise TypeError(f"ClusterExecutor executes functions, got {type(fn).__qualname__}.")
        self._dispatcher.process.check("executor")  # before a lock, which a thread of the parent may hold
        trusted = self._trusts if trust_results is None else trust_results
        # counted as begun from here, so that its code is not forgotten while the arguments are packed
        function = self._reserve(fn, (), trusted)
        try:
            try:
                payload = pack_payload(arguments, function.classes, function.registered)
            except TypeError:
                # packed once more, with the classes of the arguments, which may be nested anywhere
                self._release(function)
                function = self._reserve(fn, user_classes(arguments), trusted)  # which the code of the function does not name
                try:
                    payload = pack_payload(arguments, function.classes, function.registered)
                except TypeError as error:
                    culprit = _culprit(arguments, function, many)
                    raise TypeError(f"{culprit} of {function.name} cannot travel: {error}") from None
            # packed before the lock: a large argument would hold up all other threads that submit
            future: TaskFuture[Any] = TaskFuture()
            # the look and the submission in one lock: the thread ends before both or after both
            with self._lock:
                self._check_open()
                self._dispatcher.submit(Task(future, function, payload, many, self._options), near)
        # Ctrl-C, too: a count that stays would keep the code for ever
        except BaseException:
            self._release(function)
            raise
        return future

    def _reserve(self, fn: Callable[..., Any], classes: Sequence[type], trusted: bool) -> Function:
        """Find the function that `fn` is now, which is not forgotten until the task that is being made has ended."""
        with self._lock:
            self._check_open()
            function = self._functions.of(fn, classes, trusted)
            function.begun += 1
            return function

    def _release(self, function: Function) -> None:
        """Release a function for which no task could be made."""
        with self._lock:
            function.begun -= 1
        self._dispatcher.forget(function)

    def _check_open(self) -> None:
        broken = self._dispatcher.broken
        if broken is not None:
            # another object: each raise adds a traceback
            raise like(broken)
        if self._dispatcher.shut or self._dispatcher.ended:  # as it has at the end of the program, for exit handlers to come
            raise RuntimeError("This ClusterExecutor has been shut down and takes no tasks.")

    def map(
        self,
        fn: Callable[..., T],
        *iterables: Iterable[Any],
        timeout: float | None = None,
        chunksize: int = 1,
        buffersize: int | None = None,
    ) -> Iterator[T]:
        """Call `map(fn, *iterables)` on the nodes, results in order; without `buffersize` the iterables are collected at once.

        Args:
            fn: the function to call.
            iterables: its arguments, one iterable for each.
            timeout: seconds from now after which `next` raises TimeoutError.
            chunksize: calls per task; much faster for tiny calls. Options hold for each task.
            buffersize: at most so many tasks with results that were not asked for; then iterables may be endless.
        """
        if chunksize < 1:
            raise ValueError(f"map 'chunksize' must be a positive integer, got {chunksize}.")
        if buffersize is not None and buffersize < 1:
            raise ValueError(f"map 'buffersize' must be None or a positive integer, got {buffersize}.")
        # from the call on, as in concurrent.futures, not from the first `next`
        deadline = None if timeout is None else time.monotonic() + timeout
        chunks = _chunks_of(iterables, chunksize)
        submit = functools.partial(self.submit_task, fn, many=True)
        futures = deque(submit(chunk) for chunk in itertools.islice(chunks, buffersize))
        return _results(futures, deadline, chunks if buffersize is not None else iter(()), submit)

    def broadcast(self, value: T) -> Broadcast[T]:
        """Bring `value` to every node once; tasks that name the returned object get it by its `value`.

        Raises: TypeError when it is no data, RuntimeError after `shutdown`.
        """
        self._dispatcher.process.check("executor")
        # outside the lock, as arguments are
        payload = pack_broadcast(value)
        with self._lock:
            self._check_open()
            number = next(self._numbers)
            self._dispatcher.order(["hold", number, payload.tree, payload.arrays])
        return Broadcast(Held(number, value), lambda: self._dispatcher.order(["drop", [number]]))

    def new_shelf(self) -> int:
        """Return the number of a shelf on which tasks may keep values, by `executor.keeper.SHELVES`, until `clear_shelf`."""
        return next(self._numbers)

    def clear_shelf(self, shelf: int) -> None:
        """Free the values that the nodes keep on `shelf`; idempotent."""
        self._dispatcher.order(["clear", [shelf]])

    def shutdown(self, wait: bool = True, *, cancel_futures: bool = False) -> None:
        """Take no more tasks, and free the nodes when all have ended.

        Args:
            wait: whether it returns only when the nodes are free again.
            cancel_futures: whether tasks that no node has begun are cancelled.
        """
        if not self._dispatcher.process.is_here:  # it is the parent's
            return
        # seen by `submit` in another thread, before or after all of it
        with self._lock:
            self._dispatcher.shut = True
        if cancel_futures:
            self._dispatcher.cancel_waiting()
        self._dispatcher.finish()
        # a callback of a future runs in that thread
        if wait and threading.current_thread() is not self._dispatcher.thread:
            self._dispatcher.wait()
            atexit.unregister(self._at_exit)

    def __exit__(self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None) -> None:
        """Shut down as by `shutdown()`. When Ctrl-C ends the block, tasks that no node has begun are cancelled. A second
        Ctrl-C ends the others: their futures raise BrokenExecutor.
        """
        if kind is None or not issubclass(kind, KeyboardInterrupt):
            self.shutdown()
            return
        try:
            # first without waiting, so that the line below says what is waited for
            self.shutdown(wait=False, cancel_futures=True)
            running = self._dispatcher.counts[1]
            if running:
                begun = "a task that has begun" if running == 1 else f"{running} tasks that have begun"
                logger.warning("Waiting for %s; Ctrl-C again ends the executor without waiting.", begun)
            self.shutdown()
        except KeyboardInterrupt:
            self._dispatcher.abandon()
            self.shutdown()
            raise


def _at_exit(dispatcher: Dispatcher) -> Callable[[], None]:
    """Make the exit handler; it does not keep a dispatcher that has ended its thread."""
    # weak: an executor that is not held any more can end before the program does
    finish = weakref.WeakMethod(dispatcher.finish_and_wait)

    def finish_and_wait() -> None:
        found = finish()
        if found is not None:
            found()

    return finish_and_wait


def _chunks_of(iterables: Iterable[Iterable[Any]], size: int) -> Iterator[list[Any]]:
    calls = zip(*iterables, strict=False)  # uneven iterables end with the shortest, as in the standard executors
    # an empty list ends it: no iterable has anything left
    return iter(lambda: list(itertools.islice(calls, size)), [])


def _results(
    futures: deque[Future[Any]], deadline: float | None, rest: Iterator[Any], submit: Callable[[Any], Future[Any]]
) -> Iterator[Any]:
    """Yield results in order; a caller that stops asking cancels the tasks that have not begun."""
    try:
        while futures:
            # below 0 past the deadline: a result that is there is still given, as the standard executors give it
            left = None if deadline is None else deadline - time.monotonic()
            # taken before the next chunk is submitted, so that `buffersize` bounds what was computed and not asked for
            results = deque(futures[0].result(left))
            futures.popleft()
            for chunk in itertools.islice(rest, 1):
                futures.append(submit(chunk))
            while results:
                yield results.popleft()  # nothing here keeps a result that was given
    finally:
        for future in futures:
            future.cancel()


def _culprit(arguments: Any, function: Function, many: bool) -> str:
    if many:
        named = [(f"Argument {i} of call {call}", item) for call, args in enumerate(arguments) for i, item in enumerate(args)]
    else:
        args, kwargs = arguments if isinstance(arguments, tuple) else (arguments, {})
        named = [(f"Argument {place}", item) for place, item in enumerate(args)]
        named += [(f"Argument {name!r}", item) for name, item in kwargs.items()]
    # one by one: the error of all together does not say which
    for shown, item in named:
        try:
            pack_payload(item, function.classes, function.registered)
        except TypeError:
            return shown
    return "An argument"


@contextmanager
def local_nodes(count: int, *, slots: int = 1) -> Iterator[NodeAssignment]:
    """Start agents on free ports of this machine and yield their nodes; they end with the block.

    Args:
        count: number of agents.
        slots: number of executors to which each may belong at once.

    >>> with local_nodes(2) as nodes, ClusterExecutor(nodes) as executor:  # doctest: +SKIP
    ...     print(executor.submit(pow, 2, 10).result())
    """
    with local_agents(count, slots=slots) as agents:
        nodes = NodeAssignment(key_file=agents.key_file)
        nodes.lives = agents.lives  # so that a lost node whose agent goes on may be told from one whose host is gone
        for number, address in enumerate(agents.addresses):
            nodes.add(number, address)
        yield nodes
