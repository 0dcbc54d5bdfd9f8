"""IDX, .npz and .tar.gz files: what comes out of them, and everything that can be wrong with one."""

import gzip
import io
import struct
import tracemalloc
import zipfile

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from nn.dataset import cifar, npz
from nn.dataset.cifar import read_members
from nn.dataset.idx import read_idx
from nn.dataset.npz import read_arrays

from .cifar_files import header, packed
from .idx_files import CODES, idx

ARRAY = np.arange(24, dtype=np.uint8).reshape(2, 3, 4)
FILES = {"a.bin": bytes(range(256)) * 5, "b.bin": b"", "c.bin": b"x" * 512}
ARCHIVE = packed(FILES, "folder")
END = bytes(1024)


def npy(header, values=b"", version=(1, 0), magic=b"\x93NUMPY"):
    """Return an .npy file with any header."""
    text = header if isinstance(header, bytes) else header.encode()
    length = struct.pack("<H" if version == (1, 0) else "<I", len(text))
    return magic + bytes(version) + length + text + values


def described(values=b"", dtype="<f4", shape="(2,)", **more):
    return npy(f"{{'descr': '{dtype}', 'fortran_order': False, 'shape': {shape}, }}\n", values, **more)


def zipped(compression=zipfile.ZIP_DEFLATED, **arrays):
    buffer = io.BytesIO()
    with zipfile.ZipFile(buffer, "w", compression) as archive:
        for name, content in arrays.items():
            archive.writestr(f"{name}.npy", content)
    return buffer.getvalue()


def saved(save=np.savez_compressed, **arrays):
    buffer = io.BytesIO()
    save(buffer, **arrays)
    return buffer.getvalue()


def plain(*parts):
    return gzip.compress(b"".join(parts), mtime=0, compresslevel=1)


def flipped(position):
    block = bytearray(header("a.bin", 0))
    block[position] ^= 1
    return bytes(block)


READERS = {
    "a.idx": read_idx,
    "a.npz": lambda path: read_arrays(path, "a"),
    "a.tar.gz": lambda path: read_members(path, ["a.bin"]),
}


@pytest.fixture
def read(tmp_path):
    def reading(name, content, reader=None):
        (tmp_path / name).write_bytes(content)
        return (reader or READERS[name])(tmp_path / name)

    return reading


@pytest.mark.parametrize("pack", [bytes, gzip.compress])
@pytest.mark.parametrize("code", CODES)
def test_every_type_of_idx_files(code, pack, read):
    whole = (np.arange(24).reshape(2, 3, 4) - (0 if code == "u1" else 7)).astype(code)
    for array in (whole, whole[:0], whole[0, 0]):
        found = read("a.idx", pack(idx(array)))
        assert found.dtype == array.dtype
        assert np.array_equal(found, array)


@pytest.mark.parametrize("save", [np.savez, np.savez_compressed])
@pytest.mark.parametrize("dtype", ["?", "u1", "<i2", ">i4", "<i8", "<f2", ">f4", "<f8"])
def test_every_kind_of_number_in_npz_files_as_numpy_loads_it(save, dtype, read):
    array = (ARRAY % 5).astype(dtype)
    content = saved(save, a=array, b=np.asfortranarray(array), c=array[0, 0, 0], d=array[:0])
    with np.load(io.BytesIO(content), allow_pickle=False) as loaded:
        for name, found in zip("abcd", read("a.npz", content, lambda path: read_arrays(path, "abcd")), strict=True):
            assert np.array_equal(found, loaded[name])
            assert (found.dtype, found.shape) == (loaded[name].dtype.newbyteorder("="), loaded[name].shape)
            assert found.flags.c_contiguous and found.flags.writeable
    assert read("a.npz", zipped(a=described(struct.pack("<2f", 1, 2), version=(2, 0))))[0].tolist() == [1, 2]


def test_chosen_members_of_an_archive_never_leave_the_memory(read, tmp_path):
    """Absolute names, parent directories and links are names like any other, or none."""
    assert read("a.tar.gz", ARCHIVE, lambda path: read_members(path, list(FILES))) == FILES
    assert read("a.tar.gz", ARCHIVE, lambda path: read_members(path, ["c.bin"])) == {"c.bin": FILES["c.bin"]}
    content = plain(header("../../a.bin", 3), b"one".ljust(512, b"\0"), header("/etc/b.bin", 0), header("c.bin", 0, b"2"), END)
    assert read("a.tar.gz", content, lambda path: read_members(path, ["a.bin", "b.bin"])) == {"a.bin": b"one", "b.bin": b""}
    assert [path.name for path in tmp_path.iterdir()] == ["a.tar.gz"]
    with pytest.raises(ValueError, match=r"must contain c\.bin, it lacks c\.bin"):
        read("a.tar.gz", content, lambda path: read_members(path, ["c.bin"]))


