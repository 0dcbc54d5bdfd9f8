"""Monitor of a whole job at its submitter: takes in heartbeats, notices and verdicts, watches for silent hosts and deadlocks.

Agents send heartbeats; one that has sent none for `SILENT_SECONDS`, once all nodes run, is silent, whatever its connection
says. Only a process of this machine that is known to run has longer: on a busy machine it may get no processor. A host that
hears nothing is found so, too: its bytes are not confirmed to it, so its system sends the first heartbeat again and again, and
no further one. When all processes that are there wait for their peers, longer than a step may take and without a byte, none
will go on: a deadlock, unless messages were sent that have not come: then the link that swallows them is dead.

Heartbeats of different nodes describe different moments, so together they prove something only of a moment that all of them
have seen. A heartbeat is at most `SILENT_SECONDS` old when it comes, for the agent of an older one is silent. So a node is
known to have waited from the moment that its last heartbeat gives (counted back from when that came) until `SILENT_SECONDS`
before it came, and nodes wait in vain when those times have a moment in common, after the last end that is known of, and after
the last time that an agent got no processor.
"""

from __future__ import annotations

import logging
from collections import Counter
from collections.abc import Callable, Iterable, Mapping
from types import MappingProxyType
from typing import Final, NamedTuple

from ..messages import Notice, Operation, Verdict
from ..support.logs import VERDICT
from ..verdict import in_causal_order
from .heartbeat import WOULD_RUN, Heartbeat, HeartbeatTable
from .limits import SILENT_SECONDS, STARTING_SILENT_SECONDS, STARVED_SECONDS, WORKED_SECONDS, Phase

LIVENESS_MESSAGES = (Heartbeat, Notice, Verdict)
_NOBODY: Final = MappingProxyType[int, str]({})
_TRAINING = (Phase.START, Phase.STEP, Phase.BETWEEN, Phase.SAVE)


