"""Follower of a cluster: the state of its agents, the jobs they run, and the tables of one job while it goes on."""

from __future__ import annotations

import math
import time
from collections import deque
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, Final

from network import VERSION
from network.errors import NetworkError, ProtocolError
from network.nodes import NodeAssignment
from network.request import Request
from network.session import Session
from network.transport import wait_sockets

from ..messages import (
    FROM_AGENT,
    AgentStatus,
    Inspect,
    Jobs,
    ListJobs,
    Notice,
    Operation,
    Progress,
    Remark,
    State,
    Subscribe,
    Tail,
    Tailed,
    Verdict,
    operations,
)
from ..support.files import is_safe_name
from ..support.logs import clean
from .run_folder import node_folder

ANSWER_SECONDS: Final = 2.0
AGAIN_SECONDS: Final = 5.0  # between two calls of an agent that was not reached
_LINES: Final = 80
_RUNNING: Final = ("starting", "running")
Entry = Mapping[str, Any]
Samples = Mapping[str, Sequence[int]]
"""Bytes and parts by kind of table, as `Tail` asks for them."""


@dataclass
class Agent:
    """Agent under the address by which it is called; `problem` says why nothing is known of it."""

    address: str
    problem: str = "not called yet"
    status: AgentStatus | None = None
    jobs: list[Entry] = field(default_factory=list)


