"""Hosts from a program that prints them."""

from __future__ import annotations

import contextlib
import os
import signal
import subprocess
import threading
from pathlib import Path

from .discovery import Discovery, DiscoveryError, FileDiscovery, FunctionDiscovery
from .folder import FolderDiscovery
from .hosts import Host, parse_hosts

LIMIT_SECONDS = 10.0  # for one run of the script


class ScriptDiscovery:
    """Runs a program that prints a line `host[:port] [slots=n]` for each host.

    Each run may take `limit` seconds; then it is killed with all processes it has started.
    Raises: ValueError unless limit > 0.
    """

    def __init__(self, path: str | os.PathLike[str], limit: float = LIMIT_SECONDS) -> None:
        if not limit > 0:
            raise ValueError(f"ScriptDiscovery 'limit' must be a number of seconds > 0, got {limit}.")
        self._command = [str(Path(path).absolute())]
        self._limit = limit
        self._lock = threading.Lock()
        self._process: subprocess.Popen[bytes] | None = None
        self._closed = False

    def find(self) -> list[Host]:
        """What the script prints now.

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
            if process.returncode is None:
                _kill_group(process)
            self._process = None
        with process:  # closes the pipes and waits
            pass


def discovery_of(value: object, key_file: str | Path | None = None) -> Discovery:
    """The discovery that a user means: a folder in which agents register, a `.json` node file, another path (a script), a
    function, or a Discovery. Agents of a folder must hold the key in `key_file`.

    Raises: ValueError for a path that is none of these, TypeError for anything else.
    """
    if isinstance(value, Discovery):
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
