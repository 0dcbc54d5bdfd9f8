"""Heartbeat of a job process: its content, its times, and the table that finds silent nodes.

To add content: a field with a default of `Heartbeat`, and its value in `Pulse.heartbeat`. Of a lost node people see its
`place`; all other conclusions are `ClusterMonitor`'s. It is sent every `Pulse.interval`; a node that sends none for
`limits.SILENT_SECONDS` is silent, so several must be due in that time.
"""

from __future__ import annotations

import contextlib
import os
import socket
from collections.abc import Callable, Iterable
from dataclasses import field, replace
from functools import cache
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Final, NamedTuple, TypeAlias

from ..protocol import Attempt, Length, Node, Operation
from ..verdict import Count, PhaseName, describe_place
from .limits import HEARTBEAT_SECONDS, LATE_SECONDS, LINKS_SECONDS, LOOK_SECONDS
from .recorder import MOST_LINKS, Reader

if TYPE_CHECKING:  # a reader of heartbeats loads no detector
    from .stall_detector import StallDetector

WOULD_RUN: Final = ("R", "D")
"""States of a process that waits for a processor, or for a disk."""
JOB_PROCESS: Final = "psgd-job"
"""Name under which `ps -o comm` and /proc show job processes."""
HELD_UP_SECONDS: Final = 0.01
"""Processor time that the heartbeat of a process tells at least, where the process waits for a processor or a disk."""
_USER_TIME, _SYSTEM_TIME, _BEGUN = 11, 12, 19  # places in /proc/<pid>/stat behind the name


class Heartbeat(Operation):
    """Sign that the agent lives, and the process is here. epoch, batch: from 1, 0 before the first."""

    job: str
    node: Node
    attempt: Attempt
    host: str
    pid: Count
    phase: PhaseName
    epoch: Count
    batch: Count
    seconds: float  # since the phase began
    waiting: float  # of them, for peers and without a byte coming or going
    limit: float  # N, as it is now
    links: Annotated[list[Annotated[list[int], Length(3, 3)]], Length(0, MOST_LINKS)] = field(default_factory=list)
    """While it waits in vain: for each peer its id, messages sent to it, and messages that have come from it."""
    worked: float = 0.0
    """Until the executor starts: seconds of processor time since the last heartbeat; at least `HELD_UP_SECONDS` of a process
    that waits for a processor or a disk; 0 if unknown."""

    @property
    def place(self) -> str:
        return describe_place(self.host, self.pid, self.attempt, self.phase, self.epoch, self.batch)


Place: TypeAlias = tuple[str, int, str, int, int]  # host, process, phase, epoch, batch


class Pulse:
    """Maker of the heartbeats of one process, by its detector and its recorder, and by looks at it from outside.

    Attributes: `interval`, seconds from one heartbeat to the next; `due`, when that is; `newest`, when the newest was made, or
    this; `stopped`, for how many seconds every look from outside, one a heartbeat, has found the process stopped by a signal.

    Args:
        job: id of the job.
        node: number of the node.
        attempt: number of the attempt.
        watch: the detector.
        reader: the recorder, read.
        now: monotonic seconds; the first heartbeat is due then.
    """

    def __init__(self, job: str, node: int, attempt: int, watch: StallDetector, reader: Reader, now: float) -> None:
        self._job, self._node, self._attempt = job, node, attempt
        self._watch, self._reader = watch, reader
        self.interval, self.due, self.stopped = HEARTBEAT_SECONDS, now, 0.0
        self.newest = now
        self._last: Heartbeat | None = None
        self._seconds = 0.0  # of processor time when it was seen last

    def see(self, pid: int) -> ProcessStatus:
        """Look at the process from outside."""
        status = process_status(pid)
        # counted, not measured: if we are suspended it may well be, too
        self.stopped = self.stopped + self.interval if status.is_stopped else 0.0
        return status

    def heartbeat(self, place: Place, now: float, seen: ProcessStatus | None = None) -> Heartbeat:
        """Make the heartbeat to send now, of a process at `place`; until its executor starts, with how it was `seen`."""
        # from now, not from when it was due: an agent that was late sends no burst
        self.newest, self.due = now, now + self.interval
        watch, worked = self._watch, 0.0
        waiting = watch.waiting(now)
        # read from the process's memory only when they may decide something
        links = [list(link) for link in self._reader.links()] if waiting > LINKS_SECONDS else []
        if seen is not None:
            # clipped: the process may have become another one, of less time
            worked, self._seconds = max(0.0, seen.seconds - self._seconds), seen.seconds
            # one that gets no processor would work, too
            worked = max(worked, HELD_UP_SECONDS) if seen.is_held_up else worked
        here = (*place, watch.seconds(now), waiting, watch.step_limit, links, worked)
        self._last = Heartbeat(self._job, self._node, self._attempt, *here)
        return self._last

    def again(self, now: float) -> Heartbeat | None:
        """Make the newest heartbeat once more, at `now`, without its waits and its work, which may be over by then; None before
        the first one.
        """
        if self._last is None:
            return None
        self.newest, self.due = now, now + self.interval
        return replace(self._last, waiting=0.0, links=[], worked=0.0)


