"""A job process of a simulation: the real rendezvous, training process, exchange, codecs and checkpoints."""

from __future__ import annotations

from collections.abc import Iterable
from pathlib import Path
from typing import TYPE_CHECKING, Any

from network import VERSION
from network.dial import CONNECT_SECONDS
from network.errors import PeerLost, TimedOut
from network.handshake import ClientHandshake, ServerHandshake
from network.keys import Key, Keyring
from parallel_sgd.checkpoint import Resumption, Store
from parallel_sgd.checkpoint.choose import CheckpointOffer, choose
from parallel_sgd.checkpoint.locate import FOLDER, HeldCheckpoints
from parallel_sgd.checkpoint.snapshot import Snapshot
from rpc.errors import ROLLED_BACK
from rpc.job import rendezvous as meet
from rpc.liveness.recorder import Kind, Recorder
from rpc.messages import Asks, CanCommit, Halt, Load, Loaded, Lose, Prepared, Reached
from rpc.support.identity import code_key, peer_key

from .disk import SimDisk
from .greetings import KNOCK, READY, Calls, Door
from .work import DONE, SimWork

if TYPE_CHECKING:
    from .life import Life

_ABORTED = "rpc.errors.JobAborted: "
_MOMENT_SECONDS = 0.25


class SimProcess:
    """From its birth to its report; see the module."""

    def __init__(self, life: Life, order: CanCommit, memory: int, folder: Path, log: str) -> None:
        self.life, self.order, self.folder = life, order, folder
        self.node, self.name, self.agent = order.node, f"J{order.node}", f"A{order.node}"
        self.log = folder / log
        self.log.touch()
        self.out = folder / "out"
        self.out.mkdir(exist_ok=True)
        self.workers = [node for node in order.group if node >= 0] or life.workers
        self._recorder = Recorder(memory, lambda: life.now)
        self._limit: float | None = life.now + order.prepare_limit
        self._door = Door(life, self.name)
        self._calls = Calls(life, self.name)
        self._machine: meet.Rendezvous | None = None
        self._early: list[object] = []  # what happened before it had all it needs
        self._ready: set[int] = set()
        self._left: set[int] = set()
        self._heard_offers: dict[int, list[CheckpointOffer]] = {}
        self._blocks: list[tuple[int, bytes]] = []  # of peers that are faster
        self._stage = "waiting"
        self._work: SimWork | None = None

    # ---- what it hears

    def take(self, source: str, message: Any) -> None:
        life = self.life
        if source == self.agent:
            self._from_agent(message)
        elif message == KNOCK:
            if source == "S":
                ring, name = code_key(life.cluster, self.order.job, self.node), "code"
            else:
                ring, name = self._key(int(source[1:])), "peer"
            self._door.knock(source, ServerHandshake({name: Keyring((ring,))}, "peer", self.name))
        elif isinstance(message, bytes) and source in self._door:
            self._admit(source, self._door.greet(source, message))
        elif isinstance(message, bytes) and source in self._calls:
            self._calls.hear(source, message)
        elif source == "S":
            self._from_submitter(message)
        else:
            self._from_peer(source, int(source[1:]), message)

    def _key(self, peer: int) -> Key:
        return peer_key(self.life.cluster, self.order.job, self.node, peer)

    def _admit(self, source: str, visitor: ServerHandshake | None) -> None:
        if visitor is None or source == "S":
            return
        if visitor.peer_caps.get("attempt") != self.order.attempt:
            self.life.close(self.name, source)  # of an attempt before
        else:
            self._rendezvous(meet.Met(int(source[1:])))

    def _from_agent(self, message: Any) -> None:
        if message == "End":
            self.life.bury(self.name)  # an orphan
        elif isinstance(message, Halt):
            self._leave("stopped", f"{_ABORTED}{message.reason}")
        elif isinstance(message, Lose):
            self.life.close(self.name, f"J{message.node}")
            self._lose(message.node, message.reason)

    def _from_submitter(self, message: Any) -> None:
        if message == "End":
            if self._stage in ("waiting", "asking", "meeting"):
                self._leave("stopped", "The submitter is gone.")
        elif isinstance(message, Load):
            self.life.note("canCommit", self.name)
            self.life.send(self.name, "S", Loaded(VERSION))
            self._stage = "asking"
            self.life.send(self.name, "S", Asks(["data"]))
            self.life.note("preCommit", self.name)
        elif message == "Answers":
            self.life.send(self.name, "S", Prepared())
        elif message == "DoCommit":
            self._meet()

    def _from_peer(self, source: str, peer: int, message: Any) -> None:
        if message == READY and self._calls.forget(source):
            self._rendezvous(meet.Met(peer))
        elif message == "I am READY":
            self._ready.add(peer)
            self._rendezvous(meet.HeardReady(peer))
        elif message in ("End", "Bye"):
            self._calls.forget(source)
            self._door.forget(source)
            if peer not in self._left:
                self._lose(peer, "its connection ended" if message == "End" else "")
            self._left.add(peer)
        elif isinstance(message, list):
            self._heard_offers[peer] = message
            self._agree()
        elif isinstance(message, Snapshot):
            self._train(Resumption(message, True))
        elif self._work is None:
            self._blocks.append((peer, message))
        else:
            self._work.deliver(peer, message)
            self._turn()

    # ---- doCommit

    def _meet(self) -> None:
        life, order = self.life, self.order
        companions = [node for node in life.nodes if node < 0 and node not in order.group]
        self._stage, self._limit = "meeting", None
        self._machine = meet.Rendezvous(self.node, order.group, companions, order.start_limit, life.now)
        for node in [*(peer for peer in order.group if peer < self.node), *companions]:
            peer = f"J{node}"
            if life.actors[peer] is None:
                self._leave("failed", f"rpc.errors.Rejected: {PeerLost(node, f'host{node}', 'cannot connect')}")
                return
            caps = {"node": self.node, "attempt": order.attempt}
            self._calls.call(peer, ClientHandshake(self._key(node), "peer", "peer", peer, caps))
        early, self._early = self._early, []
        for event in [meet.Satisfied(), *early]:
            self._rendezvous(event)

    def _rendezvous(self, event: object) -> None:
        if self._machine is None:
            self._early.append(event)
            return
        for action in self._machine.handle(event, self.life.now):
            if isinstance(action, meet.SayReady):
                self.life.send(self.name, f"J{action.peer}", "I am READY")
                self.life.note("ready", self.name)
            elif isinstance(action, meet.RollBack):
                self._leave("failed", f"network.errors.Rejected: {ROLLED_BACK}: {action.reason}.")
            else:
                self.life.note("ready", self.name)  # a parameter server, which tells nobody
                self._start()

    def _start(self) -> None:
        life = self.life
        life.send(self.name, self.agent, Reached("running", "", []))
        life.close(self.name, "S")
        if self.node >= 0:  # a parameter server begins its one batch later
            self._recorder.note(Kind.STARTED, 0, 0)
        self._stage = "running"
        self._log(f"Attempt {self.order.attempt} begins.")
        if self.order.attempt and self.node >= 0:
            self._stage, self._limit = "agreeing", life.now
            self._holdings = HeldCheckpoints(life.stores_at(self.node, self.order.job))
            for peer in self.order.group:
                if peer != self.node:
                    life.send(self.name, f"J{peer}", list(self._holdings.offers))
            self._agree()
        else:
            self._train(None)

    def _agree(self) -> None:
        """Where to go on, once all have told which checkpoints they hold."""
        others = set(self.order.group) - {self.node}
        if self._stage != "agreeing" or not others <= self._heard_offers.keys():
            return
        choice = choose({self.node: self._holdings.offers, **self._heard_offers}, self.workers, None)
        if choice is None:
            self._train(None)
            return
        for node, source in choice.sources.items():
            if source.holder == self.node and node != self.node:
                self.life.send(self.name, f"J{node}", self._holdings.load(source.owner, choice.position))
        self._log(choice.said)
        own = choice.sources[self.node]
        if own.holder == self.node:
            self.store().cut(choice.position)
            self._train(Resumption(self._holdings.load(own.owner, choice.position), choice.whole))

    # ---- training

    def store(self) -> Store:
        """Its checkpoints."""
        return Store(self.folder / FOLDER, self.order.job, disk=SimDisk(self.life, self.name))

    def _train(self, resumption: Resumption | None) -> None:
        if self._work is not None:
            return
        self._stage = "training"
        self._work = SimWork(self, self._recorder, resumption)
        blocks, self._blocks = self._blocks, []
        for peer, frames in blocks:
            self._work.deliver(peer, frames)
        self._turn()

    def _turn(self) -> None:
        told = self._work.turn() if self._work is not None else ""
        if told == DONE:
            self._done()
        elif told:
            self._leave("failed", told)

    def _lose(self, peer: int, reason: str) -> None:
        """A peer is gone, with a farewell where there is no reason."""
        if self._stage in ("running", "agreeing", "training"):
            if self.node < 0:
                self._turn()  # the server leaves with its workers
            elif reason and peer in {*self.order.group, *(node for node in self.life.nodes if node < 0)}:
                self._leave("failed", f"Traceback\nnetwork.errors.PeerLost: {PeerLost(peer, f'host{peer}', reason)}")
        elif peer not in self._ready:
            self._rendezvous(meet.PeerGone(peer, reason or "it left"))

    # ---- the end

    def _done(self) -> None:
        self.life.note("done", self.name)
        files = []
        if self.node >= 0 and self._work is not None and not self.life.is_struck(self.name):
            self._work.model.save(self.out / f"MODEL-{self.node}.model")
            files = [f"MODEL-{self.node}.model"]
        self._leave("done", "", files)

    def _leave(self, state: str, detail: str, files: Iterable[str] = ()) -> None:
        """Save what can be saved, report, say farewell after a good end, and exit."""
        life = self.life
        if self._work is not None:
            self._work.close()
        self._log(f"The end: {state}. {detail}")
        life.send(self.name, self.agent, Reached(state, detail, list(files)))
        if state == "done":
            for node in life.nodes:
                life.send(self.name, f"J{node}", "Bye")
        if not life.is_struck(self.name):
            life.bury(self.name)

    def _log(self, line: str) -> None:
        if not self.life.is_struck(self.name):
            with open(self.log, "a", encoding="utf-8") as file:
                file.write(f"{self.life.now:.3f} {line}\n")

    def close(self) -> None:
        """It ends without a word; what is left of it is let go of by `forget`, when nobody can mistake that for its doing."""
        self.dead = True

    dead = False

    def forget(self) -> None:
        if self._work is not None:
            self._work.close()
        self._recorder.close()

    # ---- time

    @property
    def deadline(self) -> float | None:
        if self._stage == "meeting" and self._machine is not None:
            return min(self._machine.deadline, self._calls.deadline or self._machine.deadline)
        return self._work.deadline if self._work is not None else self._limit

    def tick(self) -> None:
        late = self._calls.late()
        if self._stage == "meeting" and late:
            peer = late[0][1:]
            self._leave("failed", str(TimedOut(f"node {peer} at host{peer} to answer", CONNECT_SECONDS)))
        elif self._stage == "meeting":
            self._rendezvous(meet.Tick())
        elif self._work is not None:
            self._work.show()
            self._turn()
        elif self._stage == "agreeing":  # it waits for the others, and shows it
            self._recorder.waits()
            self._limit = self.life.now + _MOMENT_SECONDS
        elif self._limit is not None and self.life.now >= self._limit:
            self._leave("failed", "network.errors.TimedOut: nothing came in time")
