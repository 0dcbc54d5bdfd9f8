"""Where training begins, what it tells, and what does not fit."""

from __future__ import annotations

import errno
import shutil
import sys
import threading
import time
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import nn
from network.testing import VirtualClock
from nn.gradient_descent import SGDOptimizer
from nn.model import SequentialModel
from nn.optimizer import GradientAveragingOptimizer, ShardedPSGDOptimizer
from parallel_sgd import Parameter_Server, codec
from parallel_sgd.accounts import Times
from parallel_sgd.checkpoint import CheckpointError, Keeper, Position, Resumption, Snapshot, Store
from parallel_sgd.checkpoint.disk import Disk
from parallel_sgd.checkpoint.keeper import Checkpointing
from parallel_sgd.checkpoint.state import restore_values
from parallel_sgd.checkpoint.store import file_name
from parallel_sgd.codec import GlobalSettings
from parallel_sgd.in_process_scheduler import run_in_process
from parallel_sgd.profiles import IIDBlockAssignment
from parallel_sgd.report import TrainingReport
from parallel_sgd.table import Earlier
from parallel_sgd.training import Hooks
from parallel_sgd.worker import build_worker
from rpc.monitor import Monitor
from tests.parallel_sgd.checkpoint.jobs import BATCHES, bits, network, positions, rows, run, throw_back
from tests.parallel_sgd.checkpoint.test_store import FailingDisk
from tests.parallel_sgd.checkpoint.test_writer import GatedDisk
from tests.parallel_sgd.digits_job import digits, plan_of
from tests.parallel_sgd.networks import mlp

from ...statements import covers

DATA = digits()


def one_worker(
    folder: Path, *, epochs: int = 3, every: Any = "epoch", disk: Disk | None = None, resumption: Resumption | None = None
) -> list[tuple[int, list[Position]]]:
    """Train in this process; returns each epoch that was told, with the checkpoints that were on the disk then."""
    plan = plan_of(IIDBlockAssignment(1), block_size=128, epoch=epochs, seed=4, checkpoint_every=every)
    told: list[tuple[int, list[Position]]] = []

    class Told(Monitor):
        def epoch_end(self, epoch: int | None = None) -> None:
            assert epoch is not None
            told.append((epoch + 1, [h.position for h in Store(folder, "a-job").headers()]))

    def build(channel: Any) -> Any:
        keeper = Keeper(Store(folder, "a-job", disk=disk), plan.header("a-job", 0))
        return build_worker(
            plan,
            mlp(),
            DATA,
            channel,
            clock.monotonic,
            Hooks(monitor=Told()),
            Checkpointing(resumption, keeper),
        )

    clock = VirtualClock()
    run_in_process({0: build}, clock)
    return told


@covers("FD-11")
def test_an_epoch_is_told_when_it_is_saved(tmp_path: Path) -> None:
    """In order, once each, with a checkpoint on the disk that holds it."""
    told = one_worker(tmp_path)
    assert [epoch for epoch, _ in told] == [1, 2, 3]
    assert all(max(found) >= (epoch, 0) for epoch, found in told)


@covers("FD-11")
def test_with_rare_checkpoints_epochs_are_told_together(tmp_path: Path) -> None:
    """No more than the batches of one interval are computed again."""
    told = one_worker(tmp_path, every=2 * BATCHES + 3)
    assert [epoch for epoch, _ in told] == [1, 2, 3]
    assert all(found[0] >= (epoch, 0) for epoch, found in told)
    assert told[0][1][0] in (Position(2, 3), Position(3, 0))


@covers("FLT-13")
def test_an_epoch_is_told_though_the_disk_refuses(tmp_path: Path) -> None:
    """Training goes on, and so do its signals."""
    disk = FailingDisk("write", errno.ENOSPC)
    assert [epoch for epoch, _ in one_worker(tmp_path, disk=disk)] == [1, 2, 3]
    assert disk.fired >= 1 and Store(tmp_path).newest() is None


def test_training_does_not_wait_for_the_disk(tmp_path: Path) -> None:
    """The first file is held up until training is over: the epochs are told then, in one go."""
    disk = GatedDisk()
    threading.Thread(target=_open_at_the_end, args=(disk,)).start()
    told = one_worker(tmp_path, disk=disk)
    assert [epoch for epoch, _ in told] == [1, 2, 3]
    assert told[0][1] == told[2][1] and told[0][1][0] == Position(3, 0)


def _open_at_the_end(disk: GatedDisk) -> None:
    """When the loop waits for the disk, nothing else of this process runs."""
    assert disk.entered.acquire(timeout=20)
    while not any(thread.name == "MainThread" and _is_flushing(thread) for thread in threading.enumerate()):
        time.sleep(0.01)
    disk.gate.release(3)


