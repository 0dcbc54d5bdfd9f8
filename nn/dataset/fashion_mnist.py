"""Fashion-MNIST: 70,000 images of clothes in the format of MNIST."""

import os
from collections.abc import Mapping, Sequence
from typing import ClassVar

from nn.dataset.mnist import MNIST

__all__ = ["FashionMNIST"]

MIRRORS = (
    "http://fashion-mnist.s3-website.eu-central-1.amazonaws.com/",
    "https://raw.githubusercontent.com/zalandoresearch/fashion-mnist/master/data/fashion/",
)


class FashionMNIST(MNIST):
    """60,000 images of 28x28 pixels to train on and 10,000 to evaluate on, 10 classes of clothes, both uint8.

    A drop-in replacement of `MNIST` that is harder to learn. Files have the names of MNIST's, so they need a directory of
    their own: `directory`, ``$PSGD_DATA/fashionmnist`` or the cache; see `MNIST` for the order.

    Source: H. Xiao, K. Rasul, R. Vollgraf, *Fashion-MNIST: a novel image dataset for benchmarking machine learning
    algorithms*, 2017, arXiv:1708.07747, https://github.com/zalandoresearch/fashion-mnist (MIT licence), whose README
    publishes the MD5 sums; they are also those of torchvision (``torchvision/datasets/mnist.py``).

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

    def __init__(self, directory: str | os.PathLike[str] | None = None, mirrors: Sequence[str] = MIRRORS) -> None:
        super().__init__(directory, mirrors)
