"""Any order of messages, and faults at any moment, several at once and while the first is mended: the whole life of a job
under hypothesis's hand, which prints the steps that lead to a failure and the seed with which to repeat them.
"""

from __future__ import annotations

import os
import random
import shutil
from functools import partial
from pathlib import Path
from tempfile import TemporaryDirectory

import pytest
from hypothesis import HealthCheck, Phase, settings
from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, initialize, precondition, rule

from ..statements import covers
from .life import KILL, STOP, Life
from .results import calm, weights
from .submitting import SimSubmitter

EXAMPLES = int(os.environ.get("FAULT_EXAMPLES", "6"))  # `make faults` tries many more
ALL = 1000  # from here on nothing is left out
MOST_FAULTS = 3
MOST_SECONDS = 600.0  # four attempts, each of which may wait for doCommit, for an agent to return, and for silence


def settle(life: Life, submitter: SimSubmitter, draw: random.Random | None, *, calm_so_far: bool) -> None:
    """Run on until nothing moves any more, and assert what must hold then."""
    life.run(draw)
    told = submitter.verdict
    assert told or submitter.was_killed
    assert told in ("", "completed") or told.startswith("failed: "), told
    assert submitter.verdict_at <= MOST_SECONDS
    if calm_so_far:
        assert told == "completed"
    wanted = calm(-2 in life.nodes)
    if told == "completed":
        assert set(weights(submitter).values()) == set(wanted.values())
    assert not [name for name, actor in life.actors.items() if name[0] == "J" and actor is not None]
    assert len(life.agents) == len(life.nodes)
    assert all(agent.running is None for agent in life.agents)
    following = life.submit("next")
    life.run(draw)
    assert following.verdict == "completed"
    assert weights(following) == wanted


@pytest.mark.share(2)
@covers("INV-1", "INV-2", "INV-6", "FLT-20", "SUB-9")
@pytest.mark.parametrize("server", [False, True], ids=["peers", "server"])
def test_every_loss_at_every_message(tmp_path: Path, server: bool) -> None:
    """Whoever dies, after whichever message of a job's whole life. Here a sample of them,
    all by `make faults`."""
    life = Life(tmp_path / "calm", server=server)
    life.start()
    life.submit("job")
    life.run()
    life.end()
    moments = [(count, name) for count in range(len(life.trace)) for name in life.actors]
    for count, victim in moments if EXAMPLES >= ALL else random.Random(EXAMPLES).sample(moments, EXAMPLES // 2):
        life = Life(tmp_path / f"{victim}-{count}", server=server)
        life.start()
        submitter = life.submit("job")
        life.run(until=partial(_has_come_to, life, count))
        if life.actors[victim] is not None:
            life.strike(victim, KILL)
        settle(life, submitter, None, calm_so_far=False)
        life.end()
        shutil.rmtree(life.directory)


def _has_come_to(life: Life, count: int) -> bool:
    return len(life.trace) == count


@covers("INV-1", "INV-2", "INV-6", "FLT-4", "FLT-7", "FLT-18", "FLT-19", "FLT-20")
class Schedules(RuleBasedStateMachine):
    """One job, and whatever may happen to it.

    In the end, when all that was stopped has been woken and all agents that were killed are back:
    * the job has ended within a computed time, well or with a reason; nothing of it runs anywhere;
    * if it has ended well, every worker has the weights of a calm run, to the last bit;
    * every agent is free, and the next job ends well, with the same weights.
    """

    life: Life

    def __init__(self) -> None:
        super().__init__()
        self.directory = TemporaryDirectory()
        self.has_begun = False
        self.faults = 0

    @initialize(
        server=st.booleans(),
        policy=st.sampled_from(["restart", "restart", "shrink", "fail", "wait"]),
        seed=st.integers(0, 2**16),
        trains=st.booleans(),
    )
    def begin(self, server: bool, policy: str, seed: int, trains: bool) -> None:
        self.server, self.draw = server, random.Random(seed)
        self.life = Life(Path(self.directory.name), server=server, policy=policy)
        self.has_begun = True
        self.life.start()
        self.submitter = self.life.submit("job")
        if trains:  # faults that come before the start end most jobs there
            self.life.run(self.draw, until=lambda: self.submitter.runs)

    @rule(messages=st.integers(1, 60))
    def deliver(self, messages: int) -> None:
        """Some messages arrive, in any order; time passes only where nobody has anything to read."""
        for _ in range(messages):
            self.life.step(self.draw)

    @precondition(lambda self: self.faults < MOST_FAULTS)
    @rule(choice=st.integers(0, 99), how=st.sampled_from([KILL, STOP]))
    def strike(self, choice: int, how: str) -> None:
        """Somebody dies or is stopped."""
        alive = [name for name, actor in self.life.actors.items() if actor is not None and not self.life.hung[name]]
        if alive:
            self.faults += 1
            self.life.strike(alive[choice % len(alive)], how)

    @precondition(lambda self: self.faults < MOST_FAULTS)
    @rule(choice=st.integers(0, 99), silently=st.booleans())
    def break_a_connection(self, choice: int, silently: bool) -> None:
        """A connection is reset, or brings nothing any more, in neither direction. An agent and its process cannot part."""
        open_ones = [pair for pair, is_open in self.life.open.items() if is_open and pair[0] < pair[1]]
        open_ones = [(one, other) for one, other in open_ones if {one[0], other[0]} != {"A", "J"}]
        if open_ones:
            self.faults += 1
            pair = open_ones[choice % len(open_ones)]
            (self.life.hold if silently else self.life.cut)(*pair)

    @rule(hours=st.sampled_from([-1.0, 1.0]))
    def jump(self, hours: float) -> None:
        """FLT-18: somebody sets the clock."""
        self.life.clock.jump_wall(3600 * hours)

    def teardown(self) -> None:
        try:
            if self.has_begun:
                settle(self.life, self.submitter, self.draw, calm_so_far=not self.faults)
        finally:
            if self.has_begun:
                self.life.end()
            self.directory.cleanup()


Schedules.TestCase.settings = settings(
    max_examples=EXAMPLES,
    stateful_step_count=14,
    deadline=None,
    print_blob=True,
    phases=set(Phase) - {Phase.explain},  # which traces every line
    suppress_health_check=list(HealthCheck),
)
TestSchedules = Schedules.TestCase
