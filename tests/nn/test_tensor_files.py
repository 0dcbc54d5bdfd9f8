"""Tensor files and the cache of data sets: what is written is read back, by safetensors too; the rest is refused."""

from __future__ import annotations

import hashlib
import io
import json
import os
import pickle
import resource
import struct
import subprocess
import sys
import time
import tracemalloc
import zipfile
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import safetensors
from safetensors import numpy as reference

from nn.arrays import Array
from nn.data import load_arrays, save_arrays
from nn.dataset import checksum_of
from nn.tensor_files import MAX_HEADER, TEMPORARY_SUFFIX, ModelFileError, dump, parse, read_file, write_file
from tests.statements import covers

MEMORY = 64 << 20  # bytes; a header of 1 MiB of JSON brackets takes most of it
RANDOM = np.random.default_rng(3)
TENSORS = {
    "dense_1/kernel": RANDOM.normal(size=(5, 3)).astype(np.float32),
    "step": np.array(7, dtype=np.int64),
    "mask": np.array([True, False, True]),
    "empty": np.zeros((0, 4), dtype=np.float16),
    "größe": RANDOM.normal(size=2),
}


def equal(left: Array, right: Array) -> bool:
    return left.dtype == right.dtype and left.shape == right.shape and left.tobytes() == right.tobytes()


def same(read: dict[str, Array]) -> bool:
    return list(read) == list(TENSORS) and all(equal(read[name], TENSORS[name]) for name in TENSORS)


@pytest.mark.parametrize("code", ["?", "u1", "i1", "u2", "i2", "u4", "i4", "u8", "i8", "f2", "f4", "f8", "c8"])
@pytest.mark.parametrize("shape", [(), (1,), (0,), (3, 0, 2), (2, 3, 4)])
def test_every_dtype_and_shape_comes_back(code: str, shape: tuple[int, ...]) -> None:
    """Section 7: a 0-d array stays 0-d."""
    array = (np.arange(np.prod(shape)).reshape(shape) % 2).astype(code)
    assert equal(parse(dump({"a": array}, {}))[0]["a"], array)


def test_what_is_written_is_read() -> None:
    """In order, whatever the layout of the input; nothing is copied, all is aligned, and none of it can be written."""
    data = bytearray(dump(TENSORS, {"config": '{"layers": ["é", "\\n"]}', "format": "psgd.model/1"}))
    read, metadata = parse(data)
    assert same(read)
    assert (metadata["config"], metadata["format"]) == ('{"layers": ["é", "\\n"]}', "psgd.model/1")
    assert np.shares_memory(read["dense_1/kernel"], np.frombuffer(data, np.uint8))
    with pytest.raises(ValueError, match="read-only"):
        read["dense_1/kernel"][0, 0] = 1
    assert (8 + struct.unpack_from("<Q", data)[0]) % 8 == 0
    assert all(array.flags.aligned for array in read.values())
    array = np.arange(12, dtype=np.int32).reshape(3, 4)
    for other in (np.asfortranarray(array), array.astype(">i4"), np.repeat(array, 2, axis=1)[:, ::2]):
        assert dump({"a": other}, {}) == dump({"a": array}, {})
    assert parse(dump({}, {"config": "{}"}))[0] == {}


def test_the_safetensors_library_reads_ours_and_we_its(tmp_path: Path) -> None:
    """Section 7: the real library opens the file and reads the configuration."""
    data = dump(TENSORS, {"format": "psgd.model/1", "config": "{}"})
    read = reference.load(data)
    assert read.keys() == TENSORS.keys()
    assert all(equal(read[name], TENSORS[name]) for name in TENSORS)
    (tmp_path / "a.model").write_bytes(data)
    with safetensors.safe_open(tmp_path / "a.model", framework="numpy") as file:
        assert file.metadata()["config"] == "{}"
        assert equal(file.get_tensor("step"), TENSORS["step"])
    back, metadata = parse(reference.save(TENSORS, metadata={"format": "np"}))
    assert metadata == {"format": "np"}
    assert all(equal(back[name], TENSORS[name]) for name in TENSORS)
    assert parse(reference.save({"a": np.ones(2)}))[1] == {}