class ClusterMonitor:
    """Monitor of one attempt at a job. It decides without I/O: its owner hands over the messages, and the time.

    Attributes: `verdicts` in the order in which they came, `causes` the first of them first; `strangers` counts messages of
    another job or attempt, or in the name of another node; `heartbeats` counts those of each node.

    Args:
        job: id of the job.
        attempt: its number.
        logger: of the job.
        names: of the nodes, for people.
        causes_first: log nothing of bystanders before `named` was called, or a verdict on a node that has failed by itself.
        lives: tells if this program has started the agent of a node, and its process runs.
        state: tells by host and number of a job process the state of its agent, "" where that is no process of this machine.
    """

    def __init__(
        self,
        job: str,
        attempt: int,
        logger: logging.Logger,
        names: Mapping[int, str] = _NOBODY,
        *,
        causes_first: bool = False,
        lives: Callable[[int], bool] = lambda _: False,
        state: Callable[[str, int], str] = lambda _host, _pid: "",
    ) -> None:
        self._job, self._attempt, self._logger, self.names = job, attempt, logger, names
        self._started, self._state = lives, state
        self._known: dict[int, int] = {}  # the process of each node, of this machine, by which its agent is known
        self._asleep: set[int] = set()  # silent nodes of this machine whose agents were seen to wait for nothing but events
        self._starting = HeartbeatTable((), STARTING_SILENT_SECONDS, 0.0)  # until all run
        self._running: HeartbeatTable | None = None  # from then on
        self._nodes: frozenset[int] = frozenset()  # that run
        self._changed = 0.0  # when the round began, a node ended, or we woke: those that waited before may go on since
        self._settled = False  # a node has failed: the others wait for it
        self._last_heartbeats: dict[int, Heartbeat] = {}  # the last of each node that has not ended, and
        self._heard_at: dict[int, float] = {}  # when it came
        self.heartbeats: Counter[int] = Counter()
        self._bystanders: list[str] | None = [] if causes_first else None  # lines that wait; None: they wait no more
        self._ended: dict[int, bool] = {}  # the nodes that have, and whether well
        self.verdicts: list[Verdict] = []
        self.strangers = 0

    @property
    def causes(self) -> list[Verdict]:
        return in_causal_order(self.verdicts)

    def follows(self, node: int) -> bool:
        """Tell if the end of a node is known to follow from that of another one."""
        return any(verdict.node == node and verdict.rank == 2 for verdict in self.verdicts)

    @property
    def deadline(self) -> float | None:
        """Time at which to call `missing` and `look` (monotonic), or None."""
        return (self._starting if self._running is None else self._running).deadline

    def expect(self, nodes: Iterable[int], now: float) -> None:
        """Expect these nodes to start; from now on their agents must send messages now and then."""
        self._starting.expect(nodes, now)

    def hear(self, nodes: Iterable[int], now: float) -> None:
        """Note a message of the agent of these nodes, of any kind: before all run that is a sign of life of all of them."""
        if self._starting.deadline is not None:
            for node in nodes:
                self._starting.hear(node, now)

    def missing(self, now: float) -> list[tuple[int, str]]:
        """Return the nodes whose agents have fallen silent before all run, with the findings."""
        # one that lives stays silent, and is not lost: the limits of the start tell how long it may take
        silent = self._starting.look(now, self._lives)
        found = []
        for node, seconds in silent:
            others = ", ".join(self.names[other] for other, _ in silent if other != node)
            nor = f" (nor has {others})" if others else ""
            words = (
                f"its worker has given no sign of life for {seconds:.1f} s{nor}: it is stopped, or its host is, or the network"
            )
            found.append((node, words))
        return found

    def starves(self, node: int, now: float) -> bool:
        """Tell if the agent of a node that starts runs, but says nothing: it gets no processor, and so may its job process."""
        return self._starting.silence(node, now) > WORKED_SECONDS and self._lives(node)

    def _lives(self, node: int) -> bool:
        """Tell if the agent of a node is a process of this machine that runs, or would run: its host is not gone."""
        return self._started(node) or self._state_of(node) in WOULD_RUN

    def _state_of(self, node: int) -> str:
        last = self._last_heartbeats.get(node)
        return "" if last is None else self._state(last.host, last.pid)

    def _starved(self, node: int, silence: float) -> bool:
        """Tell if a node that has been silent for so many seconds is so for want of a processor."""
        if silence > STARVED_SECONDS:
            return False
        state = self._state_of(node)
        if state in WOULD_RUN or (not state and self._started(node)):
            self._asleep.discard(node)
            return True
        # it has nothing to do: what it has said before is here at the next look
        waits = state == "S" and node not in self._asleep
        self._asleep.add(node)
        return waits

    def begin(self, nodes: Iterable[int], now: float, *, anew: bool = False) -> None:
        """Begin the watch: all `nodes` have started; from now on their agents must send heartbeats.

        They may begin `anew` with other companions: a node that has waited until now, has waited for others.
        """
        self._nodes = frozenset(nodes)
        self._starting = HeartbeatTable((), STARTING_SILENT_SECONDS, now)
        self._running = HeartbeatTable(self._nodes, SILENT_SECONDS, now)
        self._changed = now
        if anew:
            # a new round may have a worker of the same number
            self._ended.clear()
        for node in self._ended:  # while others were starting: their agents send no heartbeats any more
            self._running.forget(node)
        self._settled = not all(self._ended.values())

    def take(self, node: int, told: Operation, now: float) -> None:
        """Take a message of the agent of `node`; those of another job or attempt, or of another node, are left out."""
        if not isinstance(told, LIVENESS_MESSAGES):
            return
        # an agent can speak for its own node alone
        if (told.job, told.node, told.attempt) != (self._job, node, self._attempt):
            self.strangers += 1
        elif isinstance(told, Heartbeat):
            if node not in self._ended:  # else it was on its way when the end was told
                # until its agent is known, also when the process has ended: one that was just forked has no name yet
                if self._known.get(node) != told.pid and self._state(told.host, told.pid):
                    self._known[node] = told.pid
                self._last_heartbeats[node], self._heard_at[node] = told, now
                self.heartbeats[node] += 1
                self._asleep.discard(node)
                if self._running is not None:
                    self._running.hear(node, now)
        elif isinstance(told, Notice):
            self._logger.warning("%s", told.describe())
        else:
            self._note(told, now)

    def ended(self, node: int, well: bool, now: float) -> None:
        """Note that the job has ended on `node`, `well` or not, or that its agent is gone."""
        self._last_heartbeats.pop(node, None)
        self._ended[node] = well
        self._changed = now
        # those that wait for a failed node are no deadlock
        self._settled = self._settled or not well
        for table in (self._starting, self._running):
            if table is not None:
                table.forget(node)

    def named(self) -> None:
        """Log the lines of bystanders: a node that has failed by itself was named, or none will be."""
        lines, self._bystanders = self._bystanders, None
        for line in lines or ():
            self._logger.info("%s", line)

    def tell_of_bystander(self, line: str) -> None:
        """Log a line that follows from the failure of another node, but not before that one is named."""
        if self._bystanders is None:
            self._logger.info("%s", line)
        else:
            self._bystanders.append(line)

    def explain(self, node: int, reason: str, now: float) -> str:
        """Return why a node was lost, and where it was; the reason alone for one that has ended, sent no heartbeat, or does
        not signal.
        """
        last = self._last_heartbeats.get(node)
        if last is None or last.phase == Phase.UNWATCHED.value:
            return reason
        return f"{reason.rstrip('.')}. By its last heartbeat, {now - self._heard_at[node]:.1f} s before, it was {last.place}."

    def look(self, now: float) -> list[Verdict]:
        """Draw the conclusions from the silence of all; return the new verdicts."""
        if self._running is None:
            return []
        words = "No heartbeat came from its agent, though its connection stands: the host or the network is gone. "
        words += "Where it was, its last heartbeat said."
        running = self._running
        starved = lambda node: self._starved(node, running.silence(node, now))  # noqa: E731
        silent = [self._verdict("silent", node, seconds, words) for node, seconds in running.look(now, starved)]
        # heartbeats that come now may be as old as we slept, or as an agent got no processor
        if running.was_late or any(running.silence(node, now) > SILENT_SECONDS for node in self._nodes):
            self._changed = now
        found = silent or self._waits_in_vain()
        for verdict in found:
            self._note(verdict, now)
        return found

    def _waits_in_vain(self) -> list[Verdict]:
        """Return the verdicts when all processes that are there wait at the same moment, and nothing explains it.

        One that does not signal, or has finished its training, may work for those that wait, too.
        """
        there = self._nodes - self._ended.keys()
        last = {node: self._last_heartbeats[node] for node in there if node in self._last_heartbeats}
        training = [heartbeat for heartbeat in last.values() if heartbeat.phase in _TRAINING]
        # all that are there must have been heard, or one may be at work unseen
        if self._settled or not training or len(last) < len(there):
            return []
        if any(heartbeat.waiting <= heartbeat.limit for heartbeat in last.values()):
            return []
        moved = max(self._heard_at[node] - heartbeat.waiting for node, heartbeat in last.items())
        if min(self._heard_at[node] for node in last) - SILENT_SECONDS <= max(moved, self._changed):
            return []
        # said once
        self._settled = True
        found = []
        for node, links in _cut_off(last):
            shown = ", ".join(f"Node({x.sender}) to Node({x.receiver}) ({x.read} of {x.sent} came)" for x in links)
            words = f"All that train wait, and messages are lost on the way from {shown}."
            found.append(self._verdict("cut", node, last[node].waiting, words))
        if found:
            return found
        # of equals the lowest number, so that all runs name the same
        longest = max(training, key=lambda heartbeat: (heartbeat.waiting, -heartbeat.node))
        names = ", ".join(map(str, sorted(heartbeat.node for heartbeat in training)))
        words = f"All that train wait, and no byte comes: nodes {names}."
        return [self._verdict("deadlock", longest.node, longest.waiting, words)]

    def _note(self, verdict: Verdict, now: float) -> None:
        self.verdicts.append(verdict)
        reported = verdict.kind in ("crashed", "exited")  # the traceback comes with the state of the node
        told = verdict.summary if reported else verdict.describe()
        if verdict.rank < 2:
            self._logger.error("%s", told, extra=VERDICT)
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


class _DeadLink(NamedTuple):
    """Dead link: of `sent` messages from one node to another, `read` have come, and no more do, while all wait."""

    sender: int
    receiver: int
    sent: int
    read: int


def _cut_off(last: Mapping[int, Heartbeat]) -> list[tuple[int, list[_DeadLink]]]:
    """Find by the `last` heartbeats the fewest nodes, one after the other, without which no dead link is left, with the
    links that each ends: the node with most of them, of equals the worker with the highest number.
    """
    counts = {(node, peer): (sent, read) for node, heartbeat in last.items() for peer, sent, read in heartbeat.links}
    dead = [
        _DeadLink(node, peer, sent, counts[peer, node][1])
        for (node, peer), (sent, _) in sorted(counts.items())
        if (peer, node) in counts and sent > counts[peer, node][1]
    ]
    found = []
    while dead:
        partners: dict[int, set[int]] = {}
        for link in dead:
            partners.setdefault(link.sender, set()).add(link.receiver)
            partners.setdefault(link.receiver, set()).add(link.sender)
        worst = max(partners, key=lambda node: (len(partners[node]), node))
        own = [link for link in dead if worst in (link.sender, link.receiver)]
        dead = [link for link in dead if link not in own]
        found.append((worst, own))
    return found
