"""Launchers by name, what each wrong word says, and those that need no process: pods that come up, folders that stay empty."""

from __future__ import annotations

import logging
import socket
from pathlib import Path

import pytest

import parallel_sgd
from network.errors import NetworkError, TimedOut
from network.key_files import create_key_file
from network.nodes import Address
from rpc.launch import LAUNCHERS, BatchLauncher, KubernetesLauncher, LocalLauncher, Offer, SSHLauncher, launcher_of
from rpc.launch.kubernetes import resolve
from rpc.support.logs import NORMAL, ConsoleFilter, verbosity


@pytest.fixture(autouse=True)
def outside(monkeypatch: pytest.MonkeyPatch) -> None:
    """Of any job of a batch system."""
    for name in ("PSGD_RENDEZVOUS", "SLURM_JOB_ID", "SLURM_NTASKS"):
        monkeypatch.delenv(name, raising=False)


def test_names() -> None:
    texts = ("local:3", "ssh:a,me@b", "slurm:d", "mpi:d", "kubernetes:psgd", "dask:tcp://h:1")
    made = [launcher_of(text) for text in texts]
    kinds = [type(offer.launcher).__name__.removesuffix("Launcher") for offer in made]
    assert kinds == ["Local", "SSH", "Batch", "Batch", "Kubernetes", "Dask"]
    assert [offer.agents for offer in made] == [3, 2, None, None, None, None]
    assert [offer.launcher.lasting for offer in made] == [False, False, True, True, True, False]
    assert set(LAUNCHERS) == {text.partition(":")[0] for text in texts}


def test_inside_a_job_of_slurm(monkeypatch: pytest.MonkeyPatch, tmp_path: Path, caplog: pytest.LogCaptureFixture) -> None:
    """`slurm` alone: the folder and the number of workers are those of the job."""
    monkeypatch.setenv("SLURM_JOB_ID", "12")
    monkeypatch.setenv("SLURM_NTASKS", "6")
    monkeypatch.setenv("HOME", str(tmp_path))
    create_key_file(tmp_path / "key")
    launcher, agents = launcher_of("slurm", tmp_path / "key", 0.2)
    assert agents == 6
    # also on the console of psgd, which shows few lines
    with verbosity(NORMAL, short=True), caplog.at_level(logging.INFO):
        with pytest.raises(TimedOut, match=r"6 workers in .*/\.local/state/psgd/rendezvous/slurm-12; 0 are there"):
            launcher.start(6)
        assert [ConsoleFilter().filter(record) for record in caplog.records] == [True]
    assert "Waiting for 6 workers in " in caplog.text


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("", r"A launcher is written name\[:where\], with the name local, ssh, .*, got ''"),
        ("pbs:x", r"with the name local, ssh, slurm, mpi, kubernetes, dask, got 'pbs:x'"),
        ("local", r"'local' needs a number of workers, as in local:4, got ''"),
        ("local:0", r"local launcher 'count' must be a positive integer, got 0"),
        ("local:x", r"as in local:4, got 'x'"),
        ("ssh:", r"'ssh' needs hosts, as in ssh:host1,user@host2, got ''"),
        ("ssh:a,-oProxyCommand=x", r"must be 'host' or 'user@host', got '-oProxyCommand=x'"),
        ("ssh:a b", r"must be 'host' or 'user@host', got 'a b'"),
        ("mpi", r"'mpi' needs the folder in which the workers register, as in mpi:DIR, got ''"),
        ("kubernetes", r"'kubernetes' needs a service, as in kubernetes:psgd\. An address must be"),
        ("kubernetes:A_B", r"'service' must be a name as in psgd or psgd.namespace, got 'A_B'"),
        ("kubernetes:psgd:x", r"The port of an address must be a number"),
        ("dask", r"'dask' needs the address of a scheduler"),
    ],
)
def test_wrong_words(text: str, message: str) -> None:
    with pytest.raises(ValueError, match=message):
        launcher_of(text)


def test_how_many(tmp_path: Path) -> None:
    batch, ssh = BatchLauncher(tmp_path), SSHLauncher(["a"])
    with pytest.raises(ValueError, match=r"'count' must say how many workers to use, got None"), parallel_sgd.nodes_from(batch):
        pass
    alone = parallel_sgd.nodes_from(Offer(ssh, 1), ps=True)  # the only agent would be the server
    with pytest.raises(ValueError, match=r"'count' must be a positive integer, got 0"), alone:
        pass
    for launcher in (LocalLauncher(), batch, ssh, KubernetesLauncher("a")):
        with pytest.raises(ValueError, match=r"launcher 'count' must be a positive integer, got True"), launcher:
            launcher.start(True)
    with pytest.raises(ValueError, match=r"2 agents need as many hosts, got 1: a"), ssh:
        ssh.start(2)


def test_pods(monkeypatch: pytest.MonkeyPatch) -> None:
    """A pod is waited for until DNS has it; jobs get names, which stay, a discovery the addresses, which change."""
    looks: list[str] = []
    there = {"psgd-0.psgd.lab": ["10.0.0.7"]}

    def lookup(name: str) -> list[str]:
        looks.append(name)
        if looks.count("psgd-1.psgd.lab") == 3:
            there["psgd-1.psgd.lab"] = ["10.0.0.8"]
        return [ip for ips in there.values() for ip in ips] if name == "psgd.lab" else there.get(name, [])

    monkeypatch.setattr("rpc.launch.kubernetes._LOOK_SECONDS", 0.001)
    with KubernetesLauncher("psgd.lab", 4000, resolve=lookup, limit=5.0) as launcher:
        assert launcher.start(2) == [Address("psgd-0.psgd.lab", 4000), Address("psgd-1.psgd.lab", 4000)]
        assert launcher.discover() == ["10.0.0.7:4000", "10.0.0.8:4000"]
    with pytest.raises(TimedOut, match=r"the pods psgd-2.psgd.lab to be ready"):
        KubernetesLauncher("psgd.lab", resolve=lookup, limit=0.01).start(3)


def test_names_are_looked_up_in_the_system(monkeypatch: pytest.MonkeyPatch) -> None:
    """A name that does not exist is no error, but the present state; a name server that does not answer is one."""
    assert resolve("localhost") and set(resolve("localhost")) <= {"127.0.0.1", "::1"}

    def fails(number: int) -> None:
        def lookup(*_: object, **__: object) -> list[object]:
            raise socket.gaierror(number, "so it is")

        monkeypatch.setattr(socket, "getaddrinfo", lookup)

    fails(socket.EAI_NONAME)
    assert resolve("psgd-7.psgd") == []
    fails(socket.EAI_AGAIN)
    with pytest.raises(NetworkError, match=r"The name psgd-7.psgd cannot be looked up: so it is\."):
        resolve("psgd-7.psgd")
