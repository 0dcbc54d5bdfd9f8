"""What stays of the work directories of local workers when their job has ended well."""

from __future__ import annotations

from pathlib import Path

import pytest

from parallel_sgd.checkpoint import Snapshot
from parallel_sgd.checkpoint.locate import WORK
from parallel_sgd.checkpoint.store import Store
from parallel_sgd.run import keep_checkpoints
from rpc.submit.run_folder import RunFolder

from ...statements import covers
from .states import snapshot


@pytest.fixture
def run(tmp_path: Path) -> Path:
    """The folder of a run of three local workers."""
    made = RunFolder(tmp_path, "a-job", "T", {WORK: [f"agent-{number}" for number in range(3)]})
    made.begin()
    for number in range(3):
        (made.path / f"agent-{number}" / "a-job.0").mkdir(parents=True)
    return made.path


def leave(run: Path, agent: int, made: Snapshot) -> Path:
    """A checkpoint in the work directory of an agent."""
    return Store(run / f"agent-{agent}" / f"a-job.{made.header.node}" / "checkpoints", "a-job").save(made)


def personal(node: int, epoch: int, workers: int) -> Snapshot:
    return snapshot(epoch, node=node, attempt=3 - workers, personal=True, blocks=[[n] for n in range(workers)])


def left(run: Path) -> list[str]:
    return sorted(str(path.relative_to(run)) for path in run.rglob("*.safetensors"))


def shrunk(run: Path) -> None:
    """The second of three was lost after epoch 1; the third became the second, and both ended with epoch 3."""
    for agent, node in enumerate(range(3)):
        leave(run, agent, personal(node, 1, 3))
    for agent, node in ((0, 0), (2, 1)):
        for epoch in (2, 3):
            leave(run, agent, personal(node, epoch, 2))


@covers("SUB-44")
def test_the_workers_that_were_left(run: Path) -> None:
    """Of a job that has gone on with fewer workers, the last checkpoint of each of these."""
    shrunk(run)
    keep_checkpoints(run, [0, 1], None)
    assert left(run) == [f"Node-{node}-Retrieve/checkpoints/checkpoint-000003-00000000.safetensors" for node in (0, 1)]
    assert not list(run.glob("agent-*"))


@covers("SUB-44")
def test_nothing_is_deleted_while_no_position_is_complete(run: Path) -> None:
    """Neither without any checkpoint, nor where the state of one worker is lacking or cannot be read."""
    (run / "agent-1" / "a-job.0" / "log").write_text("all that it said")
    keep_checkpoints(run, [0, 1, 2], None)
    assert len(list(run.glob("agent-*/a-job.0"))) == 3 and (run / "agent-1" / "a-job.0" / "log").exists()
    shrunk(run)
    before = left(run)
    for path in run.glob("agent-2/a-job.*/checkpoints/*"):
        path.write_bytes(path.read_bytes()[:-1])
    keep_checkpoints(run, [0, 1], None)
    assert left(run) == before


@covers("SUB-44")
def test_nothing_is_deleted_while_files_have_not_come_home(run: Path, caplog: pytest.LogCaptureFixture) -> None:
    """They are nowhere else; the log says where they are, and of which nodes."""
    shrunk(run)
    before = left(run)
    keep_checkpoints(run, [0, 1], None, [1])
    assert left(run) == before
    assert caplog.messages == [f"What the workers have left stays in {run}: not all files of node(s) 1 were saved."]
