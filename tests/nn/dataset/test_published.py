"""MNIST, its relatives, CIFAR and the digits: from directories, the cache, and a web server on loopback that misbehaves."""

import hashlib
import io
import os
import re
import sys
import threading
from pathlib import Path

import numpy as np
import pytest

import nn.dataset
from nn.dataset import CIFAR10, CIFAR100, KMNIST, MNIST, ArrayDataset, Digits, FashionMNIST, NpzDataset, cifar, download
from nn.dataset.download import DownloadError, fetch
from nn.dataset.idx import read_idx
from nn.dataset.transforms import Dirichlet, Normalize, Shuffle, True_Non_IID

from .cifar_files import members, packed
from .idx_files import checksums, compressed, idx, put, small_mnist
from .web import nobody, serving, silent

CONTENT = bytes(range(256)) * 1000
MD5, WRONG = (hashlib.md5(content).hexdigest() for content in (CONTENT, CONTENT + b"x"))
FILES = small_mnist()
PUBLISHED = compressed(FILES)
SHAPES = [(12, 3, 2), (12,), (5, 3, 2), (5,)]
RELATIVES = [FashionMNIST, KMNIST]


class SmallMNIST(MNIST):
    """A relative of MNIST whose published files are small."""

    checksums = checksums(PUBLISHED)
    name = "mnist"


@pytest.fixture
def server():
    with serving({"a.gz": CONTENT, **PUBLISHED}) as running:
        yield running


@pytest.mark.parametrize(
    ("faults", "asked"),
    [
        ({}, [None]),
        ({"tells_length": False}, [None]),
        ({"cut_after": 100_000}, [None, "bytes=100000-", "bytes=200000-"]),
        ({"cut_after": 100_000, "cuts": 1, "knows_ranges": False}, [None, "bytes=100000-"]),
    ],
)
def test_a_download_asks_for_no_more_than_it_lacks(faults, asked, server):
    vars(server).update(faults)
    assert fetch("a.gz", [server.url + "/"], MD5) == CONTENT
    assert server.requests == [("a.gz", place) for place in asked]


@pytest.mark.parametrize(
    ("faults", "text"),
    [
        ({"cut_after": 10}, "the transfer broke off"),
        ({"cut_after": 100_000, "knows_ranges": False}, "the transfer broke off"),
        ({"cut_after": 100_000, "shift": 5}, "another range than bytes=100000-"),
        ({"files": {"a.gz": CONTENT + b"x"}}, f"has MD5 {WRONG}, the published one has {MD5}"),
        ({"files": {}}, "HTTP Error 404"),
    ],
)  # fmt: skip
def test_a_mirror_that_fails_has_its_reason_and_the_next_is_asked(faults, text, server):
    with serving({"a.gz": CONTENT}) as good:
        vars(server).update(faults)
        absent = nobody()
        with pytest.raises(DownloadError, match=f"{server.url}/a.gz: .*{text}.*{absent}/a.gz: <urlopen error"):
            fetch("a.gz", [server.url, absent], MD5)
        assert len(server.requests) <= 5, "attempts are limited"
        assert fetch("a.gz", [server.url, good.url], MD5) == CONTENT


def test_what_is_no_mirror(server, monkeypatch, tmp_path):
    with pytest.raises(DownloadError, match="no mirror to ask"):
        fetch("a.gz", [], MD5)
    (tmp_path / "a.gz").write_bytes(CONTENT)
    with pytest.raises(ValueError, match="a mirror must be an http or https URL, got 'file:"):
        fetch("a.gz", [tmp_path.as_uri()], MD5)
    monkeypatch.setattr(download, "_MAX_BYTES", 100_000)
    with pytest.raises(DownloadError, match="at most 100000 bytes"):
        fetch("a.gz", [server.url], MD5)


@pytest.mark.slow
def test_a_silent_server_is_left_after_the_time_out():
    with silent() as url, pytest.raises(DownloadError, match="timed out"):
        fetch("a.gz", [url], MD5, timeout=0.1)


