"""What a node sends can only become files in its own folder, whole or not at all."""

from __future__ import annotations

import errno
import os
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from network.errors import ProtocolError
from rpc.files import is_safe_name
from rpc.messages import MAX_BYTES, MAX_FILES, FetchEnd, FileBegin, FileChunk, FileEnd, Operation, Took
from rpc.submit.downloads import Download

from ...statements import covers
from ..sent import file, sha
from ..travel import ROOT


def end(title: str = "T", job: str = "j", problem: str = "") -> FetchEnd:
    return FetchEnd(job, "done", problem, title)


def fetch(directory: Path, *operations: Operation, node: int = 0) -> Download:
    download = Download(directory, node)
    for operation in operations:
        download.take(operation)
    return download


def tree(root: Path) -> dict[str, Any]:
    """Everything below `root`: kinds, contents and modes."""
    return {
        str(path.relative_to(root)): (
            path.lstat().st_mode,
            os.readlink(path) if path.is_symlink() else path.read_bytes() if path.is_file() else None,
        )
        for path in sorted(root.rglob("*"))
    }


@pytest.fixture
def place(tmp_path: Path) -> Iterator[Path]:
    """A directory between precious files, which must stay as they are."""
    (tmp_path / "outside").write_text("precious")
    (tmp_path / "work").mkdir()
    (tmp_path / "work" / "Node-1-Retrieve").mkdir()
    (tmp_path / "work" / "Node-1-Retrieve" / "theirs").write_text("precious")
    yield tmp_path / "work"
    assert (tmp_path / "outside").read_text() == "precious"
    assert (tmp_path / "work" / "Node-1-Retrieve" / "theirs").read_text() == "precious"
    assert {p.name for p in tmp_path.iterdir()} == {"outside", "work"}
    assert not [p for p in (tmp_path / "work").iterdir() if p.name.startswith(".")], "a partial folder was left"


@covers("SUB-17")
def test_files_arrive(place: Path) -> None:
    """Names and contents, also of empty files, in any number of chunks."""
    data = os.urandom(10_000)
    download = fetch(place, *file("TR-a b(0).csv", data, 7), *file("empty", b""), end("P-SGD", "job-1", "one is missing"))
    folder = place / "Node-0-Retrieve"
    assert download.done
    assert (download.job, download.state, download.problem) == ("job-1", "done", "one is missing")
    assert download.files == [folder / "TR-a b(0).csv", folder / "empty"]
    assert [path.read_bytes() for path in download.files] == [data, b""]
    assert folder.stat().st_mode & 0o022 == 0
    assert fetch(place, *file("a"), end(), node=-2).files == [place / "Node--2-Retrieve" / "a"]
    assert fetch(place, end(problem="unknown job"), node=7).done and not (place / "Node-7-Retrieve").exists()


def test_files_of_the_same_run_come_again(place: Path) -> None:
    """A log that was fetched before is replaced by the longer one of later; what else lies in the folder stays."""
    folder = place / "Node-0-Retrieve"
    fetch(place, *file("log", b"1"), *file("model", b"good"), end())
    (folder / "notes.txt").write_text("mine")
    fetch(place, *file("log", b"12"), end())
    assert {p.name: p.read_bytes() for p in folder.iterdir()} == {"log": b"12", "model": b"good", "notes.txt": b"mine"}


def test_the_place_is_known_at_the_end_only(place: Path) -> None:
    """The agent tells with its last word whose files they were."""
    told: list[FetchEnd] = []

    def choose(said: FetchEnd) -> Path:
        told.append(said)
        (place / said.job).mkdir()
        return place / said.job

    download = Download(place / "runs", 0, choose)
    for operation in (*file("a"), end("T", "j7")):
        download.take(operation)
    assert download.files == [place / "j7" / "Node-0-Retrieve" / "a"] and told == [end("T", "j7")]
    assert list((place / "runs").iterdir()) == []


