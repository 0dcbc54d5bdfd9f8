"""The submitter's view of its job: takes in heartbeats, notices and verdicts, watches for silent hosts and deadlocks."""

from __future__ import annotations

import logging
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from types import MappingProxyType
from typing import Final

from ..machine import Machine
from ..messages import Heartbeat, Notice, Operation, Verdict
from ..verdict import in_causal_order
from .limits import LATE_SECONDS, LOOK_SECONDS, SILENT_SECONDS, STARTING_SILENT_SECONDS, Phase

LIVENESS_MESSAGES = (Heartbeat, Notice, Verdict)
_NOBODY: Final = MappingProxyType[int, str]({})


class ClusterMonitor:
    """For one attempt at a job. `verdicts` are in the order in which they came, `causes` the first of them first.

    `names` are those of the nodes, for people. With `causes_first` nothing is logged of bystanders before `named` was called,
    or somebody named who has failed by itself.
    """

    def __init__(
        self,
        job: str,
        attempt: int,
        logger: logging.Logger,
        names: Mapping[int, str] = _NOBODY,
        *,
        causes_first: bool = False,
    ) -> None:
        self._job, self._attempt, self._logger, self.names = job, attempt, logger, names
        self._starting = HeartbeatTable((), STARTING_SILENT_SECONDS, 0.0)  # until all run
        self._cluster: SilenceDetector | None = None
        self._last_heartbeats: dict[int, Heartbeat] = {}  # the last of each node that has not ended, and
        self._heard_at: dict[int, float] = {}  # when it came
        self._bystanders: list[str] | None = [] if causes_first else None  # lines that wait; None: they wait no more
        self._ended: dict[int, bool] = {}  # the nodes that have, and whether well
        self.verdicts: list[Verdict] = []

    @property
    def causes(self) -> list[Verdict]:
        return in_causal_order(self.verdicts)

    def follows(self, node: int) -> bool:
        """Whether the end of a node is known to follow from that of another one."""
        return any(verdict.node == node and verdict.rank == 2 for verdict in self.verdicts)

    @property
    def deadline(self) -> float | None:
        return self._starting.deadline if self._cluster is None else self._cluster.deadline

    def expect(self, nodes: Iterable[int], now: float) -> None:
        """These nodes are to start; from now on their agents must say something now and then."""
        self._starting.expect(nodes, now)

    def hear(self, nodes: Iterable[int], now: float) -> None:
        """The agent of these nodes says something, whatever it is: before all run that is a sign of life of all of them."""
        if self._starting.deadline is not None:
            for node in nodes:
                self._starting.hear(node, now)

    def missing(self, now: float) -> list[tuple[int, str]]:
        """The nodes whose agents have fallen silent before all run, and what is known of that."""
        silent = self._starting.look(now)
        found = []
        for node, seconds in silent:
            others = ", ".join(self.names[other] for other, _ in silent if other != node)
            nor = f" (nor has {others})" if others else ""
            words = (
                f"its worker has given no sign of life for {seconds:.1f} s{nor}: it is stopped, or its host is, or the network"
            )
            found.append((node, words))
        return found

    def begin(self, nodes: Iterable[int], now: float, *, anew: bool = False) -> None:
        """All `nodes` have started; from now on their agents must send heartbeats.

        They may begin `anew` with other companions: whoever has waited until now, has waited for others.
        """
        self._cluster = SilenceDetector(nodes, self._attempt, now)
        self._starting = HeartbeatTable((), STARTING_SILENT_SECONDS, now)
        if anew:
            self._ended.clear()
            return
        for heartbeat in self._last_heartbeats.values():  # that came while others were starting
            self._cluster.handle(heartbeat, now)
        for node, well in self._ended.items():  # meanwhile, too: their agents send none any more
            self._cluster.handle(HasEnded(node, well), now)

    def take(self, node: int, told: Operation, now: float) -> None:
        """The agent of `node` says something; what is of another job or attempt, or of another node, is left out."""
        if not isinstance(told, LIVENESS_MESSAGES) or (told.job, told.node, told.attempt) != (self._job, node, self._attempt):
            return
        if isinstance(told, Heartbeat):
            if node not in self._ended:  # it was on its way when the end was told
                self._last_heartbeats[node], self._heard_at[node] = told, now
            if self._cluster is not None:
                self._cluster.handle(told, now)
        elif isinstance(told, Notice):
            self._logger.warning("%s", told.describe())
        else:
            self._note(told, now)

    def ended(self, node: int, well: bool, now: float) -> None:
        """The job has ended on `node`, or its agent is gone."""
        self._last_heartbeats.pop(node, None)
        self._ended[node] = well
        self._starting.forget(node)
        if self._cluster is not None:
            self._cluster.handle(HasEnded(node, well), now)

    def named(self) -> None:
        """Somebody who has failed by itself was told of, or nobody will be: what follows from that may be told now."""
        lines, self._bystanders = self._bystanders, None
        for line in lines or ():
            self._logger.info("%s", line)

    def tell_of_bystander(self, line: str) -> None:
        """Log what follows from the failure of another node, but not before that one is named."""
        if self._bystanders is None:
            self._logger.info("%s", line)
        else:
            self._bystanders.append(line)

    def explain(self, node: int, reason: str, now: float) -> str:
        """Why a node was lost, and where it was; as it came for one that has ended, has not beaten, or does not signal."""
        last = self._last_heartbeats.get(node)
        if last is None or last.phase == Phase.UNWATCHED.value:
            return reason
        return f"{reason.rstrip('.')}. By its last beat, {now - self._heard_at[node]:.1f} s before, it was {last.place}."

    def look(self, now: float) -> list[Verdict]:
        """See what the silence of all says; returns the new verdicts."""
        if self._cluster is None:
            return []
        found = []
        for action in self._cluster.handle(Tick(), now):
            if isinstance(action, Silent):
                words = "Its agent has not beaten, though its connection stands: the host or the network is gone. "
                words += "Where it was, its last beat said."
                found.append(self._verdict("silent", action.node, action.seconds, words))
            elif isinstance(action, CutOff):
                links = ", ".join(f"Node({x.sender}) to Node({x.receiver}) ({x.read} of {x.sent} came)" for x in action.links)
                words = f"All that train wait, and messages are lost on the way from {links}."
                found.append(self._verdict("cut", action.node, action.last.waiting, words))
            elif isinstance(action, Deadlock):
                names = ", ".join(map(str, action.nodes))
                words = f"All that train wait, and no byte comes: nodes {names}."
                found.append(self._verdict("deadlock", action.longest.node, action.longest.waiting, words))
        for verdict in found:
            self._note(verdict, now)
        return found

    def _note(self, verdict: Verdict, now: float) -> None:
        self.verdicts.append(verdict)
        reported = verdict.kind in ("crashed", "exited")  # the traceback comes with the state of the node
        told = verdict.summary if reported else verdict.describe()
        if verdict.rank < 2:
            self._logger.error("%s", told)
            self.named()
        else:
            self.tell_of_bystander(told)
        if verdict.kind not in ("deadlock", "cut"):  # whose processes are there, and will say how they end
            self.ended(verdict.node, False, now)

    def _verdict(self, kind: str, node: int, seconds: float, detail: str) -> Verdict:
        unknown = Heartbeat(self._job, node, self._attempt, "an unknown host", 0, Phase.UNWATCHED.value, 0, 0, 0.0, 0.0, 0.0)
        last = self._last_heartbeats.get(node, unknown)
        place = (last.host, last.pid, last.phase, last.epoch, last.batch)
        return Verdict(self._job, node, self._attempt, kind, *place, seconds, detail)


