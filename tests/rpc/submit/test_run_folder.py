"""The folders of runs: one for each, whoever starts how many at once, links to the newest; and how a job is followed there."""

from __future__ import annotations

import contextlib
import json
import logging
import os
import shutil
import subprocess
import sys
from pathlib import Path

import pytest

from network.controller import Controller
from network.errors import NetworkError
from network.nodes import Address
from rpc.messages import FetchEnd, Notice, Progress, Standing, State
from rpc.submit import run_folder
from rpc.submit.attach import JobStatus, Reclaimer
from rpc.submit.run_folder import Run, RunFolder, delete_run, find_run, node_folder, runs_in
from tests.network.wires import talk

from ...statements import covers
from ..sent import file
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


def shown(directory: Path, node: int = 0) -> str:
    """The job whose files the link of the node leads to."""
    return (directory / node_folder(node) / "text").read_text()


def latest(directory: Path) -> str:
    return os.readlink(directory / "runs" / "latest")


@covers("SUB-44")
def test_no_run_replaces_another(tmp_path: Path, caplog: pytest.LogCaptureFixture, monkeypatch: pytest.MonkeyPatch) -> None:
    """Two of one title and one of another have folders of their own; the links lead to the newest, that which began last,
    whatever the clock says, and none to an older one. What comes later for an older run goes there, by the job's id. Whoever
    deletes a run has its links lead to the newest that is left when something comes for it."""
    caplog.set_level("INFO")
    first, second, third = run(tmp_path, "a", nodes=2), run(tmp_path, "b", nodes=2), run(tmp_path, "c", "U-1")
    assert [made.path.relative_to(tmp_path / "runs").name for made in (first, second, third)] == ["T-1", "T-2", "U-1-1"]
    assert [(made.path / "Node-0-Retrieve" / "text").read_text() for made in (first, second, third)] == ["a", "b", "c"]
    assert latest(tmp_path) == "U-1-1" and os.readlink(tmp_path / "Node-0-Retrieve") == "runs/U-1-1/Node-0-Retrieve"
    assert not os.path.lexists(tmp_path / "Node-1-Retrieve") and [found.job for found in runs_in(tmp_path)] == ["c", "b", "a"]
    assert f"The files of this run are in {third.path}." in caplog.text
    assert run(tmp_path, "a", "whatever").path == first.path
    assert (shown(tmp_path), latest(tmp_path), len(runs_in(tmp_path))) == ("c", "U-1-1", 3)
    monkeypatch.setattr(run_folder.time, "time_ns", lambda: 5)
    newest = run(tmp_path, "d")
    assert newest.path.name == "T-3" == latest(tmp_path) and runs_in(tmp_path)[0].job == "d"
    shutil.rmtree(newest.path)
    assert not (tmp_path / "Node-0-Retrieve").exists()
    third.has(0)
    assert shown(tmp_path) == "c"


@covers("SUB-44")
def test_links_lead_into_one_run(tmp_path: Path, caplog: pytest.LogCaptureFixture) -> None:
    """Those of nodes that the newest run does not have go, and come back when it is deleted; a run without files of nodes takes
    none, and what is no link of ours stays without a word."""
    first = run(tmp_path, "a", nodes=4)
    (tmp_path / "Node-2-Retrieve").unlink()
    (tmp_path / "Node-2-Retrieve").mkdir()
    (tmp_path / "Node-3-Retrieve").unlink()
    (tmp_path / "Node-3-Retrieve").symlink_to(tmp_path)
    RunFolder(tmp_path, "b", "T").begin()
    assert (shown(tmp_path, 0), shown(tmp_path, 1)) == ("a", "a")
    newest = run(tmp_path, "c", nodes=1)
    first.has(1)
    assert shown(tmp_path) == "c" and not os.path.lexists(tmp_path / "Node-1-Retrieve")
    assert (tmp_path / "Node-2-Retrieve").is_dir() and os.readlink(tmp_path / "Node-3-Retrieve") == str(tmp_path)
    assert caplog.messages == []
    delete_run(runs_in(tmp_path)[0])
    assert not newest.path.exists() and (shown(tmp_path, 0), shown(tmp_path, 1)) == ("a", "a")
    delete_run(runs_in(tmp_path)[1])
    assert sorted(name for name in os.listdir(tmp_path) if name.startswith("Node")) == ["Node-2-Retrieve", "Node-3-Retrieve"]


def test_a_run_that_never_began_leaves_nothing(tmp_path: Path) -> None:
    begun = run(tmp_path, "a")
    refused = RunFolder(tmp_path, "b", "T")
    (refused.path / "something").mkdir()
    assert find_run(tmp_path, "b") is None
    for made in (refused, begun):
        made.close()
    assert sorted(os.listdir(tmp_path / "runs")) == [".T-1", "T-1", "latest"]


