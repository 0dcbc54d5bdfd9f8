"""Executors, which run on the nodes of a job: the interface, and the simple case of one function."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Callable, Collection, Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any, ClassVar, NamedTuple

from .support.logs import get_logger

if TYPE_CHECKING:
    from .communication import Communication


class ReplyPackage:
    """Content that answers a request, or the result of an executor: `content` is any data that may travel (see
    network.values).
    """

    def __init__(self, content: Any = None) -> None:
        self._content = content

    def content(self) -> Any:
        """Return the content."""
        return self._content

    def __eq__(self, other: object) -> bool:
        return bool(self._content == other._content) if isinstance(other, ReplyPackage) else NotImplemented

    def __repr__(self) -> str:
        return f"{type(self).__name__}({self._content!r})"


def content_of(package: Any) -> Any:
    return package.content() if isinstance(package, ReplyPackage) else package


class Resources(NamedTuple):
    """Answers to the executors' requests: `reply(node, request)`, or with `packages` a `ReplyPackage` of that."""

    reply: Callable[[int, str], Any]
    packages: bool = False


class AbsExecutable(ABC):
    """Executor: made on every node of a job, fed with the resources that it requests, started, and asked for its result.

    Args:
        node_id: the node it runs on.
        working_group: the nodes that start together with it.
        initializer_id: the node that answers its requests (the submitter, -1).

    Attributes: `shipped`, the objects that were submitted with the class (`Coordinator.submit_group(..., objects=)`), and
    `cache_directory`, for data worth keeping between jobs; both are set before `requests` is called. `logger`, whose lines end
    in the job's log on this node. A class whose `start` calls the signals of `rpc.monitor` may say so with `signals = True`:
    then the failure detector also watches the time until the first of them.
    """

    signals: ClassVar[bool] = False
    serves_submitter: ClassVar[bool] = False
    """Whether the submitter may call it while it runs (`Coordinator.call`); in `com.controller` it then is the peer -1."""
    meets_peers: ClassVar[bool] = False
    """Whether it connects with other processes of its job by itself, while it runs, by `com.connector`."""

    def __init__(self, node_id: int, working_group: Sequence[int], initializer_id: int) -> None:
        self.node_id = node_id
        self.working_group = list(working_group)
        self.initializer_id = initializer_id
        self.shipped: Mapping[str, Any] = {}
        self.cache_directory = Path()
        self.logger = get_logger(f"Fit-{node_id}")

    @abstractmethod
    def requests(self) -> Sequence[str]:
        """Return the names of the resources that the executor needs first."""

    @abstractmethod
    def satisfy(self, replies: Sequence[Any]) -> Sequence[str]:
        """Take the contents of the requested resources, the `replies`, in order; return the names of those it needs next.

        Where the submitter calls `resources_dispatch(dispatch_map=...)` they are packages, and `.content()` is the content.
        """

    @abstractmethod
    def ready(self) -> bool:
        """Tell if the executor has all resources that it needs to start."""

    def over_tcp(self) -> Collection[int]:
        """Return the nodes that it shall meet over TCP though they may be on its host, where sockets and memory are nearer.

        Asked once it is ready; the other end names this one, too.
        """
        return ()

    def prepare(self) -> None:
        """Prepare the start, which may take time, once all resources are there; no node has started when this runs."""
        return

    @abstractmethod
    def start(self, com: Communication) -> None:
        """Do the work, with `com` for messages. Runs only once all nodes of the working group are ready."""

    @abstractmethod
    def done(self) -> ReplyPackage:
        """Return the result, after `start` has returned."""

    def trace_files(self) -> Sequence[str]:
        """Return the names of the report files that it has written into `com.output_directory`, for the submitter to fetch."""
        return []


class AbsSimpleExecutor(AbsExecutable):
    """Executor that needs no resources: override `run`; its return value is the result.

    >>> class Hello(AbsSimpleExecutor):
    ...     def run(self, com):
    ...         return f"hello from {com.node_id}"
    """

    _result: Any = None

    @abstractmethod
    def run(self, com: Communication) -> Any:
        """Do the work, with `com` for messages; the returned value must be data that may travel."""

    def requests(self) -> Sequence[str]:
        return []

    def satisfy(self, replies: Sequence[Any]) -> Sequence[str]:
        return []

    def ready(self) -> bool:
        return True

    def start(self, com: Communication) -> None:
        self._result = self.run(com)

    def done(self) -> ReplyPackage:
        return ReplyPackage(content_of(self._result))
