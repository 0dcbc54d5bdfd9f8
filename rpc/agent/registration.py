"""Agents that a batch system has started: the rank of each, and the shared folder in which they register their addresses."""

from __future__ import annotations

import contextlib
import json
import re
from collections.abc import Callable, Iterator, Mapping
from dataclasses import asdict, dataclass
from pathlib import Path
from types import MappingProxyType
from typing import NamedTuple

from network.nodes import Address

from ..errors import SettingsError
from ..support.files import parsed, published, read_regular

MAX_SLOTS = 4096  # of one host; more is a slip of the pen
_SUFFIX = ".agent.json"
_MOST_BYTES = 4096
_NAME = re.compile(r"[A-Za-z0-9][A-Za-z0-9._-]{0,127}")


@dataclass(frozen=True)
class Registration:
    """Registration of an agent: its `rank` among the `size` (0: unknown) of the `run` that `system` started.

    `host` is the name of its machine, `address` where it can be called, `slots` how many jobs it runs at once; `started` is in
    seconds since 1970.
    """

    system: str
    run: str
    rank: int
    size: int
    address: str
    slots: int
    host: str
    started: float

    def __post_init__(self) -> None:
        whole = all(type(number) is int for number in (self.rank, self.size, self.slots)) and type(self.started) is float
        texts = all(type(text) is str for text in (self.system, self.run, self.address, self.host))
        # a file in a shared folder: anything may stand in it
        if not (whole and texts and 0 <= self.rank < (self.size or self.rank + 1) and 1 <= self.slots <= MAX_SLOTS):
            raise SettingsError(f"A registration needs texts, 0 <= rank < size and 1 to {MAX_SLOTS} slots, got {self!r:.300}.")
        # it becomes the name of a file
        if not _NAME.fullmatch(self.name):
            raise SettingsError(f"The name of a run must be letters, digits, '.', '_' and '-', got {self.run[:80]!r}.")
        Address.parse(self.address)

    @property
    def name(self) -> str:
        """Name of this agent, the same after it was started anew."""
        return "-".join(part for part in (self.system, self.run, str(self.rank)) if part)

    @property
    def line(self) -> str:
        """Line that describes the agent to a discovery."""
        return f"{self.address} slots={self.slots}"


@contextlib.contextmanager
def registered(folder: Path, registration: Registration) -> Iterator[None]:
    """Keep `registration` in `folder`, which is made if it is missing, for as long as the block lasts.

    An agent that replaces the file meanwhile (the same rank, started anew) keeps it.

    Raises: SettingsError when it cannot be written.
    """
    path = folder / f"{registration.name}{_SUFFIX}"
    with contextlib.ExitStack() as until:
        try:
            folder.mkdir(mode=0o700, parents=True, exist_ok=True)
            until.enter_context(published(path, json.dumps(asdict(registration)) + "\n", 0o644))
        except OSError as error:
            raise SettingsError(f"The agent cannot be registered in {folder}: {error.strerror or error}.") from error
        yield


def registrations(folder: Path) -> list[Registration]:
    """List the registrations in `folder`, by rank, the newest first where ranks are equal; of one address only the newest.

    Other files are left out: one may be half of a registration that another machine is about to replace.

    Raises: OSError when the folder cannot be read; a folder that does not exist yet is empty.
    """
    found: dict[Address, Registration] = {}
    try:
        # sorted, so that all readers agree on the order
        paths = sorted(folder.iterdir())
    except FileNotFoundError:
        return []
    for path in paths:
        if path.name.endswith(_SUFFIX) and not path.name.startswith("."):
            with contextlib.suppress(OSError, ValueError, TypeError):
                read = _read(path)
                address = Address.parse(read.address)
                # an agent that was killed leaves its file, and its port goes to another rank
                if address not in found or found[address].started < read.started:
                    found[address] = read
    return sorted(found.values(), key=lambda one: (one.rank, -one.started, one.name))


def _read(path: Path) -> Registration:
    return Registration(**parsed(json.loads, read_regular(path, _MOST_BYTES)))


_STRANGE = re.compile(r"[^A-Za-z0-9._-]+")
_MPI_RANKS = (
    ("OMPI_COMM_WORLD_RANK", "OMPI_COMM_WORLD_SIZE"),  # Open MPI
    ("PMI_RANK", "PMI_SIZE"),  # MPICH, Intel MPI
    ("MV2_COMM_WORLD_RANK", "MV2_COMM_WORLD_SIZE"),  # MVAPICH
)
_MPI_RUNS = ("PMIX_NAMESPACE", "SLURM_JOB_ID", "PBS_JOBID", "LSB_JOBID")


