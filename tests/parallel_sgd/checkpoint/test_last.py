"""`resume="last"`: the newest run in the directory, what it stands for, and what is said where it stands for nothing."""

from __future__ import annotations

import shutil
from pathlib import Path
from typing import Any

import pytest

from parallel_sgd.checkpoint import CheckpointError
from parallel_sgd.checkpoint.resume import NODES, ON_AGENTS, RESUMES, ResumePoint, checked_resume
from rpc.submit.run_folder import RunFolder, node_folder

from ...statements import covers
from .jobs import bits, network, run


def origin(directory: Path, resume: str | Path = "last") -> ResumePoint:
    found = checked_resume(resume, network(), [0, 1], None, directory)
    assert found is not None
    return found


def on_agents(directory: Path, job: str, **about: Any) -> RunFolder:
    """The record of a run whose checkpoints are elsewhere."""
    made = RunFolder(directory, job, "T", {NODES: ON_AGENTS, **about})
    made.begin()
    return made


@covers("SUB-44")
def test_the_newest_run_goes_on(tmp_path: Path) -> None:
    """With the bits of an uninterrupted one; no run replaces another."""
    first = run(tmp_path, epoch=1, checkpoint_every="epoch")
    before = {path: path.read_bytes() for path in (tmp_path / "runs" / "P-SGD-1").rglob("*") if path.is_file()}
    second = run(tmp_path, epoch=2, checkpoint_every="epoch", resume="last")
    third = run(tmp_path, epoch=3, resume=tmp_path / "runs" / "latest")
    assert bits(third) == bits(run(tmp_path / "calm"))
    folders = [result.files[0][0].parents[1].name for result in (first, second, third)]
    assert folders == ["P-SGD-1", "P-SGD-2", "P-SGD-3"]
    assert before == {path: path.read_bytes() for path in before}
    assert bits(run(tmp_path, resume=first.job_id)) == bits(third)  # an older one by its id


@covers("SUB-44")
def test_who_ended_before_its_first_checkpoint(tmp_path: Path, caplog: pytest.LogCaptureFixture) -> None:
    """It stands for what it went on from itself, and the log says so."""
    first = run(tmp_path, epoch=1, checkpoint_every="epoch")
    for _ in range(2):
        run(tmp_path, epoch=2, resume="last", checkpoint_every=None)
    found = origin(tmp_path)
    assert found.name == first.job_id and found.local is not None and found.local.choice.position == (1, 0)
    assert "P-SGD-3 has left no checkpoint, so what it went on from is taken" in caplog.text


def test_a_run_without_a_checkpoint_says_what_works(tmp_path: Path) -> None:
    """Its own message, not one that leads back to where one came from."""
    run(tmp_path, epoch=1)
    with pytest.raises(CheckpointError, match=r"run .*/runs/P-SGD-1, which has left no checkpoint: .*\. No run here has any$"):
        run(tmp_path, resume="last")
    run(tmp_path, epoch=1, checkpoint_every="epoch")
    without = run(tmp_path, epoch=1)
    for resume in ("last", without.job_id, tmp_path / "runs" / "latest", tmp_path / "Node-0-Retrieve", tmp_path):
        with pytest.raises(CheckpointError, match=r"The newest run here that has one is .*/runs/P-SGD-2$"):
            origin(tmp_path, resume)


@covers("SUB-44")
def test_runs_on_agents(tmp_path: Path) -> None:
    """They stand for their jobs, and for what these went on from, in case their agents have no checkpoint of them."""
    first = run(tmp_path, epoch=1, checkpoint_every="epoch")
    on_agents(tmp_path, "second", **{RESUMES: first.job_id})
    third = on_agents(tmp_path, "third", **{RESUMES: "second"})
    found = origin(tmp_path)
    assert found.name == "third" and found.jobs == ("third", "second")
    assert found.local is not None and found.local.choice.position == (1, 0)
    (third.path / node_folder(0)).mkdir()
    for resume in (third.path, third.path / node_folder(0), "third"):
        assert origin(tmp_path, resume).jobs == ("third", "second")
    on_agents(tmp_path, "fourth", **{RESUMES: "not-here"})
    assert origin(tmp_path).jobs == ("fourth", "not-here")
    on_agents(tmp_path, "fifth", **{RESUMES: "/gone/away"})
    assert origin(tmp_path).jobs == ("fifth",)
    with pytest.raises(CheckpointError, match="'resume' names job fifth, of which there is no checkpoint here"):
        run(tmp_path, resume="last")
    assert not (tmp_path / "runs" / "P-SGD-2").exists()
    RunFolder(tmp_path, "fetched", "T").begin()  # by somebody who did not submit it
    assert origin(tmp_path).jobs == ("fetched",)


def test_records_that_lead_round_in_a_circle(tmp_path: Path) -> None:
    on_agents(tmp_path, "a", **{RESUMES: "b"})
    on_agents(tmp_path, "b", **{RESUMES: "a"})
    assert origin(tmp_path).jobs == ("b", "a")


def test_a_run_that_was_moved(tmp_path: Path) -> None:
    """A directory with its runs goes where it likes."""
    run(tmp_path / "one", epoch=1, checkpoint_every="epoch")
    shutil.move(tmp_path / "one", tmp_path / "two")
    assert origin(tmp_path / "two").local is not None
    assert origin(tmp_path, tmp_path / "two" / "runs").local is not None


@pytest.mark.parametrize("place", ["file", "file/below"])
def test_a_directory_that_is_none(tmp_path: Path, place: str) -> None:
    """Before anything is sent."""
    (tmp_path / "file").touch()
    with pytest.raises(ValueError, match=r"'directory' must be a folder that can be written to, got '.*/file.*': "):
        run(tmp_path / place, epoch=1)
