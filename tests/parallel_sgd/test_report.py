"""The tables that a worker writes."""

from __future__ import annotations

import csv
from pathlib import Path

import pytest

from parallel_sgd.report import TrainingReport, check_title


def test_tables_have_the_documented_names_columns_and_rows(tmp_path: Path) -> None:
    """SUB-17: TR per block step, EV per epoch, whose number is its last column."""
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


def test_numbers_read_back_equal(tmp_path: Path) -> None:
    report = TrainingReport(tmp_path, "t", 0, [])
    report.evaluation(1, [0.1 + 0.7])
    with report.evaluations_path.open() as file:
        assert float(list(csv.reader(file))[1][0]) == 0.1 + 0.7


@pytest.mark.parametrize("title", ["", "a/b", "..", "a\\b", "a\nb", "x" * 201, 'say "no"', "a:b", "\0"])
def test_a_title_that_cannot_be_a_file_name_is_refused(title: str, tmp_path: Path) -> None:
    with pytest.raises(ValueError, match="'mission_title' must be able to stand in a file name"):
        TrainingReport(tmp_path, title, 0, [])
    assert not list(tmp_path.iterdir())


@pytest.mark.parametrize("title", ["P-SGD", "第一 run", "a.b(1)"])
def test_an_ordinary_title_is_kept(title: str) -> None:
    assert check_title(title) == title
