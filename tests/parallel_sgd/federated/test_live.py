"""Bytes, seconds and tests of clients in the figures that writers and the live page get while a job runs."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from typing import Any

import pytest

from parallel_sgd import Clients, JobResult, in_process
from parallel_sgd.federated import ClientClock, TimedSampler
from parallel_sgd.record.history import JobHistory
from parallel_sgd.record.over_clients import is_over_clients
from parallel_sgd.run_page.data import page_data
from parallel_sgd.run_page.records import RunRecords
from parallel_sgd.run_page.sources import SampledTables
from parallel_sgd.writers.live import LiveFigures
from tests.parallel_sgd.federated.test_clients import OPTIONS, job


class Kept:
    """Writer that keeps what it is told."""

    def __init__(self) -> None:
        self.rows: list[Mapping[str, float]] = []

    def start(self, config: Mapping[str, Any]) -> None:
        pass

    def log(self, step: int, values: Mapping[str, float]) -> None:
        self.rows.append(values)

    def finish(self, status: str) -> None:
        pass


def ran(folder: Path, **options: Any) -> JobResult:
    # in some rounds a worker has no client
    given = Clients(30, TimedSampler(6, take=4, dropout=0.2), rounds=5, clock=ClientClock("lognormal 5ms 0.8"), test=0.3)
    with in_process(2) as nodes:
        return job("float32").parallel(nodes, clients=given, directory=folder, **{**OPTIONS, "epoch": 2, **options})


def test_writers_are_told_bytes_and_seconds_of_clients_with_each_round(tmp_path: Path) -> None:
    writer = Kept()
    result = ran(tmp_path, writers=[writer])
    assert len(writer.rows) == 10
    for told, row in zip(writer.rows, result.history.steps, strict=True):
        assert (told["client_bytes"], told["seconds"]) == (row["client_bytes"], row["seconds"])
    assert sum(row["client_bytes"] for row in writer.rows) == result.history.bytes_until()[2, float("inf")]
    assert all(row["seconds"] > 0 for row in writer.rows)
    tested = {name for name in result.history.columns() if is_over_clients(name)}
    assert {"val_clients_accuracy", "val_clients_accuracy_worst", "val_clients_Loss_spread"} <= tested
    ends = [row for row in writer.rows if "epoch" in row]
    assert [{name: row[name] for name in tested} for row in ends] == [
        {name: row[name] for name in tested} for row in result.history.rows
    ]


def test_the_live_page_shows_figures_of_clients_of_which_all_are_there(tmp_path: Path) -> None:
    result = ran(tmp_path)
    folder = result.files[0][0].parent.parent
    read = SampledTables()
    seen = RunRecords.read(folder, read.read).history
    assert seen["val_clients_accuracy"] == result.history["val_clients_accuracy"]
    lines = page_data(RunRecords.read(folder, read.read))["curves"]["epoch"]
    drawn = {line["label"]: line["test"] for line in lines if line["metric"] == "accuracy" and line["mean"]}
    # dashed, each of a colour of its own
    assert drawn == {"training": 0, "test": 1, "clients": 2, "worst tenth of clients": 3}
    # the part of a long table that a page reads begins within an epoch
    table = next(path for path in result.files[1] if path.name.startswith("CT-"))
    head, _, *rest = table.read_text().splitlines(keepends=True)
    table.write_text("".join([head, *rest]))
    seen = RunRecords.read(folder, SampledTables().read).history
    assert "val_clients_accuracy" not in seen.rows[0]
    assert seen.rows[1]["val_clients_accuracy"] == result.history["val_clients_accuracy"][1]


@pytest.mark.parametrize("late", ["CL", "RO", "CT"])
def test_a_round_is_told_when_the_tables_of_its_clients_are_whole(late: str, tmp_path: Path) -> None:
    result = ran(tmp_path)
    pieces: list[JobHistory] = []
    figures = LiveFigures(lambda: None, pieces.append)
    figures.begin([0, 1])
    # as they lie on the disk of an agent at one moment: of a table of worker 1 half has not come yet
    rest = b""
    for node, paths in result.files.items():
        for path in sorted(paths, key=lambda each: each.name):
            data, whole = path.read_bytes(), True
            if node == 1 and path.name.startswith(late):
                lines = data.splitlines(keepends=True)
                data, rest, whole = b"".join(lines[: len(lines) // 2]), b"".join(lines[len(lines) // 2 :]), False
                half = path.name, len(data)
            figures.take(node, path.name, 0, data)
            assert whole or rest
    before = [row for piece in pieces for row in piece.steps]
    assert 0 < len(before) < 10
    figures.take(1, *half, rest)
    steps = [row for piece in pieces for row in piece.steps]
    assert [row["client_bytes"] for row in steps] == [row["client_bytes"] for row in result.history.steps]
    assert [row["seconds"] for row in steps] == [row["seconds"] for row in result.history.steps]
    tested = [row["val_clients_accuracy"] for piece in pieces for row in piece.rows if "val_clients_accuracy" in row]
    assert tested == result.history["val_clients_accuracy"]


@pytest.mark.parametrize("kept", [True, False])
def test_a_job_that_goes_on_without_tables_of_before_is_told(kept: bool, tmp_path: Path) -> None:
    """With those of all four workers, which two carry on, or with none, as on machines that have no part of the run before."""
    given, options = Clients(30, 6, rounds=2, test=0.2), {**OPTIONS, "directory": tmp_path, "checkpoint_every": "epoch"}
    with in_process(4) as nodes:
        job("float32").parallel(nodes, clients=given, **{**options, "epoch": 2})
    for table in () if kept else tmp_path.rglob("CT-*"):
        table.unlink()
    with in_process(2) as nodes:
        result = job("float32").parallel(nodes, clients=given, resume="last", **{**options, "epoch": 4})
    assert {row["epoch"] for row in result.history.client_tests} == ({1, 2, 3, 4} if kept else {3, 4})
    pieces: list[JobHistory] = []
    figures = LiveFigures(lambda: None, pieces.append)
    figures.begin([0, 1])
    late: list[tuple[int, str, int, bytes]] = []
    for node, paths in result.files.items():
        for path in sorted(paths, key=lambda each: each.name):
            data, rest = path.read_bytes(), b""
            if path.name.startswith("CT-"):
                rest = b"".join(line for line in data.splitlines(keepends=True) if line.startswith(b"4,"))
                data = data.removesuffix(rest)
                late.append((node, path.name, len(data), rest))
            figures.take(node, path.name, 0, data)
    rows = [row for piece in pieces for row in piece.rows if "val_accuracy" in row]
    assert [row["epoch"] for row in rows] == [1, 2, 3]
    for each in late:
        figures.take(*each)
    rows = [row for piece in pieces for row in piece.rows if "val_accuracy" in row]
    assert [row.get("val_clients_accuracy") for row in rows] == [row.get("val_clients_accuracy") for row in result.history.rows]
    assert ["val_clients_accuracy" in row for row in rows] == [kept, kept, True, True]
    assert sum(len(piece.steps) for piece in pieces) == len(result.history.steps) == 8
