"""`worker.py --doctor` with real agents: what it finds, what it says is wrong, and that nobody is harmed by it."""

from __future__ import annotations

import contextlib
import json
import os
import re
import shutil
import signal
import socket
import subprocess
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from network import VERSION
from network.dial import Target, dial
from network.key_files import load_key_file
from network.keys import Key
from network.nodes import Address, NodeAssignment
from network.session import Session
from rpc import SubmissionError
from rpc import messages as m
from rpc.doctor.examine import examine
from tests.programs import python
from tests.sources import ROOT

from .executors import Stepping
from .harness import Cluster, answer, make_key


@pytest.fixture
def silent() -> Iterator[str]:
    """An address where nobody listens, nor can begin to: a socket has it that takes no connections."""
    with socket.socket() as holding:
        holding.bind(("127.0.0.1", 0))
        yield f"127.0.0.1:{holding.getsockname()[1]}"


def doctor(folder: Path, *arguments: object, key_file: Path) -> subprocess.CompletedProcess[str]:
    return python(folder, ROOT / "worker.py", "--doctor", *map(str, arguments), PSGD_KEY_FILE=str(key_file))


def as_data(finished: subprocess.CompletedProcess[str]) -> dict[str, Any]:
    assert not finished.stderr
    found: dict[str, Any] = json.loads(finished.stdout)
    return found


def wrong(found: dict[str, Any]) -> dict[str, str]:
    """What is wrong, by whom it concerns."""
    return {problem["subject"]: f"{problem['what']} {problem['repair']}".rstrip() for problem in found["problems"]}


def session_with(address: Address, key: Key) -> Session:
    return dial(Target(address, key, "submitter", "agent"))


def test_a_cluster_that_is_well(trio: Cluster, tmp_path: Path) -> None:
    """Named by addresses or found in worker.json: the same, and exit code 0."""
    addresses = [str(agent.address) for agent in trio.agents[:2]]
    (tmp_path / "worker.json").write_text(json.dumps({"Worker": addresses}))
    key = load_key_file(trio.key_file).offered
    for hosts in (["worker.json"], []):  # the latter asks this machine's own worker too, and there is none
        finished = doctor(tmp_path, "--json", *hosts, key_file=trio.key_file)
        found = as_data(finished)
        assert finished.returncode == 0 and found["problems"] == [] and found["key"] == key.id.hex()
        assert [worker["address"] for worker in found["workers"]] == addresses
        assert {(pair["from"], pair["to"]) for pair in found["pairs"]} == {
            (one, other) for one in addresses for other in addresses if one != other
        }
        for worker in found["workers"]:
            assert (worker["version"], worker["free_slots"], worker["status"]["jobs"]) == (VERSION, 1, 0)
        for link in [each["link"] for each in (*found["workers"], *found["pairs"])]:
            assert link["bytes_per_second"] > 0 and not link["busy"] and link["latency_seconds"] > 0
            # one clock on both sides: the estimate is within what it says of itself
            assert abs(link["offset_seconds"]) <= link["uncertainty_seconds"] + 1e-4
    finished = doctor(tmp_path, *addresses, key_file=trio.key_file)
    assert finished.returncode == 0 and finished.stdout.endswith("All is well.\n")
    assert all(finished.stdout.count(address) == 3 for address in addresses)  # a line of its own, and two ways


@pytest.mark.slow
def test_what_is_wrong(own: Cluster, tmp_path: Path, silent: str) -> None:
    """Nobody there, an unknown name, a worker that is stopped, one with another key, one that is named twice, and one without a
    Unix socket: each in a sentence, and the others are examined all the same."""
    well, stopped = own.start(2, "--slots", "2")
    (deep,) = own.start(1, work=tmp_path / ("long" * 25) / "work")
    make_key(tmp_path / "other.key")
    other = Cluster(tmp_path / "other", tmp_path / "other.key")
    try:
        stranger = other.start(1)[0].address
        os.kill(stopped.pid, signal.SIGSTOP)
        alias = f"localhost:{well.address.port}"
        hosts = [well.address, silent, "no-such-host.invalid", stopped.address, stranger, alias, deep.address]
        finished = doctor(tmp_path, *hosts, "--json", key_file=own.key_file)
    finally:
        os.kill(stopped.pid, signal.SIGCONT)
        for agent in other.agents:
            agent.end()
    assert finished.returncode == 1
    found = as_data(finished)
    said = wrong(found)
    assert set(said) == {str(host) for host in hosts[1:]} - {"no-such-host.invalid"} | {"no-such-host.invalid:15387"}
    assert said[silent].endswith(
        "Connection refused. Start one on this machine with "
        f"'psgd worker --port {silent.split(':')[1]} --key-file {own.key_file}'."
    )
    assert "cannot be resolved" in said["no-such-host.invalid:15387"]
    assert said[str(stopped.address)].startswith("Timed out after 5 s")
    assert "wrong key; compare key files" in said[str(stranger)]
    assert said[alias].startswith(f"it is the same worker as {well.address}.")
    assert said[str(deep.address)].startswith("it has no Unix socket")
    assert [worker["free_slots"] for worker in found["workers"]] == [2, None, None, None, None, 2, 1]
    assert len(found["pairs"]) == 6 and all(pair["link"]["problem"] == "" for pair in found["pairs"])


