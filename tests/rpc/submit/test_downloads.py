"""What nodes send can only become files in their own folders, whole or not at all, whatever they, links and the disk do."""

from __future__ import annotations

import errno
import logging
import os
import subprocess
import sys
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest

from network.errors import ProtocolError
from network.testing import VirtualClock
from rpc.liveness.limits import DOWNLOAD_SECONDS
from rpc.messages import MAX_BYTES, MAX_FILES, FetchEnd, FileBegin, FileChunk, FileEnd, Operation, Took
from rpc.submit.downloads import Download, Downloads
from rpc.submit.run_folder import RunFolder
from rpc.support.files import PAUSE_SECONDS, ROOM_SECONDS, is_safe_name

from ...fulldisk import fill, small_disk
from ...statements import covers
from ..sent import file, sha
from ..travel import ROOT

END = FetchEnd("j", "done", "", "T")


def fetch(directory: Path, *operations: Operation, node: int = 0, place: Callable[[FetchEnd], Path] | None = None) -> Download:
    download = Download(directory, node, place)
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
    work, precious = tmp_path / "work", [tmp_path / "outside", tmp_path / "work" / "Node-1-Retrieve" / "theirs"]
    precious[1].parent.mkdir(parents=True)
    for path in precious:
        path.write_text("precious")
    yield work
    assert [path.read_text() for path in precious] == ["precious", "precious"]
    assert {path.name for path in tmp_path.iterdir()} == {"outside", "work"}
    assert not list(work.glob(".*")), "a partial folder was left"


@covers("SUB-17")
def test_files_arrive(place: Path) -> None:
    """Names and contents, also of empty files, in any number of chunks. A log that was fetched before is replaced by the longer
    one of later; what else lies in the folder stays. The agent tells with its last word whose files they were."""
    data, folder = os.urandom(10_000), place / "Node-0-Retrieve"
    download = fetch(
        place, *file("TR-a b(0).csv", data, 7), *file("empty", b""), FetchEnd("job-1", "done", "one is missing", "P-SGD")
    )
    assert download.done
    assert (download.job, download.state, download.problem) == ("job-1", "done", "one is missing")
    assert download.files == [folder / "TR-a b(0).csv", folder / "empty"]
    assert [path.read_bytes() for path in download.files] == [data, b""] and folder.stat().st_mode & 0o022 == 0
    (folder / "notes.txt").write_text("mine")
    fetch(place, *file("empty", b"12"), END)
    assert {p.name: p.read_bytes() for p in folder.iterdir()} == {"TR-a b(0).csv": data, "empty": b"12", "notes.txt": b"mine"}
    assert fetch(place, *file("a"), END, node=-2).files == [place / "Node--2-Retrieve" / "a"]
    assert fetch(place, FetchEnd("j", "done", "unknown job", "T"), node=7).done and not (place / "Node-7-Retrieve").exists()
    told: list[FetchEnd] = []

    def choose(said: FetchEnd) -> Path:
        told.append(said)
        (place / said.job).mkdir()
        return place / said.job

    download = fetch(place / "runs", *file("a"), END, place=choose)
    assert download.files == [place / "j" / "Node-0-Retrieve" / "a"] and told == [END]
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
    fetch(place, *file("EV.csv", b"earlier"), END)
    before = tree(place.parent)
    for operations in (file(name), [*file("good"), *file(name)]):
        with pytest.raises(ProtocolError, match="wants to write a file named") as caught:
            fetch(place, *operations, END)
        assert str(caught.value).isprintable() or not name.isprintable()
        assert len(str(caught.value)) < 500
    assert tree(place.parent) == before


@covers("SEC-10")
def test_every_short_name_of_odd_characters() -> None:
    """20,000 names; what passes is one visible component that means the same everywhere."""
    odd = [chr(c) for c in range(256)] + ["..", "con", "\u2028", "\ufeff", "\u0130"]
    made = [first + second for first in odd for second in odd[: 261 - len(first)][:80] + odd[-5:]]
    passed = list(filter(is_safe_name, made))
    assert 0 < len(passed) < 5000
    for name in passed:
        assert name.isascii() and name.isprintable() and not set(name) & set('/\\:*?"<>|~$%')
        assert Path(name).name == name == name.rstrip(". ")


ABC, GREW = [FileBegin("a", 3), FileChunk(b"abc")], "more of a file than it announced"