@covers("SUB-44")
@pytest.mark.parametrize("what", ["folder", "file", "link"])
def test_what_is_no_link_of_ours_stays(tmp_path: Path, what: str, caplog: pytest.LogCaptureFixture) -> None:
    """Results of an earlier version, a user's own file or link, with a warning that says where the files are."""
    mine, elsewhere = tmp_path / "Node-0-Retrieve", tmp_path / "elsewhere"
    elsewhere.mkdir()
    {"folder": mine.mkdir, "file": mine.touch, "link": lambda: mine.symlink_to(elsewhere)}[what]()
    before = mine.lstat()
    made = run(tmp_path, "a")
    made.has(0)
    assert mine.lstat() == before and list(elsewhere.iterdir()) == []
    (line,) = [record.message for record in caplog.records if record.levelname == "WARNING"]
    assert line.startswith(f"{mine} does not lead to {made.path}/Node-0-Retrieve: ") and line.endswith(
        ", which stays as it is."
    )


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
    for work in ("x", "too late"):
        made.about["work"] = [work]
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


_STANDS = """
import os, sys
from pathlib import Path
from rpc.support import files
def stand(draft, path):
    print("ready", flush=True)
    sys.stdin.readline()
    replace(draft, path)
replace, os.replace = os.replace, stand
files.publish(Path(sys.argv[1]), "text")
"""


