"""Run folders with something else in a file's place: each reading command ends with one sentence, soon and in little memory."""

from __future__ import annotations

import json
import os
import resource
import shutil
import subprocess
import sys
import time
from collections.abc import Callable
from pathlib import Path

from psgd import cli

import pytest

from tests.sources import ROOT
from tests.statements import covers

from .runs import train

SECONDS = 5.0
MEMORY = 64 << 20
FILES = (
    "job.toml", "manifest.json", "outcome.json", "start.model", "Node-0-Retrieve/MODEL-P-SGD-N(0).model",
    "Node-0-Retrieve/TR-P-SGD-N(0).csv", "Node-0-Retrieve/EV-P-SGD-N(0).csv", "Node-0-Retrieve/WH-P-SGD-N(0).csv",
)  # fmt: skip


@pytest.fixture(scope="module")
def honest(tmp_path_factory: pytest.TempPathFactory) -> Path:
    result = train(directory=tmp_path_factory.mktemp("honest"))
    return result.files[0][0].resolve().parent.parent


@pytest.fixture
def run(honest: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.chdir(tmp_path)
    return Path(shutil.copytree(honest, tmp_path / "run"))


def link(path: Path) -> None:
    victim = path.parent / "victim"
    path.replace(victim)
    path.symlink_to(victim)


def pipe(path: Path) -> None:
    path.unlink()
    os.mkfifo(path)


def endless(path: Path) -> None:
    path.unlink()
    path.symlink_to("/dev/zero")


def sparse(path: Path) -> None:
    with path.open("r+b") as file:
        file.truncate(3 << 30)


def folder(path: Path) -> None:
    path.unlink()
    path.mkdir()


@covers("RUN-7")
@pytest.mark.parametrize("obstacle", [link, pipe, endless, sparse, folder])
@pytest.mark.parametrize("name", FILES)
@pytest.mark.share(3)
def test_what_is_no_file_of_a_run_is_refused(
    run: Path, name: str, obstacle: Callable[[Path], None], capsys: pytest.CaptureFixture[str]
) -> None:
    """By `verify` for each file, by `run` for what it needs; a page leaves it out or names it. Nothing is written."""
    obstacle(run / name)
    before = {path: path.lstat().st_mtime_ns for path in run.rglob("*")}
    for command in (["verify", str(run)], *([["run", str(run), "-q"]] if name in ("job.toml", "start.model") else [])):
        begin = time.monotonic()
        code = cli.main(command)
        told = capsys.readouterr()
        assert code in (1, 2) and Path(name).name in told.out + told.err and "Traceback" not in told.err, (command, told)
        assert time.monotonic() - begin < SECONDS
    assert {path: path.lstat().st_mtime_ns for path in run.rglob("*")} == before
    begin = time.monotonic()
    code = cli.main(["report", str(run)])
    told = capsys.readouterr()
    assert code in (0, 2) and "Traceback" not in told.err and time.monotonic() - begin < SECONDS


def test_a_folder_that_is_no_run_is_answered_with_those_near(
    honest: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.chdir(tmp_path)
    for number in (1, 2):
        run = Path(shutil.copytree(honest, tmp_path / "runs" / f"P-SGD-{number}"))
        record = json.loads((run / "job.json").read_text())
        (run / "job.json").write_text(json.dumps({**record, "began": number}))
    for name in ("sweeps/P-SGD", "sweeps/other", "elsewhere/deep/er"):
        (tmp_path / name).mkdir(parents=True)
    both = "runs/P-SGD-2, runs/P-SGD-1"
    for name, near in (
        ("sweeps/P-SGD", f"; the runs of this title are {both}"),
        ("sweeps", f"; the runs beside it are {both}"),
        ("runs", f"; the runs in it are {both}"),
        (".", f"; the runs in it are {both}"),
        ("runs/P-SGD-1/Node-0-Retrieve", "; it lies in the run runs/P-SGD-1"),
        ("elsewhere/deep/er", ""),
    ):
        assert cli.main(["verify", name]) == 2
        told = capsys.readouterr().err
        assert told.endswith(f": {name} is no folder of a run: it has neither job.toml nor manifest.json{near}.\n"), told
    for command, said in (
        ("run", "job.toml cannot be read: No such file or directory"),
        ("report", "it is empty: its run has not begun"),
    ):
        assert cli.main([command, "sweeps/P-SGD"]) == 2
        assert f"{said}; the runs of this title are {both}" in capsys.readouterr().err


@covers("RUN-7")
@pytest.mark.parametrize("name", ["timeline.json.gz", "report.html"])
def test_nothing_is_written_through_a_link(run: Path, name: str) -> None:
    (run / "manifest.json").unlink()  # of a run that has not ended well both are made anew
    victim = run.parent / "victim"
    victim.write_text("mine")
    (run / name).unlink(missing_ok=True)
    (run / name).symlink_to(victim)
    assert cli.main(["report", str(run)]) == 0
    assert victim.read_text() == "mine"


@covers("RUN-7")
@pytest.mark.parametrize(
    ("name", "content", "key"),
    [
        ("outcome.json", {"figures": ["Loss"]}, "figures"),
        ("outcome.json", {"incidents": [1]}, "incidents"),
        ("outcome.json", {"model": "x"}, "model"),
        ("outcome.json", {"ended": 1e300}, "ended"),
        ("manifest.json", {"files": ["job.toml"]}, "files"),
        ("manifest.json", {"files": {"/dev/zero": "0" * 64}}, "/dev/zero"),
        ("manifest.json", {"files": {"../../x": "0" * 64}}, "../../x"),
        ("manifest.json", {"chain": [[1e300, "x"]]}, "chain"),
    ],
)
def test_wrong_types_are_told_by_file_and_key(
    run: Path, name: str, content: dict[str, object], key: str, capsys: pytest.CaptureFixture[str]
) -> None:
    path = run / name
    path.write_text(json.dumps({**json.loads(path.read_text()), **content}))
    code = cli.main(["report" if name == "outcome.json" else "verify", str(run)])
    told = capsys.readouterr()
    assert code == 2 and name in told.err and key in told.err and told.err.count("\n") <= 2, told


@covers("RUN-7")
@pytest.mark.parametrize("command", ["report", "verify"])
@pytest.mark.long
def test_giants_take_little_memory(run: Path, command: str) -> None:
    """Of a process of its own; a good run of that size is the measure."""
    used = []
    for name in ("", "Node-0-Retrieve/TR-P-SGD-N(0).csv", "outcome.json"):
        spoiled = Path(shutil.copytree(run, run.parent / f"giant{len(used)}"))
        if name:
            sparse(spoiled / name)
        before = resource.getrusage(resource.RUSAGE_CHILDREN).ru_maxrss
        script = (
            "import resource, sys\nfrom psgd import cli\n"
            f"code = cli.main([{command!r}, {str(spoiled)!r}])\n"
            "print(resource.getrusage(resource.RUSAGE_SELF).ru_maxrss, file=sys.stderr)\nsys.exit(code)\n"
        )
        environ = {**os.environ, "PYTHONPATH": str(ROOT)}
        ran = subprocess.run([sys.executable, "-c", script], env=environ, capture_output=True, text=True, timeout=60)
        assert before >= 0 and "Traceback" not in ran.stderr, ran.stderr
        used.append(int(ran.stderr.splitlines()[-1]) << 10)
    assert max(used[1:]) < used[0] + MEMORY, used
