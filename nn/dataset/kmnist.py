"""Kuzushiji-MNIST: 70,000 images of cursive Japanese characters in the format of MNIST."""

import os
from collections.abc import Mapping, Sequence
from typing import ClassVar

from nn.dataset.mnist import MNIST

__all__ = ["KMNIST"]

MIRRORS = ("http://codh.rois.ac.jp/kmnist/dataset/kmnist/",)


class KMNIST(MNIST):
    """60,000 images of 28x28 pixels to train on and 10,000 to evaluate on, one of 10 hiragana each, both uint8.

    Files have the names of MNIST's, so they need a directory of their own: `directory`, ``$PSGD_DATA/kmnist`` or the cache;
    see `MNIST` for the order.

    Source: T. Clanuwat et al., *Deep learning for classical Japanese literature*, 2018, arXiv:1812.01718,
    https://github.com/rois-codh/kmnist (Creative Commons Attribution-ShareAlike 4.0); mirror and MD5 sums as in
    torchvision (``torchvision/datasets/mnist.py``).

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

    def __init__(self, directory: str | os.PathLike[str] | None = None, mirrors: Sequence[str] = MIRRORS) -> None:
        super().__init__(directory, mirrors)