@pytest.mark.parametrize("terminal", [False, True])
def test_progress_is_shown_on_a_terminal_only_and_leaves_no_thread(terminal, server, monkeypatch):
    stream = io.StringIO()
    stream.isatty = lambda: terminal
    monkeypatch.setattr(sys, "stderr", stream)
    before = threading.enumerate()  # what a bar of `fit` has left is there to stay
    fetch("a.gz", [server.url], MD5)
    assert ("a.gz: 100%" in stream.getvalue()) is terminal
    started = [thread for thread in threading.enumerate() if thread not in before]
    assert not [thread for thread in started if type(thread).__module__.startswith("tqdm")]


def assert_mnist(arrays):
    for array, (name, content), shape in zip(arrays, FILES.items(), SHAPES, strict=True):
        assert array.shape == shape
        assert idx(array) == content, name


@pytest.mark.parametrize("files", [FILES, PUBLISHED])
@pytest.mark.parametrize("spelled", ["-idx", ".idx"])
def test_a_directory_with_plain_or_compressed_files_in_both_spellings(files, spelled, tmp_path):
    """Conventions: both spellings, plain or .gz, any number of samples."""
    directory = put(tmp_path / "mine", {name.replace("-idx", spelled): content for name, content in files.items()})
    assert_mnist(MNIST(directory).load())
    assert_mnist(MNIST(directory=str(directory)).load(download=False))


def test_the_argument_goes_before_the_environment_and_that_before_the_cache(tmp_path, monkeypatch):
    """Conventions: an argument, else $PSGD_DATA/<name>, else $PSGD_DATA itself, else the cache."""
    places = [tmp_path / place for place in ("mine", "data/mnist", "data", "cache/psgd/mnist")]
    for count, place in enumerate(places, start=1):
        put(place, {**FILES, "t10k-images-idx3-ubyte": idx(np.zeros((count, 3, 2), np.uint8))})
        put(place, {"t10k-labels-idx1-ubyte": idx(np.zeros(count, np.uint8))})

    def loaded(data="data", **arguments):
        monkeypatch.setenv("PSGD_DATA", str(tmp_path / data))
        return len(MNIST(**arguments).load(download=False)[2])

    assert loaded(directory=places[0]) == 1
    assert loaded() == 2
    for file in places[1].iterdir():
        file.unlink()
    assert loaded() == 3
    assert loaded("elsewhere") == 4
    monkeypatch.setenv("XDG_CACHE_HOME", "relative")
    monkeypatch.setenv("HOME", str(tmp_path))  # without XDG the cache is below home
    put(tmp_path / ".cache" / "psgd" / "mnist", FILES)
    assert loaded("elsewhere") == 5


@pytest.mark.parametrize("by", ["argument", "environment"])
def test_a_directory_with_only_the_test_files_is_explained(by, tmp_path, monkeypatch):
    directory = put(tmp_path / "mnist", {name: file for name, file in PUBLISHED.items() if name.startswith("t10k")})
    monkeypatch.setenv("PSGD_DATA", str(tmp_path))
    with pytest.raises(FileNotFoundError) as caught:
        (MNIST(directory) if by == "argument" else MNIST()).load()
    for part in (
        f"'{directory}' has t10k-images-idx3-ubyte, t10k-labels-idx1-ubyte",
        "it lacks train-images-idx3-ubyte, train-labels-idx1-ubyte.",
        "nn.dataset.idx.read_idx",
    ):
        assert part in str(caught.value)


@pytest.mark.parametrize(
    ("name", "array", "text"),
    [
        ("train-labels-idx1-ubyte", np.zeros(11, np.uint8), r"uint8 \(12, 3, 2\) and uint8 \(11,\)"),
        ("t10k-labels-idx1-ubyte", np.zeros((5, 1), np.uint8), r"uint8 \(5, 3, 2\) and uint8 \(5, 1\)"),
        ("t10k-labels-idx1-ubyte", np.zeros(5, np.float32), r"and float32 \(5,\)"),
        ("train-images-idx3-ubyte", np.zeros((12, 6), np.uint8), r"uint8 \(12, 6\) and"),
    ],
)
def test_files_that_do_not_belong_together_are_named(name, array, text, tmp_path):
    put(tmp_path / "mine", {**FILES, name: idx(array)})
    with pytest.raises(ValueError, match=f"{name[:5]}.* as many integer labels .*got .*{text}"):
        MNIST(tmp_path / "mine").load()


