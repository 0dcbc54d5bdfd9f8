"""Agents on other machines, started by the system's ssh client for as long as a program needs them."""

from __future__ import annotations

import contextlib
import os
import re
import select
import shlex
import subprocess
import time
from collections.abc import Sequence
from pathlib import Path
from typing import IO

from network.errors import NetworkError, TimedOut
from network.key_files import create_key_file, load_key_file
from network.keys import format_keyring
from network.nodes import Address, is_loopback

from ..support.files import private
from ..support.logs import SUBMIT_LOGGER, clean, get_logger
from ..support.temporary import TemporaryFolder
from .launcher import KeyFile, Launcher, Offer, agent_options, checked_count, checked_limit

START_SECONDS = 60.0  # for all machines to be reached, and for their agents to listen
MOST_SAID = 64 << 10  # bytes on the way to the address
END_SECONDS = 8.0  # for all agents to end their jobs and leave
ASK_SECONDS = 5.0  # for the client to say which host a name stands for
LOGS = "Launch-Logs"
_HOST = re.compile(r"([A-Za-z0-9_][A-Za-z0-9._-]*@)?[A-Za-z0-9:][A-Za-z0-9._:%-]*")  # no option of ssh looks like this
_OPTIONS = ("-T", "-o", "BatchMode=yes", "-o", "ServerAliveInterval=5", "-o", "ServerAliveCountMax=3")
_log = get_logger(SUBMIT_LOGGER)


class SSHLauncher(Launcher):
    """Launcher of an agent on each of `hosts`; a host that stands there twice gets two.

    An agent listens on a free port, works in a temporary directory, and ends when its connection does, however that happens.
    The key is sent through the connection; no command line holds it, and no disk of the other machine.

    Args:
        hosts: `[user@]host` of each.
        worker_command: command that starts `psgd worker` there, for the user's shell there.
        ssh_command: the client and options of it; it must ask for no password.
        key_file: the key; default one that is made now and removed by `close`.
        slots: jobs that an agent may run at once.
        logs: folder on this machine with a log for each agent, to which its lines come as soon as they are written.
        limit: seconds for everything to come up in `start`.
    """

    lasting = False

    def __init__(
        self,
        hosts: Sequence[str],
        *,
        worker_command: str = "psgd-worker",
        ssh_command: Sequence[str] = ("ssh",),
        key_file: KeyFile = None,
        slots: int = 1,
        logs: str | Path = LOGS,
        limit: float = START_SECONDS,
    ) -> None:
        for host in hosts:
            if not _HOST.fullmatch(host):
                raise ValueError(f"A host of SSHLauncher must be 'host' or 'user@host', got {host!r}.")
        if not hosts or not ssh_command:
            raise ValueError(f"SSHLauncher needs hosts and a client, got {list(hosts)} and {list(ssh_command)}.")
        self.key_file, self._limit = key_file, checked_limit("SSHLauncher", limit)
        self._hosts, self._slots, self._logs = list(hosts), slots, Path(logs)
        self._worker_command, self._ssh_command = worker_command, list(ssh_command)
        self._held = contextlib.ExitStack()
        self._agents: list[_RemoteAgent] = []

    def start(self, count: int) -> list[Address]:
        """Start agents on the first `count` hosts.

        Raises: ValueError when there are not so many; TimedOut, NetworkError naming the host and the last output of its client.
        """
        checked_count("ssh launcher", count)
        if count > len(self._hosts):
            raise ValueError(f"{count} agents need as many hosts, got {len(self._hosts)}: {', '.join(self._hosts)}.")
        # one limit for all: the machines start at the same time
        deadline = time.monotonic() + self._limit
        try:
            key = self._key()
            self._logs.mkdir(parents=True, exist_ok=True)
            # before the first is started, so that a failure half-way ends those that are
            self._held.callback(self._end)
            # all are started before the first is waited for
            for number, host in enumerate(self._hosts[:count]):
                log = self._logs / f"{number}-{host}.log"
                # the client's configuration may give it another name, by which this machine has to call, too
                address = _looked_up(host, self._ssh_command)
                self._agents.append(_RemoteAgent(host, address, log, self._command(host, address), key))
            return [agent.await_address(deadline, self._limit) for agent in self._agents]
        except OSError as error:
            self.close()
            raise NetworkError(f"The agents cannot be started: {error}") from error
        except BaseException:
            self.close()
            raise

    def discover(self) -> list[str]:
        return [f"{agent.address} slots={self._slots}" for agent in self._agents if agent.lives]

    def close(self) -> None:
        self._held.close()

    def _key(self) -> str:
        """Return the text of the key file, which is made if there is none."""
        if self.key_file is None:
            self.key_file = self._held.enter_context(TemporaryFolder()) / "key"
            create_key_file(self.key_file)
        return format_keyring(load_key_file(self.key_file))

    def _command(self, host: str, address: str) -> list[str]:
        options = agent_options(_listen_at(address), self._slots, "INFO", "--key-stdin", "--announce", "-", "--temporary")
        return [*self._ssh_command, *_OPTIONS, host, f"{self._worker_command} {shlex.join(options)}"]

    def _end(self) -> None:
        deadline = time.monotonic() + END_SECONDS
        # all are told before the first is waited for
        for agent in self._agents:
            agent.let_go()
        for agent in self._agents:
            agent.end(deadline)
        self._agents.clear()


