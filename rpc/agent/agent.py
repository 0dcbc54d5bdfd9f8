"""Loop of an agent: one thread, one port, no user code. It survives all that strangers, submitters and jobs do.

A second thread sends heartbeats while the disk holds the loop up, and does nothing else (see `rpc.support.disk`).
"""

from __future__ import annotations

import contextlib
import errno
import logging
import os
import queue
import socket
import time
from collections.abc import Callable
from pathlib import Path

from network import VERSION
from network.acceptor import Accept, Acceptor, Authenticated, Dropped, Forward, Forwarded, Outcome
from network.clock import SystemClock
from network.errors import NetworkError
from network.hello import Hello, Hint
from network.key_files import KeySource, find_keys, key_file_of, take_key_from_environment
from network.nodes import Address, is_ip, is_loopback
from network.session import LOOK_SECONDS
from network.transport import (
    MAX_UNIX_PATH,
    NAME_SECONDS,
    PortInUse,
    Waker,
    listen_tcp,
    listen_unix,
    resolve,
    wait_sockets,
)

from ..job import kernels
from ..support import processors
from ..support.console import settle_all, tell_where
from ..support.disk import DiskWatch, at_disk
from ..support.logs import attach_file, clean, get_logger
from . import drain
from .children import ChildProcesses, child_environment
from .event_log import RateLimit, SecurityLog, new_log
from .failover import DriverLeases
from .kernel_sets import KernelSets
from .metrics import AgentMetrics
from .metrics_server import MetricsServer
from .probing import Probes
from .process_table import ProcessTable
from .scheduler_env import temporary_directory
from .server import RequestHandler
from .settings import AgentSettings, default_work_dir
from .store import JobFolders, WorkDirectory
from .subscribers import Subscribers
from .supervisor import Surroundings

_PAUSE_SECONDS = 0.01
_NO_IPV6 = (errno.EAFNOSUPPORT, errno.EADDRNOTAVAIL)  # as on many a machine
_MOST_ACCEPTED = 64  # visitors per listener and round


