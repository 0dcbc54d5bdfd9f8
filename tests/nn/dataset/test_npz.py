"""Arrays in .npz files: what comes back, and everything that can be wrong with a file."""

import io
import struct
import tracemalloc
import zipfile

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from nn.dataset import NpzDataset, npz
from nn.dataset.npz import read_arrays

X = np.arange(24, dtype=np.float32).reshape(8, 3)
Y = np.arange(8) % 3


def npy(header, values=b"", version=(1, 0), magic=b"\x93NUMPY"):
    """Return an .npy file with any header."""
    text = header if isinstance(header, bytes) else header.encode()
    length = struct.pack("<H" if version == (1, 0) else "<I", len(text))
    return magic + bytes(version) + length + text + values


def described(dtype="<f4", fortran=False, shape="(2,)"):
    return f"{{'descr': '{dtype}', 'fortran_order': {fortran}, 'shape': {shape}, }}\n"


def zipped(path, files, compression=zipfile.ZIP_DEFLATED):
    with zipfile.ZipFile(path, "w", compression) as archive:
        for name, content in files.items():
            archive.writestr(name, content)
    return path


@pytest.mark.parametrize("save", [np.savez, np.savez_compressed])
@pytest.mark.parametrize("dtype", ["?", "u1", "<i2", ">i4", "<i8", "<f2", ">f4", "<f8"])
def test_every_kind_of_number_as_numpy_loads_it(save, dtype, tmp_path):
    array = (np.arange(24).reshape(2, 3, 4) % 5).astype(dtype)
    save(tmp_path / "a.npz", a=array, b=np.asfortranarray(array), c=array[0, 0, 0], d=array[:0])
    for name, read in zip("abcd", read_arrays(tmp_path / "a.npz", "abcd"), strict=True):
        with np.load(tmp_path / "a.npz", allow_pickle=False) as content:
            assert np.array_equal(read, content[name])
            assert read.dtype == content[name].dtype.newbyteorder("=")
            assert read.shape == content[name].shape
        assert read.flags.c_contiguous
        assert read.flags.writeable


def test_version_2_of_the_format(tmp_path):
    zipped(tmp_path / "a.npz", {"a.npy": npy(described(), struct.pack("<2f", 1, 2), version=(2, 0))})
    assert read_arrays(tmp_path / "a.npz", "a")[0].tolist() == [1, 2]


def test_objects_are_refused_before_anything_is_made_of_them(tmp_path):
    np.savez(tmp_path / "a.npz", a=np.array([{}, print], object))
    with pytest.raises(ValueError, match=r"array 'a' of .*a.npz' must hold booleans, integers or floats, its header is .*O"):
        read_arrays(tmp_path / "a.npz", "a")


TOO_LONG = "(" + "1, " * 33 + ")"


@pytest.mark.parametrize(
    ("content", "text"),
    [
        (b"", "no .npy file of version 1 or 2: it begins with the bytes $"),
        (npy(described(), magic=b"\x93NUMPX"), "no .npy file of version 1 or 2"),
        (npy(described(), version=(3, 0)), "no .npy file of version 1 or 2"),
        (npy(b"x" * 10001), "must have a header of at most 10000 bytes, got 10001"),
        (npy(b"\0" * 10, version=(2, 0))[:8] + b"\xff" * 4, "a header of at most 10000 bytes, got 4294967295"),
        (npy("__import__('os').getpid()"), 'must hold booleans, integers or floats, its header is "__import__'),
        (npy(described(shape="(-2,)")), "must hold booleans, integers or floats, its header is"),
        (npy(described(shape="(2, -1)")), "its header is"),
        (npy(described(shape="2")), "its header is"),
        (npy(described(shape="(2.0,)")), "its header is"),
        (npy(described(shape="(" * 5000)), "its header is"),
        (npy(described(dtype="|S4")), "must hold booleans, integers or floats"),
        (npy(described(dtype="<U4")), "must hold booleans, integers or floats"),
        (npy(described(dtype="<c8")), "must hold booleans, integers or floats"),
        (npy(described(dtype="<M8")), "must hold booleans, integers or floats"),
        (npy("{'descr': [('a', '<f4')], 'fortran_order': False, 'shape': (2,), }"), "must hold booleans"),
        (npy(described(dtype="<f3")), "has an unknown dtype, '<f3'"),
        (npy(described(dtype="<f99999999999999999999")), "has an unknown dtype"),
        (npy(described(dtype="<f16")), "(at most 64 bits, got dtype|unknown dtype)"),
        (npy(described(shape=TOO_LONG)), "must have at most 32 axes"),
        (npy(described(shape="(0, 999999999999999999)")), "must fit into 2147483648 bytes"),
        (npy(described(shape="(999999, 999999)")), r"must fit into 2147483648 bytes, its shape \(999999, 999999\)"),
        (npy(described(), bytes(7)), r"must hold 8 bytes of values for its shape \(2,\), it has only 7"),
        (npy(described(), bytes(9)), "must hold 8 bytes .* it has more"),
    ],
)
def test_a_damaged_array_is_named(content, text, tmp_path):
    with pytest.raises(ValueError, match=f"array 'a' of '.*a.npz'.*{text}"):
        read_arrays(zipped(tmp_path / "a.npz", {"a.npy": content}), "a")


def test_files_that_are_no_archives_or_lack_an_array(tmp_path):
    (tmp_path / "a.npz").write_bytes(b"PK\x03\x04 and no more")
    with pytest.raises(ValueError, match=r"a.npz' is no .npz file: File is not a zip file"):
        read_arrays(tmp_path / "a.npz", "a")
    np.savez(tmp_path / "b.npz", x=X, y=Y)
    with pytest.raises(ValueError, match=r"b.npz' has no array 'a', it has: x, y"):
        read_arrays(tmp_path / "b.npz", "a")
    zipped(tmp_path / "c.npz", {"a.npy": npy(described(), bytes(8))}, zipfile.ZIP_LZMA)
    with pytest.raises(ValueError, match="must be stored plainly or by deflate"):
        read_arrays(tmp_path / "c.npz", "a")


