"""Environment of agents that a program or a scheduler has started: their settings, their key, and their registration."""

from __future__ import annotations

import contextlib
import os
import time
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from network.keys import Keyring, parse_keyring
from network.nodes import DEFAULT_PORT, Address

from ..errors import SettingsError
from ..support.files import published
from ..support.temporary import TemporaryFolder
from .registration import Allocation, Registration, allocation_of, registered, shared_folder
from .settings import state_directory

GRACE_SECONDS = 25.0  # of the 30 s that Slurm and Kubernetes wait by default before they kill
_ANYWHERE = ("0.0.0.0", "::")  # noqa: S104  compared, not bound


@dataclass(frozen=True)
class SchedulerEnvironment:
    """Environment of an agent.

    Args:
        allocation: the place that a batch system gave it.
        folder: the folder in which it registers.
        advertise: the host to register, "" to find out.
        grace: seconds for running jobs when it is told to go, 0 for none.
    """

    allocation: Allocation | None
    folder: Path | None
    advertise: str
    grace: float

    @property
    def defaults(self) -> dict[str, Any]:
        """Settings that hold unless the user gives others. A rank that is started anew finds its jobs again."""
        if self.allocation is None:
            return {}
        # in a pod nobody else has ports, and peers know it by DNS, without a port; elsewhere two ranks may share a host
        found: dict[str, Any] = {"port": DEFAULT_PORT if self.allocation.system == "kubernetes" else 0}
        if self.allocation.name:
            # by rank, not by port, which a restart changes
            found["work_dir"] = str(state_directory() / self.allocation.name)
        return found

    @contextlib.contextmanager
    def registered(self, address: Address, slots: int, hostname: str) -> Iterator[None]:
        """Register in the folder, if there is one, for as long as the block lasts.

        Raises: SettingsError.
        """
        if self.allocation is None or self.folder is None:
            yield
            return
        place = self.allocation
        # an address to listen on everywhere is none to call
        host = self.advertise or (place.host if address.host in _ANYWHERE else address.host)
        told = Address(host, address.port)
        one = Registration(place.system, place.run, place.rank, place.size, str(told), slots, hostname, time.time())
        with registered(self.folder, one):
            yield


def scheduler_environment(
    *,
    system: str | None,
    rendezvous: str | None,
    advertise: str | None,
    grace: float | None,
    environ: Mapping[str, str],
    hostname: str,
) -> SchedulerEnvironment:
    """Read the options of the command line (None: not given), the environment and the machine's own name.

    Args:
        system: the scheduler (`--from`).
        rendezvous: the folder to register in (`--rendezvous`); default: `shared_folder`.
        advertise: the address to register (`--advertise`).
        grace: seconds that jobs get at SIGTERM (`--grace`); default: `GRACE_SECONDS` with a scheduler, else 0.
        environ: the environment.
        hostname: the machine's own name.

    Raises: SettingsError naming the option or variable, the expectation and its value.
    """
    if grace is not None and not 0 <= grace < float("inf"):
        raise SettingsError(f"--grace must be a number of seconds of 0 or more, got {grace:g}.")
    if system is None:
        for option, value in (("--rendezvous", rendezvous), ("--advertise", advertise)):
            if value is not None:
                raise SettingsError(f"{option} needs --from, which tells who this worker is, got {value!r} alone.")
        return SchedulerEnvironment(None, None, "", grace or 0.0)
    allocation = allocation_of(system, environ, hostname)
    found = Path(rendezvous) if rendezvous else shared_folder(system, environ, Path.home())
    if found is None and system != "kubernetes":  # whose DNS knows all pods
        raise SettingsError(f"--from {system} needs --rendezvous DIR, a folder that all machines and the submitter share.")
    return SchedulerEnvironment(allocation, found, advertise or "", GRACE_SECONDS if grace is None else grace)


STDOUT = "-"
_MOST_KEY_BYTES = 4096


def read_keys(descriptor: int) -> Keyring:
    """Read the keys that the program which started this agent sends: the text of a key file and an empty line.

    Raises: KeyFileError.
    """
    text = b""
    # not to the end of the stream: the parent keeps it open, and its end is the order to end
    while not text.endswith(b"\n\n") and len(text) < _MOST_KEY_BYTES and (part := os.read(descriptor, _MOST_KEY_BYTES)):
        text += part
    # replaced: the parser refuses it, and tells nothing of the text
    return parse_keyring(text.decode("ascii", "replace"), "Standard input")


@contextlib.contextmanager
def temporary_directory(parent: str | None = None) -> Iterator[str]:
    """Make a directory of our own in `parent`, by default the place of temporary files, which goes with the block."""
    folder = TemporaryFolder("agent", parent)
    with folder as path:
        yield str(path)


@contextlib.contextmanager
def announced(path: str | None, address: str, say: Callable[[str], object]) -> Iterator[None]:
    """Keep `address` in the file `path`, which appears with its whole content, for as long as the block lasts.

    With the path `-` it is given to `say` once instead. Raises: SettingsError when it cannot be written.
    """
    if path is None or path == STDOUT:
        if path == STDOUT:
            say(f"{address}\n")
        yield
        return
    with contextlib.ExitStack() as until:
        try:
            until.enter_context(published(Path(path), f"{address}\n"))
        except OSError as error:
            raise SettingsError(f"--announce must name a file that can be written, got {path!r}: {error.strerror}.") from error
        yield
