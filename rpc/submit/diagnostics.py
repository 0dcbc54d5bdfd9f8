"""Diagnostics of agents: the jobs that they run or remember, and all data on one that has failed."""

from __future__ import annotations

import contextlib
import time
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from network.clock import SystemClock
from network.controller import Controller
from network.errors import NetworkError, PeerLost, TimedOut
from network.nodes import Address, NodeAssignment
from network.request import Request

from ..errors import NodeBusy
from ..liveness.limits import DOWNLOAD_SECONDS, LIST_SECONDS
from ..messages import FROM_AGENT, Examine, Jobs, ListJobs, Operation, operations, parse
from ..support.logs import clean
from .downloads import FILE_OPERATIONS, Download


@dataclass(frozen=True)
class NodeDiagnostics:
    """Diagnostics of one node of the job, from one agent: files, or the `problem` because of which not all have come."""

    node: int
    address: Address
    files: list[Path]
    problem: str = ""


@dataclass
class Diagnostics:
    """Diagnostics of a job.

    Args:
        found: by agent and node.
        unreached: agents that were not heard, by address, and why.
        strangers: agents that know nothing of the job.
        known: the jobs that are known instead, newest last.
    """

    found: list[NodeDiagnostics] = field(default_factory=list)
    unreached: dict[str, str] = field(default_factory=dict)
    strangers: list[str] = field(default_factory=list)
    known: list[str] = field(default_factory=list)


def gather_diagnostics(nodes: NodeAssignment, job: str, directory: Path, key_file: str | Path | None = None) -> Diagnostics:
    """Fetch into folders below `directory` all data that the agents of `nodes` have on `job`, whichever of its nodes they were.

    An agent that cannot be reached, is lost, or is silent for a minute is named in the result and left out.

    Args:
        nodes: addresses of the agents.
        job: id of the job.
        directory: the folders come below it.
        key_file: file of the cluster's key; default: as for `network.Request`.

    Raises: KeyFileError, OSError when the directory cannot be written.
    """
    com, errors = Request(key_file).reach(nodes)
    with com:
        gathered = Diagnostics()
        for place, error in errors.items():
            gathered.unreached[str(nodes[place])] = clean(str(error))
        _Gatherer(com, nodes, job, directory, gathered).run()
    return gathered


class _Gatherer:
    """Gatherer that asks every agent for its jobs, then for one node of the job after the other."""

    def __init__(self, com: Controller, nodes: NodeAssignment, job: str, directory: Path, gathered: Diagnostics) -> None:
        self._com, self._nodes, self._job, self._directory = com, nodes, job, directory
        self._gathered = gathered

    def run(self) -> None:
        asked = self._com.available_clients
        for place in asked:  # all at once, so that a slow one does not delay the others
            with contextlib.suppress(NetworkError):  # seen below
                self._com.send_one(place, ListJobs().to_value())
        for place in asked:
            try:
                nodes = self._jobs(place)
                for node in nodes:
                    self._gathered.found.append(self._fetch(place, node))
            except NetworkError as error:
                self._gathered.unreached[str(self._nodes[place])] = clean(str(error))

    def _jobs(self, place: int) -> list[int]:
        # entries are the word of an agent: each field is checked before it is used
        jobs = self._next(place, (Jobs,))
        entries: list[Mapping[str, object]] = list(jobs.entries) if isinstance(jobs, Jobs) else []
        self._gathered.known += [known for entry in entries if isinstance(known := entry.get("job"), str)]
        nodes = {node for entry in entries if entry.get("job") == self._job and isinstance(node := entry.get("node"), int)}
        if not nodes:
            self._gathered.strangers.append(str(self._nodes[place]))
        return sorted(nodes)

    def _fetch(self, place: int, node: int) -> NodeDiagnostics:
        """Fetch the files of one node of the job.

        Raises: NetworkError when the agent is lost, silent, or breaks the rules.
        """
        # by agent and node: an agent may have been several nodes
        folder = self._directory / f"{place}.{node}"
        folder.mkdir(parents=True)
        download = Download(folder, node)
        try:
            self._com.send_one(place, Examine(self._job, node).to_value())
            while not download.done:
                download.take(self._next(place, FILE_OPERATIONS))
        except NetworkError as error:
            download.abandon()
            return NodeDiagnostics(node, self._nodes[place], [], clean(str(error)))
        return NodeDiagnostics(node, self._nodes[place], download.files, clean(download.problem))

    def _next(self, place: int, allowed: Iterable[type[Operation]]) -> Operation:
        """Take the next message of the agent.

        Raises: PeerLost, TimedOut, ProtocolError.
        """
        session = self._com.sessions[place]
        self._com.wait_until(
            lambda: bool(session.inbox) or not session.alive, DOWNLOAD_SECONDS, lambda: f"an answer of {self._nodes[place]}"
        )
        operation = next(operations(session, allowed), None)
        if operation is None:
            raise self._com.loss_of(place)
        return operation


