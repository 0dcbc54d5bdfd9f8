"""Examination for `psgd doctor`: call every agent, ask its state, let them measure the ways to each other, and print
it.
"""

from __future__ import annotations

import contextlib
import json
import os
import sys
import time
from collections.abc import Callable, Sequence
from dataclasses import replace
from pathlib import Path

from tqdm import tqdm

from network import VERSION
from network.dial import Target, advised, dial_all
from network.errors import ClosedByUs, NetworkError, PeerLost
from network.key_files import by_flag, find_keys, key_origin
from network.keys import Key
from network.loopback import misplaced
from network.nodes import Address
from network.session import Session
from network.transport import wait_sockets

from ..agent.registration import registrations
from ..agent.settings import AgentSettings
from ..elastic.discovery import DiscoveryError, FileDiscovery
from ..errors import SettingsError
from ..messages import Operation
from ..protocol import operations
from .messages import AgentStatus, Inspect, Measure, Measured
from .probe import probe
from .report import Pair, Report, Worker

EXIT_WELL, EXIT_WRONG = 0, 1
_NODE_FILE = "worker.json"
_ANYWHERE = {"0.0.0.0": "127.0.0.1", "::": "::1"}  # noqa: S104  compared, not bound
STATUS_SECONDS = 5.0
PAIR_SECONDS = 15.0  # for an agent to measure one way: to find the name, to call, to exchange
_LOOK_SECONDS = 0.5


def examine(
    addresses: Sequence[Address],
    key: Key,
    show: Callable[[int, int], None] = lambda done, of: None,
    key_file: str | Path | None = None,
    origin: str | None = None,
) -> Report:
    """Examine the agents at `addresses`, called with `key`; `show` is called with the number of ways measured, and of all.
    `key_file` is where the key is from, None for the usual place; `origin` is the same in words, None where it is unknown.
    """
    targets = {place: Target(address, key, "submitter", "agent") for place, address in enumerate(addresses)}
    # all at once: silent hosts cost five seconds in all, not each
    sessions, errors = dial_all(targets)
    with contextlib.ExitStack() as held:
        for session in sessions.values():
            held.callback(session.close)
        workers: list[Worker] = []
        for place, address in enumerate(addresses):
            if place in errors:
                workers.append(Worker(address, by_flag(str(advised(errors[place], address, key_file, origin)))))
            else:
                workers.append(_asked(address, sessions[place]))
        asked = [place for place, worker in enumerate(workers) if worker.status is not None]
        ways = len(asked) * len(asked)  # one from here to each, and all among them
        for done, place in enumerate(asked):
            show(done, ways)
            # one after the other, as they share this machine's line
            workers[place] = _reached(workers[place], key)
        pairs = _Pairs({place: (workers[place], sessions[place]) for place in asked})
        while not pairs.over:
            show(len(asked) + len(pairs.found), ways)
            pairs.step()
        show(ways, ways)
        # called once more: one that ended in the meantime explains what its ways tell
        again, gone = dial_all({place: targets[place] for place in asked})
        for session in again.values():
            session.close()
        for place in asked:
            workers[place] = _lost(workers[place], gone.get(place) or sessions[place].lost)
        order = {address: place for place, address in enumerate(addresses)}
        return Report(key.id.hex(), workers, sorted(pairs.found, key=lambda pair: (order[pair.source], order[pair.target])))


def _asked(address: Address, session: Session) -> Worker:
    version = str(session.caps.get("version", ""))
    if version != VERSION:
        return Worker(address, version=version)  # it may not know the question
    try:
        session.queue(Inspect().to_value())
        deadline = time.monotonic() + STATUS_SECONDS
        while session.alive and time.monotonic() < deadline:
            said = next(operations(session, (AgentStatus,)), None)
            if isinstance(said, AgentStatus):
                return Worker(address, version=version, status=said)
            wait_sockets([session.link], [], _LOOK_SECONDS)  # type: ignore[list-item]
    except NetworkError as error:
        return Worker(address, str(error), version)
    problem = (
        f"it does not answer within {STATUS_SECONDS:g} s." if session.alive else f"it does not know --doctor: {session.lost}"
    )
    return Worker(address, problem, version)


def _lost(worker: Worker, error: NetworkError | None) -> Worker:
    """Return `worker`; where `error` says that it has been lost since, with that as its problem. Connections that we have
    closed, as we do with late ones, are none.
    """
    if error is None or isinstance(error, ClosedByUs) or worker.problem:
        return worker
    why = error.reason if isinstance(error, PeerLost) else str(error).rstrip(".")
    problem = f"it was lost while the ways were measured: {why}. Look whether it still runs, and what its log says."
    return replace(worker, problem=problem)


def _reached(worker: Worker, key: Key) -> Worker:
    link = probe(worker.address, key, burst=True)
    return Worker(worker.address, link.problem, worker.version, worker.status, link)