@covers("SEC-10")
@pytest.mark.parametrize(
    ("operations", "message"),
    [
        ([FileBegin("a", 3), FileChunk(b"abcd")], GREW),
        ([FileBegin("a", 3), FileChunk(b"ab"), FileChunk(b"cd")], GREW),
        ([FileChunk(b"abc")], GREW),
        ([FileBegin("a", 3), FileChunk(b"ab"), FileEnd(sha(b"ab"))], "size or hash"),
        *(([*ABC, FileEnd(wrong)], "size or hash") for wrong in (sha(b"abd"), "")),
        ([FileEnd(sha(b""))], "size or hash"),
        ([FileBegin("a", 3), FileBegin("b", 3)], "none can begin"),
        ([*file("a"), END, FileBegin("b", 1)], "none can begin"),
        ([*ABC, END], "within a file"),
        # on some systems they are one file
        *(([*file("EV.csv"), *file(name), END], "named") for name in ("EV.csv", "ev.CSV", "Ev.csv")),
        *(([FileBegin("a", size)], "bytes") for size in (-1, MAX_BYTES + 1, 1 << 52)),
        ([*file("a"), FileBegin("b", MAX_BYTES)], "bytes"),
        ([op for i in range(MAX_FILES + 1) for op in file(f"f{i}")], "256 files"),
        ([Took()], "Took among its files"),
        ([END, END], "FetchEnd among its files"),
    ],
    ids=lambda x: x if isinstance(x, str) else "",
)
def test_broken_rules(place: Path, operations: list[Operation], message: str) -> None:
    """Wrong sizes, hashes, orders; a million files end at the 257th, more than 1 GiB at its announcement."""
    with pytest.raises(ProtocolError, match=message):
        fetch(place, *operations)
    assert not list(place.glob("Node-0-Retrieve/a")) or END in operations


@covers("SEC-10")
def test_links_are_not_followed(place: Path) -> None:
    """One in place of the folder, before or during the transfer; one in place of the partial folder: files go where the folder
    went that was made for them, not where its path leads; one inside of it is replaced."""
    elsewhere, folder = place / "elsewhere", place / "Node-0-Retrieve"
    elsewhere.mkdir()
    for moment in ("before", "during"):
        if moment == "during":
            fetch(place, *file("old", b"1"), END)
        download = fetch(place, *file("a", b"secret"))
        if moment == "during":
            folder.rename(place / "moved")
        folder.symlink_to(elsewhere)
        with pytest.raises(OSError, match=r"Not a directory|symbolic links"):
            download.take(END)
        assert list(elsewhere.iterdir()) == [] and not download.done
        folder.unlink()
    download = fetch(place, *file("a", b"1"))
    (partial,) = place.glob(".Node-0*")
    partial.rename(place / "moved partial")
    partial.symlink_to(elsewhere)
    for operation in (*file("b", b"2"), END):
        download.take(operation)
    assert list(elsewhere.iterdir()) == [] and [path.read_bytes() for path in download.files] == [b"1", b"2"]
    partial.unlink()
    (folder / "a").unlink()
    (folder / "a").symlink_to(place.parent / "outside")
    fetch(place, *file("a", b"new"), END)
    assert (folder / "a").read_bytes() == b"new" and not (folder / "a").is_symlink()