class _RemoteAgent:
    """Client of ssh, and the agent at its other end."""

    def __init__(self, host: str, address: str, log: Path, command: Sequence[str], key: str) -> None:
        self._host, self._resolved, self._log, self._listen = host, address, log, _listen_at(address)
        self.address: Address | None = None
        # nobody else may read what a job prints
        with open(log, "wb", opener=private) as file:
            self._process = subprocess.Popen(
                # a session of its own: Ctrl-C is for this program, which then ends them in order
                command,
                stdin=subprocess.PIPE,
                stdout=subprocess.PIPE,
                stderr=file,
                start_new_session=True,
            )
        with contextlib.suppress(BrokenPipeError):  # it has failed already; `await_address` says how
            _pipe(self._process.stdin).write(f"{key}\n".encode("ascii"))
            _pipe(self._process.stdin).flush()

    @property
    def lives(self) -> bool:
        return self.address is not None and self._process.poll() is None

    def await_address(self, deadline: float, limit: float) -> Address:
        """Wait for the agent's own report of its port; the host is that by which its machine was called.

        Other output of the shell there, as a greeting of a login script, is read over.
        """
        said, stdout = b"", _pipe(self._process.stdout).fileno()
        while (port := self._announced(said)) is None:
            # a login script that prints without end
            if len(said) > MOST_SAID:
                raise NetworkError(
                    f"The worker command on {self._host} went on without an address{self._shown(_whole_lines(said))}."
                )
            left = deadline - time.monotonic()
            if left <= 0 or not select.select([stdout], [], [], left)[0]:
                raise TimedOut(f"the agent on {self._host} to listen{self._shown(said)}{self._last_words()}", limit)
            part = os.read(stdout, 4096)
            if not part:
                code = self._process.wait()
                words = f"exit code {code}{self._shown(said)}{self._last_words()}"
                raise NetworkError(f"The agent on {self._host} did not start, {words}")
            said += part
        # its port is free at random; the host is the one by which it was called, not 0.0.0.0
        self.address = Address(self._resolved, port)
        return self.address

    def _announced(self, said: bytes) -> int | None:
        """Find the port in the line that ends with the address on which the agent was told to listen."""
        # a port that was cut would be another port
        *lines, _unfinished = said.decode("ascii", "replace").split("\n")
        at = re.escape(str(Address(self._listen, 0))[:-1])
        # not in the middle of a longer address or number
        found = (re.search(rf"(?<![\w.:]){at}(\d{{1,5}})\s*$", line) for line in lines)
        return next((int(match[1]) for match in found if match), None)

    @staticmethod
    def _shown(said: bytes) -> str:
        lines = said.decode("utf-8", "replace").strip().splitlines()
        return f" (what it printed ends with {clean(lines[-1])!r:.200}, no address of an agent)" if lines else ""

    def _last_words(self) -> str:
        lines = self._log.read_text("utf-8", "replace").strip().splitlines()
        return f": {clean(lines[-1])}" if lines else "."

    def let_go(self) -> None:
        """Close the agent's input, which tells it that we are gone."""
        with contextlib.suppress(OSError):
            _pipe(self._process.stdin).close()

    def end(self, deadline: float) -> None:
        """Wait for the client's end, which is the agent's; one that hangs is killed, and its agent ends with the connection."""
        # one that never came up has nothing to end in order
        if self.address is not None:
            with contextlib.suppress(subprocess.TimeoutExpired):
                self._process.wait(max(0.0, deadline - time.monotonic()))
            if self._process.poll() is None:
                _log.warning("The agent on %s has not ended in time; its connection is cut.", self._host)
        if self._process.poll() is None:
            self._process.kill()
            self._process.wait()
        _pipe(self._process.stdout).close()


def _listen_at(address: str) -> str:
    """Return the address on which an agent of a machine listens that is called by `address`."""
    return address if is_loopback(address) else "::" if ":" in address else "0.0.0.0"  # noqa: S104  with a key of its own


def _looked_up(host: str, ssh_command: Sequence[str]) -> str:
    """Return the name or IP address that the configuration of ssh has for `host`, which may be a nickname."""
    with contextlib.suppress(OSError, subprocess.TimeoutExpired):
        # without a connection: `-G` prints the configuration
        told = subprocess.run(
            [*ssh_command, "-G", host], stdin=subprocess.DEVNULL, capture_output=True, timeout=ASK_SECONDS, check=False
        )
        for line in told.stdout.decode(errors="replace").splitlines() if told.returncode == 0 else ():
            name, _, value = line.partition(" ")
            if name == "hostname" and value.strip():
                return value.strip()
    return host.rpartition("@")[2]


def _whole_lines(said: bytes) -> bytes:
    """Return a text without its last line, which was cut where reading ended, unless there is no other one."""
    return said[: said.rfind(b"\n") + 1] or said


def _pipe(stream: IO[bytes] | None) -> IO[bytes]:
    if stream is None:
        raise ValueError("The process was started without this pipe.")
    return stream


def offer(where: str, key_file: KeyFile, wait: float | None) -> Offer:
    """Offer `ssh:host1,user@host2`; `$PSGD_SSH` is the client with its options, `$PSGD_SSH_WORKER` the command on the other
    side.
    """
    hosts = [host.strip() for host in where.split(",") if host.strip()]
    if not hosts:
        raise ValueError(f"The launcher 'ssh' needs hosts, as in ssh:host1,user@host2, got {where!r}.")
    made = SSHLauncher(
        hosts,
        worker_command=os.environ.get("PSGD_SSH_WORKER") or "psgd-worker",
        ssh_command=shlex.split(os.environ.get("PSGD_SSH") or "ssh"),
        key_file=key_file,
        limit=START_SECONDS if wait is None else wait,
    )
    return Offer(made, len(hosts))