# The failure detector for a whole job, at whoever watches all its agents: silent hosts, and deadlocks.
#
# All nodes run when the watch begins. Their agents send heartbeats; one that has sent none for `SILENT_SECONDS` is
# silent, whatever its connection says. A host that hears nothing is found so, too: what it sends is not confirmed to it, so
# its system sends the first heartbeat again and again, and no further one. When all that still train wait for their peers,
# longer than a step may take and without a byte, nobody will go on: a deadlock, unless messages were sent that have not come:
# then the link that swallows them is dead.

_TRAINING = (Phase.START, Phase.STEP, Phase.BETWEEN, Phase.SAVE)


@dataclass(frozen=True)
class HasEnded:
    """The job has ended on the node, or its agent is gone for another reason."""

    node: int
    well: bool


@dataclass(frozen=True)
class Tick:
    """Time has passed, and everything that had arrived before `now` has been handed over."""


@dataclass(frozen=True)
class Silent:
    """The host of the node is silent; `last` is what it said last, if anything."""

    node: int
    seconds: float
    last: Heartbeat | None


@dataclass(frozen=True)
class Deadlock:
    """These nodes wait for each other; `longest` is who has waited longest."""

    nodes: tuple[int, ...]
    longest: Heartbeat


@dataclass(frozen=True)
class DeadLink:
    """Of `sent` messages from one node to another, `read` have come, and no more do, while all wait."""

    sender: int
    receiver: int
    sent: int
    read: int


@dataclass(frozen=True)
class CutOff:
    """Nobody goes on because links of `node` are dead; without it, no dead link of these is left."""

    node: int
    links: tuple[DeadLink, ...]
    last: Heartbeat


