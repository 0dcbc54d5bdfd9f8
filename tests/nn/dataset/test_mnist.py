"""MNIST and its relatives from directories, from the cache, and from a web server on loopback."""

import hashlib
import re

import numpy as np
import pytest

from nn.dataset import KMNIST, MNIST, FashionMNIST
from nn.dataset.idx import read_idx

from .idx_files import checksums, compressed, idx, put, small_mnist
from .web import nobody, serving

FILES = small_mnist()
PUBLISHED = compressed(FILES)


class SmallMNIST(MNIST):
    """A relative of MNIST whose published files are small."""

    checksums = checksums(PUBLISHED)
    name = "mnist"


def respelled(files):
    return {name.replace("-idx", ".idx"): content for name, content in files.items()}


@pytest.fixture
def expected(tmp_path):
    put(tmp_path / "expected", FILES)
    return [read_idx(tmp_path / "expected" / name) for name in MNIST.checksums]


def assert_loaded(arrays, expected):
    assert [array.shape for array in arrays] == [(12, 3, 2), (12,), (5, 3, 2), (5,)]
    assert all(np.array_equal(array, wanted) for array, wanted in zip(arrays, expected, strict=True))


def same_order_as_published():
    return ["train-images", "train-labels", "t10k-images", "t10k-labels"]


def test_the_published_checksums_are_those_of_four_files():
    assert [name.partition("-idx")[0] for name in MNIST.checksums] == same_order_as_published()
    assert all(re.fullmatch("[0-9a-f]{32}", md5) for md5 in MNIST.checksums.values())


@pytest.mark.parametrize("files", [FILES, PUBLISHED, respelled(FILES), respelled(PUBLISHED)])
def test_a_directory_with_plain_or_compressed_files_in_both_spellings(files, tmp_path, expected):
    """Conventions: both spellings, plain or .gz, any number of samples."""
    directory = put(tmp_path / "mine", files)
    assert_loaded(MNIST(directory).load(), expected)
    assert_loaded(MNIST(directory=str(directory)).load(download=False), expected)


def test_the_argument_goes_before_the_environment_and_that_before_the_cache(tmp_path, monkeypatch):
    """Conventions: an argument, else $PSGD_DATA/<name>, else $PSGD_DATA itself, else the cache."""
    places = [tmp_path / place for place in ("mine", "data/mnist", "data", "cache/psgd/mnist")]
    for count, place in enumerate(places, start=1):
        put(place, {**FILES, "t10k-images-idx3-ubyte": idx(np.zeros((count, 3, 2), np.uint8))})
        put(place, {"t10k-labels-idx1-ubyte": idx(np.zeros(count, np.uint8))})
    monkeypatch.setenv("PSGD_DATA", str(tmp_path / "data"))

    def loaded(**arguments):
        return len(MNIST(**arguments).load(download=False)[2])

    assert loaded(directory=places[0]) == 1
    assert loaded() == 2
    for file in places[1].iterdir():
        file.unlink()
    assert loaded() == 3
    monkeypatch.setenv("PSGD_DATA", str(tmp_path / "elsewhere"))
    assert loaded() == 4


def test_without_xdg_the_cache_is_below_home(tmp_path, monkeypatch, expected):
    monkeypatch.setenv("XDG_CACHE_HOME", "relative")
    monkeypatch.setenv("HOME", str(tmp_path))
    put(tmp_path / ".cache" / "psgd" / "mnist", FILES)
    assert_loaded(MNIST().load(download=False), expected)


@pytest.mark.parametrize("by", ["argument", "environment"])
def test_a_directory_with_only_the_test_files_is_explained(by, tmp_path, monkeypatch):
    directory = put(tmp_path / "mnist", {name: file for name, file in PUBLISHED.items() if name.startswith("t10k")})
    monkeypatch.setenv("PSGD_DATA", str(tmp_path))
    data = MNIST(directory) if by == "argument" else MNIST()
    with pytest.raises(FileNotFoundError) as caught:
        data.load()
    text = str(caught.value)
    assert f"'{directory}' has t10k-images-idx3-ubyte, t10k-labels-idx1-ubyte" in text
    assert "it lacks train-images-idx3-ubyte, train-labels-idx1-ubyte." in text
    assert "nn.dataset.idx.read_idx" in text


