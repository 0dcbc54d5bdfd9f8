"""MNIST and the data sets of its format, from files on this machine or downloaded once."""

from __future__ import annotations

import os
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, ClassVar, NoReturn

from nn.arrays import Array
from nn.dataset.files import PublishedDataset, find_file
from nn.dataset.idx import read_idx
from nn.dataset.interface import PARTS, Arrays
from nn.lazy import unknown

__all__ = ["KMNIST", "MNIST", "FashionMNIST"]

MIRRORS = (
    "https://ossci-datasets.s3.amazonaws.com/mnist/",
    "https://storage.googleapis.com/cvdf-datasets/mnist/",
)

if not TYPE_CHECKING:

    def __getattr__(name: str) -> NoReturn:
        # Keras has a function `mnist.load_data()` in its module of this name.
        raise unknown(__name__, name)


class MNIST(PublishedDataset):
    """60,000 images of 28x28 pixels to train on and 10,000 to evaluate on, 10 classes, both uint8.

    The four IDX files, plain or ``.gz``, are taken from `directory`; without one from ``$PSGD_DATA/mnist``, else from
    ``$PSGD_DATA`` itself, else from the cache (``~/.cache/psgd/mnist``), which a download from `mirrors` (base URLs, asked in
    order) fills. Files of your own may hold any number of samples; only a download must have the published checksums.

    Source: Y. LeCun, C. Cortes, C. J. C. Burges, *The MNIST database of handwritten digits*,
    http://yann.lecun.com/exdb/mnist/; mirrors and MD5 sums as in torchvision (``torchvision/datasets/mnist.py``) and
    TensorFlow Datasets. A relative of MNIST is a subclass with its own `checksums` and mirrors.

    Args:
        directory: folder with the files; default: the places above, in their order.
        mirrors: base addresses of a download, asked in order.

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
        """Return the file under any of its usual names (see `nn.dataset.files.find_file`)."""
        return find_file(directory, name)

    def published_name(self, name: str) -> str:
        return f"{name}.gz"

    def source_of(self, part: str) -> str:
        # The files stand in the order of the parts.
        return str(self.files()[PARTS.index(part)])

    def read(self, paths: Sequence[Path]) -> Arrays:
        train_images, train_labels, test_images, test_labels = paths
        return *_read_pair(train_images, train_labels), *_read_pair(test_images, test_labels)


def _read_pair(images_path: Path, labels_path: Path) -> tuple[Array, Array]:
    images, labels = read_idx(images_path), read_idx(labels_path)
    if images.ndim != 3 or labels.ndim != 1 or labels.dtype.kind not in "iu" or not 0 < len(images) == len(labels):
        raise ValueError(
            f"'{images_path}' must hold images (n, height, width) and '{labels_path}' as many integer labels (n,), "
            f"got {images.dtype} {images.shape} and {labels.dtype} {labels.shape}"
        )
    return images, labels


FASHION_MIRRORS = (
    "http://fashion-mnist.s3-website.eu-central-1.amazonaws.com/",
    "https://raw.githubusercontent.com/zalandoresearch/fashion-mnist/master/data/fashion/",
)


class FashionMNIST(MNIST):
    """60,000 images of 28x28 pixels to train on and 10,000 to evaluate on, 10 classes of clothes, both uint8.

    A drop-in replacement of `MNIST` that is harder to learn. Files have the names of MNIST's, so they need a directory of
    their own: `directory`, ``$PSGD_DATA/fashionmnist`` or the cache; see `MNIST` for the order.

    Source: H. Xiao, K. Rasul, R. Vollgraf, *Fashion-MNIST: a novel image dataset for benchmarking machine learning
    algorithms*, 2017, arXiv:1708.07747, https://github.com/zalandoresearch/fashion-mnist (MIT licence). The README there
    publishes the MD5 sums; they are also those of torchvision (``torchvision/datasets/mnist.py``).

    Args:
        directory: folder with the files; default: the places of `MNIST`.
        mirrors: base addresses of a download, asked in order.

    >>> data = nn.dataset.FashionMNIST()  # `data.load()` reads or downloads the files
    >>> data.name
    'fashionmnist'
    """

    checksums: ClassVar[Mapping[str, str]] = {
        "train-images-idx3-ubyte": "8d4fb7e6c68d591d4c3dfef9ec88bf0d",
        "train-labels-idx1-ubyte": "25c81989df183df01b3e8a0aad5dffbe",
        "t10k-images-idx3-ubyte": "bef4ecab320f06d8554ea6380940ec79",
        "t10k-labels-idx1-ubyte": "bb300cfdad3c16e7a12a480ee83cd310",
    }

    def __init__(self, directory: str | os.PathLike[str] | None = None, mirrors: Sequence[str] = FASHION_MIRRORS) -> None:
        super().__init__(directory, mirrors)


KMNIST_MIRRORS = ("http://codh.rois.ac.jp/kmnist/dataset/kmnist/",)


class KMNIST(MNIST):
    """60,000 images of 28x28 pixels to train on and 10,000 to evaluate on, one of 10 hiragana each, both uint8.

    Files have the names of MNIST's, so they need a directory of their own: `directory`, ``$PSGD_DATA/kmnist`` or the cache;
    see `MNIST` for the order.

    Source: T. Clanuwat et al., *Deep learning for classical Japanese literature*, 2018, arXiv:1812.01718,
    https://github.com/rois-codh/kmnist (Creative Commons Attribution-ShareAlike 4.0); mirror and MD5 sums as in
    torchvision (``torchvision/datasets/mnist.py``).

    Args:
        directory: folder with the files; default: the places of `MNIST`.
        mirrors: base addresses of a download, asked in order.

    >>> data = nn.dataset.KMNIST()  # `data.load()` reads or downloads the files
    >>> data.name
    'kmnist'
    """

    checksums: ClassVar[Mapping[str, str]] = {
        "train-images-idx3-ubyte": "bdb82020997e1d708af4cf47b453dcf7",
        "train-labels-idx1-ubyte": "e144d726b3acfaa3e44228e80efcd344",
        "t10k-images-idx3-ubyte": "5c965bf0a639b31b8f53240b1b52f4d7",
        "t10k-labels-idx1-ubyte": "7320c461ea6c1c855c0b718fb2a4b134",
    }

    def __init__(self, directory: str | os.PathLike[str] | None = None, mirrors: Sequence[str] = KMNIST_MIRRORS) -> None:
        super().__init__(directory, mirrors)
