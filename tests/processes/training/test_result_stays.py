"""Nothing that follows the last batch takes a result away: an error at each call, at the submitter and in each worker."""

from __future__ import annotations

import gc
import itertools
import json
import os
import shutil
import sys
from collections.abc import Callable
from pathlib import Path
from types import FrameType
from typing import Any

from psgd import cli

import pytest

import nn
from network import NodeAssignment
from parallel_sgd import JobFailed, JobResult, local_workers
from parallel_sgd.driver.restart_loop import RestartLoop
from parallel_sgd.engine.training import TrainingProcess
from parallel_sgd.nodes import LocalNodes
from rpc.submit import downloads
from tests.fulldisk import fill, small_disk
from tests.parallel_sgd.record.faulty import Injector
from tests.processes.training.jobs import line_job, some, weights
from tests.statements import covers

pytestmark = pytest.mark.processes
BY_QUALIFIED_NAMES = pytest.mark.skipif(
    sys.version_info < (3, 11), reason="code of Python 3.10 has no co_qualname, by which calls are exempt"
)
ROOTS = ("run_on_agents", "_result", "drive", "reported", "parallel", "_sign", "_close", "_do_what_waited")
MAKING = (
    *("restart_loop.py:drive", "restart_loop.py:_end_well", "remote_run.py:_result"),
    *("run.py:__init__", "run.py:_means", "run.py:<dictcomp>", "run.py:JobResult.__init__"),
)
"""Callers that decide whose result counts, and make the result of the figures."""
IN_WORKER = ("_take_part", "_run", "run", "_log_accounts", "done", "_keep_accounts")
MAKING_IN_WORKER = (
    *("worker_executor.py:_take_part", "job_executor.py:_run", "job_executor.py:done"),
    *("socket_channel.py:run_process", "accounts.py:timed"),
)
NEEDED = ("_batch", "_evaluate")


class Faulty(nn.callback.Callback):
    """Injects errors into its worker from its last evaluation on, at calls that no worker has tried; `place` has these."""

    def __init__(self, place: str, depth: int | None) -> None:
        self.place, self.depth = place, depth

    def on_epoch_begin(self, epoch: int) -> None:
        if not self.place:
            return
        injector = Injector(in_worker, IN_WORKER, self.depth, MAKING_IN_WORKER)
        with open(self.place, encoding="utf-8") as file:
            injector.tried = {tuple(json.loads(line)) for line in file}

        def note(key: Any) -> None:
            descriptor = os.open(self.place, os.O_WRONLY | os.O_APPEND)
            os.write(descriptor, (json.dumps(key) + "\n").encode())
            os.close(descriptor)

        injector.note = note
        evaluate = TrainingProcess._evaluate

        def evaluated(process: TrainingProcess) -> dict[str, float]:
            figures = evaluate(process)
            injector.begin()
            return figures

        TrainingProcess._evaluate = evaluated  # type: ignore[method-assign]
        injector.attach()

    def on_epoch_end(self, epoch: int, logs: Any) -> None:
        pass


def in_worker(frame: FrameType) -> bool:
    each: FrameType | None = frame
    while each is not None:
        if each.f_code.co_name in NEEDED:
            return False
        if each.f_code.co_name == "start" and each.f_code.co_filename.endswith("job_executor.py"):
            return True
        each = each.f_back
    return False  # the transport of the result: a node that does not bring it has failed


def job(nodes: NodeAssignment, directory: Path, *callbacks: nn.callback.Callback, on_failure: str = "fail") -> JobResult:
    return line_job().parallel(
        nodes, epoch=1, block_size=6, directory=directory, checkpoint_every="epoch", callbacks=callbacks, on_failure=on_failure
    )


def same(result: JobResult, honest: JobResult) -> bool:
    """The figures of all; of the models those that came home."""
    mine, its = weights(result), weights(honest)
    return dict(result) == dict(honest) and not result.failures and all(mine[node] == its[node] for node in mine)


def remote(agents: LocalNodes) -> NodeAssignment:
    """Two agents as those of another machine are: the job survives its submitter."""
    nodes = NodeAssignment(agents.key_file)
    for node in range(2):
        nodes.add(node, agents[node])
    return nodes


