"""Where the files go that an agent sends for a job: whatever it says, into the folder of a run."""

from __future__ import annotations

import contextlib
import hashlib
import os
from pathlib import Path

import pytest

from network.controller import Controller
from network.errors import NetworkError
from network.nodes import Address
from rpc.messages import FetchEnd, FileBegin, FileChunk, FileEnd
from rpc.reclaimer import Reclaimer
from rpc.run_folder import RunFolder
from tests.network.wires import talk


def fetch(directory: Path, told: FetchEnd, job: str | None = None) -> list[Path]:
    """What the reclaimer saves of an agent that sends one file and ends with `told`."""
    with talk("tcp") as end, contextlib.ExitStack() as at_end:
        com = Controller(-1, {0: end.client})
        at_end.callback(com.close, graceful=False)
        com.addresses = {0: Address("host", 1)}
        for operation in (FileBegin("log", 4), FileChunk(b"text"), FileEnd(hashlib.sha256(b"text").hexdigest()), told):
            end.server.queue(operation.to_value())
        end.server.send()
        return Reclaimer(com).require_client_log(job, directory)[0]


def test_the_run_of_the_job(tmp_path: Path) -> None:
    """SUB-44: into its folder, if it is here, else into a new one; nothing of another run is touched."""
    begun = RunFolder(tmp_path, "a", "Title")
    begun.begin()
    assert fetch(tmp_path, FetchEnd("a", "done", "", "other title")) == [begun.path / "Node-0-Retrieve" / "log"]
    assert fetch(tmp_path, FetchEnd("b", "done", "", "Title"), "b") == [tmp_path / "runs/Title-2/Node-0-Retrieve/log"]
    assert os.readlink(tmp_path / "Node-0-Retrieve") == "runs/Title-2/Node-0-Retrieve"
    assert fetch(tmp_path, FetchEnd("a", "done", "", "Title"), "a") == [begun.path / "Node-0-Retrieve" / "log"]
    assert os.readlink(tmp_path / "Node-0-Retrieve") == "runs/Title-2/Node-0-Retrieve"


@pytest.mark.parametrize("title", ["", "../up", "/etc", ".hidden", "a\nb", "x" * 300, "\x1b[2J"])
def test_a_title_that_leads_elsewhere(tmp_path: Path, title: str) -> None:
    """SUB-37, SEC-10: an agent cannot choose a place by the title of its job."""
    assert fetch(tmp_path, FetchEnd("a", "done", "", title)) == [tmp_path / "runs" / "job-1" / "Node-0-Retrieve" / "log"]
    assert sorted(os.listdir(tmp_path)) == ["Node-0-Retrieve", "runs"]


@pytest.mark.parametrize(("asked", "told"), [(None, "../x"), (None, ""), ("a", "b"), (None, "x" * 99)])
def test_a_job_that_was_not_asked_for(tmp_path: Path, asked: str | None, told: str) -> None:
    """SUB-37: nothing is saved."""
    with pytest.raises(NetworkError, match="None of the nodes has files of"):
        fetch(tmp_path, FetchEnd(told, "done", "", "T"), asked)
    assert [path for path in tmp_path.rglob("*") if path.is_file()] == []
