"""Real agents for tests: started on free ports with a key of their own, ended by id, and nothing may be left of them."""

from __future__ import annotations

import os
import random
import select
import signal
import socket
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable, Iterator, Sequence
from contextlib import closing, contextmanager, suppress
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from network import Controller, NetworkError, NodeAssignment, Request
from network.dial import Target, dial
from network.key_files import load_key_file
from network.keys import Keyring, format_keyring, new_key
from network.nodes import Address
from network.session import Session
from network.transport import wait_sockets
from rpc import Coordinator
from rpc import messages as m
from tests.proc import at_work_for
from tests.sources import ROOT
from tests.stated_time import TooLate

LIMIT = 120.0  # no contract states it: whoever reaches it waits in vain
SLACK = 20.0  # seconds by which a stated time may be missed while other tests run; a test that is `alone` allows none


def wait_for(condition: Callable[[], Any], what: str, limit: float = LIMIT) -> Any:
    """Poll `condition` until it is true; returns its value. A `limit` of its own is a stated time."""
    deadline = time.monotonic() + limit
    while not (value := condition()):
        if time.monotonic() >= deadline:
            raise (AssertionError if limit >= LIMIT else TooLate)(f"waited {limit:g} s for {what}")
        select.select([], [], [], 0.005)
    return value


def seconds_to_import(modules: str) -> float:
    """What two Pythons at once take here and now to import them: a start is as slow as a machine that does other things too."""
    begin = time.monotonic()
    started = [subprocess.Popen([sys.executable, "-c", f"import {modules}"], cwd=ROOT) for _ in range(2)]
    assert [process.wait() for process in started] == [0, 0]
    return time.monotonic() - begin


