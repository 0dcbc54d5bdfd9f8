"""Hosts from a program that prints them, and from the folder in which agents of a batch system register."""

from __future__ import annotations

import contextlib
import os
import signal
import socket
import subprocess
import threading
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path

from network.clock import Clock, SystemClock
from network.dial import Target, dial_all
from network.errors import NetworkError
from network.key_files import find_keys
from network.keys import Key
from network.nodes import Address, is_loopback
from network.session import Session

from ..agent.registration import Registration, registrations
from ..support.logs import clean, get_logger
from .discovery import Discovery, DiscoveryError, FileDiscovery, FunctionDiscovery
from .hosts import Host, parse_hosts

LIMIT_SECONDS = 10.0  # for one run of the script


class ScriptDiscovery(Discovery):
    """Hosts from a program that prints a line `host[:port] [slots=n]` for each.

    Args:
        path: of the program.
        limit: seconds for each run; then it is killed with all processes it has started.

    Raises: ValueError unless limit > 0.
    """

    def __init__(self, path: str | os.PathLike[str], limit: float = LIMIT_SECONDS) -> None:
        if not limit > 0:
            raise ValueError(f"ScriptDiscovery 'limit' must be a number of seconds > 0, got {limit}.")
        self._command = [str(Path(path).absolute())]
        self._limit = limit
        # between `find` in the helper thread and `close` in any other
        self._lock = threading.Lock()
        self._process: subprocess.Popen[bytes] | None = None
        self._closed = False

    def find(self) -> list[Host]:
        """Run the script for the hosts of now.

        Raises: DiscoveryError when it cannot be run, ends with another exit code than 0, hangs, or prints something else.
        """
        name = self._command[0]
        process = self._start()
        try:
            output, errors = process.communicate(timeout=self._limit)
        except subprocess.TimeoutExpired:
            raise DiscoveryError(f"The script {name} did not end within {self._limit:g} s and was killed.") from None
        finally:
            self._end(process)
        if process.returncode:
            said = errors.decode(errors="replace").strip().splitlines()
            last = f": {said[-1]}" if said else "."
            raise DiscoveryError(f"The script {name} ended with exit code {process.returncode}{last}")
        try:
            return parse_hosts(output.decode())
        except ValueError as error:  # UnicodeDecodeError is one
            raise DiscoveryError(f"The script {name} printed what is no list of hosts. {error}") from error

    def close(self) -> None:
        """Kill the run that is going on; another one is refused."""
        with self._lock:
            self._closed = True
            if self._process is not None and self._process.returncode is None:
                _kill_group(self._process)

    def _start(self) -> subprocess.Popen[bytes]:
        with self._lock:
            if self._closed:
                raise DiscoveryError(f"The script {self._command[0]} is not run any more.")
            try:
                self._process = subprocess.Popen(
                    self._command,
                    stdin=subprocess.DEVNULL,
                    stdout=subprocess.PIPE,
                    stderr=subprocess.PIPE,
                    start_new_session=True,  # a group of its own, to be killed as a whole
                )
            except OSError as error:
                raise DiscoveryError(f"The script {self._command[0]} cannot be run: {error.strerror or error}.") from error
            return self._process

    def _end(self, process: subprocess.Popen[bytes]) -> None:
        """Leave no process, pipe or zombie of this run behind."""
        with self._lock:
            # under the lock, before it is waited for: until then its number cannot be another's
            if process.returncode is None:
                _kill_group(process)
            self._process = None
        with process:  # closes the pipes and waits
            pass


def discovery_of(value: object, key_file: str | Path | None = None) -> Discovery:
    """Make the discovery that a user means.

    Args:
        value: a folder in which agents register, a `.json` node file, another path (a script), a function, or a Discovery.
        key_file: the key that agents of a folder must hold, unless it names one of its own.

    Raises: ValueError for a path that is none of these, TypeError for anything else.
    """
    # before paths and functions: an object may be callable, too
    if isinstance(value, Discovery):
        if isinstance(value, FolderDiscovery) and value.key_file is None:
            value.key_file = key_file
        return value
    if isinstance(value, (str, os.PathLike)):
        if os.path.isdir(value):  # Path.is_dir raises for a name that is too long
            return FolderDiscovery(value, key_file)
        if Path(value).suffix == ".json":
            return FileDiscovery(value)
        if not os.path.isfile(value) or not os.access(value, os.X_OK):
            raise ValueError(f"'discovery' must be a program that may be run, a .json node file or a folder, got '{value}'.")
        return ScriptDiscovery(value)
    if callable(value):
        return FunctionDiscovery(value)
    raise TypeError(f"'discovery' must be the path of a script, a .json node file or a folder, or a function, got {value!r}.")


