"""Each file of a run folder goes through one door: regular, below the folder, of a size and of types that it may have."""

from __future__ import annotations

import json
import os
import shutil
import socket
import time
import tracemalloc
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest

from nn.model import Model
from parallel_sgd.record import door as doors
from parallel_sgd.record.door import Door, RecordError
from parallel_sgd.record.history import JobHistory
from parallel_sgd.record.tables import read_hashes
from rpc.submit import Run
from tests.statements import covers

from .runs import folder_of, psgd, train

MOST_SECONDS, MOST_BYTES = 5.0, 64 << 20
SECRET = "-----BEGIN KEY-----\nthe secret of somebody else\n"
LOG = "Node-0-Retrieve/Fit-0 20261120.log"
Capture = pytest.CaptureFixture[str]


@pytest.fixture(scope="module")
def finished(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return folder_of(train(directory=tmp_path_factory.mktemp("finished"), checkpoint_every="epoch"))


@pytest.fixture
def run(finished: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.chdir(tmp_path)
    (tmp_path / "victim").write_text(SECRET)
    copy = Path(shutil.copytree(finished, tmp_path / "runs" / "P-SGD-1"))
    (copy / LOG).write_text("a line\n")
    return copy


def link(file: Path) -> None:
    file.symlink_to(file.parents[len(file.parents) - 1] / Path.cwd().relative_to("/") / "victim")


def dangling(file: Path) -> None:
    file.symlink_to("nowhere")


def to_device(file: Path) -> None:
    file.symlink_to("/dev/zero")


def giant(file: Path) -> None:
    with file.open("wb") as opened:
        opened.truncate(3 << 30)


def listening(file: Path) -> None:
    with socket.socket(socket.AF_UNIX) as opened:
        folder = os.open(file.parent, os.O_RDONLY)
        here = os.getcwd()
        try:
            os.fchdir(folder)  # a socket has a short name only
            opened.bind(file.name)
        finally:
            os.chdir(here)
            os.close(folder)


SPOILT: dict[str, Callable[[Path], None]] = {
    "a link": link,
    "a link to nothing": dangling,
    "a link to a device": to_device,
    "a pipe": os.mkfifo,
    "a giant": giant,
    "a socket": listening,
    "a folder": Path.mkdir,
}
TABLES = [f"Node-1-Retrieve/{kind}-P-SGD-N(1).csv" for kind in ("TR", "EV", "TI", "AC", "BA", "CO")]
HASHES, MODEL = "Node-1-Retrieve/WH-P-SGD-N(1).csv", "Node-0-Retrieve/MODEL-P-SGD-N(0).model"
READ: dict[str, tuple[str, ...]] = {
    "report": ("outcome.json", "job.json", LOG, *TABLES),
    "page": ("outcome.json", "job.json", "Node-0-Retrieve/BA-P-SGD-N(0).csv", LOG),
    "verify": ("manifest.json", "job.toml", "start.model", MODEL, HASHES),
    "run": ("job.toml", "start.model", "manifest.json", HASHES),
}


@pytest.fixture
def measured() -> Iterator[None]:
    """What is in the block takes no time and no memory, whatever a file claims."""
    tracemalloc.start()
    begun = time.monotonic()
    try:
        yield
        _, most = tracemalloc.get_traced_memory()
        assert time.monotonic() - begun < MOST_SECONDS and most < MOST_BYTES
    finally:
        tracemalloc.stop()


@covers("RUN-7")
@pytest.mark.parametrize("how", SPOILT)
@pytest.mark.parametrize(("command", "name"), [(command, name) for command, names in READ.items() for name in names])
@pytest.mark.share(12)
def test_what_is_no_file_of_a_run_is_one_sentence(
    command: str, name: str, how: str, run: Path, measured: None, capsys: Capture
) -> None:
    if (name == LOG and how == "a giant") or (name.endswith((".log", ".csv")) and how == "a folder"):
        return  # of a log its end is read, whatever its size; a folder is no table and no log
    file = run / name
    file.unlink()
    SPOILT[how](file)
    code, out, err = psgd(capsys, command, run, *(("-q",) if command == "run" else ()))
    assert (code, out, err.count("\n")) == (2, "", 1), err
    assert name in err and ("no regular file" in err or "must have at most" in err), err
    assert Path("victim").read_text() == SECRET and SECRET not in err
    assert [each.name for each in Path("runs").iterdir()] == ["P-SGD-1"]


@covers("RUN-7")
def test_the_folder_may_be_named_by_a_link_and_nothing_below_it(run: Path, measured: None, capsys: Capture) -> None:
    Path("runs/latest").symlink_to("P-SGD-1")
    Path("elsewhere").symlink_to("runs")
    for name in ("runs/latest", "elsewhere/latest"):
        assert psgd(capsys, "report", name)[0] == 0
    node = run / "Node-0-Retrieve"
    node.rename("moved")
    node.symlink_to(Path("moved").absolute())
    code, _, err = psgd(capsys, "report", run)
    assert code == 0 and "secret" not in (run / "report.html").read_text()
    assert "; 1 worker." in (run / "report.html").read_text()
    code, _, err = psgd(capsys, "verify", run)
    assert code == 2 and "Node-0-Retrieve/" in err and "Not a directory" in err


@covers("RUN-7")
@pytest.mark.parametrize("name", ["report.html", "timeline.json.gz"])
def test_nothing_is_written_through_a_link(name: str, run: Path, capsys: Capture) -> None:
    (run / name).unlink()
    link(run / name)
    assert psgd(capsys, "report", run)[0] == 0
    assert Path("victim").read_text() == SECRET
    if name == "report.html":
        assert (run / name).stat().st_size > 100 and not (run / name).is_symlink()
    else:  # a file that the manifest has is not made anew
        assert (run / name).is_symlink()


ELSEWHERE = ["../victim", "/dev/zero", "Node-0-Retrieve/../../../victim", "", "a//b", ".", "a\0b", "Node-0-Retrieve/"]


@covers("RUN-7")
@pytest.mark.parametrize("name", ELSEWHERE)
def test_a_manifest_names_plain_paths_below_the_run(name: str, run: Path, measured: None, capsys: Capture) -> None:
    content = json.loads((run / "manifest.json").read_text())
    content["files"][name] = "0" * 64
    (run / "manifest.json").write_text(json.dumps(content))
    code, out, err = psgd(capsys, "verify", run)
    assert (code, out, err.count("\n")) == (2, "", 1) and "manifest.json cannot be used: 'files' must have plain paths" in err


DEEP: Any = "x"
for _ in range(900):
    DEEP = [DEEP]
CAUSE = {
    **dict.fromkeys(("kind", "host", "phase", "detail", "reason"), ""),
    **dict.fromkeys(("node", "pid", "attempt", "epoch", "batch", "seconds", "exit_code", "signal", "rank"), 0),
}
WRONG: list[tuple[str, str, Any]] = [
    ("outcome.json", "figures", []),
    ("outcome.json", "figures", {"Loss": "x"}),
    ("outcome.json", "figures", {"Loss": 10**400}),
    ("outcome.json", "incidents", [1]),
    ("outcome.json", "incidents", [{"time": 1e300, "attempt": 0, "message": "", "verdicts": []}]),
    ("outcome.json", "incidents", [{"time": 1, "attempt": 0}]),
    ("outcome.json", "model", "x"),
    ("outcome.json", "settings", {"epoch": 1}),
    ("outcome.json", "failures", [[0]]),
    ("outcome.json", "ended", "yesterday"),
    ("outcome.json", "state", None),
    ("outcome.json", "causes", [{**CAUSE, "seconds": None}]),
    ("outcome.json", "problems", DEEP),
    ("job.json", "began", 1e300),
    ("job.json", "began", -1),
    ("job.json", "title", ["x"]),
    ("job.json", "about", 7),
    ("manifest.json", "files", []),
    ("manifest.json", "files", {"a": 7}),
    ("manifest.json", "chain", [[1e300, "x"]]),
    ("manifest.json", "chain", [[0, "x"]]),
    ("manifest.json", "start", "x"),
    ("manifest.json", "job", 7),
]


@pytest.mark.share(3)
@covers("RUN-7")
@pytest.mark.parametrize(("name", "key", "value"), WRONG, ids=lambda value: str(value)[:30])
def test_a_value_of_another_type_is_told_by_file_and_key(
    name: str, key: str, value: Any, run: Path, measured: None, capsys: Capture
) -> None:
    content = json.loads((run / name).read_text())
    (run / name).write_text(json.dumps({**content, key: value}))
    code, out, err = psgd(capsys, "verify" if name == "manifest.json" else "report", run)
    assert (code, out, err.count("\n")) == (2, "", 1) and name in err and f"'{key}" in err, err


LARGE = ["[" * 100_000, '{"a":' * 100_000, f"[{'[],' * 4_000_000}[]]", f'{{"x": {"9" * 5000}}}']


@pytest.mark.share(4)
@covers("RUN-7")
@pytest.mark.parametrize("text", LARGE, ids=["lists", "objects", "many", "digits"])
@pytest.mark.parametrize("name", ["outcome.json", "manifest.json", "job.json"])
def test_json_that_would_take_memory_or_the_stack(name: str, text: str, run: Path, capsys: Capture) -> None:
    """More than the text itself, that is."""
    (run / name).write_text(text)
    tracemalloc.start()
    try:
        code, _, err = psgd(capsys, "verify" if name == "manifest.json" else "report", run)
        _, most = tracemalloc.get_traced_memory()
    finally:
        tracemalloc.stop()
    assert most < 2 * len(text) + MOST_BYTES and err.count("\n") == 1 and name in err
    assert code == 2 or (code == 0 and "is cut off or damaged" in err)


COUNTS = [("TR", 1), ("TR", 2), ("EV", -1), ("AC", 6), ("BA", 1), ("WH", 0), ("WH", 2)]
FIGURES = [("TR", 0), ("TR", 5), ("EV", 0), ("BA", 4), ("CO", 3)]


@covers("RUN-8")
@pytest.mark.parametrize("value", ["inf", "nan", "x", "1e300", "-1", ""])
@pytest.mark.parametrize(("kind", "column"), [*COUNTS, *FIGURES])
@pytest.mark.share(3)
def test_a_row_that_makes_no_sense_is_lost_and_nothing_else(
    kind: str, column: int, value: str, run: Path, capsys: Capture, caplog: pytest.LogCaptureFixture
) -> None:
    """Of all that the table is read for, and the node is named."""
    path = run / "Node-1-Retrieve" / f"{kind}-P-SGD-N(1).csv"
    head, first, *rows = path.read_text().splitlines()
    fields = first.split(",")
    fields[column] = value
    named = f"Node(1): 1 row of {path.name} left out: in row 2 {head.split(',')[column]!r} must be"
    fine = value in ("-1", "1e300") and (kind, column) in FIGURES
    path.write_text("\n".join([head, ",".join(fields), *rows]) + "\n")
    if kind == "WH":
        found = read_hashes(run)
        assert sum(len(nodes) for rows in found.values() for nodes in rows.values()) == 15 and named in caplog.text
        return
    code, _, _ = psgd(capsys, "report", run)
    assert code == 0 and (named in caplog.text) == (not fine), caplog.text
    if kind in ("TR", "EV"):
        history = JobHistory.read({node: sorted((run / f"Node-{node}-Retrieve").glob("*.csv")) for node in (0, 1)})
        steps = [len(worker.steps) for worker in history.workers.values()]
        assert steps[0] == len(history.steps) and steps[1] == steps[0] - (kind == "TR" and not fine)


def test_what_goes_in_and_out_of_the_door(tmp_path: Path) -> None:
    (tmp_path / "a").mkdir()
    (tmp_path / "a" / "b").write_text("12345")
    door = Door(tmp_path)
    assert door.read("a/b", 5) == b"12345" == door.read(tmp_path / "a" / "b", 5) and door.tail("a/b", 2) == b"45"
    assert door.names("a") == ["b"] and door.names(folders=True) == ["a"] and door.names("none") == []
    with pytest.raises(FileNotFoundError):
        door.read("a/c", 5)
    for name, most in (("a/b", 4), ("a", 9), ("a/../a/b", 9), ("/etc/passwd", 9999), ("a/b/c", 9)):
        with pytest.raises(RecordError, match=r"cannot be read|must have at most"):
            door.read(name, most)
    (tmp_path / "wrong").write_bytes(b"\xff")
    with pytest.raises(RecordError, match="must be UTF-8"):
        door.text("wrong", 9)


def test_a_folder_of_too_many_names(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(doors, "MOST_NAMES", 5)
    for number in range(6):
        (tmp_path / str(number)).touch()
    with pytest.raises(RecordError, match="must hold at most 5 files"):
        Door(tmp_path).names()


@covers("RUN-7")
def test_a_record_that_is_a_link_is_no_run(run: Path) -> None:
    (run / "job.json").rename(run.parent / "moved")
    (run / "job.json").symlink_to(run.parent / "moved")
    assert Run.read(run) is None


@covers("RUN-7")
def test_a_giant_model_is_refused_by_its_header(run: Path, measured: None) -> None:
    with (run / "start.model").open("r+b") as file:
        file.truncate(2 << 30)
    with pytest.raises(ValueError, match="must fill the file"):
        Model.load(run / "start.model")
