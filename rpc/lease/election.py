"""Election: how a driver comes by the right to begin the next attempt, or to end the job: from more than half of the last one.

A state machine without sockets. It first *claims* the job: nodes that grant it ignore drivers with an earlier claim from then
on, and tell their earlier agreements. Then it *proposes* the next attempt, which may begin when as many have agreed, those
included that will not take part. Two majorities of one attempt have a node in common, so of two drivers at most one gets there,
and the other one hears of it.

Votes, of the nodes of the last attempt:

* a node that grants counts, unless its agent was started again and had promised itself to another driver before;
* under a driver in office, a node that granted it until it died counts: its connection ended by itself, its host refuses
another;
* a node that is silent, or of which nothing is known, never counts; nor one whose host refuses a connection otherwise, for
before its agent ended it may have agreed to a later attempt, or have known how the job has ended, alone.

At exactly half the driver that has begun that attempt goes on, a standby driver does not. Where all nodes answer and none has
another driver, nothing is unknown, and no more grants are waited for; but not where others than these nodes may go on.
"""

from __future__ import annotations

import enum
from collections.abc import Collection

from ..liveness.limits import ANSWER_SECONDS
from ..machine import Machine, Tick
from ..messages import Agreed, ClaimJob, Denied, Granted, Operation, ProposeAttempt
from ..support.immutable import Immutable
from .lease import LIVING, NONE

OVER = ("done", "failed", "stopped")
_OWN_BITS = 20  # of a term, which are its driver's
_MOST_CLAIMS = 3  # in one round, each with a later term


def later_term(than: int, driver: str) -> int:
    """Return a term beyond `than` that no other driver comes to."""
    # its own low bits: two drivers that claim at the same moment come to different terms
    own = int(driver.rpartition("/")[2], 16) % (1 << _OWN_BITS)
    return (((than >> _OWN_BITS) + 1) << _OWN_BITS) + own


class Decision(enum.Enum):
    """Decision of a round."""

    DRIVE = "enough nodes of the last attempt agree"
    PAUSE = "too many are silent: they may work on where we do not see them"
    YIELD = "somebody else drives"
    OVER = "the job is over"
    NEWER = "it has gone on with another attempt"


class Candidate(Immutable):
    """Candidate for a job: its manifest, and its capacity.

    `term` is that of its newest claim, `since` the term and the number of the last attempt. `is_standby`: another driver has
    begun that one. `is_elastic`: others than its nodes may go on with the job. `leaves_out`: nodes that failed are left out of
    the next attempt, so a driver that has lost all others must not count on agents alone that were started again.
    """

    job: str
    driver: str
    sha256: str
    term: int
    since: tuple[int, int]
    is_standby: bool
    is_elastic: bool = False
    leaves_out: bool = False


class Newer(Immutable):
    """Attempt after the one that we know, and the term in which it was agreed to."""

    attempt: int
    agreed: int
    attempt_state: str


# ---- events


class Ask(Immutable):
    """Event: claim the job from these nodes; the others count as silent."""

    nodes: tuple[int, ...]


class Propose(Immutable):
    """Event: ask the nodes that have granted the job to agree to an attempt."""

    attempt: int
    attempt_state: str


class Said(Immutable):
    """Event: answer of a node's agent."""

    node: int
    answer: Granted | Denied | Agreed


class Missing(Immutable):
    """Event: a node cannot be asked, or is gone; it `refused` if its host says that nothing listens.

    `why` says in words why an agent that answers does not serve us, as where it has another key.
    """

    node: int
    refused: bool
    why: str = ""


# ---- actions


class Send(Immutable):
    """Action: send this to the agent of `node`."""

    node: int
    operation: Operation


class Settled(Immutable):
    """Action: the round is over."""

    decision: Decision