def test_the_network_is_asked_once_for_what_the_cache_lacks_and_never_unless_allowed(server, tmp_path):
    data, cache, names = SmallMNIST(mirrors=[server.url]), tmp_path / "cache/psgd/mnist", list(PUBLISHED)
    with pytest.raises(FileNotFoundError, match=r"'.*' has none of them, it lacks train-images"):
        SmallMNIST(tmp_path, mirrors=[server.url]).load()  # a directory that was asked for
    with pytest.raises(FileNotFoundError, match="not on this machine and a download was not allowed"):
        data.load(download=False)
    assert server.requests == []
    forged = {**server.files, names[3]: PUBLISHED[names[1]]}
    honest, server.files = server.files, forged
    with pytest.raises(FileNotFoundError, match=rf"{names[3]}: the file has MD5"):
        data.load()
    assert not (cache / names[3]).exists()
    server.files, server.cut_after, before = honest, 60, len(server.requests)
    assert_mnist(data.load())
    fetched = server.requests[before:]
    assert {name for name, _ in fetched} == {names[3]} | {name for name in names[:3] if not (cache / name).exists()}
    for file in cache.iterdir():
        file.unlink()
    before = len(server.requests)
    assert_mnist(data.load())
    assert {name for name, _ in server.requests[before:]} == set(PUBLISHED)
    assert len(server.requests) > before + 4
    before = len(server.requests)
    assert_mnist(data.load())
    assert len(server.requests) == before
    assert sorted(path.name for path in cache.iterdir()) == sorted(PUBLISHED)


def test_offline_the_error_says_what_to_do(tmp_path, monkeypatch):
    monkeypatch.setenv("PSGD_DATA", str(tmp_path / "data"))
    with pytest.raises(FileNotFoundError) as caught:
        MNIST(mirrors=[nobody()]).load()
    for part in (
        *MNIST.checksums,
        "MNIST is not on this machine and the download failed (http://127.0.0.1:",
        "into one directory and set PSGD_DATA to it, or pass MNIST(directory=...)",
        *(f"'{tmp_path / place}'" for place in ("data/mnist", "data", "cache/psgd/mnist")),
    ):
        assert part in str(caught.value)
    assert not (tmp_path / "cache").exists()


def test_published_checksums():
    """A digest of the eight sums of torchvision/datasets/mnist.py, and those of the page of CIFAR."""
    parts = [name.partition("-idx")[0] for name in MNIST.checksums]
    assert parts == ["train-images", "train-labels", "t10k-images", "t10k-labels"]
    assert all(re.fullmatch("[0-9a-f]{32}", md5) for md5 in MNIST.checksums.values())
    text = "".join(md5 for kind in RELATIVES for md5 in kind.checksums.values())
    assert text.startswith("8d4fb7e6c68d591d4c3dfef9ec88bf0d25c81989df183df0")
    assert hashlib.sha256(text.encode()).hexdigest() == "6ac243da33db058e5eafb7a96479688641c51b08739f6a6213e39079ba295270"
    assert CIFAR10.checksums == {"cifar-10-binary.tar.gz": "c32a1d4ab5d03f1284b67883e8d87530"}
    assert CIFAR100.checksums == {"cifar-100-binary.tar.gz": "03b5dce01913d631647c71ecec9e9cb8"}


