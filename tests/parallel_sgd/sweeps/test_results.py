"""Tables and page of a sweep, from runs whose figures are known."""

from __future__ import annotations

import csv
import json
import math
import re
from pathlib import Path
from typing import Any

import pytest

from parallel_sgd import SweepResult
from parallel_sgd.sweeps.page import write_page
from parallel_sgd.sweeps.results import Row
from parallel_sgd.sweeps.runs import Told
from tests.parallel_sgd.sweeps.planned import result_of
from tests.statements import covers


def read(path: Path) -> list[dict[str, str]]:
    with path.open(newline="", encoding="utf-8") as file:
        return list(csv.DictReader(file))


@covers("RES-8")
def test_results_csv_has_a_row_for_each_run(tmp_path: Path) -> None:
    result_of(tmp_path).write()
    rows = read(tmp_path / "results.csv")
    assert [(row["codec"], row["share"], row["seed"], row["state"]) for row in rows] == [
        ("plain", "-", "0", "done"),
        ("plain", "-", "1", "done"),
        ("top_k", "0.1", "0", "done"),
        ("top_k", "0.1", "1", "failed"),
    ]
    first, *_, failed = rows
    assert (first["accuracy"], first["bytes"], first["seconds"], first["clock"]) == ("0.5", "4000.0", "1.0", "measured")
    assert failed["message"] == "ValueError: <b>no, </b>" and failed["accuracy"] == failed["clock"] == ""
    assert first["identity"] == "a" * 64


@covers("RES-8")
def test_mean_and_spread_are_those_over_the_seeds(tmp_path: Path) -> None:
    result_of(tmp_path).write()
    plain, top = read(tmp_path / "summary.csv")
    assert (plain["runs"], top["runs"]) == ("2", "1")
    assert float(plain["accuracy mean"]) == pytest.approx(0.6) and float(plain["seconds mean"]) == 2.0
    # of a sample: the differences of 0.1 over n - 1
    assert float(plain["accuracy std"]) == pytest.approx(math.sqrt(0.02)) and plain["bytes std"] == "0.0"
    assert top["accuracy mean"] == "0.6" and top["accuracy std"] == "", "one value has no spread"


def test_frames(tmp_path: Path) -> None:
    result = result_of(tmp_path)
    frame, mean = result.to_frame(), result.mean()
    assert list(frame["accuracy"].fillna(-1)) == [0.5, 0.7, 0.6, -1]
    assert frame["seed"].dtype.kind == "i" and frame["bytes"].dtype.kind == "f"
    assert mean.loc[("plain", "-"), ("accuracy", "mean")] == pytest.approx(0.6)
    assert math.isnan(mean.loc[("top_k", "0.1"), ("accuracy", "std")]) and mean.loc[("plain", "-"), ("runs", "")] == 2


@covers("RES-8")
def test_the_table_for_latex(tmp_path: Path) -> None:
    text = result_of(tmp_path).to_latex()
    lines = text.splitlines()
    assert lines[2:4] == [r"\begin{tabular}{llrrrr}", r"\hline"]
    assert lines[4] == r"codec & share & runs & accuracy & bytes (kB) & seconds (s) \\"
    assert lines[6] == r"plain & - & 2 & 0.6000 $\pm$ 0.1414 & 4.0000 $\pm$ 0.0000 & 2.00 $\pm$ 1.41 \\"
    assert lines[7] == r"top\_k & 0.1 & 1 & 0.6000 & 0.0400 & 2.00 \\"
    assert "seconds are measured" in text
    assert "bytes" not in result_of(tmp_path).to_latex(["accuracy"])
    with pytest.raises(ValueError, match="'names' must be one of accuracy, epochs, bytes, seconds, got 'acuracy'"):
        result_of(tmp_path).to_latex(["acuracy"])


