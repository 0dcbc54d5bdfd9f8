"""Recovery after a failed attempt at a job: another attempt, or the end. Decides without I/O.

Policies, chosen at submission by `on_failure`:

fail        the job ends
redundant   it goes on without nodes whose blocks others hold too; without any other it ends
restart     all job processes end, and all nodes start again from the newest state that any of them has
wait        the same, but a node that is gone is waited for as long as an elastic job waits
shrink      the same, but without the nodes that failed by themselves

Survivors leave their state on disk when they end, so no batch that was applied is lost, wherever a policy starts again.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Collection, Hashable, Iterable, Mapping
from typing import Any, Final, Literal, TypeAlias, get_args

from network.names import did_you_mean

from ..verdict import Verdict

Policy: TypeAlias = Literal["fail", "redundant", "restart", "wait", "shrink"]
POLICIES: Final[tuple[Policy, ...]] = get_args(Policy)
FAIL, REDUNDANT, RESTART, WAIT, SHRINK = POLICIES
AGAIN = (RESTART, WAIT, SHRINK)
Place = tuple[int, int, int]  # node, epoch, batch
DETERMINISTIC = 3  # failures of the same node at the same batch, after which they are not taken for chance
REPEATED = f"the same failure has come {DETERMINISTIC} times at the same place, so it would come again"


def places_of(verdicts: Iterable[Verdict], culprits: Collection[int] | None = None) -> set[Place]:
    """Find the places at which an attempt failed first, by nodes, epochs and batches; none for a failure at no batch in
    particular, a lost connection for example.

    All that failed by themselves count, because which of them is heard of first is chance. Where no verdict is of that kind,
    the `culprits` if there are any (those that sent data which others had to refuse), else those that waited in vain.
    Bystanders do not count.
    """
    told = list(verdicts)
    late = [verdict for verdict in told if verdict.rank == 1]
    if any(verdict.rank == 0 for verdict in told):
        found = {(verdict.node, verdict.epoch, verdict.batch) for verdict in told if verdict.rank == 0}
    elif culprits is not None:
        found = {(node, verdict.epoch, verdict.batch) for verdict in late for node in culprits}
    else:
        found = {(verdict.node, verdict.epoch, verdict.batch) for verdict in late}
    return {place for place in found if place[1]}  # epochs count from 1


class Repeats:
    """Counter of failures by the place where they came: one that comes three times at the same place is no chance."""

    def __init__(self) -> None:
        self.seen: Counter[Hashable] = Counter()

    def note(self, places: Iterable[Hashable]) -> bool:
        """Count one more failure, at these places; return whether any of them has been seen as often as chance allows."""
        # a set: one attempt counts once at each place
        here = set(places)
        self.seen.update(here)
        return any(self.seen[place] >= DETERMINISTIC for place in here)


class Recovery:
    """Record of the failed attempts at one job.

    Args:
        policy: one of `POLICIES`.
        max_restarts: how often at most the job is started again.

    Raises: ValueError for an unknown policy or a number of restarts that is no integer of 0 or more.
    """

    def __init__(self, policy: str, max_restarts: int) -> None:
        self.policy = checked_policy(policy)
        if isinstance(max_restarts, bool) or not isinstance(max_restarts, int) or max_restarts < 0:
            raise ValueError(f"'max_restarts' must be an integer of 0 or more, got {max_restarts!r}")
        self.max_restarts = max_restarts
        self.restarts = 0
        self._repeats = Repeats()

    def state_dict(self) -> dict[str, Any]:
        return {"restarts": self.restarts, "seen": [[place, count] for place, count in self._repeats.seen.items()]}

    def load_state_dict(self, state: Mapping[str, Any]) -> None:
        self.restarts = int(state["restarts"])
        # JSON has made lists of the places
        self._repeats.seen = Counter({(node, epoch, batch): int(count) for (node, epoch, batch), count in state["seen"]})

    def give_up(self, places: Iterable[Place]) -> str:
        """Return why nothing more is tried after a failure, or "" when the job is to be started again.

        `places` tell failures apart: where it failed first in the attempt (`places_of`).
        """
        if self.policy not in AGAIN:
            return f"on_failure is {self.policy!r}"
        # before the number of restarts: it tells the user more
        if self._repeats.note(places):
            return REPEATED
        if self.restarts >= self.max_restarts:
            return f"it was started again as often as 'max_restarts' allows, {self.max_restarts}"
        self.restarts += 1
        return ""


def checked_policy(policy: str) -> Policy:
    """Return the policy itself.

    Raises: ValueError for one that does not exist.
    """
    for known in POLICIES:
        if isinstance(policy, str) and policy == known:
            return known
    raise ValueError(
        f"'on_failure' must be one of {', '.join(map(repr, POLICIES))}, got {policy!r}{did_you_mean(policy, POLICIES)}"
    )