@pytest.mark.long
def test_a_worker_that_can_begin_no_job(own: Cluster, tmp_path: Path) -> None:
    """Its work directory is not there any more: the doctor says so, and of the next job its console."""
    well, harmed = own.start(2)
    shutil.rmtree(harmed.work)
    finished = doctor(tmp_path, "--json", well.address, harmed.address, key_file=own.key_file)
    found = as_data(finished)
    assert finished.returncode == 1 and set(said := wrong(found)) == {str(harmed.address)}
    told = f"no job can begin in its work directory {harmed.work}: No such file or directory. Make room there"
    assert said[str(harmed.address)].startswith(told)
    states = [worker["status"] for worker in found["workers"]]
    assert states[0]["unwritable"] == "" and states[0]["free_bytes"] > 0
    assert states[1]["unwritable"] == "No such file or directory"
    with pytest.raises(SubmissionError, match="No such file"):
        own.run(Stepping, tmp_path, nodes=NodeAssignment(own.key_file).add(0, harmed.address))
    assert re.search(r"ERROR .*: Job \S+ \(.*\) refused: the job process cannot be started: No such file", harmed.console)


@pytest.mark.parametrize("number", [signal.SIGKILL, pytest.param(signal.SIGSTOP, marks=pytest.mark.slow)])
@pytest.mark.long
def test_a_worker_that_is_lost_meanwhile(own: Cluster, number: signal.Signals) -> None:
    """Before the ways among workers are measured: one sentence, and no word of ways of which nothing is known."""
    addresses = [agent.address for agent in own.start(3)]

    def show(done: int, of: int) -> None:
        if done == 3:
            os.kill(own.agents[1].pid, number)

    report = examine(addresses, load_key_file(own.key_file).offered, show)
    (problem,) = report.problems
    assert problem.subject == str(addresses[1]) and problem.what.startswith("it was lost while the ways were measured: ")
    assert [bool(pair.found.problem) for pair in report.pairs] == [True, False, True, True, False, True]


@pytest.mark.long
def test_while_a_job_runs(trio: Cluster, tmp_path: Path) -> None:
    """Round trips and clocks only, nothing that takes bandwidth from it; and the job goes on."""
    with trio.running(Stepping, tmp_path) as coordinator:
        trio.begun(coordinator, 3)
        finished = doctor(tmp_path, "--json", *(agent.address for agent in trio.agents[:2]), key_file=trio.key_file)
        found = as_data(finished)
        assert finished.returncode == 0 and found["problems"] == []
        assert [worker["free_slots"] for worker in found["workers"]] == [0, 0]
        for link in [each["link"] for each in (*found["workers"], *found["pairs"])]:
            assert link["busy"] and link["bytes_per_second"] is None and link["latency_seconds"] > 0
    assert {state for state, _ in coordinator.failures.values()} == {"stopped"}


def test_an_agent_carries_so_much_and_no_more(trio: Cluster) -> None:
    """Who sends more pings than a measurement needs is hung up on, as is who asks for the way to what is no address."""
    key, agent = load_key_file(trio.key_file).offered, trio.agents[0]
    with contextlib.closing(session_with(agent.address, key)) as session:
        answered = 0
        while session.alive:
            session.queue(m.Ping(bytes(1 << 20)).to_value())
            session.send()
            answered += answer(session, m.Pong) is not None
        assert answered == 64
    with contextlib.closing(session_with(agent.address, key)) as session:
        session.queue(m.Measure("a:b:c").to_value())
        assert answer(session, m.Measured) is None
    assert "64 MiB of pings" in (agent.work / "audit.jsonl").read_text()


@pytest.mark.slow
def test_an_agent_measures_one_way_at_a_time(trio: Cluster) -> None:
    key, agent = load_key_file(trio.key_file).offered, trio.agents[0]
    os.kill(trio.agents[1].pid, signal.SIGSTOP)
    try:
        with contextlib.closing(session_with(agent.address, key)) as session:
            session.queue(m.Measure(str(trio.agents[1].address)).to_value())
            session.queue(m.Measure(str(trio.agents[2].address)).to_value())
            second, first = answer(session, m.Measured), answer(session, m.Measured)
            session.queue(m.Measure(str(trio.agents[2].address)).to_value())
            third = answer(session, m.Measured)
    finally:
        os.kill(trio.agents[1].pid, signal.SIGCONT)
    assert isinstance(first, m.Measured) and isinstance(second, m.Measured) and isinstance(third, m.Measured)
    assert second.problem.startswith("it measures for somebody else") and "Timed out" in first.problem
    assert not third.problem and third.bandwidth > 0


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        (["--doctor", "a:b:c"], "A host with colons must be an IPv6 address, got 'a:b:c'"),
        (["--doctor", "none.json"], "The node file none.json cannot be used"),
        (["--doctor", "."], "No worker is registered in ."),
        (["--doctor", "--key-file", "none"], "Key file none does not exist"),
        (["--doctor", "a:0"], "HOST: A worker's port is a number from 1 to 65535, got 'a:0'"),
        (["--doctor", "--port", "0"], "A worker's port is a number from 1 to 65535, got '127.0.0.1:0'"),
        (["--doctor", "a", "--port", "2"], "--port does not go with HOST or --rendezvous"),
        (["--doctor", "a", "--slots", "3"], "--slots does not go with --doctor"),
        (["--doctor", "--new-key"], "--new-key does not go with --doctor"),
        (["--new-key", "mine"], "--new-key takes its FILE from --key-file: --new-key --key-file mine"),
        (["--json"], "--json goes with --doctor"),
        (["10.0.0.1"], "10.0.0.1 goes with --doctor"),
    ],
    ids=str,
)
@pytest.mark.share(6)
def test_wrong_options(arguments: list[str], message: str, tmp_path: Path) -> None:
    finished = python(tmp_path, ROOT / "worker.py", *arguments)
    assert finished.returncode == 2 and message in finished.stderr and not finished.stdout
