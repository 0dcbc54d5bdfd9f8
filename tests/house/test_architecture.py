"""The pictures and tables of docs/architecture.md name what there is."""

from __future__ import annotations

import ast
import re
from html import unescape
from pathlib import Path

import pytest

from rpc import messages
from tests.house import architecture, pictures
from tests.house.traced import Event
from tests.sources import ROOT, nodes

_PLACE = re.compile(r'data-file="([^"]+)" data-name="([^"]+)"')


def defined(path: Path) -> set[str]:
    """Return the names of the functions and classes of a file."""
    return {node.name for node in nodes(path) if isinstance(node, (ast.FunctionDef, ast.ClassDef))}


def lacking(picture: str) -> list[str]:
    """Return the files, functions and operations of a picture that there are not."""
    found = []
    for file, name in _PLACE.findall(unescape(picture)):
        made = {"__init__", "__new__", "__eq__"}  # by a dataclass
        if not (ROOT / file).exists() or not set(name.split(".")) <= defined(ROOT / file) | made:
            found.append(f"{file}: {name}")
    return found + [name for name in re.findall(r'data-operation="(\w+)"', picture) if not hasattr(messages, name)]


@pytest.mark.parametrize("name", pictures.PICTURES)
def test_a_picture_names_what_there_is(name: str) -> None:
    picture = (pictures.FOLDER / f"{name}.svg").read_text("utf-8")
    assert len(_PLACE.findall(picture)) > 10
    assert lacking(picture) == [], "`make pictures` draws it anew"


def test_what_is_gone_is_found() -> None:
    drawn = pictures.place("rpc/nowhere.py", "step", 0, 0) + pictures.place("rpc/machine.py", "Machine.fly", 0, 0)
    assert lacking(drawn + '<text data-operation="Ascend">') == [
        "rpc/nowhere.py: step",
        "rpc/machine.py: Machine.fly",
        "Ascend",
    ]
    assert lacking(pictures.place("rpc/machine.py", "Machine.handle", 0, 0)) == []


def test_the_page_shows_every_picture() -> None:
    shown = re.findall(r"\]\(pictures/(\w+)\.svg\)", architecture.PAGE.read_text("utf-8"))
    assert sorted(shown) == sorted(pictures.PICTURES) == sorted(path.stem for path in pictures.FOLDER.glob("*.svg"))


def test_the_tables_are_those_of_the_code() -> None:
    page = architecture.PAGE.read_text("utf-8")
    assert architecture.written(page) == page, "`python -m tests.house.architecture` writes them anew"


def test_messages_are_drawn_once_and_files_where_they_are_first_entered() -> None:
    driver = [
        Event(1.0, "parallel_sgd/job.py", "parallel"),
        Event(2.0, "rpc/submit/connections.py", "tell", sent="CanCommit"),
        Event(3.0, "rpc/submit/event_loop.py", "read", received="Accepted"),
        Event(4.0, "parallel_sgd/job.py", "wait"),
        Event(5.0, "parallel_sgd/engine/plan.py", "<lambda>"),
        Event(6.0, "rpc/submit/restarts.py", "Restarts.wanted"),
        Event(7.0, "rpc/submit/connections.py", "tell", sent="CanCommit"),
    ]
    agent = [Event(2.5, "rpc/agent/subscribers.py", "deliver", sent="Accepted")]
    rows = pictures.sent({"driver": driver, "agent": agent})
    assert rows == [
        pictures.Message(2.0, "CanCommit", "driver", "agent", ("rpc/submit/connections.py", "tell")),
        pictures.Message(2.5, "Accepted", "agent", "driver", ("rpc/agent/subscribers.py", "deliver")),
    ]
    found = list(pictures.stays("driver", driver, [row.time for row in rows], set()))
    assert [stay.places for stay in found] == [
        [("parallel_sgd/job.py", "parallel")],
        [("rpc/submit/restarts.py", "Restarts.wanted")],
    ]
