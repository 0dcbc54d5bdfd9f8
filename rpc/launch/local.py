"""Agents of this machine for as long as a `with` block lasts: on free loopback ports, with a key of their own."""

from __future__ import annotations

import contextlib
import os
import subprocess
import tempfile
import time
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

from network.errors import NetworkError
from network.key_files import create_key_file
from network.nodes import Address

from ..agent.store import PLACED
from ..liveness.heartbeat import process_status
from ..liveness.limits import PER_NODE_SECONDS
from ..submit.terminal import Interrupts, telling, uninterrupted
from ..support.forks import OwnProcess
from ..support.logs import SUBMIT_LOGGER, get_logger
from ..support.processors import limit_met
from ..support.temporary import TemporaryFolder
from .launcher import KeyFile, Launcher, Offer, agent_options, checked_count, end_agents, start_agent

START_SECONDS = 60.0  # for all agents to listen, on the slowest machine
END_SECONDS = 5.0  # for all agents to end their jobs and leave
_LOOK_SECONDS = 0.005


@dataclass(frozen=True)
class LocalAgents:
    """Agents that listen on this machine.

    Args:
        addresses: where they listen.
        key_file: their key.
        processes: their processes.
        directory: holds their work directories and logs.
        lasting: whether it outlives them.
    """

    addresses: list[Address]
    key_file: Path
    processes: list[subprocess.Popen[bytes]]
    directory: Path
    lasting: bool = False

    @property
    def pids(self) -> list[int]:
        """Ids of the processes."""
        return [process.pid for process in self.processes]

    def lives(self, address: Address) -> bool:
        """Tell if an agent is one of these, and its process runs: it has neither ended nor been stopped.

        Args:
            address: where it listens.
        """
        process = dict(zip(self.addresses, self.processes, strict=True)).get(address)
        if process is None or process.returncode is not None:
            return False
        try:
            # no poll(): for a fork of this process, such as a run of a sweep, agents are no children, and it would tell an end
            os.kill(process.pid, 0)
        except ProcessLookupError:
            return False
        status = process_status(process.pid)
        # "": without /proc the signal has told that it is there
        return status.runs or not status.state

    def place(self, job: str, folder: Path) -> list[Path]:
        """Let the agents keep their folders of a job that is about to be submitted in a folder that outlives them.

        Args:
            job: id of the job.
            folder: that folder.

        Returns: the future folder of each node, `<job>.<node>`, for one agent after the other. Where the work directories
        outlive the agents, they stay there. Raises: OSError.
        """
        works = [_work_dir(self.directory, number) for number in range(len(self.addresses))]
        if self.lasting:
            return [(work / "jobs").absolute() for work in works]
        places = [(folder / work.name).absolute() for work in works]
        # before the job is submitted: an agent reads the link when the job's folder is made
        for work, place in zip(works, places, strict=True):
            place.mkdir(mode=0o700)
            (work / PLACED / job).symlink_to(place)
        return places


@contextlib.contextmanager
def local_agents(
    count: int, *, slots: int = 1, log_level: str = "WARNING", work_dir: str | Path | None = None
) -> Iterator[LocalAgents]:
    """Start agents, and end them with the block.

    They use a temporary key and temporary work directories, which exist until the end of the block. An agent ends with this
    process, however that ends; Ctrl-C at the terminal reaches this process only.

    Args:
        count: number of agents.
        slots: jobs that each runs at once.
        log_level: level from which their log is shown on stderr; all lines from INFO on are in their log files.
        work_dir: folder in which they use the folders `agent-<number>`, which stay: the same agents next time know their jobs.

    Raises: ValueError for a wrong count or a `work_dir` that cannot be written to, NetworkError when an agent does not come up.
    """
    checked_count("local_agents", count)
    # before a process is started
    works = None if work_dir is None else _checked_work_dir(work_dir)
    folder = TemporaryFolder()
    directory = folder.path
    # a fork of the user's that leaves the block must not end the agents of its parent
    process = OwnProcess()
    agents: list[subprocess.Popen[bytes]] = []
    try:
        key_file = directory / "key"
        create_key_file(key_file)
        with telling("The start of local workers", get_logger(SUBMIT_LOGGER)):
            # no Ctrl-C comes between the start of an agent and the list of those to be ended
            with Interrupts() as interrupts, _telling_limit():
                while len(agents) < count and not interrupts.noted:
                    options = agent_options("127.0.0.1", slots, log_level, "--key-file", str(key_file))
                    options += ["--work-dir", str(_work_dir(works or directory, len(agents)))]
                    options += ["--announce", str(_announcement(directory, len(agents)))]
                    agents.append(start_agent(options, directory))
            # raised here, where `finally` knows all that were started
            if interrupts.noted:
                raise KeyboardInterrupt
            addresses = _await_addresses(directory, agents)
        yield LocalAgents(addresses, key_file, agents, works or directory, works is not None)
    finally:
        if process.is_here:
            try:
                end_agents(agents, END_SECONDS)
            finally:
                # the key, and what jobs have left
                with uninterrupted():
                    folder.close()


