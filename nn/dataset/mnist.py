"""MNIST: 70,000 images of handwritten digits, from files on this machine or downloaded once."""

import os
from collections.abc import Iterable, Mapping, Sequence
from pathlib import Path
from typing import Any, ClassVar

from nn.arrays import Array
from nn.dataset.checksum import Arrays
from nn.dataset.directories import cache_directory, chosen_directories, find_file
from nn.dataset.download import DownloadError, fetch
from nn.dataset.idx import read_idx
from nn.dataset.interface import AbsDataset
from nn.model.tensors import write_file

__all__ = ["MNIST"]

MIRRORS = (
    "https://ossci-datasets.s3.amazonaws.com/mnist/",
    "https://storage.googleapis.com/cvdf-datasets/mnist/",
)


class MNIST(AbsDataset):
    """60,000 images of 28x28 pixels to train on and 10,000 to evaluate on, 10 classes, both uint8.

    The four IDX files, plain or ``.gz``, are taken from `directory`; without one from ``$PSGD_DATA/mnist``, else from
    ``$PSGD_DATA`` itself, else from the cache (``~/.cache/psgd/mnist``), which a download from `mirrors` (base URLs, asked in
    order) fills. Files of your own may hold any number of samples; only a download must have the published checksums.

    Source: Y. LeCun, C. Cortes, C. J. C. Burges, *The MNIST database of handwritten digits*,
    http://yann.lecun.com/exdb/mnist/; mirrors and MD5 sums as in torchvision (``torchvision/datasets/mnist.py``) and
    TensorFlow Datasets. A relative of MNIST is a subclass with its own `checksums` and mirrors.
    """

    checksums: ClassVar[Mapping[str, str]] = {
        "train-images-idx3-ubyte": "f68b3c2dcbeaaa9fbdd348bbdeb94873",
        "train-labels-idx1-ubyte": "d53e105ee54ea40749a09fcbcd1e9432",
        "t10k-images-idx3-ubyte": "9fb629c4189551a2d022fa330f9573f3",
        "t10k-labels-idx1-ubyte": "ec29112dd5afa0611ce80d1b7f02629c",
    }
    """MD5 of each file's published ``.gz``, by the file's name: images and labels to train on, then those to test on."""

    def __init__(self, directory: str | os.PathLike[str] | None = None, mirrors: Sequence[str] = MIRRORS) -> None:
        self.directory = None if directory is None else os.fspath(directory)
        self.mirrors = tuple(mirrors)

    def get_config(self) -> dict[str, Any]:
        """Return the constructor's keywords."""
        return {"directory": self.directory, "mirrors": list(self.mirrors)}

    def load(self, download: bool = True) -> Arrays:
        """Return the four arrays: images ``(n, 28, 28)`` and labels ``(n,)``.

        Raises FileNotFoundError where files are missing and cannot be downloaded (or ``download=False``), naming them
        and where to put them; ValueError for files that are damaged or do not belong together.
        """
        train_images, train_labels, test_images, test_labels = self._chosen_files() or self._cached_files(download)
        return *_read_pair(train_images, train_labels), *_read_pair(test_images, test_labels)

    def _chosen_files(self) -> list[Path] | None:
        """Return the files in the first directory the user named that holds them; holding only some is an error."""
        for directory in chosen_directories(self.name, self.directory):
            found, missing = self._look(directory)
            if not missing:
                return list(found.values())
            if found or self.directory is not None:
                raise FileNotFoundError(
                    f"{type(self).__name__} needs {len(self.checksums)} files in one directory, plain or .gz: "
                    f"'{directory}' has {_listed(found)}, it lacks {_listed(missing)}. Add what is missing, or make a "
                    "data set of what is there with nn.dataset.idx.read_idx and nn.dataset.ArrayDataset"
                )
        return None

    def _cached_files(self, download: bool) -> list[Path]:
        """Return the files in the cache after fetching what it lacks."""
        cache = cache_directory(self.name)
        _, missing = self._look(cache)
        if missing and not download:
            raise FileNotFoundError(self._advice(cache, "a download was not allowed"))
        for name in missing:
            try:
                content = fetch(f"{name}.gz", self.mirrors, self.checksums[name])
            except DownloadError as error:
                raise FileNotFoundError(self._advice(cache, f"the download failed ({error})")) from error
            cache.mkdir(parents=True, exist_ok=True)
            write_file(cache / f"{name}.gz", content)
        found, _ = self._look(cache)
        return list(found.values())

    def _look(self, directory: Path) -> tuple[dict[str, Path], list[str]]:
        """Return the files that `directory` holds, by name, and the names of those it lacks."""
        paths = {name: find_file(directory, name) for name in self.checksums}
        found = {name: path for name, path in paths.items() if path is not None}
        return found, [name for name in paths if name not in found]

    def _advice(self, cache: Path, reason: str) -> str:
        """Say what is missing, why, and what to do about it."""
        searched = [f"'{path}'" for path in (*chosen_directories(self.name, self.directory), cache)]
        return (
            f"{type(self).__name__} is not on this machine and {reason}. Put the {len(self.checksums)} files "
            f"{_listed(self.checksums)} (plain or .gz) into one directory and set PSGD_DATA to it, or pass "
            f"{type(self).__name__}(directory=...). Searched: {_listed(searched)}"
        )


def _listed(names: Iterable[str]) -> str:
    return ", ".join(names) or "none of them"


def _read_pair(images_path: Path, labels_path: Path) -> tuple[Array, Array]:
    """Read one part and check that labels belong to images."""
    images, labels = read_idx(images_path), read_idx(labels_path)
    if images.ndim != 3 or labels.ndim != 1 or labels.dtype.kind not in "iu" or not 0 < len(images) == len(labels):
        raise ValueError(
            f"'{images_path}' must hold images (n, height, width) and '{labels_path}' as many integer labels (n,), "
            f"got {images.dtype} {images.shape} and {labels.dtype} {labels.shape}"
        )
    return images, labels