PACKED = gzip.compress(idx(ARRAY), mtime=0)
NUMBERS = "must hold booleans, integers or floats, its header is"
DAMAGED = {
    "a.idx": [
        (b"", "is not an IDX file: it begins with the bytes $"),
        (b"PK\x03\x04" + bytes(50), "begins with the bytes 50 4b 03 04"),
        (b"\0\0\x0a\x01" + bytes(50), "is not an IDX file"),
        (b"\0\0\x08\x00" + bytes(50), "is not an IDX file"),
        (b"\0\0\x08\xff" + bytes(2000), "is not an IDX file"),
        (idx(ARRAY)[:10], "ends within its header"),
        (idx(ARRAY)[:-1], r"must hold 24 bytes of values for its shape \(2, 3, 4\), it has only 23"),
        (idx(ARRAY) + b"x", r"must hold 24 bytes .* it has more"),
        (b"\0\0\x08\x02" + b"\xff" * 8, "must hold at most 2147483648 bytes of values"),
        (gzip.compress(idx(ARRAY)[:-1], mtime=0), "it has only 23"),
        (PACKED[:-1], "is a damaged gzip file"),
        (PACKED[:20], "is a damaged gzip file"),
        (PACKED[:-8] + bytes(8), "is a damaged gzip file: CRC check failed"),
        (PACKED[:10] + b"\xff" * 20, "is a damaged gzip file"),
        (b"\x1f\x8bxx", "is a damaged gzip file"),
    ],
    "a.npz": [
        (b"PK\x03\x04 and no more", "is no .npz file: File is not a zip file"),
        (saved(x=ARRAY, y=ARRAY), "has no array 'a', it has: x, y"),
        (saved(a=np.array([{}, print], object)), rf"array 'a' of '.*' {NUMBERS} .*O"),
        (zipped(zipfile.ZIP_STORED, a=described(b"\1" * 8)).replace(b"\1" * 8, bytes(8)), "is damaged: Bad CRC-32"),
        (zipped(zipfile.ZIP_LZMA, a=described(bytes(8))), "must be stored plainly or by deflate"),
        *((zipped(a=array), f"array 'a' of '.*a.npz'.*({text})") for array, text in [
            (b"", "no .npy file of version 1 or 2: it begins with the bytes $"),
            (described(magic=b"\x93NUMPX"), "no .npy file of version 1 or 2"),
            (described(version=(3, 0)), "no .npy file of version 1 or 2"),
            (npy(b"x" * 10001), "must have a header of at most 10000 bytes, got 10001"),
            (npy(b"\0" * 10, version=(2, 0))[:8] + b"\xff" * 4, "must have a header of at most 10000 bytes, got 4294967295"),
            (npy("__import__('os').getpid()"), f'{NUMBERS} "__import__'),
            *((described(shape=shape), NUMBERS) for shape in ("(-2,)", "(2, -1)", "2", "(2.0,)", "(" * 5000)),
            *((described(dtype=dtype), "must hold booleans, integers or floats") for dtype in ("|S4", "<U4", "<c8", "<M8")),
            (npy("{'descr': [('a', '<f4')], 'fortran_order': False, 'shape': (2,), }"), "must hold booleans"),
            (described(dtype="<f3"), "has an unknown dtype, '<f3'"),
            (described(dtype="<f99999999999999999999"), "has an unknown dtype"),
            (described(dtype="<f16"), "(at most 64 bits, got dtype|unknown dtype)"),
            (described(shape="(" + "1, " * 33 + ")"), "must have at most 32 axes"),
            (described(shape="(0, 999999999999999999)"), "must fit into 2147483648 bytes"),
            (described(shape="(999999, 999999)"), r"must fit into 2147483648 bytes, its shape \(999999, 999999\)"),
            (described(bytes(7)), r"must hold 8 bytes of values for its shape \(2,\), it has only 7"),
            (described(bytes(9)), "must hold 8 bytes .* it has more"),
        ]),
    ],
    "a.tar.gz": [
        (b"", "(is a damaged gzip file|ends within)"),
        (b"no gzip", "is a damaged gzip file"),
        (ARCHIVE[:-1], "is a damaged gzip file"),
        (ARCHIVE[:100], "is a damaged gzip file"),
        (ARCHIVE[:-8] + bytes(8), "is a damaged gzip file: CRC check failed"),
        (plain(b"short"), "ends within a file of its archive"),
        (plain(b"PK".ljust(512, b"x"), END), "is not a tar archive, or a damaged one"),
        (plain(flipped(0), END), "is not a tar archive, or a damaged one"),
        (plain(flipped(150), END), "is not a tar archive, or a damaged one"),
        (plain(header("a.bin", 9), b"short"), "ends within a file of its archive"),
        (plain(header("z.bin", 999999), b"short"), "ends within a file of its archive"),
        (plain(header("a.bin", 0), header("x/a.bin", 0), END), "contains 'a.bin' twice"),
        (plain(END), r"must contain a\.bin, it lacks a\.bin"),
        (plain(header("z", 0) * 1001, END), "must have at most 1000 members"),
    ],
}  # fmt: skip