def test_the_hash_is_that_of_the_file_with_the_field_zeroed() -> None:
    """A field that only looks like it misleads nobody; our own format needs it, as the first field."""
    data = dump(TENSORS, {})
    (length,) = struct.unpack_from("<Q", data)
    found = json.loads(data[8 : 8 + length])["__metadata__"]["sha256"]
    assert data.count(found.encode()) == 1
    assert hashlib.sha256(data.replace(found.encode(), b"0" * 64)).hexdigest() == found
    metadata = {"config": '"sha256":"' + "0" * 64 + '"', 'x"sha256': "0" * 64}
    read, again = parse(dump({**TENSORS, '"sha256":"': np.ones(1)}, metadata))
    assert again["config"] == metadata["config"] and '"sha256":"' in read
    with pytest.raises(ModelFileError, match=r"format 'psgd.model/1' must carry its sha256"):
        parse(reference.save({"a": np.ones(2)}, metadata={"format": "psgd.model/1"}))
    with pytest.raises(ModelFileError, match="sha256 of the file must be the first field of its header"):
        parse(assembled({"__metadata__": {"format": "np", "sha256": "0" * 64}}))


@pytest.mark.parametrize(
    ("tensors", "metadata", "error", "text"),
    [
        ({"a": np.array([object()])}, {}, TypeError, r"tensor 'a' must be one of BOOL, .* got dtype object"),
        ({"a": np.array(["x"])}, {}, TypeError, r"got dtype <U1"),
        ({"a": np.ones(1, np.complex128)}, {}, TypeError, r"got dtype complex128"),
        ({"__metadata__": np.ones(1)}, {}, ValueError, r"'__metadata__', it is reserved"),
        ({}, {"sha256": "0"}, ValueError, r"metadata key 'sha256'"),
        ({}, {"a": 1}, TypeError, r"metadata must map str to str, got 'a': int"),
        ({}, {"a": "x" * MAX_HEADER}, ValueError, r"the header must fit in 1048576 bytes, got 10\d+"),
        ({"\ud800": np.ones(1)}, {}, ValueError, r"surrogates not allowed"),
    ],
)
def test_what_cannot_be_written_is_refused_by_name(tensors: Any, metadata: Any, error: type[Exception], text: str) -> None:
    with pytest.raises(error, match=text):
        dump(tensors, metadata)


# ---- forged, damaged and foreign files


def sealed() -> bytes:
    tensors = {
        "dense_1/kernel": np.arange(6, dtype=np.float32).reshape(2, 3), "dense_1/bias": np.zeros(3, np.float32),
        "step": np.array(3), "mask": np.array([True, False]),
    }  # fmt: skip
    return dump(tensors, {"format": "psgd.model/1", "config": '{"layers":[]}'})


def assembled(header: Any, body: bytes = b"") -> bytes:
    """A file with this header, as text or as an object, and no hash."""
    raw = header if isinstance(header, bytes) else json.dumps(header).encode()
    return struct.pack("<Q", len(raw)) + raw + body


def entry(shape: Any, end: int, begin: int = 0, dtype: Any = "F32") -> dict[str, Any]:
    return {"dtype": dtype, "shape": shape, "data_offsets": [begin, end]}


def archive(content: bytes, compression: int = zipfile.ZIP_STORED) -> bytes:
    buffer = io.BytesIO()
    with zipfile.ZipFile(buffer, "w", compression) as file:
        file.writestr("a.npy", content)
    return buffer.getvalue()


class Payload:
    def __init__(self, marker: Path) -> None:
        self.marker = str(marker)

    def __reduce__(self) -> Any:
        return open, (self.marker, "w")


