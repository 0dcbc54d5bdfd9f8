"""Figures of training are means over samples, as those of `fit`: a block step counts by its samples, in the tail, too."""

from __future__ import annotations

import hashlib
import json
import shutil
from collections.abc import Callable
from contextlib import AbstractContextManager
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import nn
from nn.dataset import ArrayDataset
from nn.gradient_descent import SGDOptimizer
from nn.optimizer import GradientAveragingOptimizer
from parallel_sgd import JobResult, ParallelSGD, in_process, local_workers, simulated
from parallel_sgd.codec import AsyncPS
from parallel_sgd.engine.batches import BLOCK_COLUMNS, Batches
from parallel_sgd.profiles.blockassignment import AbsBlockAssignment, FixedBlockAssignment
from parallel_sgd.record.block_samples import BlockSamples
from parallel_sgd.record.history import JobHistory, over_epoch
from parallel_sgd.record.tables import read_columns
from parallel_sgd.run_page.data import page_data
from parallel_sgd.run_page.records import RunRecords
from tests.parallel_sgd.record.runs import psgd
from tests.statements import covers

RATE = 1e-12
"""Learning rate at which the weights stay what they are in float32, so that every sample has one loss."""
OPTIONS: dict[str, Any] = {"epoch": 2, "block_size": 64, "gd_type": SGDOptimizer, "gd_params": (RATE,), "shuffle": False}
Nodes = Callable[[], AbstractContextManager[Any]]


def samples_of(count: int) -> tuple[np.ndarray, np.ndarray]:
    """Samples, and labels one-hot; those behind the last 128 have a label of their own, so that the tail is unlike the rest."""
    draw = np.random.default_rng(5)
    kinds = draw.integers(0, 2, count)
    kinds[count - count % 128 :] = 2
    return draw.normal(size=(count, 4)).astype(np.float32), np.eye(3, dtype=np.float32)[kinds]


def network(metrics: list[str] | None = None) -> nn.model.Model:
    made = nn.model.SequentialModel([-1, 4], [nn.layer.Dense(3, "softmax", bias_initializer=nn.initializer.Constant(0))])
    made.compile(SGDOptimizer(RATE), "crossentropy", ["accuracy"] if metrics is None else metrics)
    return made


def expected(model: nn.model.Model, x: np.ndarray, y: np.ndarray) -> tuple[float, float]:
    """Mean loss and accuracy over all samples, by NumPy alone."""
    kernel, bias = (each.astype(np.float64) for each in model.get_weights())
    scores = x.astype(np.float64) @ kernel + bias
    losses = np.log(np.exp(scores).sum(1)) - (scores * y).sum(1)
    return float(losses.mean()), float((scores.argmax(1) == y.argmax(1)).mean())


class Thirds(AbsBlockAssignment):
    """Three blocks, of which the first worker has the first and the last."""

    def deal(self, node_count: int, redundancy: int) -> list[list[int]]:
        return [[0, 2], [1]]


def train(nodes: Nodes, count: int, directory: Path, **options: Any) -> tuple[JobResult, nn.model.Model, tuple[float, float]]:
    x, y = samples_of(count)
    model = network()
    told = expected(model, x, y)
    with nodes() as here:
        result = ParallelSGD(model, ArrayDataset(x, y, x, y)).parallel(here, **{**OPTIONS, "directory": directory, **options})
    return result, model, told


ASYNCHRONOUS: dict[str, Any] = {
    "codec": AsyncPS,
    "ps_codec": AsyncPS,
    "op_type": GradientAveragingOptimizer,
    "sync_type": "asgd",
}
CASES: dict[str, tuple[Nodes, int, dict[str, Any]]] = {
    "one worker": (lambda: in_process(1), 157, {}),
    "157 samples and 2 x 64": (lambda: in_process(2), 157, {}),
    "tail of one sample": (lambda: in_process(2), 129, {}),
    "empty blocks": (lambda: in_process(4), 131, {"block_size": 32}),
    "several blocks of a worker": (
        lambda: in_process(2),
        151,
        {"block_size": 16, "assignment_type": FixedBlockAssignment.of(4)},
    ),
    "redundant": (lambda: in_process(4), 133, {"block_size": 16, "redundancy": 2}),
    "no tail": (lambda: in_process(2), 256, {}),
    "asynchronous": (lambda: in_process(2, ps=True), 157, ASYNCHRONOUS),
    "simulated": (lambda: simulated(20), 399, {"block_size": 6}),
    "local workers": (lambda: local_workers(2), 157, {}),
}


