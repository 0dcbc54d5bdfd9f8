"""Rows of block steps that a killed worker had not written: what the figures of their epoch are, and how that is told."""

from __future__ import annotations

from pathlib import Path
from statistics import fmean

import pytest

import nn
from nn.dataset.transforms import ImageCls
from parallel_sgd import in_process
from parallel_sgd.options.job_options import JobOptions
from parallel_sgd.options.make_spec import make_spec
from parallel_sgd.record.history import COUNTS, JobHistory, over_epoch
from parallel_sgd.record.tables import read_columns
from parallel_sgd.run_page.compare import figures_of
from parallel_sgd.run_page.records import RunRecords
from parallel_sgd.run_page.report import _curves
from parallel_sgd.writers.console import JobConsole
from parallel_sgd.writers.live import LiveFigures

BATCHES, EPOCHS, LOST = 10, 2, 4
HEAD = "Time,Epochs,Batches,in,Total,Loss\n"


def loss(epoch: int, batch: int, worker: int) -> float:
    """One that falls from batch to batch, so that the mean of late batches alone is too small."""
    return 10.0 - epoch - batch / BATCHES + worker / 8


def table(worker: int, lost: int) -> str:
    """A table `TR` of a worker, without the first `lost` batches of the second epoch."""
    rows = [
        f"{place}.0,{epoch},{batch},{BATCHES},{place},{loss(epoch, batch, worker)}\n"
        for epoch in range(1, EPOCHS + 1)
        for batch in range(1, BATCHES + 1)
        for place in [(epoch - 1) * BATCHES + batch]
        if epoch == 1 or batch > lost
    ]
    return HEAD + "".join(rows)


def run(folder: Path, lost: int) -> dict[int, list[Path]]:
    files: dict[int, list[Path]] = {}
    for worker in (0, 1):
        texts = {"TR": table(worker, lost * worker), "EV": "Loss,Epoch\n" + "".join(f"1.5,{e}\n" for e in (1, 2))}
        files[worker] = [folder / f"{kind}-job-N({worker}).csv" for kind in texts]
        for path, text in zip(files[worker], texts.values(), strict=True):
            path.write_text(text)
    return files


def test_a_batch_counts_by_its_blocks(tmp_path: Path) -> None:
    """The survivor's rows stand for those that are lost, so that the mean does not lean to the end of the epoch."""
    calm, killed = JobHistory.read(run(tmp_path, 0)), JobHistory.read(run(tmp_path, LOST))
    assert calm.untold == {} and killed.untold == {2: LOST}
    assert killed.rows[0] == calm.rows[0]
    known = [loss(2, batch, worker) for worker in (0, 1) for batch in range(1 + LOST * worker, BATCHES + 1)]
    error = abs(killed["Loss"][1] - calm["Loss"][1])
    assert error < abs(fmean(known) - calm["Loss"][1]) / 2
    assert "epoch 2: figures of 4 training steps lost with a worker" in killed._repr_html_()
    assert "lost" not in calm._repr_html_()


def test_the_tail_of_an_epoch_has_fewer_blocks() -> None:
    """It counts as much as it has, and nothing is lost."""
    whole, tail = (2, {"Loss": 1.0}), (1, {"Loss": 4.0})
    assert over_epoch([whole, whole, tail]) == ({"Loss": 8.0 / 5}, 0)
    assert over_epoch([tail]) == ({"Loss": 4.0}, 0)
    assert over_epoch([tail, whole, tail]) == ({"Loss": (2 * 4 + 2 + 4) / 5}, 1)


def test_a_worker_that_the_others_do_without_is_missing_in_later_epochs(tmp_path: Path) -> None:
    """Blocks that they hold, too, are trained on, but its rows are not there: no epoch passes for whole that has none."""
    files = run(tmp_path, 0)
    files[1][0].write_text("".join(table(1, 0).splitlines(keepends=True)[: 1 + BATCHES]))
    assert JobHistory.read(files).untold == {2: BATCHES}


def test_a_worker_that_came_later_is_missing_in_no_epoch_before(tmp_path: Path) -> None:
    """Runs of earlier releases that went on with more workers have no table of their parts."""
    files = run(tmp_path, 0)
    head, *rows = table(1, 0).splitlines(keepends=True)
    files[1][0].write_text("".join([head, *rows[BATCHES:]]))
    history = JobHistory.read(files)
    assert history.untold == {}
    assert history["Loss"][0] == pytest.approx(fmean(loss(1, batch, 0) for batch in range(1, BATCHES + 1)))


@pytest.mark.parametrize("lost", [0, LOST])
def test_bytes_of_a_worker_that_took_its_tables_with_it_are_told_to_lack(lost: int, tmp_path: Path) -> None:
    """Those of the packets that it had sent stand in none of the tables that are left."""
    files = run(tmp_path, lost)
    sent = {"Codec": ["Plain"] * EPOCHS, "Epochs": [1, 2], "Batches": [1, 1]} | {name: [10, 1500] for name in COUNTS.values()}
    tables = {
        worker: {kind: read_columns(path) for kind, path in zip(("TR", "EV"), paths, strict=True)} | {"BY": sent}
        for worker, paths in files.items()
    }
    records = RunRecords(tmp_path, None, tables=tables)  # type: ignore[arg-type]
    assert figures_of(records)["bytes sent"] == ("at least 3,020" if lost else "3,020")
    text = _curves(records, {"curves": {"names": ["Loss", "bytes"]}, "traffic": [], "restarts": []})
    assert ("Bytes that the worker sent then are not counted, either." in text) == bool(lost)


def test_the_console_marks_the_line(tmp_path: Path, caplog: pytest.LogCaptureFixture) -> None:
    """Where it is told while the job runs, and where at its end."""
    model = nn.model.SequentialModel([-1, 64], [nn.layer.Dense(10, "softmax")])
    model.setup("crossentropy")
    with in_process(2) as nodes:
        spec = make_spec(model, nn.dataset.Digits(), ImageCls(), JobOptions(nodes, epoch=EPOCHS))
    for lost, ends in ((0, [False, False]), (LOST, [False, True])):
        files, lines = run(tmp_path, lost), []
        for live in (True, False):
            caplog.clear()
            console = JobConsole(spec, nn.dataset.Digits().load())
            with caplog.at_level("INFO"):
                if live:
                    reader = LiveFigures(lambda: None, console.take)
                    reader.begin(files)
                    for worker, paths in files.items():
                        reader.read(worker, paths)
                else:
                    console.take_all(JobHistory.read(files))
            lines.append([record.getMessage() for record in caplog.records])
        assert lines[0] == lines[1] and len(lines[0]) == EPOCHS
        assert [line.endswith(f"   (figures of {lost} training steps lost with a worker)") for line in lines[0]] == ends
