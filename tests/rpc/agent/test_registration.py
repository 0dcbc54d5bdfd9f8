"""What batch systems tell the processes that they start, and the folder in which agents register."""

from __future__ import annotations

import json
import os
from dataclasses import replace
from pathlib import Path

import pytest

from rpc.agent.registration import (
    Allocation,
    Registration,
    allocation_of,
    registered,
    registrations,
    shared_folder,
)
from rpc.errors import SettingsError

ONE = Registration("slurm", "7.0", 0, 2, "10.0.0.1:4000", 1, "a", 100.0)
TWO = replace(ONE, rank=1, address="10.0.0.2:4000", host="b")


def test_a_file_comes_whole_and_goes(tmp_path: Path) -> None:
    folder = tmp_path / "new" / "folder"
    assert registrations(folder) == []
    with registered(folder, TWO), registered(folder, ONE):
        assert registrations(folder) == [ONE, TWO]
        assert sorted(path.name for path in folder.iterdir()) == ["slurm-7.0-0.agent.json", "slurm-7.0-1.agent.json"]
    assert list(folder.iterdir()) == []
    assert folder.stat().st_mode & 0o777 == 0o700


def test_who_is_started_anew_keeps_the_file_of_its_rank(tmp_path: Path) -> None:
    again = replace(ONE, started=200.0, address="10.0.0.1:5000")
    with registered(tmp_path, again):
        with registered(tmp_path, ONE):
            with registered(tmp_path, again):
                pass
            assert registrations(tmp_path) == []
        (tmp_path / "slurm-7.0-0.agent.json").write_text("{}")


def test_of_one_address_only_the_newest_counts(tmp_path: Path) -> None:
    """The port of a killed agent may be another one's by now."""
    with registered(tmp_path, replace(ONE, run="6.0", rank=1)), registered(tmp_path, replace(ONE, started=200.0)):
        assert registrations(tmp_path) == [replace(ONE, started=200.0)]


@pytest.mark.parametrize(
    "text",
    [
        *("", "{", "[]", "{}"),
        json.dumps({"system": "slurm"}),
        *(json.dumps({**vars(ONE), "rank": rank}) for rank in (2, True)),
        *(json.dumps({**vars(ONE), **odd}) for odd in ({"slots": 0}, {"started": "now"}, {"address": "a b"}, {"more": 1})),
        json.dumps({**vars(ONE), "run": "../.."}),
        "[" * 4000,
        " " * 5000,
        "\ud800".encode("utf-8", "surrogatepass").decode("latin-1"),
    ],
    ids=range(15),
)
def test_what_is_no_registration_is_left_out(tmp_path: Path, text: str) -> None:
    (tmp_path / "x.agent.json").write_text(text)
    (tmp_path / ".draft.agent.json.1").write_text(json.dumps(vars(ONE)))
    (tmp_path / "notes.txt").write_text("hello")
    (tmp_path / "folder.agent.json").mkdir()
    os.mkfifo(tmp_path / "pipe.agent.json")
    assert registrations(tmp_path) == []


def test_a_folder_that_cannot_be_written(tmp_path: Path) -> None:
    path = tmp_path / "file"
    path.touch()
    with pytest.raises(SettingsError, match=r"The agent cannot be registered in .*/file: "), registered(path, ONE):
        pass


SLURM = {"SLURM_JOB_ID": "4711", "SLURM_STEP_ID": "2", "SLURM_PROCID": "3", "SLURM_NTASKS": "8", "SLURM_STEP_NUM_TASKS": "4"}
SLURM |= {"SLURMD_NODENAME": "node17"}


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


def test_where_agents_register_if_nobody_says() -> None:
    home = Path("/home/me")
    assert shared_folder("slurm", SLURM, home) == home / ".local/state/psgd/rendezvous/slurm-4711"
    assert shared_folder("slurm", SLURM | {"PSGD_RENDEZVOUS": "/r"}, home) == Path("/r")
    assert shared_folder("slurm", {}, home) is None and shared_folder("mpi", SLURM, home) is None