@covers("SUB-17")
@pytest.mark.parametrize("case", CASES)
def test_a_figure_of_an_epoch_is_the_mean_over_samples(
    case: str, tmp_path: Path, caplog: pytest.LogCaptureFixture, capsys: pytest.CaptureFixture[str]
) -> None:
    """As that of `fit` and of NumPy: on the console, in the history, in the report, and where a command shows the run."""
    nodes, count, options = CASES[case]
    caplog.set_level("INFO")
    result, model, (loss, accuracy) = train(nodes, count, tmp_path, **options)
    x, y = samples_of(count)
    own = model.fit(x, y, epochs=1, batch_size=128, shuffle=False, verbose=0).rows[0]
    assert own["Loss"] == pytest.approx(loss, abs=1e-6) and own["accuracy"] == pytest.approx(accuracy, abs=1e-9)
    read = JobHistory.read(result.files)
    for history in (result.history, read):
        assert len(history.rows) == 2
        for row in history.rows:
            assert row["Loss"] == pytest.approx(loss, abs=1e-6) and row["accuracy"] == pytest.approx(accuracy, abs=1e-9)
    words = f"epoch 2/2   Loss {loss:.4f}   accuracy {accuracy:.4f}   test: "
    assert sum(line.startswith(words) for line in caplog.messages) == 1, caplog.messages
    assert result.folder is not None
    code, told, _ = psgd(capsys, "show", result.folder)
    assert code == 0 and words in told, told
    lines = page_data(RunRecords.read(result.folder))["curves"]["epoch"]
    (line,) = (each for each in lines if each["metric"] == "Loss" and each["label"] == "training")
    assert line["points"][-1][1] == pytest.approx(loss, abs=1e-4)


@covers("SUB-17")
def test_figures_of_one_worker_and_of_a_batch_are_means_over_their_samples(tmp_path: Path) -> None:
    """Of 151 samples 48 are in a batch of 3 blocks of two workers, and the tail of 7 has blocks of 2, 2 and 3 samples."""
    result, _, _ = train(lambda: in_process(2), 151, tmp_path, block_size=16, assignment_type=Thirds)
    sizes = {(batch, block): (16 if batch < 4 else (2, 2, 3)[block]) for batch in (1, 2, 3, 4) for block in range(3)}
    blocks = {0: (0, 2), 1: (1,)}
    rows: dict[int, list[tuple[int, float, int]]] = {}
    for node, paths in result.files.items():
        (path,) = (each for each in paths if each.name.startswith("TR-"))
        table = read_columns(path)
        places = [int(each) for epoch, each in zip(table["Epochs"], table["Batches"], strict=True) if epoch == 1]
        steps = [(batch, block) for batch in (1, 2, 3, 4) for block in blocks[node]]
        assert places == [batch for batch, _ in steps]
        rows[node] = [(step[0], float(loss), sizes[step]) for step, loss in zip(steps, table["Loss"], strict=False)]
    for node, own in rows.items():
        found = result.history.workers[node]["Loss"][0]
        assert found == pytest.approx(np.average([loss for _, loss, _ in own], weights=[size for *_, size in own]), abs=1e-12)
    every = [row for own in rows.values() for row in own]
    for step in result.history.steps[:4]:
        known = [(loss, size) for batch, loss, size in every if batch == step["batch"]]
        weights = [size for _, size in known]
        assert step["Loss"] == pytest.approx(np.average([loss for loss, _ in known], weights=weights), abs=1e-12)
    assert result.history.samples[1, 1] == (48, 48) and result.history.samples[1, 4] == (7, 7)


