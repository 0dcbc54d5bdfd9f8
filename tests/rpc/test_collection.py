"""Files of several nodes on their way home."""

from __future__ import annotations

import hashlib
import logging
from pathlib import Path

import pytest

from network.errors import ProtocolError
from network.testing import VirtualClock
from rpc.collection import STALL_SECONDS, Collection
from rpc.messages import FetchEnd, FileBegin, FileChunk, FileEnd, Operation
from rpc.run_folder import RunFolder

logger = logging.getLogger("collection test")


def file(name: str, content: bytes) -> list[Operation]:
    return [FileBegin(name, len(content)), FileChunk(content), FileEnd(hashlib.sha256(content).hexdigest())]


def collection(folder: Path) -> tuple[Collection, VirtualClock]:
    clock = VirtualClock()
    run = RunFolder(folder, "j", "T")
    return Collection(folder, lambda _: run, logger, clock), clock


def feed(made: Collection, node: int, operations: list[Operation]) -> bool:
    return [made.take(node, operation) for operation in operations][-1]


def test_two_nodes_at_once(tmp_path: Path) -> None:
    made, _ = collection(tmp_path / "new" / "folder")
    made.expect(0)
    made.expect(1)
    first, second = file("a.csv", b"zero"), file("a.csv", b"one")
    for pair in zip(first, second, strict=True):
        assert not made.take(0, pair[0]) and not made.take(1, pair[1])
    assert feed(made, 0, [FetchEnd("j", "done", "")]) and made.open == [1]
    assert feed(made, 1, [FetchEnd("j", "done", "")]) and not made.open and made.deadline is None
    assert {node: [path.read_bytes() for path in paths] for node, paths in made.files.items()} == {0: [b"zero"], 1: [b"one"]}
    assert not made.missing


def test_a_rule_breaker_harms_itself_only(tmp_path: Path) -> None:
    """SUB-37: the download of a node that names a file outside is dropped; the other node's goes on."""
    made, _ = collection(tmp_path)
    made.expect(0)
    made.expect(1)
    with pytest.raises(ProtocolError, match="not allowed"):
        made.take(0, FileBegin("../x", 1))
    assert list(made.missing) == [0] and made.open == [1]
    assert feed(made, 1, [*file("a.csv", b"one"), FetchEnd("j", "done", "")])
    assert not made.take(0, FetchEnd("j", "done", ""))  # what it still says is ignored
    assert sorted(path.name for path in tmp_path.iterdir()) == ["Node-1-Retrieve", "runs"]
    assert sorted(path.name for path in (tmp_path / "runs").iterdir()) == ["T-1", "latest"]


def test_silence_is_bounded(tmp_path: Path) -> None:
    """A node that sends nothing for a minute is given up; one that sends is not."""
    made, clock = collection(tmp_path)
    made.expect(0)
    made.expect(1)
    clock.advance(STALL_SECONDS - 1)
    made.take(1, FileBegin("a.csv", 4))
    clock.advance(2)
    made.check()
    assert made.open == [1] and "nothing for 60 s" in made.missing[0]
    made.close()
    assert not made.open and list(tmp_path.rglob("*")) == [tmp_path / "runs"]


def test_unwritable(tmp_path: Path) -> None:
    """A folder that vanishes under the download is that node's problem, and named."""
    made, _ = collection(tmp_path / "gone")
    made.expect(0)
    (tmp_path / "gone").rmdir()
    assert not made.take(0, FileBegin("a.csv", 4))
    assert "cannot be saved" in made.missing[0]
