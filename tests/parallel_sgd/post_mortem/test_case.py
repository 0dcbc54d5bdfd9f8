"""What agents have sent is read without trust: what makes no sense is left out, and the rest still tells the story."""

from __future__ import annotations

import json
import tracemalloc
import zipfile
from dataclasses import asdict
from pathlib import Path
from typing import Any

import pytest

from network.errors import NetworkError
from network.nodes import Address, NodeAssignment
from parallel_sgd import collect_post_mortem
from parallel_sgd.post_mortem.case import Case, NodeCase, kept_states
from parallel_sgd.post_mortem.collect import write_archive
from rpc.agent.files import RECORD_COPY
from rpc.submit.diagnostics import Diagnostics, NodeDiagnostics
from rpc.verdict import Verdict

from ...statements import covers

LOST = "Traceback\n  line\nnetwork.errors.PeerLost: Node(1) at h:1 is lost: gone."
STUCK = Verdict(
    "job", 1, 0, "stuck", "h", 7, "step", 2, 3, 1.5, "The limit was 1 s.", -1, 0, "File x.py, line 3", ["last words"]
)
CRASHED = Verdict("job", 0, 0, "crashed", "h", 8, "step", 2, 3, 0.0, LOST.rpartition("\n")[2], -1, 0, LOST)


def event(at: float, verdict: Verdict) -> str:
    return json.dumps({"time": at, "attempt": 0, "event": "verdict", **asdict(verdict)})


def node(folder: Path, number: int, **files: Any) -> NodeDiagnostics:
    (folder / str(number)).mkdir(parents=True)
    paths = []
    for name, content in files.items():
        path = folder / str(number) / name.replace("_", ".")
        path.write_text(content if isinstance(content, str) else json.dumps(content))
        paths.append(path)
    return NodeDiagnostics(number, Address("h", 1 + number), paths)


@covers("FD-18")
def test_the_first_cause_comes_first(tmp_path: Path) -> None:
    """Whichever agent was asked first, and whatever else lies in their files."""
    record = {"state": "failed", "detail": LOST, "title": "T", "attempt": 0}
    gathered = Diagnostics(
        [
            node(tmp_path, 0, record_json=record, events_jsonl=event(1.0, CRASHED) + "\nhalf a li"),
            node(tmp_path, 1, record_json=record, events_jsonl=event(2.0, STUCK), kept_json={"no": "list"}),
        ],
        {"h:3": "node 2 at h:3 refused the connection"},
        ["h:4"],
    )
    case = Case.read("job", gathered)
    assert case.verdicts == [STUCK, CRASHED]
    assert [told.time for told in case.timeline] == [1.0, 2.0]
    write_archive(case, tmp_path / "a.zip", 1e9)
    with zipfile.ZipFile(tmp_path / "a.zip") as archive:
        summary = archive.read("summary.txt").decode()
        assert json.loads(archive.read("verdicts.json"))[0] == asdict(STUCK)
        assert archive.read("nodes/0-h-1/events.jsonl").decode().endswith("half a li")
    first, _, rest = summary.partition("What failed first\n")[2].partition("\n")
    assert first.strip().startswith("Attempt 1: Node(1) on h, process 7, attempt 1, in epoch 2, batch 3: stuck")
    assert rest.strip().startswith("then Node(0)")
    assert "agent at h:3: NOT REACHED: node 2 at h:3 refused the connection" in summary
    assert "agent at h:4: knows nothing of this job" in summary
    assert [path.name for path in tmp_path.iterdir() if path.suffix != ".zip" and not path.name.isdigit()] == []


@covers("SEC-17")
@pytest.mark.parametrize(
    "content",
    [
        *("", "[]", "null", "{", "[" * 5000, "\x00\x1b[2J"),
        *('{"time": "now"}', '{"time": 1.0, "event": "verdict", "node": 7}'),
        *(f'{{"time": {at}, "event": "accepted"}}' for at in ("NaN", "Infinity", "-1.0", "1e300")),
    ],
)
def test_what_makes_no_sense_is_left_out(tmp_path: Path, content: str) -> None:
    """And nothing of it can act on a terminal."""
    names = ("record_json", "events_jsonl", "kept_json", "configuration_json")
    case = Case.read("job", Diagnostics([node(tmp_path, 0, **dict.fromkeys(names, content))]))
    assert case.verdicts == []
    write_archive(case, tmp_path / "a.zip", 1e9)
    with zipfile.ZipFile(tmp_path / "a.zip") as archive:
        assert b"\x1b" not in archive.read("summary.txt") + archive.read("timeline.txt")


def test_kept_states() -> None:
    """The most advanced first; what is no checkpoint of ours is not valid, and what is no checkpoint is left out."""
    header = {"attempt": 1, "personal": True, "progress": {"evaluation": {"Loss": 0.25}}}
    about = {"format": "psgd.checkpoint/1", "snapshot": json.dumps({"header": header})}
    entry = {"folder": "checkpoints", "size": 9, "modified": 1.0, "whole": True, "why": "", "about": about}
    early, late, odd = (
        {**entry, "name": f"checkpoint-00000{epoch}-0000000{batch}.safetensors", **more}
        for epoch, batch, more in ((1, 0, {}), (2, 1, {"whole": False, "why": "cut"}), (3, 0, {"about": {"format": "x"}}))
    )
    found = kept_states([early, late, odd, {**entry, "name": "notes.txt"}, {"name": 3}, 7])
    assert [(str(state.position), state.valid) for state in found] == [
        ("3 epochs", False),
        ("2 epochs and 1 batch", False),
        ("1 epoch", True),
    ]
    assert (found[2].loss, found[2].personal, found[2].attempt) == (0.25, True, 1)
    assert found[2].describe().endswith("after 1 epoch, attempt 2, Loss 0.25, 9 bytes, of this worker alone: valid")
    assert "NOT VALID (cut)" in found[1].describe()


def test_nobody_to_ask(tmp_path: Path) -> None:
    address = "127.0.0.1:1"  # where nobody listens
    with pytest.raises(NetworkError, match=rf"No agent could be asked about job j-1: .*{address}"):
        collect_post_mortem(NodeAssignment().add(0, address), "j-1", tmp_path)
    with pytest.raises(ValueError, match=r"'job' must be the id of a job.*got '\.\./x'"):
        collect_post_mortem(NodeAssignment().add(0, address), "../x", tmp_path)
    assert list(tmp_path.iterdir()) == []


@covers("SEC-22")
def test_a_record_that_would_fill_the_memory_is_left_out(tmp_path: Path) -> None:
    """a hostile node may write 24 bytes for each byte that it sends into memory; the summary says what was not read."""
    bomb = '{"title": [' + "[]," * (1 << 21) + "[]]}"
    (tmp_path / RECORD_COPY).write_text(bomb)
    tracemalloc.start()
    read = NodeCase.read(NodeDiagnostics(0, Address("h", 1), [tmp_path / RECORD_COPY]))
    peak = tracemalloc.get_traced_memory()[1]
    tracemalloc.stop()
    assert read.record == {}
    assert peak < 3 * len(bomb)
    write_archive(Case("job", [read], {}, []), tmp_path / "a.zip", 1e9)
    with zipfile.ZipFile(tmp_path / "a.zip") as archive:
        assert (
            f"node 0 at h:1: {RECORD_COPY} was not read: it would take too much memory" in archive.read("summary.txt").decode()
        )
        assert json.loads(archive.read("nodes.json"))["nodes"][0]["not read"] == [RECORD_COPY]
