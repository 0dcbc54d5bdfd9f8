"""What a batch system tells the processes that it starts, in their environment: which of how many each of them is."""

from __future__ import annotations

import re
from collections.abc import Callable, Mapping
from pathlib import Path
from types import MappingProxyType
from typing import NamedTuple

_STRANGE = re.compile(r"[^A-Za-z0-9._-]+")
_MPI_RANKS = (
    ("OMPI_COMM_WORLD_RANK", "OMPI_COMM_WORLD_SIZE"),  # Open MPI
    ("PMI_RANK", "PMI_SIZE"),  # MPICH, Intel MPI
    ("MV2_COMM_WORLD_RANK", "MV2_COMM_WORLD_SIZE"),  # MVAPICH
)
_MPI_RUNS = ("PMIX_NAMESPACE", "SLURM_JOB_ID", "PBS_JOBID", "LSB_JOBID")


class AllocationError(ValueError):
    """The environment is not that of a process which the batch system has started; the message names the variables."""


class Allocation(NamedTuple):
    """The `rank` of this process among `size` (0: unknown) of one `run` of `system`; `host` is how others reach its machine.

    `job` names what the scheduler knows as one job: it is told to the submitter too, where that runs inside the job.
    """

    system: str
    run: str
    rank: int
    size: int
    host: str
    job: str = ""

    @property
    def name(self) -> str:
        """The same for the same rank when the scheduler starts the job anew; "" where nothing tells runs apart."""
        return f"{self.system}-{self.run}-{self.rank}" if self.run else ""


def allocation_of(system: str, environ: Mapping[str, str], hostname: str) -> Allocation:
    """The place of this process; `hostname` is the name that the machine has for itself.

    Raises: AllocationError naming the variable, the expectation and what came.
    """
    if system not in SYSTEMS:
        raise AllocationError(f"--from must be one of {', '.join(SYSTEMS)}, got {system!r}.")
    return SYSTEMS[system](environ, hostname)


def shared_folder(system: str, environ: Mapping[str, str], home: Path) -> Path | None:
    """Where agents of this job register if nobody says: `$PSGD_RENDEZVOUS`, or under Slurm a folder in the user's home, which
    all machines of a cluster share, named after the job. None where neither can be had."""
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
    return _checked(Allocation("slurm", run, rank, size, environ.get("SLURMD_NODENAME") or hostname, job))


def _mpi(environ: Mapping[str, str], hostname: str) -> Allocation:
    for rank, size in _MPI_RANKS:
        if rank in environ:
            run = next((environ[name] for name in _MPI_RUNS if environ.get(name)), "")
            run = _STRANGE.sub("-", run).strip("-")
            return _checked(Allocation("mpi", run, _rank(environ, rank, "mpi"), _number(environ, size, 0), hostname))
    names = ", ".join(rank for rank, _ in _MPI_RANKS)
    raise AllocationError(
        f"--from mpi needs one of {names}, which mpiexec sets: start with 'mpiexec -n 4 python worker.py ...'."
    )


def _kubernetes(environ: Mapping[str, str], hostname: str) -> Allocation:
    """An Indexed Job sets JOB_COMPLETION_INDEX; the pods of a StatefulSet end in their number."""
    name, _, ordinal = hostname.partition(".")[0].rpartition("-")
    found = next((environ[key] for key in ("JOB_COMPLETION_INDEX", "POD_INDEX") if environ.get(key)), ordinal)
    if not (found.isascii() and found.isdigit()):
        raise AllocationError(
            "--from kubernetes needs JOB_COMPLETION_INDEX (an Indexed Job), POD_INDEX, or a host name that ends in the pod's "
            f"number (a StatefulSet), got the host name {hostname!r}."
        )
    return Allocation("kubernetes", _STRANGE.sub("-", name), int(found), 0, environ.get("POD_IP") or hostname)


def _rank(environ: Mapping[str, str], name: str, system: str) -> int:
    if name not in environ:
        raise AllocationError(f"--from {system} needs {name}, which the scheduler sets for each process that it starts.")
    return _number(environ, name, 0)


def _number(environ: Mapping[str, str], name: str, default: int) -> int:
    text = environ.get(name, "")
    if not text:
        return default
    if not (text.isascii() and text.isdigit()):
        raise AllocationError(f"{name} must be a number of 0 or more, got {text!r}.")
    return int(text)


def _checked(made: Allocation) -> Allocation:
    if made.size and made.rank >= made.size:
        raise AllocationError(
            f"The rank of a process of {made.system} must be below their number, {made.size}, got {made.rank}."
        )
    return made


SYSTEMS: Mapping[str, Callable[[Mapping[str, str], str], Allocation]] = MappingProxyType(
    {"slurm": _slurm, "mpi": _mpi, "kubernetes": _kubernetes}
)