Entry = Mapping[str, Any]


def list_jobs(com: Controller) -> dict[int, list[Entry]]:
    """List the jobs of every agent that answers within five seconds, newest last; see `messages.Jobs`."""
    clock = SystemClock()
    deadline = clock.monotonic() + LIST_SECONDS
    found: dict[int, list[Entry]] = {}
    for node in com.available_clients:
        with contextlib.suppress(NetworkError):  # gone meanwhile
            com.post(node, ListJobs().to_value())
    # an agent that leaves meanwhile is not waited for
    while set(com.available_clients) - found.keys():
        try:
            received = com.get_one(timeout=max(0.0, deadline - clock.monotonic()))
        except PeerLost:
            continue
        except TimedOut:
            break
        if received is not None:
            said = parse(received[1], FROM_AGENT)
            if isinstance(said, Jobs):
                found[received[0]] = list(said.entries)
    return found


def refuse_busy(nodes: NodeAssignment) -> None:
    """Ask the agents of all nodes whether they are free for a job, without a submission, which would leave its trace on those
    that are.

    Args:
        nodes: the nodes.

    Raises: NodeBusy naming the nodes with an agent that is busy, leaves, or cannot be reached; KeyFileError.
    """
    com, errors = Request().reach(nodes)
    with com:
        listed = list_jobs(com)
        slots = {node: session.caps.get("slots") for node, session in com.sessions.items()}
    told = {node: clean(str(error)).rstrip(".") for node, error in errors.items()}
    for node, entries in listed.items():
        running = [entry for entry in entries if entry.get("state") in ("starting", "running")]
        room = slots.get(node)
        # an agent may be that of several nodes of the job, which fit in together or not at all
        needed = sum(nodes[other] == nodes[node] for other in nodes)
        if running and isinstance(room, int) and len(running) + needed > room:
            # the oldest, as an agent that refuses a job names it
            since = time.strftime("%H:%M:%S", time.localtime(running[0].get("started", 0.0)))
            told[node] = f"busy with job '{clean(str(running[0].get('title')))}' since {since}"
    reasons = []
    for reason in dict.fromkeys(told[node] for node in sorted(told)):
        names = [f"Node({node}) at {nodes[node]}" for node in sorted(told) if told[node] == reason]
        reasons.append(f"{', '.join(names)}: {reason}")
    if reasons:
        raise NodeBusy(f"The job was not started: {'; '.join(reasons)}.")


def jobs_known(com: Controller, jobs: Sequence[str]) -> list[set[str]]:
    """Return, for each node of the jobs that an agent knows, the names of the newest files that the job keeps there."""
    known = [entry for entries in list_jobs(com).values() for entry in entries if entry.get("job") in jobs]
    kept = (entry.get("kept") for entry in known)
    # as an agent tells them: anything else than a list of texts is none
    return [{name for name in names if isinstance(name, str)} if isinstance(names, list) else set() for names in kept]
