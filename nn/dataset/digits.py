"""The embedded data set: small images of handwritten digits, so that a first training needs no download."""

from pathlib import Path

import numpy as np

from nn.dataset.checksum import Arrays
from nn.dataset.interface import AbsDataset

__all__ = ["Digits"]

_FILE = Path(__file__).with_name("digits.npz")
_TRAIN = 1500


class Digits(AbsDataset):
    """1,797 images of 8x8 pixels, 10 classes, from 13 writers: 1,500 to train on, 297 to evaluate on, in file order.

    Images are uint8 0..255 of shape ``(n, 8, 8)`` (a count of 0..16 dark dots per pixel, times 255/16, rounded), labels
    are uint8 0..9 of shape ``(n,)``.

    Source: the test part of E. Alpaydin and C. Kaynak, *Optical Recognition of Handwritten Digits*, UCI Machine Learning
    Repository, 1998, https://doi.org/10.24432/C50P49, as distributed by scikit-learn (``load_digits``). Licence: Creative
    Commons Attribution 4.0 International; see DIGITS-LICENCE.md beside this file.

    >>> train_x, train_y, test_x, test_y = nn.dataset.Digits().load()
    >>> train_x.shape, test_y.shape
    ((1500, 8, 8), (297,))
    """

    def load(self, download: bool = True) -> Arrays:
        """Return the four arrays; they are part of the package, nothing is ever downloaded."""
        with np.load(_FILE, allow_pickle=False) as content:
            images, labels = content["images"], content["labels"]
        return images[:_TRAIN], labels[:_TRAIN], images[_TRAIN:], labels[_TRAIN:]