@pytest.mark.parametrize("kind", RELATIVES)
def test_relatives_have_files_mirrors_and_a_directory_of_their_own(kind, tmp_path, monkeypatch):
    assert list(kind.checksums) == list(MNIST.checksums)
    assert not set(kind.checksums.values()) & set(MNIST.checksums.values())
    assert kind().mirrors and kind().mirrors != MNIST().mirrors
    assert kind().name == kind.__name__.lower()
    put(tmp_path / "data" / kind.__name__.lower(), PUBLISHED)
    monkeypatch.setenv("PSGD_DATA", str(tmp_path / "data"))
    assert [array.shape for array in kind().load(download=False)] == SHAPES
    with pytest.raises(FileNotFoundError, match="MNIST is not on this machine"):
        MNIST().load(download=False)


def assert_cifar(arrays, kind, column):
    """Assert that the arrays hold the small files, pixel by pixel as the layout says."""
    files, first = members(kind), len(kind.label_bytes)
    for part, names in enumerate((kind.train_files, [kind.test_file])):
        rows = np.concatenate([np.frombuffer(files[name], np.uint8).reshape(-1, first + 3072) for name in names])
        images, labels = arrays[2 * part : 2 * part + 2]
        assert images.dtype == labels.dtype == np.uint8
        assert images.flags.c_contiguous and labels.flags.c_contiguous
        assert images.shape == (len(rows), 32, 32, 3)
        for colour in range(3):
            assert np.array_equal(images[..., colour].reshape(len(rows), -1), rows[:, first + 1024 * colour :][:, :1024])
        assert np.array_equal(labels, rows[:, column])


@pytest.mark.parametrize("kind", [CIFAR10, CIFAR100])
def test_cifar_from_archives_files_and_the_network(kind, tmp_path, monkeypatch):
    column, [name], content = len(kind.label_bytes) - 1, kind.checksums, packed(members(kind), kind.folder)
    put(tmp_path / "archive", {name: content})
    put(tmp_path / "plain", members(kind))
    put(tmp_path / "unpacked" / kind.folder, members(kind))
    for place in ("archive", "plain", "unpacked"):
        assert_cifar(kind(tmp_path / place).load(download=False), kind, column)
    monkeypatch.setattr(kind, "checksums", {name: hashlib.md5(content).hexdigest()})
    with serving({name: content}) as server:
        server.cut_after = len(content) // 2 + 1
        for _ in range(2):
            assert_cifar(kind(mirrors=[nobody(), server.url]).load(), kind, column)
        assert [asked for asked, _ in server.requests] == [name, name]
    assert [path.name for path in (tmp_path / "cache" / "psgd" / kind.__name__.lower()).iterdir()] == [name]


def test_cifar100_has_two_kinds_of_labels(tmp_path):
    put(tmp_path, members(CIFAR100))
    assert_cifar(CIFAR100(tmp_path, labels="fine").load(), CIFAR100, 1)
    assert_cifar(CIFAR100(tmp_path, labels="coarse").load(), CIFAR100, 0)
    for wrong in ("labels", ["fine"]):
        with pytest.raises(ValueError, match="CIFAR100 'labels' must be one of coarse, fine, got"):
            CIFAR100(labels=wrong)
    put(tmp_path, {"test.bin": b"\x14\x00" + bytes(3072)})
    with pytest.raises(ValueError, match="must have coarse below 20, one is 20"):
        CIFAR100(tmp_path).load()


@pytest.mark.parametrize("pack", [False, True])
@pytest.mark.parametrize(
    ("name", "content", "text"),
    [
        ("data_batch_3.bin", b"", r"'data_batch_3.bin' in '.*' must hold images of 3073 bytes each, it has 0 bytes"),
        ("test_batch.bin", bytes(3074), "'test_batch.bin' in '.*' must hold images of 3073 bytes each, it has 3074"),
        ("test_batch.bin", b"\x0a" + bytes(3072), "'test_batch.bin' in '.*' must have labels below 10, one is 10"),
    ],
)
def test_damaged_files_are_named(name, content, text, pack, tmp_path):
    files = {**members(CIFAR10), name: content}
    put(tmp_path, {next(iter(CIFAR10.checksums)): packed(files, CIFAR10.folder)} if pack else files)
    with pytest.raises(ValueError, match=text):
        CIFAR10(tmp_path).load()