def _is_flushing(thread: threading.Thread) -> bool:
    frame = sys._current_frames().get(thread.ident or 0)
    while frame is not None:
        if frame.f_code.co_name == "flush" and frame.f_code.co_filename.endswith("writer.py"):
            return True
        frame = frame.f_back
    return False


@covers("FD-8", "FD-12")
def test_only_the_remaining_epochs_are_trained(tmp_path: Path) -> None:
    """E = 3, 1 completed: 2 remain, however often."""
    one_worker(tmp_path, epochs=1)
    snapshot = Store(tmp_path).newest()
    assert snapshot is not None
    assert [epoch for epoch, _ in one_worker(tmp_path, resumption=Resumption(snapshot, True))] == [2, 3]
    snapshot = Store(tmp_path).newest()
    assert snapshot is not None and snapshot.header.progress.steps == 3 * BATCHES
    assert one_worker(tmp_path, resumption=Resumption(snapshot, True)) == []


def test_total_and_time_go_on(tmp_path: Path) -> None:
    """conventions.md "Files and console": Total counts the steps so far, Time the seconds of training."""
    first = run(tmp_path, epoch=1, checkpoint_every="epoch")
    run(tmp_path, epoch=2, resume=first.job_id)
    table = (tmp_path / "Node-0-Retrieve" / "TR-P-SGD-N(0).csv").read_text("utf-8").splitlines()[1:]
    assert [int(line.split(",")[4]) for line in table] == list(range(1, 2 * BATCHES + 1))
    seconds = [float(line.split(",")[0]) for line in table]
    assert seconds == sorted(seconds)