class Agent:
    """Agent that listens from the moment it is made, at `address`. Call `serve_forever`, then `close`.

    Args:
        settings: its port, key, slots and the like.
        owns_process: this process is an agent and nothing else, so all children that it does not start are of its jobs.

    Raises: NetworkError when the port, the key or the work directory cannot be used.
    """

    def __init__(self, settings: AgentSettings, *, owns_process: bool = False) -> None:
        self._settings = settings
        self._clock = SystemClock()
        self._keyring = at_disk(_find_keys(settings, self._tell_keys).current)
        self._stopping = False
        with contextlib.ExitStack() as held:
            # the port first: it names the default work directory, and a second agent there fails before it touches a folder
            self._listeners = [listen_tcp(Address(settings.listen, settings.port))]
            held.callback(self._listeners[0].close)
            self.address = Address(settings.listen, self._listeners[0].getsockname()[1])
            work = WorkDirectory(Path(settings.work_dir or default_work_dir(self.address.port)))
            held.callback(work.close)
            name = f"Worker-{_own_address(settings.listen)}"
            self.logger = get_logger(name)
            log = new_log(work.log, name)
            kept = attach_file(log)
            held.callback(_detach, kept)
            # around the handler's lock, too: another thread that logs holds nothing that the end of the wait needs
            kept.handle = at_disk(kept.handle)  # type: ignore[method-assign]
            self._listen_beside(held.callback)
            unix_path = self._listen_unix(work.socket, held)
            self._audit = SecurityLog(work.audit)
            self._rate_limit = RateLimit(self._clock)
            folders = JobFolders(work.jobs, settings.keep_jobs, placed=work.placed)
            children = ChildProcesses(adopts=owns_process)
            held.callback(children.close)
            subscribers = Subscribers(lambda job, node: (here := folders.newest(job, node)) is not None and here.node == node)
            self._leases = DriverLeases(
                folders, subscribers, work.cache, self._audit, self.logger, self._clock, children, self._keyring
            )
            held.callback(self._leases.close)
            self._kernels = KernelSets(os.environ, own=settings.own_kernels)
            surroundings = Surroundings(
                settings.slots,
                work.cache,
                settings.code_policy,
                settings.output_mib << 20,
                self.address.port,
                unix_path,
                children,
                self._kernels,
            )
            self._processes = ProcessTable(
                surroundings, folders, self._leases, subscribers, self._audit, self.logger, self._clock
            )
            self._waker = Waker()
            held.callback(self._waker.close)
            probes = Probes(self._processes, settings.slots, unix_path, work, self._audit, self._waker.wake)
            held.callback(probes.close)
            self._handler = RequestHandler(
                self._processes, folders, self._leases, subscribers, self._audit, self.logger, work.log, probes
            )
            held.callback(self._handler.close)
            metrics = AgentMetrics(settings.slots, self._processes, self._handler, self._rate_limit, self._clock)
            self._metrics = MetricsServer(settings.metrics_port, metrics.text, self._clock, self.logger)
            held.callback(self._metrics.close)
            # close callbacks run last to first: a submitter hears of the end of its job before its session is closed
            held.callback(self._processes.close)  # before the handler, so that submitters hear of it
            self._drain = drain.Drain()
            self._leave_asked: queue.SimpleQueue[drain.LeaveAsked] = queue.SimpleQueue()
            self._when_leaving: Callable[[], object] = lambda: None
            self._acceptor = Acceptor(self._policy, self._clock)
            held.callback(self._acceptor.close)
            # most jobs have one thread for each process, and the kernels that come first among those offered
            chosen = kernels.choose([self._kernels.offered])
            children.prepare(child_environment(os.environ, 1) | self._kernels.environment(chosen))
            self._held = held.pop_all()

    def _listen_beside(self, at_end: Callable[..., object]) -> None:
        """Listen on ::1 beside 127.0.0.1, as `localhost` may be either, and on all other addresses of a host name."""
        if is_ip(host := self.address.host):
            others = ["::1"] if host == "127.0.0.1" else []
        else:
            found = [str(place[0]) for _, place in resolve(self.address, NAME_SECONDS)]
            others = found[1:]
            if host != "localhost" and all(map(is_loopback, found)):
                self.logger.warning(
                    "%s means %s on this machine (see /etc/hosts), so no other machine reaches this worker. "
                    "Start it with --listen 0.0.0.0, or --listen and an address of this machine.",
                    clean(host),
                    " and ".join(found),
                )
        for other in others:
            self._listen_on(other, at_end)

    def _listen_on(self, host: str, at_end: Callable[..., object]) -> None:
        """Listen on one more address; where that cannot be, warn, as the agent is reached by the first."""
        try:
            listener = listen_tcp(Address(host, self.address.port))
        except PortInUse as error:
            self.logger.warning(
                "Port %s on %s is held by %s: who calls this worker by a name that stands for %s reaches that instead.",
                self.address.port,
                host,
                clean(error.holder),
                host,
            )
        except NetworkError as error:
            cause = error.__cause__  # None: not even its address can be resolved
            if isinstance(cause, OSError) and cause.errno not in _NO_IPV6:
                self.logger.warning(
                    "%s Who calls this worker by a name that stands for %s does not reach it.", clean(str(error)), host
                )
        else:
            self._listeners.append(listener)
            at_end(listener.close)

    def _listen_unix(self, path: Path, held: contextlib.ExitStack) -> str:
        """Listen where processes of this host call, and return the path: a folder of ours that no other user can enter."""
        try:
            # the user's own folder for sockets, where a session manager makes one
            runtime = os.environ.get("XDG_RUNTIME_DIR")
            if len(os.fsencode(path)) > MAX_UNIX_PATH and runtime:
                path = Path(held.enter_context(temporary_directory(runtime)), path.name)
            listener = listen_unix(path)
        except (OSError, NetworkError) as error:
            self.logger.warning(
                "There is no Unix socket for peers on this host, so they use TCP, sealed, and share no memory: %s", error
            )
            return ""
        # last to first: the socket is closed before its name is free for a successor
        held.callback(path.unlink, missing_ok=True)
        held.callback(listener.close)
        self._listeners.append(listener)
        return str(path)

    def _policy(self, hello: Hello) -> Accept | Forward | Hint:
        if hello.job:
            # no job name, no process: the agent itself never reads beyond the HELLO of such a caller
            return Forward(hello.job) if self._processes.find(hello.job) else Hint.NO_SUCH_JOB
        caps = {
            "version": VERSION,
            "slots": self._settings.slots,
            kernels.CAP: kernels.as_cap(self._kernels.offered),
            processors.CAP: processors.cores_as_cap(),
        }
        # asked for each caller: the key file may have changed
        return Accept({"submitter": self._keyring()}, "agent", "", caps)

    def serve_forever(self) -> None:
        """Serve job after job until `stop` is called."""
        self.logger.info("Worker version: %s.", VERSION)
        self.logger.info("Worker started on port: %s", self.address.port)
        if self._metrics.address:
            self.logger.info("Metrics are served at %s", self._metrics.address)
        with DiskWatch(self._processes.keep_alive):
            while not self._stopping:
                self._step()
        self.logger.info("Worker stopped.")

    def stop(self) -> None:
        """Make `serve_forever` return (from a signal handler or another thread)."""
        # before waking: the loop that wakes must see it
        self._stopping = True
        self._waker.wake()

    def leave(self, reason: str, grace: float) -> None:
        """Let the jobs save their state and stop, then make `serve_forever` return; called as `stop`. Only the first call
        counts.

        Args:
            reason: some words, for people.
            grace: seconds until the agent is gone.
        """
        # a queue: signal handlers may not touch the state that the loop works on
        self._leave_asked.put(drain.LeaveAsked(reason, grace))
        self._waker.wake()

    def when_leaving(self, call: Callable[[], object]) -> None:
        """Let `call` be called, in the serving thread, before the jobs are told that the agent leaves."""
        self._when_leaving = call

    def _step(self) -> None:
        pairs = [run.channel.sock for run in self._processes if run.channel is not None]
        outputs = [run.output for run in self._processes if run.output.is_open]
        listeners = [*self._listeners, *self._metrics.listeners]
        links = [*self._acceptor.links, *self._metrics.reading, *self._handler.reading]
        wait_sockets(
            [*listeners, self._waker.sock, *pairs, *outputs, *links],  # type: ignore[list-item]
            [*self._metrics.writing, *self._handler.writing],  # type: ignore[list-item]
            # a handler that has more to send at once does not sleep; the others have had their turn
            0.0 if self._handler.hurried else self._timeout(),
        )
        # before the work: a wake during it shortens the next wait
        self._waker.clear()
        for listener in self._listeners:
            self._accept(listener, self._acceptor.add)
        for listener in self._metrics.listeners:
            self._accept(listener, self._metrics.add)
        for outcome in self._acceptor.step():
            self._settle(outcome)
        # jobs first: what they report is sent to submitters in the same round
        self._processes.step()
        self._handler.step()
        self._leases.step()
        self._metrics.step()
        # after all others: what this round has told counts for the decision
        self._depart()
        settle_all()

    def _depart(self) -> None:
        while not self._leave_asked.empty():
            self._decide_on(self._leave_asked.get())
        if self._drain.deadline is not None:
            self._decide_on(drain.Seen(len(self._processes), len(self._handler.reading), self._handler.sending))

    def _decide_on(self, event: drain.LeaveAsked | drain.Seen) -> None:
        for action in self._drain.handle(event, self._clock.monotonic()):
            if isinstance(action, drain.StopJobs):
                self.logger.warning("Worker leaves: %s.", action.reason)
                # the address is taken back first, so that no submitter comes to an agent that takes no jobs
                self._when_leaving()
                self._processes.leave(action.reason, action.seconds)
            else:
                self._stopping = True

    def _timeout(self) -> float:
        now = self._clock.monotonic()
        ours = (self._processes, self._leases, self._acceptor, self._metrics, self._drain)
        deadlines = (each.deadline for each in ours)
        return max(0.0, min([now + LOOK_SECONDS, *(deadline for deadline in deadlines if deadline is not None)]) - now)

    def _accept(self, listener: socket.socket, take: Callable[[socket.socket], None]) -> None:
        # bounded, so that a flood of callers leaves turns to jobs
        for _ in range(_MOST_ACCEPTED):
            try:
                visitor, _address = listener.accept()
            except BlockingIOError:
                break
            except OSError as error:
                if error.errno in (errno.EMFILE, errno.ENFILE):  # no descriptor left: the visitor waits in the backlog
                    time.sleep(_PAUSE_SECONDS)
                break
            take(visitor)

    def _settle(self, outcome: Outcome) -> None:
        if isinstance(outcome, Dropped):
            line = f"A visitor from {clean(outcome.peer)} was turned away: {clean(outcome.reason)}"
            for text in self._rate_limit.pass_on(outcome.peer, line):
                self.logger.info("%s", text)
                self._audit.write("turned away", text)
        elif isinstance(outcome, Forwarded):
            run = self._processes.find(outcome.job)
            if run is not None:
                run.pass_on(outcome)
            # the process has ended between the hello and now
            else:
                outcome.sock.close()
        else:
            self._admit(outcome)

    def _admit(self, arrived: Authenticated) -> None:
        peer, hello = arrived.session.link.peer, arrived.hello
        self._audit.write("admitted", f"{peer} as {hello.role}, key {hello.key_id.hex()}")
        # read again: the jobs of this session derive their keys from the key that it has proven
        key = self._keyring().find(hello.key_id)
        if key is None:  # it was removed from the file during the handshake
            arrived.session.close()
        else:
            self._handler.admit(arrived.session, key)

    def _tell_keys(self, text: str) -> None:
        self.logger.info("%s", text)
        self._audit.write("keys", text)

    def close(self) -> None:
        """Stop listening, end all job processes, and let go of everything; idempotent."""
        self._held.close()


