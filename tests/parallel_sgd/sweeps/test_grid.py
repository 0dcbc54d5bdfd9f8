"""Grids and sweep files: which combinations they stand for, and how a wrong one is refused before anything runs."""

from __future__ import annotations

import json
import logging
import statistics
from pathlib import Path
from typing import Any

from psgd import cli

import numpy as np
import pytest

from nn.dataset import ArrayDataset
from parallel_sgd import ParallelSGD, sweep
from parallel_sgd.codec import Plain
from parallel_sgd.sweeps.grid import checked_seeds, combinations
from parallel_sgd.sweeps.sweep_file import SweepFile
from tests.parallel_sgd.networks import mlp
from tests.parallel_sgd.sweeps.planned import Plan
from tests.processes.training.jobs import digits_job
from tests.statements import covers


def told(grid: Any, **options: Any) -> list[str]:
    return [each.told for each in combinations(grid, options)]


@covers("RES-8")
def test_the_last_setting_changes_first() -> None:
    found = combinations({"codec": ["plain", "topk"], "block_size": [16, 64]}, {})
    assert [each.told for each in found] == [
        "codec=plain, block_size=16",
        "codec=plain, block_size=64",
        "codec=topk, block_size=16",
        "codec=topk, block_size=64",
    ]
    assert found[1].values == {"codec": "plain", "block_size": 64}


def test_parameters_are_settings_beside_those_that_all_runs_have() -> None:
    found = combinations({"gd_params": {"learn_rate": [0.1, 0.2], "momentum": [0.9]}}, {"gd_params": {"nesterov": True}})
    assert [each.told for each in found] == ["learn_rate=0.1, momentum=0.9", "learn_rate=0.2, momentum=0.9"]
    assert found[1].values == {"gd_params": {"nesterov": True, "learn_rate": 0.2, "momentum": 0.9}}


def test_several_grids_are_added_up_and_what_they_share_is_run_once() -> None:
    grids = [{"codec": ["plain"]}, {"codec": ["topk"], "codec_extra_parameters": {"share": [0.1, 0.2]}}, {"codec": ["plain"]}]
    assert told(grids) == ["codec=plain", "codec=topk, share=0.1", "codec=topk, share=0.2"]
    assert combinations(grids, {})[0].labels == {"codec": "plain", "share": "-"}


def test_a_parameter_with_the_name_of_an_option_keeps_the_name_of_its_own() -> None:
    assert told({"codec_extra_parameters": {"seed": [1], "rate": [2]}}) == ["codec_extra_parameters.seed=1, rate=2"]


def test_values_have_labels() -> None:
    assert told({"codec": {"a": None, "b": Plain}, "class_weight": [None]}) == [
        "codec=a, class_weight=none",
        "codec=b, class_weight=none",
    ]
    assert told({"codec": [Plain, {0: Plain}], "shuffle": [True]}) == [
        "codec=Plain, shuffle=yes",
        "codec=0: Plain, shuffle=yes",
    ]


@pytest.mark.parametrize(("given", "seeds"), [(3, [0, 1, 2]), ([7, 0], [7, 0]), (range(2), [0, 1])])
def test_seeds(given: Any, seeds: list[int]) -> None:
    assert checked_seeds(given) == seeds


