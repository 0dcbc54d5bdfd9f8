"""What became of nodes whose connection has ended: why, what they had begun, and whether a new process takes their place."""

from __future__ import annotations

import threading
import time
from collections import deque
from collections.abc import Callable, Iterator
from typing import NamedTuple, Protocol

from network.session import Session
from rpc.logs import get_logger

EVIDENCE_SECONDS = 1.0  # for the agent to say why a process has ended, after its connection has
LOOK_SECONDS = 0.5
_ASK_SECONDS = 0.02  # between looks while something is awaited
MOST_VAIN = 3  # processes of a node, one after the other, that end before they have begun a task
logger = get_logger("executor")


class Ending(NamedTuple):
    """How the job has ended on a node. `last` is the task that it began last, -1 for none, None if nobody knows.

    `crashed`: its process has, and its agent is there. `vanished`: its agent is not, though its connection may stand.
    """

    reason: str
    last: int | None = None
    crashed: bool = False
    vanished: bool = False


class Job(Protocol):
    """What keeps the nodes. `look` and `end` are called in one thread, `start_again` in another."""

    def look(self) -> dict[int, Ending]:
        """The nodes on which it has ended; takes no time."""

    def start_again(self, node: int) -> Session:
        """A new process on a node whose process has crashed. Raises: NetworkError and others."""

    def end(self) -> None:
        """There are no more tasks: wait until the nodes are free."""


class Restarts:
    """Of the nodes of one job; `call` wakes the dispatcher, to whose thread all of this belongs.

    Attribute: `under_way`, the nodes whose new process is being started.
    """

    def __init__(self, job: Job, call: Callable[[], None]) -> None:
        self._job, self._call = job, call
        self._next_look = time.monotonic()
        self._open: dict[int, tuple[str, float]] = {}  # nodes whose connection has ended: how, and until when evidence may come
        self._vain: dict[int, int] = {}
        self._threads: dict[int, threading.Thread] = {}
        self._results: deque[tuple[int, Session | BaseException]] = deque()
        self.under_way: set[int] = set()

    @property
    def deadline(self) -> float:
        """When to call `look` (monotonic)."""
        return self._next_look

    def cut(self, node: int, reason: str) -> None:
        """The connection with a node has ended, for `reason` as far as can be seen from here."""
        now = time.monotonic()
        self._open[node] = (reason, now + EVIDENCE_SECONDS)
        self._next_look = now

    def look(self) -> Iterator[tuple[int, Ending]]:
        """The nodes of which it is known, or never will be, what became of them, and those that have vanished."""
        now = time.monotonic()
        if now < self._next_look:
            return
        endings = self._job.look()
        for node, ending in endings.items():
            if ending.vanished and node not in self.under_way:
                self._open.pop(node, None)
                yield node, ending
        for node, (reason, deadline) in list(self._open.items()):
            if node in endings or now >= deadline:
                del self._open[node]
                yield node, endings.get(node) or Ending(reason)
        self._next_look = now + (_ASK_SECONDS if self._open else LOOK_SECONDS)

    # ---- new processes

    def give_up(self, node: int, ending: Ending) -> str:
        """Why no new process takes the place of one that has ended; "" if one does."""
        if not ending.crashed:
            return ending.reason
        self._vain[node] = self._vain.get(node, 0) + 1 if ending.last == -1 else 0
        if self._vain[node] >= MOST_VAIN:
            return f"{ending.reason}; so did {MOST_VAIN} of its processes one after the other, before they had begun a task"
        return ""

    def start(self, node: int) -> None:
        """Have a new process started there; `results` tells what came of it."""
        self.under_way.add(node)
        thread = self._threads[node] = threading.Thread(target=self._start, args=(node,), name="executor-restart", daemon=True)
        thread.start()

    def _start(self, node: int) -> None:
        try:
            self._results.append((node, self._job.start_again(node)))
        except BaseException as error:  # noqa: BLE001  the node is lost then, whatever it was
            self._results.append((node, error))
        self._call()

    def __bool__(self) -> bool:
        """Whether there are results that nobody has taken."""
        return bool(self._results)

    def results(self) -> Iterator[tuple[int, Session | BaseException]]:
        """The new sessions, or why there is none, since the last call."""
        while self._results:
            node, result = self._results.popleft()
            self._threads.pop(node).join()
            self.under_way.discard(node)
            yield node, result

    def end(self) -> list[Session]:
        """Wait for the starts that are under way; returns what came of them."""
        for thread in self._threads.values():
            thread.join()
        return [result for _, result in self.results() if isinstance(result, Session)]
