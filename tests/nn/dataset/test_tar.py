"""Archives: what is taken out of them, and everything that can be wrong with one."""

import gzip
import tracemalloc

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from nn.dataset import cifar
from nn.dataset.cifar import read_members

from .cifar_files import header, packed

FILES = {"a.bin": bytes(range(256)) * 5, "b.bin": b"", "c.bin": b"x" * 512}
ARCHIVE = packed(FILES, "folder")
END = bytes(1024)


def read(tmp_path, content, names=("a.bin",)):
    (tmp_path / "a.tar.gz").write_bytes(content)
    return read_members(tmp_path / "a.tar.gz", names)


def plain(*parts):
    return gzip.compress(b"".join(parts), mtime=0, compresslevel=1)


def test_chosen_files_come_out_whole(tmp_path):
    assert read(tmp_path, ARCHIVE, list(FILES)) == FILES
    assert read(tmp_path, ARCHIVE, ["c.bin"]) == {"c.bin": FILES["c.bin"]}


def test_names_never_leave_the_memory(tmp_path):
    """Absolute names, parent directories and links are names like any other, or none."""
    content = plain(header("../../a.bin", 3), b"one".ljust(512, b"\0"), header("/etc/b.bin", 0), header("c.bin", 0, b"2"), END)
    assert read(tmp_path, content, ["a.bin", "b.bin"]) == {"a.bin": b"one", "b.bin": b""}
    assert [path.name for path in tmp_path.iterdir()] == ["a.tar.gz"]
    with pytest.raises(ValueError, match=r"must contain c\.bin, it lacks c\.bin"):
        read(tmp_path, content, ["c.bin"])


def damaged(position):
    block = bytearray(header("a.bin", 0))
    block[position] ^= 1
    return bytes(block)


@pytest.mark.parametrize(
    ("content", "text"),
    [
        (b"", "is a damaged gzip file|ends within"),
        (b"no gzip", "is a damaged gzip file"),
        (ARCHIVE[:-1], "is a damaged gzip file"),
        (ARCHIVE[:100], "is a damaged gzip file"),
        (ARCHIVE[:-8] + bytes(8), "is a damaged gzip file: CRC check failed"),
        (plain(b"short"), "ends within a file of its archive"),
        (plain(b"PK".ljust(512, b"x"), END), "is not a tar archive, or a damaged one"),
        (plain(damaged(0), END), "is not a tar archive, or a damaged one"),
        (plain(damaged(150), END), "is not a tar archive, or a damaged one"),
        (plain(header("a.bin", 9), b"short"), "ends within a file of its archive"),
        (plain(header("z.bin", 999999), b"short"), "ends within a file of its archive"),
        (plain(header("a.bin", 0), header("x/a.bin", 0), END), "contains 'a.bin' twice"),
        (plain(END), r"must contain a\.bin, it lacks a\.bin"),
        (plain(header("z", 0) * 1001, END), "must have at most 1000 members"),
    ],
)
def test_a_damaged_archive_is_named(content, text, tmp_path):
    with pytest.raises(ValueError, match=f"a.tar.gz.*({text})"):
        read(tmp_path, content)


@pytest.mark.parametrize(
    "start",
    [
        header("a.bin", 7 << 30),
        header("z.bin", 32 << 20),
        header("z.bin", 7 << 30, b"x"),  # an extended header
        header("a.bin", 0) + END,
    ],
)
def test_bombs_are_defused_with_little_memory(start, tmp_path, monkeypatch):
    monkeypatch.setattr(cifar, "_MAX_UNPACKED", 4 << 20)
    content = plain(start, bytes(32 << 20))
    tracemalloc.start()
    with pytest.raises(ValueError, match="must have at most 4194304 bytes unpacked"):
        read(tmp_path, content)
    _, peak = tracemalloc.get_traced_memory()
    tracemalloc.stop()
    assert peak < 12 << 20


@settings(max_examples=60, deadline=None, database=None)
@given(data=st.data())
def test_no_damage_escapes(data, tmp_path_factory):
    """Whatever happens to an archive, the answer is its content or a ValueError."""
    plain_archive = bytearray(gzip.decompress(ARCHIVE))
    for place in data.draw(st.lists(st.integers(0, len(plain_archive) - 1), max_size=4)):
        plain_archive[place] = data.draw(st.integers(0, 255))
    content = gzip.compress(bytes(plain_archive[: data.draw(st.integers(0, len(plain_archive)))]), compresslevel=1)
    path = tmp_path_factory.getbasetemp() / "damaged.tar.gz"
    path.write_bytes(content[: data.draw(st.integers(len(content) // 2, len(content)))])
    try:
        found = read_members(path, ["a.bin"])
    except ValueError as error:
        assert "damaged.tar.gz" in str(error)
    else:
        assert list(found) == ["a.bin"]