REFUSED: list[tuple[Any, dict[str, Any], str]] = [
    ({}, {}, "'grid' must have at least one setting with its values, got an empty one"),
    ([], {}, "'grid' must have at least one setting with its values, got an empty one"),
    ("codec", {}, "'grid' must be a dict of settings with their values, or a list of such, got 'codec'"),
    ({"codek": ["plain"]}, {}, "'grid' has no option 'codek'; did you mean codec?"),
    ({"learning_rate": [0.1]}, {}, r"'grid' has no option 'learning_rate'; did you mean gd_params=\(0.01,\)?"),
    ({"codec": []}, {}, "'grid' 'codec' must have at least one value, got none"),
    ({"codec": "plain"}, {}, r"'grid' 'codec' must be a list of values, got 'plain'; write \['plain'\]"),
    ({"codec": 3}, {}, r"'grid' 'codec' must be a list of values, got 3; write \[3\]"),
    ({"block_size": [16, 16]}, {}, "'grid' 'block_size' must have values with different labels, got '16' twice"),
    ({"seed": [1]}, {}, "'grid' cannot have 'seed': a sweep takes seeds="),
    ({"resume": ["last"]}, {}, "'grid' cannot have 'resume', which is for a single job"),
    ({"codec": ["plian"]}, {}, "codec=plian: 'codec' 'plian' is unknown; did you mean 'Plain'?"),
    ({"block_size": [16, 0]}, {}, "block_size=0: 'block_size' must be a positive integer, got 0"),
    ({"workers": ["two"]}, {}, "workers=two: sweep.. 'workers' must be a positive integer, got 'two'"),
    ({"model": ["dnn.model"]}, {}, "'grid' 'model' must have objects of Model, got 'dnn.model'"),
    ({"gd_params": {}}, {}, "'grid' 'gd_params' must have at least one parameter with its values, got none"),
    ({"gd_params": {"learn_rate": [0.1]}}, {"gd_params": (0.1,)}, "so 'gd_params' must have names, too, got .0.1,."),
    ({"codec": ["plain"]}, {"codec": "topk"}, "'grid' 'codec' is among the options of all runs, too, got 'topk'"),
    ({"codec": ["plain"]}, {"epohc": 3}, "has no option 'epohc'; did you mean epoch?"),
    ({"codec": ["plain"]}, {"epoch": 3, "epochs": 3}, "takes 'epoch' or 'epochs', got both, 3 and 3"),
    ({"codec": ["plain"]}, {"seeds": 0}, "'seeds' must have at least one seed, got 0"),
    ({"codec": ["plain"]}, {"seeds": -1}, "'seeds' must have at least one seed, got -1"),
    ({"codec": ["plain"]}, {"seeds": [1, 1]}, r"'seeds' must differ, got \[1, 1\]"),
    ({"codec": ["plain"]}, {"seeds": "two"}, "'seeds' must be a number of seeds, or several seeds, got 'two'"),
    ({"codec": ["plain"]}, {"seeds": [0.5]}, "'seeds' must be integers of at least 0, got 0.5"),
    ({"codec": ["plain"]}, {"processes": 0}, "'processes' must be a positive integer, got 0"),
    ({"codec": ["plain"]}, {"retry": 1}, "'retry' must be True or False, got 1"),
    ({"codec": ["plain"]}, {"title": "a/b"}, "'title' must be able to stand in a file name"),
    ({"codec": ["plain"]}, {"nodes": 2}, "'nodes' must be"),
]


@pytest.mark.parametrize(("grid", "options", "said"), REFUSED, ids=[said[:40] for _, _, said in REFUSED])
def test_a_wrong_sweep_is_refused_before_anything_runs(grid: Any, options: dict[str, Any], said: str, tmp_path: Path) -> None:
    with pytest.raises((ValueError, TypeError), match=said):
        sweep(digits_job(), grid, directory=tmp_path, verbose=0, **options)
    assert list(tmp_path.iterdir()) == []


FILE = """title = "codecs"
model = "small.model"
dataset = "digits"
seeds = [0, 4]
workers = 3

[options]
epoch = 2
gd_type = "sgd"

[grid]
codec = ["plain", "topk"]

[grid.gd_params]
learn_rate = [0.1, 0.01]
"""


