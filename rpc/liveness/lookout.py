"""The submitter's view of its job: takes in beats, notices and verdicts, watches for silent hosts and deadlocks."""

from __future__ import annotations

import logging
from collections.abc import Iterable

from ..messages import Beat, Notice, Operation, Verdict
from .cluster import ClusterWatch, CutOff, Deadlock, HasEnded, Heard, Silent, Tick
from .limits import Phase
from .verdict import in_causal_order

NEWS = (Beat, Notice, Verdict)


class Lookout:
    """For one attempt at a job. `verdicts` are in the order in which they came, `causes` the first of them first.

    With `causes_first` nothing is logged of bystanders before `named` was called, or somebody named who has failed by itself.
    """

    def __init__(self, job: str, attempt: int, logger: logging.Logger, *, causes_first: bool = False) -> None:
        self._job, self._attempt, self._logger = job, attempt, logger
        self._cluster: ClusterWatch | None = None
        self._beats: dict[int, Beat] = {}  # the last of each node that has not ended, and
        self._beaten: dict[int, float] = {}  # when it came
        self._bystanders: list[str] | None = [] if causes_first else None  # lines that wait; None: they wait no more
        self._ended: dict[int, bool] = {}  # the nodes that have, and whether well
        self.verdicts: list[Verdict] = []

    @property
    def causes(self) -> list[Verdict]:
        """All verdicts, first causes before what followed from them."""
        return in_causal_order(self.verdicts)

    def follows(self, node: int) -> bool:
        """Whether the end of a node is known to follow from that of another one."""
        return any(verdict.node == node and verdict.rank == 2 for verdict in self.verdicts)

    @property
    def deadline(self) -> float | None:
        """When to call `look` (monotonic), or None."""
        return None if self._cluster is None else self._cluster.deadline

    def begin(self, nodes: Iterable[int], now: float, *, anew: bool = False) -> None:
        """All `nodes` have started; from now on their agents must beat.

        They may begin `anew` with other companions: whoever has waited until now, has waited for others.
        """
        self._cluster = ClusterWatch(nodes, self._attempt, now)
        if anew:
            self._ended.clear()
            return
        for beat in self._beats.values():  # that came while others were starting
            self._cluster.handle(_heard(beat), now)
        for node, well in self._ended.items():  # meanwhile, too: their agents do not beat any more
            self._cluster.handle(HasEnded(node, well), now)

    def take(self, node: int, news: Operation, now: float) -> None:
        """The agent of `node` says something; what is of another job or attempt, or of another node, is left out."""
        if not isinstance(news, NEWS) or (news.job, news.node, news.attempt) != (self._job, node, self._attempt):
            return
        if isinstance(news, Beat):
            if node not in self._ended:  # it was on its way when the end was told
                self._beats[node], self._beaten[node] = news, now
            if self._cluster is not None:
                self._cluster.handle(_heard(news), now)
        elif isinstance(news, Notice):
            self._logger.warning("%s", news.describe())
        else:
            self._note(news, now)

    def ended(self, node: int, well: bool, now: float) -> None:
        """The job has ended on `node`, or its agent is gone."""
        self._beats.pop(node, None)
        self._ended[node] = well
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
        last = self._beats.get(node)
        if last is None or last.phase == Phase.UNWATCHED.value:
            return reason
        return f"{reason.rstrip('.')}. By its last beat, {now - self._beaten[node]:.1f} s before, it was {last.place}."

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
        unknown = Beat(self._job, node, self._attempt, "an unknown host", 0, Phase.UNWATCHED.value, 0, 0, 0.0, 0.0, 0.0)
        last = self._beats.get(node, unknown)
        place = (last.host, last.pid, last.phase, last.epoch, last.batch)
        return Verdict(self._job, node, self._attempt, kind, *place, seconds, detail)


def _heard(beat: Beat) -> Heard:
    links = tuple((peer, sent, read) for peer, sent, read in beat.links)
    return Heard(beat.node, beat.attempt, Phase(beat.phase), beat.epoch, beat.batch, beat.waiting, beat.limit, links)