@covers("RES-8")
def test_the_page_has_curves_by_each_setting_over_epochs_seconds_and_bytes(tmp_path: Path) -> None:
    page = write_page(result_of(tmp_path)).read_text("utf-8")
    found = re.search(r'<script type="application/json" id="data">(.*?)</script>', page)
    assert found is not None
    data = json.loads(found[1])
    assert list(data["groups"]) == ["all settings", "codec", "share"] and data["clock"] == "measured"
    codec = data["groups"]["codec"]
    mean = {per: next(line for line in codec[per] if line["mean"]) for per in ("epoch", "seconds", "bytes")}
    assert mean["epoch"]["points"] == [[1, 0.3], [2, 0.6]] and mean["epoch"]["name"] == "plain"
    assert mean["seconds"]["points"] == [[1, 0.3], [2, 0.6]] and mean["bytes"]["points"] == [[2000, 0.3], [4000, 0.6]]
    thin = [line["points"] for line in codec["seconds"] if not line["mean"]]
    assert thin == [[[0.5, 0.25], [1, 0.5]], [[1.5, 0.35], [3, 0.7]]]
    assert (
        "3 done, 1 failed" in page
        and "Seconds are measured" in page
        and "0.6000\N{NO-BREAK SPACE}±\N{NO-BREAK SPACE}0.1414" in page
    )
    assert "<b>no, </b>" not in page, "a message is text"


@covers("RES-8")
def test_a_figure_that_is_not_defined_leaves_a_gap_in_the_curves(tmp_path: Path) -> None:
    """Such as an area under a curve where the test samples have one class; a page is JSON, which has no word for NaN."""
    result = result_of(tmp_path)
    first = result.rows[0].told.points[0]
    vars(first)["figures"] = {**first.figures, "val_accuracy": math.nan, "val_auc": math.inf}
    page = write_page(result).read_text("utf-8")
    found = re.search(r'<script type="application/json" id="data">(.*?)</script>', page)
    assert found is not None
    lines = json.loads(found[1])["groups"]["codec"]["epoch"]
    assert [line["points"] for line in lines if line["name"] == "plain"] == [[[2, 0.6]], [[2, 0.5]], [[1, 0.35], [2, 0.7]]]


@covers("RES-8")
def test_a_figure_has_the_mean_of_each_group_in_a_band_of_its_spread(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    result, drawn = result_of(tmp_path), list[Any]()
    monkeypatch.setattr("parallel_sgd.sweeps.results.put_out", lambda figure, *_: drawn.append(figure))
    result.plot(tmp_path / "plot.svg", x="bytes", over="codec")
    result.plot(tmp_path / "plot.svg", "accuracy", "seconds")
    first, second = (figure.axes[0] for figure in drawn)
    line, band = first.lines[0], first.collections[0].get_paths()[0].vertices
    assert (line.get_label(), list(line.get_xdata())) == ("plain", [2, 4])
    assert list(line.get_ydata()) == pytest.approx([0.3, 0.6])
    high = max(y for x, y in band if x == 4)
    assert high == pytest.approx(0.6 + math.sqrt(0.02)), "one standard deviation"
    assert [each.get_label() for each in second.lines] == ["plain, -", "top_k, 0.1"]
    assert (first.get_xlabel(), second.get_xlabel(), second.get_ylabel()) == ("bytes (kB)", "seconds, measured", "accuracy")
    monkeypatch.undo()
    result.plot(tmp_path / "plot.svg")
    assert "<svg" in (tmp_path / "plot.svg").read_text("utf-8")
    for wrong in ({"figure": "acuracy"}, {"x": "hours"}, {"over": "codex"}):
        with pytest.raises(ValueError, match=f"'{next(iter(wrong))}' must be one of"):
            result.plot(tmp_path / "none.svg", **wrong)


def test_seconds_that_are_simulated_are_called_so(tmp_path: Path) -> None:
    result = result_of(tmp_path)
    result.rows = [
        type(row)(row.labels, row.seed, row.workers, row.identity, type(row.told)(**{**vars(row.told), "clock": "simulated"}))
        for row in result.rows
    ]
    result.write()
    assert "Seconds are simulated: those of a virtual clock." in write_page(result).read_text("utf-8")
    assert "% seconds are simulated" in (tmp_path / "table.tex").read_text("utf-8")


def test_a_figure_that_is_infinite_is_told(tmp_path: Path) -> None:
    """All runs of a sweep are done then: its tables are written."""
    rows = [Row({}, 0, 2, "a" * 64, Told("done", figures={"Loss": value})) for value in (math.inf, -math.inf)]
    assert [SweepResult("made", tmp_path, [row]).told()[1][-1] for row in rows] == ["inf", "-inf"]