def test_rows_beyond_the_position_are_dropped(tmp_path: Path) -> None:
    """What the interrupted part wrote after its checkpoint, and a row that was cut off; other columns are another table."""
    report = TrainingReport(tmp_path, "T", 0, ["accuracy"])
    for step in range(8):
        report.step((0.5 * step, step // 4 + 1, step % 4 + 1, 4, step + 1, 0.25, 1.0))
    report.evaluation(1, [0.5, 0.1])
    report.evaluation(2, [0.4, 0.2])
    for epoch in (1, 2):
        report.times(epoch, Times(*(float(epoch),) * 5))
    report.save()
    with report.steps_path.open("a") as file:
        file.write("3.9,3,1")
    earlier = Earlier(tmp_path, (1, 2))
    again = TrainingReport(tmp_path / ".", "T", 0, ["accuracy"], earlier)
    assert again.steps_path.read_text().splitlines()[-1].startswith("2.5,2,2,4,6,")
    assert len(again.steps_path.read_text().splitlines()) == 1 + 6
    assert again.evaluations_path.read_text().splitlines()[1:] == ["0.5,0.1,1"]
    assert len(again.times_path.read_text().splitlines()) == 2
    other = TrainingReport(tmp_path / ".", "T", 0, ["precision"], Earlier(tmp_path, (2, 0)))
    assert len(other.steps_path.read_text().splitlines()) == 1


@covers("SUB-44")
def test_an_epoch_that_only_another_worker_has_evaluated(tmp_path: Path) -> None:
    """a worker that was stopped before its last row goes on with the state of one that had come further."""
    report = TrainingReport(tmp_path, "T", 0, ["accuracy"])
    report.evaluation(1, [0.5, 0.1])
    for _ in range(2):  # the second time the row is there
        again = TrainingReport(tmp_path / ".", "T", 0, ["accuracy"], Earlier(tmp_path, (2, 0)))
        again.goes_on_after(2, [0.4, 0.2])
        assert again.evaluations_path.read_text().splitlines()[1:] == ["0.5,0.1,1", "0.4,0.2,2"]
    none = TrainingReport(tmp_path / ".", "Other", 1, ["accuracy"], Earlier(tmp_path, (2, 0)))
    none.goes_on_after(2, [0.4, 0.2])  # of a worker whose tables are not here
    assert len(none.evaluations_path.read_text().splitlines()) == 1


def test_a_title_may_change(tmp_path: Path) -> None:
    first = run(tmp_path, epoch=1, checkpoint_every="epoch")
    run(tmp_path, epoch=2, resume=first.job_id, mission_title="Other")
    table = (tmp_path / "Node-1-Retrieve" / "TR-Other-N(1).csv").read_text("utf-8").splitlines()
    assert len(table) == 1 + 2 * BATCHES


@pytest.fixture(scope="module")
def saved(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("saved")
    run(folder, epoch=1, checkpoint_every=4)
    return folder


def other(units: int) -> SequentialModel:
    model = SequentialModel(input_shape=[-1, 64], seed=5)
    model.add(nn.layer.Dense(units))
    model.setup(nn.loss.Cross_Entropy_With_Softmax())
    return model


def test_a_model_that_does_not_fit_is_named(saved: Path, tmp_path: Path) -> None:
    """Variable, expectation, what came; before anything runs."""
    with pytest.raises(
        CheckpointError, match=r"Variable 'dense_1/kernel' must be float32 of shape \(64, 10\), the checkpoint has"
    ):
        run(tmp_path, model=other(10), resume=saved)
    with pytest.raises(CheckpointError, match=r"The checkpoint has the variable '.*', which the model does not have"):
        run(tmp_path, model=other(24), resume=saved)
    assert not list(tmp_path.glob("Node-*"))
    snapshot = Store(saved / "Node-0-Retrieve" / "checkpoints").newest()
    assert snapshot is not None
    arrays = {name: array for name, array in snapshot.arrays.items() if name != "value/dense_2/bias"}
    model = network()
    before = model.store.values.copy()
    with pytest.raises(
        CheckpointError, match=r"Variable 'dense_2/bias' must be float32 of shape \(10,\), but the checkpoint does not"
    ):
        restore_values(model, Snapshot(snapshot.header, arrays, {}))
    assert (model.store.values == before).all()


def test_another_rule_is_named(saved: Path, tmp_path: Path) -> None:
    with pytest.raises(CheckpointError, match="The rule must be SGDOptimizer, the checkpoint has the state of ADAMOptimizer"):
        run(tmp_path, resume=saved, gd_type=SGDOptimizer, gd_params=(0.1,))


def test_the_middle_of_an_epoch_needs_the_same_batches(saved: Path, tmp_path: Path) -> None:
    within = next(position for position in positions(saved, 0) if position.batch)  # one that waited may have been left out
    path = saved / "Node-0-Retrieve" / "checkpoints" / file_name(within)
    with pytest.raises(CheckpointError, match=r"epoch of 1500 samples in batches of 128, .* got 1500 in batches of 32"):
        run(tmp_path, resume=path, block_size=16)
    with pytest.raises(CheckpointError, match=r"whose samples are shuffled by seed 11, .* got shuffled by seed 12; take one"):
        run(tmp_path, resume=path, seed=12)
    with pytest.raises(CheckpointError, match=r"whose samples are shuffled by seed 11, .* got fixed; take one"):
        run(tmp_path, resume=path, shuffle=False)
    result = run(tmp_path, resume=saved / "Node-0-Retrieve", block_size=16, epoch=2)  # from the end of one it may
    assert len(rows(tmp_path, "EV", 0)) == 1 + 2 and result["Loss"] > 0


def test_what_is_behind_the_end_is_no_start(tmp_path: Path) -> None:
    """A job of fewer epochs would give the result of more."""
    whole = run(tmp_path / "two", epoch=2, checkpoint_every="epoch")
    assert bits(run(tmp_path / "again", resume=tmp_path / "two", epoch=2)) == bits(whole)  # nothing is left to do
    with pytest.raises(CheckpointError, match=r"The checkpoint is after 2 epochs, so 'epoch' must be at least 2, got 1"):
        run(tmp_path / "one", resume=tmp_path / "two", epoch=1)


@pytest.mark.parametrize(
    ("resume", "message"),
    [
        ("no/such/place", "must be 'last', a job id or the path of a checkpoint, and there is nothing at no/such/place"),
        ("x" * 5000, "a checkpoint, and there is nothing at x{200}$"),
        ("nul\0", "a checkpoint, and there is nothing at nul"),
        ("last", "'resume' is 'last', but there is no run in /.*/run/runs$"),
        ("20200101-000000-00000000", "names job 20200101-000000-00000000, of which there is no checkpoint here"),
        ("EMPTY", "where there is no checkpoint: give a checkpoint file, a folder with 'checkpoints' in it, or that of a run"),
        ("TEXT", "The checkpoint .* cannot be used: "),
    ],
)
def test_what_is_no_checkpoint_is_told(tmp_path: Path, resume: str, message: str) -> None:
    (tmp_path / "EMPTY").mkdir()
    (tmp_path / "TEXT").write_text("not a checkpoint")
    with pytest.raises(CheckpointError, match=message):
        run(tmp_path / "run", resume=tmp_path / resume if resume.isupper() else resume)


def test_checkpoints_are_off_by_default(tmp_path: Path) -> None:
    """conventions.md "Failure defaults": every epoch with on_failure='restart', else off."""
    run(tmp_path, epoch=1)
    assert not (tmp_path / "Node-0-Retrieve" / "checkpoints").exists()
    run(tmp_path / "restart", epoch=1, on_failure="restart")
    assert positions(tmp_path / "restart", 0) == [Position(1, 0)]
    run(tmp_path / "off", epoch=1, on_failure="restart", checkpoint_every=None)
    assert not (tmp_path / "off" / "Node-0-Retrieve" / "checkpoints").exists()


def test_shards_of_other_workers_are_not_mistaken(tmp_path: Path, caplog: pytest.LogCaptureFixture) -> None:
    """Within an epoch a worker saves the slots of its own shard; with another number of workers the rule begins afresh."""
    run(tmp_path, op_type=ShardedPSGDOptimizer, epoch=1, checkpoint_every=4)
    for folder in tmp_path.glob("Node-*/checkpoints"):
        (folder / file_name(Position(1, 0))).unlink()
    shutil.rmtree(tmp_path / "Node-1-Retrieve" / "checkpoints")
    run(tmp_path, op_type=ShardedPSGDOptimizer, epoch=2, resume=tmp_path)
    assert "has the rule's slots of one shard only, so ADAMOptimizer begins afresh" in caplog.text


def test_accounts_hold_the_marks(tmp_path: Path) -> None:
    """design.md decision 8: what workers tell a server after a checkpoint is accounted as such, on both sides."""
    settings: dict[str, Any] = {"ps": True, "codec": codec.ServerAdam, "op_type": GradientAveragingOptimizer}
    result = run(tmp_path, epoch=2, checkpoint_every="epoch", **settings)
    marks = {node: [e for e in result.accounts[node] if e.codec == "checkpoint"] for node in result.accounts}
    assert [entry.packets for entry in marks[0]] == [2] and [entry.direction for entry in marks[0]] == ["sent"]
    assert sorted((entry.peer, entry.packets) for entry in marks[Parameter_Server]) == [(0, 2), (1, 2)]
    assert positions(tmp_path, Parameter_Server) == [Position(1, 0), Position(2, 0)]
    stateless = run(tmp_path / "stateless", ps=True, epoch=1, checkpoint_every="epoch")
    assert not any(entry.codec == "checkpoint" for node in stateless.accounts for entry in stateless.accounts[node])


def test_other_seeds_and_versions_are_remarked(saved: Path, tmp_path: Path, caplog: pytest.LogCaptureFixture) -> None:
    """design.md decision 1: whoever compares bits is told what they depend on."""
    run(tmp_path, resume=saved, epoch=2, seed=12)
    assert "The checkpoint is of a job with seed 11, this one has 12: other random numbers follow." in caplog.text
    snapshot = Store(saved / "Node-0-Retrieve" / "checkpoints").newest()
    assert snapshot is not None
    old = replace(snapshot.header, versions={**snapshot.header.versions, "numpy": "1.0"})
    (remark,) = Resumption(Snapshot(old, snapshot.arrays, snapshot.numbers), True).remarks(11)
    assert remark.startswith("The checkpoint was made with numpy 1.0 (here ")


def test_every_so_many_seconds(tmp_path: Path) -> None:
    """Workers decide for themselves, and still have positions in common; the bits do not change."""
    settings: dict[str, Any] = {"codec": codec.TopK, "gd_type": SGDOptimizer, "gd_params": (0.05,)}
    whole = run(tmp_path / "calm", **settings)
    run(tmp_path, checkpoint_every="0.01s", **settings)
    position = throw_back(tmp_path, [0, 1])
    assert position < (3, 0)
    assert bits(run(tmp_path, resume=tmp_path, **settings)) == bits(whole)


def test_a_worker_that_is_not_where_the_server_thinks(tmp_path: Path) -> None:
    """Under asynchronous types their checkpoints are of different moments: the server goes on from what the worker says."""
    start, gradient = np.zeros(2, np.float32), np.ones(2, np.float32)
    with GlobalSettings.use(IIDBlockAssignment(1), rule=lambda: SGDOptimizer(0.5)):
        server = codec.AsyncPS(Parameter_Server)
        for round_ in range(3):
            server.receive_blocks((0, round_, gradient, *([start] if round_ == 0 else [])))
            server.answer(0)
        state = {
            name: np.copy(value) if isinstance(value, np.ndarray) else value for name, value in server.state_dict().items()
        }
        again = codec.AsyncPS(Parameter_Server)
        again.load_state_dict(state)
        again.receive_blocks((0, 1, gradient))  # the worker was one answer behind
        answer = again.answer(0)
        assert answer is not None and answer.content[0] == 1 and answer.content[1].tolist() == [-2.0, -2.0]
        with pytest.raises(ValueError, match="has sent 7 before"):  # once only
            again.receive_blocks((0, 7, gradient))


def test_a_node_that_was_sent_its_checkpoint_keeps_its_tables(tmp_path: Path) -> None:
    """Where all have the same state a node may have saved nothing of late; its rows are there all the same."""
    run(tmp_path, epoch=1, checkpoint_every="epoch")
    (tmp_path / "Node-1-Retrieve" / "checkpoints" / file_name(Position(1, 0))).unlink()
    run(tmp_path, epoch=2, resume=tmp_path)
    assert len(rows(tmp_path, "TR", 1)) == 1 + 2 * BATCHES and len(rows(tmp_path, "EV", 1)) == 1 + 2