HOSTILE = [
    "", ".", "..", "../x", "../../outside", "a/../../x", "/etc/passwd", "/tmp/x", "a/b", "./a", "a/", "//",
    "a\\b", "..\\x", "C:x", "c:\\x", "a\0b", "a\nb", "a\rb", "a\x1b[2Jb", "\x7fa", "a\x85b", "a\u202eb", "a\u2215b", "\ud800",
    "a.", "a ", "a..b", "..a", ".hidden", "-rf", "~root", "$HOME", "a*b", "a?b", "a:b", "a|b", "a<b", 'a"b', "ä", "ａ",
    "con", "CON", "Con.txt", "con .txt", "aux.csv", "PRN", "nul.tar.gz", "com1", "LPT9.log", "COM0",
    "a" * 129, "a" * 5000,
]  # fmt: skip


@covers("SEC-10", "SUB-37")
@pytest.mark.parametrize("name", HOSTILE, ids=ascii)
def test_hostile_names(place: Path, name: str) -> None:
    """Refused, nothing is written anywhere, the earlier run stays as it was."""
    fetch(place, *file("EV.csv", b"earlier"), end())
    before = tree(place.parent)
    for operations in ([*file(name)], [*file("good"), *file(name)]):
        with pytest.raises(ProtocolError, match="wants to write a file named") as caught:
            fetch(place, *operations, end())
        assert str(caught.value).isprintable() or not name.isprintable()
        assert len(str(caught.value)) < 500
    assert tree(place.parent) == before


@covers("SEC-10")
def test_every_short_name_of_odd_characters(place: Path) -> None:
    """20,000 names; what passes is one visible component that means the same everywhere."""
    odd = [chr(c) for c in range(256)] + ["..", "con", "\u2028", "\ufeff", "\u0130"]
    passed = 0
    for first in odd:
        for second in odd[: 261 - len(first)][:80] + odd[-5:]:
            name = first + second
            if is_safe_name(name):
                passed += 1
                assert name.isascii()
                assert name.isprintable()
                assert Path(name).name == name == name.rstrip(". ")
                assert not set(name) & set('/\\:*?"<>|~$%')
    assert 0 < passed < 5000


@covers("SEC-10")
@pytest.mark.parametrize(
    ("operations", "message"),
    [
        ([FileBegin("a", 3), FileChunk(b"abcd")], "more of a file than it announced"),
        ([FileBegin("a", 3), FileChunk(b"ab"), FileChunk(b"cd")], "more of a file than it announced"),
        ([FileBegin("a", 3), FileChunk(b"ab"), FileEnd(sha(b"ab"))], "size or hash"),
        ([FileBegin("a", 3), FileChunk(b"abc"), FileEnd(sha(b"abd"))], "size or hash"),
        ([FileBegin("a", 3), FileChunk(b"abc"), FileEnd("")], "size or hash"),
        ([FileBegin("a", 3), FileBegin("b", 3)], "none can begin"),
        ([FileBegin("a", 3), FileChunk(b"abc"), end()], "within a file"),
        ([FileChunk(b"abc")], "more of a file"),
        # on some systems they are one file
        *(([*file("EV.csv"), *file(name), end()], "named") for name in ("EV.csv", "ev.CSV", "Ev.csv")),
        ([FileEnd(sha(b""))], "size or hash"),
        ([FileBegin("a", -1)], "bytes"),
        ([FileBegin("a", MAX_BYTES + 1)], "bytes"),
        ([*file("a"), FileBegin("b", MAX_BYTES)], "bytes"),
        ([FileBegin("a", 1 << 52)], "bytes"),
        ([op for i in range(MAX_FILES + 1) for op in file(f"f{i}")], "256 files"),
        ([Took()], "Took among its files"),
        ([end(), end()], "FetchEnd among its files"),
        ([*file("a"), end(), FileBegin("b", 1)], "none can begin"),
    ],
    ids=lambda x: x if isinstance(x, str) else "",
)
def test_broken_rules(place: Path, operations: list[Operation], message: str) -> None:
    """Wrong sizes, hashes, orders; a million files end at the 257th, more than 1 GiB at its announcement."""
    with pytest.raises(ProtocolError, match=message):
        fetch(place, *operations)
    assert not list(place.glob("Node-0-Retrieve/a")) or end() in operations


