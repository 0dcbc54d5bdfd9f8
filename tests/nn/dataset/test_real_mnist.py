"""The 10,000 test images of MNIST, where they are: reader and transforms on real data."""

import os
from pathlib import Path

import numpy as np
import pytest

from nn.dataset import ArrayDataset, NpzDataset
from nn.dataset.idx import read_idx
from nn.dataset.transforms import Dirichlet, Normalize, Shuffle, True_Non_IID

FOLDER = Path(os.environ.get("PSGD_SHARED_DATA", Path(__file__).parents[4] / "shared" / "data")) / "mnist"


@pytest.fixture(scope="module")
def arrays():
    if not (FOLDER / "t10k-images-idx3-ubyte.gz").is_file():
        pytest.skip(f"there is no MNIST in {FOLDER}; PSGD_SHARED_DATA names the folder that holds mnist/")
    images, labels = (read_idx(FOLDER / f"t10k-{part}-ubyte.gz") for part in ("images-idx3", "labels-idx1"))
    return images, labels


def test_counts_and_statistics_are_the_known_ones(arrays):
    images, labels = arrays
    assert np.bincount(labels).tolist() == [980, 1135, 1032, 1010, 982, 892, 958, 1028, 974, 1009]
    normalized, *_ = Normalize(per="all")(images, labels, images[:1], labels[:1])
    given, *_ = Normalize(mean=0.13251 * 255, std=0.31048 * 255)(images, labels, images[:1], labels[:1])
    np.testing.assert_allclose(normalized, given, atol=1e-3)


def test_as_an_npz_file(arrays, tmp_path):
    images, labels = arrays
    np.savez_compressed(tmp_path / "mnist.npz", x=images[:2000], y=labels[:2000])
    train_x, train_y, test_x, test_y = NpzDataset(tmp_path / "mnist.npz", test_fraction=0.15).load()
    assert (train_x.shape, test_x.shape) == ((1700, 28, 28), (300, 28, 28))
    assert np.array_equal(np.bincount(np.concatenate([train_y, test_y])), np.bincount(labels[:2000]))


def test_workers_see_their_own_digits(arrays):
    images, labels = arrays
    data = ArrayDataset(images[:8500], labels[:8500], images[8500:], labels[8500:]).load()
    x, y, _, _ = Shuffle().add(True_Non_IID(5 * 64))(*data, seed=1)
    blocks = y[: 26 * 320].reshape(26, 5, 64)
    for worker in range(5):
        counts = np.bincount(blocks[:, worker].reshape(-1), minlength=10)
        assert counts[2 * worker : 2 * worker + 2].sum() > 0.9 * counts.sum()
    assert x.shape == (8500, 28, 28)
    _, y, _, _ = Dirichlet(0.1, blocks=5)(*data, seed=1)
    counts = np.array([np.bincount(part.reshape(-1), minlength=10) for part in y[: 26 * 320].reshape(26, 5, 64).swapaxes(0, 1)])
    assert (counts.max(axis=1) / counts.sum(axis=1)).max() > 0.3
