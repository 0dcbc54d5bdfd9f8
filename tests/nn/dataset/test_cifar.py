"""CIFAR from archives, from unpacked files, and from a web server on loopback."""

import hashlib

import numpy as np
import pytest

from nn.dataset import CIFAR10, CIFAR100, cifar

from .cifar_files import members, packed
from .idx_files import put
from .web import nobody, serving

KINDS = [CIFAR10, CIFAR100]


def archive_name(kind):
    return next(iter(kind.checksums))


def expected(kind, column):
    """Return the four arrays, pixel by pixel as the layout says."""
    files, first = members(kind), len(kind.label_bytes)
    parts = []
    for names in (kind.train_files, [kind.test_file]):
        rows = [row for name in names for row in np.frombuffer(files[name], np.uint8).reshape(-1, first + 3072)]
        images = np.zeros((len(rows), 32, 32, 3), np.uint8)
        for number, row in enumerate(rows):
            for colour in range(3):
                images[number, :, :, colour] = row[first + 1024 * colour :][:1024].reshape(32, 32)
        parts += [images, np.array([row[column] for row in rows])]
    return parts


def assert_loaded(arrays, kind, column):
    for array, wanted in zip(arrays, expected(kind, column), strict=True):
        assert array.dtype == np.uint8
        assert array.flags.c_contiguous
        assert np.array_equal(array, wanted)


def test_the_published_archives_are_the_binary_ones():
    """The sums of the page https://www.cs.toronto.edu/~kriz/cifar.html."""
    assert CIFAR10.checksums == {"cifar-10-binary.tar.gz": "c32a1d4ab5d03f1284b67883e8d87530"}
    assert CIFAR100.checksums == {"cifar-100-binary.tar.gz": "03b5dce01913d631647c71ecec9e9cb8"}


@pytest.mark.parametrize("kind", KINDS)
def test_archive_and_unpacked_files(kind, tmp_path):
    column = len(kind.label_bytes) - 1
    put(tmp_path / "archive", {archive_name(kind): packed(members(kind), kind.folder)})
    put(tmp_path / "plain", members(kind))
    put(tmp_path / "unpacked" / kind.folder, members(kind))
    for place in ("archive", "plain", "unpacked"):
        assert_loaded(kind(tmp_path / place).load(download=False), kind, column)


def test_cifar100_has_two_kinds_of_labels(tmp_path):
    put(tmp_path, members(CIFAR100))
    assert_loaded(CIFAR100(tmp_path, labels="fine").load(), CIFAR100, 1)
    assert_loaded(CIFAR100(tmp_path, labels="coarse").load(), CIFAR100, 0)
    for wrong in ("labels", ["fine"]):
        with pytest.raises(ValueError, match="CIFAR100 'labels' must be one of coarse, fine, got"):
            CIFAR100(labels=wrong)


@pytest.mark.parametrize("kind", KINDS)
def test_a_download_fills_the_cache_once(kind, tmp_path, monkeypatch):
    name, content = archive_name(kind), packed(members(kind), kind.folder)
    monkeypatch.setattr(kind, "checksums", {name: hashlib.md5(content).hexdigest()})
    with serving({name: content}) as server:
        server.cut_after = len(content) // 2 + 1
        for _ in range(2):
            assert_loaded(kind(mirrors=[nobody(), server.url]).load(), kind, len(kind.label_bytes) - 1)
        assert [asked for asked, _ in server.requests] == [name, name]
    assert [path.name for path in (tmp_path / "cache" / "psgd" / kind.__name__.lower()).iterdir()] == [name]


def test_the_python_version_is_no_substitute(tmp_path):
    put(tmp_path, {"cifar-10-python.tar.gz": b"", "data_batch_1": b""})
    with pytest.raises(FileNotFoundError, match=r"CIFAR10 needs the binary version.*lacks cifar-10-binary\.tar\.gz"):
        CIFAR10(tmp_path).load()


@pytest.mark.parametrize(
    ("name", "content", "text"),
    [
        ("data_batch_3.bin", b"", r"'data_batch_3.bin' in '.*' must hold images of 3073 bytes each, it has 0 bytes"),
        ("test_batch.bin", bytes(3074), "'test_batch.bin' in '.*' must hold images of 3073 bytes each, it has 3074"),
        ("test_batch.bin", b"\x0a" + bytes(3072), "'test_batch.bin' in '.*' must have labels below 10, one is 10"),
    ],
)
def test_damaged_files_are_named(name, content, text, tmp_path):
    put(tmp_path / "plain", {**members(CIFAR10), name: content})
    put(tmp_path / "archive", {archive_name(CIFAR10): packed({**members(CIFAR10), name: content}, CIFAR10.folder)})
    for place in ("plain", "archive"):
        with pytest.raises(ValueError, match=text):
            CIFAR10(tmp_path / place).load()


def test_labels_of_both_kinds_are_checked(tmp_path):
    put(tmp_path, {**members(CIFAR100), "test.bin": b"\x14\x00" + bytes(3072)})
    with pytest.raises(ValueError, match="must have coarse below 20, one is 20"):
        CIFAR100(tmp_path).load()


def test_a_file_beyond_all_measure_is_refused(tmp_path, monkeypatch):
    monkeypatch.setattr(cifar, "_MAX_BYTES", 5000)
    put(tmp_path, members(CIFAR10))
    with pytest.raises(ValueError, match=r"data_batch_1.bin' must have at most 5000 bytes"):
        CIFAR10(tmp_path).load()
