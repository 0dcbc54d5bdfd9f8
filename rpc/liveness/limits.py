"""Limits, in seconds, by which the nodes of a job declare others lost, stuck or late, and how patient they are.

Each stands once, with the wait that it bounds; a test asserts their relations. Elsewhere: those of one connection
(`network.session`, `network.handshake`), of launchers, disks and tasks, and pauses between two looks that lead to no verdict.
"""

from __future__ import annotations

import enum
from collections import deque
from dataclasses import dataclass

# ---- signs of life: agent to driver

HEARTBEAT_SECONDS = 0.5  # from one heartbeat of a job process to the next; its agent sends them
SILENT_SECONDS = 2.25  # without a heartbeat, once all nodes run: the host or the network is gone, whatever the connection says
STARTING_SILENT_SECONDS = 8.0  # the same until all nodes run, while many interpreters may start on one host
STARVED_SECONDS = 30.0  # the same for an agent that is a process of this machine and runs: it gets no processor
LOOK_SECONDS = 0.1  # from one look at the silence of all to the next
LATE_SECONDS = 1.0  # a look that comes so much too late: this process was probably suspended: extend every peer's limit by it
WORKED_SECONDS = 2.0  # since a starting process last worked; where cores are few it does not between any two heartbeats
LOADED_SECONDS = 4.0  # the same of one that is still being loaded, when many others are, too
LINKS_SECONDS = 1.0  # of waiting in vain, after which a heartbeat tells the messages over each link

# ---- signs of life: driver to agents, and over connections that carry nothing else

SILENT_DRIVER_SECONDS = 10.0  # until an agent has lost a driver whose host does not answer
AWAKE_SECONDS = 5.0  # between two rounds of events: a driver that slept for longer may have been given up by agents meanwhile
PROBE_AFTER_SECONDS, PROBE_SECONDS, PROBES = 2, 1, 3
"""Of silence until the kernel asks the other one whether it is there, from one question to the next, and how many are asked."""
UNTAKEN_SECONDS = 60  # for sent bytes to be taken by a process that does not read, or be acknowledged by its host

# ---- a job process, as its agent sees it; those that a job may set for itself are defaults

FIRST_BATCH_SECONDS = BETWEEN_SECONDS = SAVE_SECONDS = 60.0  # from the start to the first one; between batches; for a save
LEAST_STEP_SECONDS = 10.0
STEPS = 20.0  # medians that a step may take where that is more; a median is that of so many steps:
REMEMBERED_STEPS = 64
BETWEEN_STEPS = 4.0  # limits of a step between two, where that is more
LEAST_SILENCE, MOST_SECONDS = 0.1, 86400.0
"""Bounds of the limits that a job may ask for: an agent told to watch more closely than it can look would see ghosts."""
WARN_AT = 0.5  # of the limit
WAITING_SECONDS = 0.5  # since the last sign of a waiting process, which shows one twice as often (`network.controller`)
STOPPED_SECONDS = 8.0  # for which a signal may stop a process before its executor starts, and those of a `ClusterExecutor`
APART_SECONDS = 0.2  # between two waits of a process that are not one: it has worked meanwhile
RECOVERY_SECONDS = 0.1  # from one look at a process that was warned of to the next
LEAST_LOOK_SECONDS = 0.02  # from one look at any process to the next
STACK_SECONDS, STACK_LOOK_SECONDS = 0.3, 0.02
"""For a stuck process to say where it is, and from one look at its output to the next."""
SUSPECT_SECONDS = 2.0
"""That a verdict may need beyond its limit: the stack of the process is taken, the process ended, and the loss of it seen."""
VERDICT_HEARTBEATS = 5
"""Of an agent, from the end of the connection with a process until it has said why that has ended: it looks for ends before
each of them. So one that gets little processor time has longer; when it sends none, its host is silent."""

# ---- the start of an attempt

FIRST_PHASE_SECONDS = 7.0  # of canCommit
PER_NODE_SECONDS = 0.5  # that each node of the fullest host adds to a limit of the start: their interpreters share its cores
GROUP_SLACK_SECONDS, SINGLE_SLACK_SECONDS = 1.0, 0.6  # of preCommit of a group, of a node, beyond its transfers
EXTRA_SECONDS, MORE_SECONDS = 60.0, 1.0
"""In all, for nodes whose processes work when the limit of canCommit or preCommit comes, and given out so much at a time."""
START_SECONDS = 60.0  # of doCommit
ROLL_BACK_SECONDS = 2.0  # a job process rolls back by itself at the limit of the start; so much later it counts as hung
TAKE_BACK_SECONDS = 2.0  # for nodes to confirm that they have given a job up which did not start
BEGIN_SECONDS = 30.0  # for the agent to give a new job process its order
MEET_SECONDS, CALL_SECONDS = 30.0, 1.0  # for all processes of a round to be connected, and for one call, which then is repeated
HERE_SECONDS = SUBMITTER_SECONDS = 30.0  # for a process that has started to call its driver, and the other way round