class LocalLauncher(Launcher):
    """Launcher of `local_agents`: on this machine, with a key of their own; they end with it, or with this process."""

    lasting = False

    def __init__(self) -> None:
        self._held = contextlib.ExitStack()
        self._addresses: list[Address] = []
        self.key_file: KeyFile = None
        self.agents: LocalAgents | None = None

    def start(self, count: int) -> list[Address]:
        checked_count("local launcher", count)
        self.agents = agents = self._held.enter_context(local_agents(count, log_level="ERROR"))
        self.key_file, self._addresses = agents.key_file, agents.addresses
        return list(agents.addresses)

    def lives(self, address: Address) -> bool:
        """Tell of an agent that was started if its process runs; `address` is where it listens."""
        return self.agents is not None and self.agents.lives(address)

    def discover(self) -> list[str]:
        """List all that were started; the failure detector finds those that die."""
        return [f"{address} slots=1" for address in self._addresses]

    def close(self) -> None:
        self._held.close()


def offer(where: str, key_file: KeyFile, wait: float | None) -> Offer:
    """Offer `local:4`; the agents make their own key and are given their own time."""
    if not (where.isascii() and where.isdigit()):
        raise ValueError(f"The launcher 'local' needs a number of workers, as in local:4, got {where!r}.")
    return Offer(LocalLauncher(), checked_count("local launcher", int(where)))


@contextlib.contextmanager
def _telling_limit() -> Iterator[None]:
    """Raise NetworkError where no more processes may be started."""
    try:
        yield
    except OSError as error:
        if not (problem := limit_met(error)):
            raise
        raise NetworkError(f"The local workers cannot be started: {problem}.") from error


def _work_dir(directory: Path, number: int) -> Path:
    return directory / f"agent-{number}"


def _checked_work_dir(work_dir: str | Path) -> Path:
    """Return the directory, which is made if need be.

    Raises: ValueError.
    """
    if not isinstance(work_dir, (str, Path)) or not str(work_dir):
        raise ValueError(f"local_agents 'work_dir' must be the path of a folder, got {work_dir!r}.")
    try:
        path = Path(work_dir).absolute()
        path.mkdir(mode=0o700, parents=True, exist_ok=True)
        # tried, as modes alone do not tell of read-only mounts and quotas
        tempfile.TemporaryFile(dir=path).close()
    except (OSError, ValueError) as error:
        reason = getattr(error, "strerror", None) or error
        raise ValueError(
            f"local_agents 'work_dir' must be a folder that can be written to, got {str(work_dir)[:200]!r}: {reason}."
        ) from error
    return path


def _announcement(directory: Path, number: int) -> Path:
    return directory / f"address-{number}"


def _await_addresses(directory: Path, agents: list[subprocess.Popen[bytes]]) -> list[Address]:
    # they start at the same time and share the cores
    limit = START_SECONDS + PER_NODE_SECONDS * len(agents)
    deadline = time.monotonic() + limit
    addresses: list[Address] = []
    while len(addresses) < len(agents):
        number = len(addresses)
        try:
            addresses.append(Address.parse(_announcement(directory, number).read_text("utf-8")))
        # the file appears with its content, so that it is there or not
        except FileNotFoundError:
            # only when there is no file: an agent that ended after it had listened is found later, as lost
            code = agents[number].poll()
            if code is not None:
                raise NetworkError(f"Local worker {number} ended with exit code {code}; its message is above.") from None
            if time.monotonic() >= deadline:
                raise NetworkError(f"Local worker {number} did not listen within {limit:g} s.") from None
            time.sleep(_LOOK_SECONDS)
    return addresses