def _kill_group(process: subprocess.Popen[bytes]) -> None:
    with contextlib.suppress(ProcessLookupError):  # it has just ended by itself
        os.killpg(process.pid, signal.SIGKILL)


class FolderDiscovery(Discovery):
    """Hosts from agents that are registered in a folder and answer; those that come and go are seen at the next look.

    Args:
        folder: the folder.
        key_file: the key that the agents must hold; None for the usual places.
    """

    def __init__(self, folder: str | os.PathLike[str], key_file: str | Path | None = None) -> None:
        self.folder = Path(folder)
        self.key_file = key_file
        self._living: ReachableAgents | None = None

    def living(self) -> list[Registration]:
        """Return the agents that are registered and answer, by rank.

        Raises: DiscoveryError when the folder or the key cannot be read.
        """
        try:
            if self._living is None:
                key_file = Path(self.key_file) if self.key_file else None
                # the key is read at the first look, not when a job is described
                self._living = ReachableAgents(find_keys(key_file, os.environ, create=False).offered)
            return self._living.among(registrations(self.folder))
        except OSError as error:
            raise DiscoveryError(f"The folder {self.folder} cannot be used: {error.strerror or error}.") from error
        except NetworkError as error:
            raise DiscoveryError(f"The folder {self.folder} cannot be used: {error}") from error

    @property
    def silent(self) -> dict[str, str]:
        """Agents that were registered at the last look and do not answer, and why."""
        return {} if self._living is None else self._living.silent

    def find(self) -> list[Host]:
        """Return the hosts of the agents that live.

        Raises: DiscoveryError.
        """
        return parse_hosts("\n".join(one.line for one in self.living()))


CALL_SECONDS = 2.0
_FIRST_PAUSE, _LONGEST_PAUSE = 0.5, 30.0
Dial = Callable[[Mapping[int, Target], float], tuple[dict[int, Session], dict[int, NetworkError]]]

_log = get_logger(__name__)


class ReachableAgents:
    """Caller of registered agents, once each; a silent one is called again after a while, which doubles up to 30 s.

    So the registration of a killed agent costs little, and an agent that starts slowly is found. An agent that has answered
    counts as living for as long as it is registered: that it dies later, the failure detector finds out.

    Args:
        key: the cluster's key.
        clock: of the pauses; default: the system's.
        dial: calls several agents at once.
    """

    def __init__(self, key: Key, clock: Clock | None = None, dial: Dial = dial_all) -> None:
        self._key, self._clock, self._dial = key, clock or SystemClock(), dial
        self._answered: set[Registration] = set()
        self._silent: dict[Registration, tuple[float, float, str]] = {}  # when to call again, the pause, why it is silent

    @property
    def silent(self) -> dict[str, str]:
        return {one.name: reason for one, (_, _, reason) in self._silent.items()}

    def among(self, registered: Sequence[Registration]) -> list[Registration]:
        """Return the agents of `registered` that live, in the same order."""
        known = set(registered)
        # an agent that was started anew has another registration, by its time, and is called again
        self._answered &= known
        self._silent = {one: state for one, state in self._silent.items() if one in known}
        now = self._clock.monotonic()
        to_call = [one for one in registered if one not in self._answered and self._silent.get(one, (now,))[0] <= now]
        self._call([one for one in to_call if not self._is_elsewhere(one, now)])
        return [one for one in registered if one in self._answered]

    def _is_elsewhere(self, one: Registration, now: float) -> bool:
        """Tell if the agent listens for its own machine only, and that is another one."""
        address = Address.parse(one.address)
        if not is_loopback(address.host) or one.host == socket.gethostname():
            return False
        self._is_silent(one, now, f"it listens on {address} of {clean(one.host)} only; start it with --listen 0.0.0.0")
        return True

    def _call(self, registered: Sequence[Registration]) -> None:
        targets = {
            number: Target(Address.parse(one.address), self._key, "submitter", "agent") for number, one in enumerate(registered)
        }
        if not targets:
            return
        # all at once, within two seconds in all
        sessions, errors = self._dial(targets, CALL_SECONDS)
        for number, session in sessions.items():
            session.close()
            self._answered.add(registered[number])
            self._silent.pop(registered[number], None)
        now = self._clock.monotonic()
        for number, error in errors.items():
            self._is_silent(registered[number], now, str(error))

    def _is_silent(self, one: Registration, now: float, reason: str) -> None:
        if one not in self._silent:
            # once: a registration without its agent may lie there for days
            _log.info("The registration %s is left out: %s", one.name, clean(reason))
        # half, as it is doubled right away
        _, pause, _ = self._silent.get(one, (0.0, _FIRST_PAUSE / 2, ""))
        pause = min(2 * pause, _LONGEST_PAUSE)
        self._silent[one] = (now + pause, pause, reason)
