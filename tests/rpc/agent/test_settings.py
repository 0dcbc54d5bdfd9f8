"""What an agent is started with: settings, what batch systems tell, the folder of addresses, keys; and what mistakes say."""

from __future__ import annotations

import json
import logging
import os
from collections.abc import Mapping
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from network.keys import KeyFileError, Keyring, format_keyring, new_key
from network.nodes import DEFAULT_PORT, Address
from rpc.agent.cli import main
from rpc.agent.registration import Allocation, Registration, allocation_of, registered, registrations, shared_folder
from rpc.agent.scheduler_env import GRACE_SECONDS, announced, read_keys, scheduler_environment, temporary_directory
from rpc.agent.settings import AgentSettings, default_work_dir, gather
from rpc.errors import SettingsError


def test_command_line_before_environment_before_file_before_defaults(tmp_path: Path) -> None:
    file = tmp_path / "worker.toml"
    assert gather({}, {}, file) == AgentSettings("127.0.0.1", DEFAULT_PORT, None, None, 1, "INFO", "any", 20, 64)
    file.write_text(
        'listen = "a"\nport = 1\nkey_file = "k"\nwork_dir = "w"\nslots = 3\nlog_level = "debug"\nkernel_probe = false\n'
        "keep_jobs = 7\n"
    )
    assert gather({}, {}, file) == AgentSettings("a", 1, "k", "w", 3, "debug", keep_jobs=7)
    assert gather({}, {}, file).level == logging.DEBUG
    assert gather({"own_kernels": True}, {}, file).own_kernels
    environ = {"PSGD_LISTEN": "env", "PSGD_PORT": "2", "PSGD_KEY_FILE": "env"}
    options = {"listen": "line", "port": 0, "key_file": "line", "slots": None}
    found = [
        gather(o, e, file, {"port": 9, "keep_jobs": 5}) for o in (options, {}) for e in (environ, dict.fromkeys(environ, ""))
    ]
    expected = [("line", 0, "line"), ("line", 0, "line"), ("env", 2, "env"), ("a", 1, "k")]
    assert [(s.listen, s.port, s.key_file, s.slots, s.keep_jobs) for s in found] == [(*one, 3, 7) for one in expected]
    assert default_work_dir(7, {"XDG_STATE_HOME": "/state"}) == Path("/state/psgd/agent-7")
    for home in ({}, {"XDG_STATE_HOME": "state"}, {"XDG_STATE_HOME": ""}):  # a relative path counts as not set
        assert default_work_dir(7, home) == Path.home() / ".local/state/psgd/agent-7"


@pytest.mark.parametrize(
    ("options", "message"),
    [
        *(({"port": port}, f"The port must be a number from 0 to 65535, got {port}.") for port in (-1, 65536)),
        ({"slots": 0}, "The number of slots must be 1 or more, got 0."),
        ({"keep_jobs": 0}, "The number of jobs to keep must be 1 or more, got 0."),
        ({"output_mib": 0}, "The MiB of a job's output to keep must be 1 or more, got 0."),
        ({"log_level": "loud"}, "The log level must be one of DEBUG, INFO, WARNING, ERROR, got 'loud'."),
        (
            {"listen": "10.0.0.1:21001"},
            "The address to listen on must be a host, got '10.0.0.1:21001'; the port is an option of its own: "
            "--listen 10.0.0.1 --port 21001.",
        ),
        ({"listen": ""}, "The address to listen on must be a host, got ''; for all of this machine's, say 0.0.0.0."),
        # of the environment
        *((port, f"PSGD_PORT must be a number from 0 to 65535, got '{port}'.") for port in ("x", "1.5", "0x10", "-")),
        # of the file
        *((f"port = {port.lower()}".encode(), f"port must be an integer, got {port}") for port in ("'x'", "True", "1.0")),
        (b"slots = '1'", "slots must be an integer"),
        (b"listen = 5", "listen must be a text, got 5"),
        (b"key_file = ['a']", "key_file must be a text"),
        (
            b"keyfile = 'a'",
            "may set listen, port, key_file, work_dir, slots, log_level, output_mib, keep_jobs, got 'keyfile'",
        ),
        (b"code_policy = 'any'", "got 'code_policy'"),
        *((text, "cannot be read: ") for text in (b"port = ", b"\0", b"\xff\xfe")),
        (b"port = 70000", "from 0 to 65535, got 70000"),
        (None, "directory"),
    ],
)
def test_wrong_settings(tmp_path: Path, options: dict[str, Any] | str | bytes | None, message: str) -> None:
    file = tmp_path / "worker.toml"
    if isinstance(options, bytes):
        file.write_bytes(options)
    elif options is None:
        file.mkdir()
    given = options if isinstance(options, dict) else {}
    environ = {"PSGD_PORT": options} if isinstance(options, str) else {}
    with pytest.raises(SettingsError) as caught:
        gather(given, environ, file)
    assert message in str(caught.value)