@BY_QUALIFIED_NAMES
@covers("RUN-8")
@pytest.mark.parametrize("depth", [1, pytest.param(None, marks=pytest.mark.long)])
@pytest.mark.parametrize("kind", ["local", pytest.param("agents", marks=pytest.mark.long)])
@pytest.mark.long
def test_at_the_submitter(
    kind: str, depth: int | None, agents: LocalNodes, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    make: Callable[[], NodeAssignment] = (lambda: some(agents, 2)) if kind == "local" else lambda: remote(agents)
    honest = job(make(), tmp_path / "0")
    join = RestartLoop._join

    def joined(self: RestartLoop, *arguments: Any) -> Any:
        results = join(self, *arguments)
        injector.begin()
        return results

    monkeypatch.setattr(RestartLoop, "_join", joined)
    injector = Injector(lambda _: True, ROOTS, depth, MAKING, own=("parallel_sgd", "nn"))  # the others' connections would stay
    for number in itertools.count(1):
        with injector.injecting():
            result = job(make(), tmp_path / str(number))
        assert same(result, honest), injector.tried
        if not injector.count:
            break
        shutil.rmtree(tmp_path / str(number))
    gc.collect()
    assert len(injector.tried) > (50 if depth else 300)


@BY_QUALIFIED_NAMES
@covers("RUN-8")
@pytest.mark.parametrize("depth", [0, pytest.param(None, marks=pytest.mark.long)])
def test_in_the_workers(depth: int | None, agents: LocalNodes, tmp_path: Path) -> None:
    place = tmp_path / "tried"
    place.touch()
    honest = job(remote(agents), tmp_path / "0", Faulty("", None))
    for number in itertools.count(1):
        before = place.read_text()
        result = job(remote(agents), tmp_path / str(number), Faulty(str(place), depth))
        assert same(result, honest), place.read_text()
        if place.read_text() == before:
            break
        shutil.rmtree(tmp_path / str(number))
    assert len(before.splitlines()) > (20 if depth == 0 else 150)


@covers("RUN-8")
def test_when_local_workers_end(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """What waits for the end of the workers is no part of the result either."""
    done = []
    with local_workers(2) as nodes:
        result = job(nodes, tmp_path)
        nodes.ended.insert(0, lambda: done.append(True))
        nodes.ended.append(lambda: 1 // 0)
    assert result["Loss"] > 0 and done == [True]


@covers("FLT-13")
@pytest.mark.parametrize("policy", ["fail", "restart"])
def test_files_for_which_the_submitter_has_no_room_are_fetched_afterwards(
    policy: str, agents: LocalNodes, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The job has failed, the error tells the command that brings its files, and so it does once there is room. It does not
    start again, for which there would be no room either."""
    join, attempts = RestartLoop._join, []
    monkeypatch.setattr(downloads, "ROOM_SECONDS", 0.1)
    with small_disk(tmp_path / "disk", 4096) as disk:

        def joined(self: RestartLoop, *arguments: Any) -> Any:
            attempts.append(self)
            fill(disk / "other")
            return join(self, *arguments)

        monkeypatch.setattr(RestartLoop, "_join", joined)
        with pytest.raises(JobFailed, match=r"its files cannot be saved here: No space left on device\. ") as info:
            job(remote(agents), disk, on_failure=policy)
        command = f"psgd fetch {info.value.job_id}"
        assert len(attempts) == 1
        assert str(info.value).endswith(f"make room, then '{command}' brings them.") and not any(info.value.files.values())
        (disk / "other").unlink()
        (disk / "worker.json").write_text(json.dumps({"Worker": [str(agents[node]) for node in range(2)]}))
        monkeypatch.chdir(disk)
        assert cli.main([*command.split()[1:], "--key-file", str(agents.key_file)]) == 0
        assert {path.name[:2] for path in disk.glob("runs/*/Node-1-Retrieve/*.csv")} >= {"TR", "EV"}
        monkeypatch.undo()  # the disk is given back