def lasting_port() -> int:
    """A free port below those that the kernel gives to whoever asks for any: nobody has it when its owner comes back."""
    lowest = int(Path("/proc/sys/net/ipv4/ip_local_port_range").read_text().split()[0])
    while True:
        port = random.SystemRandom().randrange(lowest // 2, lowest)
        with suppress(OSError), socket.create_server(("", port)):
            return port


def make_key(path: Path) -> None:
    """A new cluster key in a file of this user alone."""
    path.touch(0o600)
    path.write_text(format_keyring(Keyring((new_key(),))), "ascii")


class AgentProcess:
    """One `python -m rpc.agent.cli`; its console goes to `console`. `on` is what its command begins with."""

    def __init__(
        self,
        root: Path,
        key_file: Path,
        *options: str,
        work: Path | None = None,
        on: Sequence[str] = (),
        **variables: str,
    ) -> None:
        root.mkdir(parents=True, exist_ok=True)
        self.work = work or root / "work"
        self.console_path = root / "console.txt"
        self.announcement = root / "address"
        environ = {name: value for name, value in os.environ.items() if not name.startswith("PSGD_")}
        environ.pop("XDG_RUNTIME_DIR", None)  # so that a work directory with a long path has no Unix socket
        environ.update(XDG_CONFIG_HOME=str(root / "config"), XDG_STATE_HOME=str(root / "state"), PYTHONPATH=str(ROOT))
        command = [sys.executable, "-m", "rpc.agent.cli", "--port", "0", "--key-file", str(key_file)]
        command += ["--work-dir", str(self.work), "--announce", str(self.announcement), "--end-with-parent", *options]
        with open(self.console_path, "wb") as console:
            self.process = subprocess.Popen(
                [*on, *command],
                cwd=root,
                env={**environ, **variables},
                stdin=subprocess.PIPE,
                stdout=console,
                stderr=console,
                start_new_session=True,
            )

    def await_address(self) -> AgentProcess:
        def listening() -> bool:
            assert self.process.poll() is None, f"the agent ended at once: {self.console}"
            return self.announcement.exists()

        wait_for(listening, "the agent to listen")
        return self

    @property
    def address(self) -> Address:
        return Address.parse(self.announcement.read_text())

    @property
    def console(self) -> str:
        return self.console_path.read_text(errors="replace")

    @property
    def pid(self) -> int:
        return self.process.pid

    def refused(self) -> str:
        """Wait for an agent that cannot start; returns what it says."""
        assert self.process.wait(LIMIT) == 2
        self.end()
        return self.console

    def job_pids(self) -> list[int]:
        """The agent's living children, without the one from which it forks them."""
        return sorted(at_work_for(self.pid))

    def end(self, number: int = signal.SIGTERM) -> int:
        """Send a signal and wait for the end; returns the exit code."""
        if self.process.poll() is None:
            self.process.send_signal(number)
            self.process.send_signal(signal.SIGCONT)
        try:
            code = self.process.wait(LIMIT)
        except subprocess.TimeoutExpired:
            self.process.kill()
            self.process.wait()
            raise AssertionError(f"the agent did not end: {self.console}") from None
        finally:
            if self.process.stdin is not None:
                self.process.stdin.close()
        return code


@dataclass
class Cluster:
    """Agents with one key below `root`."""

    root: Path
    key_file: Path
    agents: list[AgentProcess] = field(default_factory=list)

    def start(self, count: int, *options: str, work: Path | None = None, **variables: str) -> list[AgentProcess]:
        started = []
        for _ in range(count):
            agent = AgentProcess(self.root / f"agent-{len(self.agents)}", self.key_file, *options, work=work, **variables)
            self.agents.append(agent)
            started.append(agent)
        for agent in started:
            agent.await_address()
        return started

    def nodes(self, count: int | None = None, ps: bool = False) -> NodeAssignment:
        """Workers on the first agents; the parameter server, if any, on the last one."""
        nodes = NodeAssignment(key_file=self.key_file)
        alive = [agent for agent in self.agents if agent.process.poll() is None]
        if ps:
            nodes.add(-2, alive.pop().address)
        for number, agent in enumerate(alive[:count]):
            nodes.add(number, agent.address)
        return nodes

    def run(self, executable: Any, folder: Path, *, nodes: NodeAssignment | None = None, **options: Any) -> Outcome:
        """One whole job."""
        with self.request(nodes or self.nodes()) as com:
            coordinator = start_job(com, executable, folder, **options)
            results, error = coordinator.join()
        return Outcome(results, error, coordinator)

    @contextmanager
    def running(
        self, executable: Any, folder: Path, *, nodes: NodeAssignment | None = None, **options: Any
    ) -> Iterator[Coordinator]:
        """A job that is stopped at the end of the block."""
        with self.request(nodes) as com:
            coordinator = start_job(com, executable, folder, **options)
            try:
                yield coordinator
            finally:  # also after a failure: the nodes may be those of other tests, too
                coordinator.stop_executing()
                coordinator.join()

    def begun(self, coordinator: Coordinator, nodes: int) -> None:
        """Wait until the executors of the first nodes are at work, which a file tells."""
        files = [f"jobs/{coordinator.job}.{node}/out/begun" for node in range(nodes)]
        paths = [agent.work / file for agent, file in zip(self.agents, files, strict=False)]
        wait_for(lambda: all(path.exists() for path in paths), "the executors to begin")

    def request(self, nodes: NodeAssignment | None = None) -> Controller:
        return Request(self.key_file).request(nodes or self.nodes())

    def idle(self) -> bool:
        return not any(agent.job_pids() for agent in self.agents if agent.process.poll() is None)

    def is_free(self, *agents: AgentProcess) -> bool:
        """Whether these agents, by default all that live, have no job by their own word.

        Their children show it late: an agent has a job before its process is forked and named, and until it has asked for the
        exit code of one that has ended.
        """
        asked = [agent for agent in agents or self.agents if agent.process.poll() is None]
        return all(not agent.job_pids() and self._has_no_job(agent) for agent in asked)

    def _has_no_job(self, agent: AgentProcess) -> bool:
        key = load_key_file(self.key_file).offered
        with suppress(NetworkError), closing(dial(Target(agent.address, key, "submitter", "agent"), LIMIT)) as session:
            session.queue(m.Inspect().to_value())
            status = answer(session, m.AgentStatus)
            return isinstance(status, m.AgentStatus) and not status.jobs
        return False  # it has ended just now

    def close(self) -> None:
        codes = [agent.end() for agent in self.agents]
        left = processes_below(self.root)
        deadline = time.monotonic() + LIMIT
        while left and time.monotonic() < deadline:
            select.select([], [], [], 0.02)
            left = processes_below(self.root)
        for pid in left:
            os.kill(pid, signal.SIGKILL)
        assert not left, f"processes {left} were left behind"
        assert all(code in (0, -signal.SIGKILL) for code in codes), f"agents ended with {codes}"


def answer(session: Session, kind: type[m.Operation]) -> m.Operation | None:
    """What an agent says next of this kind; None when it has hung up."""
    deadline = time.monotonic() + LIMIT
    while session.alive:
        with suppress(StopIteration):
            return next(m.operations(session, (kind,)))
        assert time.monotonic() < deadline, f"waited {LIMIT:g} s for {kind.__name__}"
        wait_sockets([session.link], [session.link] if session.pending_bytes else [], 0.1)  # type: ignore[list-item]
    return None


@dataclass
class Outcome:
    """What came of a job."""

    results: dict[int, Any]
    error: bool
    coordinator: Coordinator

    @property
    def failures(self) -> dict[int, tuple[str, str]]:
        return self.coordinator.failures


def start_job(
    com: Controller, executable: Any, folder: Path, *, group: Any = None, reply: Any = None, objects: Any = None, **options: Any
) -> Coordinator:
    """Submit and dispatch; the job runs when this returns."""
    coordinator = Coordinator(com, directory=folder, **options)
    coordinator.submit_group(executable, group, objects=objects)
    coordinator.resources_dispatch(reply or (lambda node, request: None))
    return coordinator


def processes_below(root: Path) -> list[int]:
    """Processes whose current directory is below `root`."""
    found = []
    for link in Path("/proc").glob("[0-9]*/cwd"):
        try:
            inside = Path(os.readlink(link)).is_relative_to(root)
        except OSError:
            continue
        if inside and int(link.parent.name) != os.getpid():
            found.append(int(link.parent.name))
    return found


@contextmanager
def short_folder() -> Iterator[Path]:
    """A folder whose path leaves room for those of Unix sockets below it, which the folders of pytest do not always."""
    with tempfile.TemporaryDirectory(prefix="psgd-") as folder:
        yield Path(folder).resolve()


@contextmanager
def cluster(root: Path) -> Iterator[Cluster]:
    root.mkdir(parents=True, exist_ok=True)
    key_file = root / "key"
    make_key(key_file)
    made = Cluster(root, key_file)
    try:
        yield made
    finally:
        made.close()