def test_drafts_of_killed_programs_go(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """With the next run that begins; those of programs that are there, and files of others, stay."""
    first = run(tmp_path, "a").path
    command = [sys.executable, "-c", _STANDS]
    made = [
        subprocess.Popen([*command, str(first / name)], env={"PYTHONPATH": str(ROOT)}, stdin=-1, stdout=-1, text=True)
        for name in ("killed", "lives")
    ]
    try:
        for program in made:
            assert program.stdout is not None and program.stdout.readline() == "ready\n"
        made[0].kill()
        made[0].wait()
        (first / ".of.mine").touch()
        assert len([name for name in os.listdir(first) if name.startswith(".killed.")]) == 1
        monkeypatch.setattr(run_folder, "_looked", set(), raising=False)
        run(tmp_path, "b")
        left = sorted(name for name in os.listdir(first) if name.startswith("."))
        assert [name.rpartition(".")[0] for name in left] == [".lives", ".of"]
        made[1].communicate("\n", timeout=60)
        assert made[1].returncode == 0 and (first / "lives").read_text() == "text"
    finally:
        for program in made:
            program.kill()
            program.communicate()


@pytest.mark.long
@covers("SUB-44")
def test_several_programs_at_once(tmp_path: Path) -> None:
    """Three submitters in one directory, 40 runs each: each has its own folder, and the links lead to the newest."""
    environ = {"PYTHONPATH": str(ROOT)}
    commands = [[sys.executable, "-c", _MANY, str(tmp_path), who] for who in "abc"]
    programs = [subprocess.Popen(command, env=environ, stdin=subprocess.PIPE, text=True) for command in commands]
    for program in programs:
        assert program.stdin is not None
        program.stdin.write("\n")
        program.stdin.flush()
    for program in programs:
        program.communicate(timeout=60)
        assert program.returncode == 0
    found = runs_in(tmp_path)
    assert sorted(run.job for run in found) == sorted(f"{who}{number}" for who in "abc" for number in range(40))
    assert all((run.path / "Node-0-Retrieve" / "text").read_text() == run.job for run in found)
    assert sorted(int(run.path.name[2:]) for run in found) == list(range(1, 121))
    assert latest(tmp_path) == found[0].path.name and shown(tmp_path) == found[0].job
    names = [name for folder in (tmp_path, tmp_path / "runs") for name in os.listdir(folder) if name.startswith(".")]
    assert names == [".T-120"]


def fetch(directory: Path, told: FetchEnd, job: str | None = None) -> Path:
    """What the reclaimer saves of an agent that sends one file and ends with `told`."""
    with talk("tcp") as end, contextlib.ExitStack() as at_end:
        com = Controller(-1, {0: end.client})
        at_end.callback(com.close, graceful=False)
        com.addresses = {0: Address("host", 1)}
        for operation in (*file("log", b"text"), told):
            end.server.queue(operation.to_value())
        end.server.send()
        (path,) = Reclaimer(com).require_client_log(job, directory)[0]
        return path.relative_to(directory)


@covers("SUB-44")
def test_files_that_are_fetched_later(tmp_path: Path) -> None:
    """Into the folder of the run of the job, if it is here, else into a new one; nothing of another run is touched."""
    begun = RunFolder(tmp_path, "a", "Title")
    begun.begin()
    theirs, other = Path("runs/Title-1/Node-0-Retrieve"), Path("runs/Title-2/Node-0-Retrieve")
    assert fetch(tmp_path, FetchEnd("a", "done", "", "other title")) == theirs / "log"
    assert fetch(tmp_path, FetchEnd("b", "done", "", "Title"), "b") == other / "log"
    assert os.readlink(tmp_path / "Node-0-Retrieve") == str(other)
    assert fetch(tmp_path, FetchEnd("a", "done", "", "Title"), "a") == theirs / "log"
    assert os.readlink(tmp_path / "Node-0-Retrieve") == str(other)


@covers("SUB-37", "SEC-10")
def test_an_agent_chooses_no_place(tmp_path: Path) -> None:
    """Not by the title of its job; and nothing is saved of a job that was not asked for."""
    for number, title in enumerate(["", "../up", "/etc", ".hidden", "a\nb", "x" * 300, "\x1b[2J"], 1):
        found = fetch(tmp_path, FetchEnd(f"a{number}", "done", "", title))
        assert found == Path(f"runs/job-{number}/Node-0-Retrieve/log")
        assert sorted(os.listdir(tmp_path)) == ["Node-0-Retrieve", "runs"]
    before = sorted(tmp_path.rglob("*"))
    for asked, told in ((None, "../x"), (None, ""), ("a", "b"), (None, "x" * 99)):
        with pytest.raises(NetworkError, match=r"No files of .* have come\. Node\(0\): It sends files of job"):
            fetch(tmp_path, FetchEnd(told, "done", "", "T"), asked)
    assert [path for path in tmp_path.rglob("*") if path.is_file() and path not in before] == []


JOB = "job"
logger = logging.getLogger("following test")


def standing(node: int, attempt: int = 0, driver: str = "The submitter", outcome: str = "", term: int = 0) -> Standing:
    return Standing(JOB, node, attempt, term, driver, outcome, "Enough." if outcome else "")


STORIES = {
    # as with plain executors, of which agents tell no more than the state of each process
    "nobody drives it": (2, "0.running 1.running 0.done ? 1.failed", "failed", []),
    "a node that was left behind": (2, "1@0/0:S=left 1.failed 0@1/0:S 0.running ? 0.done 0@1/0:=done", "done", [1]),
    "lost agents": (2, "0@0/0:S 0.running ? 0- 1@0/0:S 1.running ? 1-", "failed", []),
    "stopped, and its process is still there": (1, "0@0/0:=stopped ? 0.stopped", "stopped", []),
    # node 0 was left with an attempt of its own driver; the others have gone on, which is what counts
    "another driver": (
        3,
        "0@3/0:=failed 0.done 1@1/1:N 1.stopped 2@1/1:N 2.stopped ? 1.done 1@1/1:=done 2.done 2@1/1:=done",
        "done",
        [0],
    ),
}


@covers("SUB-15", "INV-14")
@pytest.mark.parametrize("name", STORIES)
def test_how_a_job_that_is_followed_ends(name: str) -> None:
    """`0.done`: the process of node 0 has; `0@1/2:S=left`: its agent says that S drives attempt 1 of term 2, or how that ended;
    `0-`: the agent is lost; `?`: it is not over yet."""
    nodes, script, outcome, outdated = STORIES[name]
    following = JobStatus(range(nodes), logger)
    for word in script.split():
        node, what, rest = int(word[0]) if word != "?" else 0, word[1:2], word[2:]
        if what == ".":
            following.take(node, State(JOB, node, rest, ""))
        elif what == "-":
            following.lose(node, "the connection was closed")
        elif what == "@":
            age, _, said = rest.partition(":")
            driver, _, end = said.partition("=")
            following.take(node, standing(node, int(age[0]), driver, end, int(age[2])))
        else:
            assert not following.is_over
    assert following.is_over and following.outcome == outcome and following.outdated == outdated
    assert following.detail == ("Enough." if "=" in script.split()[-1] or outcome == "stopped" else "")
    if name == "nobody drives it":
        assert following.states == {0: ("done", ""), 1: ("failed", "")}


@covers("SUB-15")
def test_a_driven_job_ends_when_its_driver_says_so(caplog: pytest.LogCaptureFixture) -> None:
    """Through a restart and another driver; what was said before the attempt does not count for the next one."""
    caplog.set_level(logging.INFO)
    following = JobStatus([0, 1], logger)

    def begun(attempt: int, driver: str) -> None:
        for node in (0, 1):
            following.take(node, standing(node, attempt, driver))
            following.take(node, State(JOB, node, "running", ""))

    begun(0, "The submitter")
    following.take(0, Progress(JOB, 0, 50))
    following.take(1, State(JOB, 1, "failed", "killed"))
    following.take(0, State(JOB, 0, "stopped", "together"))
    assert not following.is_over
    following.take(0, Notice(JOB, 0, 0, "warned", "step", 1, 2, 5.0))
    begun(1, "Node(0)")
    for percent in (60, 70):
        following.take(0, Progress(JOB, 0, percent))
    for node in (0, 1):
        following.take(node, State(JOB, node, "done", ""))
    assert not following.is_over
    following.take(1, standing(1, 1, "", "done"))
    assert following.is_over and following.outcome == "done"
    following.close()
    assert caplog.messages == [
        "The submitter drives the job.",
        "Node(0), in epoch 1, batch 2: silent for 5.0 s, half of what it may be.",
        "The job has been started again: attempt 2.",
        "Node(0) drives the job from now on.",
        "Current progress: Worker(0): 70% | Running",
    ]
