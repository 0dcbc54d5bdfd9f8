"""What follows from who has started an agent: settings, registration, key from a pipe; and what each mistake says."""

from __future__ import annotations

import os
from pathlib import Path
from typing import Any

import pytest

from network.keys import KeyFileError, Keyring, format_keyring, new_key
from network.nodes import DEFAULT_PORT, Address
from rpc.agent.cli import main
from rpc.agent.registration import registrations
from rpc.agent.scheduler_env import GRACE_SECONDS, announced, read_keys, scheduler_environment, temporary_directory
from rpc.agent.settings import gather
from rpc.errors import SettingsError

SLURM = {"SLURM_JOB_ID": "7", "SLURM_PROCID": "1", "SLURM_NTASKS": "2", "SLURMD_NODENAME": "node3"}


def origin(environ: dict[str, str] | None = None, **given: Any) -> Any:
    options = {"system": None, "rendezvous": None, "advertise": None, "grace": None, "hostname": "psgd-2", **given}
    return scheduler_environment(**options, environ=environ or {})


def test_a_person_has_started_it() -> None:
    assert (origin().defaults, origin().grace, origin(grace=3.0).grace) == ({}, 0.0, 3.0)
    with origin().registered(Address("0.0.0.0", 1), 1, "h"):
        pass


def test_what_a_batch_system_starts_has_other_defaults(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    """A free port, for several ranks of one machine, and a work directory for each rank; what anybody says comes first."""
    monkeypatch.setenv("XDG_STATE_HOME", "/state")
    made = origin(SLURM, system="slurm", rendezvous="/r")
    assert made.defaults == {"port": 0, "work_dir": "/state/psgd/slurm-7.0-1"} and made.grace == GRACE_SECONDS
    assert origin({"PMI_RANK": "0"}, system="mpi", rendezvous="/r").defaults == {"port": 0}
    pod = origin(system="kubernetes")
    assert (pod.defaults["port"], pod.folder) == (DEFAULT_PORT, None)
    (tmp_path / "worker.toml").write_text('work_dir = "/w"')
    settings = gather({"port": 5}, {}, tmp_path / "worker.toml", made.defaults)
    assert (settings.port, settings.work_dir) == (5, "/w")


@pytest.mark.parametrize(
    ("listen", "advertise", "told"),
    [
        ("0.0.0.0", None, "node3:4000"),
        ("::", None, "node3:4000"),
        ("10.0.0.5", None, "10.0.0.5:4000"),
        ("127.0.0.1", None, "127.0.0.1:4000"),
        ("0.0.0.0", "ib3", "ib3:4000"),
        ("0.0.0.0", "fd00::3", "[fd00::3]:4000"),
    ],
)
def test_the_address_that_is_told(tmp_path: Path, listen: str, advertise: str | None, told: str) -> None:
    made = origin(SLURM, system="slurm", rendezvous=str(tmp_path / "r"), advertise=advertise)
    with made.registered(Address(listen, 4000), 2, "h"):
        (one,) = registrations(tmp_path / "r")
    assert (one.address, one.slots, one.rank, one.size, one.host) == (told, 2, 1, 2, "h")


@pytest.mark.parametrize(
    ("given", "message"),
    [
        ({"rendezvous": "/r"}, r"--rendezvous needs --from, .*got '/r' alone"),
        ({"advertise": "h"}, r"--advertise needs --from, .*got 'h' alone"),
        ({"grace": -1.0}, r"--grace must be a number of seconds of 0 or more, got -1"),
        ({"grace": float("nan")}, r"--grace must be a number of seconds of 0 or more, got nan"),
        ({"system": "pbs"}, r"--from must be one of slurm, mpi, kubernetes, got 'pbs'"),
        ({"system": "slurm"}, r"--from slurm needs SLURM_PROCID"),
        ({"system": "slurm", "environ": {"SLURM_PROCID": "x"}}, r"SLURM_PROCID must be a number of 0 or more, got 'x'"),
        ({"system": "slurm", "environ": {"SLURM_PROCID": "-1"}}, r"SLURM_PROCID must be a number of 0 or more, got '-1'"),
        ({"system": "mpi"}, r"--from mpi needs one of OMPI_COMM_WORLD_RANK, PMI_RANK, .*: start with 'mpiexec"),
        ({"system": "mpi", "environ": {"PMI_RANK": "4", "PMI_SIZE": "4"}}, r"must be below their number, 4, got 4"),
        ({"system": "kubernetes", "hostname": "h"}, r"a host name that ends in the pod's number .*, got the host name 'h'"),
        ({"system": "slurm", "environ": {"SLURM_PROCID": "0"}}, r"--from slurm needs --rendezvous DIR"),
        ({"system": "mpi", "environ": {"PMI_RANK": "0"}}, r"--from mpi needs --rendezvous DIR"),
    ],
)
def test_mistakes(given: dict[str, Any], message: str) -> None:
    with pytest.raises(SettingsError, match=message):
        origin(**given)


def test_mistakes_end_the_command_with_code_2(capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["--rendezvous", "/r", "--port", "0"]) == 2
    assert capsys.readouterr().err == "worker.py: --rendezvous needs --from, which tells who this worker is, got '/r' alone.\n"


def test_a_key_from_a_pipe() -> None:
    """It ends with an empty line; what follows, the end of the pipe, is for somebody else."""
    ring = Keyring((new_key(), new_key()))
    reading, writing = os.pipe()
    try:
        text = format_keyring(ring).encode()
        os.write(writing, text[:50])
        os.write(writing, text[50:] + b"\n")
        assert read_keys(reading) == ring
        os.write(writing, b"nonsense\n\n")
        with pytest.raises(KeyFileError, match=r"Standard input, line 1 must read") as caught:
            read_keys(reading)
        assert "nonsense" not in str(caught.value)
        os.write(writing, b"x" * 5000)
        with pytest.raises(KeyFileError):
            read_keys(reading)
    finally:
        os.close(writing)
        os.close(reading)


def test_a_work_directory_that_goes(tmp_path: Path) -> None:
    """Nobody else sees into it, and its name tells who made one that a kill has left behind."""
    with temporary_directory(str(tmp_path)) as path:
        assert Path(path).parent == tmp_path and Path(path).name.startswith("psgd-agent-")
        assert Path(path).stat().st_mode & 0o777 == 0o700
        (Path(path) / "file").touch()
    assert not Path(path).exists()


def test_announcements(tmp_path: Path) -> None:
    said: list[str] = []
    with announced("-", "h:1", said.append), announced(None, "h:1", said.append):
        assert said == ["h:1\n"]
    with announced(str(tmp_path / "file"), "h:1", said.append):
        assert (tmp_path / "file").read_text() == "h:1\n"
    assert list(tmp_path.iterdir()) == []
    nowhere = announced(str(tmp_path / "no" / "file"), "h:1", said.append)
    with pytest.raises(SettingsError, match=r"--announce must name a file that can be written"), nowhere:
        pass