def test_memory_follows_the_file_and_not_its_claims(tmp_path, monkeypatch):
    """A header that claims 2 GiB, and an archive of 32 KiB that unpacks to 32 MiB."""
    claims = npy(described(dtype="|u1", shape=f"({2 << 30},)"), bytes(100))
    unpacks = npy(described(dtype="|u1", shape=f"({32 << 20},)"), bytes(32 << 20))
    zipped(tmp_path / "a.npz", {"a.npy": claims})
    zipped(tmp_path / "b.npz", {"a.npy": unpacks})
    small = zipped(tmp_path / "c.npz", {"a.npy": npy(described(), bytes(8)), "b.npy": npy(described(), bytes(8))})
    del unpacks
    tracemalloc.start()
    with pytest.raises(ValueError, match="it has only 100"):
        read_arrays(tmp_path / "a.npz", "a")
    monkeypatch.setattr(npz, "_MAX_BYTES", 4 << 20)
    with pytest.raises(ValueError, match="bytes"):
        read_arrays(tmp_path / "b.npz", "a")
    _, peak = tracemalloc.get_traced_memory()
    tracemalloc.stop()
    assert peak < 8 << 20
    monkeypatch.setattr(npz, "_MAX_BYTES", 12)
    with pytest.raises(ValueError, match=r"array 'b' of .* must fit into 4 bytes"):
        read_arrays(small, "ab")


def saved():
    buffer = io.BytesIO()
    np.savez_compressed(buffer, x=X, y=Y)
    return buffer.getvalue()


SAVED = saved()


@settings(max_examples=80, deadline=None, database=None)
@given(data=st.data())
def test_no_damage_escapes(data, tmp_path_factory):
    """Whatever happens to a file, the answer is arrays or a ValueError that names it."""
    content = bytearray(SAVED)
    for place in data.draw(st.lists(st.integers(0, len(content) - 1), max_size=4)):
        content[place] = data.draw(st.integers(0, 255))
    path = tmp_path_factory.getbasetemp() / "damaged.npz"
    path.write_bytes(content[: data.draw(st.integers(len(content) // 2, len(content)))])
    try:
        x, y = read_arrays(path, "xy")
    except ValueError as error:
        assert "damaged.npz" in str(error)
    else:
        assert x.dtype.kind in "biuf"
        assert y.dtype.kind in "biuf"


@pytest.fixture
def files(tmp_path):
    np.savez(tmp_path / "both.npz", x=X, y=Y, test_x=X[:2], test_y=Y[:2])
    np.savez(tmp_path / "other.npz", x=X[:3], y=Y[:3], a=X[:4], b=Y[:4])
    return tmp_path


def lengths(*arguments, **more):
    return [len(array) for array in NpzDataset(*arguments, **more).load()]


def test_where_the_test_part_comes_from(files):
    both, other = files / "both.npz", files / "other.npz"
    assert lengths(both, test_x="test_x", test_y="test_y") == [8, 8, 2, 2]
    assert lengths(both, test_path=other) == [8, 8, 3, 3]
    assert lengths(both, test_path=other, test_x="a", test_y="b") == [8, 8, 4, 4]
    assert lengths(both, test_fraction=0.25) == [6, 6, 2, 2]
    train_x, train_y, test_x, _ = NpzDataset(both, seed=5).load()
    assert np.array_equal(np.sort(np.concatenate([train_x, test_x]), axis=0), X)
    assert np.array_equal(train_x[:, 0] / 3 % 3, train_y)


def test_a_relative_path_also_counts_from_the_data_directory(files, monkeypatch, tmp_path):
    monkeypatch.chdir(tmp_path / "..")
    with pytest.raises(FileNotFoundError, match=r"NpzDataset finds no file 'both.npz'. Put it there, .* Searched: '/"):
        NpzDataset("both.npz").load()
    monkeypatch.setenv("PSGD_DATA", str(files))
    assert lengths("both.npz") == [6, 6, 2, 2]
    with pytest.raises(FileNotFoundError, match=f"Searched: '.*/nowhere.npz', '{files}/nowhere.npz'"):
        NpzDataset("nowhere.npz").load()


@pytest.mark.parametrize(
    ("arguments", "error", "text"),
    [
        ({"test_x": "test_x"}, ValueError, "'test_x' and 'test_y' must be given together, got 'test_x' and None"),
        ({"x": 3}, TypeError, "'x' must be the name of an array, got 3"),
        ({"test_x": 3}, TypeError, "'test_x' must be the name of an array, got 3"),
        ({"test_fraction": 0}, ValueError, "'test_fraction' must be a number > 0 and < 1, got 0"),
        ({"seed": -1}, ValueError, "'seed' must be an integer of at least 0, got -1"),
        ({"y": "z"}, ValueError, "has no array 'z', it has: x, y, test_x, test_y"),
        ({"y": "test_y"}, ValueError, r"'x' must hold samples and 'test_y' as many labels, got shapes \(8, 3\) and \(2,\)"),
        ({"test_x": "y", "test_y": "y"}, ValueError, r"must be alike, got float32 \(8, 3\) .* and int64 \(8,\)"),
    ],
)
def test_what_does_not_fit_is_named(arguments, error, text, files):
    with pytest.raises(error, match=text):
        NpzDataset(files / "both.npz", **arguments).load()
