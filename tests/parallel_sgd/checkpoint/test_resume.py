"""Where training begins and what it tells; what `resume=` stands for; what does not fit; what stays of a job that has ended."""

from __future__ import annotations

import errno
import json
import re
import resource
import shutil
import sys
import threading
import time
from collections.abc import Mapping
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
from nn.tensor_files import parse, seal
from nn.threads import describe_kernels
from parallel_sgd import Parameter_Server, codec, in_process
from parallel_sgd.checkpoint import CheckpointError, Keeper, Position, Resumption, Snapshot, Store
from parallel_sgd.checkpoint.keeper import Checkpointing
from parallel_sgd.checkpoint.locate import WORK
from parallel_sgd.checkpoint.resume import NODES, ON_AGENTS, RESUMES, ResumePoint, checked_resume
from parallel_sgd.checkpoint.state import restore_values
from parallel_sgd.checkpoint.store import Disk, file_name
from parallel_sgd.codec import GlobalSettings, Remembering
from parallel_sgd.codec.plain import Plain
from parallel_sgd.engine.accounts import Times
from parallel_sgd.engine.batches import Batches
from parallel_sgd.engine.training import Hooks
from parallel_sgd.engine.worker import build_worker
from parallel_sgd.profiles import IIDBlockAssignment
from parallel_sgd.record.report import TrainingReport
from parallel_sgd.record.run import keep_checkpoints
from parallel_sgd.record.table import Earlier
from parallel_sgd.simulation.kernel import run_in_process
from rpc.monitor import Monitor
from rpc.submit.run_folder import RunFolder, node_folder
from tests.parallel_sgd.checkpoint.states import BATCHES, FailingDisk, bits, kept, network, newest, positions, run, throw_back
from tests.parallel_sgd.checkpoint.states import snapshot as snapshot_of
from tests.parallel_sgd.checkpoint.test_store import GatedDisk
from tests.parallel_sgd.digits_job import digits, plan_of
from tests.parallel_sgd.networks import mlp
from tests.processes.training.jobs import line_job, rows

from ...statements import covers

DATA = digits()
ONE = Position(1, 0)


# what training tells of its epochs


