"""MNIST: 70,000 images of handwritten digits, from files on this machine or downloaded once."""

import os
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import ClassVar

from nn.arrays import Array
from nn.dataset.checksum import Arrays
from nn.dataset.directories import find_file
from nn.dataset.idx import read_idx
from nn.dataset.published import PublishedDataset

__all__ = ["MNIST"]

MIRRORS = (
    "https://ossci-datasets.s3.amazonaws.com/mnist/",
    "https://storage.googleapis.com/cvdf-datasets/mnist/",
)


class MNIST(PublishedDataset):
    """60,000 images of 28x28 pixels to train on and 10,000 to evaluate on, 10 classes, both uint8.

    The four IDX files, plain or ``.gz``, are taken from `directory`; without one from ``$PSGD_DATA/mnist``, else from
    ``$PSGD_DATA`` itself, else from the cache (``~/.cache/psgd/mnist``), which a download from `mirrors` (base URLs, asked in
    order) fills. Files of your own may hold any number of samples; only a download must have the published checksums.

    Source: Y. LeCun, C. Cortes, C. J. C. Burges, *The MNIST database of handwritten digits*,
    http://yann.lecun.com/exdb/mnist/; mirrors and MD5 sums as in torchvision (``torchvision/datasets/mnist.py``) and
    TensorFlow Datasets. A relative of MNIST is a subclass with its own `checksums` and mirrors.

    >>> data = nn.dataset.MNIST()  # `data.load()` reads or downloads the files
    >>> data.name
    'mnist'
    """

    checksums: ClassVar[Mapping[str, str]] = {
        "train-images-idx3-ubyte": "f68b3c2dcbeaaa9fbdd348bbdeb94873",
        "train-labels-idx1-ubyte": "d53e105ee54ea40749a09fcbcd1e9432",
        "t10k-images-idx3-ubyte": "9fb629c4189551a2d022fa330f9573f3",
        "t10k-labels-idx1-ubyte": "ec29112dd5afa0611ce80d1b7f02629c",
    }
    """MD5 of each file's published ``.gz``, by the file's name: images and labels to train on, then those to test on."""

    needs = "4 files in one directory, plain or .gz"
    way_out = ", or make a data set of what is there with nn.dataset.idx.read_idx and nn.dataset.ArrayDataset"

    def __init__(self, directory: str | os.PathLike[str] | None = None, mirrors: Sequence[str] = MIRRORS) -> None:
        super().__init__(directory, mirrors)

    def find(self, directory: Path, name: str) -> Path | None:
        """Return the file under any of its usual names (see `nn.dataset.directories.find_file`)."""
        return find_file(directory, name)

    def published_name(self, name: str) -> str:
        """Return the name with ``.gz``."""
        return f"{name}.gz"

    def read(self, paths: Sequence[Path]) -> Arrays:
        """Return images ``(n, 28, 28)`` and labels ``(n,)`` of both parts."""
        train_images, train_labels, test_images, test_labels = paths
        return *_read_pair(train_images, train_labels), *_read_pair(test_images, test_labels)


def _read_pair(images_path: Path, labels_path: Path) -> tuple[Array, Array]:
    """Read one part and check that labels belong to images."""
    images, labels = read_idx(images_path), read_idx(labels_path)
    if images.ndim != 3 or labels.ndim != 1 or labels.dtype.kind not in "iu" or not 0 < len(images) == len(labels):
        raise ValueError(
            f"'{images_path}' must hold images (n, height, width) and '{labels_path}' as many integer labels (n,), "
            f"got {images.dtype} {images.shape} and {labels.dtype} {labels.shape}"
        )
    return images, labels
