"""Launchers with what they launch: `mpiexec` of a real MPI, and the ssh client's place taken by a program that stays here."""

from __future__ import annotations

import logging
import os
import signal
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest

import parallel_sgd
from network import NetworkError, Request
from network.key_files import create_key_file
from parallel_sgd import codec
from parallel_sgd.__main__ import main
from parallel_sgd.commands import output
from parallel_sgd.errors import JobFailed
from rpc.agent.children import project_root
from rpc.launch import BatchLauncher, SSHLauncher
from tests.proc import children_of

from .executors import Stepping, Sum
from .harness import LIMIT, processes_below, start_job, wait_for
from .training.jobs import digits_job

ROOT = Path(project_root())
MPIEXEC = Path(sys.executable).with_name("mpiexec")
# `ssh -G nick` tells what a nickname stands for; else the last word goes to a shell, as it would on the other machine, which
# loses its input when this program is killed
SSH = """#!{python}
import os, subprocess, sys, threading
*_, host, command = sys.argv
open({calls!r}, "a").write(" ".join(sys.argv) + chr(10))
if "-G" in sys.argv:
    sys.exit(print("user me", "hostname 127.0.0.1", sep=chr(10)))
if host == "unreachable":
    sys.exit("ssh: connect to host unreachable port 22: No route to host")
if host == "silent":
    threading.Event().wait(60)
if host == "chatty":
    command = "echo Welcome, last login: today"
if host == "endless":
    command = "yes Welcome to 10.0.0.0:22"
if host == "polite":
    command = "printf 'Welcome to 127.0.0.1:22, today\\n\\377\\nbusy: '; " + command
shell = subprocess.Popen(command, shell=True, cwd={home!r}, stdin=subprocess.PIPE)
def pass_on():
    while part := os.read(0, 65536):
        shell.stdin.write(part)
        shell.stdin.flush()
    shell.stdin.close()
threading.Thread(target=pass_on, daemon=True).start()
sys.exit(shell.wait())
"""


