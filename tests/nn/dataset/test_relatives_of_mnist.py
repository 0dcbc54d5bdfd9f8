"""FashionMNIST and KMNIST are MNIST in all but their files."""

import hashlib
import re

import numpy as np
import pytest

from nn.dataset import KMNIST, MNIST, FashionMNIST

from .idx_files import checksums, compressed, put, small_mnist
from .web import serving

RELATIVES = [FashionMNIST, KMNIST]
FILES = small_mnist()


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
    put(tmp_path / "data" / kind.__name__.lower(), compressed(FILES))
    monkeypatch.setenv("PSGD_DATA", str(tmp_path / "data"))
    assert [array.shape for array in kind().load(download=False)] == [(12, 3, 2), (12,), (5, 3, 2), (5,)]
    with pytest.raises(FileNotFoundError, match="MNIST is not on this machine"):
        MNIST().load(download=False)


@pytest.mark.parametrize("kind", RELATIVES)
def test_a_download_goes_into_a_cache_of_its_own(kind, tmp_path, monkeypatch):
    published = compressed(FILES)
    monkeypatch.setattr(kind, "checksums", checksums(published))
    with serving(published) as server:
        arrays = kind(mirrors=[server.url]).load()
    assert np.array_equal(arrays[1], MNIST(put(tmp_path / "plain", FILES)).load()[1])
    folder = tmp_path / "cache" / "psgd" / kind.__name__.lower()
    assert sorted(path.name for path in folder.iterdir()) == sorted(published)
