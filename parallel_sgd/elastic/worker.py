"""Worker of an elastic job, in one process from first round to last: the function and its group over sockets."""

from __future__ import annotations

import contextlib
import io
import sys
import time
from collections.abc import Callable, Iterator, Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any, ClassVar, TextIO, TypeVar

import numpy as np

from network.controller import Controller
from network.errors import NetworkError
from network.session import Session
from network.values import encode
from rpc import AbsExecutable, Communication, ReplyPackage, await_submitter, check_op, check_root, watch_for_silence
from rpc.job import PeerConnector, look_if_cores_suffice
from rpc.monitor import job_monitor, monitor_train_end
from rpc.support.logs import get_logger

from .driver_link import DriverLink
from .group import Array, WorkerRemoved, WorkersLostError, using
from .messages import Got, Here, Kept, Printed, Ready, Returned, Round, Void, Waits

ARGUMENTS = "arguments"


_TOLD_CHARACTERS = 1 << 16  # of what was printed, in one message


class _Lines(io.TextIOBase):
    """A stream that tells the driver the whole lines that are written, and leaves all of the text in the log, too."""

    def __init__(self, log: TextIO, link: DriverLink) -> None:
        self._log, self._link = log, link
        self._begun = ""

    def write(self, text: str) -> int:
        self._log.write(text)
        # half a line waits for its end: messages have whole lines
        whole, newline, self._begun = (self._begun + text).rpartition("\n")
        if newline:
            self._tell(whole + newline)
        return len(text)

    def flush(self) -> None:
        self._log.flush()

    def end(self) -> None:
        if self._begun:
            self._tell(self._begun + "\n")
            self._begun = ""

    def _tell(self, text: str) -> None:
        # long output goes out in several messages, none of which may be too large
        for start in range(0, len(text), _TOLD_CHARACTERS):
            self._link.say(Printed(text[start : start + _TOLD_CHARACTERS]))


@contextlib.contextmanager
def _printing(link: DriverLink) -> Iterator[None]:
    lines = _Lines(sys.stdout, link)
    with contextlib.redirect_stdout(lines):
        try:
            yield
        finally:
            lines.end()


class ElasticWorker(AbsExecutable):
    """Executor that meets the other workers, runs the function with their group, and tells the driver its result.

    Shipped with it: `function`; `arguments`, a list with those that are code or objects; `watched` and `keep_every`, see
    `JobGroup`; `prints`, whether the driver is sent the text that the function prints. The data among the arguments is
    requested from the submitter, as {place: value}.
    """

    serves_submitter: ClassVar[bool] = True
    meets_peers: ClassVar[bool] = True

    _data: dict[int, Any] | None = None

    def requests(self) -> Sequence[str]:
        return [ARGUMENTS]

    def satisfy(self, replies: Sequence[Any]) -> Sequence[str]:
        self._data = replies[0]
        return []

    def ready(self) -> bool:
        return self._data is not None

    def start(self, com: Communication) -> None:
        if com.connector is None:
            raise RuntimeError("An elastic worker runs in a job process, which lets it meet its peers.")
        line = await_submitter(com.controller)
        watch_for_silence(line)
        hooks = com.controller.on_wait, com.controller.on_resume
        com.controller.on_wait = com.controller.on_resume = None  # that the link waits shows nothing
        link = DriverLink(com.controller, line)
        settings = {"watched": self.shipped["watched"], "keep_every": self.shipped["keep_every"]}
        group = JobGroup(com, com.connector, link, *hooks, **settings)
        try:
            link.say(Here(com.connector.place))
            group.join()
            with using(group), _printing(link) if self.shipped["prints"] else contextlib.nullcontext():
                value = self.shipped["function"](*self._arguments())
            # after the function: from here on no progress is expected (FD-5)
            monitor_train_end()
            # before the others are told, so that an error names this worker
            _check_travels(value, com)
            link.say(Returned(value))
            # data that was sent arrives before the connections end
            group.leave(graceful=True)
            link.await_end()
        except WorkerRemoved as removed:
            self.logger.warning("%s", removed)
        finally:
            com.connector.close()
            # in any case; after a graceful end this does nothing
            group.leave(graceful=False)
            link.close()

    def _arguments(self) -> list[Any]:
        arguments = list(self.shipped["arguments"])
        for place, value in (self._data or {}).items():
            arguments[place] = value
        return arguments

    def done(self) -> ReplyPackage:
        """Return an empty reply: the driver has the result already."""
        return ReplyPackage(None)


def _check_travels(value: Any, com: Communication) -> None:
    try:
        encode(value, com.controller.classes)
    except TypeError as error:
        raise TypeError(f"What the function of an elastic job returns must be data: {error}") from None


TELL_SECONDS = 1.0  # of waiting in an operation until the driver is told, which then looks for the missing workers
_Result = TypeVar("_Result")
logger = get_logger("parallel_sgd.elastic")