class Election(Machine):
    """Election with one driver and the nodes of one attempt, for as many rounds as it takes.

    `known_dead` are the nodes that granted it until they died (see the module). Attributes: `term`, the newest that was
    claimed; `granted`, `denied`, `refused`, the answers of the last round; `unserved`, why agents that answer do not serve us;
    `deadline`, when to send the next Tick; `newer`, after NEWER: the attempt from which the job goes on. Where it is unknown
    whether enough had agreed to one that another driver has proposed, the nodes are asked to agree to it now.

    Args:
        candidate: this driver.
        nodes: the nodes of the attempt.
        known_dead: see above.
    """

    def __init__(self, candidate: Candidate, nodes: Collection[int], known_dead: Collection[int] = ()) -> None:
        super().__init__()
        self._candidate = candidate
        self._nodes = tuple(nodes)
        self._known_dead = set(known_dead)
        self.term = candidate.term
        self.granted: dict[int, Granted] = {}
        self.denied: dict[int, Denied] = {}
        self.refused: set[int] = set()
        self.unserved: dict[int, str] = {}
        self.newer: Newer | None = None
        self.deadline: float | None = None
        self._agreed: set[int] = set()
        self._ours: set[int] = set()  # the terms in which we have proposed our attempt
        self._asked: set[int] = set()
        self._proposal: tuple[int, str] | None = None
        self._claims = 0
        self._is_behind = False  # a node knows of an attempt that has begun, but not with which nodes

    @property
    def silent(self) -> list[int]:
        """Nodes from which no answer came."""
        return sorted(set(self._nodes) - self.granted.keys() - self.denied.keys() - self.refused)

    def _decide(self, event: object, now: float) -> list[object]:
        if isinstance(event, Ask):
            # answers of an earlier round may be out of date
            self.granted, self.denied, self.refused, self.unserved = {}, {}, set(), {}
            self.newer = self._proposal = None
            self._claims, self._is_behind = 0, False
            return self._claim(set(event.nodes), now)
        if isinstance(event, Propose):
            # by its terms an attempt of ours is told from another driver's
            self._ours.add(self.term)
            return self._propose(event, now)
        if isinstance(event, Said):
            self._hear(event)
        elif isinstance(event, Missing):
            self._miss(event)
        elif isinstance(event, Tick):
            if self.deadline is not None and now >= self.deadline:
                # the silent ones are given up; the decision falls with what is there
                self._asked.clear()
        else:
            raise self._impossible(event)
        return self._go_on(now) if self.deadline is not None and not self._asked else []

    def _claim(self, nodes: set[int], now: float) -> list[object]:
        self._claims += 1
        self._asked, self.deadline = set(nodes), now + ANSWER_SECONDS
        who = self._candidate
        return [Send(node, ClaimJob(who.job, node, who.driver, who.sha256, self.term)) for node in sorted(nodes)]

    def _propose(self, event: Propose, now: float) -> list[object]:
        self._proposal, self._agreed = (event.attempt, event.attempt_state), set()
        # nodes without a voice promise nothing, so their agreement would prove nothing
        self._asked = {node for node, answer in self.granted.items() if answer.voice != NONE}
        self.deadline = now + ANSWER_SECONDS
        content = (self._candidate.driver, self.term, event.attempt, event.attempt_state)
        return [Send(node, ProposeAttempt(self._candidate.job, node, *content)) for node in sorted(self._asked)]

    def _hear(self, event: Said) -> None:
        node, answer = event.node, event.answer
        if node not in self._asked:
            return  # it came too late
        if isinstance(answer, Agreed):
            if self._proposal is None or (answer.term, answer.attempt) != (self.term, self._proposal[0]):
                return  # to an earlier proposal
            self._agreed.add(node)
        elif isinstance(answer, Denied):
            self.granted.pop(node, None)
            self.denied[node] = answer
        # a grant of the newest claim only
        elif self._proposal is None and answer.claim == self.term:
            self.denied.pop(node, None)
            self.granted[node] = answer
        else:
            return
        self._asked.discard(node)

    def _miss(self, event: Missing) -> None:
        self._asked.discard(event.node)
        # a grant lasts as long as the connection
        self.granted.pop(event.node, None)
        if event.refused:
            self.refused.add(event.node)
        if event.why:
            self.unserved[event.node] = event.why

    # ---- the decision

    def _go_on(self, now: float) -> list[object]:
        """Go on after the last answer of a round."""
        denials = self.denied.values()
        is_driven = any(answer.is_driven for answer in denials)
        is_free = not is_driven and not any(answer.outcome in OVER for answer in denials)
        latest = max((answer.term for answer in denials if answer.outcome not in OVER), default=0)
        # claims of a driver that is gone stand in the way: claimed again above them, three times at most, as two could outbid
        # each other
        if self._proposal is None and not is_driven and latest >= self.term and self._claims < _MOST_CLAIMS:
            known = {*self.granted, *self.denied}
            self.term = later_term(
                latest, self._candidate.driver
            )  # another driver has claimed the job since, and is not there any more
            self.granted, self.denied = {}, {}
            return self._claim(known, now)
        if self._proposal is None:
            told: list[Granted | Denied] = [*self.granted.values(), *self.denied.values()]
            newest = self._newest(told)
            if newest is not None:
                is_begun, agreed, attempt, attempt_state = newest
                if not attempt_state:
                    # it cannot go on from an attempt whose state it does not know
                    self._is_behind = True
                elif is_begun:
                    self.newer = Newer(attempt, agreed, attempt_state)
                elif is_free and self._is_enough():
                    # whether enough had agreed is unknown; agreeing to it now makes it certain
                    self.newer = Newer(attempt, self.term, attempt_state)
                    return self._propose(Propose(attempt, attempt_state), now)
        self.deadline = None
        return [Settled(self._decision())]

    def _newest(self, told: Collection[Granted | Denied]) -> tuple[bool, int, int, str] | None:
        """Find the attempt with which the job has gone on from the one that we know; else the one of another driver to which
        a node has agreed. No other one has the same terms.
        """
        known = [(True, answer.own, answer.own_attempt, answer.own_state) for answer in told]
        known += [(False, answer.agreed, answer.newest, answer.attempt_state) for answer in told if not answer.begun]
        return max(
            (entry for entry in known if entry[1:3] > self._candidate.since and entry[1] not in self._ours), default=None
        )

    @property
    def _others(self) -> set[int]:
        """Nodes that listen to another driver."""
        return {node for node, answer in self.denied.items() if answer.outcome != "left"}

    def _decision(self) -> Decision:
        if any(answer.outcome in OVER for answer in self.denied.values()):
            return Decision.OVER
        others = self._others
        is_enough = self._is_enough()
        if self.newer is not None and (is_enough or self._proposal is None):
            return Decision.NEWER
        if self._is_behind or (self._candidate.is_standby and others):
            return Decision.YIELD
        if is_enough:
            return Decision.DRIVE
        return Decision.YIELD if others else Decision.PAUSE

    def _is_enough(self) -> bool:
        grants = {node for node, answer in self.granted.items() if answer.voice != NONE}
        if self._proposal is not None:
            grants &= self._agreed
        # doubled, so that exactly half is a whole number
        votes = 2 * (len(grants) + len(self.refused & self._known_dead))
        is_living = any(self.granted[node].voice == LIVING for node in grants)
        if votes > len(self._nodes) or (votes == len(self._nodes) and not self._candidate.is_standby):
            # agents that were started again hold no process: with those alone nothing would go on
            return is_living or not self._candidate.leaves_out or self._candidate.is_elastic
        unknown = self.silent or self.refused - self._known_dead
        open_ = {node for node, answer in self.granted.items() if answer.voice != NONE} - grants
        return is_living and not (self._candidate.is_elastic or unknown or self._others or open_)

    def describe(self, names: dict[int, str]) -> str:
        reasons = [f"{names[node]}: {answer.reason}." for node, answer in sorted(self.denied.items())]
        for why in dict.fromkeys(self.unserved.values()):
            told = ", ".join(names[node] for node in sorted(self.unserved) if self.unserved[node] == why)
            reasons.append(f"{told}: {why.rstrip('.')}; it may be going on without us.")
        silent = ", ".join(names[node] for node in self.silent if node not in self.unserved)
        if silent:
            reasons.append(f"{silent} cannot be reached, and may be going on without us.")
        gone = ", ".join(names[node] for node in sorted(self.refused - self._known_dead))
        if gone:
            reasons.append(f"{gone} cannot be reached (connection refused), and may have gone on before that without us.")
        mute = ", ".join(names[node] for node, answer in sorted(self.granted.items()) if answer.voice == NONE)
        if mute:
            reasons.append(f"{mute} was started again, and may have had another driver before.")
        return " ".join(reasons)
