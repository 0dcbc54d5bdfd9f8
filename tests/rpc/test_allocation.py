"""What Slurm, MPI and Kubernetes put into the environment of what they start, and what each mistake says."""

from __future__ import annotations

from pathlib import Path

import pytest

from rpc.allocation import Allocation, AllocationError, allocation_of, shared_folder

SLURM = {
    "SLURM_JOB_ID": "4711",
    "SLURM_STEP_ID": "2",
    "SLURM_PROCID": "3",
    "SLURM_NTASKS": "8",
    "SLURM_STEP_NUM_TASKS": "4",
    "SLURMD_NODENAME": "node17",
}


@pytest.mark.parametrize(
    ("system", "environ", "hostname", "expected"),
    [
        ("slurm", SLURM, "h", Allocation("slurm", "4711.2", 3, 4, "node17", "4711")),
        ("slurm", {"SLURM_PROCID": "0"}, "h", Allocation("slurm", "", 0, 0, "h")),
        ("mpi", {"PMI_RANK": "1", "PMI_SIZE": "4"}, "h", Allocation("mpi", "", 1, 4, "h")),
        (
            "mpi",
            {"OMPI_COMM_WORLD_RANK": "2", "OMPI_COMM_WORLD_SIZE": "3", "PMIX_NAMESPACE": "prterun-h-17@1"},
            "h",
            Allocation("mpi", "prterun-h-17-1", 2, 3, "h"),
        ),
        ("mpi", {"PMI_RANK": "1", "PMI_SIZE": "4", "PBS_JOBID": "8.pbs"}, "h", Allocation("mpi", "8.pbs", 1, 4, "h")),
        ("kubernetes", {"POD_IP": "10.1.2.3"}, "psgd-12", Allocation("kubernetes", "psgd", 12, 0, "10.1.2.3")),
        ("kubernetes", {"POD_INDEX": "4"}, "psgd-2.psgd.ns", Allocation("kubernetes", "psgd", 4, 0, "psgd-2.psgd.ns")),
        ("kubernetes", {"JOB_COMPLETION_INDEX": "5"}, "job-5-x7k2p", Allocation("kubernetes", "job-5", 5, 0, "job-5-x7k2p")),
    ],
    ids=["slurm", "slurm-bare", "mpich", "openmpi", "mpich-under-pbs", "statefulset", "pod-index", "indexed-job"],
)
def test_ranks(system: str, environ: dict[str, str], hostname: str, expected: Allocation) -> None:
    assert allocation_of(system, environ, hostname) == expected


def test_names_of_work_directories() -> None:
    """A rank that is started anew finds its jobs again; where nothing tells runs apart there is no name."""
    assert allocation_of("slurm", SLURM, "h").name == "slurm-4711.2-3"
    assert allocation_of("mpi", {"PMI_RANK": "1"}, "h").name == ""


@pytest.mark.parametrize(
    ("system", "environ", "message"),
    [
        ("pbs", {}, r"--from must be one of slurm, mpi, kubernetes, got 'pbs'"),
        ("slurm", {}, r"--from slurm needs SLURM_PROCID"),
        ("slurm", {"SLURM_PROCID": "x"}, r"SLURM_PROCID must be a number of 0 or more, got 'x'"),
        ("slurm", {"SLURM_PROCID": "-1"}, r"SLURM_PROCID must be a number of 0 or more, got '-1'"),
        ("mpi", {}, r"--from mpi needs one of OMPI_COMM_WORLD_RANK, PMI_RANK, .*: start with 'mpiexec"),
        ("mpi", {"PMI_RANK": "4", "PMI_SIZE": "4"}, r"must be below their number, 4, got 4"),
        ("kubernetes", {}, r"a host name that ends in the pod's number \(a StatefulSet\), got the host name 'h'"),
    ],
)
def test_mistakes(system: str, environ: dict[str, str], message: str) -> None:
    with pytest.raises(AllocationError, match=message):
        allocation_of(system, environ, "h")


def test_where_agents_register_if_nobody_says() -> None:
    home = Path("/home/me")
    assert shared_folder("slurm", SLURM, home) == home / ".local/state/psgd/rendezvous/slurm-4711"
    assert shared_folder("slurm", SLURM | {"PSGD_RENDEZVOUS": "/r"}, home) == Path("/r")
    assert shared_folder("slurm", {}, home) is None and shared_folder("mpi", SLURM, home) is None
