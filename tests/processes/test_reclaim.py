"""Leaving a job and coming back for its files and logs: during the run, after it, after a kill, from another process."""

from __future__ import annotations

import json
import os
import re
import signal
import socket
import subprocess
import sys
from pathlib import Path

import pytest

from parallel_sgd.__main__ import main
from parallel_sgd.commands import output
from rpc import Coordinator, Reclaimer, UnknownJob
from rpc.agent.children import project_root

from ..statements import covers
from .executors import Briefly, Chattering, Late, Printing, Reporting, Stepping, Sum, Talkative
from .harness import LIMIT, Cluster, start_job, wait_for

FETCHER = """
import sys
import network, rpc

key_file, job, *addresses = sys.argv[1:]
nodes = network.NodeAssignment(key_file)
for number, address in enumerate(addresses):
    nodes.add(number, address)
with network.Request().request(nodes) as com:
    files = rpc.Reclaimer(com).require_client_log(job or None)
print(*[path.as_posix() for paths in files.values() for path in paths], sep="\\n")
"""


def leave(trio: Cluster, folder: Path, executor: type = Briefly, **objects: object) -> str:
    """Submit, and leave at Waiting; returns the job's id."""
    with trio.request() as com:
        return start_job(com, executor, folder, objects=objects).job


def log_of(paths: list[Path], start: str) -> str:
    (path,) = (path for path in paths if path.name.startswith(start))
    return path.read_text()


@covers("SUB-15")
def test_files_later_from_another_process(trio: Cluster, tmp_path: Path) -> None:
    """The submitter leaves at Waiting; another process fetches by job id, and the newest by default."""
    older = leave(trio, tmp_path, seconds=0.2)
    with trio.request() as com:
        states = Reclaimer(com).follow(older)
        for session in com.sessions.values():  # a host that vanishes meanwhile is missed after some seconds
            with socket.socket(fileno=os.dup(session.link.fileno())) as twin:  # type: ignore[attr-defined]
                assert twin.getsockopt(socket.IPPROTO_TCP, socket.TCP_KEEPINTVL) == 1
    assert states == dict.fromkeys(range(3), ("done", ""))
    newer = trio.run(Sum, tmp_path / "newer").coordinator.job
    environ = {**os.environ, "PYTHONPATH": project_root()}
    for job, expected in ((older, older), ("", newer)):
        folder = tmp_path / (job or "newest")
        folder.mkdir()
        command = [sys.executable, "-c", FETCHER, str(trio.key_file), job, *[str(agent.address) for agent in trio.agents]]
        done = subprocess.run(command, env=environ, cwd=folder, capture_output=True, timeout=LIMIT, text=True, check=True)
        paths = [folder / line for line in done.stdout.splitlines()]
        logs = [path.read_text() for path in paths if re.fullmatch(r"Fit-\d .*\.log", path.name)]
        assert len(logs) == 3 and all(f"Job {expected} " in text for text in logs)
        assert {path.parent.name for path in paths} == {f"Node-{node}-Retrieve" for node in range(3)}


