"""Files are replaced in one step, and only regular files of a sane size are read."""

import os
import resource
import subprocess
import sys
from pathlib import Path

import numpy as np
import pytest

from nn.tensor_files import ModelFileError, dump, parse, read_file, write_file

from ..statements import covers

WRITER = """
import sys
import numpy as np
from nn.tensor_files import dump, write_file
versions = [dump({"a": np.full(50_000, version)}, {}) for version in range(2)]
print("ready", flush=True)
while True:
    for data in versions:
        write_file(sys.argv[1], data)
"""


def test_what_is_written_is_read(tmp_path):
    path = tmp_path / "a.model"
    write_file(path, b"old")
    write_file(str(path), b"new")
    assert read_file(path) == b"new"
    assert list(tmp_path.iterdir()) == [path]


def test_the_umask_decides_who_may_read_the_file(tmp_path):
    before = os.umask(0o027)
    try:
        write_file(tmp_path / "a", b"")
    finally:
        os.umask(before)
    assert (tmp_path / "a").stat().st_mode & 0o777 == 0o640


def test_the_longest_file_name_the_system_allows(tmp_path):
    path = tmp_path / ("a" * 255)
    write_file(path, b"x")
    assert path.read_bytes() == b"x"


def test_file_and_directory_are_synchronised_in_this_order(tmp_path, monkeypatch):
    """Section 7: write, fsync, replace, fsync of the directory."""
    seen = []
    fsync, replace = os.fsync, os.replace

    def record_fsync(descriptor):
        seen.append(os.fstat(descriptor).st_ino)
        fsync(descriptor)

    def record_replace(source, target):
        seen.append(Path(target))
        replace(source, target)

    monkeypatch.setattr(os, "fsync", record_fsync)
    monkeypatch.setattr(os, "replace", record_replace)
    write_file(tmp_path / "a", b"x")
    path = tmp_path / "a"
    assert seen == [path.stat().st_ino, path, tmp_path.stat().st_ino]


def test_a_write_that_fails_leaves_the_old_file_and_nothing_else(tmp_path):
    """Section 7: a full disk (here: the limit on the size of a file) leaves the old one and reports."""
    path = tmp_path / "a.model"
    write_file(path, b"old")
    limits = resource.getrlimit(resource.RLIMIT_FSIZE)
    resource.setrlimit(resource.RLIMIT_FSIZE, (4096, limits[1]))
    try:
        with pytest.raises(OSError, match=r"File too large \(nothing was replaced\).*a\.model"):
            write_file(path, bytes(10_000))
    finally:
        resource.setrlimit(resource.RLIMIT_FSIZE, limits)
    assert path.read_bytes() == b"old"
    assert list(tmp_path.iterdir()) == [path]


def test_a_target_that_cannot_be_replaced_is_named(tmp_path):
    (tmp_path / "a" / "b").mkdir(parents=True)
    with pytest.raises(OSError, match=r"nothing was replaced.*/a'"):
        write_file(tmp_path / "a", b"x")
    with pytest.raises(FileNotFoundError, match=r"missing/a"):
        write_file(tmp_path / "missing" / "a", b"x")
    assert [path.name for path in tmp_path.iterdir()] == ["a"]


@covers("INV-5")
@pytest.mark.processes
def test_a_writer_killed_at_any_moment_leaves_a_whole_file(tmp_path):
    """The reader finds the old version or the new one, never neither."""
    path = tmp_path / "a.model"
    write_file(path, dump({"a": np.zeros(50_000, dtype=int)}, {}))
    with subprocess.Popen([sys.executable, "-c", WRITER, path], stdout=subprocess.PIPE) as writer:
        assert writer.stdout.readline() == b"ready\n"
        for _ in range(50):
            array = parse(read_file(path))[0]["a"]
            assert len(array) == 50_000
            assert array[0] in (0, 1)
        writer.kill()
    array = parse(read_file(path))[0]["a"]
    assert (array == array[0]).all()


def test_only_regular_files_are_read(tmp_path):
    os.mkfifo(tmp_path / "pipe")
    for path in (tmp_path / "pipe", Path("/dev/zero")):
        with pytest.raises(ModelFileError, match="is not a regular file"):
            read_file(path)
    with pytest.raises(IsADirectoryError):
        read_file(tmp_path)
    with pytest.raises(FileNotFoundError):
        read_file(tmp_path / "missing")


def test_a_file_above_the_limit_is_not_read(tmp_path):
    path = tmp_path / "huge"
    with open(path, "wb") as file:
        file.truncate(1 << 40)
    with pytest.raises(ModelFileError, match="must have at most 2147483648 bytes, it has 1099511627776"):
        read_file(path)
    path.write_bytes(b"12345")
    assert read_file(path, limit=5) == b"12345"
    with pytest.raises(ModelFileError, match="at most 4 bytes, it has 5"):
        read_file(path, limit=4)