def test_files_that_are_no_substitute(tmp_path, monkeypatch):
    put(tmp_path / "python", {"cifar-10-python.tar.gz": b"", "data_batch_1": b""})
    with pytest.raises(FileNotFoundError, match=r"CIFAR10 needs the binary version.*lacks cifar-10-binary\.tar\.gz"):
        CIFAR10(tmp_path / "python").load()
    monkeypatch.setattr(cifar, "_MAX_BYTES", 5000)
    put(tmp_path, members(CIFAR10))
    with pytest.raises(ValueError, match=r"data_batch_1.bin' must have at most 5000 bytes"):
        CIFAR10(tmp_path).load()


def test_the_embedded_digits_are_the_published_ones_scaled_in_their_order():
    """Conventions: uint8 0..255, 1,500 / 297; the file is small and its licence is beside it."""
    arrays = Digits().load()
    assert [array.shape for array in arrays] == [(1500, 8, 8), (1500,), (297, 8, 8), (297,)]
    assert {array.dtype for array in arrays} == {np.dtype(np.uint8)}
    assert (arrays[0].min(), arrays[0].max()) == (0, 255)
    assert Digits().checksum() == "f5f7554ec88c3b251ac863ec5176291a23734fe5c7766507dc98f853377bb762"
    folder = Path(nn.dataset.__file__).parent
    assert (folder / "digits.npz").stat().st_size < 64 << 10
    licence = (folder / "DIGITS-LICENCE.md").read_text()
    assert all(needed in licence for needed in ("CC BY 4.0", "E. Alpaydin", "10.24432/C50P49", "Changes:"))


def test_readers_and_transforms_on_the_images_of_mnist(tmp_path):
    """Where the 10,000 test images are."""
    folder = Path(os.environ.get("PSGD_SHARED_DATA", Path(__file__).parents[4] / "shared" / "data")) / "mnist"
    if not (folder / "t10k-images-idx3-ubyte.gz").is_file():
        pytest.skip(f"there is no MNIST in {folder}; PSGD_SHARED_DATA names the folder that holds mnist/")
    images, labels = (read_idx(folder / f"t10k-{part}-ubyte.gz") for part in ("images-idx3", "labels-idx1"))
    assert np.bincount(labels).tolist() == [980, 1135, 1032, 1010, 982, 892, 958, 1028, 974, 1009]
    normalized, *_ = Normalize(per="all")(images, labels, images[:1], labels[:1])
    given, *_ = Normalize(mean=0.13251 * 255, std=0.31048 * 255)(images, labels, images[:1], labels[:1])
    np.testing.assert_allclose(normalized, given, atol=1e-3)
    np.savez_compressed(tmp_path / "mnist.npz", x=images[:2000], y=labels[:2000])
    train_x, train_y, test_x, test_y = NpzDataset(tmp_path / "mnist.npz", test_fraction=0.15).load()
    assert (train_x.shape, test_x.shape) == ((1700, 28, 28), (300, 28, 28))
    assert np.array_equal(np.bincount(np.concatenate([train_y, test_y])), np.bincount(labels[:2000]))
    data = ArrayDataset(images[:8500], labels[:8500], images[8500:], labels[8500:]).load()
    x, y, _, _ = Shuffle().add(True_Non_IID(5 * 64))(*data, seed=1)
    assert x.shape == (8500, 28, 28)

    def digits(labels):
        return [np.bincount(own.reshape(-1), minlength=10) for own in labels[: 26 * 320].reshape(26, 5, 64).swapaxes(0, 1)]

    for worker, counts in enumerate(digits(y)):
        assert counts[2 * worker : 2 * worker + 2].sum() > 0.9 * counts.sum()
    _, y, _, _ = Dirichlet(0.1, blocks=5)(*data, seed=1)
    assert max(counts.max() / counts.sum() for counts in digits(y)) > 0.3