class ProcessStatus(NamedTuple):
    """State of a process as /proc names it (R, S, D, T, Z...), its seconds of processor time, its parent, and when it began, in
    ticks since the machine did.
    """

    state: str
    seconds: float
    parent: int = 0
    begun: int = 0

    @property
    def is_stopped(self) -> bool:
        """Whether a signal or a debugger has stopped it."""
        return self.state in ("T", "t")

    @property
    def is_held_up(self) -> bool:
        """Whether it has something to do, and is at it or waits for a processor or a disk."""
        return self.state in WOULD_RUN

    @property
    def runs(self) -> bool:
        """Whether it is seen, has not ended, and nothing has stopped it."""
        return not self.is_stopped and self.state not in ("", "Z", "X")


def process_status(pid: int) -> ProcessStatus:
    """Look at a process; "" and 0 where that cannot be seen."""
    with contextlib.suppress(OSError):
        fields = _stat(Path(f"/proc/{pid}/stat"))
        ticks = int(fields[_USER_TIME]) + int(fields[_SYSTEM_TIME])
        return ProcessStatus(fields[0], ticks / os.sysconf("SC_CLK_TCK"), int(fields[1]), int(fields[_BEGUN]))
    return ProcessStatus("", 0.0)


class _JobAgent(NamedTuple):
    """Number of the agent of a job process; both are known by when they began, as numbers are given again."""

    agent: int
    agent_begun: int
    job_begun: int


class AgentStates:
    """States of the agents of job processes. An agent is known from the first look on that finds its job process, also when
    that has ended: the agent may get no processor to tell so.
    """

    def __init__(self) -> None:
        self._agents: dict[int, _JobAgent] = {}  # by number of the job process

    def __call__(self, host: str, pid: int) -> str:
        """Return the state of the agent of a job process, its parent, as /proc names it (R, S, D, T, Z...); "" where the
        process is none of this machine, or had ended at the first look, or its agent has ended.

        Args:
            host: name of its machine, as its heartbeats have it.
            pid: its number there.
        """
        if host != this_host():
            return ""
        job, known = process_status(pid), self._agents.get(pid)
        # not each time: the parent of an orphan is no agent
        if job.begun and (known is None or known.job_begun != job.begun):
            with contextlib.suppress(OSError):
                # another machine of that name may have given the number, too, but not here to a job process
                if Path(f"/proc/{pid}/comm").read_text(encoding="utf-8", errors="replace").strip() == JOB_PROCESS:
                    # an orphan that this program got, as the first process of a container does: its agent has ended
                    agent = 0 if job.parent == os.getpid() else job.parent
                    self._agents[pid] = known = _JobAgent(agent, process_status(agent).begun, job.begun)
        if known is None or process_status(known.agent).begun != known.agent_begun:
            return ""
        return _state_with_threads(known.agent)


def _state_with_threads(pid: int) -> str:
    """Return the state of a process: where its first thread sleeps, that of one which waits for a processor or a disk, and may
    hold the lock for which the first one sleeps.
    """
    state = process_status(pid).state
    if state == "S":
        for path in Path(f"/proc/{pid}/task").glob("*/stat"):
            with contextlib.suppress(OSError):  # a thread that has ended meanwhile
                other = _stat(path)[0]
                if other in WOULD_RUN:
                    return other
    return state


def _stat(path: Path) -> list[str]:
    """Read what the system tells of a process or a thread, from its state on. Raises: OSError."""
    # behind the last parenthesis: the name may hold any character
    return path.read_text(encoding="utf-8", errors="replace").rpartition(")")[2].split()


@cache
def this_host() -> str:
    """Return the name of this machine, as heartbeats have it."""
    return socket.gethostname()


class HeartbeatTable:
    """Last heartbeat of each node.

    `look` returns nodes silent for more than `limit` seconds; called by `deadline`, it is at most `LOOK_SECONDS` late.
    `was_late` tells whether the last look came much too late.
    """

    def __init__(self, nodes: Iterable[int], limit: float, now: float) -> None:
        self._limit = limit
        self._heard = dict.fromkeys(nodes, now)
        self._looked, self.was_late = now, False

    @property
    def deadline(self) -> float | None:
        return self._looked + LOOK_SECONDS if self._heard else None

    def expect(self, nodes: Iterable[int], now: float) -> None:
        # the first one that is expected: the time before was nobody's silence
        if not self._heard:
            self._looked = now
        self._heard.update(dict.fromkeys(nodes, now))

    def hear(self, node: int, now: float) -> None:
        """Note a sign of life; of a node that is not listened to it is none."""
        if node in self._heard:
            self._heard[node] = now

    def silence(self, node: int, now: float) -> float:
        """Return the seconds since the last sign of life of a node; 0 for one that is not listened to."""
        return now - self._heard.get(node, now)

    def forget(self, node: int) -> None:
        self._heard.pop(node, None)

    def look(self, now: float, lives: Callable[[int], bool] = lambda _: False) -> list[tuple[int, float]]:
        """Return the nodes that are silent and not known to live, and for how many seconds; they are forgotten. All messages
        before `now` were heard.
        """
        late = now - self._looked - LOOK_SECONDS
        self._looked = now
        self.was_late = late > LATE_SECONDS
        if self.was_late:
            # their messages may be unread still: this process was late, not they
            self._heard = {node: min(now, heard + late) for node, heard in self._heard.items()}
        silent = [(node, now - heard) for node, heard in sorted(self._heard.items()) if now - heard > self._limit]
        silent = [(node, seconds) for node, seconds in silent if not lives(node)]
        for node, _ in silent:
            self.forget(node)
        return silent