def test_a_job_that_failed_on_one_node_has_failed_when_it_is_fetched(
    trio: Cluster, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Others have ended well, which is how the job stands there; its page does not say that all is well."""
    assert trio.run(Late, tmp_path / "first").error
    monkeypatch.chdir(tmp_path)
    Path("worker.json").write_text(json.dumps({"Worker": [str(agent.address) for agent in trio.agents]}))
    assert main(["--retrieve", "--key-file", str(trio.key_file)]) == output.EXIT_OK
    assert json.loads(Path("runs/latest/outcome.json").read_text())["state"] == "failed"


def test_unknown_job(trio: Cluster, tmp_path: Path) -> None:
    with trio.request() as com:
        with pytest.raises(UnknownJob, match="None of the nodes has files of job nonsense"):
            Reclaimer(com).require_client_log("nonsense", tmp_path)
        with pytest.raises(UnknownJob, match="None of the nodes knows job nonsense"):
            Reclaimer(com).follow("nonsense")


@covers("SUB-15")
def test_stop_from_elsewhere(trio: Cluster, tmp_path: Path) -> None:
    """Progress can be re-attached, and the job stopped, without the one who submitted it."""
    job = leave(trio, tmp_path, Stepping)
    with trio.request() as com:
        reclaimer = Reclaimer(com)
        reclaimer.stop(job, "Enough.")
        assert {state for state, _ in reclaimer.follow(job).values()} == {"stopped"}


@covers("SUB-18")
def test_log_during_the_run(trio: Cluster, tmp_path: Path) -> None:
    """Logs can be fetched while the job runs, the agent's own log included; reports only afterwards."""
    with trio.running(Printing, tmp_path / "run") as coordinator:
        trio.begun(coordinator, 3)
        with trio.request() as other:
            files = Reclaimer(other).require_client_log(coordinator.job, tmp_path)
        for node, paths in files.items():
            assert "the last logged line\n" in log_of(paths, f"Fit-{node}")
            assert f"Job {coordinator.job} " in log_of(paths, "Worker-127.0.0.1")
            assert not [path for path in paths if path.suffix == ".psgd"]


@covers("SUB-18")
@pytest.mark.long
def test_log_of_a_killed_process(trio: Cluster, tmp_path: Path) -> None:
    """After SIGKILL the log is there up to the last line, logged or printed."""
    with trio.request() as com:
        coordinator = start_job(com, Printing, tmp_path)
        trio.begun(coordinator, 3)
        os.kill(trio.agents[1].job_pids()[0], signal.SIGKILL)
        coordinator.join()
    with trio.request() as com:
        files = Reclaimer(com).require_client_log(coordinator.job, tmp_path / "later")
    ending = r"INFO Fit-1@\d\d:\d\d:\d\d: the last logged line\nthe last printed line\n$"
    assert re.search(ending, log_of(files[1], "Fit-1"))


@covers("SUB-19")
def test_every_line_comes_home(trio: Cluster, tmp_path: Path) -> None:
    """10,000 lines in, 10,000 lines out, in order."""
    outcome = trio.run(Talkative, tmp_path)
    assert not outcome.error
    for node, paths in outcome.coordinator.files.items():
        numbers = re.findall(r"^INFO Fit-\d@\d\d:\d\d:\d\d: line (\d{5})$", log_of(paths, f"Fit-{node}"), re.MULTILINE)
        assert numbers == [f"{number:05d}" for number in range(10_000)]


@covers("SUB-19")
@pytest.mark.long
def test_what_a_job_prints_is_bounded(own: Cluster, tmp_path: Path) -> None:
    """On the agent and when it is fetched; the first and the last lines are there, and one says what was left out."""
    (agent,) = own.start(1, "--output-mib", "1")
    outcome = own.run(Chattering, tmp_path)
    assert not outcome.error
    text = log_of(outcome.coordinator.files[0], "Fit-0")
    numbers = re.findall(r"^line (\d{5}) x{1012}$", text, re.MULTILINE)
    assert "00000" in numbers and numbers[-1] == f"{(8 << 10) - 1:05d}"
    assert len(text) < 1.1 * (1 << 20) and len(re.findall(r"^\[[\d,]+ bytes were left out here", text, re.MULTILINE)) == 1
    assert sum(path.stat().st_size for path in agent.work.glob("jobs/*/Fit-0*.log*")) < 1.1 * (1 << 20)


@covers("SUB-15")
def test_old_jobs_are_removed(own: Cluster, tmp_path: Path) -> None:
    """The files of the last 20 jobs are kept, the newest among them, and no more."""
    (agent,) = own.start(1)
    for number in range(22):
        folder = agent.work / "jobs" / f"old-{number:02d}.0"
        (folder / "out").mkdir(parents=True, mode=0o700)
        record = {
            "job": f"old-{number:02d}",
            "node": 0,
            "title": "old",
            "state": "done",
            "ended": 2e9,
            "started": float(number),
        }
        (folder / "job.json").write_text(json.dumps(record))
    assert agent.end() == 0
    own.agents.remove(agent)
    (agent,) = own.start(1, "--work-dir", str(agent.work))
    newest = own.run(Sum, tmp_path).coordinator.job
    names = sorted(path.name for path in (agent.work).glob("jobs/*") if path.is_dir())
    assert f"{newest}.0" in names
    wait_for(lambda: not (agent.work / "jobs" / "old-00.0").exists(), "the old jobs to be removed, the oldest last")
    assert len(list(agent.work.glob("jobs/*"))) == 20 and (agent.work / "jobs" / "old-21.0").exists()


@pytest.mark.long
def test_two_submitters_in_a_row(trio: Cluster, tmp_path: Path) -> None:
    """One connection can carry one job after another."""
    with trio.request() as com:
        for number in range(2):
            coordinator = Coordinator(com, directory=tmp_path / str(number))
            coordinator.submit_group(Reporting)
            coordinator.resources_dispatch(lambda node, request: None)
            assert coordinator.join() == ({0: None, 1: None, 2: None}, False)
