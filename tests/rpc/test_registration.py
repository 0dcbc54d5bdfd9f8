"""The folder in which agents register: what is written, and what is read."""

from __future__ import annotations

import json
import os
from dataclasses import replace
from pathlib import Path

import pytest

from rpc.registration import Registration, RegistrationError, registered, registrations

ONE = Registration("slurm", "7.0", 0, 2, "10.0.0.1:4000", 1, "a", 100.0)
TWO = replace(ONE, rank=1, address="10.0.0.2:4000", host="b")


def test_a_file_comes_whole_and_goes(tmp_path: Path) -> None:
    folder = tmp_path / "new" / "folder"
    assert registrations(folder) == []
    with registered(folder, TWO), registered(folder, ONE):
        assert registrations(folder) == [ONE, TWO]
        assert sorted(path.name for path in folder.iterdir()) == ["slurm-7.0-0.agent.json", "slurm-7.0-1.agent.json"]
    assert list(folder.iterdir()) == []
    assert folder.stat().st_mode & 0o777 == 0o700


def test_who_is_started_anew_keeps_the_file_of_its_rank(tmp_path: Path) -> None:
    again = replace(ONE, started=200.0, address="10.0.0.1:5000")
    with registered(tmp_path, again):
        with registered(tmp_path, ONE):
            with registered(tmp_path, again):
                pass
            assert registrations(tmp_path) == []
        (tmp_path / "slurm-7.0-0.agent.json").write_text("{}")


def test_of_one_address_only_the_newest_counts(tmp_path: Path) -> None:
    """The port of a killed agent may be another one's by now."""
    with registered(tmp_path, replace(ONE, run="6.0", rank=1)), registered(tmp_path, replace(ONE, started=200.0)):
        assert registrations(tmp_path) == [replace(ONE, started=200.0)]


@pytest.mark.parametrize(
    "text",
    [
        "",
        "{",
        "[]",
        "{}",
        json.dumps({"system": "slurm"}),
        json.dumps({**vars(ONE), "rank": 2}),
        json.dumps({**vars(ONE), "rank": True}),
        json.dumps({**vars(ONE), "slots": 0}),
        json.dumps({**vars(ONE), "started": "now"}),
        json.dumps({**vars(ONE), "address": "a b"}),
        json.dumps({**vars(ONE), "run": "../.."}),
        json.dumps({**vars(ONE), "more": 1}),
        "[" * 4000,
        " " * 5000,
        "\ud800".encode("utf-8", "surrogatepass").decode("latin-1"),
    ],
    ids=range(15),
)
def test_what_is_no_registration_is_left_out(tmp_path: Path, text: str) -> None:
    (tmp_path / "x.agent.json").write_text(text)
    (tmp_path / ".draft.agent.json.1").write_text(json.dumps(vars(ONE)))
    (tmp_path / "notes.txt").write_text("hello")
    (tmp_path / "folder.agent.json").mkdir()
    os.mkfifo(tmp_path / "pipe.agent.json")
    assert registrations(tmp_path) == []


def test_a_folder_that_cannot_be_written(tmp_path: Path) -> None:
    path = tmp_path / "file"
    path.touch()
    with pytest.raises(RegistrationError, match=r"The agent cannot be registered in .*/file: "), registered(path, ONE):
        pass
