"""Who has started this agent, if it was not a person: what follows for its settings, and who is told where it listens."""

from __future__ import annotations

import contextlib
import time
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from network.nodes import DEFAULT_PORT, Address

from ..allocation import Allocation, AllocationError, allocation_of, shared_folder
from ..registration import Registration, RegistrationError, registered
from .settings import SettingsError, state_directory

GRACE_SECONDS = 25.0  # of the 30 s that Slurm and Kubernetes wait by default before they kill
_ANYWHERE = ("0.0.0.0", "::")  # noqa: S104  compared, not bound


@dataclass(frozen=True)
class Origin:
    """`allocation`: the place that a batch system gave it; `folder`: where it registers; `advertise`: the host that it tells
    there, "" to find out; `grace`: seconds for running jobs when it is told to go, 0 for none."""

    allocation: Allocation | None
    folder: Path | None
    advertise: str
    grace: float

    @property
    def defaults(self) -> dict[str, Any]:
        """Settings that hold unless somebody says otherwise. A rank that is started anew finds its jobs again."""
        if self.allocation is None:
            return {}
        found: dict[str, Any] = {"port": DEFAULT_PORT if self.allocation.system == "kubernetes" else 0}
        if self.allocation.name:
            found["work_dir"] = str(state_directory() / self.allocation.name)
        return found

    @contextlib.contextmanager
    def registered(self, address: Address, slots: int, hostname: str) -> Iterator[None]:
        """Be registered in the folder, if there is one, for as long as the block lasts.

        Raises: SettingsError.
        """
        if self.allocation is None or self.folder is None:
            yield
            return
        place = self.allocation
        host = self.advertise or (place.host if address.host in _ANYWHERE else address.host)
        told = Address(host, address.port)
        try:
            one = Registration(place.system, place.run, place.rank, place.size, str(told), slots, hostname, time.time())
            with registered(self.folder, one):
                yield
        except RegistrationError as error:
            raise SettingsError(str(error)) from error


def origin_of(
    *,
    system: str | None,
    rendezvous: str | None,
    advertise: str | None,
    grace: float | None,
    environ: Mapping[str, str],
    hostname: str,
) -> Origin:
    """What the command line (None: not given), the environment and the machine's own name say.

    Raises: SettingsError naming the option or variable, the expectation and what came.
    """
    if grace is not None and not 0 <= grace < float("inf"):
        raise SettingsError(f"--grace must be a number of seconds of 0 or more, got {grace:g}.")
    if system is None:
        for option, value in (("--rendezvous", rendezvous), ("--advertise", advertise)):
            if value is not None:
                raise SettingsError(f"{option} needs --from, which tells who this worker is, got {value!r} alone.")
        return Origin(None, None, "", grace or 0.0)
    try:
        allocation = allocation_of(system, environ, hostname)
    except AllocationError as error:
        raise SettingsError(str(error)) from error
    found = Path(rendezvous) if rendezvous else shared_folder(system, environ, Path.home())
    if found is None and system != "kubernetes":  # whose DNS knows all pods
        raise SettingsError(f"--from {system} needs --rendezvous DIR, a folder that all machines and the submitter share.")
    return Origin(allocation, found, advertise or "", GRACE_SECONDS if grace is None else grace)
