"""The folders of runs: one for each, whoever starts how many at once, and links to the newest."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from collections import Counter
from pathlib import Path

import pytest

from rpc.submit import run_folder
from rpc.submit.run_folder import Run, RunFolder, find_run, node_folder, runs_in

from ...statements import covers
from ..travel import ROOT


def run(directory: Path, job: str, title: str = "T", nodes: int = 1) -> RunFolder:
    """A run that has begun, with a file of each node."""
    made = RunFolder(directory, job, title)
    for node in range(nodes):
        folder = made.path / node_folder(node)
        folder.mkdir(exist_ok=True)
        (folder / "text").write_text(job)
        made.has(node)
    made.begin()
    return made


@covers("SUB-44")
def test_no_run_replaces_another(tmp_path: Path, caplog: pytest.LogCaptureFixture) -> None:
    """Two of one title and one of another have folders of their own; the links lead to the newest with such a node."""
    caplog.set_level("INFO")
    first, second, third = run(tmp_path, "a", nodes=2), run(tmp_path, "b", nodes=2), run(tmp_path, "c", "U-1")
    assert [made.path.name for made in (first, second, third)] == ["T-1", "T-2", "U-1-1"]
    assert {made.path: (made.path / "Node-0-Retrieve" / "text").read_text() for made in (first, second, third)} == {
        tmp_path / "runs" / "T-1": "a",
        tmp_path / "runs" / "T-2": "b",
        tmp_path / "runs" / "U-1-1": "c",
    }
    assert os.readlink(tmp_path / "runs" / "latest") == "U-1-1"
    assert os.readlink(tmp_path / "Node-0-Retrieve") == "runs/U-1-1/Node-0-Retrieve"
    assert (tmp_path / "Node-1-Retrieve" / "text").read_text() == "b"
    assert [found.job for found in runs_in(tmp_path)] == ["c", "b", "a"]
    assert f"The files of this run are in {third.path}." in caplog.text
    assert run(tmp_path, "d").path.name == "T-3"


@covers("SUB-44")
def test_what_comes_later_for_an_older_run_goes_there(tmp_path: Path) -> None:
    """By the job's id; the links stay with the newest."""
    run(tmp_path, "a")
    run(tmp_path, "b")
    late = run(tmp_path, "a", "whatever")
    assert late.path == tmp_path / "runs" / "T-1"
    assert (tmp_path / "Node-0-Retrieve" / "text").read_text() == "b" and os.readlink(tmp_path / "runs/latest") == "T-2"
    assert len(runs_in(tmp_path)) == 2


def test_a_run_that_never_began_leaves_nothing(tmp_path: Path) -> None:
    run(tmp_path, "a")
    refused = RunFolder(tmp_path, "b", "T")
    (refused.path / "something").mkdir()
    assert find_run(tmp_path, "b") is None
    refused.close()
    assert sorted(os.listdir(tmp_path / "runs")) == ["T-1", "latest"]
    begun = run(tmp_path, "c")
    begun.close()
    assert begun.path.is_dir()


