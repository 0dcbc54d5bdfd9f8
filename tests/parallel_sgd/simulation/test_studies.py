"""Studies of simulated clusters: the guide has each with its command and its picture, and the first picture is the map."""

from __future__ import annotations

import argparse
import re
from pathlib import Path
from types import SimpleNamespace
from xml.etree import ElementTree

import pytest

from benchmarks.simulation import drawing, figures, regret, studies, truth
from parallel_sgd.simulation.plan import Learned, Timed
from tests.sources import ROOT
from tests.statements import covers

GUIDE = ROOT / "docs" / "simulation.md"


@covers("SIM-33")
def test_the_first_picture_of_readme_and_guide_is_the_map() -> None:
    for path, place in ((ROOT / "README.md", "docs/pictures/"), (GUIDE, "pictures/")):
        first = re.search(r"!\[([^]]*)\]\(([^)]+)\)", path.read_text("utf-8"))
        assert first is not None and first[2] == f"{place}simulated/map.svg" and first[1].startswith("Simulated")
    text = (studies.FOLDER / "map.svg").read_text("utf-8")
    assert re.search(r'class="title">Simulated: ', text) and "<circle" in text and 'class="level"' in text


@covers("SIM-33")
def test_the_guide_has_each_study_with_its_command_and_picture() -> None:
    """Beside its method, models with their sources, and a table of errors; each picture says that it is simulated."""
    text = GUIDE.read_text("utf-8")
    for name in studies.STUDIES:
        assert f"python -m benchmarks.simulation.studies {name}" in text and f"(pictures/simulated/{name}.svg)" in text
        root = ElementTree.parse(studies.FOLDER / f"{name}.svg").getroot()
        assert next(each.text or "" for each in root.iter() if each.get("class") == "title").startswith("Simulated")
    for part in (
        "## Networks",
        "### Models",
        "## How far off it is",
        "| error | network |",
        "(pictures/simulated/truth.svg)",
        "## Studies",
        "## Calibration",
    ):
        assert part in text
    assert "benchmarks.simulation.studies" in (ROOT / "Makefile").read_text("utf-8")


@covers("SIM-33")
def test_the_guide_has_the_figures_of_the_files_that_commands_wrote() -> None:
    """Its tables, sentences and scatter plot are those that the files make."""
    text = GUIDE.read_text("utf-8")
    parts = figures.parts()
    by_hand = {"failures", "truth-b"}  # until their commands have run
    assert set(figures.makers()) - by_hand <= set(parts) <= set(figures.makers())
    assert set(re.findall(r"<!-- figures: (\S+) -->", text)) == set(figures.makers())
    assert figures.written(text, parts) == text, "python -m benchmarks.simulation.figures"
    assert (figures.PICTURES / "truth.svg").read_text("utf-8") == figures.plot()
    assert figures.written(text, {"study-order": "another one"}) != text
    with pytest.raises(ValueError, match="must have '<!-- figures: none -->'"):
        figures.written(text, {"none": ""})


@covers("SIM-30")
def test_what_choices_rest_on_is_made_once(tmp_path: Path) -> None:
    """A command that was broken off draws, learns and predicts nothing again; a part of the networks has their numbers."""
    path, setting = tmp_path / "choices.json", regret.Setting("Plain", 2, 2.5, 77)
    timed = Timed(0.5, 1e6, {}, ())
    planner = SimpleNamespace(
        learn=lambda *_: Learned((0.8, 0.9), 2.0, 0.1),
        steps=lambda known: 100 * known.epochs,
        time=lambda *_: timed._replace(seconds=0.1),
        row=lambda *_, fault: SimpleNamespace(seconds=100.0, timed=timed),
    )
    first = regret.Plans(planner, figures.Kept(path, "a command"))  # type: ignore[arg-type]
    assert first.predict(setting) == (100.0, pytest.approx(0.8)) and first.steps("Plain", 2) == 200.0
    again = regret.Plans(None, figures.Kept(path, "a command"))  # type: ignore[arg-type]  # it needs none
    assert again.predict(setting) == first.predict(setting) and again.steps("Plain", 2) == 200.0
    assert [*regret.numbers("12..14")] == [12, 13, 14] and [*regret.numbers("3")] == [3]
    for text in ("3..1", "0..2", "few", ""):
        with pytest.raises(argparse.ArgumentTypeError, match=rf"must be a range such as 12\.\.20, or a number .*'{text}'"):
            regret.numbers(text)


@covers("SIM-14", "SIM-30")
def test_rows_of_comparisons_are_kept_as_they_come(tmp_path: Path) -> None:
    """A second command finds them; a regret is that of the choice beside the fastest, whatever was predicted."""
    setting = truth.Setting("Plain", 2, 10, 20)
    row = truth.Row(setting, 0.5, 0.55, 0.9, 0.5, {"compute": 0.01, "encode": 0.002, "merge": 0.003, "wait": 0.035})
    assert truth.Row.of(row.data()) == row and row.by_cause == pytest.approx((0.02, 0.01, 0.07))
    kept = figures.Kept(tmp_path / "rows.json", "a command")
    kept.content["platform"] = "shape = 'star'"
    kept.add(row.data())
    again = figures.Kept(tmp_path / "rows.json", "another one")
    assert again.rows == [row.data()] and again.content["command"] == "a command" and again.content["platform"]
    assert figures.Kept(tmp_path / "rows.json", "another one", anew=True).rows == []
    times = {"Plain": (10.0, 9.0), "Int8": (5.0, 6.6), "TopK": (7.0, 6.0), "EFSign": (8.0, 8.0), "Ring": (9.0, 12.0)}
    tried = [regret.Tried(regret.Setting(name, 3, 2.5, 77), *both, 0.9, 1.0) for name, both in times.items()]
    (choice,) = regret.choices([*tried, regret.Tried(regret.Setting("Plain", 4, 2.5, 77), 1.0, 1.0, 0.9, 1.0)])
    assert (choice.chosen.setting.codec, choice.best.setting.codec) == ("Int8", "TopK") and choice.regret == pytest.approx(0.1)
    assert [regret.tried_of(regret.data(each)) for each in tried] == tried
    assert regret.told(choice) == "| 3 | 2.5 | 77 | Int8 | 5.0 | 6.6 | -24.2% | TopK | 6.0 | 10.0% |"


@covers("SIM-33")
def test_a_study_draws_its_picture(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    """The one that takes no time is drawn again as it is kept."""
    assert studies.main(["order", "--folder", str(tmp_path)]) == 0
    assert (tmp_path / "order.svg").read_bytes() == (studies.FOLDER / "order.svg").read_bytes()
    assert "8: 9.563 ms" in capsys.readouterr().out
    with pytest.raises(SystemExit):
        studies.main(["odrer"])
    assert "STUDY must be one of map, servers, compression, stragglers, order, got 'odrer'" in capsys.readouterr().err


def test_a_map_has_its_fields_lines_and_dots() -> None:
    fields = [[drawing.Field("A", 1.0), drawing.Field("B", 30.0)], [drawing.Field("A", 2.0), drawing.Field("B", 90.0)]]
    text = drawing.world("T", ["a note"], ("x", "y"), [1, 10], [2, 4], fields, [(0, 1, "2 / 2.1 s")])
    ElementTree.fromstring(text)
    assert text.count("fill-opacity") == 4 and "A is first" in text and "2 / 2.1 s" in text and 'class="level"' in text
