"""Writers: what a job and a fit give them, that a failing one harms nothing, and that TensorBoard and MLflow read them."""

from __future__ import annotations

import logging
import re
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import nn
from nn.model import SequentialModel
from parallel_sgd import JobResult, in_process
from parallel_sgd.codec import Plain, Ring, SyncPS
from parallel_sgd.record.history import COUNTS, JobHistory
from parallel_sgd.writers import MLflowWriter, TensorBoardWriter, WriterCallback
from parallel_sgd.writers.live import LiveFigures
from tests.processes.training.jobs import line_job
from tests.statements import covers


class Kept:
    """Keeps what it is told; `fails_at` is the call that raises."""

    def __init__(self, fails_at: str = "") -> None:
        self.fails_at = fails_at
        self.told: list[tuple[Any, ...]] = []

    def _tell(self, call: str, *what: Any) -> None:
        self.told.append((call, *what))
        if call == self.fails_at:
            raise ConnectionError("the service is away")

    def start(self, config: Mapping[str, Any]) -> None:
        self._tell("start", dict(config))

    def log(self, step: int, values: Mapping[str, float]) -> None:
        self._tell("log", step, dict(values))

    def finish(self, status: str) -> None:
        self._tell("finish", status)


class Counting(Kept):
    """Takes the packets of each batch, too."""

    def log_traffic(self, step: int, rows: Sequence[Mapping[str, int | str]]) -> None:
        self._tell("traffic", step, list(rows))


class Tracker:
    """Of the shape of `wandb`."""

    def __init__(self) -> None:
        self.config: dict[str, Any] = {}
        self.rows: list[tuple[int, dict[str, float]]] = []
        self.ended = 0

    def init(self, project: str = "", config: Any = None) -> Tracker:
        self.config = config
        return self

    def log(self, data: dict[str, float], step: int) -> None:
        self.rows.append((step, data))

    def finish(self) -> None:
        self.ended += 1


def run(folder: Path, *writers: Any, **settings: Any) -> JobResult:
    with in_process(2) as nodes:
        return line_job().parallel(nodes, epoch=2, block_size=4, directory=folder, writers=writers, **settings)