@covers("SEC-13")
class TestHostileFiles:
    """A forged, damaged or foreign file gives a clean error, runs nothing, and costs no more memory than it has."""

    @pytest.fixture(autouse=True)
    def nothing_runs_and_memory_is_bounded(self) -> Iterator[None]:
        modules = set(sys.modules)
        tracemalloc.start()
        yield
        _, peak = tracemalloc.get_traced_memory()
        tracemalloc.stop()
        assert set(sys.modules) == modules
        assert peak < MEMORY

    def refused(self, data: bytes, text: str = "") -> None:
        with pytest.raises(ModelFileError, match=text or None):
            parse(data)

    def test_pickles_do_not_run(self, tmp_path: Path) -> None:
        """Pickle bytes, alone and behind a plausible length."""
        for protocol in range(pickle.HIGHEST_PROTOCOL + 1):
            data = pickle.dumps(Payload(tmp_path / "marker"), protocol)
            for file in (data, struct.pack("<Q", len(data)) + data, assembled(data, data)):
                self.refused(file)
        assert not (tmp_path / "marker").exists()

    def test_archives_and_polyglots(self) -> None:
        """A small archive that would unpack to 32 MiB; a file that is also an archive or a page."""
        self.refused(
            archive(bytes(32 << 20), zipfile.ZIP_DEFLATED), "it is no file of a model or of weights: .*, as zip archives"
        )
        file, zipped = sealed(), archive(b"data")
        for joined in (
            file + zipped, zipped + file, assembled(file[8:] + zipped), assembled(b"{}" + zipped + b"{}"),
            assembled(b"{}\n" + b" " * 8), assembled(b"\xef\xbb\xbf{}"), assembled(b"<html>{}"), assembled(b"{}", zipped),
        ):  # fmt: skip
            self.refused(joined)

    @pytest.mark.parametrize(
        "shape",
        [
            [8 << 30],
            [1 << 31, 1 << 31],
            [0, 1 << 62],
            [10**4000],
            [0] + [1 << 40] * 31,
            [1] * 33,
            [-1],
            [-2, -2],
            [1.0],
            [True],
        ],
    )
    def test_absurd_shapes(self, shape: list[Any]) -> None:
        """32 GiB and worse, with honest and with small offsets."""
        size = 4
        for axis in shape:
            size *= int(axis)
        for end in (0, 4, 16, size):
            for body in (b"", bytes(4), bytes(16)):
                self.refused(assembled({"a": entry(shape, end)}, body))

    @pytest.mark.parametrize(
        ("header", "text"),
        [
            (b'{"a":' + json.dumps(entry([1], 4)).encode() + b',"a":' + json.dumps(entry([1], 4)).encode() + b"}", "duplicate"),
            (b'{"a":{"dtype":"F32","dtype":"F32","shape":[1],"data_offsets":[0,4]}}', "duplicate"),
            (b'{"__metadata__":{"a":"1","a":"2"},"a":' + json.dumps(entry([1], 4)).encode() + b"}", "duplicate"),
            ({"a": entry([2], 8)}, "must fill the file: they take 8 bytes, the file has 4"),
            ({"a": entry([0], 0)}, "must fill the file: they take 0 bytes, the file has 4"),
            ({"a": entry([1], 4), "b": entry([1], 4)}, "'b' overlaps"),
            ({"a": entry([1], 8, 4)}, "'a' leaves a hole"),
            ({"a": entry([1], 4, dtype="F128")}, "must have one of the dtypes BOOL, .*, got 'F128'"),
            ({"a": entry([1], 4, dtype=["F32"])}, "must have one of the dtypes"),
            ({"a": entry([2, 2], 4, dtype="BOOL")}, "BOOL but holds bytes other than 0 and 1"),
            ({"a": entry([1], 0, 4)}, "do not fit shape"),
            ({"a": {**entry([1], 4), "extra": 1}}, "and nothing else"),
            ({"a": {"dtype": "F32", "shape": [1]}}, "must have dtype, shape and data_offsets"),
            ({"a": entry([1], 4)["shape"]}, "must have dtype, shape and data_offsets"),
            ({"a": {**entry([1], 4), "data_offsets": [0, 4, 4]}}, r"must have data_offsets \[begin, end\]"),
            ({"a": {**entry([1], 4), "data_offsets": [0, 4.0]}}, r"must have data_offsets \[begin, end\]"),
            ({"a": {**entry([1], 4), "data_offsets": "04"}}, r"must have data_offsets \[begin, end\]"),
            ({"a": {**entry([1], 4), "shape": {"1": 1}}}, "must have a shape"),
            ({"__metadata__": ["a"], "a": entry([1], 4)}, "must be an object of strings"),
            ({"__metadata__": {"a": 1}, "a": entry([1], 4)}, "'a' must be a string, got 1"),
            ({"__metadata__": {"a": None}, "a": entry([1], 4)}, "'a' must be a string"),
            (b'{"a":{"dtype":"F32","shape":[NaN],"data_offsets":[0,4]}}', "NaN, which is not JSON"),
            (b'{"a":{"dtype":"F32","shape":[' + b"9" * 5000 + b'],"data_offsets":[0,4]}}', "not valid JSON"),
            (b'{"a":' + b"[" * 200_000 + b"]" * 200_000 + b"}", "not valid JSON"),
            (b'{"\\ud800":1}', "not valid JSON"),
            (b'{"a":"\xff"}', "not valid JSON"),
            (b'{"a":1} {}', "not valid JSON"),
            (b"[1]", "must be a JSON object"),
            (b"", "must be a JSON object"),
            (b"{" + b'"":[],' * 100_000 + b"}", "not valid JSON"),
        ],
    )
    def test_every_rule_of_the_reader(self, header: Any, text: str) -> None:
        """Duplicates, holes, overlaps, unknown fields and dtypes, and JSON that is none."""
        self.refused(assembled(header, bytes([2, 2, 2, 2])), text)

    def test_a_header_length_is_not_believed(self) -> None:
        """Sizes are compared with the file before anything else; above 1 MiB a header is not even parsed."""
        for length in (MAX_HEADER + 1, 1 << 32, 1 << 63, (1 << 64) - 1):
            self.refused(struct.pack("<Q", length) + b"{}", f"it claims {length}")
        assert parse(assembled(b"{}" + b" " * (MAX_HEADER - 2))) == ({}, {})
        self.refused(
            b"garbage\n",
            r"it is no file of a model or of weights: what Model.save\(\) writes begins with .*, this with b'garbage\\n'$",
        )
        self.refused(assembled(b"{}" + b" " * 64)[:-10], "it claims 66; the file is cut off")
        text = r"the header must fit in the file .* and in 1048576 bytes"
        self.refused(assembled(b"{}" + b" " * (MAX_HEADER - 1)), text)

    @covers("SEC-17")
    def test_a_name_from_the_file_cannot_write_to_the_terminal(self) -> None:
        """Control characters are escaped, long names are cut."""
        with pytest.raises(ModelFileError) as caught:
            parse(assembled({"\x1b[2J\n" + "x" * 10_000: 1}))
        assert str(caught.value).isprintable()
        assert len(str(caught.value)) < 200

    @pytest.mark.long
    def test_no_prefix_of_a_file_is_a_file_and_every_single_bit_counts(self) -> None:
        data = bytearray(sealed())
        for position in range(len(data)):
            self.refused(data[:position])
            for bit in range(8):
                data[position] ^= 1 << bit
                with pytest.raises(ModelFileError):
                    parse(data)
                data[position] ^= 1 << bit
        parse(data)