@covers("SEC-10")
@pytest.mark.parametrize("moment", ["before", "during"])
def test_a_link_in_place_of_the_folder(place: Path, moment: str) -> None:
    """Nothing is written through it."""
    elsewhere = place / "elsewhere"
    elsewhere.mkdir()
    download = Download(place, 0)
    if moment == "during":
        fetch(place, *file("old", b"1"), end())
    for operation in file("a", b"secret"):
        download.take(operation)
    if moment == "during":
        (place / "Node-0-Retrieve").rename(place / "moved")
    (place / "Node-0-Retrieve").symlink_to(elsewhere)
    with pytest.raises(OSError, match=r"Not a directory|symbolic links"):
        download.take(end())
    assert list(elsewhere.iterdir()) == []
    assert not download.done


@covers("SEC-10")
def test_a_swapped_partial_folder(place: Path) -> None:
    """Files go where the folder went that was made for them, not where its path leads."""
    elsewhere = place / "elsewhere"
    elsewhere.mkdir()
    download = fetch(place, *file("a", b"1"))
    (partial,) = (p for p in place.iterdir() if p.name.startswith(".Node-0"))
    partial.rename(place / "moved")
    partial.symlink_to(elsewhere)
    for operation in (*file("b", b"2"), end()):
        download.take(operation)
    assert list(elsewhere.iterdir()) == []
    assert [path.read_bytes() for path in download.files] == [b"1", b"2"]
    partial.unlink()


def test_links_inside_the_folder_are_replaced_not_followed(place: Path) -> None:
    folder = place / "Node-0-Retrieve"
    folder.mkdir()
    (folder / "a").symlink_to(place.parent / "outside")
    fetch(place, *file("a", b"new"), end())
    assert (folder / "a").read_bytes() == b"new"
    assert not (folder / "a").is_symlink()


@covers("FLT-13")
def test_what_the_disk_refuses_leaves_the_earlier_files(place: Path) -> None:
    """An error while the new files move in."""
    fetch(place, *file("a", b"1"), end())
    before = tree(place)
    download = fetch(place, *file("a", b"2"))
    os.close(download._partial_fd)
    download._partial_fd = os.open(place.parent, os.O_RDONLY | os.O_DIRECTORY)  # a folder where the new files are not
    with pytest.raises(FileNotFoundError):
        download.take(end())
    assert tree(place) == before


_FULL = """
import resource, sys
from pathlib import Path
from rpc.submit.downloads import Download
from rpc.messages import FileBegin, FileChunk
import signal
signal.signal(signal.SIGXFSZ, signal.SIG_IGN)
resource.setrlimit(resource.RLIMIT_FSIZE, (100_000, 100_000))
download = Download(Path(sys.argv[1]), 0)
download.take(FileBegin("a", 1 << 20))
try:
    download.take(FileChunk(bytes(1 << 20)))
except OSError as error:
    print(error.errno)
"""


@covers("FLT-13", "SEC-10")
def test_a_full_disk(place: Path) -> None:
    """The error says so, the partial folder is gone, an earlier run stays."""
    fetch(place, *file("a", b"1"), end())
    before = tree(place)
    done = subprocess.run(
        [sys.executable, "-c", _FULL, str(place)],
        env={"PYTHONPATH": str(ROOT)},
        capture_output=True,
        text=True,
        check=True,
        timeout=60,
    )
    assert int(done.stdout) == errno.EFBIG
    assert tree(place) == before


@covers("INV-7")
def test_no_descriptor_is_left(place: Path) -> None:
    """After 50 downloads, half of them refused, as many descriptors are open as before."""
    before = len(os.listdir("/dev/fd"))
    for _ in range(25):
        fetch(place, *file("a"), end())
        with pytest.raises(ProtocolError):
            fetch(place, *file("b"), FileBegin("..", 1))
        fetch(place, FileBegin("c", 5)).abandon()
    assert len(os.listdir("/dev/fd")) == before