def test_a_job_tells_all_its_figures_and_a_failing_writer_harms_nothing(
    tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    """Settings first, then every batch with the mean over the workers, with the last of an epoch its test results."""
    kept, tracker = Kept(), Tracker()
    broken = [Kept(call) for call in ("start", "log", "finish")]
    with caplog.at_level(logging.WARNING, "parallel_sgd.writers"):
        result = run(tmp_path, kept, *broken, tracker)
    (_, config), *rows, end = kept.told
    assert config["epoch"] == 2 and config["workers"] == 2 and config["codec"] == "Plain" and end == ("finish", "done")
    assert [step for _, step, _ in rows] == list(range(1, len(result.history.steps) + 1))
    assert tracker.config == config and tracker.rows == [row[1:] for row in rows] and tracker.ended == 1
    for (_, _, values), row in zip(rows, result.history.steps, strict=True):
        assert values["Loss"] == row["Loss"] and values["time"] == row["time"]
    tests = [values for _, _, values in rows if "epoch" in values]
    assert [(values["epoch"], values["val_Loss"]) for values in tests] == [
        (row["epoch"], row["val_Loss"]) for row in result.history.rows
    ]
    assert [len(each.told) for each in broken] == [1, 2, len(kept.told)]
    told = [record.getMessage() for record in caplog.records]
    said = r"Kept fails and is left out: Kept\.\w+ raised ConnectionError: the service is away \(.*:\d+, in \w+\)"
    assert len(told) == 3 and all(re.fullmatch(said, text) for text in told), told


@covers("RUN-12")
@pytest.mark.parametrize("ps", [False, True])
def test_writers_get_packets_and_bytes(tmp_path: Path, ps: bool) -> None:
    """Of each batch, worker and codec as in the history, and with the figures their sums, whether told live or at the end."""
    kept = Counting()
    with in_process(2, ps=ps) as nodes:
        codec = {0: SyncPS if ps else Ring, 1: Plain}
        result = line_job().parallel(nodes, epoch=2, block_size=4, directory=tmp_path, writers=[kept], codec=codec)
    rows = [row for row in result.history.traffic if int(row["node"]) >= 0]
    told = [(step, each) for call, step, each in kept.told[1:-1] if call == "traffic"]
    places = [(row["epoch"], row["batch"]) for row in result.history.steps]
    assert told == [(n, [row for row in rows if (row["epoch"], row["batch"]) == at]) for n, at in enumerate(places, 1)]
    assert sum(len(each) for _, each in told) == len(rows) > len(places)
    figures = [values for call, _, values in kept.told[1:-1] if call == "log"]
    for values, (_, each) in zip(figures, told, strict=True):
        assert {name: values[name] for name in COUNTS} == {name: sum(int(row[name]) for row in each) for name in COUNTS}
    assert sum(values["bytes_sent"] for values in figures) > 0 and not any("bytes" in values for values in figures)


def test_a_batch_waits_for_its_packets() -> None:
    """A table of training that is read before that of the packets tells nothing; a row of zeros says that there were none."""
    told: list[JobHistory] = []
    figures = LiveFigures(lambda: None, told.append)
    figures.begin([0])
    heads = b"Codec,Epochs,Batches,Packets sent,Bytes sent,Wire sent,Packets received,Bytes received,Wire received\n"
    figures.take(0, "BY-x-N(0).csv", 0, heads)
    figures.take(0, "TR-x-N(0).csv", 0, HEAD + b"1,1,1,3,1,4\n2,1,2,3,2,3\n3,1,3,3,3,3\n")
    assert told == []
    figures.take(0, "BY-x-N(0).csv", len(heads), b"Plain,1,1,2,8,9,1,4,5\n,1,3,0,0,0,0,0,0\n")
    (history,) = told
    assert [(row["batch"], row["bytes"]) for row in history.steps] == [(1, 8), (2, 0)] and len(history.traffic) == 1


HEAD = b"Time,Epochs,Batches,in,Total,Loss\n"


def test_figures_come_once_and_when_all_workers_have_them(caplog: pytest.LogCaptureFixture) -> None:
    """Whatever pieces the tables come in: a batch when each worker has one behind it, the last of an epoch with the evaluation;
    after a restart what is new; without a worker that is lost."""
    told: list[tuple[int, int, float, float]] = []
    begun: list[None] = []

    def keep(history: JobHistory) -> None:
        tests = {row["epoch"]: row.get("val_Loss", 0.0) for row in history.rows}
        told.extend((int(row["epoch"]), int(row["batch"]), row["Loss"], tests[row["epoch"]]) for row in history.steps)

    figures = LiveFigures(lambda: begun.append(None), keep)
    figures.begin([0, 1])
    figures.take(0, "TR-x-N(0).csv", 0, HEAD + b"1,1,1,2,1,4\n2,1,2,2,2,3\n3,2,1,2,3,1\n")
    figures.take(0, "EV-x-N(0).csv", 0, b"Loss,Epoch\n8,1\n")
    figures.take(1, "TR-x-N(1).csv", 0, HEAD + b"1,1,1,2,1,")
    assert told == []
    figures.take(1, "TR-x-N(1).csv", len(HEAD) + 10, b"2\n2,1,2,2,2,1\n")
    figures.take(1, "BA-x-N(1).csv", 0, b"something else")
    assert told == [(1, 1, 3.0, 0.0)]
    figures.take(1, "EV-x-N(1).csv", 0, b"Loss,Epoch\n6,1\n")
    assert told[1:] == [(1, 2, 2.0, 7.0)]
    figures.begin([0, 1, 2])
    for worker in range(3):
        figures.take(worker, f"TR-x-N({worker}).csv", 0, HEAD + b"1,1,1,2,1,4\n2,1,2,2,2,3\n3,2,1,2,3,5\n")
        figures.take(worker, f"EV-x-N({worker}).csv", 0, b"Loss,Epoch\n8,1\n")
    for worker in (0, 1):
        figures.take(worker, f"TR-x-N({worker}).csv", 99, b"4,2,2,2,4,6\n")
    assert len(told) == 2
    figures.lose(2)
    assert told[2:] == [(2, 1, 5.0, 0.0)] and len(begun) == 2
    figures.take(0, "TR-x-N(0).csv", 0, HEAD + b"1,a,b,c,d,e\n1,inf,1,1,1,1\n")
    assert len(told) == 3 and not caplog.text
    figures.take(1, "TR-x-N(1).csv", 0, b"Time,Loss\n")
    assert len(told) == 3 and "figures of the job come when it has ended" in caplog.text


def test_a_job_that_fails_is_told(tmp_path: Path) -> None:
    kept = Kept()
    with pytest.raises(FloatingPointError):
        run(tmp_path, kept, gd_params=(1e30,))
    assert kept.told[0][0] == "start" and kept.told[-1] == ("finish", "failed")


@pytest.mark.parametrize(
    ("message", "writers"),
    [
        ("'writers' must be a list of writers, got str; write", "tensorboard"),
        ("'writers' must be a list of writers, got int", 3),
        (r"'writers' must be writers, got the class Kept; write Kept\(\.\.\.\)", [Kept]),
        (r"'writers' must have start\(config\), .*, but .*object.* lacks finish and log and start", [object()]),
    ],
)
def test_what_is_no_writer_is_refused(tmp_path: Path, message: str, writers: Any) -> None:
    with in_process(1) as nodes, pytest.raises(TypeError, match=message):
        line_job().parallel(nodes, directory=tmp_path, writers=writers)
    assert not list(tmp_path.iterdir())


def test_event_files_are_read_by_tensorboard(tmp_path: Path) -> None:
    """By its own loader: every curve with all its points, settings and status as texts."""
    pytest.importorskip("tensorboardX", reason="tensorboardX is not installed (make extras)")
    reading = pytest.importorskip(
        "tensorboard.backend.event_processing.event_accumulator", reason="TensorBoard is not installed (make extras)"
    )
    result = run(tmp_path, TensorBoardWriter(tmp_path / "tb", "mine"), TensorBoardWriter())
    assert list((tmp_path / "runs" / "P-SGD-1" / "tensorboard").iterdir())
    events = reading.EventAccumulator(str(tmp_path / "tb" / "mine")).Reload()
    traffic = {f"traffic/{name}" for name in COUNTS}
    assert set(events.Tags()["scalars"]) == {"Loss/training", "Loss/test", "mse/training", "mse/test", "epoch", *traffic}
    read = [(point.step, point.value) for point in events.Scalars("Loss/training")]
    written = [(step, float(np.float32(row["Loss"]))) for step, row in enumerate(result.history.steps, 1)]
    assert read == written
    assert [point.value for point in events.Scalars("epoch")] == [1, 2]
    times = [point.wall_time for point in events.Scalars("Loss/training")]
    assert times == sorted(times)
    (settings,) = events.Tensors("settings/text_summary")
    assert b"| workers | 2 |" in settings.tensor_proto.string_val[0]


def test_mlflow_reads_its_runs(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """In a store of files, which MLflow itself wants to be asked for; a database needs more of its packages."""
    monkeypatch.setenv("MLFLOW_ALLOW_FILE_STORE", "true")
    mlflow = pytest.importorskip("mlflow", reason="MLflow is not installed (make extras)")
    store = str(tmp_path / "store")
    result = run(tmp_path, MLflowWriter("lines", store, "mine"))
    with pytest.raises(FloatingPointError):
        run(tmp_path, MLflowWriter("lines", store, "bad"), gd_params=(1e30,))
    client = mlflow.MlflowClient(tracking_uri=store)
    (experiment,) = [found for found in client.search_experiments() if found.name == "lines"]
    runs = {found.info.run_name: found for found in client.search_runs([experiment.experiment_id])}
    assert runs["mine"].info.status == "FINISHED" and runs["bad"].info.status == "FAILED"
    assert runs["mine"].data.params["workers"] == "2"
    history = client.get_metric_history(runs["mine"].info.run_id, "Loss")
    assert [(point.step, point.value) for point in history] == [
        (step, row["Loss"]) for step, row in enumerate(result.history.steps, 1)
    ]


def test_a_fit_tells_its_epochs() -> None:
    kept = Kept()
    model = SequentialModel([-1, 4], [nn.layer.Dense(3)])
    model.compile("sgd", "crossentropy_with_softmax")
    history = model.fit(np.eye(4), [0, 1, 2, 0], epochs=2, verbose=0, callbacks=[WriterCallback(kept)])
    assert [row[1:] for row in kept.told[1:-1]] == [(n, {"Loss": loss}) for n, loss in enumerate(history["Loss"], 1)]
    assert kept.told[-1] == ("finish", "done")