class Follower:
    """Follower of the agents of `nodes` over sessions of its own, whenever `look` is called: their work does not wait for that.

    Attributes: `agents` by node; `job`, with the id "" before there is one; `progress`, for each of its nodes its percent and
    note; `notices`, messages of the failure detector and the agents about it.

    Args:
        nodes: places of the agents.
        folder: gets samples of the job's tables at its nodes, their events, and the ends of their logs; another job begins with
            an empty folder.
        job: id of the job, "" for the newest that runs.
        samples: returns how large the samples are for that number of nodes.
    """

    def __init__(self, nodes: NodeAssignment, folder: Path, job: str, samples: Callable[[int], Samples]) -> None:
        self._nodes, self._folder, self._fixed, self._samples = nodes, folder, bool(job), samples
        self.job = job
        self.agents = {node: Agent(str(address)) for node, address in nodes.items()}
        self.progress: dict[int, tuple[int, str]] = {}
        self.notices: deque[str] = deque(maxlen=_LINES)
        self._sessions: dict[int, Session] = {}
        # so long ago that the first look calls at once
        self._called = -AGAIN_SECONDS
        self._places: dict[int, dict[str, list[int]]] = {}
        self._subscribed: set[Session] = set()
        self._awaited: set[tuple[int, type[Operation]]] = set()

    @property
    def entries(self) -> list[Entry]:
        """Jobs that the agents know, each node of the newest attempt at a job once, in their order, the newest job last."""
        return [entry for _, entry in self.held()]

    def held(self) -> list[tuple[int, Entry]]:
        """List the entries with the node by which each one's agent is called: a later attempt may have numbered the nodes of
        a job anew.
        """
        found: dict[tuple[str, int], tuple[int, Entry]] = {}
        began: dict[str, float] = {}
        newest: dict[str, int] = {}
        for node, agent in self.agents.items():
            for entry in agent.jobs:
                job, place = entry["job"], (entry["job"], entry["node"])
                began[job] = min(entry["started"], began.get(job, math.inf))
                newest[job] = max(entry["attempt"], newest.get(job, 0))
                # several agents may remember one node, from attempts before
                if place not in found or entry["attempt"] > found[place][1]["attempt"]:
                    found[place] = node, entry
        current = [(node, entry) for node, entry in found.values() if entry["attempt"] == newest[entry["job"]]]
        return sorted(current, key=lambda one: (began[one[1]["job"]], one[1]["job"], one[1]["node"] < 0, one[1]["node"]))

    def look(self) -> None:
        """Ask all agents, and take the answers that come within two seconds.

        Raises: KeyFileError.
        """
        self._call()
        self._ask_all(Inspect())
        self._ask_all(ListJobs())
        # before the choice: it needs the lists of jobs
        self._listen()
        if not self._fixed:
            self._choose()
        self._ask_for_job()
        self._listen()

    def close(self) -> None:
        for session in self._sessions.values():
            session.close()
        self._sessions.clear()

    def _call(self) -> None:
        """Call the agents without a session, all at once."""
        for node, session in list(self._sessions.items()):
            if not session.alive:
                self._lose(node, str(session.lost or "it has hung up"))
        missing = [node for node in self.agents if node not in self._sessions]
        # a silent host costs the whole time-out of each call
        if not missing or time.monotonic() - self._called < AGAIN_SECONDS:
            return
        wanted = NodeAssignment(self._nodes.key_file)
        for node in missing:
            wanted.add(node, self._nodes[node])
        sessions, errors, _ = Request().call(wanted, ANSWER_SECONDS)
        self._called = time.monotonic()
        self._sessions |= sessions
        for node, session in sessions.items():
            self.agents[node].problem = ""
            if (version := str(session.caps.get("version", ""))) != VERSION:  # it may not know the question
                self._lose(node, f"it runs version {clean(version)}, this is {VERSION}")
        for node, error in errors.items():
            self.agents[node].problem = clean(str(error))

    def _lose(self, node: int, problem: str) -> None:
        self._subscribed.discard(session := self._sessions.pop(node))
        session.close()
        self.agents[node] = Agent(self.agents[node].address, clean(problem))

    def _ask_all(self, operation: Operation) -> None:
        for node in list(self._sessions):
            self._ask(node, operation)

    def _ask(self, node: int, operation: Operation) -> None:
        try:
            self._sessions[node].queue(operation.to_value())
        except NetworkError as error:
            self._lose(node, str(error))
            return
        answer = {Inspect: AgentStatus, ListJobs: Jobs, Tail: Tailed}.get(type(operation))
        if answer is not None:
            self._awaited.add((node, answer))

    def _ask_for_job(self) -> None:
        for node, session in list(self._sessions.items()):
            # once for each session: a subscription lasts as long as it does
            if session not in self._subscribed and any(entry["job"] == self.job for entry in self.agents[node].jobs):
                self._subscribed.add(session)
                self._ask(node, Subscribe(self.job))
        held = [(node, entry["node"]) for node, entry in self.held() if entry["job"] == self.job]
        samples = {kind: [*one] for kind, one in self._samples(len(held)).items()}
        for node, place in held:
            if node in self._sessions:
                self._ask(node, Tail(self.job, place, self._places.setdefault(place, {}), samples))

    def _choose(self) -> None:
        """Follow the newest job that runs; where none does, the newest, which may have ended between two looks."""
        running = [entry for entry in self.entries if entry["state"] in _RUNNING]
        newest = next((entry["job"] for entry in reversed(running or self.entries)), self.job)
        # a job that runs is followed to its end, also if a newer one begins
        if newest != self.job and not any(entry["job"] == self.job for entry in running):
            self.job = newest
            self._places.clear()
            self.progress.clear()
            self.notices.clear()
            self._subscribed.clear()
            for path in self._folder.glob("Node-*-Retrieve/*"):
                path.unlink(missing_ok=True)

    def _listen(self) -> None:
        deadline = time.monotonic() + ANSWER_SECONDS
        while True:
            for node, session in list(self._sessions.items()):
                try:
                    for said in operations(session, FROM_AGENT):
                        self._take(node, said)
                except NetworkError as error:
                    self._lose(node, str(error))
                if node in self._sessions and not session.alive:
                    self._lose(node, str(session.lost))
            # answers of lost agents do not come any more
            self._awaited = {(node, answer) for node, answer in self._awaited if node in self._sessions}
            left = deadline - time.monotonic()
            if not self._awaited or left <= 0:
                break
            links = [session.link for session in self._sessions.values()]
            sending = [session.link for session in self._sessions.values() if session.pending_bytes]
            wait_sockets(links, sending, left)  # type: ignore[arg-type]
        # late, not lost: the answer may come with the next look
        for node, _ in self._awaited:
            self.agents[node].problem = f"it has not answered for {ANSWER_SECONDS:g} s"
        self._awaited.clear()

    def _take(self, node: int, said: Operation) -> None:
        agent = self.agents[node]
        agent.problem = ""
        self._awaited.discard((node, type(said)))
        if isinstance(said, AgentStatus):
            agent.status = said
        elif isinstance(said, Jobs):
            agent.jobs = [entry for entry in said.entries if _ENTRY.keys() <= entry.keys() and _is_entry(entry)]
        elif isinstance(said, Tailed):
            self._keep(said)
        elif isinstance(said, Progress) and said.job == self.job:
            self.progress[said.node] = said.percent, clean(said.note)
        elif isinstance(said, Remark) and said.job == self.job:
            self.notices.append(f"Node({said.node}): {clean(said.text)}")
        elif isinstance(said, (Notice, Verdict)) and said.job == self.job:
            self.notices.append(clean(said.describe(), 2000))
        elif isinstance(said, State) and said.job == self.job and said.detail:
            self.notices.append(f"Node({said.node}) {said.state}: {clean(said.detail, 2000)}")

    def _keep(self, said: Tailed) -> None:
        """Write the new bytes of a node's log, and the samples of its tables in place of the ones before.

        Raises: ProtocolError for names and places that make no sense.
        """
        if said.job != self.job:  # of the one before
            return
        folder = self._folder / node_folder(said.node)
        if said.data.keys() != said.places.keys():
            raise ProtocolError("It sends other files than it was asked for.")
        known = self._places.setdefault(said.node, {})
        for name, data in said.data.items():
            number, at = said.places[name]
            # the agent chooses the name, and this program writes below it
            if not is_safe_name(name) or not name.endswith((".log", ".csv", ".jsonl")):
                raise ProtocolError(f"It sends {clean(name, 80)}, which was not asked for.")
            # logs grow; a sample stands for the whole table, so it replaces the one before
            goes_on = name.endswith(".log") and known.get(name, [number, 0]) == [number, at]
            folder.mkdir(exist_ok=True)
            with (folder / name).open("ab" if goes_on else "wb") as file:
                file.write(data)
            known[name] = [number, at + len(data)]


_ENTRY: Final[Mapping[str, type | tuple[type, ...]]] = {
    "job": str, "title": str, "node": int, "state": str, "started": (int, float), "attempt": int, "driver": str, "outcome": str,
}  # fmt: skip


def _is_entry(entry: Entry) -> bool:
    return all(isinstance(entry[name], kind) for name, kind in _ENTRY.items())