class SilenceDetector(Machine):
    """See above. `deadline` is when to send the next Tick, or None; `strangers` counts heartbeats of other jobs."""

    def __init__(self, nodes: Iterable[int], attempt: int, now: float) -> None:
        super().__init__()
        self._nodes = frozenset(nodes)
        self._attempt = attempt
        self._heartbeats = HeartbeatTable(self._nodes, SILENT_SECONDS, now)
        self._last: dict[int, Heartbeat] = {}
        self._ended: set[int] = set()
        self._settled = False  # somebody has failed: what the others wait for is known
        self.strangers = 0

    @property
    def deadline(self) -> float | None:
        return self._heartbeats.deadline

    def _decide(self, event: object, now: float) -> list[object]:
        if isinstance(event, Heartbeat):
            self._on_heartbeat(event, now)
            return []
        if isinstance(event, HasEnded):
            self._forget(event.node)
            self._settled = self._settled or not event.well
            return []
        if isinstance(event, Tick):
            return self._on_tick(now)
        raise self._impossible(event)

    def _on_heartbeat(self, heartbeat: Heartbeat, now: float) -> None:
        if heartbeat.node not in self._nodes or heartbeat.attempt != self._attempt:
            self.strangers += 1  # of an attempt before, or of nobody
        elif heartbeat.node not in self._ended:  # a heartbeat may have been on its way when the end was told
            self._heartbeats.hear(heartbeat.node, now)
            self._last[heartbeat.node] = heartbeat

    def _forget(self, node: int) -> None:
        self._ended.add(node)
        self._heartbeats.forget(node)
        self._last.pop(node, None)

    def _on_tick(self, now: float) -> list[object]:
        silent: list[object] = []
        for node, seconds in self._heartbeats.look(now):
            silent.append(Silent(node, seconds, self._last.get(node)))
            self._forget(node)
            self._settled = True
        return silent + self._deadlock()

    def _deadlock(self) -> list[object]:
        training = [heartbeat for heartbeat in self._last.values() if heartbeat.phase in _TRAINING]
        unheard = self._nodes - self._ended - self._last.keys()
        if self._settled or unheard or not training or any(heartbeat.waiting <= heartbeat.limit for heartbeat in training):
            return []
        self._settled = True
        cut_off = self._cut_off()
        if cut_off:
            return cut_off
        longest = max(training, key=lambda heartbeat: (heartbeat.waiting, -heartbeat.node))
        return [Deadlock(tuple(sorted(heartbeat.node for heartbeat in training)), longest)]

    def _cut_off(self) -> list[object]:
        """The fewest nodes, one after the other, without which no dead link is left: who has most of them, of equals the worker
        with the highest number."""
        counts = {(node, peer): (sent, read) for node, heartbeat in self._last.items() for peer, sent, read in heartbeat.links}
        dead = [
            DeadLink(node, peer, sent, counts[peer, node][1])
            for (node, peer), (sent, _) in sorted(counts.items())
            if (peer, node) in counts and sent > counts[peer, node][1]
        ]
        found: list[object] = []
        while dead:
            partners: dict[int, set[int]] = {}
            for link in dead:
                partners.setdefault(link.sender, set()).add(link.receiver)
                partners.setdefault(link.receiver, set()).add(link.sender)
            worst = max(partners, key=lambda node: (len(partners[node]), node))
            own = tuple(link for link in dead if worst in (link.sender, link.receiver))
            dead = [link for link in dead if link not in own]
            found.append(CutOff(worst, own, self._last[worst]))
        return found


class HeartbeatTable:
    """Nodes that are silent for more than `limit` seconds are found by `look`, within `LOOK_SECONDS` if that is called by
    `deadline`."""

    def __init__(self, nodes: Iterable[int], limit: float, now: float) -> None:
        self._limit = limit
        self._heard = dict.fromkeys(nodes, now)
        self._looked = now

    @property
    def deadline(self) -> float | None:
        """When to look next; None when nobody is listened to."""
        return self._looked + LOOK_SECONDS if self._heard else None

    def expect(self, nodes: Iterable[int], now: float) -> None:
        if not self._heard:
            self._looked = now
        self._heard.update(dict.fromkeys(nodes, now))

    def hear(self, node: int, now: float) -> None:
        """A sign of life; of a node that is not listened to it is none."""
        if node in self._heard:
            self._heard[node] = now

    def forget(self, node: int) -> None:
        self._heard.pop(node, None)

    def look(self, now: float) -> list[tuple[int, float]]:
        """The nodes that are silent, and for how many seconds; they are forgotten. All that came before `now` was heard."""
        late = now - self._looked - LOOK_SECONDS
        self._looked = now
        if late > LATE_SECONDS:
            self._heard = {node: min(now, heard + late) for node, heard in self._heard.items()}
        silent = [(node, now - heard) for node, heard in sorted(self._heard.items()) if now - heard > self._limit]
        for node, _ in silent:
            self.forget(node)
        return silent