# ---- on disk


def test_files_are_replaced_in_one_step(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Section 7: write, fsync, replace, fsync of the directory; the umask decides who may read the file."""
    path, seen = tmp_path / ("a" * 255), []  # the longest name that the system allows
    fsync, replace = os.fsync, os.replace
    monkeypatch.setattr(os, "fsync", lambda descriptor: (seen.append(os.fstat(descriptor).st_ino), fsync(descriptor)))
    monkeypatch.setattr(os, "replace", lambda source, target: (seen.append(Path(target)), replace(source, target)))
    before = os.umask(0o027)
    try:
        write_file(path, b"old")
        write_file(str(path), b"new")
    finally:
        os.umask(before)
    assert seen[3:] == [path.stat().st_ino, path, tmp_path.stat().st_ino]
    assert path.stat().st_mode & 0o777 == 0o640
    assert read_file(path) == b"new"
    limits = resource.getrlimit(resource.RLIMIT_FSIZE)
    resource.setrlimit(resource.RLIMIT_FSIZE, (4096, limits[1]))
    try:  # a full disk leaves the old one and reports
        with pytest.raises(OSError, match=r"File too large \(nothing was replaced\).*aaa"):
            write_file(path, bytes(10_000))
    finally:
        resource.setrlimit(resource.RLIMIT_FSIZE, limits)
    assert read_file(path) == b"new"
    assert list(tmp_path.iterdir()) == [path]


def test_what_cannot_be_replaced_or_read_is_named(tmp_path: Path) -> None:
    (tmp_path / "a" / "b").mkdir(parents=True)
    with pytest.raises(OSError, match=r"nothing was replaced.*/a'"):
        write_file(tmp_path / "a", b"x")
    with pytest.raises(FileNotFoundError, match=r"There is no folder '.*/missing': '.*/missing/a'"):
        write_file(tmp_path / "missing" / "a", b"x")
    assert [path.name for path in tmp_path.iterdir()] == ["a"]
    (tmp_path / "file").touch()
    # where there can be no temporary file either, which is no reason to name it
    with pytest.raises(NotADirectoryError, match=r"nothing was replaced.*/file/a'"):
        write_file(tmp_path / "file" / "a", b"x")
    os.mkfifo(tmp_path / "pipe")
    for path in (tmp_path / "pipe", Path("/dev/zero")):
        with pytest.raises(ModelFileError, match="is not a regular file"):
            read_file(path)
    with pytest.raises(IsADirectoryError):
        read_file(tmp_path)
    with pytest.raises(FileNotFoundError):
        read_file(tmp_path / "missing")
    (tmp_path / "digits.model").write_bytes(b"")
    with pytest.raises(FileNotFoundError, match=r"No such file or directory \(there is 'digits\.model'\): '.*/digts\.modle'$"):
        read_file(tmp_path / "digts.modle")
    with open(tmp_path / "huge", "wb") as file:
        file.truncate(1 << 40)
    with pytest.raises(ModelFileError, match="must have at most 2147483648 bytes, it has 1099511627776"):
        read_file(tmp_path / "huge")
    (tmp_path / "huge").write_bytes(b"12345")
    assert read_file(tmp_path / "huge", limit=5) == b"12345"
    with pytest.raises(ModelFileError, match="at most 4 bytes, it has 5"):
        read_file(tmp_path / "huge", limit=4)


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


@covers("INV-5")
@pytest.mark.processes
def test_a_writer_killed_at_any_moment_leaves_a_whole_file(tmp_path: Path) -> None:
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


# ---- the cache of data sets


def arrays_of(value: int, count: int = 1000) -> tuple[Array, ...]:
    x = np.full((count, 2), value, np.float32)
    return x, np.zeros(count, np.uint8), x[:1], np.zeros(1, np.uint8)


def age(path: Path, seconds: float) -> None:
    stamp = time.time() - seconds
    os.utime(path, (stamp, stamp))


def test_a_data_set_is_kept_under_its_checksum(tmp_path: Path) -> None:
    """It is loaded as it was saved; saving again writes nothing; what is absent is None, and a checksum is never a path."""
    folder = tmp_path / "new" / "folder"
    arrays = (np.array([[1, 2]], ">i2"), np.array([True]), np.zeros((0, 2)), np.array([1], np.uint64))
    path = save_arrays(folder, arrays)
    found = load_arrays(folder, checksum_of(arrays))
    assert all(np.array_equal(left, right) for left, right in zip(found, arrays, strict=True))
    assert path.stem == checksum_of(found) == checksum_of(arrays)
    assert folder.stat().st_mode & 0o777 == 0o700
    before = path.stat().st_ino
    assert save_arrays(folder, arrays) == path and path.stat().st_ino == before
    assert load_arrays(folder, "0" * 64) is load_arrays(tmp_path / "missing", "0" * 64) is None
    for checksum in ("", "../" + "0" * 61, "0" * 63, "G" * 64, "0" * 64 + "\n"):
        with pytest.raises(ValueError, match="a checksum must be 64 hexadecimal digits, got "):
            load_arrays(folder, checksum)
    x = np.ones((2, 2), complex)
    with pytest.raises(TypeError, match="tensor 'train_x' must be one of"):
        save_arrays(folder, (x, x, x, x))
    assert list(folder.iterdir()) == [path]


@pytest.mark.parametrize("damage", ["flip", "cut", "empty", "exchanged"])
def test_a_damaged_file_counts_as_absent_and_is_replaced(damage: str, tmp_path: Path) -> None:
    path = save_arrays(tmp_path, arrays_of(1))
    data = path.read_bytes()
    path.write_bytes({
        "flip": data[:-5] + bytes([data[-5] ^ 1]) + data[-4:], "cut": data[:-5], "empty": b"",
        "exchanged": save_arrays(tmp_path, arrays_of(2)).read_bytes(),
    }[damage])  # fmt: skip
    assert load_arrays(tmp_path, path.stem) is None
    save_arrays(tmp_path, arrays_of(1))
    assert checksum_of(load_arrays(tmp_path, path.stem)) == path.stem


def test_the_cache_is_bounded(tmp_path: Path) -> None:
    """The least recently used go first, what was just saved stays even when a clock was wrong, what is too large is refused."""
    paths = [save_arrays(tmp_path, arrays_of(value)) for value in range(4)]
    for place, path in enumerate(paths):
        age(path, 1000 - place)
    load_arrays(tmp_path, paths[0].stem)
    size = paths[0].stat().st_size
    newest = save_arrays(tmp_path, arrays_of(4), limit=3 * size)
    assert set(tmp_path.iterdir()) == {paths[0], paths[3], newest}
    age(newest, -1000)
    last = save_arrays(tmp_path, arrays_of(5), limit=size)
    assert list(tmp_path.iterdir()) == [last]
    with pytest.raises(ValueError, match=r"save_arrays 'limit' must allow the \d+ bytes of this data set, got 5000"):
        save_arrays(tmp_path, arrays_of(6), limit=5000)
    assert list(tmp_path.iterdir()) == [last]


def test_what_dead_writers_left_is_removed_and_other_files_are_not(tmp_path: Path) -> None:
    abandoned, busy, other = (tmp_path / name for name in ("a" + TEMPORARY_SUFFIX, "b" + TEMPORARY_SUFFIX, "notes"))
    for path in (abandoned, busy, other):
        path.write_bytes(b"x")
    age(abandoned, 7200)
    age(other, 7200)
    path = save_arrays(tmp_path, arrays_of(1))
    assert set(tmp_path.iterdir()) == {busy, other, path}


def test_the_first_file_of_a_process_in_a_folder_removes_what_killed_ones_have_left(tmp_path: Path) -> None:
    abandoned, busy = tmp_path / f".a{TEMPORARY_SUFFIX}", tmp_path / f".b{TEMPORARY_SUFFIX}"
    for path in (abandoned, busy):
        path.write_bytes(b"x")
    age(abandoned, 7200)
    for name in ("one", "two"):
        write_file(tmp_path / name, b"content")
        assert {path.name for path in tmp_path.iterdir()} == {busy.name, *(("one",) if name == "one" else ("one", "two"))}
        age(busy, 7200)  # looked for once only


SAVER = """
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


@pytest.mark.processes
@pytest.mark.long
def test_many_processes_write_the_same_checksum_at_once(tmp_path: Path) -> None:
    """The cache needs no lock: whoever writes a checksum writes the same content."""
    command = [sys.executable, "-c", SAVER, str(tmp_path)]
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
    (path,) = tmp_path.iterdir()
    assert path.stem == checksum_of([x, x, x, x])
    assert load_arrays(tmp_path, path.stem) is not None
