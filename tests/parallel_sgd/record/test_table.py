"""Tables that a worker begins before its first step, and jobs that nothing follows: no waiting for what gives nothing."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

import pytest

from nn.metric import CategoricalAccuracy
from parallel_sgd.record.identity import own_identity
from parallel_sgd.record.report import CLIENT_COLUMNS, TrainingReport
from parallel_sgd.record.table import NODE, Earlier
from tests.sources import ROOT

_UNHEARD = """
import logging
import sys
import tempfile

from nn.dataset import Digits
from nn.dataset.transforms import ImageCls
from parallel_sgd import ParallelSGD, in_process
from rpc.support.logs import SUBMIT_LOGGER
from tests.parallel_sgd.networks import mlp

logging.getLogger(SUBMIT_LOGGER).setLevel(int(sys.argv[1]))
with in_process(1) as nodes, tempfile.TemporaryDirectory() as folder:
    ParallelSGD(mlp(), Digits(), ImageCls()).parallel(nodes, epoch=1, block_size=512, directory=folder)
print("parallel_sgd.writers.console" in sys.modules)
"""


@pytest.fixture
def synchronised(monkeypatch: pytest.MonkeyPatch) -> list[str]:
    """Return a list to which the name of each file is added that the disk has to have."""
    found: list[str] = []
    sync = os.fsync

    def noted(descriptor: int) -> None:
        found.append(Path(os.readlink(f"/proc/self/fd/{descriptor}")).name.strip(".")[:2])
        sync(descriptor)

    monkeypatch.setattr(os, "fsync", noted)
    return found


def test_a_table_waits_for_the_disk_if_it_has_rows_that_must_not_be_lost(tmp_path: Path, synchronised: list[str]) -> None:
    """Its head is not one; rows of a part that is over are."""
    metrics = [CategoricalAccuracy().name]
    report = TrainingReport(tmp_path, "t", 0, metrics)
    assert not synchronised
    assert (tmp_path / "ID-t-N(0).csv").read_text() == f'Epoch,Computes with\n1,"{own_identity()}"\n', "it is there at once"
    report.evaluation(1, [0.5, 0.75])
    report.close()
    assert not synchronised, "as rows that are added"
    after = tmp_path / "after"
    after.mkdir()
    TrainingReport(after, "t", 0, metrics, Earlier(tmp_path, (1, 0)))
    assert synchronised == ["EV", "ID"]


def test_a_worker_that_starts_again_keeps_its_tables_in_their_place(tmp_path: Path, synchronised: list[str]) -> None:
    """What a table keeps is not written again: none waits for the disk, and a row beyond the position is gone."""
    metrics = [CategoricalAccuracy().name]
    report = TrainingReport(tmp_path, "t", 0, metrics)
    for epoch in (1, 2):
        report.evaluation(epoch, [0.5, 0.75])
    report.close()
    path = tmp_path / "EV-t-N(0).csv"
    before = path.read_text().splitlines(keepends=True)
    again = TrainingReport(tmp_path, "t", 0, metrics, Earlier(tmp_path, (1, 0)))
    assert len(before) == 3 and path.read_text() == "".join(before[:2]) and not synchronised
    assert (tmp_path / "ID-t-N(0).csv").read_text().splitlines()[1:] == [f'{epoch},"{own_identity()}"' for epoch in (1, 2)]
    again.evaluation(2, [0.25, 0.5])
    again.close()
    assert [row.split(",")[-1].strip() for row in path.read_text().splitlines()] == ["Epoch", "1", "2"] and not synchronised


@pytest.mark.parametrize(("level", "is_followed"), [("ERROR", "False"), ("INFO", "True")])
def test_a_job_whose_console_shows_nothing_is_not_followed(level: str, is_followed: str) -> None:
    """A program may have its console show errors alone; then no tables are read while the job runs."""
    command = [sys.executable, "-W", "ignore", "-c", _UNHEARD, {"ERROR": "40", "INFO": "20"}[level]]
    done = subprocess.run(command, cwd=ROOT, capture_output=True, text=True, timeout=120, check=False)
    assert (done.returncode, done.stdout) == (0, f"{is_followed}\n"), done.stderr


def test_rows_of_clients_of_an_earlier_release_go_on(tmp_path: Path) -> None:
    """Its tables do not tell how many clients a round has; a reader takes 0 for that."""
    (tmp_path / "earlier").mkdir()
    before = [name for name in CLIENT_COLUMNS if name != "of"]
    rows = [[f"{epoch}" for _ in before] for epoch in (1, 2)]
    text = "\n".join(map(",".join, [before, *rows])) + "\n"
    (tmp_path / "earlier" / "CL-t-N(0).csv").write_text(text)
    earlier = Earlier(tmp_path / "earlier", (1, 1))
    assert earlier.rows(tmp_path / "CL-t-N(0).csv", 0, CLIENT_COLUMNS) == [[*rows[0], "0"]]
    assert not earlier.rows(tmp_path / "CL-t-N(0).csv", 0, [*CLIENT_COLUMNS, "Other"]), "other columns"
    shared = "\n".join(map(",".join, [[*before, NODE], *([*row, "3"] for row in rows)])) + "\n"
    (tmp_path / "earlier" / "CL-t.csv").write_text(shared)
    assert earlier.shared("CL", CLIENT_COLUMNS) == {3: [[*rows[0], "0"]]}