# ---- its end

HALT_SECONDS = 5.0  # from the order to stop until the process is killed
EXIT_SECONDS = 3.0  # from the report of the outcome until the process is killed
LEFT_SECONDS = 5.0  # until a node counts as free though something of its job lives: another user's, or one in the kernel
LINGER_SECONDS = 0.25  # that a stopped process stays connected: others that are being stopped must not take its end for a loss
TELL_SECONDS = 30.0  # for the agent to take the last report of a process
FAREWELL_SECONDS = 3.0  # for a submitter of an agent that leaves, from the end of the last job until it asks for files
DOWNLOAD_SECONDS = 60.0  # in which an agent must say something while it is asked for files
LIST_SECONDS = 5.0  # for agents to say which jobs they know

# ---- the driver of the job, and the next attempt

LEAVE_SECONDS, HANDOFF_SECONDS = 2.0, 30.0
"""For a second Ctrl-C; and when the driver leaves, for the bytes that agents still lack to go on without it."""
ANSWER_SECONDS = 1.5  # for nodes to answer a claim or a proposal
PLACE_SECONDS = 1.0  # that a node waits for each of its seniors: a standby driver takes less to start and to claim the job
FIRST_PAUSE_SECONDS, LONGEST_PAUSE_SECONDS = 1.0, 60.0  # after a standby driver that has ended for nothing, doubled each time
RETURN_SECONDS, WAIT_SECONDS = 30.0, 600.0
"""How long an attempt that follows a failure waits for nodes that are busy or cannot be reached; the second under 'wait', and
where others may be going on without us."""
RETRY_SECONDS, PAUSE_SECONDS = 0.5, 1.0  # from one such try to the next, and from one try to find a majority to the next
DEPOSED_SECONDS = 5.0  # for a standby driver that was started because one agent had lost us to give the job up again


class Phase(str, enum.Enum):
    """Phase of a job process, by its signals; the value is the word that people read."""

    UNWATCHED = "unwatched"  # it has not said that it signals
    START = "start"
    STEP = "step"
    BETWEEN = "between"
    SAVE = "save"
    ENDED = "ended"


@dataclass(frozen=True)
class Limits:
    """Limits of a process's silence in seconds, beyond which it counts as stuck; 0 stands for the default.

    step: N, as given, else the larger of 10 s and 20 times the median of the last 64 steps; before the first step has ended its
    duration is unknown, and the limit is that of the start if it is larger. start: 60 s. between: 60 s, or 4 N where that is
    more, so that a validation of 3 N is none. save: 60 s.
    """

    stall: float = 0.0
    start: float = 0.0
    between: float = 0.0
    save: float = 0.0


class RecentSteps:
    """Limit of each phase as the durations of steps become known."""

    def __init__(self, limits: Limits) -> None:
        self._limits = limits
        self._durations: deque[float] = deque(maxlen=REMEMBERED_STEPS)
        self._step: float | None = None  # once it was asked for

    def add(self, seconds: float) -> None:
        self._durations.append(seconds)
        self._step = None

    @property
    def step(self) -> float:
        """Seconds that a step may take, by the durations of the recent steps: N of the module."""
        if self._step is None:
            known = sorted(self._durations)
            # the median; every job process would wait 3 ms for the module that knows how to take it
            middle = (known[(len(known) - 1) // 2] + known[len(known) // 2]) / 2 if known else 0.0
            usual = STEPS * middle if known else self._limits.start or FIRST_BATCH_SECONDS
            self._step = self._limits.stall or max(LEAST_STEP_SECONDS, usual)
        return self._step

    def of(self, phase: Phase) -> float | None:
        """Return the limit of `phase`; None where a process may be silent for ever."""
        if phase is Phase.STEP:
            return self.step
        if phase is Phase.START:
            return self._limits.start or FIRST_BATCH_SECONDS
        if phase is Phase.BETWEEN:
            return self._limits.between or max(BETWEEN_SECONDS, BETWEEN_STEPS * self.step)
        return (self._limits.save or SAVE_SECONDS) if phase is Phase.SAVE else None
