"""Files of several nodes on their way home."""

from __future__ import annotations

import contextlib
import logging
import subprocess
from collections.abc import Iterator
from pathlib import Path

import pytest

from network.errors import ProtocolError
from network.testing import VirtualClock
from rpc.files import PAUSE_SECONDS, ROOM_SECONDS
from rpc.liveness.limits import DOWNLOAD_SECONDS
from rpc.messages import FetchEnd, FileBegin, Operation
from rpc.submit.downloads import Downloads
from rpc.submit.run_folder import RunFolder

from ...statements import covers
from ..sent import file

logger = logging.getLogger("collection test")


def collection(folder: Path, asked: list[int] | None = None) -> tuple[Downloads, VirtualClock]:
    clock = VirtualClock()
    run = RunFolder(folder, "j", "T")
    ask = ([] if asked is None else asked).append
    return Downloads(folder, lambda _: run, ask, logger, clock), clock


def feed(made: Downloads, node: int, operations: list[Operation]) -> bool:
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


@covers("SUB-37")
def test_a_rule_breaker_harms_itself_only(tmp_path: Path) -> None:
    """The download of a node that names a file outside is dropped; the other node's goes on."""
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
    clock.advance(DOWNLOAD_SECONDS - 1)
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


@pytest.fixture
def full_disk(tmp_path: Path) -> Iterator[Path]:
    """A disk of 64 KiB."""
    disk = tmp_path / "disk"
    disk.mkdir()
    if subprocess.run(["mount", "-t", "tmpfs", "-o", "size=64k", "tmpfs", disk], capture_output=True, check=False).returncode:
        pytest.skip("needs the right to mount a disk")
    yield disk
    subprocess.run(["umount", disk], check=True)


def fill(disk: Path) -> Path:
    path = disk / "other"
    with contextlib.suppress(OSError), open(path, "wb", buffering=0) as file_:
        while file_.write(bytes(4096)):
            pass
    return path


@covers("FLT-26")
def test_a_disk_that_is_full_for_a_moment(full_disk: Path) -> None:
    """What has no room is requested again, and arrives when there is some."""
    asked: list[int] = []
    made, clock = collection(full_disk, asked)
    other = fill(full_disk)
    made.expect(0)
    sent = [*file("a.csv", bytes(20_000)), FetchEnd("j", "done", "")]
    assert not feed(made, 0, sent) and made.open == [0] and asked == [0]
    clock.advance(PAUSE_SECONDS)
    made.check()
    assert asked == [0, 0] and not feed(made, 0, sent)  # there is no room yet
    other.unlink()
    clock.advance(PAUSE_SECONDS)
    assert made.deadline == clock.monotonic()
    made.check()
    assert asked == [0, 0, 0] and feed(made, 0, sent)
    assert [path.stat().st_size for path in made.files[0]] == [20_000] and not made.missing


@covers("FLT-26")
def test_a_disk_that_stays_full(full_disk: Path) -> None:
    """After a while the files of the node are given up, and it is said why; nothing half-written is left."""
    made, clock = collection(full_disk)
    fill(full_disk)
    made.expect(0)
    sent = [*file("a.csv", bytes(20_000)), FetchEnd("j", "done", "")]
    while made.open:
        assert not feed(made, 0, sent) and clock.monotonic() < 2 * ROOM_SECONDS
        clock.advance(PAUSE_SECONDS)
        made.check()
    assert made.missing == {0: "its files cannot be saved: No space left on device"} and clock.monotonic() > ROOM_SECONDS
    assert not list(full_disk.rglob("*.partial"))