def test_an_empty_directory_that_was_asked_for_is_an_error_and_no_reason_to_download(tmp_path):
    with serving(PUBLISHED) as server:
        with pytest.raises(FileNotFoundError, match=r"'.*' has none of them, it lacks train-images"):
            SmallMNIST(tmp_path, mirrors=[server.url]).load()
        assert server.requests == []


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


def test_a_download_fills_the_cache_once(tmp_path, expected):
    with serving(PUBLISHED) as server:
        server.cut_after = 60
        data = SmallMNIST(mirrors=[server.url])
        assert_loaded(data.load(), expected)
        assert {name for name, _ in server.requests} == set(PUBLISHED)
        count = len(server.requests)
        assert count > 4
        assert_loaded(data.load(), expected)
        assert len(server.requests) == count
    assert sorted(path.name for path in (tmp_path / "cache/psgd/mnist").iterdir()) == sorted(PUBLISHED)


def test_only_what_the_cache_lacks_is_fetched(tmp_path, expected):
    names = list(PUBLISHED)
    put(tmp_path / "cache" / "psgd" / "mnist", {name: PUBLISHED[name] for name in names[:3]})
    with serving(PUBLISHED) as server:
        assert_loaded(SmallMNIST(mirrors=[server.url]).load(), expected)
        assert server.requests == [(names[3], None)]


def test_nothing_touches_the_network_unless_allowed():
    with serving(PUBLISHED) as server:
        with pytest.raises(FileNotFoundError, match="not on this machine and a download was not allowed"):
            SmallMNIST(mirrors=[server.url]).load(download=False)
        assert server.requests == []


def test_offline_the_error_says_what_to_do(tmp_path, monkeypatch):
    monkeypatch.setenv("PSGD_DATA", str(tmp_path / "data"))
    with pytest.raises(FileNotFoundError) as caught:
        MNIST(mirrors=[nobody()]).load()
    text = str(caught.value)
    assert all(name in text for name in MNIST.checksums)
    assert "MNIST is not on this machine and the download failed (http://127.0.0.1:" in text
    assert "into one directory and set PSGD_DATA to it, or pass MNIST(directory=...)" in text
    for place in ("data/mnist", "data", "cache/psgd/mnist"):
        assert f"'{tmp_path / place}'" in text
    assert not (tmp_path / "cache").exists()


def test_a_forged_download_never_reaches_the_cache(tmp_path):
    with serving(PUBLISHED) as server:
        server.files = {**PUBLISHED, "t10k-labels-idx1-ubyte.gz": PUBLISHED["train-labels-idx1-ubyte.gz"]}
        with pytest.raises(FileNotFoundError, match=r"t10k-labels-idx1-ubyte\.gz: the file has MD5"):
            SmallMNIST(mirrors=[server.url]).load()
    assert not (tmp_path / "cache/psgd/mnist/t10k-labels-idx1-ubyte.gz").exists()


RELATIVES = [FashionMNIST, KMNIST]


@pytest.mark.parametrize("kind", RELATIVES)
def test_checksums_and_mirrors_are_their_own(kind):
    assert list(kind.checksums) == list(MNIST.checksums)
    assert all(re.fullmatch("[0-9a-f]{32}", md5) for md5 in kind.checksums.values())
    assert not set(kind.checksums.values()) & set(MNIST.checksums.values())
    assert kind().mirrors
    assert kind().mirrors != MNIST().mirrors
    assert kind().name == kind.__name__.lower()


def test_the_published_checksums_as_torchvision_lists_them():
    """A digest of the eight sums of torchvision/datasets/mnist.py, so that none can change unseen."""
    text = "".join(md5 for kind in RELATIVES for md5 in kind.checksums.values())
    assert text.startswith("8d4fb7e6c68d591d4c3dfef9ec88bf0d25c81989df183df0")
    assert hashlib.sha256(text.encode()).hexdigest() == "6ac243da33db058e5eafb7a96479688641c51b08739f6a6213e39079ba295270"


@pytest.mark.parametrize("kind", RELATIVES)
def test_each_has_a_directory_of_its_own(kind, tmp_path, monkeypatch):
    put(tmp_path / "data" / kind.__name__.lower(), PUBLISHED)
    monkeypatch.setenv("PSGD_DATA", str(tmp_path / "data"))
    assert [array.shape for array in kind().load(download=False)] == [(12, 3, 2), (12,), (5, 3, 2), (5,)]
    with pytest.raises(FileNotFoundError, match="MNIST is not on this machine"):
        MNIST().load(download=False)