class JobGroup:
    """A `Group` over sockets; it belongs to the thread of the function, like its operations.

    A round has connections of its own, so that nothing of an earlier one can come in. `on_wait` and `on_resume` are called
    before and after each wait for the others (see `Controller`). With `watched` each operation that has ended is progress for
    the failure detector (`rpc.monitor`). With `keep_every` seconds the state is kept about that often, at the driver.
    """

    def __init__(
        self,
        com: Communication,
        connector: PeerConnector,
        link: DriverLink,
        on_wait: Callable[[], None] | None,
        on_resume: Callable[[bool], None] | None,
        *,
        watched: bool,
        keep_every: float | None,
    ) -> None:
        self._com, self._connector, self._link, self._watched = com, connector, link, watched
        self._keep_every, self._kept_at = keep_every, time.monotonic()
        self._kept: Any = None
        self._on_wait, self._on_resume = on_wait, on_resume
        self.subscribe, self.unsubscribe = link.subscribe, link.unsubscribe
        self._round = Round(0, 0, [com.node_id], [connector.place])
        self._controller: Controller | None = None
        self._peers: Communication | None = None
        self._broken: Exception | None = None
        self._first_rank = -1
        self._count = 0
        self._name, self._since, self._told = "", 0.0, False

    # ---- membership

    @property
    def rank(self) -> int:
        return self._round.members.index(self._com.node_id)

    @property
    def size(self) -> int:
        return len(self._round.members)

    @property
    def sequence(self) -> int:
        return self._round.sequence

    def keep(self, content: Callable[[], Any]) -> None:
        now = time.monotonic()
        # all workers have rank 0's state, so one copy is enough
        if self._keep_every is not None and self.rank == 0 and now - self._kept_at >= self._keep_every:
            self._kept_at = now
            kept = content()
            try:
                # here, where the program called `commit`: later the error would be the driver's
                encode(kept)
            except TypeError as error:
                raise TypeError(f"Only plain data can be kept in a checkpoint: {error}") from None
            self._link.say(Kept(kept))

    def take_kept(self) -> Any:
        kept, self._kept = self._kept, None
        return kept

    def reform(self, holds: bool) -> None:
        self._link.say(Ready(self._round.attempt, holds))
        # a broken round is left at once, so that the others see it
        self.leave(graceful=self._broken is None)
        self.join(holds)

    def join(self, holds: bool = False) -> None:
        """Wait for a round and connect with its members. Raises: WorkerRemoved, JobAborted."""
        while True:
            order = self._link.await_order()
            if isinstance(order, Void) or not self._enter(order):
                self._link.say(Ready(order.attempt, holds))
                continue
            # logged for EL-24: the rank with which this worker began
            if self._first_rank < 0:
                self._first_rank = self.rank
            logger.info(
                "Rendezvous %d: rank %d of %d, started as rank %d.", order.attempt + 1, self.rank, self.size, self._first_rank
            )
            return

    def _enter(self, order: Round) -> bool:
        """Connect with the members of a round; tell whether all have met."""
        places = dict(zip(order.members, order.places, strict=True))
        # a kept state that was not taken yet stays for the round that begins
        self._kept = self._kept if order.kept is None else order.kept
        try:
            sessions = self._connector.meet(order.attempt, places, lambda: not self._link.is_broken(order.attempt))
        except NetworkError as error:
            logger.warning("Round %d did not begin here: %s", order.attempt + 1, error)
            return False
        # without the content: it may be large, and is in `_kept`
        self._round, self._broken, self._count = replace(order, kept=None), None, 0
        self._controller = controller = Controller(self.rank, self._by_rank(sessions))
        controller.use_classes(self._com.controller.classes)
        look_if_cores_suffice(controller, order.places)
        controller.on_wait, controller.on_resume = self._while_waiting, self._on_resume
        self._peers = Communication(controller, range(self.size), Path(), Path(), _no_progress, "", order.attempt)
        # from now on the link may interrupt a wait of this round
        self._link.begin(order.attempt, controller.interrupt)
        return True

    def _by_rank(self, sessions: dict[int, Session]) -> dict[int, Session]:
        ranked = {}
        for rank, (node, place) in enumerate(zip(self._round.members, self._round.places, strict=True)):
            if node in sessions:
                ranked[rank] = sessions[node]
                sessions[node].link.peer = place[0]  # errors name the agent, not the port that was called from
        return ranked

    def leave(self, *, graceful: bool) -> None:
        """Close the connections of the round. With `graceful` all sent data arrives before; without, the others see a loss."""
        if self._controller is not None:
            self._controller.close(graceful=graceful)
            self._controller = self._peers = None

    # ---- operations

    def allreduce(self, array: Any, op: str = "mean") -> Array:
        check_op(op)
        mine = np.asarray(array)
        return self._do(f"allreduce {op} of {mine.dtype}{list(mine.shape)}", lambda peers: peers.allreduce(mine, op))

    def broadcast(self, value: Any, root: int = 0) -> Any:
        check_root(root, self.size)
        return self._do(f"broadcast of rank {root}", lambda peers: peers.broadcast(value, root))

    def barrier(self) -> None:
        self._do("barrier", lambda peers: peers.barrier())

    def _do(self, name: str, operation: Callable[[Communication], _Result]) -> _Result:
        self._link.check()
        # a round that has failed once gives no results: operations of members would no longer match
        if self._peers is None or self._broken is not None:
            raise WorkersLostError(f"This round is over: {self._broken or 'the group was left'}")
        self._count += 1
        # numbered, so that the same operation of two turns is two for the driver
        self._name, self._since, self._told = f"{self._count}. {name}", time.monotonic(), False
        try:
            result = operation(self._peers)
        except NetworkError as error:
            # no result here may be a result elsewhere: all leave the round (EL-2)
            self._broken = error
            raise WorkersLostError(str(error)) from error
        except Exception as error:
            self._broken = error
            raise
        finally:
            # only where the driver was told of the wait
            if self._told:
                self._link.say(Got(self._round.attempt, self._name))
        if self._watched:
            job_monitor.progress()
        return result

    def _while_waiting(self) -> None:
        if self._on_wait is not None:
            self._on_wait()
        # short waits are not told: most operations take milliseconds
        if not self._told and time.monotonic() - self._since > TELL_SECONDS:
            self._told = True
            self._link.say(Waits(self._round.attempt, self._name))


def _no_progress(_percent: int, _note: str) -> None:
    return
