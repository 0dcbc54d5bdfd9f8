"""`psgd runs`, `psgd show` and `psgd compare`: what they tell of the runs of a directory, and what they leave behind."""

from __future__ import annotations

import contextlib
import json
import logging
import os
import re
import shutil
from collections.abc import Iterator, Sequence
from pathlib import Path

from psgd import cli

import pytest

from parallel_sgd import in_process, simulated
from tests.processes.training.jobs import digits_job
from tests.screen import Screen
from tests.statements import covers


def train(title: str = "digits", workers: int = 2, **settings: object) -> str:
    with in_process(workers) as nodes:
        result = digits_job().parallel(nodes, **{"epoch": 2, "mission_title": title, "verbose": 0, **settings})  # type: ignore[arg-type]
    assert result.folder is not None
    return result.folder.name


@pytest.fixture
def place(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.chdir(tmp_path)
    return tmp_path


def psgd(capsys: pytest.CaptureFixture[str], *arguments: str) -> tuple[int, str, str]:
    capsys.readouterr()
    code = cli.main(arguments)
    return (code, *capsys.readouterr())


def rows(text: str) -> list[list[str]]:
    return [re.split(r" {2,}", line) for line in text.splitlines()]


def links(place: Path) -> dict[str, str]:
    every: Sequence[Path] = [place / "runs" / "latest", *sorted(place.glob("Node-*"))]
    return {link.name: os.readlink(link) for link in every if link.is_symlink()}


@contextlib.contextmanager
def nobody(place: Path) -> Iterator[None]:
    """Read all below the folder, and have no right to write there."""
    for path in (place, *(path for path in place.rglob("*") if not path.is_symlink())):
        path.chmod(0o555)
    me = os.geteuid()
    os.seteuid(me or 65534)  # root may write in spite of the modes
    try:
        yield
    finally:
        os.seteuid(me)
        for path in (place, *(path for path in place.rglob("*") if path.is_dir() and not path.is_symlink())):
            path.chmod(0o755)


def test_a_run_that_went_on_names_the_one_before(
    place: Path, capsys: pytest.CaptureFixture[str], caplog: pytest.LogCaptureFixture
) -> None:
    caplog.set_level(logging.INFO)
    train(epoch=1, checkpoint_every="epoch"), train(resume="last", verbose=1)
    console = [record.getMessage() for record in caplog.records]
    assert "Training of digits-1 goes on after 1 epoch, with epoch 2." in console
    assert [line[:9] for line in console if line.startswith("epoch ")] == ["epoch 2/2"], "the other was told before"
    assert "resume=digits-1, " in psgd(capsys, "runs")[1].splitlines()[1]
    assert ["", "resume", "digits-1"] in rows(psgd(capsys, "show", "digits-2")[1])
    assert ["resume", "default", "digits-1"] in rows(psgd(capsys, "compare", "digits-1", "digits-2")[1])
    assert "of a run with clients" not in Path("compare.html").read_text("utf-8")
    # also where both were copied into a folder of another name
    Path("runs").rename("copied")
    assert ["", "resume", "digits-1"] in rows(psgd(capsys, "show", "copied/digits-2")[1])
    assert ["resume", "default", "digits-1"] in rows(psgd(capsys, "compare", "copied/digits-1", "copied/digits-2")[1])


def test_a_job_that_begins_with_a_model_names_that_of_a_run(place: Path, capsys: pytest.CaptureFixture[str]) -> None:
    """Where the name of a run, or its folder, is given in its place: it may mean the model with which the run began."""
    name = train(epoch=1)
    for given in (name, f"runs/{name}"):
        code, _, said = psgd(capsys, "submit", "--dataset", "digits", "-m", given)
        assert code == 2 and said.endswith(
            f" The model that this run has trained is 'runs/{name}/Node-0-Retrieve/MODEL-digits-N(0).model'.\n"
        )
    assert "has trained" not in psgd(capsys, "submit", "--dataset", "digits", "-m", "nothing")[2]


@pytest.mark.parametrize("name", ["runs", "those of Ada"])
def test_a_folder_of_runs_stands_for_the_directory_around_it(
    place: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch, name: str
) -> None:
    """Under any name, as of one that was copied from another machine; nothing is deleted in one that is not called `runs`."""
    first, second = train(epoch=1), train(epoch=1)
    (place / "elsewhere").mkdir()
    (place / "runs").rename(place / "elsewhere" / name)
    for given in (["--directory", f"elsewhere/{name}"], []):
        monkeypatch.chdir(place if given else place / "elsewhere" / name)
        listed = psgd(capsys, "runs", *given)[1]
        assert [row[0] for row in rows(listed)[1:]] == [second, first], listed
        assert psgd(capsys, "show", first, *given)[1].startswith(f"{first}: done, ")
    monkeypatch.chdir(place / "elsewhere" / name)
    code, out, said = psgd(capsys, "runs", "--delete", second)
    if name == "runs":
        assert (code, out) == (0, f"Deleted: {second}.\n") and os.readlink("latest") == first
    else:
        assert code == 2 and said.endswith("is no folder in a directory runs, so it is not deleted\n") and Path(second).is_dir()


def test_verify_takes_the_newest_run(place: Path, capsys: pytest.CaptureFixture[str]) -> None:
    train(epoch=1)
    code, out, said = psgd(capsys, "verify")
    assert code == 0 and "the folder agrees with itself" in out, said


@covers("RUN-10")
def test_the_list(place: Path, capsys: pytest.CaptureFixture[str]) -> None:
    """Title and number, when, state, figures, what differs from the defaults; the newest first; also for programs."""
    assert psgd(capsys, "runs") == (0, "There are no runs in ./runs. Each job that is started here leaves one there.\n", "")
    train(block_size=32)
    train("other", workers=1, gd_params=(0.01,))
    code, text, _ = psgd(capsys, "runs")
    head, first, second = text.splitlines()
    assert code == 0 and head.startswith("RUN") and first.startswith("other-1") and second.startswith("digits-1")
    told = r"digits-1 +\d{4}-\d\d-\d\d \d\d:\d\d +done +Loss \d\.\d{4}  accuracy 0\.\d{4}  "
    assert re.match(told + ".*, dataset=Digits, transform=", second), "data come last, for the end may be cut"
    assert (
        "block_size=32" in second
        and "block_size" not in first
        and "gd_params=0.01" in first
        and "network_bandwidth" not in text
    )
    assert "workers=1" in first and "workers=2" in second and "seed" not in text and "mission_title" not in text
    code, text, _ = psgd(capsys, "runs", "--json", "--directory", str(place))
    found = json.loads(text)["runs"]
    assert code == 0 and [run["run"] for run in found] == ["other-1", "digits-1"] and found[1]["differs"]["block_size"] == "32"
    assert (
        found[0]["figures"]["accuracy"] == json.loads((place / "runs/other-1/outcome.json").read_text())["figures"]["accuracy"]
    )


def test_lists_end_with_a_terminal(place: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch) -> None:
    """Of 80 columns, as of 120: nothing is wider, and the narrow one, too, tells what differs."""
    name = train(seed=7, commit_every=3)
    whole = psgd(capsys, "runs")[1]
    for columns in (80, 120):
        monkeypatch.setenv("COLUMNS", str(columns))
        monkeypatch.setattr("sys.stdout", screen := Screen())
        assert cli.main(["runs"]) == 0 and cli.main(["show", name]) == 0
        shown = screen.getvalue()
        assert max(map(len, shown.splitlines())) <= columns and "seed=7" in shown and "one alone would" in shown, shown
    monkeypatch.undo()
    assert max(map(len, whole.splitlines())) > 100


def test_a_terminal_shows_once_what_all_runs_have(
    place: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    """A pipe has all settings of a run in its line, for programs that look for them."""
    train(), train(block_size=32)
    assert all("dataset=Digits" in line for line in psgd(capsys, "runs")[1].splitlines()[1:])
    for columns in (80, 160):
        monkeypatch.setenv("COLUMNS", str(columns))
        monkeypatch.setattr("sys.stdout", screen := Screen())
        assert cli.main(["runs"]) == 0
        *runs, common = screen.getvalue().splitlines()
        assert common.startswith("All of them: ") and "dataset=Digits" in common and "block_size" not in common
        assert "dataset" not in "".join(runs) and "".join(runs).count("block_size=32") == 1


@covers("RUN-10")
def test_links_after_a_run_was_deleted(place: Path, capsys: pytest.CaptureFixture[str]) -> None:
    """They lead to the newest run that is left and has what they name, or go; other links and folders stay."""
    for workers in (2, 3, 1):
        train(workers=workers)
    (place / "Node-9-Retrieve").mkdir()
    os.symlink("elsewhere", place / "Node-8-Retrieve")
    before = {"Node-0-Retrieve": "runs/digits-3/Node-0-Retrieve", "latest": "digits-3"}
    assert links(place).items() >= before.items()
    assert psgd(capsys, "runs", "--delete", "digits-3") == (0, "Deleted: digits-3.\n", "")
    assert links(place) == {
        "latest": "digits-2",
        **{f"Node-{node}-Retrieve": f"runs/digits-2/Node-{node}-Retrieve" for node in range(3)},
        "Node-8-Retrieve": "elsewhere",
    }
    assert psgd(capsys, "runs", "--delete", "runs/digits-2")[0] == 0
    assert "Node-2-Retrieve" not in links(place) and links(place)["Node-1-Retrieve"] == "runs/digits-1/Node-1-Retrieve"
    assert psgd(capsys, "runs", "--delete", "digits-1")[0] == 0
    assert links(place) == {"Node-8-Retrieve": "elsewhere"} and (place / "Node-9-Retrieve").is_dir()


@covers("RUN-10")
@pytest.mark.parametrize("how", ["psgd", "by hand"])
def test_a_number_is_never_given_twice(place: Path, capsys: pytest.CaptureFixture[str], how: str) -> None:
    assert [train(), train(), train("digits-2")] == ["digits-1", "digits-2", "digits-2-1"]
    for name in ("digits-2", "digits-1"):
        if how == "psgd":
            assert psgd(capsys, "runs", "--delete", name)[0] == 0
        else:
            shutil.rmtree(place / "runs" / name)
    assert [train(), train("digits-2")] == ["digits-3", "digits-2-2"]
    assert sorted(path.name for path in (place / "runs").glob(".*")) == [".digits-2-2", ".digits-3"]


def test_what_is_not_deleted(place: Path, capsys: pytest.CaptureFixture[str]) -> None:
    """What has not ended, without --force; what is no run; and with one wrong name none."""
    train(), train()
    (place / "runs/digits-1/outcome.json").unlink()
    code, _, said = psgd(capsys, "runs", "--delete", "digits-2", "digits-1")
    assert code == 2 and "runs/digits-1 has not ended, as far as its files tell: --force deletes it all the same" in said
    with pytest.raises(SystemExit, match="2"):
        psgd(capsys, "runs", "--delet", "digits-2")
    assert "unrecognized arguments: --delet digits-2; did you mean --delete?" in capsys.readouterr().err
    code, _, said = psgd(capsys, "runs", "--delete", "digits-2", "digits-9")
    assert code == 2 and "got 'digits-9'; there are: digits-2, digits-1\n" in said
    moved = place / "elsewhere"
    shutil.copytree(place / "runs/digits-2", moved)
    code, _, said = psgd(capsys, "runs", "--delete", str(moved))
    assert code == 2 and "is no folder in a directory runs, so it is not deleted" in said
    assert moved.is_dir() and {"digits-1", "digits-2"} <= set(os.listdir(place / "runs"))
    with nobody(place):
        code, _, said = psgd(capsys, "runs", "--delete", "digits-2")
    assert (code, said) == (1, "psgd: runs/digits-2: Permission denied\n"), "by the name that the user knows"
    assert psgd(capsys, "runs", "--delete", "digits-1", "--force")[0] == 0 and not (place / "runs/digits-1").exists()


def test_a_run_in_a_few_lines(place: Path, capsys: pytest.CaptureFixture[str]) -> None:
    train(epoch=3)
    code, text, _ = psgd(capsys, "show")
    assert code == 0 and text.startswith("digits-1: done, began 20")
    for line in (
        r"  epoch +3",
        r"epoch 3/3   Loss \d\.\d{4}   accuracy .*   test: Loss .*",
        r"best     epoch \d, test accuracy 0\.\d{4}",
        r"time     computing \d+ %, exchanging \d+ %, waiting \d+ %",
        r"report   \S*runs/digits-1/report\.html",
        r"model    \S*runs/digits-1/Node-0-Retrieve/MODEL-digits-N\(0\)\.model",
    ):
        assert re.search(rf"^{line}$", text, re.MULTILINE), (line, text)
    assert "bytes" not in text and "blocks" not in text, "as on the console of the job, and one block per worker is the default"
    job = json.loads((place / "runs/digits-1/job.json").read_text())["job"]
    for name in (job, "digits-1", "runs/digits-1", str(place / "runs/digits-1")):
        assert psgd(capsys, "show", name)[1] == text
    # one that ended before its last epoch tells how many were asked for
    file = place / "runs/digits-1/job.toml"
    text = file.read_text("utf-8").replace("epoch = 3", "epoch = 40")
    # without a name, as arrays have none
    file.write_text(re.sub("^dataset = .*\n", "", text, flags=re.MULTILINE), "utf-8")
    shown = psgd(capsys, "show")[1]
    assert re.search(r"^epoch +3/40   Loss ", shown, re.MULTILINE)
    assert re.search(r"^  dataset +arrays [0-9a-f]{8}$", shown, re.MULTILINE)


@pytest.mark.long
@pytest.mark.processes
def test_a_name_of_the_list_is_taken_by_each_command(place: Path, capsys: pytest.CaptureFixture[str]) -> None:
    train()
    assert psgd(capsys, "report", "digits-1")[:2] == (0, "./runs/digits-1/report.html\n")
    assert psgd(capsys, "verify", "digits-1")[0] == 0
    code, text, _ = psgd(capsys, "run", "digits-1", "--local", "2", "--quiet")
    assert code == 0 and "The weights equal those of" in text
    for command in ("report", "verify", "run", "page"):
        code, _, said = psgd(capsys, command, "digits-9")
        assert code == 2 and "digits-9" in said


def test_a_report_is_told_by_its_place_from_here(place: Path, capsys: pytest.CaptureFixture[str]) -> None:
    """As the console tells it: the path of this machine says nothing that the reader has not typed."""
    train()
    for name in ("digits-1", "runs/digits-1", str(place / "runs/digits-1")):
        assert psgd(capsys, "report", name) == (0, "./runs/digits-1/report.html\n", "")
    (place / "runs/digits-1/Node-0-Retrieve/TR-digits-N(0).csv").write_bytes(b"Time,Epochs\n1")
    code, told, said = psgd(capsys, "report", "digits-1")
    assert code == 0 and told == "./runs/digits-1/report.html\n" and str(place) not in said, said


@pytest.mark.parametrize(
    ("figures", "told"), [({"mse": 2.5e12}, "2.5e+12"), ({"mse": 3.21e-7}, "3.21e-07"), ({"mse": 0.0}, "0.0000")]
)
def test_large_and_small_figures_have_digits(
    place: Path, capsys: pytest.CaptureFixture[str], figures: dict[str, float], told: str
) -> None:
    """Prices and losses close to 0: four decimals of them are a row of digits, or none."""
    train(), train(epoch=1)
    for name in ("digits-1", "digits-2"):
        outcome = place / f"runs/{name}/outcome.json"
        outcome.write_text(json.dumps({**json.loads(outcome.read_text()), "figures": figures}))
    assert [row[3] for row in rows(psgd(capsys, "runs")[1])[1:]] == [f"mse {told}"] * 2
    assert ["test mse", told, told] in rows(psgd(capsys, "compare", "digits-1", "digits-2")[1])


def test_the_name_of_a_run_is_no_command(place: Path, capsys: pytest.CaptureFixture[str]) -> None:
    """`psgd latest` was answered with `psgd evaluate`, which it is near to by its letters alone."""
    train()
    for name in ("latest", "digits-1"):
        with pytest.raises(SystemExit, match=r"^2$"):
            cli.main([name])
        assert f"no command '{name}'; it is a run: did you mean 'psgd show {name}'?" in capsys.readouterr().err


def test_the_link_of_a_node_stands_for_its_run(place: Path, capsys: pytest.CaptureFixture[str]) -> None:
    train()
    code, said, _ = psgd(capsys, "show", "Node-0-Retrieve")
    assert code == 0 and said.startswith("digits-1: done") and "report   ./runs/digits-1/report.html" in said


@pytest.mark.parametrize("command", ["runs", "show", "report", "page"])
def test_runs_that_cannot_be_read_are_not_told_as_none(place: Path, capsys: pytest.CaptureFixture[str], command: str) -> None:
    (place / "runs").touch()
    assert psgd(capsys, command) == (2, "", "psgd: The runs in ./runs cannot be read: Not a directory.\n")


@pytest.mark.parametrize("command", ["show", "report", "page"])
def test_where_no_job_has_run(place: Path, capsys: pytest.CaptureFixture[str], command: str) -> None:
    code, _, said = psgd(capsys, command)
    assert code == 2 and said == "psgd: There are no runs in ./runs. Each job that is started here leaves one there.\n"


def test_a_simulated_run_is_told_as_one(place: Path, capsys: pytest.CaptureFixture[str]) -> None:
    train()
    job = digits_job()
    nodes = simulated(2, "star 100Mbit/s 1ms", compute="1ms", codec_time=0)
    job.parallel(nodes, epoch=1, mission_title="digits", verbose=0)
    assert "simulated" not in psgd(capsys, "show", "digits-1")[1]
    told = "simulated on star of 2 hosts; 100 Mbit/s and 1 ms; "
    assert re.search(rf"^{told}.*: virtual seconds, not measured$", psgd(capsys, "show", "digits-2")[1], re.MULTILINE)
    table = {row[0]: row[1:] for row in rows(psgd(capsys, "compare", "digits-1", "digits-2")[1])}
    assert [*table][-2] == "simulated on", "below what both have, above the line of the page"
    assert table["simulated on"][0] == "-" and f"simulated on {table['simulated on'][1]}".startswith(told)


def test_all_workers_of_a_simulated_run_count(
    place: Path, capsys: pytest.CaptureFixture[str], caplog: pytest.LogCaptureFixture
) -> None:
    """Also where only the first ones have tables of their seconds: the console, the page and the commands agree."""
    nodes = simulated(17, "star 100Mbit/s 1ms", compute="1ms", codec_time=0)
    caplog.set_level(logging.INFO)
    digits_job().parallel(nodes, epoch=1, block_size=4, mission_title="digits")
    (console,) = (line for record in caplog.records if "one alone would" in (line := record.getMessage()))
    assert console.startswith("17 workers took ") and console in psgd(capsys, "show")[1]
    assert "17 workers took " in re.sub("<[^>]*>", "", (place / "runs/digits-1/report.html").read_text("utf-8"))


def test_figures_of_a_job_that_learns_nothing_are_not_told(
    place: Path, capsys: pytest.CaptureFixture[str], caplog: pytest.LogCaptureFixture
) -> None:
    nodes = simulated(2, "star 100Mbit/s 1ms", compute="1ms", codec_time=0, learn=False)
    caplog.set_level(logging.INFO)
    digits_job().parallel(nodes, epoch=2, mission_title="digits")
    console = "\n".join(record.getMessage() for record in caplog.records)
    assert "done in" in console and "nothing is learned" in console
    shown = psgd(capsys, "show", "digits-1")[1]
    assert "nothing is learned" in shown
    for text in (console, shown):
        assert not re.search("^(epoch|best) ", text, re.MULTILINE), text
    assert "Best: epoch" not in (place / "runs/digits-1/report.html").read_text("utf-8")
    # nor in the list and the comparison, beside runs that have learned
    (listed,) = json.loads(psgd(capsys, "runs", "--json")[1])["runs"]
    assert listed["state"] == "done" and listed["figures"] == {}
    digits_job().parallel(in_process(2), epoch=1, mission_title="digits")
    table = {row[0]: row[1:] for row in rows(psgd(capsys, "compare", "digits-1", "digits-2", "-o", "two.html")[1])[:-1]}
    assert table["test Loss"][0] == "-" and table["test Loss"][1] != "-"


@covers("RUN-10")
def test_runs_are_compared(place: Path, capsys: pytest.CaptureFixture[str]) -> None:
    """What differs, and nothing else; a page with the curves of all, by epoch, second and byte."""
    train(), train(block_size=32, epoch=3), train(workers=1)
    code, text, _ = psgd(capsys, "compare", "digits-1", "digits-2", "-o", "two.html")
    table = {row[0]: row[1:] for row in rows(text)[:-1]}
    assert code == 0 and table[""] == ["digits-1", "digits-2"] and text.splitlines()[-1] == "page: ./two.html"
    assert table["block_size"] == ["64", "32"] and table["epoch"] == ["2", "3"] and table["state"] == ["done", "done"]
    assert not {"seed", "dataset", "workers", "mission_title"} & set(table) and {"test Loss", "test accuracy"} <= set(table)
    page = (place / "two.html").read_text("utf-8")
    found = re.search(r'<script type="application/json" id="data">(.*?)</script>', page)
    assert found is not None
    curves = json.loads(found[1])["curves"]
    assert curves["names"] == ["Loss", "accuracy", "bytes"]
    labels = ["digits-1", "digits-1 test", "digits-2", "digits-2 test"]
    for per in ("epoch", "seconds", "bytes"):
        assert [line["label"] for line in curves[per] if line["metric"] == "Loss"] == labels
        assert [len(line["points"]) for line in curves[per] if line["metric"] == "Loss"] == [2, 2, 3, 3]
    assert {line["name"] for line in curves["epoch"]} == {"digits-1", "digits-2"}, "one entry of the legend for each run"
    assert "speed-up" not in table, "workers in one process take turns"
    first = curves["seconds"][2]["points"]
    assert 0 < first[0][0] < first[1][0] < first[2][0] < 60
    assert "block_size" in page and str(place) not in page
    train(gd_params=(0.1,))
    assert psgd(capsys, "compare", "digits-1", "digits-4", "-o", "three.html")[0] == 0
    assert {row[0]: row[1:] for row in rows(psgd(capsys, "compare", "digits-1", "digits-4")[1])}["gd_params"] == [
        "default",
        "0.1",
    ]
    outcome = place / "runs/digits-1/outcome.json"
    again = {"attempt": 0, "time": 1.0, "message": "x", "causes": [], "verdicts": []}
    outcome.write_text(json.dumps({**json.loads(outcome.read_text()), "incidents": [again]}))
    assert ["restarts", "1", "0"] in rows(psgd(capsys, "compare", "digits-1", "digits-4")[1])
    (place / "folder").mkdir()
    for file in ("nowhere/page.html", "folder"):
        with pytest.raises(SystemExit, match="2"):
            psgd(capsys, "compare", "digits-1", "digits-4", "-o", file)
        assert f"must be a file in a directory that exists, got '{file}'" in capsys.readouterr().err
        assert not list((place / "folder").iterdir())
    assert "<td>default</td><td>0.1</td>" in (place / "three.html").read_text("utf-8"), "no cell is empty"
    assert (
        psgd(capsys, "compare", "digits-1", "digits-2", "digits-3")[0] == 0 and "3 runs" in (place / "compare.html").read_text()
    )
    code, _, said = psgd(capsys, "compare", "digits-1", "runs/digits-1")
    assert code == 2 and "'RUN' must be two or more runs, got 'digits-1', 'runs/digits-1'" in said


def test_a_strangers_folder_is_told_in_a_sentence(place: Path, capsys: pytest.CaptureFixture[str]) -> None:
    """A link in the place of a file is followed by none of them; the list goes on with the others."""
    train(), train()
    target = place / "runs/digits-2/outcome.json"
    os.replace(target, place / "moved.json")
    os.symlink(place / "moved.json", target)
    code, text, _ = psgd(capsys, "runs")
    assert code == 0 and re.search(r"^digits-2 .* unreadable .*outcome\.json cannot be read: ", text, re.MULTILINE)
    assert re.search(r"^digits-1 .* done ", text, re.MULTILINE)
    for command in (("show", "digits-2"), ("compare", "digits-1", "digits-2")):
        code, _, said = psgd(capsys, *command)
        assert code == 2 and said.count("\n") == 1 and "outcome.json cannot be read: " in said
    assert not (place / "compare.html").exists()


@pytest.mark.parametrize("path", ["{[1]:2}", "[" * 2000 + "]" * 2000, "a" + ",missing=None" * 400], ids=["key", "deep", "long"])
def test_a_data_set_that_cannot_be_read_is_told_as_it_is(place: Path, capsys: pytest.CaptureFixture[str], path: str) -> None:
    train(), train()
    dataset = f"CSVDataset:path={path}"
    settings = place / "runs/digits-1/job.toml"
    settings.write_text(re.sub("^dataset = .*|^sha256 = .*", "", settings.read_text(), flags=re.MULTILINE))
    settings.write_text(settings.read_text().replace("[data]", f'[data]\ndataset = "{dataset}"'))
    for command in (("runs",), ("show", "digits-1"), ("compare", "digits-1", "digits-2")):
        code, _, said = psgd(capsys, *command)
        assert (code, said) == (0, "")
    _, found = json.loads(psgd(capsys, "runs", "--json")[1])["runs"]
    assert found["state"] == "done" and found["differs"]["dataset"].startswith(dataset[:200])


@pytest.mark.parametrize("mode", [0, 0o400])
def test_a_folder_without_rights_is_told(place: Path, capsys: pytest.CaptureFixture[str], mode: int) -> None:
    """Also where it is the only one: the list has it, and no command says that there is none."""
    folder = place / "runs" / "digits-1"
    folder.mkdir(parents=True)
    (folder / "job.json").write_text("{}")
    place.chmod(0o755)
    with nobody(place):
        os.seteuid(0) if not os.getuid() else None
        folder.chmod(mode)
        os.seteuid(os.getuid() or 65534)
        code, text, _ = psgd(capsys, "runs")
        assert code == 0 and re.search(
            r"^digits-1 +unreadable .*job\.json cannot be read: Permission denied", text, re.MULTILINE
        )
        (found,) = json.loads(psgd(capsys, "runs", "--json")[1])["runs"]
        assert (found["run"], found["state"], found["began"]) == ("digits-1", "unreadable", None)
        for command in (("show",), ("show", "digits-1"), ("show", "runs/digits-1"), ("compare", "digits-1", "digits-1")):
            assert psgd(capsys, *command) == (2, "", "psgd: ./runs/digits-1/job.json cannot be read: Permission denied\n")


def test_without_an_argument_six_commands(capsys: pytest.CaptureFixture[str]) -> None:
    code, text, _ = psgd(capsys)
    shown = re.findall(r"^  ([a-z-]+) ", text, re.MULTILINE)
    assert code == 2 and tuple(shown) == cli.NEEDED and len(shown) == 6 and "--help-all" in text
    code, text, _ = psgd(capsys, "--help-all")
    assert code == 0 and all(re.search(rf"^    {name} ", text, re.MULTILINE) for name in cli.COMMANDS)


def test_nodes_of_this_process_stand_in_the_place_of_local_workers(place: Path) -> None:
    """Also without `with`: a program that closes its nodes need not know which it has."""
    nodes = in_process(1)
    digits_job().parallel(nodes, epoch=1, verbose=0)
    nodes.close()
