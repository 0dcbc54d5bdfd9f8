"""A whole submission on virtual time: the real Submission, JobStateMachine and Rendezvous machines, wired by first-in-first-out
connections in memory. Whoever drives it chooses which connection delivers next, and where somebody dies.

Actors are named `S` (the submitter), `A0`, `A1`... (agents) and `J0`, `J1`... (job processes). What an actor does beside
its machine is a few lines here: what `coordinator.py`, `agent/run.py` and `job/process.py` do with sockets and processes.
"""

from __future__ import annotations

import io
import pickle
import random
from dataclasses import dataclass, field
from typing import Any

from rpc.agent import job_state
from rpc.job import rendezvous as meet
from rpc.submit import submission as sub
from rpc.submit.submission import Phase

from .net import Net

START_LIMIT = 60.0
PRE_COMMIT_LIMIT = 11.0
FREE_SECONDS = 2.0


@dataclass
class Submitter:
    """`machine`, and what the program knows in the end: `verdict`, and when."""

    machine: sub.Submission
    failed_at: float | None = None
    verdict: str = ""
    verdict_at: float = 0.0


@dataclass
class Agent:
    """`slot` of the running job, `busy` with a job of somebody else; `told` are the states of its job, in order."""

    busy: bool = False
    slot: job_state.JobStateMachine | None = None
    told: list[str] = field(default_factory=list)
    freed_at: float = 0.0


@dataclass
class Process:
    """A job process: its rendezvous once it has all it needs, and how far its work is."""

    stage: str = "waiting"
    deadline: float | None = None
    machine: meet.Rendezvous | None = None
    early: list[Any] = field(default_factory=list)  # events for the rendezvous before it exists
    worked: set[int] = field(default_factory=set)  # peers whose part of the work is here


