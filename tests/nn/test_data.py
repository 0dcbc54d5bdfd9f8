"""The cache of data sets: content is checked, size is bounded, and processes do not disturb each other."""

import os
import subprocess
import sys
import time
from pathlib import Path

import numpy as np
import pytest

from nn.data import load_arrays, save_arrays
from nn.dataset import checksum_of
from nn.tensor_files import TEMPORARY_SUFFIX

WRITER = """
import sys
import numpy as np
from nn.data import load_arrays, save_arrays
from nn.dataset import checksum_of
x = np.arange(200_000)
arrays = (x, x, x, x)
checksum = checksum_of(arrays)
print("ready", flush=True)
sys.stdin.readline()
for _ in range(10):
    path = save_arrays(sys.argv[1], arrays)
    found = load_arrays(sys.argv[1], checksum)
    if found is None or not np.array_equal(found[3], x):
        sys.exit("not there after saving")
"""


def arrays_of(value, count=1000):
    x = np.full((count, 2), value, np.float32)
    return x, np.zeros(count, np.uint8), x[:1], np.zeros(1, np.uint8)


def age(path, seconds):
    stamp = time.time() - seconds
    os.utime(path, (stamp, stamp))


def test_what_is_saved_is_loaded(tmp_path):
    arrays = (np.array([[1, 2]], ">i2"), np.array([True]), np.zeros((0, 2)), np.array([1], np.uint64))
    path = save_arrays(tmp_path / "new" / "folder", arrays)
    found = load_arrays(tmp_path / "new" / "folder", checksum_of(arrays))
    assert all(np.array_equal(left, right) for left, right in zip(found, arrays, strict=True))
    assert checksum_of(found) == checksum_of(arrays)
    assert path.stem == checksum_of(arrays)
    assert path.parent.stat().st_mode & 0o777 == 0o700


def test_absent_is_none(tmp_path):
    assert load_arrays(tmp_path, "0" * 64) is None
    assert load_arrays(tmp_path / "missing", "0" * 64) is None


@pytest.mark.parametrize("checksum", ["", "../" + "0" * 61, "0" * 63, "G" * 64, "0" * 64 + "\n"])
def test_a_checksum_is_never_a_path(checksum, tmp_path):
    with pytest.raises(ValueError, match="a checksum must be 64 hexadecimal digits, got "):
        load_arrays(tmp_path, checksum)


def test_saving_again_writes_nothing(tmp_path):
    path = save_arrays(tmp_path, arrays_of(1))
    before = path.stat().st_ino
    assert save_arrays(tmp_path, arrays_of(1)) == path
    assert path.stat().st_ino == before


@pytest.mark.parametrize("damage", ["flip", "cut", "empty", "exchanged"])
def test_a_damaged_file_counts_as_absent_and_is_replaced(damage, tmp_path):
    path = save_arrays(tmp_path, arrays_of(1))
    data = bytearray(path.read_bytes())
    match damage:
        case "flip":
            data[-5] ^= 1
        case "cut":
            del data[-5:]
        case "empty":
            data.clear()
        case "exchanged":
            data = save_arrays(tmp_path, arrays_of(2)).read_bytes()
    path.write_bytes(data)
    assert load_arrays(tmp_path, path.stem) is None
    save_arrays(tmp_path, arrays_of(1))
    assert checksum_of(load_arrays(tmp_path, path.stem)) == path.stem


def test_the_least_recently_used_go_first(tmp_path):
    paths = [save_arrays(tmp_path, arrays_of(value)) for value in range(4)]
    for place, path in enumerate(paths):
        age(path, 1000 - place)
    load_arrays(tmp_path, paths[0].stem)
    size = paths[0].stat().st_size
    newest = save_arrays(tmp_path, arrays_of(4), limit=3 * size)
    assert set(tmp_path.iterdir()) == {paths[0], paths[3], newest}


def test_what_was_just_saved_stays_even_when_a_clock_was_wrong(tmp_path):
    future = save_arrays(tmp_path, arrays_of(1))
    age(future, -1000)
    path = save_arrays(tmp_path, arrays_of(2), limit=future.stat().st_size)
    assert list(tmp_path.iterdir()) == [path]


def test_a_data_set_beyond_the_limit_is_refused_and_changes_nothing(tmp_path):
    path = save_arrays(tmp_path, arrays_of(1))
    with pytest.raises(ValueError, match=r"save_arrays 'limit' must allow the \d+ bytes of this data set, got 5000"):
        save_arrays(tmp_path, arrays_of(2), limit=5000)
    assert list(tmp_path.iterdir()) == [path]


def test_what_dead_writers_left_is_removed_and_other_files_are_not(tmp_path):
    abandoned, busy, other = (tmp_path / name for name in ("a" + TEMPORARY_SUFFIX, "b" + TEMPORARY_SUFFIX, "notes"))
    for path in (abandoned, busy, other):
        path.write_bytes(b"x")
    age(abandoned, 7200)
    age(other, 7200)
    path = save_arrays(tmp_path, arrays_of(1))
    assert set(tmp_path.iterdir()) == {busy, other, path}


def test_a_dtype_that_cannot_be_kept_is_an_error(tmp_path):
    x = np.ones((2, 2), complex)
    with pytest.raises(TypeError, match="tensor 'train_x' must be one of"):
        save_arrays(tmp_path, (x, x, x, x))
    assert list(tmp_path.iterdir()) == []


@pytest.mark.processes
def test_many_processes_write_the_same_checksum_at_once(tmp_path):
    """The cache needs no lock: whoever writes a checksum writes the same content."""
    command = [sys.executable, "-c", WRITER, str(tmp_path)]
    writers = [subprocess.Popen(command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True) for _ in range(4)]
    try:
        for writer in writers:
            assert writer.stdout.readline() == "ready\n"
        for writer in writers:
            writer.stdin.write("go\n")
            writer.stdin.flush()
        for writer in writers:
            writer.communicate(timeout=60)
    finally:
        for writer in writers:
            writer.kill()
            writer.communicate()
    assert [writer.returncode for writer in writers] == [0] * 4
    x = np.arange(200_000)
    (path,) = Path(tmp_path).iterdir()
    assert path.stem == checksum_of([x, x, x, x])
    assert load_arrays(tmp_path, path.stem) is not None