@pytest.mark.long
@pytest.mark.skipif(not MPIEXEC.exists(), reason="no mpiexec beside this Python: install the wheel mpich")
def test_mpi(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Four ranks register under `mpiexec -n 4`, do a job whose files another command fetches, and leave when their launcher is
    sent SIGUSR1."""
    monkeypatch.chdir(tmp_path)
    folder, key = tmp_path / "rendezvous", tmp_path / "key"
    create_key_file(key)
    command = [MPIEXEC, "-n", "4", sys.executable, "worker.py", "--from", "mpi", "--rendezvous", folder, "--key-file", key]
    kept = {name: value for name, value in os.environ.items() if not name.startswith("PSGD_")}
    environ = {**kept, "XDG_STATE_HOME": str(tmp_path)}
    with open(tmp_path / "console", "wb") as console:
        mpi = subprocess.Popen(command, cwd=ROOT, env=environ, stdout=console, stderr=console, stdin=subprocess.DEVNULL)
    try:
        with parallel_sgd.nodes_from(BatchLauncher(folder, key_file=key, limit=LIMIT), 3, ps=True) as nodes:
            assert nodes.has_parameter_server and len({str(address) for _, address in nodes.items()}) == 4
            with Request().request(nodes) as com:
                results, error = start_job(com, Sum, tmp_path, group=range(3)).join()
        assert not error and len(results) == 3
        assert main(["--retrieve", "--launch", f"mpi:{folder}", "--key-file", str(key)]) == output.EXIT_OK
        assert len(list(tmp_path.glob("Node-*-Retrieve/Fit-*.log"))) == 3
        mpi.send_signal(signal.SIGUSR1)
        assert mpi.wait(LIMIT) == 0, (tmp_path / "console").read_text()
    finally:
        mpi.kill()
        mpi.wait()
    assert list(folder.iterdir()) == []


@pytest.fixture
def ssh(tmp_path: Path) -> dict[str, Any]:
    """Options of a launcher whose client is the program above."""
    client, home = tmp_path / "ssh", tmp_path / "home"
    home.mkdir()
    client.write_text(SSH.format(python=sys.executable, calls=str(tmp_path / "calls"), home=str(home)))
    client.chmod(0o700)
    worker = f"env PYTHONPATH={ROOT} TMPDIR={home} XDG_CONFIG_HOME={home} {sys.executable} -m rpc.agent.cli"
    return {"ssh_command": [str(client)], "worker_command": worker, "logs": tmp_path / "logs"}


def test_ssh(ssh: dict[str, Any], tmp_path: Path) -> None:
    """Agents start at the other end, one after a greeting, do a job, and end with the connection; their logs are here, the key
    is on no command line and on no disk of theirs."""
    home = tmp_path / "home"
    with SSHLauncher(["polite", "me@node-b", "node-c"], **ssh) as launcher, parallel_sgd.nodes_from(launcher, 2) as nodes:
        assert [nodes[node].host for node in (0, 1)] == ["127.0.0.1"] * 2 and len(launcher.discover()) == 2
        secret = Path(str(nodes.key_file)).read_text().split()[2]
        with Request().request(nodes) as com:
            results, error = start_job(com, Sum, tmp_path).join()
            assert not error and len(results) == 2
        pids = processes_below(home)
        shown = "".join(Path(f"/proc/{pid}/{part}").read_text() for pid in pids for part in ("cmdline", "environ"))
        assert len(pids) >= 2 and secret not in shown + (tmp_path / "calls").read_text()
        assert not any(secret in path.read_text("utf-8", "replace") for path in home.rglob("*") if path.is_file())
    assert processes_below(home) == [] and list(home.iterdir()) == []
    assert sorted(path.name for path in (tmp_path / "logs").iterdir()) == ["0-polite.log", "1-me@node-b.log"]
    assert all("Worker started on port: " in path.read_text() for path in (tmp_path / "logs").iterdir())


def test_no_job_is_said_to_go_on_from_checkpoints_that_end_with_its_agents(
    ssh: dict[str, Any], tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    """As those of this launcher: within its block `resume="last"` finds them, behind it they are gone."""
    caplog.set_level(logging.INFO)
    settings: dict[str, Any] = {"checkpoint_every": "epoch", "directory": tmp_path, "epoch": 3, "codec": codec.Plain}
    with SSHLauncher(["node-a", "node-b"], **ssh) as launcher, parallel_sgd.nodes_from(launcher, 2) as nodes:
        with pytest.raises(JobFailed):
            digits_job().parallel(nodes, on_failure="fail", fault="kill 1@e3.b1", **settings)
        told = [record.getMessage() for record in caplog.records]
        assert any(line.startswith("report   ") for line in told) and not any(line.startswith("go on") for line in told), told
        page = (tmp_path / "runs" / "P-SGD-1" / "report.html").read_text("utf-8")
        assert "Checkpoints that its workers had end with the workers" in page and "goes on from" not in page
        digits_job().parallel(nodes, resume="last", **settings)
        logs = [path.read_text("utf-8") for path in (tmp_path / "runs" / "P-SGD-2").rglob("*.log")]
        assert any("Training goes on after " in log for log in logs), logs


@pytest.mark.long
def test_agents_end_with_their_connection(ssh: dict[str, Any], tmp_path: Path) -> None:
    """The client of one agent is killed while a job runs there: the agent and the job end, the other one is told."""
    with SSHLauncher(["node-a", "node-b"], **ssh) as launcher, parallel_sgd.nodes_from(launcher, 2) as nodes:
        with Request().request(nodes) as com:
            coordinator = start_job(com, Stepping, tmp_path)
            client = next(pid for pid in children_of() if b"node-b" in Path(f"/proc/{pid}/cmdline").read_bytes())
            os.kill(client, signal.SIGKILL)
            _, error = coordinator.join()
        assert error and coordinator.failures[1][0] in ("lost", "aborted", "failed")
        assert launcher.discover() == [f"{nodes[0]} slots=1"]
    wait_for(lambda: not processes_below(tmp_path / "home"), "the agents to end")


@pytest.mark.parametrize(
    ("host", "message"),
    [
        ("unreachable", r"The agent on unreachable did not start, exit code 1: ssh: connect to host .*: No route to host"),
        ("chatty", r"The agent on chatty did not start, exit code 0 \(.* ends with 'Welcome, last login: today', no address"),
        (
            "endless",
            r"The worker command on endless went on without an address .* ends with 'Welcome to 10.0.0.0:22', no address",
        ),
        ("silent", r"Timed out after 1 s waiting for the agent on silent to listen"),
    ],
    ids=["unreachable", "chatty", "endless", "silent"],
)
def test_all_or_nothing(ssh: dict[str, Any], tmp_path: Path, host: str, message: str) -> None:
    launcher = SSHLauncher([host, "node-a"], limit=1.0 if host == "silent" else LIMIT, **ssh)
    with pytest.raises(NetworkError, match=message), launcher:
        launcher.start(2)
    wait_for(lambda: not processes_below(tmp_path / "home"), "the agents to end")
