"""The whole life of a training job, in memory and on a virtual clock: agents that listen, a submitter that connects, proves its
key, submits, watches, starts again and fetches files, and job processes that meet, train, save and report.

What decides is the product: handshakes, `Submission`, `JobStateMachine`, `Rendezvous`, `ProcessMonitor`, `ClusterMonitor`,
`Recovery`, the training processes with their exchange and codecs, checkpoint stores, `JobFolders`, `send_files` and
`Downloads`. What stands here are the wires between them: what `coordinator.py`, `agent/*.py` and `job/process.py` do with
sockets and processes.

Actors are named `S` (the submitter), `A0`, `A1`... (agents) and `J0`, `J1`... (job processes); the parameter server's are `A-2`
and `J-2`. Actors `note` the phases that they come to; `inject` makes something happen at such a moment.
"""

from __future__ import annotations

import random
from collections.abc import Callable
from functools import partial
from pathlib import Path
from typing import Any

from network.keys import Key
from network.testing import VirtualClock
from parallel_sgd.checkpoint import Store
from parallel_sgd.checkpoint.locate import stores_of
from tests.rpc.net import Net

from .agents import SimAgent
from .submitting import SimSubmitter

CLUSTER = Key(b"c" * 32)
REVIVAL_SECONDS = 5.0  # until somebody starts an agent again that was killed
WAKING_SECONDS = 20.0  # until somebody sends SIGCONT
TICK_SECONDS = 0.001
MOST_STEPS = 20_000
KILL, STOP, PAUSE = "kill", "stop", "pause"
PAUSE_SECONDS = {"S": 20.0, "A": 1.4, "J": 2.9}  # shorter than anybody may be silent: a beat is due each second
_KILLED = ("killed by signal 9 (SIGKILL)", -9)