class World(Net):
    """See the module. `nodes`, and those whose agent is `busy`."""

    def __init__(self, nodes: int, busy: tuple[int, ...] = (), start_limit: float = START_LIMIT) -> None:
        self.now = 0.0
        self.nodes = nodes
        self.start_limit = start_limit
        names = ["S", *(f"A{i}" for i in range(nodes)), *(f"J{i}" for i in range(nodes))]
        super().__init__(names)
        for i in range(nodes):
            self.actors[f"A{i}"] = Agent(i in busy)
        self.submit()

    def submit(self) -> None:
        """A submitter connects with all agents and begins."""
        self.last: Submitter | None = None  # it, when it has left by itself
        self.prepared: set[int] = set()  # job processes that had all they need, that started, that finished their work
        self.started: set[int] = set()
        self.finished: set[int] = set()
        names = {i: f"Node({i})" for i in range(self.nodes)}
        self.actors["S"] = Submitter(sub.Submission(range(self.nodes), names, self.start_limit))
        for i in range(self.nodes):
            if self.actors[f"A{i}"] is not None:
                self.connect("S", f"A{i}")
        self.feed_submitter(sub.Started())

    def arrive(self, source: str, target: str, *message: Any) -> None:
        """What an actor makes of a message."""
        actor = self.actors[target]
        if isinstance(actor, Submitter):
            self.at_submitter(source, *message)
        elif isinstance(actor, Agent):
            self.at_agent(int(target[1:]), actor, source, *message)
        else:
            self.at_process(int(target[1:]), actor, source, *message)

    # ---- the submitter

    def at_submitter(self, source: str, what: str, *rest: Any) -> None:
        if what == "Dispatch":
            self.feed_submitter(sub.Dispatched(PRE_COMMIT_LIMIT))
            return
        node = int(source[1:])
        if what == "State":
            self.feed_submitter(sub.IsRunning(node) if rest[0] == "running" else sub.HasEnded(node, *rest))
        elif what == "End":
            if source[0] == "A":  # a job process that hangs up is its agent's business
                self.feed_submitter(sub.IsLost(node, "the connection broke"))
        else:
            event = {
                "Accepted": sub.HasAccepted(node),
                "Refused": sub.HasRefused(node, "busy"),
                "Loaded": sub.HasLoaded(node),
                "Asks": sub.HasAsked(node, ("data",)),
                "Prepared": sub.HasPrepared(node),
            }[what]
            self.feed_submitter(event)

    def feed_submitter(self, event: Any) -> None:
        submitter = self.actors["S"]
        machine, before = submitter.machine, submitter.machine.phase
        for action in machine.handle(event, self.now):
            if isinstance(action, sub.AskCanCommit):
                self.send("S", f"A{action.node}", "CanCommit")
            elif isinstance(action, sub.SendAbort):
                self.send("S", f"A{action.node}", "Abort", action.reason)
            elif isinstance(action, sub.Answer):
                self.send("S", f"J{action.node}", "Answers")
            elif isinstance(action, sub.SendDoCommit):
                self.send("S", f"J{action.node}", "DoCommit")
            elif self.actors[f"J{action.node}"] is not None and self.actors[f"A{action.node}"] is not None:
                self.connect("S", f"J{action.node}")
                self.send("S", f"J{action.node}", "Load")
            else:
                self.feed_submitter(sub.IsLost(action.node, "its job process cannot be reached"))
        if machine.phase is Phase.LOADED and before is Phase.CAN_COMMIT:
            self.wires["S", "S"].append(("Dispatch",))  # the program goes on in its own time
        if machine.phase is Phase.FAILED and submitter.failed_at is None:
            submitter.failed_at = self.now
        if self.actors["S"] is submitter:
            self.maybe_leave(submitter)

    def maybe_leave(self, submitter: Submitter) -> None:
        machine, failed_at = submitter.machine, submitter.failed_at
        gave_up = failed_at is not None and (machine.all_free or self.now >= failed_at + FREE_SECONDS)
        if gave_up or machine.phase is Phase.ENDED:
            submitter.verdict = f"failed: {machine.reason}" if gave_up else "ended"
            submitter.verdict_at = self.now
            self.die("S")
            self.last = submitter

    # ---- agents

    def at_agent(self, node: int, agent: Agent, source: str, what: str, *rest: Any) -> None:
        if what == "CanCommit":
            if agent.busy or agent.slot is not None:
                self.send(f"A{node}", "S", "Refused")
                return
            agent.slot, agent.told = job_state.JobStateMachine(self.start_limit, self.now), []
            self.actors[f"J{node}"] = Process(deadline=self.now + self.start_limit)
            self.connect(f"A{node}", f"J{node}")
            self.send(f"A{node}", "S", "Accepted")
        elif agent.slot is not None:
            if what == "Reached":
                event: Any = job_state.Reported(*rest)
            elif what == "End":
                event = job_state.SubmitterGone() if source == "S" else job_state.ProcessGone("it died")
            else:
                event = job_state.AbortAsked(rest[0])
            self.feed_slot(node, agent, event)

    def feed_slot(self, node: int, agent: Agent, event: Any) -> None:
        if agent.slot is None:
            return
        for action in agent.slot.handle(event, self.now):
            if isinstance(action, job_state.Kill):
                self.die(f"J{node}")
            elif isinstance(action, job_state.OrderHalt):
                self.send(f"A{node}", f"J{node}", "Halt")
            elif isinstance(action, job_state.Tell):
                agent.told.append(action.state)
                self.send(f"A{node}", "S", "State", action.state, action.detail)
            else:
                agent.slot, agent.freed_at = None, self.now

    # ---- job processes

    def at_process(self, node: int, process: Process, source: str, what: str, *rest: Any) -> None:
        me = f"J{node}"
        if what == "End" and source[0] == "A":
            self.die(me)  # an orphan
        elif what == "Halt":
            self.leave(node, "stopped", "it was told to")
        elif source == "S":
            self.from_submitter(node, process, what)
        else:
            peer = int(source[1:])
            if what == "Hello":
                self.send(me, source, "Welcome")
            if what in ("Hello", "Welcome"):
                self.feed_rendezvous(node, process, meet.Met(peer))
            elif what == "Ready":
                self.feed_rendezvous(node, process, meet.HeardReady(peer))
            elif what == "Work":
                process.worked.add(peer)
                self.work_on(node, process)
            elif process.stage == "working" and peer not in process.worked:  # a farewell or the end of the connection
                self.leave(node, "failed", f"node {peer} is lost")
            elif what == "End":
                self.feed_rendezvous(node, process, meet.PeerGone(peer, "the connection broke"))

    def from_submitter(self, node: int, process: Process, what: str) -> None:
        if what == "End":
            if process.stage != "working":
                self.leave(node, "stopped", "the submitter is gone")
            return
        if what == "Load":
            self.send(f"J{node}", "S", "Loaded")
            process.stage, process.deadline = "asking", self.now + self.start_limit
            self.send(f"J{node}", "S", "Asks")  # also where it asks for nothing: none starts before the dispatch
        elif what == "Answers":
            self.prepared.add(node)
            self.send(f"J{node}", "S", "Prepared")
        else:
            self.begin_rendezvous(node, process)

    def begin_rendezvous(self, node: int, process: Process) -> None:
        me = f"J{node}"
        process.stage, process.deadline = "meeting", None
        process.machine = meet.Rendezvous(node, range(self.nodes), (), self.start_limit, self.now)
        for peer in range(node):  # the higher id calls the lower one
            if self.actors[f"J{peer}"] is None:
                self.leave(node, "failed", f"node {peer} cannot be reached")
                return
            self.connect(me, f"J{peer}")
            self.send(me, f"J{peer}", "Hello")
        early, process.early = process.early, []
        for event in [meet.Satisfied(), *early]:
            self.feed_rendezvous(node, process, event)

    def feed_rendezvous(self, node: int, process: Process, event: Any) -> None:
        if process.machine is None:
            process.early.append(event)
            return
        for action in process.machine.handle(event, self.now):
            if isinstance(action, meet.SayReady):
                self.send(f"J{node}", f"J{action.peer}", "Ready")
            elif isinstance(action, meet.RollBack):
                self.leave(node, "failed", action.reason)
            else:
                process.stage = "working"
                self.started.add(node)
                self.send(f"J{node}", f"A{node}", "Reached", "running")
                self.close(f"J{node}", "S")
                for peer in range(self.nodes):
                    if peer != node:
                        self.send(f"J{node}", f"J{peer}", "Work")
                self.work_on(node, process)

    def work_on(self, node: int, process: Process) -> None:
        if process.stage == "working" and len(process.worked) == self.nodes - 1:
            self.finished.add(node)
            self.leave(node, "done", "")

    def leave(self, node: int, state: str, detail: str) -> None:
        """Report the outcome, say farewell to the peers, and exit."""
        me = f"J{node}"
        self.send(me, f"A{node}", "Reached", state, detail)
        for peer in range(self.nodes):
            self.send(me, f"J{peer}", "Bye")
        self.die(me)

    # ---- time

    def advance(self) -> bool:
        """Let time pass to the next deadline and tell those who wait for it; False when nobody waits."""
        deadlines = self.deadlines()
        if not deadlines:
            return False
        self.now = max(self.now, min(deadlines.values()))
        for name, deadline in deadlines.items():
            if deadline <= self.now and self.actors[name] is not None:
                self.tick(name, self.actors[name])
        return True

    def deadlines(self) -> dict[str, float]:
        found: dict[str, float | None] = {}
        for name, actor in self.actors.items():
            if actor is None or self.hung[name]:
                continue
            if isinstance(actor, Submitter):
                found[name] = actor.machine.deadline if actor.failed_at is None else actor.failed_at + FREE_SECONDS
            elif isinstance(actor, Agent):
                found[name] = actor.slot.deadline if actor.slot else None
            else:
                found[name] = actor.machine.deadline if actor.stage == "meeting" and actor.machine else actor.deadline
        return {name: deadline for name, deadline in found.items() if deadline is not None}

    def tick(self, name: str, actor: Any) -> None:
        if isinstance(actor, Submitter):
            self.feed_submitter(sub.Tick())
        elif isinstance(actor, Agent):
            self.feed_slot(int(name[1:]), actor, job_state.Tick())
        elif actor.stage == "meeting":
            self.feed_rendezvous(int(name[1:]), actor, meet.Tick())
        elif actor.deadline is not None and self.now >= actor.deadline:
            self.leave(int(name[1:]), "failed", "nothing came in time")

    # ---- for those who enumerate

    def run(self, draw: random.Random | None = None) -> int:
        """Deliver everything, in the order that `draw` chooses (None: the oldest connection first), and let time pass
        while anybody waits; returns the number of deliveries."""
        count = 0
        while True:
            choices = self.choices()
            if choices:
                count += 1
                self.deliver(draw.choice(choices) if draw else choices[0])
            elif not self.advance():
                return count

    def losses(self) -> list[tuple[str, ...]]:
        """Everything that can be lost now: actors, and connections."""
        alive = [(name,) for name, actor in self.actors.items() if actor is not None]
        return alive + [pair for pair, is_open in self.open.items() if is_open and pair[0] < pair[1]]

    def lose(self, *what: str) -> None:
        """One of `losses` happens."""
        if len(what) == 1:
            self.die(*what)
        else:
            self.cut(*what)

    def frozen(self) -> bytes:
        """This state, for `thaw`; equal for states with the same future (histories do not count)."""
        for actor in self.actors.values():
            for machine in (getattr(actor, "machine", None), getattr(actor, "slot", None)):
                if machine is not None:
                    machine._history.clear()
        buffer = io.BytesIO()
        pickler = pickle.Pickler(buffer, pickle.HIGHEST_PROTOCOL)
        pickler.fast = True  # no memo: which equal objects are identical makes no difference
        pickler.dump(self)
        return buffer.getvalue()


def thaw(frozen: bytes) -> World:
    """The world of that moment."""
    return pickle.loads(frozen)