def _find_keys(settings: AgentSettings, on_change: Callable[[str], None]) -> KeySource:
    from_environment = take_key_from_environment(os.environ)  # in any case: it must not stay there
    if settings.keyring is not None:
        return KeySource(settings.keyring, None, on_change)
    loopback = is_loopback(settings.listen)
    if settings.key_file is None and from_environment is not None:
        return KeySource(from_environment, None, on_change)
    if settings.key_file is None and not loopback:
        raise NetworkError(
            f"Listening on {settings.listen} needs an explicit key: make one with 'psgd worker --new-key --key-file FILE', "
            f"copy it to every machine, and start with '--key-file FILE'."
        )
    keyring = find_keys(settings.key_file, os.environ, create=loopback)
    return KeySource(keyring, key_file_of(settings.key_file, os.environ), on_change)


def _detach(handler: logging.Handler) -> None:
    logging.getLogger().removeHandler(handler)
    tell_where("")
    with contextlib.suppress(OSError):  # of a full disk, which the log could not tell either
        handler.close()


def _own_address(listen: str) -> str:
    """Return the name of this agent in logs and file names: the host it listens on, or its own address."""
    if listen in ("0.0.0.0", "::", ""):  # noqa: S104  compared, not bound
        try:
            with socket.socket(socket.AF_INET, socket.SOCK_DGRAM) as probe:
                probe.connect(("192.0.2.1", 9))  # no packet is sent; the kernel picks the address it would use
                return str(probe.getsockname()[0])
        except OSError:
            return socket.gethostname()
    return listen.replace(":", "-")


class Cohort:
    """Agent that takes jobs, one after another. `settings` are its port, key, slots and the like; default: `AgentSettings()`.

    >>> cohort = Cohort(AgentSettings(port=0))  # doctest: +SKIP
    >>> cohort.slave_forever()  # doctest: +SKIP
    """

    def __init__(self, settings: AgentSettings | None = None) -> None:
        self._agent = Agent(settings or AgentSettings())

    @property
    def address(self) -> Address:
        return self._agent.address

    def slave_forever(self) -> None:
        """Serve until `stop` is called (from another thread or a signal handler), then end all jobs."""
        try:
            self._agent.serve_forever()
        finally:
            self._agent.close()

    def stop(self) -> None:
        self._agent.stop()