ONE = Registration("slurm", "7.0", 0, 2, "10.0.0.1:4000", 1, "a", 100.0)
TWO = replace(ONE, rank=1, address="10.0.0.2:4000", host="b")
LATER = replace(ONE, started=200.0, address="10.0.0.1:5000")


def test_addresses_in_a_shared_folder(tmp_path: Path) -> None:
    """A file comes whole and goes; who is started anew keeps that of its rank; of one address only the newest counts."""
    folder, file = tmp_path / "new" / "folder", "slurm-7.0-0.agent.json"
    assert registrations(folder) == []
    with registered(folder, TWO), registered(folder, ONE):
        assert registrations(folder) == [ONE, TWO]
        assert sorted(path.name for path in folder.iterdir()) == [file, "slurm-7.0-1.agent.json"]
    assert list(folder.iterdir()) == [] and folder.stat().st_mode & 0o777 == 0o700
    with registered(folder, LATER):
        with registered(folder, ONE), registered(folder, LATER):
            pass
        assert registrations(folder) == []
        (folder / file).write_text("{}")
    assert (folder / file).read_text() == "{}"
    with pytest.raises(SettingsError, match=r"The agent cannot be registered in .*json: "), registered(folder / file, ONE):
        pass
    # the port of a killed agent may be another one's by now
    newest = replace(ONE, started=200.0)
    with registered(folder, replace(ONE, run="6.0", rank=1)), registered(folder, newest):
        assert registrations(folder) == [newest]