class _Pairs:
    """Ways among agents. Each agent measures one at a time, and no host takes part in two: they would share the bandwidth."""

    def __init__(self, agents: dict[int, tuple[Worker, Session]]) -> None:
        self._agents = agents
        self._waiting = [(one, other) for one in agents for other in agents if one != other]
        self._running: dict[int, tuple[int, float]] = {}
        self.found: list[Pair] = []

    @property
    def over(self) -> bool:
        return not self._waiting and not self._running

    def step(self) -> None:
        """Begin the measurements that can begin, wait for an answer, and take those that are there."""
        self._begin()
        links = [self._agents[one][1].link for one in self._running]
        wait_sockets(links, [], _LOOK_SECONDS)  # type: ignore[arg-type]
        for one, (other, deadline) in list(self._running.items()):
            said, problem = self._answer(self._agents[one][1])
            if isinstance(said, Measured) or problem or time.monotonic() > deadline:
                address = str(self._agents[other][0].address)
                if not isinstance(said, Measured):
                    late = f"it has not told within {PAIR_SECONDS:g} s how it reaches {address}."
                    said = Measured(address, problem or late)
                    self._agents[one][1].close()  # a late answer would pass for the next one
                self._end(one, other, said)

    def _begin(self) -> None:
        taken = {self._host(place) for one, (other, _) in self._running.items() for place in (one, other)}
        for one, other in list(self._waiting):
            # a host takes part in one measurement at a time: two would share its line, and each look slow
            hosts = {self._host(one), self._host(other)}
            if hosts & taken:
                continue
            taken |= hosts
            self._waiting.remove((one, other))
            worker, session = self._agents[one]
            address = str(self._agents[other][0].address)
            if session.alive:
                session.queue(Measure(address).to_value())
                self._running[one] = other, time.monotonic() + PAIR_SECONDS
            else:
                self._end(one, other, Measured(address, f"the connection with {worker.address} has ended."))

    @staticmethod
    def _answer(session: Session) -> tuple[Operation | None, str]:
        try:
            said = next(operations(session, (Measured,)), None)
        except NetworkError as error:
            return None, str(error)
        return said, "" if session.alive else str(session.lost)

    def _end(self, one: int, other: int, found: Measured) -> None:
        self._running.pop(one, None)
        self.found.append(Pair(self._agents[one][0].address, self._agents[other][0].address, found))

    def _host(self, place: int) -> str:
        status = self._agents[place][0].status
        return "" if status is None else status.host


def run(settings: AgentSettings, hosts: Sequence[str], folder: str | None, as_json: bool) -> int:
    """Examine agents and print the report; return the exit code.

    Args:
        settings: the key, and the place of this machine's agent.
        hosts: addresses, node files or folders; with none, and no folder, the agents that can be found.
        folder: one in which agents register.
        as_json: whether to print the report as JSON.

    Raises: SettingsError for a host or folder that names no agents; NetworkError for a key that cannot be used.
    """
    named = [address for host in hosts for address in _named(host)]
    if folder is not None:
        named += _registered(Path(folder))
    own: Address | None = None
    if not hosts and folder is None:
        named = _named(_NODE_FILE) if os.path.exists(_NODE_FILE) else []
        own = Address(_ANYWHERE.get(settings.listen, settings.listen), settings.port)
        # without a port of its own, and with a node file, this machine only asks
        own = None if own in named or (named and not own.port) else own
    addresses = list(dict.fromkeys([*([own] if own else []), *named]))
    for address in addresses:
        if not address.port:
            raise SettingsError(f"HOST: A worker's port is a number from 1 to 65535, got '{address}'.")
    # never made here: a new key would fit no agent
    key = (settings.keyring or find_keys(settings.key_file, os.environ, create=False)).offered
    bar: tqdm[None] | None = None

    def show(done: int, of: int) -> None:
        nonlocal bar
        if bar is None:
            bar = tqdm(total=of, unit="way", leave=False, disable=None)
        bar.update(done - bar.n)

    try:
        origin = None if settings.keyring is not None else key_origin(settings.key_file, os.environ)
        report = examine(addresses, key, show, settings.key_file, origin)
    finally:
        if bar is not None:
            bar.close()
    report.misplaced = misplaced(named)
    if own is not None and named and _may_be_left_out(report.workers):
        report = report.without(own)
    _print(report, as_json)
    return EXIT_WRONG if report.problems else EXIT_WELL


def _may_be_left_out(workers: Sequence[Worker]) -> bool:
    """Tell if the first, that of this machine, is not there, as where one only submits, or is there by another address."""
    # by its instance: a node file may name this machine's agent by another address
    own, *others = workers
    return own.status is None or own.status.instance in {each.status.instance for each in others if each.status is not None}


def _print(report: Report, as_json: bool) -> None:
    text = json.dumps(report.as_data(), indent=2) if as_json else report.as_text()
    sys.stdout.write(f"{text}\n")
    sys.stdout.flush()


def _named(text: str) -> list[Address]:
    """Read a HOST: an address, a .json node file, or a folder in which agents register."""
    if os.path.isdir(text):
        return _registered(Path(text))
    try:
        if text.endswith(".json"):
            return [host.address for host in FileDiscovery(text).find()]
        return [Address.parse(text)]
    except (DiscoveryError, ValueError) as error:
        raise SettingsError(f"{'' if text.endswith('.json') else 'HOST: '}{error}") from error


def _registered(folder: Path) -> list[Address]:
    try:
        found = [Address.parse(one.address) for one in registrations(folder)]
    except OSError as error:
        raise SettingsError(f"The folder {folder} cannot be read: {error.strerror or error}.") from error
    if not found:
        raise SettingsError(f"No worker is registered in {folder}.")
    return found