_FULL = """
import resource, signal, sys
from pathlib import Path
from rpc.submit.downloads import Download
from rpc.messages import FileBegin, FileChunk
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
def test_what_the_disk_refuses_leaves_the_earlier_files(place: Path) -> None:
    """While files arrive, or move in: the error says so, the partial folder is gone, an earlier run stays."""
    fetch(place, *file("a", b"1"), END)
    before = tree(place)
    command = [sys.executable, "-c", _FULL, str(place)]
    done = subprocess.run(command, env={"PYTHONPATH": str(ROOT)}, capture_output=True, text=True, check=True, timeout=60)
    assert int(done.stdout) == errno.EFBIG and tree(place) == before
    download = fetch(place, *file("a", b"2"))
    os.close(download._partial_fd)
    download._partial_fd = os.open(place.parent, os.O_RDONLY | os.O_DIRECTORY)  # a folder where the new files are not
    with pytest.raises(FileNotFoundError):
        download.take(END)
    assert tree(place) == before


@covers("INV-7")
def test_no_descriptor_is_left(place: Path) -> None:
    """After 50 downloads, half of them refused, as many descriptors are open as before."""
    before = len(os.listdir("/dev/fd"))
    for _ in range(25):
        fetch(place, *file("a"), END)
        with pytest.raises(ProtocolError):
            fetch(place, *file("b"), FileBegin("..", 1))
        fetch(place, FileBegin("c", 5)).abandon()
    assert len(os.listdir("/dev/fd")) == before


class Collection(Downloads):
    """Of nodes of a run in `folder`; `asked` are those whose files were requested."""

    def __init__(self, folder: Path, *nodes: int) -> None:
        self.clock, self.asked, run = VirtualClock(), list[int](), RunFolder(folder, "j", "T")
        super().__init__(folder, lambda _: run, self.asked.append, logging.getLogger("collection test"), self.clock)
        for node in nodes:
            self.expect(node)

    def feed(self, node: int, *operations: Operation) -> bool:
        return [self.take(node, operation) for operation in operations][-1]

    def after(self, seconds: float) -> None:
        self.clock.advance(seconds)
        self.check()


@covers("SUB-37")
def test_several_nodes_at_once(tmp_path: Path) -> None:
    """Each saves its own. The download of one that names a file outside, sends nothing for a minute or finds its folder gone is
    dropped, with the reason; the others go on."""
    made = Collection(tmp_path / "new" / "folder", 0, 1)
    for pair in zip(file("a.csv", b"zero"), file("a.csv", b"one"), strict=True):
        assert not made.take(0, pair[0]) and not made.take(1, pair[1])
    assert made.take(0, END) and made.open == [1]
    assert made.take(1, END) and not made.open and made.deadline is None and not made.missing
    assert {node: [path.read_bytes() for path in paths] for node, paths in made.files.items()} == {0: [b"zero"], 1: [b"one"]}
    made = Collection(tmp_path / "other", 0, 1)
    with pytest.raises(ProtocolError, match="not allowed"):
        made.take(0, FileBegin("../x", 1))
    assert list(made.missing) == [0] and made.open == [1]
    assert made.feed(1, *file("a.csv", b"one"), END)
    assert not made.take(0, END)  # what it still says is ignored
    assert sorted(path.name for path in (tmp_path / "other").iterdir()) == ["Node-1-Retrieve", "runs"]
    assert sorted(path.name for path in (tmp_path / "other" / "runs").iterdir()) == [".T-1", "T-1", "latest"]
    made = Collection(tmp_path / "silent", 0, 1)
    made.after(DOWNLOAD_SECONDS - 1)
    made.take(1, FileBegin("a.csv", 4))
    made.after(2)
    assert made.open == [1] and "nothing for 60 s" in made.missing[0]
    made.close()
    assert not made.open and list((tmp_path / "silent").rglob("*")) == [tmp_path / "silent" / "runs"]
    made = Collection(tmp_path / "gone", 0)
    (tmp_path / "gone").rmdir()
    assert not made.take(0, FileBegin("a.csv", 4)) and "cannot be saved" in made.missing[0]


def test_a_worker_without_a_part_in_the_job_is_no_warning(tmp_path: Path, caplog: pytest.LogCaptureFixture) -> None:
    """All workers of a cluster are asked for the files of a job, and most have had none."""
    made = Collection(tmp_path, 0, 1)
    with caplog.at_level("INFO"):
        assert made.take(0, FetchEnd("j", "unknown", "This worker knows nothing of job j.", "T"))
        assert made.take(1, FetchEnd("j", "done", "one is missing", "T"))
    assert [(record.levelname, record.getMessage()) for record in caplog.records] == [
        ("INFO", "Node(0): This worker knows nothing of job j."),
        ("WARNING", "Node(1): one is missing"),
    ]
    assert made.problems == {0: "This worker knows nothing of job j.", 1: "one is missing"}


@pytest.fixture
def full_disk(tmp_path: Path) -> Iterator[Path]:
    """A disk of 64 KiB, of which a file `other` takes all."""
    with small_disk(tmp_path / "disk", 64) as disk:
        fill(disk / "other")
        yield disk


@covers("FLT-26")
@pytest.mark.parametrize("lasting", [False, True])
def test_a_disk_that_is_full(full_disk: Path, lasting: bool, caplog: pytest.LogCaptureFixture) -> None:
    """What has no room is requested again, and arrives when there is some; after a while the files of the node are given up,
    and it is said why. Nothing half-written is left."""
    made, sent = Collection(full_disk, 0), [*file("a.csv", bytes(20_000)), END]
    assert not made.feed(0, *sent) and made.open == [0] and made.asked == [0]
    made.after(PAUSE_SECONDS)
    assert made.asked == [0, 0] and not made.feed(0, *sent)  # there is no room yet
    if lasting:
        while made.open:
            made.after(PAUSE_SECONDS)
            assert not made.feed(0, *sent) and made.clock.monotonic() < 2 * ROOM_SECONDS
        assert made.missing == {0: "its files cannot be saved here: No space left on device"}
        assert "make room, then 'psgd fetch j' brings them." in made.remedy("j") and "'psgd fetch' brings" in made.remedy("")
        assert made.clock.monotonic() == ROOM_SECONDS
        assert not list(full_disk.rglob("*.partial"))
        made.expect(0)  # as at the end of a job
        assert not made.feed(0, *sent) and not made.open
        assert caplog.text.count("Node(0): its files have not come: ") == 1
        return
    (full_disk / "other").unlink()
    made.clock.advance(PAUSE_SECONDS)
    assert made.deadline == made.clock.monotonic()
    made.check()
    assert made.asked == [0, 0, 0] and made.feed(0, *sent)
    assert [path.stat().st_size for path in made.files[0]] == [20_000] and not made.missing


@covers("FLT-26")
def test_files_that_are_requested_again_after_they_were_given_up(full_disk: Path) -> None:
    """What the agent was still sending when they were given up is passed over; it has done nothing wrong."""
    sent = [*file("a.csv", bytes(20_000), chunks=4), END]
    made = Collection(full_disk, 0)
    made.feed(0, *sent)
    made.after(PAUSE_SECONDS)
    made.clock.advance(ROOM_SECONDS)
    assert not made.feed(0, *sent[:2]) and made.missing == {0: "its files cannot be saved here: No space left on device"}
    made.expect(0)
    (full_disk / "other").unlink()
    assert not made.feed(0, *sent[2:]) and made.open == [0]
    assert made.feed(0, *sent) and [path.stat().st_size for path in made.files[0]] == [20_000]
    assert made.remedy("j") == ""  # they are here