@pytest.mark.parametrize(("name", "content", "text"), [(name, *row) for name, rows in DAMAGED.items() for row in rows])
def test_a_damaged_file_is_named(name, content, text, read):
    with pytest.raises(ValueError, match=text if text.startswith("array") else f"{name}.*{text}"):
        read(name, content)


MILLIONS = bytes(32 << 20)


@pytest.mark.parametrize(
    ("name", "content", "text", "most"),
    [
        ("a.idx", b"\0\0\x08\x01\x7f\xff\xff\xff" + bytes(100), "bytes of values", 8),
        ("a.idx", gzip.compress(b"\0\0\x08\x01\0\0\0\x64" + MILLIONS), "bytes of values", 8),
        ("a.npz", zipped(a=described(bytes(100), "|u1", f"({2 << 30},)")), "it has only 100|must fit into 4194304 bytes", 8),
        ("a.npz", zipped(a=described(MILLIONS, "|u1", f"({32 << 20},)")), "must fit into 4194304 bytes", 8),
        *(
            ("a.tar.gz", plain(start, MILLIONS), "must have at most 4194304 bytes unpacked", 12)
            for start in (
                header("a.bin", 7 << 30),
                header("z.bin", 32 << 20),
                header("z.bin", 7 << 30, b"x"),  # an extended header
                header("a.bin", 0) + END,
            )
        ),
    ],
)
def test_memory_follows_the_file_and_not_its_claims(name, content, text, most, read, monkeypatch):
    """Headers that claim gigabytes, and files of kilobytes that unpack to 32 MiB."""
    monkeypatch.setattr(npz, "_MAX_BYTES", 4 << 20)
    monkeypatch.setattr(cifar, "_MAX_UNPACKED", 4 << 20)
    tracemalloc.start()
    with pytest.raises(ValueError, match=text):
        read(name, content)
    _, peak = tracemalloc.get_traced_memory()
    tracemalloc.stop()
    assert peak < most << 20


def test_the_arrays_of_a_file_share_its_measure(read, monkeypatch):
    claims = zipped(a=described(bytes(100), "|u1", f"({2 << 30},)"))
    with pytest.raises(ValueError, match="it has only 100"):
        read("a.npz", claims)
    monkeypatch.setattr(npz, "_MAX_BYTES", 12)
    with pytest.raises(ValueError, match=r"array 'b' of .* must fit into 4 bytes"):
        read("a.npz", zipped(a=described(bytes(8)), b=described(bytes(8))), lambda path: read_arrays(path, "ab"))


SAVED = saved(a=np.arange(24, dtype=np.float32).reshape(8, 3), b=np.arange(8) % 3)
UNPACKED = gzip.decompress(ARCHIVE)


@settings(max_examples=80, deadline=None, database=None)
@given(data=st.data())
@pytest.mark.parametrize(("name", "whole", "pack"), [("a.npz", SAVED, bytes), ("a.tar.gz", UNPACKED, plain)])
def test_no_damage_escapes(name, whole, pack, data, tmp_path_factory):
    """Whatever happens to a file, the answer is its content or a ValueError that names it."""
    content = bytearray(whole)
    for place in data.draw(st.lists(st.integers(0, len(content) - 1), max_size=4)):
        content[place] = data.draw(st.integers(0, 255))
    content = pack(bytes(content[: data.draw(st.integers(0, len(content)))]))
    path = tmp_path_factory.getbasetemp() / name
    path.write_bytes(content[: data.draw(st.integers(len(content) // 2, len(content)))])
    try:
        found = READERS[name](path)
    except ValueError as error:
        assert name in str(error)
    else:
        assert list(found) == ["a.bin"] if name == "a.tar.gz" else found[0].dtype.kind in "biuf"