@pytest.mark.parametrize(
    "text",
    [
        *("", "{", "[]", "{}", "[" * 4000, " " * 5000, "\ud800".encode("utf-8", "surrogatepass").decode("latin-1")),
        json.dumps({"system": "slurm"}),
        *(json.dumps({**vars(ONE), "rank": rank}) for rank in (2, True)),
        *(json.dumps({**vars(ONE), **odd}) for odd in ({"slots": 0}, {"started": "now"}, {"address": "a b"}, {"more": 1})),
        json.dumps({**vars(ONE), "run": "../.."}),
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


SLURM = {"SLURM_JOB_ID": "4711", "SLURM_STEP_ID": "2", "SLURM_PROCID": "3", "SLURM_NTASKS": "8", "SLURM_STEP_NUM_TASKS": "4"}
SLURM |= {"SLURMD_NODENAME": "node17"}
OPEN_MPI = {"OMPI_COMM_WORLD_RANK": "2", "OMPI_COMM_WORLD_SIZE": "3", "PMIX_NAMESPACE": "prterun-h-17@1"}
MPICH = {"PMI_RANK": "1", "PMI_SIZE": "4"}


@pytest.mark.parametrize(
    ("environ", "hostname", "expected"),
    [
        (SLURM, "h", Allocation("slurm", "4711.2", 3, 4, "node17", "4711")),
        ({"SLURM_PROCID": "0"}, "h", Allocation("slurm", "", 0, 0, "h")),
        (MPICH, "h", Allocation("mpi", "", 1, 4, "h")),
        (OPEN_MPI, "h", Allocation("mpi", "prterun-h-17-1", 2, 3, "h")),
        (MPICH | {"PBS_JOBID": "8.pbs"}, "h", Allocation("mpi", "8.pbs", 1, 4, "h")),
        ({"POD_IP": "10.1.2.3"}, "psgd-12", Allocation("kubernetes", "psgd", 12, 0, "10.1.2.3")),
        ({"POD_INDEX": "4"}, "psgd-2.psgd.ns", Allocation("kubernetes", "psgd", 4, 0, "psgd-2.psgd.ns")),
        ({"JOB_COMPLETION_INDEX": "5"}, "job-5-x7k2p", Allocation("kubernetes", "job-5", 5, 0, "job-5-x7k2p")),
    ],
    ids=["slurm", "slurm-bare", "mpich", "openmpi", "mpich-under-pbs", "statefulset", "pod-index", "indexed-job"],
)
def test_what_batch_systems_tell(environ: dict[str, str], hostname: str, expected: Allocation) -> None:
    """A rank that is started anew finds its jobs again by its name; where nothing tells runs apart there is none."""
    assert allocation_of(expected.system, environ, hostname) == expected
    assert expected.name == (f"{expected.system}-{expected.run}-{expected.rank}" if expected.run else "")


def test_where_agents_register_if_nobody_says() -> None:
    home = Path("/home/me")
    assert shared_folder("slurm", SLURM, home) == home / ".local/state/psgd/rendezvous/slurm-4711"
    assert shared_folder("slurm", SLURM | {"PSGD_RENDEZVOUS": "/r"}, home) == Path("/r")
    assert shared_folder("slurm", {}, home) is None and shared_folder("mpi", SLURM, home) is None


def started(system: str | None = None, environ: Mapping[str, str] | None = None, **given: Any) -> Any:
    options = {"rendezvous": None, "advertise": None, "grace": None, "hostname": "psgd-2", **given}
    return scheduler_environment(system=system, environ=environ or {}, **options)


def test_what_follows_from_who_has_started_it(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    """A free port, for several ranks of one machine, and a work directory for each rank; what anybody says comes first."""
    monkeypatch.setenv("XDG_STATE_HOME", "/state")
    person = started()
    assert (person.defaults, person.grace, started(grace=3.0).grace) == ({}, 0.0, 3.0)
    with person.registered(Address("0.0.0.0", 1), 1, "h"):
        pass
    rank = started("slurm", SLURM, rendezvous="/r")
    assert rank.defaults == {"port": 0, "work_dir": "/state/psgd/slurm-4711.2-3"} and rank.grace == GRACE_SECONDS
    assert started("mpi", {"PMI_RANK": "0"}, rendezvous="/r").defaults == {"port": 0}
    pod = started("kubernetes")
    assert (pod.defaults["port"], pod.folder) == (DEFAULT_PORT, None)
    (tmp_path / "worker.toml").write_text('work_dir = "/w"')
    settings = gather({"port": 5}, {}, tmp_path / "worker.toml", rank.defaults)
    assert (settings.port, settings.work_dir) == (5, "/w")


@pytest.mark.parametrize(
    ("listen", "advertise", "told"),
    [
        *((listen, None, "node17:4000") for listen in ("0.0.0.0", "::")),
        *((listen, None, f"{listen}:4000") for listen in ("10.0.0.5", "127.0.0.1")),
        ("0.0.0.0", "ib3", "ib3:4000"),
        ("0.0.0.0", "fd00::3", "[fd00::3]:4000"),
    ],
)
def test_the_address_that_is_told(tmp_path: Path, listen: str, advertise: str | None, told: str) -> None:
    made = started("slurm", SLURM, rendezvous=str(tmp_path / "r"), advertise=advertise)
    with made.registered(Address(listen, 4000), 2, "h"):
        (one,) = registrations(tmp_path / "r")
    assert (one.address, one.slots, one.rank, one.size, one.host) == (told, 2, 3, 4, "h")


@pytest.mark.parametrize(
    ("system", "environ", "given", "message"),
    [
        (None, {}, {"rendezvous": "/r"}, r"--rendezvous needs --from, .*got '/r' alone"),
        (None, {}, {"advertise": "h"}, r"--advertise needs --from, .*got 'h' alone"),
        (None, {}, {"grace": -1.0}, r"--grace must be a number of seconds of 0 or more, got -1"),
        (None, {}, {"grace": float("nan")}, r"--grace must be a number of seconds of 0 or more, got nan"),
        ("pbs", {}, {}, r"--from must be one of slurm, mpi, kubernetes, got 'pbs'"),
        ("slurm", {}, {}, r"--from slurm needs SLURM_PROCID"),
        ("slurm", {"SLURM_PROCID": "x"}, {}, r"SLURM_PROCID must be a number of 0 or more, got 'x'"),
        ("slurm", {"SLURM_PROCID": "-1"}, {}, r"SLURM_PROCID must be a number of 0 or more, got '-1'"),
        ("mpi", {}, {}, r"--from mpi needs one of OMPI_COMM_WORLD_RANK, PMI_RANK, .*: start with 'mpiexec"),
        ("mpi", {"PMI_RANK": "4", "PMI_SIZE": "4"}, {}, r"must be below their number, 4, got 4"),
        ("kubernetes", {}, {"hostname": "h"}, r"a host name that ends in the pod's number .*, got the host name 'h'"),
        ("slurm", {"SLURM_PROCID": "0"}, {}, r"--from slurm needs --rendezvous DIR"),
        ("mpi", {"PMI_RANK": "0"}, {}, r"--from mpi needs --rendezvous DIR"),
    ],
)
def test_mistakes(system: str | None, environ: dict[str, str], given: dict[str, Any], message: str) -> None:
    with pytest.raises(SettingsError, match=message):
        started(system, environ, **given)


def test_mistakes_end_the_command_with_code_2(capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["--rendezvous", "/r", "--port", "0"]) == 2
    assert capsys.readouterr().err == "worker.py: --rendezvous needs --from, which tells who this worker is, got '/r' alone.\n"


def test_a_key_from_a_pipe() -> None:
    """It ends with an empty line; what follows, the end of the pipe, is for somebody else."""
    ring = Keyring((new_key(), new_key()))
    reading, writing = os.pipe()
    with open(reading, "rb"), open(writing, "wb"):
        text = format_keyring(ring).encode()
        os.write(writing, text[:50])
        os.write(writing, text[50:] + b"\n")
        assert read_keys(reading) == ring
        for wrong in (b"nonsense\n\n", b"x" * 5000):
            os.write(writing, wrong)
            with pytest.raises(KeyFileError, match=r"Standard input, line 1 must read") as caught:
                read_keys(reading)
            assert "nonsense" not in str(caught.value)


def test_files_that_go_with_the_agent(tmp_path: Path) -> None:
    """A work directory into which nobody else sees, with a name that tells who has made it; and the announced address."""
    with temporary_directory(str(tmp_path)) as path:
        assert Path(path).parent == tmp_path and Path(path).name.startswith("psgd-agent-")
        assert Path(path).stat().st_mode & 0o777 == 0o700
        (Path(path) / "file").touch()
    said: list[str] = []
    with announced("-", "h:1", said.append), announced(None, "h:1", said.append):
        assert said == ["h:1\n"]
    with announced(str(tmp_path / "file"), "h:1", said.append):
        assert (tmp_path / "file").read_text() == "h:1\n"
    assert list(tmp_path.iterdir()) == []
    with announced(str(tmp_path / "file"), "h:1", said.append):
        (tmp_path / "file").write_text("h:2\n")
    assert (tmp_path / "file").read_text() == "h:2\n", "that of a successor"
    nowhere = announced(str(tmp_path / "no" / "file"), "h:1", said.append)
    with pytest.raises(SettingsError, match=r"--announce must name a file that can be written"), nowhere:
        pass