class Allocation(NamedTuple):
    """Place of a process: its `rank` among `size` (0: unknown) of one `run` of `system`; `host` is the name by which others
    reach its machine.

    `job` is the scheduler's name of the whole job: it is told to the submitter too, where that runs inside the job.
    """

    system: str
    run: str
    rank: int
    size: int
    host: str
    job: str = ""

    @property
    def name(self) -> str:
        """Name that is the same for the same rank when the scheduler starts the job anew; "" where nothing tells runs apart."""
        return f"{self.system}-{self.run}-{self.rank}" if self.run else ""


def allocation_of(system: str, environ: Mapping[str, str], hostname: str) -> Allocation:
    """Read the place of this process.

    Args:
        system: a key of `SYSTEMS`.
        environ: the environment.
        hostname: the name that the machine has for itself.

    Raises: SettingsError naming the variable, the expectation and its value.
    """
    if system not in SYSTEMS:
        raise SettingsError(f"--from must be one of {', '.join(SYSTEMS)}, got {system!r}.")
    return SYSTEMS[system](environ, hostname)


def shared_folder(system: str, environ: Mapping[str, str], home: Path) -> Path | None:
    """Return the folder in which agents of this job register by default.

    It is `$PSGD_RENDEZVOUS`, or under Slurm a folder in the user's home, which all machines of a cluster share, named after the
    job. None where neither can be had.
    """
    named = environ.get("PSGD_RENDEZVOUS")
    if named:
        return Path(named)
    job = environ.get("SLURM_JOB_ID", "") if system == "slurm" else ""
    return home / ".local" / "state" / "psgd" / "rendezvous" / f"slurm-{_STRANGE.sub('-', job)}" if job else None


def _slurm(environ: Mapping[str, str], hostname: str) -> Allocation:
    job, step = environ.get("SLURM_JOB_ID", ""), environ.get("SLURM_STEP_ID", "0")
    rank, size = _rank(environ, "SLURM_PROCID", "slurm"), _number(environ, "SLURM_NTASKS", 0)
    size = _number(environ, "SLURM_STEP_NUM_TASKS", size)  # of this srun, which may have fewer than the job
    run = _STRANGE.sub("-", f"{job}.{step}") if job else ""
    # the name that Slurm has for the machine: by it the others reach it
    return _checked(Allocation("slurm", run, rank, size, environ.get("SLURMD_NODENAME") or hostname, job))


def _mpi(environ: Mapping[str, str], hostname: str) -> Allocation:
    for rank, size in _MPI_RANKS:
        if rank in environ:
            run = next((environ[name] for name in _MPI_RUNS if environ.get(name)), "")
            # it becomes a part of file names
            run = _STRANGE.sub("-", run).strip("-")
            return _checked(Allocation("mpi", run, _rank(environ, rank, "mpi"), _number(environ, size, 0), hostname))
    names = ", ".join(rank for rank, _ in _MPI_RANKS)
    raise SettingsError(f"--from mpi needs one of {names}, which mpiexec sets: start with 'mpiexec -n 4 psgd worker ...'.")


def _kubernetes(environ: Mapping[str, str], hostname: str) -> Allocation:
    """Read the number of a pod: an Indexed Job sets JOB_COMPLETION_INDEX; the pods of a StatefulSet end in their number."""
    name, _, ordinal = hostname.partition(".")[0].rpartition("-")
    found = next((environ[key] for key in ("JOB_COMPLETION_INDEX", "POD_INDEX") if environ.get(key)), ordinal)
    if not (found.isascii() and found.isdigit()):
        raise SettingsError(
            "--from kubernetes needs JOB_COMPLETION_INDEX (an Indexed Job), POD_INDEX, or a host name that ends in the pod's "
            f"number (a StatefulSet), got the host name {hostname!r}."
        )
    # no size: a pod is not told how many there are
    return Allocation("kubernetes", _STRANGE.sub("-", name), int(found), 0, environ.get("POD_IP") or hostname)


def _rank(environ: Mapping[str, str], name: str, system: str) -> int:
    if name not in environ:
        raise SettingsError(f"--from {system} needs {name}, which the scheduler sets for each process that it starts.")
    return _number(environ, name, 0)


def _number(environ: Mapping[str, str], name: str, default: int) -> int:
    text = environ.get(name, "")
    if not text:
        return default
    # `isdigit` alone takes digits of other scripts
    if not (text.isascii() and text.isdigit()):
        raise SettingsError(f"{name} must be a number of 0 or more, got {text!r}.")
    return int(text)


def _checked(made: Allocation) -> Allocation:
    if made.size and made.rank >= made.size:
        raise SettingsError(f"The rank of a process of {made.system} must be below their number, {made.size}, got {made.rank}.")
    return made


SYSTEMS: Mapping[str, Callable[[Mapping[str, str], str], Allocation]] = MappingProxyType(
    {"slurm": _slurm, "mpi": _mpi, "kubernetes": _kubernetes}
)
