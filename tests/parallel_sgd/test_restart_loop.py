"""Attempt after attempt under hypothesis's hand: what is tried again, with whom, and when nothing more is."""

from __future__ import annotations

from hypothesis import settings
from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, initialize, rule

from network.errors import PeerLost
from network.nodes import NodeAssignment
from parallel_sgd import JobFailed
from parallel_sgd.errors import places_of
from parallel_sgd.membership import SameNodes, Survivors
from rpc.submit.recovery import AGAIN, DETERMINISTIC, SHRINK, Place, Recovery
from rpc.verdict import Verdict

from ..statements import covers

PLACES = st.tuples(st.integers(1, 2), st.integers(1, 2))


@covers("FD-12", "FD-20", "EL-16", "EL-19")
class Attempts(RuleBasedStateMachine):
    """a job is started again at most `max_restarts` times, by whichever driver, and not after the
    same node has failed three times at the same place; those that failed by themselves, and nobody else, are left out under
    'shrink', the others keep their order, and fewer than `min_workers` do not go on."""

    @initialize(
        policy=st.sampled_from(AGAIN),
        most=st.integers(0, 6),
        workers=st.integers(2, 5),
        fewest=st.integers(1, 3),
        server=st.booleans(),
    )
    def begin(self, policy: str, most: int, workers: int, fewest: int, server: bool) -> None:
        nodes = NodeAssignment()
        for node in [*range(workers), *([-2] if server else [])]:
            nodes.add(node, f"host{node}" if node >= 0 else "hostps")
        self.policy, self.most, self.fewest, self.server = policy, most, min(fewest, workers), server
        self.recovery = Recovery(policy, most)
        self.membership = Survivors(nodes, self.fewest) if policy == SHRINK else SameNodes(nodes)
        self.seen: dict[Place, int] = {}
        self.restarts = 0
        self.over = False

    @rule(first=st.integers(0, 9), second=st.integers(-9, 9), place=PLACES, vanishes=st.booleans(), attempt=st.integers(0, 3))
    def fail(self, first: int, second: int, place: tuple[int, int], vanishes: bool, attempt: int) -> None:
        """One node fails by itself, perhaps a second one with it; all others end because they lost it. An agent that `vanishes`
        leaves no verdict."""
        if self.over:
            return
        nodes = sorted(self.membership.nodes.worker_ids) + ([-2] if self.server else [])
        culprits = {nodes[first % len(nodes)]} | ({nodes[second % len(nodes)]} if second >= 0 else set())
        failures, verdicts = {}, []
        for node in reversed(nodes):  # bystanders may be heard of first
            if node in culprits:
                failures[node] = ("lost", "its connection ended") if vanishes else ("failed", "ValueError: no")
            else:
                lost = PeerLost(min(culprits), "host", "its connection ended")
                failures[node] = ("failed", f"Traceback\nnetwork.errors.PeerLost: {lost}")
            if node not in culprits or not vanishes:
                trace = failures[node][1]
                verdicts.append(Verdict("job", node, attempt, "crashed", "host", 1, "step", *place, 0.1, trace=trace))
        failed = JobFailed(failures, {}, "job", verdicts)
        assert set(failed.culprits) == culprits and set(list(failed.failures)[: len(culprits)]) == culprits
        self._follow(failed, set() if vanishes else {(node, *place) for node in culprits})

    @rule()
    def another_driver_takes_over(self) -> None:
        successor = Recovery(self.policy, self.most)
        successor.load_state_dict(self.recovery.state_dict())
        self.recovery = successor

    def _follow(self, failed: JobFailed, places: set[Place]) -> None:
        before = [self.membership.nodes[node] for node in self.membership.nodes.worker_ids]
        assert places_of(failed) == places
        reason = self.recovery.give_up(places)
        for place in places:
            self.seen[place] = self.seen.get(place, 0) + 1
        again = self.restarts < self.most and all(self.seen[place] < DETERMINISTIC for place in places)
        assert again == (reason == "")
        if not again:
            self.over = True
            return
        self.restarts += 1
        assert self.recovery.restarts == self.restarts <= self.most
        left = (
            [address for rank, address in enumerate(before) if rank not in failed.culprits] if self.policy == SHRINK else before
        )
        reason = self.membership.settle(failed)
        if self.policy == SHRINK and (len(left) < self.fewest or -2 in failed.culprits):
            assert reason
            self.over = True
            return
        assert reason == ""
        after = self.membership.nodes
        assert [after[node] for node in range(len(left))] == left and len(after.worker_ids) == len(left)
        assert (-2 in dict(after.items())) == self.server


Attempts.TestCase.settings = settings(max_examples=80, stateful_step_count=15, deadline=None, print_blob=True)
TestAttempts = Attempts.TestCase