def one_worker(
    folder: Path, *, epochs: int = 3, every: Any = "epoch", disk: Disk | None = None, resumes: Snapshot | None = None
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
        checkpoints = Checkpointing(resumes and Resumption(resumes, True), keeper)
        return build_worker(plan, mlp(), DATA, channel, clock.monotonic, Hooks(monitor=Told()), checkpoints)

    clock = VirtualClock()
    run_in_process({0: build}, clock)
    return told


@covers("FD-8", "FD-11", "FD-12")
def test_an_epoch_is_told_when_it_is_saved(tmp_path: Path) -> None:
    """In order, once each, with a checkpoint on the disk that holds it; E = 3, 1 completed: 2 remain, however often."""
    ((epoch, found),) = one_worker(tmp_path, epochs=1)
    assert epoch == 1 and max(found) >= ONE
    told = one_worker(tmp_path, resumes=newest(tmp_path))
    assert [epoch for epoch, _ in told] == [2, 3] and all(max(found) >= (epoch, 0) for epoch, found in told)
    assert newest(tmp_path).header.progress.steps == 3 * BATCHES
    assert one_worker(tmp_path, resumes=newest(tmp_path)) == []


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
    assert disk.entered.acquire(timeout=100)
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


# the tables


def test_total_and_time_go_on(tmp_path: Path) -> None:
    """Total counts the steps so far, Time the seconds of training. The title may change,
    and where all have the same state a node may have saved nothing of late: its rows are there all the same."""
    first = run(tmp_path, epoch=1, checkpoint_every="epoch")
    (kept(tmp_path, 1) / file_name(ONE)).unlink()
    for title in ("Other", "P-SGD"):
        run(tmp_path, epoch=2, resume=first.job_id, mission_title=title)
        for node in (0, 1):
            assert [row[3] for row in rows(tmp_path, "TR", node, title)[1:]] == [str(n) for n in range(1, 2 * BATCHES + 1)]
            assert len(rows(tmp_path, "EV", node, title)) == 1 + 2
    table = (tmp_path / "Node-0-Retrieve" / "TR-P-SGD-N(0).csv").read_text("utf-8").splitlines()[1:]
    seconds = [float(line.split(",")[0]) for line in table]
    assert seconds == sorted(seconds)


@covers("SUB-44")
def test_rows_beyond_the_position_are_dropped(tmp_path: Path) -> None:
    """What the interrupted part wrote after its checkpoint, and a row that was cut off; other columns are another table. A
    worker that was stopped before its last row goes on with the state of one that had come further."""
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

    def again(node: int, column: str, *position: int) -> TrainingReport:
        return TrainingReport(tmp_path / ".", "T", node, [column], Earlier(tmp_path, position))

    found = again(0, "accuracy", 1, 2)
    assert found.steps_path.read_text().splitlines()[-1].startswith("2.5,2,2,4,6,")
    assert len(found.steps_path.read_text().splitlines()) == 1 + 6
    assert found.evaluations_path.read_text().splitlines()[1:] == ["0.5,0.1,1"]
    assert len(found.times_path.read_text().splitlines()) == 2
    state = {"kernel": np.arange(2.0)}
    for _ in range(2):  # the second time the row is there
        found = again(0, "accuracy", 2, 0)
        found.goes_on_after(2, [0.4, 0.2], state)
        assert found.evaluations_path.read_text().splitlines()[1:] == ["0.5,0.1,1", "0.4,0.2,2"]
    assert len(again(0, "precision", 2, 0).steps_path.read_text().splitlines()) == 1
    none = again(1, "accuracy", 2, 0)
    none.goes_on_after(2, [0.4, 0.2], state)  # of a worker whose tables are not here
    assert len(none.evaluations_path.read_text().splitlines()) == 1


# what does not fit


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


def frozen() -> SequentialModel:
    model = network()
    assert isinstance(model, SequentialModel)
    model.layers[0].trainable = False
    model.setup(model.loss)
    return model


WITHIN = "within an epoch"
SHUFFLED = "whose samples are shuffled by seed 11, .* got {}; take one"


@pytest.mark.parametrize(
    ("resume", "message", "settings"),
    [
        ("", r"Variable 'dense_1/kernel' must be float32 of shape \(64, 10\), the checkpoint has", {"model": 10}),
        ("", r"The checkpoint has the variable '.*', which the model does not have", {"model": 24}),
        ("", "The rule must be SGDOptimizer, the checkpoint has the state of ADAMOptimizer", {"gd_type": SGDOptimizer}),
        (
            "",
            r"The model trains \d+ parameters, the checkpoint has .* of ADAMOptimizer for \d+: layers were frozen",
            {"model": 0},
        ),
        (WITHIN, r"epoch of 1500 samples in batches of 128, .* got 1500 in batches of 32", {"block_size": 16}),
        (WITHIN, SHUFFLED.format("shuffled by seed 12"), {"seed": 12}),
        (WITHIN, SHUFFLED.format("fixed"), {"shuffle": False}),
        ("no/such/place", "must be 'last', a job id or the path of a checkpoint, and there is nothing at 'no/such/place'", {}),
        ("x" * 5000, "a checkpoint, and there is nothing at 'x{200}'$", {}),
        ("nul\0", "a checkpoint, and there is nothing at 'nul", {}),
        ("last", "'resume' is 'last', but there is no run in /.*/run/runs$", {}),
        ("20200101-000000-00000000", "names job 20200101-000000-00000000, of which there is no checkpoint here", {}),
        ("EMPTY", "there is no checkpoint: give a checkpoint file, a folder with 'checkpoints' in it, or that of a run", {}),
        ("TEXT", "The checkpoint .* cannot be used: ", {}),
    ],
)
def test_what_does_not_fit_is_named(saved: Path, tmp_path: Path, resume: str, message: str, settings: dict[str, Any]) -> None:
    """Variable, expectation, what came; before anything runs."""
    (tmp_path / "EMPTY").mkdir()
    (tmp_path / "TEXT").write_text("not a checkpoint")
    within = next(position for position in positions(saved, 0) if position.batch)  # one that waited may have been left out
    places: dict[str, Any] = {"": saved, WITHIN: kept(saved, 0) / file_name(within)}
    places.update({name: tmp_path / name for name in ("EMPTY", "TEXT")})
    if "gd_type" in settings:
        settings = {**settings, "gd_params": (0.1,)}
    elif "model" in settings:
        settings = {"model": other(settings["model"]) if settings["model"] else frozen()}
    with pytest.raises(CheckpointError, match=message):
        run(tmp_path / "run", resume=places.get(resume, resume), **settings)
    if "model" in settings and "trains" not in message:
        assert not list((tmp_path / "run").glob("Node-*"))


def test_a_lacking_variable_changes_no_model(saved: Path) -> None:
    found = newest(kept(saved, 0))
    arrays = {name: array for name, array in found.arrays.items() if name != "value/dense_2/bias"}
    model = network()
    before = model.store.values.copy()
    message = r"Variable 'dense_2/bias' must be float32 of shape \(10,\), but the checkpoint does not"
    with pytest.raises(CheckpointError, match=message):
        restore_values(model, Snapshot(found.header, arrays, {}))
    assert (model.store.values == before).all()


def test_a_checkpoint_of_an_earlier_release_tells_no_parts(saved: Path) -> None:
    """What its workers had lost before is not known: the record of the next part says so, or `verify` would accuse the run."""
    found = newest(kept(saved, 0))
    arrays, metadata = parse(b"".join(found.pieces()))
    told = json.loads(metadata["snapshot"])
    assert told["header"].pop("parts") == []
    old = Snapshot.read(b"".join(seal(arrays, {"format": metadata["format"], "snapshot": json.dumps(told)})))
    batches, dealt = Batches(found.header.samples, 64, 2), [[0], [1]]
    workers = [[part.workers for part in Resumption(each, True).parts(batches, dealt)] for each in (found, old)]
    assert workers == [[2, 2], [0, 2]]
    again = replace(old.header, parts=[[*part] for part in Resumption(old, True).parts(batches, dealt)][:1])
    later = Snapshot.read(b"".join(Snapshot(again, found.arrays, found.numbers).pieces()))
    assert [part.workers for part in Resumption(later, True).parts(batches, dealt)] == [0, 2], "once unknown, always"


def test_what_may_differ_is_remarked(saved: Path, tmp_path: Path, caplog: pytest.LogCaptureFixture) -> None:
    """Whoever compares bits is told what they depend on. From the end of an epoch blocks may have another
    size, too."""
    result = run(tmp_path, resume=saved / "Node-0-Retrieve", block_size=16, epoch=2, seed=12)
    assert len(rows(tmp_path, "EV", 0)) == 1 + 2 and result["Loss"] > 0
    assert "The checkpoint is of a job with seed 11, this one has 12: other random numbers follow." in caplog.text
    found = newest(kept(saved, 0))
    old = replace(found.header, versions={**found.header.versions, "numpy": "1.0"})
    (remark,) = Resumption(Snapshot(old, found.arrays, found.numbers), True).remarks(11)
    assert remark.startswith("The checkpoint was made with numpy 1.0 (here ")
    was, here = "functions for AVX2, OpenBLAS kernels Zen, 1 thread", describe_kernels()
    other = replace(found.header, versions={**found.header.versions, "kernels": was})
    (remark,) = Resumption(Snapshot(other, found.arrays, found.numbers), True).remarks(11)
    assert remark == f"The checkpoint was made with kernels {was} (here {here}): the last bits may differ."
    older = {name: version for name, version in found.header.versions.items() if name != "kernels"}
    assert Resumption(Snapshot(replace(other, versions=older), found.arrays, found.numbers), True).remarks(11) == []


def test_what_is_behind_the_end_is_no_start(tmp_path: Path) -> None:
    """A job of fewer epochs would give the result of more."""
    whole = run(tmp_path / "two", epoch=2, checkpoint_every="epoch")
    assert bits(run(tmp_path / "again", resume=tmp_path / "two", epoch=2)) == bits(whole)  # nothing is left to do
    with pytest.raises(CheckpointError, match=r"The checkpoint is after 2 epochs, so 'epoch' must be at least 2, got 1"):
        run(tmp_path / "one", resume=tmp_path / "two", epoch=1)
    with pytest.raises(CheckpointError, match=r"got 1; 'last' is the run P-SGD-1, and a name takes another one"):
        run(tmp_path / "two", resume="last", epoch=1)
    assert not (tmp_path / "one").exists()  # it was refused before anything began


def test_the_name_of_a_run_is_taken(tmp_path: Path, caplog: pytest.LogCaptureFixture) -> None:
    """As `psgd runs` lists it; a job for which nothing is left to train says so."""
    whole = run(tmp_path, epoch=1, checkpoint_every="epoch")
    caplog.set_level("INFO")
    assert bits(run(tmp_path, resume="P-SGD-1", epoch=1)) == bits(whole)
    assert "The checkpoint is after 1 epoch: nothing is left to train, for 'epoch' is 1." in caplog.text
    assert "exactly once" not in caplog.text


def test_checkpoints_are_off_by_default(tmp_path: Path) -> None:
    """Every epoch with on_failure='restart', else off."""
    run(tmp_path, epoch=1)
    run(tmp_path / "restart", epoch=1, on_failure="restart")
    run(tmp_path / "off", epoch=1, on_failure="restart", checkpoint_every=None)
    assert [kept(tmp_path / at, 0).exists() for at in ("", "restart", "off")] == [False, True, False]
    assert positions(tmp_path / "restart", 0) == [ONE]


def test_shards_of_other_workers_are_not_mistaken(tmp_path: Path, caplog: pytest.LogCaptureFixture) -> None:
    """Within an epoch a worker saves the slots of its own shard; with another number of workers the rule begins afresh."""
    run(tmp_path, op_type=ShardedPSGDOptimizer, epoch=1, checkpoint_every=4)
    for node in (0, 1):
        (kept(tmp_path, node) / file_name(ONE)).unlink()
    shutil.rmtree(kept(tmp_path, 1))
    run(tmp_path, op_type=ShardedPSGDOptimizer, epoch=2, resume=tmp_path)
    assert "has the rule's slots of one shard only, so ADAMOptimizer begins afresh" in caplog.text


def test_accounts_hold_the_marks(tmp_path: Path) -> None:
    """What workers tell a server after a checkpoint is accounted as such, on both sides."""
    settings: dict[str, Any] = {"ps": True, "codec": codec.ServerAdam, "op_type": GradientAveragingOptimizer}
    result = run(tmp_path, epoch=2, checkpoint_every="epoch", **settings)
    marks = {node: [e for e in result.accounts[node] if e.codec == "checkpoint"] for node in result.accounts}
    assert [(entry.packets, entry.direction) for entry in marks[0]] == [(2, "sent")]
    assert sorted((entry.peer, entry.packets) for entry in marks[Parameter_Server]) == [(0, 2), (1, 2)]
    assert positions(tmp_path, Parameter_Server) == [ONE, Position(2, 0)]
    stateless = run(tmp_path / "stateless", ps=True, epoch=1, checkpoint_every="epoch")
    assert not any(entry.codec == "checkpoint" for node in stateless.accounts for entry in stateless.accounts[node])


@pytest.mark.long
def test_every_so_many_seconds(tmp_path: Path) -> None:
    """Workers decide for themselves, and still have positions in common; the bits do not change."""
    settings: dict[str, Any] = {"codec": codec.TopK, "gd_type": SGDOptimizer, "gd_params": (0.05,)}
    whole = run(tmp_path / "calm", **settings)
    run(tmp_path, checkpoint_every="0.01s", **settings)
    assert throw_back(tmp_path, [0, 1]) < (3, 0)
    assert bits(run(tmp_path, resume=tmp_path, **settings)) == bits(whole)


def test_a_worker_that_is_not_where_the_server_thinks() -> None:
    """Under asynchronous types their checkpoints are of different moments: the server goes on from what the worker says."""
    start, gradient = np.zeros(2, np.float32), np.ones(2, np.float32)
    with GlobalSettings.use(IIDBlockAssignment(1), rule=lambda: SGDOptimizer(0.5)):
        server = codec.AsyncPS(Parameter_Server)
        for round_ in range(3):
            server.receive_blocks((0, round_, gradient, *([start] if round_ == 0 else [])))
            server.answer(0)
        state = {name: value.copy() if isinstance(value, np.ndarray) else value for name, value in server.state_dict().items()}
        again = codec.AsyncPS(Parameter_Server)
        again.load_state_dict(state)
        again.receive_blocks((0, 1, gradient))  # the worker was one answer behind
        answer = again.answer(0)
        assert answer is not None and answer.content[0] == 1 and answer.content[1].tolist() == [-2.0, -2.0]
        with pytest.raises(ValueError, match="has sent 7 before"):  # once only
            again.receive_blocks((0, 7, gradient))


# a training that ends before its time


class Failing(Plain):
    """Fails at its eleventh block: four batches to an epoch, so in the third batch of the third epoch."""

    seen = 0

    def update_blocks(self, block_weight: Any) -> Any:
        self.seen += 1
        if self.seen == 11:
            raise ArithmeticError("the cause")
        return super().update_blocks(block_weight)


class Grumbling(Failing, Remembering):
    """From then on its state cannot be had either."""

    def state_dict(self) -> dict[str, Any]:
        if self.seen == 11:
            raise OSError("no state")
        return {}

    def load_state_dict(self, state: Mapping[str, Any]) -> None:
        """Nothing."""


@covers("FD-8")
@pytest.mark.parametrize(("kind", "saved"), [(Failing, (2, 2)), (Grumbling, (2, 0))])
def test_the_last_batch_that_was_applied_is_saved(
    kind: Any, saved: tuple[int, int], tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    """Not only the end of the last epoch; a state that cannot be had hides no error."""
    with in_process(2) as nodes, pytest.raises(ArithmeticError, match="the cause"):
        line_job().parallel(nodes, codec={0: kind}, directory=tmp_path, epoch=9, block_size=3, checkpoint_every="epoch")
    assert newest(kept(tmp_path, 0)).header.position == saved
    said = "The state after 2 epochs and 2 batches could not be saved" in caplog.text and "no state" in caplog.text
    assert said == (kind is Grumbling)


# `resume="last"`: the newest run in the directory


def origin(directory: Path, resume: str | Path = "last") -> ResumePoint:
    found = checked_resume(resume, network(), 9, [0, 1], None, directory)
    assert found is not None
    return found


def on_agents(directory: Path, job: str, **about: Any) -> RunFolder:
    """The record of a run whose checkpoints are elsewhere."""
    made = RunFolder(directory, job, "T", {NODES: ON_AGENTS, **about})
    made.begin()
    return made


@covers("SUB-44")
def test_the_newest_run_goes_on(tmp_path: Path, caplog: pytest.LogCaptureFixture) -> None:
    """With the bits of an uninterrupted one; no run replaces another, and a directory with its runs goes where it likes. One
    that has ended before its first checkpoint stands for what it went on from itself, and the log says so."""
    one, moved = tmp_path / "one", tmp_path / "two"
    first = run(one, epoch=1, checkpoint_every="epoch")
    before = {path: path.read_bytes() for path in (one / "runs" / "P-SGD-1").rglob("*") if path.is_file()}
    second = run(one, epoch=2, checkpoint_every="epoch", resume="last")
    third = run(one, epoch=3, resume=one / "runs" / "latest")
    assert bits(third) == bits(run(tmp_path / "calm"))
    folders = [result.files[0][0].parents[1].name for result in (first, second, third)]
    assert folders == ["P-SGD-1", "P-SGD-2", "P-SGD-3"]
    assert before == {path: path.read_bytes() for path in before}
    assert bits(run(one, resume=first.job_id)) == bits(third)  # an older one by its id
    assert not caplog.text
    found = origin(one)
    assert found.name == first.job_id and found.local is not None and found.local.choice.position == (1, 0)
    assert "P-SGD-4 has left no checkpoint, so what it went on from is taken" in caplog.text
    shutil.move(one, moved)
    assert origin(moved).local is not None and origin(tmp_path, moved / "runs").local is not None


def test_a_run_without_a_checkpoint_says_what_works(tmp_path: Path) -> None:
    """Its own message, not one that leads back to where one came from."""
    run(tmp_path, epoch=1)
    with pytest.raises(CheckpointError, match=r"run .*/runs/P-SGD-1, which has left no checkpoint: .*\. No run here has any$"):
        run(tmp_path, resume="last")
    run(tmp_path, epoch=1, checkpoint_every="epoch")
    without = run(tmp_path, epoch=1)
    for resume in ("last", without.job_id, tmp_path / "runs" / "latest", tmp_path / "Node-0-Retrieve", tmp_path):
        with pytest.raises(CheckpointError, match=r"The newest run here that has one is .*/runs/P-SGD-2$"):
            origin(tmp_path, resume)


@covers("SUB-44")
def test_runs_on_agents(tmp_path: Path) -> None:
    """They stand for their jobs, and for what these went on from, in case their agents have no checkpoint of them."""
    first = run(tmp_path, epoch=1, checkpoint_every="epoch")
    on_agents(tmp_path, "second", **{RESUMES: first.job_id})
    third = on_agents(tmp_path, "third", **{RESUMES: "second"})
    found = origin(tmp_path)
    assert found.name == "third" and found.jobs == ("third", "second")
    assert found.local is not None and found.local.choice.position == (1, 0)
    (third.path / node_folder(0)).mkdir()
    for resume in (third.path, third.path / node_folder(0), "third"):
        assert origin(tmp_path, resume).jobs == ("third", "second")
    on_agents(tmp_path, "fourth", **{RESUMES: "not-here"})
    assert origin(tmp_path).jobs == ("fourth", "not-here")
    on_agents(tmp_path, "fifth", **{RESUMES: "/gone/away"})
    assert origin(tmp_path).jobs == ("fifth",)
    with pytest.raises(CheckpointError, match="'resume' names job fifth, of which there is no checkpoint here"):
        run(tmp_path, resume="last")
    assert not (tmp_path / "runs" / "P-SGD-2").exists()
    RunFolder(tmp_path, "fetched", "T").begin()  # by somebody who did not submit it
    assert origin(tmp_path).jobs == ("fetched",)
    on_agents(tmp_path, "a", **{RESUMES: "b"})
    on_agents(tmp_path, "b", **{RESUMES: "a"})
    assert origin(tmp_path).jobs == ("b", "a")  # records that lead round in a circle


@pytest.mark.parametrize("place", ["file", "file/below"])
def test_a_directory_that_is_none(tmp_path: Path, place: str) -> None:
    """Before anything is sent."""
    (tmp_path / "file").touch()
    with pytest.raises(ValueError, match=r"'directory' must be a folder that can be written to, got '.*/file.*': "):
        run(tmp_path / place, epoch=1)


def test_a_folder_of_others(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Whoever has named none is told which it is, as in a lesson that was opened where it was handed out."""
    (tmp_path / "runs").touch()
    monkeypatch.chdir(tmp_path)
    told = rf"got '\.', which is {re.escape(str(tmp_path))}: .*\. Start in a folder of your own, or name one\."
    with pytest.raises(ValueError, match=told):
        run(Path(), epoch=1)


def test_a_disk_without_room_for_the_model(tmp_path: Path) -> None:
    """What it took of the files of the run does not stay."""
    limits = resource.getrlimit(resource.RLIMIT_FSIZE)
    resource.setrlimit(resource.RLIMIT_FSIZE, (4096, limits[1]))
    try:
        with pytest.raises(ValueError, match=r"'directory' must be a folder .*: File too large"):
            run(tmp_path, epoch=1)
    finally:
        resource.setrlimit(resource.RLIMIT_FSIZE, limits)
    assert not list((tmp_path / "runs").iterdir())


# what stays of the work directories of local workers


@covers("SUB-44")
def test_checkpoints_come_home_when_all_is_well(tmp_path: Path, caplog: pytest.LogCaptureFixture) -> None:
    """Of a job that has gone on with fewer workers, the last one of each of these. Nothing is deleted while no position is
    complete, nor while files have not come home, which are nowhere else: the log says where they are, and of which nodes."""
    made = RunFolder(tmp_path, "a-job", "T", {WORK: [f"agent-{number}" for number in range(3)]})
    made.begin()
    folder = made.path

    def left() -> list[str]:
        return sorted(str(path.relative_to(folder)) for path in folder.rglob("*.safetensors"))

    for agent in range(3):
        (folder / f"agent-{agent}" / "a-job.0").mkdir(parents=True)
    (folder / "agent-1" / "a-job.0" / "log").write_text("all that it said")
    keep_checkpoints(folder, [0, 1, 2], None)  # without any checkpoint
    assert len(list(folder.glob("agent-*/a-job.0"))) == 3 and (folder / "agent-1" / "a-job.0" / "log").exists()
    # the second of three was lost after epoch 1; the third became the second, and both ended with epoch 3
    of_two = [(agent, node, epoch, 2) for agent, node in ((0, 0), (2, 1)) for epoch in (2, 3)]
    for agent, node, epoch, workers in [*((node, node, 1, 3) for node in range(3)), *of_two]:
        state = snapshot_of(epoch, node=node, attempt=3 - workers, personal=True, blocks=[[n] for n in range(workers)])
        Store(folder / f"agent-{agent}" / f"a-job.{node}" / "checkpoints", "a-job").save(state)
    before = left()
    keep_checkpoints(folder, [0, 1], None, [1])
    assert left() == before
    assert caplog.messages == [f"What the workers have left stays in {folder}: not all files of node(s) 1 were saved."]
    whole = {path: path.read_bytes() for path in folder.glob("agent-2/a-job.*/checkpoints/*")}
    for path, content in whole.items():
        path.write_bytes(content[:-1])
    keep_checkpoints(folder, [0, 1], None)  # the state of one worker cannot be read
    assert left() == before
    for path, content in whole.items():
        path.write_bytes(content)
    keep_checkpoints(folder, [0, 1], None)
    assert left() == [f"Node-{node}-Retrieve/checkpoints/checkpoint-000003-00000000.safetensors" for node in (0, 1)]
    assert not list(folder.glob("agent-*"))