def test_a_metric_that_some_blocks_leave_undefined_counts_by_the_samples_of_the_others(
    tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    """The tail of 9 samples has 4 in one block and 5, of one class, in the other."""
    caplog.set_level("INFO")
    x = np.random.default_rng(2).normal(size=(41, 4)).astype(np.float32)
    y = (np.arange(41) % 3 == 0).astype(np.float32)[:, None]
    y[36:] = 0
    model = nn.model.SequentialModel([-1, 4], [nn.layer.Dense(1, "sigmoid")])
    model.compile(SGDOptimizer(RATE), "binary_crossentropy", ["auc"])
    with in_process(2) as nodes:
        result = ParallelSGD(model, ArrayDataset(x, y, x, y)).parallel(
            nodes, **{**OPTIONS, "block_size": 8, "directory": tmp_path}
        )
    areas = []
    for node in (0, 1):
        (path,) = (each for each in result.files[node] if each.name.startswith("TR-"))
        areas.append(read_columns(path)["auc"][:3])
    assert np.isnan(areas[1][2]) and np.isfinite(areas[0] + areas[1][:2]).all()
    right = np.average(areas[0] + areas[1][:2], weights=[8, 8, 4, 8, 8])
    assert result.history["auc"] == pytest.approx([right, right], abs=1e-6)
    assert sum(f"   auc {right:.4f}   test" in line for line in caplog.messages) == 2, caplog.messages


@covers("RUN-3", "RUN-8")
def test_a_run_of_an_earlier_release_is_read_and_verified(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    """It has no table of blocks: each step counts alike, as it did. One that was changed is told."""
    result, _, (loss, _) = train(lambda: in_process(2), 157, tmp_path)
    assert result.folder is not None
    run, later = result.folder.resolve(), tmp_path / "changed"
    shutil.copytree(run, later)
    for path in run.glob("Node-*/BL-*.csv"):
        path.unlink()
    manifest = json.loads((run / "manifest.json").read_text())
    manifest["files"] = {name: hashed for name, hashed in manifest["files"].items() if "/BL-" not in name}
    (run / "manifest.json").write_text(json.dumps(manifest))
    files = {node: [path for path in paths if path.exists()] for node, paths in result.files.items()}
    old = JobHistory.read(files)
    rows = [row for worker in old.workers.values() for row in worker.steps if row["epoch"] == 1]
    assert len(rows) == 4 and old["Loss"][0] == pytest.approx(np.mean([row["Loss"] for row in rows]), abs=1e-12)
    assert abs(old["Loss"][0] - loss) > 0.01, "else this shows nothing"
    code, told, said = psgd(capsys, "verify", run)
    assert code == 0 and "the folder agrees with itself" in told, told + said
    manifest = json.loads((later / "manifest.json").read_text())
    for path in later.glob("Node-*/BL-*.csv"):
        path.write_text(path.read_text().replace(",157,", ",156,"))
        manifest["files"][path.relative_to(later).as_posix()] = hashlib.sha256(path.read_bytes()).hexdigest()
    (later / "manifest.json").write_text(json.dumps(manifest))
    code, told, said = psgd(capsys, "verify", later)
    assert code == 1 and "BL-P-SGD-N(0).csv: row 2 is" in told + said, told + said


@covers("RUN-8")
def test_a_table_of_blocks_may_hold_anything() -> None:
    """Rows that no training has are left out; without any other, all steps count alike."""
    wrong = [[0, 1, 1, 2, 157, 64, 2], [0, 1, 1, 0, 157, 0, 2], [0, 1, 1, 0, 127, 64, 2], [0, 1, 1, 0, 157, 64, 0]]
    columns = dict(zip(BLOCK_COLUMNS, map(list, zip(*wrong, strict=True)), strict=True))
    assert not BlockSamples([columns]) and not BlockSamples([{}]) and not BlockSamples()  # type: ignore[list-item]


def test_samples_of_steps_follow_the_parts_of_a_training() -> None:
    """From the second batch of the second epoch on one worker has both blocks; the sample of the tail is in the second."""
    rows = [[0, 1, 1, 0, 9, 4, 2], [1, 1, 1, 1, 9, 4, 2], [0, 2, 2, 0, 9, 4, 2], [0, 2, 2, 1, 9, 4, 2]]
    columns = dict(zip(BLOCK_COLUMNS, map(list, zip(*rows, strict=True)), strict=True))
    samples = BlockSamples([columns, columns])  # type: ignore[list-item]
    assert [Batches(9, 4, 2).rows(1, block) for block in (0, 1)] == [slice(8, 8), slice(8, 9)]
    assert samples.of_steps(1, [(1, 1), (1, 2), (2, 1)]) == [4, 1, 4]
    assert samples.of_steps(0, [(1, 1), (2, 1), (2, 2), (3, 1), (3, 1), (3, 2)]) == [4, 4, 1, 4, 4, 1]
    assert [samples.of_batch(place) for place in ((1, 1), (1, 2), (3, 2))] == [8, 1, 1]


def test_a_training_that_goes_on_with_other_blocks_counts_by_the_samples_of_each_part(tmp_path: Path) -> None:
    """Of three workers with blocks of 32 samples, then of two with 48, then of these again, which add no rows to the table."""
    options = {"checkpoint_every": "epoch", "gd_type": SGDOptimizer}
    _, _, (loss, accuracy) = train(lambda: in_process(3), 157, tmp_path, block_size=32, epoch=1, **options)
    sizes = []
    for epoch in (2, 3):
        result, _, _ = train(lambda: in_process(2), 157, tmp_path, block_size=48, epoch=epoch, resume="last", **options)
        assert result.history["Loss"] == pytest.approx([loss] * epoch, abs=1e-6)
        assert result.history["accuracy"] == pytest.approx([accuracy] * epoch, abs=1e-9)
        assert result.folder is not None
        found = RunRecords.read(result.folder).history
        assert found.rows == result.history.rows
        sizes.append(sorted({len(read_columns(path)["Block"]) for path in result.folder.glob("Node-*/BL-*.csv")}))
    assert sizes == [[5], [5]]


def test_a_batch_counts_by_its_samples_where_rows_are_lost() -> None:
    """Of four blocks of 8 samples and a tail of 2 in two blocks, half of the rows went with a worker."""
    batches, steps = (
        [(2, {"Loss": 1.0, "auc": 0.5}), (4, {"Loss": 2.0, "auc": 1.0}), (1, {"Loss": 9.0})],
        [(4, 4), (4, 4), (2, 4)],
    )
    found, lost = over_epoch(batches, steps, [{"auc": 8}, {}, {"auc": 0}], samples=[(32, 16), (32, 32), (2, 1)])
    assert found == {"Loss": (32 * 1 + 32 * 2 + 2 * 9) / 66, "auc": (16 * 0.5 + 32 * 1.0) / 48} and lost == 3