@covers("SUB-44")
def test_a_clock_that_was_set_back(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """The newest is who began last."""
    run(tmp_path, "a")
    monkeypatch.setattr(run_folder.time, "time_ns", lambda: 5)
    run(tmp_path, "b", "Other")
    assert runs_in(tmp_path)[0].job == "b" and os.readlink(tmp_path / "runs" / "latest") == "Other-1"


@covers("SUB-44")
@pytest.mark.parametrize("what", ["folder", "file", "link"])
def test_what_is_no_link_of_ours_stays(tmp_path: Path, what: str, caplog: pytest.LogCaptureFixture) -> None:
    """Results of an earlier version, a user's own file or link, with a warning that says where the files are."""
    mine = tmp_path / "Node-0-Retrieve"
    (tmp_path / "elsewhere").mkdir()
    if what == "folder":
        mine.mkdir()
        (mine / "text").write_text("mine")
    elif what == "file":
        mine.write_text("mine")
    else:
        mine.symlink_to(tmp_path / "elsewhere")
    before = mine.lstat()
    made = run(tmp_path, "a")
    made.has(0)
    assert mine.lstat() == before and list((tmp_path / "elsewhere").iterdir()) == []
    lines = [record.message for record in caplog.records if record.levelname == "WARNING"]
    assert len(lines) == 1 and lines[0].startswith(f"{mine} does not lead to {made.path}/Node-0-Retrieve: ")
    assert lines[0].endswith(", which stays as it is.")


def test_links_of_runs_that_were_deleted(tmp_path: Path) -> None:
    """Whoever deletes a run has its links lead to the next one, or to the newest that is left when something comes for it."""
    first, second = run(tmp_path, "a"), run(tmp_path, "b")
    for path in sorted(second.path.rglob("*"), reverse=True):
        path.rmdir() if path.is_dir() else path.unlink()
    second.path.rmdir()
    assert not (tmp_path / "Node-0-Retrieve").exists()
    first.has(0)
    assert (tmp_path / "Node-0-Retrieve" / "text").read_text() == "a"


@pytest.mark.parametrize(
    "content", ["", "[1", "7", "[" * 100_000, '{"job": "../x", "title": "T", "began": 1}', '{"job": "j"}', '{"job": 7}']
)
def test_a_record_that_is_none_is_passed_over(tmp_path: Path, content: str) -> None:
    run(tmp_path, "a")
    for name in ("T-7", "T-999"):
        (tmp_path / "runs" / name).mkdir()
        (tmp_path / "runs" / name / "job.json").write_text(content)
    (tmp_path / "runs" / "T-8").write_text("a file")
    (tmp_path / "runs" / "T-x").symlink_to(tmp_path)
    assert [found.path.name for found in runs_in(tmp_path)] == ["T-1"]
    assert run(tmp_path, "b").path.name == "T-1000"


def test_the_record(tmp_path: Path) -> None:
    made = RunFolder(tmp_path, "a", "T", {"resumes": "b"})
    made.about["work"] = ["x"]
    made.begin()
    made.about["work"] = ["too late"]
    made.begin()
    found = Run.read(made.path)
    assert found is not None and found.about == {"resumes": "b", "work": ["x"]}
    assert json.loads((made.path / "job.json").read_text())["title"] == "T"


_MANY = """
import sys
from pathlib import Path
from rpc.submit.run_folder import RunFolder, node_folder
directory, who = Path(sys.argv[1]), sys.argv[2]
sys.stdin.readline()
for number in range(40):
    run = RunFolder(directory, f"{who}{number}", "T")
    (run.path / node_folder(0)).mkdir()
    (run.path / node_folder(0) / "text").write_text(f"{who}{number}")
    run.begin()
    run.has(0)
"""


@covers("SUB-44")
def test_several_programs_at_once(tmp_path: Path) -> None:
    """Three submitters in one directory, 40 runs each: each has its own folder, and the links lead to the newest."""
    programs = [
        subprocess.Popen(
            [sys.executable, "-c", _MANY, str(tmp_path), who], env={"PYTHONPATH": str(ROOT)}, stdin=subprocess.PIPE, text=True
        )
        for who in "abc"
    ]
    for program in programs:
        assert program.stdin is not None
        program.stdin.write("\n")
        program.stdin.flush()
    for program in programs:
        program.communicate(timeout=60)
        assert program.returncode == 0
    found = runs_in(tmp_path)
    assert len(found) == 120 == len({run.job for run in found})
    assert all((run.path / "Node-0-Retrieve" / "text").read_text() == run.job for run in found)
    assert Counter(run.job[0] for run in found) == {"a": 40, "b": 40, "c": 40}
    assert sorted(int(run.path.name[2:]) for run in found) == list(range(1, 121))
    assert os.readlink(tmp_path / "runs" / "latest") == found[0].path.name
    assert (tmp_path / "Node-0-Retrieve" / "text").read_text() == found[0].job
    assert not [name for folder in (tmp_path, tmp_path / "runs") for name in os.listdir(folder) if name.startswith(".")]
