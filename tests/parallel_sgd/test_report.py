"""The tables that a worker writes."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path

import pytest

from parallel_sgd.accounts import Entry, Times
from parallel_sgd.progress import History, Stretch
from parallel_sgd.report import TrainingReport, check_title
from tests.fulldisk import FullDisk

from ..statements import covers


@covers("SUB-17")
def test_tables_have_the_documented_names_columns_and_rows(tmp_path: Path) -> None:
    """TR per block step, EV per epoch, whose number is its last column."""
    report = TrainingReport(tmp_path, "P-SGD", 3, ["accuracy"])
    report.step((0.25, 1, 2, 10, 2, 0.1 + 0.2, 0.5))
    report.evaluation(1, [1 / 3, 0.9576])
    report.save()
    report.step((0.5, 1, 3, 10, 3, 1e-17, 1.0))
    report.save()
    report.save()
    assert (tmp_path / "TR-P-SGD-N(3).csv").read_text() == (
        "Time,Epochs,Batches,in,Total,Loss,accuracy\n0.25,1,2,10,2,0.30000000000000004,0.5\n0.5,1,3,10,3,1e-17,1.0\n"
    )
    assert (tmp_path / "EV-P-SGD-N(3).csv").read_text() == "Loss,accuracy,Epoch\n0.3333333333333333,0.9576,1\n"


@pytest.mark.parametrize("title", ["", "a/b", "..", "a\\b", "a\nb", "x" * 201, 'say "no"', "a:b", "\0"])
def test_a_title_that_cannot_be_a_file_name_is_refused(title: str, tmp_path: Path) -> None:
    with pytest.raises(ValueError, match="'mission_title' must be able to stand in a file name"):
        TrainingReport(tmp_path, title, 0, [])
    assert not list(tmp_path.iterdir())


@pytest.mark.parametrize("title", ["P-SGD", "第一 run", "a.b(1)"])
def test_an_ordinary_title_is_kept(title: str) -> None:
    assert check_title(title) == title


@pytest.fixture
def disk(monkeypatch: pytest.MonkeyPatch) -> FullDisk:
    return FullDisk(monkeypatch)


def fill(report: TrainingReport, disk: FullDisk, epochs: Sequence[int]) -> None:
    """Three epochs of two steps; there is no room in `epochs`."""
    ledger = report.ledger([0], History())
    for epoch in (1, 2, 3):
        disk.full = epoch in epochs
        for batch in (1, 2):
            report.step((float(2 * epoch + batch), epoch, batch, 2, 2 * epoch + batch, 0.5))
            ledger.applied(Stretch(0, epoch - 1, batch - 1, batch, (0,)))
        report.evaluation(epoch, [1 / epoch])
        report.times(epoch, Times(epoch, epoch, 0.0, 0.0, 0.0))
        report.save()
    report.accounts([Entry("Plain", 0, 1, "sent", 2, 3, 4, 5)], ["kernel"])


@covers("FLT-26")
@pytest.mark.parametrize("epochs", [(1,), (2,), (1, 2), (2, 3)])
def test_a_disk_that_is_full_for_a_moment_costs_no_row(
    tmp_path: Path, disk: FullDisk, epochs: Sequence[int], caplog: pytest.LogCaptureFixture
) -> None:
    """Each table (TR, EV, TI, AC, LEDGER) is in the end what it would have been; a warning names each file once."""
    tables = []
    for folder, no_room in (("calm", ()), ("full", epochs)):
        (tmp_path / folder).mkdir()
        disk.full = 1 in no_room
        report = TrainingReport(tmp_path / folder, "t", 0, [])
        fill(report, disk, no_room)
        disk.full = False
        report.close()
        tables.append({path.name: path.read_text() for path in report.paths})
    calm, full = tables
    assert disk.refused and len(calm) == 5 and all(text.count("\n") > 1 for text in calm.values())
    assert full == calm
    warned = [record.getMessage() for record in caplog.records if record.levelname == "WARNING"]
    assert len(warned) == len(set(warned)) >= 4 and all("No space left on device" in line for line in warned)


@covers("FLT-26")
def test_a_disk_that_stays_full_is_an_error_at_the_end(tmp_path: Path, disk: FullDisk) -> None:
    """Only whole rows are in the files then, and `close` may be called again."""
    report = TrainingReport(tmp_path, "t", 0, [])
    fill(report, disk, (3,))
    with pytest.raises(OSError, match="No space left on device"):
        report.close()
    assert len(report.steps_path.read_text().splitlines()) == 1 + 4
    disk.full = False
    report.close()
    assert len(report.steps_path.read_text().splitlines()) == 1 + 6


@covers("FLT-26")
def test_the_tables_of_the_attempt_before_stay_until_there_is_room(tmp_path: Path, disk: FullDisk) -> None:
    """Whoever is killed while the disk is full has lost nothing that was written before."""
    first = TrainingReport(tmp_path, "t", 0, [])
    fill(first, disk, ())
    first.close()
    before = [path.read_text() for path in first.paths[:4]]  # the ledger's begins anew
    disk.full = True
    second = TrainingReport(tmp_path, "t", 0, [])
    second.step((0.5, 9, 1, 2, 1, 0.5))
    second.save()
    assert disk.refused and before == [path.read_text() for path in second.paths]
    disk.full = False
    second.save()
    assert second.steps_path.read_text() == "Time,Epochs,Batches,in,Total,Loss\n0.5,9,1,2,1,0.5\n"


@covers("SUB-17")
def test_the_guide_explains_every_column(tmp_path: Path) -> None:
    """Docs/results.md has a row for each, in their order."""
    guide = (Path(__file__).parents[2] / "docs" / "results.md").read_text("utf-8")
    TrainingReport(tmp_path, "t", 0, ["one per metric"]).close()
    for kind in ("TR", "EV", "TI", "AC"):
        (head, *_) = (tmp_path / f"{kind}-t-N(0).csv").read_text().splitlines()
        part = guide.partition(f"`{kind}-<title>-N(i).csv`:")[2].partition("-N(i).csv`")[0]
        cells = [line.split("|")[1].strip() for line in part.splitlines() if line.startswith("|")]
        assert [cell.strip("`") for cell in cells[2:]] == head.split(","), kind
