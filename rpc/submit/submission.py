"""Submission in three phases, the submitter's half, as a state machine over the nodes of one group.

canCommit   every agent accepts and its job process loads the code                      limit: first phase
preCommit   every executor gets the resources it asks for                               limit: data size / bandwidth
doCommit    the executors are told so, meet, tell each other READY, and start           limit: start
running     until every node has ended

The first two limits wait up to a minute longer while all nodes that they wait for work: many processes share few cores, or the
data is large. No time is judged in which the driver itself did not look.

Until all nodes run, any refusal, loss, failure or expired limit aborts the job on all of them: it runs everywhere or nowhere.
No executor starts before doCommit is told, so a job that a limit ends before has not run, however late a message is.
"""

from __future__ import annotations

import enum
import math
import re
from collections.abc import Iterable, Mapping, Sequence

from ..errors import ROLLED_BACK
from ..liveness.limits import (
    EXTRA_SECONDS,
    FIRST_PHASE_SECONDS,
    LOADED_SECONDS,
    MORE_SECONDS,
    PER_NODE_SECONDS,
    ROLL_BACK_SECONDS,
    START_SECONDS,
    WORKED_SECONDS,
)
from ..machine import Machine, Tick
from ..support.immutable import Immutable


class Phase(enum.Enum):
    """Phase of the group."""

    CAN_COMMIT = "canCommit"
    LOADED = "loaded"
    PRE_COMMIT = "preCommit"
    DO_COMMIT = "doCommit"
    RUNNING = "running"
    ENDED = "ended"
    FAILED = "failed"


# ---- events


class Started(Immutable):
    """Event: the submission begins."""


class Dispatched(Immutable):
    """Event: the program begins to answer requests; `limit` seconds are given to all of them."""

    limit: float


class Cancelled(Immutable):
    """Event: the program gives up."""

    reason: str


class Settled(Immutable):
    """Event after a failure: the nodes that were told to give the job up have confirmed it, or have had their time for that."""


class _OfNode(Immutable):
    node: int


class _WithReason(_OfNode):
    reason: str


class _WithRequests(_OfNode):
    requests: tuple[str, ...]


class Unseen(Immutable):
    """Event: the driver has not looked from `since` until now: it was suspended, or its program was busy."""

    since: float


class HasAccepted(_OfNode):
    """Event: an agent has accepted the job."""


class HasRefused(_WithReason):
    """Event: an agent refuses the job."""


class HasLoaded(_OfNode):
    """Event: a job process has made its executor."""


class HasAsked(_WithRequests):
    """Event: an executor asks for resources."""


class HasPrepared(_OfNode):
    """Event: an executor has all it needs."""


class IsRunning(_OfNode):
    """Event: an executor has started."""


class HasEnded(_OfNode):
    """Event: a node has ended: done, failed, stopped or aborted."""

    state: str
    detail: str


class IsLost(_WithReason):
    """Event: the connection with a node's agent, or before the start with its job process, is gone."""


class HasWorked(_OfNode):
    """Event: the job process of a node has used processor time since its agent's last message about it."""


# ---- actions


class AskCanCommit(_OfNode):
    """Action: send canCommit to the node's agent."""


class OpenCodeSession(_OfNode):
    """Action: connect to the node's job process and send it the bundle."""


class Answer(_WithRequests):
    """Action: reply to the node's requests."""


class SendDoCommit(_OfNode):
    """Action: tell the node's job process that it is to meet the others and to start."""


class SendAbort(_WithReason):
    """Action: tell the node's agent to give the job up."""


_NAMED = re.compile(r"node (-?\d+)")
_AWAITED = re.compile(r"waiting for node (-?\d+)|Node\((-?\d+)\) at \S+ (?:is lost|did not end well)")