@pytest.fixture
def place(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.chdir(tmp_path)
    mlp().save("small.model")
    return tmp_path


def test_the_file_of_a_sweep(place: Path) -> None:
    (place / "sweep.toml").write_text(FILE)
    file = SweepFile.read(Path("sweep.toml"))
    assert (file.title, file.seeds, file.platform, file.new_weights) == ("codecs", [0, 4], None, True)
    assert file.parts == {"model": "small.model", "dataset": "digits"}
    assert file.options["epoch"] == 2 and file.options["gd_type"].__name__ == "SGDOptimizer" and file.options["workers"] == 3
    assert told(file.grids) == [f"codec={codec}, learn_rate={rate}" for codec in ("plain", "topk") for rate in ("0.1", "0.01")]


def test_a_file_without_a_title_has_its_own_name(place: Path) -> None:
    (place / "mine.toml").write_text(FILE.replace('title = "codecs"\n', "").replace("[grid]", "[[grid]]"))
    file = SweepFile.read(Path("mine.toml"))
    assert file.title == "mine" and len(file.grids) == 1


def test_a_table_gives_the_values_of_a_setting_labels(place: Path) -> None:
    (place / "sweep.toml").write_text(
        FILE.replace(
            "[grid.gd_params]\nlearn_rate = [0.1, 0.01]", '[grid.clients]\nFew = "count=9,sample=3"\nAll = "count=9,sample=9"'
        )
    )
    file = SweepFile.read(Path("sweep.toml"))
    assert told(file.grids) == [f"codec={codec}, clients={label}" for codec in ("plain", "topk") for label in ("Few", "All")]
    assert [each.slots for each in file.grids[0]["clients"].values()] == [3, 9]


WRONG = [
    ("seeds = [0, 4]", "seds = 2", "it has no key 'seds'; did you mean 'seeds'?"),
    ("seeds = [0, 4]", 'seeds = "many"', "'seeds' must be an integer or a list, got 'many'"),
    ("epoch = 2", "epohc = 2", "has no option 'epohc'; did you mean epoch?"),
    ("epoch = 2", "epoch = 2.5", "'options.epoch' must be an integer, got 2.5"),
    (
        "epoch = 2",
        "epoch = [2, 3]",
        "'options.epoch' must be an integer, got [2, 3]; several values, a run for each, stand as a",
    ),
    ("workers = 3", "workers = [2, 3]", "'workers' must be an integer, got [2, 3]; several values, a run for each, stand as"),
    ('"codecs"', '["codecs"]', "'title' must be a text, got ['codecs']."),
    ("codec =", "codek =", "[grid] has no key 'codek'; did you mean 'codec'?"),
    ('["plain", "topk"]', '["plian"]', "'grid.codec' 'plian' is unknown; did you mean 'Plain'?"),
    ('["plain", "topk"]', '"plain"', "'grid.codec' must be a list of at least one value, got 'plain'"),
    ('["plain", "topk"]', "[]", "'grid.codec' must be a list of at least one value, got []"),
    ('["plain", "topk"]', "[1]", "'grid.codec' must be a text or a table, got 1"),
    ('["plain", "topk"]', '["plain", "plain"]', "'grid.codec' must have different values, got 'plain' twice"),
    ("learn_rate = [", "learn_rate = 3 #", "'grid.gd_params.learn_rate' must be a list of at least one value, got 3"),
    ("learn_rate =", "learn_rat =", "SGDOptimizer has no argument 'learn_rat'"),
    ("[grid.gd_params]", "[grid.block_size]", "'grid.block_size' must be an integer, got [0.1, 0.01]"),
    ("small.model", "absent.model", "The model file absent.model cannot be read"),
    ('model = "small.model"', "", "'model' is missing, the file of the model"),
    ('"digits"', '"digts"', "'dataset' 'digts' is unknown; did you mean 'Digits'?"),
    ("workers = 3", "workers = 0", "'workers' must be a positive integer, got 0"),
    ("workers = 3", 'platform = "star 1"', "The platform 'star 1' must have"),
    ("[grid]", "[gird]", "it has no key 'gird'; did you mean 'grid'?"),
    ('"codecs"', '"codecs', "is no valid TOML"),
]


@pytest.mark.parametrize(("text", "instead", "said"), WRONG, ids=[said[:40] for _, _, said in WRONG])
def test_a_wrong_file_is_told_in_a_sentence(
    place: Path, capsys: pytest.CaptureFixture[str], text: str, instead: str, said: str
) -> None:
    """Exit code 2, and nothing has run."""
    (place / "sweep.toml").write_text(FILE.replace(text, instead, 1))
    assert FILE.replace(text, instead, 1) != FILE
    code = cli.main(["sweep", "sweep.toml"])
    shown = capsys.readouterr().err
    assert code == 2 and said in shown and shown.count("\n") == 1
    assert sorted(path.name for path in place.iterdir()) == ["small.model", "sweep.toml"]


@covers("RES-8")
def test_the_command_knows_the_runs_of_a_program_and_prints_mean_and_spread(
    place: Path, capsys: pytest.CaptureFixture[str], caplog: pytest.LogCaptureFixture
) -> None:
    """Also as LaTeX and as JSON; runs that are not done are told, with exit code 1."""
    plan = Plan({"gd_params": {"learn_rate": [0.1]}}, [0, 1], directory=place)
    losses = [plan.train(number)["Loss"] for number in (0, 1)]
    (place / "sweep.toml").write_text(
        'model = "small.model"\ndataset = "digits"\nseeds = 2\n[options]\nepoch = 1\nblock_size = 128\ngd_type = "sgd"\n'
        "[grid.gd_params]\nlearn_rate = [0.1]\n"
    )
    code, text = cli.main(["sweep", "sweep.toml", "-q"]), capsys.readouterr().out
    head, row, *_, tables, page = text.splitlines()
    assert code == 0 and head.split()[:2] == ["learn_rate", "runs"] and row.split()[:2] == ["0.1", "2"]
    assert f"{statistics.fmean(losses):.4f} ± {statistics.stdev(losses):.4f}" in row
    for line in (tables, page):
        assert Path(line.split()[-1]).is_file()
    caplog.set_level(logging.INFO)
    assert cli.main(["sweep", "sweep.toml"]) == 0
    assert "sweep.html" not in capsys.readouterr().out, "once: the log tells it to programs, too"
    assert caplog.messages[-2:] == ["tables   ./sweeps/sweep/results.csv", "page     ./sweeps/sweep/sweep.html"]
    assert cli.main(["sweep", "sweep.toml", "-q", "--latex"]) == 0
    assert rf"{statistics.fmean(losses):.4f} $\pm$ {statistics.stdev(losses):.4f}" in capsys.readouterr().out
    assert cli.main(["sweep", "sweep.toml", "-q", "--json"]) == 0
    told = json.loads(capsys.readouterr().out)
    assert [run["Loss"] for run in told["runs"]] == losses and told["clock"] == "measured"
    # of a run that has failed the sweep tells so, and trains it only with --retry
    outcome = place / "runs" / "digits-2" / "outcome.json"
    outcome.write_text(json.dumps({**json.loads(outcome.read_text()), "state": "failed", "message": "RuntimeError: a bug"}))
    assert cli.main(["sweep", "sweep.toml", "-q"]) == 1
    assert "1 of 2 runs are not done" in capsys.readouterr().out


def test_what_all_combinations_share_is_told_once(tmp_path: Path, caplog: pytest.LogCaptureFixture) -> None:
    x = 5000.0 + np.random.default_rng(0).normal(size=(600, 64))
    job = ParallelSGD(mlp(), ArrayDataset(x, np.arange(600) % 10))
    plan = Plan({"gd_params": {"learn_rate": [0.1, 0.2]}}, [0, 1], job=job, directory=tmp_path)
    plan.train()
    assert ["number 1 (5,000), number 2 (5,000)" in record.getMessage() for record in caplog.records] == [True]