class Life(Net):
    """One cluster and the jobs on it; `policy` is `on_failure` of all of them.

    `fired` are the faults that have happened, `trace` who heard what from whom and when.
    """

    def __init__(self, directory: Path, *, workers: int = 3, server: bool = False, policy: str = "restart") -> None:
        self.nodes = [*range(workers), *([-2] if server else [])]
        super().__init__(["S", *(f"A{node}" for node in self.nodes), *(f"J{node}" for node in self.nodes)])
        self.directory = directory
        self.policy = policy
        self.cluster = CLUSTER
        self.clock = VirtualClock()
        self.workers = list(range(workers))  # of the attempt that began last
        self.ends = dict.fromkeys(self.actors, ("exit code 0", 0))  # how each job process has ended
        self.fired: list[tuple[str, str, str]] = []
        self.trace: list[tuple[float, str, str, str]] = []
        self.held: set[tuple[str, str]] = set()  # directions in which nothing gets through, until they are let go
        self._plan: dict[tuple[str, str], tuple[str, str]] = {}
        self._struck: dict[str, str] = {}  # actors to which something happens as soon as this step is over
        self._timers: list[tuple[float, Callable[[], None]]] = []
        self._graves: list[Any] = []  # a dead process does nothing more, not even clean up

    @property
    def now(self) -> float:
        return self.clock.monotonic()

    # ---- what happens to whom

    def inject(self, phase: str, witness: str, victim: str, how: str) -> None:
        """When `witness` comes to `phase`, `victim` is killed, stopped, or stopped for less than anybody's patience."""
        self._plan[phase, witness] = (victim, how)

    def note(self, phase: str, who: str) -> None:
        """An actor has come to a phase of the job."""
        victim, how = self._plan.get((phase, who), ("", ""))
        if victim and self.actors[victim] is not None:
            del self._plan[phase, who]
            self.fired.append((phase, victim, how))
            self._struck[victim] = how

    def is_struck(self, name: str) -> bool:
        """Whether the actor is as good as dead: nothing that it does leaves it."""
        return self._struck.get(name) == KILL

    def strike(self, victim: str, how: str) -> None:
        """Kill or stop an actor now."""
        self._struck[victim] = how
        self._happen()

    def _happen(self) -> None:
        while self._struck:
            victim, how = self._struck.popitem()
            if self.actors[victim] is None:
                continue
            if how in (STOP, PAUSE):
                orphan = victim[0] == "J" and not self.open[victim, f"A{victim[1:]}"]
                self.hung[victim] = not orphan  # that one is ending already
                if how == PAUSE or victim[0] != "J":  # of a stopped job process its agent takes care
                    seconds = PAUSE_SECONDS[victim[0]] if how == PAUSE else WAKING_SECONDS
                    self.later(seconds, partial(self.wake, victim))
                continue
            self.ends[victim] = _KILLED
            self.bury(victim)
            if victim[0] == "A":
                self.later(REVIVAL_SECONDS, partial(self.revive, victim))

    def bury(self, name: str) -> None:
        """The actor ends, without a word."""
        actor = self.actors[name]
        actor.close()
        self._graves.append(actor)
        self.die(name)
        if name[0] == "A":
            self.hung[f"J{name[1:]}"] = False  # the system wakes an orphan

    def hold(self, one: str, other: str) -> None:
        """A network that swallows everything between the two, and no end of the connection either, for a while."""
        pairs = {(one, other), (other, one)}
        self.held |= pairs
        self.later(WAKING_SECONDS, lambda: self.held.difference_update(pairs))

    def choices(self) -> list[tuple[str, str]]:
        return [pair for pair in super().choices() if pair not in self.held]

    def wake(self, name: str) -> None:
        """SIGCONT."""
        self.hung[name] = False

    def revive(self, name: str) -> None:
        """Somebody starts the agent again."""
        if self.actors[name] is None:
            self.actors[name] = SimAgent(self, int(name[1:]))

    @property
    def agents(self) -> list[SimAgent]:
        """Those that live and are awake."""
        return [actor for name, actor in self.actors.items() if isinstance(actor, SimAgent) and not self.hung[name]]

    def later(self, seconds: float, act: Callable[[], None]) -> None:
        self._timers.append((self.now + seconds, act))

    # ---- jobs

    def start(self) -> None:
        """Agents listen on all hosts."""
        for node in self.nodes:
            self.revive(f"A{node}")
            self.note("listen", f"A{node}")
            self._happen()

    def submit(self, job: str) -> SimSubmitter:
        """Somebody submits a job; run on to see what becomes of it."""
        submitter = self.actors["S"] = SimSubmitter(self, job)
        submitter.begin()
        self._happen()
        return submitter

    # ---- time and messages

    def send(self, source: str, target: str, *message: Any) -> None:
        if not self.is_struck(source):
            super().send(source, target, *message)

    def arrive(self, source: str, target: str, *message: Any) -> None:
        (what,) = message
        self.trace.append((self.now, source, target, what if isinstance(what, str) else type(what).__name__))
        self.actors[target].take(source, what)
        self._happen()

    def step(self, draw: random.Random | None = None) -> bool:
        """Deliver one message, in the order that `draw` chooses (None: the oldest connection first), or let time pass to the
        next moment for which anybody waits; False when nothing moves any more."""
        choices = self.choices()
        if choices:
            self.deliver(draw.choice(choices) if draw else choices[0])
            return True
        return self._advance()

    def run(self, draw: random.Random | None = None, until: Callable[[], bool] = lambda: False) -> None:
        for _ in range(MOST_STEPS):
            if until() or not self.step(draw):
                return
        raise AssertionError(f"no end after {MOST_STEPS} steps, at {self.now:g} s; last: {self.trace[-20:]}")

    def _advance(self) -> bool:
        due = {name: actor.deadline for name, actor in self.actors.items() if actor is not None and not self.hung[name]}
        moments = [moment for moment, _ in self._timers] + [moment for moment in due.values() if moment is not None]
        if not moments:
            return False
        # limits are strict: who looks at the very moment of one sees nothing yet
        self.clock.advance_to(min(moments) if min(moments) > self.now else self.now + TICK_SECONDS)
        ripe = [act for moment, act in self._timers if moment <= self.now]
        self._timers = [timer for timer in self._timers if timer[0] > self.now]
        for act in ripe:
            act()
        for name, moment in due.items():
            actor = self.actors[name]
            if actor is not None and moment is not None and moment <= self.now and not self.hung[name]:
                actor.tick()
                self._happen()
        return True

    def end(self) -> None:
        """Let go of what the actors hold."""
        for name, actor in self.actors.items():
            if actor is not None:
                self._struck[name] = KILL
                actor.close()
                self._graves.append(actor)
        for actor in self._graves:
            actor.forget()

    # ---- what job processes find

    def stores_at(self, node: int, job: str) -> list[Store]:
        """The checkpoints of a job on the disk of a host."""
        return stores_of(self.directory / f"A{node}", job)