class Submission(Machine):
    """State machine of a submission to one group of nodes: decides when each phase begins, and when the job is aborted.

    `phase`, `reason` (why it failed), `deadline` of the phase, and the sets of nodes per
    step.

    Args:
        nodes: ids of the group.
        names: of the nodes, for people.
        start_limit: seconds for doCommit.
        fullest: number of nodes of the job on the host that has most of them.
    """

    def __init__(
        self, nodes: Sequence[int], names: Mapping[int, str], start_limit: float = START_SECONDS, fullest: int = 1
    ) -> None:
        super().__init__()
        self.nodes = tuple(nodes)
        self.phase = Phase.CAN_COMMIT
        self.reason = ""
        self.is_cancelled = False  # it did not fail by itself
        self.late: tuple[int, ...] = ()  # nodes for which it failed, as they did not finish a phase in time
        self.deadline: float | None = None
        self.accepted: set[int] = set()
        self.loaded: set[int] = set()
        self.prepared: set[int] = set()
        self.running: set[int] = set()
        self.ended: dict[int, tuple[str, str]] = {}
        self._names = names
        self._start_limit = start_limit
        self.first_limit = FIRST_PHASE_SECONDS + PER_NODE_SECONDS * fullest
        self._extra = EXTRA_SECONDS
        self._limited_since = 0.0  # when `deadline` was set
        self._worked: dict[int, float] = {}  # when the process of a node last did, or was known to wait for us
        self._held: list[HasAsked] = []  # asked before the program began to answer
        self._to_abort: set[int] = set()
        self._failed_in = ""
        self._blamed: set[int] = set()  # nodes that others have waited for in vain, or lost, and
        self._blaming: set[int] = set()  # the nodes that say so
        self._follows = False  # whether `reason` is a consequence of a cause that is not known yet

    @classmethod
    def of_running(cls, nodes: Sequence[int], names: Mapping[int, str]) -> Submission:
        """Make the machine of a group that another driver has started."""
        made = cls(nodes, names)
        made.phase = Phase.RUNNING
        for step in (made.accepted, made.loaded, made.prepared, made.running):
            step.update(nodes)
        return made

    def _decide(self, event: object, now: float) -> list[object]:
        # in each phase: also after a failure it tells that a node is free
        if isinstance(event, HasEnded):
            return self._on_end(event, now)
        if self.phase is Phase.FAILED:
            return self._after_failure(event)
        if self.phase is Phase.ENDED:
            return []  # events that were on their way when the last node ended
        if isinstance(event, Tick):
            return self._on_tick(now)
        if isinstance(event, Unseen):
            self._excuse(event.since, now)
            return []
        if isinstance(event, HasWorked):
            self._worked[event.node] = now
            return []
        if isinstance(event, IsLost):
            return self._on_loss(event, now)
        if isinstance(event, Cancelled):
            self.is_cancelled = True
            return self._fail(event.reason)
        # once: a second one is a mistake of this program
        if isinstance(event, Started) and self.deadline is None and not self.accepted:
            self._limit(self.first_limit, now)
            return [AskCanCommit(node) for node in self.nodes]
        if isinstance(event, Dispatched):
            return self._on_dispatch(event, now)
        return self._on_step(event, now)

    @property
    def _starting(self) -> bool:
        return self.phase not in (Phase.RUNNING, Phase.ENDED, Phase.FAILED)

    def _on_step(self, event: object, now: float) -> list[object]:
        """Take note that a node is one step further."""
        if isinstance(event, (HasLoaded, HasAsked)):
            self._worked[event.node] = now  # and from then on it may have waited for us
        if isinstance(event, (HasAccepted, HasRefused)) and self._answers_first_time(event.node):
            if isinstance(event, HasRefused):
                self.ended[event.node] = ("refused", event.reason)
                return self._fail(f"{self._names[event.node]} refuses the job: {event.reason}")
            self.accepted.add(event.node)
            if len(self.accepted) < len(self.nodes):
                return []
            # code goes out only when everybody has accepted; by then the job processes have come up, and have waited for it
            self._worked = dict.fromkeys(self.nodes, now)
            return [OpenCodeSession(node) for node in self.nodes]
        if isinstance(event, HasLoaded) and event.node in self.accepted:
            self.loaded.add(event.node)
            return self._enter_next_phase(now)
        if isinstance(event, HasAsked) and event.node in self.loaded:
            # an executor may ask as soon as it is loaded; answers begin with `dispatch`
            if self.phase in (Phase.CAN_COMMIT, Phase.LOADED):
                self._held.append(event)
                return []
            return [Answer(event.node, event.requests)]
        if isinstance(event, HasPrepared) and event.node in self.loaded:
            self.prepared.add(event.node)
            return self._enter_next_phase(now)
        if isinstance(event, IsRunning) and self.phase in (Phase.DO_COMMIT, Phase.RUNNING):
            self.running.add(event.node)
            return self._enter_next_phase(now)
        raise self._impossible(event)

    def _answers_first_time(self, node: int) -> bool:
        return self.phase is Phase.CAN_COMMIT and node in self.nodes and node not in self.accepted

    def _enter_next_phase(self, now: float) -> list[object]:
        """Go on when all nodes have taken the step that this phase waits for."""
        everybody = len(self.nodes)
        if self.phase is Phase.DO_COMMIT and len(self.running) == everybody:
            self.phase, self.deadline = Phase.RUNNING, None
        elif self.phase is Phase.CAN_COMMIT and len(self.loaded) == everybody:
            self.phase, self.deadline = Phase.LOADED, None
        elif self.phase is Phase.PRE_COMMIT and len(self.prepared) == everybody:
            # the nodes roll back by themselves at the start limit, and have so much longer to say so
            self.phase = Phase.DO_COMMIT
            self._limit(self._start_limit + ROLL_BACK_SECONDS, now)
            return [SendDoCommit(node) for node in self.nodes]
        return []

    def _on_dispatch(self, event: Dispatched, now: float) -> list[object]:
        if self.phase is Phase.RUNNING:
            return []  # a group that was adopted
        if self.phase is not Phase.LOADED:
            raise self._impossible(event)
        self.phase = Phase.PRE_COMMIT
        self._limit(event.limit, now)
        self._worked = dict.fromkeys(self.nodes, now)  # they have waited for the program until now
        held, self._held = self._held, []
        # an executor without requests may have been prepared before
        return [*(Answer(ask.node, ask.requests) for ask in held), *self._enter_next_phase(now)]

    def _on_end(self, event: HasEnded, now: float) -> list[object]:
        self._to_abort.discard(event.node)
        if event.node in self.ended:
            return []
        self.ended[event.node] = (event.state, event.detail)
        if self.phase is Phase.FAILED and event.state == "failed":
            self._find_cause(f"did not start, it ended in {self._failed_in}", event.node, event.detail)
        # a node that has run has heard READY from all, so its end belongs to the job, though the start of the last node is not
        # known yet; one that never ran gives the job up on all
        if self._starting and event.node not in self.running:
            reason = f"{self._names[event.node]} did not start, it ended in {self._word}: {event.detail}"
            # a node that blames others is no cause by itself
            self._blamed = _blamed(event.detail) - {event.node}
            self._blaming = {event.node}
            return self._fail(reason, follows=bool(self._blamed))
        if self.phase is Phase.RUNNING and len(self.ended) == len(self.nodes):
            self.phase = Phase.ENDED
        return []

    def _on_loss(self, event: IsLost, now: float) -> list[object]:
        if self._starting and event.node not in self.running:
            # its agent may still be there and is told to give up, but its answer is not awaited
            actions = self._fail(f"{self._names[event.node]} was lost in {self._word}: {event.reason}")
            self._forget(event)
            return actions
        return self._on_end(HasEnded(event.node, "lost", event.reason), now)

    @property
    def _word(self) -> str:
        """Return the phase, for people: a node that has loaded the code is on the way through preCommit, asked or not."""
        phase = Phase.PRE_COMMIT if self.phase is Phase.LOADED else self.phase
        return str(phase.value)

    def _on_tick(self, now: float) -> list[object]:
        if self.deadline is None or now < self.deadline:
            return []
        # no code is sent before all have accepted, so a node that has accepted is not to blame until then
        first = self.accepted if len(self.accepted) < len(self.nodes) else self.loaded
        reached = {Phase.CAN_COMMIT: first, Phase.PRE_COMMIT: self.prepared, Phase.DO_COMMIT: self.running}[self.phase]
        late = [node for node in self.nodes if node not in reached]
        # in doCommit the nodes only meet; its limit is the caller's
        if self.phase is not Phase.DO_COMMIT and self._extra > 0 and all(self._works(node, now) for node in late):
            # a second at a time, so that a node that stops working is found soon
            self._extra -= MORE_SECONDS
            self._limit(MORE_SECONDS, now)
            return []
        names, self.late = ", ".join(self._names[node] for node in late), tuple(late)
        return self._fail(f"{names} did not finish {self.phase.value} in time")

    def _limit(self, seconds: float, now: float) -> None:
        self._limited_since, self.deadline = now, now + seconds

    def _excuse(self, since: float, now: float) -> None:
        """Count time in which the driver did not look to no node."""
        if self.deadline is not None:
            # no more than since the limit was set: the time before was another phase's
            unseen = max(0.0, now - max(since, self._limited_since))
            self.deadline += unseen
            self._worked = {node: min(now, moment + unseen) for node, moment in self._worked.items()}

    def _works(self, node: int, now: float) -> bool:
        within = LOADED_SECONDS if self.phase is Phase.CAN_COMMIT else WORKED_SECONDS
        return now - self._worked.get(node, -math.inf) <= within

    def _fail(self, reason: str, *, follows: bool = False) -> list[object]:
        self._failed_in, self._follows = self._word, follows
        self.phase, self.reason, self.deadline = Phase.FAILED, reason, None
        # agents that have not answered may have accepted meanwhile, so they are told, too
        self._to_abort = {node for node in self.nodes if node not in self.ended}
        return [SendAbort(node, reason) for node in self.nodes if node in self._to_abort]

    def _after_failure(self, event: object) -> list[object]:
        """Note, after a failure, which nodes need not be waited for any more, and which nodes the others have lost."""
        if isinstance(event, IsLost) and event.node not in self.ended:
            self._find_cause(f"was lost in {self._failed_in}", event.node, event.reason)
        if isinstance(event, (HasRefused, IsLost)):
            self._forget(event)
        if isinstance(event, Settled) and self._follows:
            self._find_silent()
        return []

    def _find_silent(self) -> None:
        """Name the silent nodes as the cause: others waited for them, and they cannot say anything now."""
        # those that have not confirmed; else those that are blamed and blame nobody
        silent = self._to_abort & self._blamed or self._blamed - self._blaming
        if silent:
            names = ", ".join(self._names.get(node, f"Node({node})") for node in sorted(silent))
            self.reason, self._follows = f"{names} did not answer in {self._failed_in}. {self.reason}", False

    def _find_cause(self, what: str, node: int, detail: str) -> None:
        """Name the cause of a failure: a node that rolls back because of another may be heard of before it, or may have
        taken a third one for the cause.
        """
        blamed = _blamed(detail)
        if blamed:
            self._blamed |= blamed
            self._blaming.add(node)
        elif self._follows:
            self.reason, self._follows = f"{self._names[node]} {what}: {detail}", False

    def _forget(self, event: HasRefused | IsLost) -> None:
        # its first end counts
        self.ended.setdefault(event.node, ("refused" if isinstance(event, HasRefused) else "lost", event.reason))
        self._to_abort.discard(event.node)

    @property
    def cause_is_open(self) -> bool:
        """Whether all that is known of a failure follows from something else."""
        return self.phase is Phase.FAILED and self._follows

    @property
    def all_free(self) -> bool:
        """Whether, after a failure, every node that was told to give up has confirmed it, refused, or is lost."""
        return not self._to_abort


def failed_first(machines: Iterable[Submission]) -> Submission | None:
    """Find the group which failed, not one that was cancelled because of it; None where none has."""
    # a machine that was cancelled failed because of another one
    return min((machine for machine in machines if machine.phase is Phase.FAILED), key=lambda m: m.is_cancelled, default=None)


def _blamed(detail: str) -> set[int]:
    """List the nodes that a node blames for its end, by the last line of its report: it waited for them in vain, or has lost
    them.
    """
    # the words are those of `Rendezvous` and of network.errors
    pattern = _NAMED if ROLLED_BACK in detail else _AWAITED
    return {int(number) for found in pattern.finditer(detail) for number in found.groups() if number}
