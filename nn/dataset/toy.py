"""Data sets for a first training, which need no file: handwritten digits, and synthetic data with a known best result."""

from __future__ import annotations

from functools import cached_property
from pathlib import Path
from typing import Literal, TypeAlias, get_args

import numpy as np
from numpy.typing import NDArray

from nn import arguments
from nn.arrays import Array
from nn.dataset.interface import AbsDataset, Arrays
from nn.random import keyed

__all__ = ["Digits", "SimData"]

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
        with np.load(_FILE, allow_pickle=False) as content:
            images, labels = content["images"], content["labels"]
        return images[:_TRAIN], labels[:_TRAIN], images[_TRAIN:], labels[_TRAIN:]


_Kind: TypeAlias = Literal["regression", "classification"]


class SimData(AbsDataset, configured=True):
    """Samples x ~ N(0, I) of shape ``(n, features)``, float32, with labels that a linear model explains up to `noise`.

    * ``kind='regression'``: y = x W + b + noise * e with e ~ N(0, 1), float32 ``(n, 1)``. No model has an expected mean
      square error below ``noise ** 2``.
    * ``kind='classification'``: y = argmax(x W), class numbers int64 ``(n,)``; with probability `noise` a label is replaced
      by one of the other classes, all equally likely. No model has an expected accuracy above ``1 - noise``.

    `best` is that bound; `weights` W ``(features, 1 or classes)`` and `bias` b reach it. Entries of W and b are drawn from
    N(0, 1); b is 0 for a classification. Everything depends on `seed` and the sizes alone, and the weights not on the number
    of samples.

    Raises ValueError for an unknown `kind`, and for a `noise` with which the true class is not the likeliest, that is
    ``noise >= 1 - 1 / classes``.

    Args:
        kind: as above.
        samples: number of samples to train on.
        features: numbers of a sample.
        noise: as above.
        seed: seed of all draws.
        classes: number of classes, at least 2.
        test_samples: number of samples to evaluate on.

    >>> data = SimData("regression", samples=500, features=3, noise=0.0)
    """

    def __init__(
        self,
        kind: _Kind = "regression",
        samples: int = 1000,
        features: int = 10,
        noise: float = 0.1,
        seed: int = 0,
        classes: int = 2,
        test_samples: int = 200,
    ) -> None:
        arguments.one_of(self, "kind", kind, get_args(_Kind))
        self.kind = kind
        self.samples = arguments.integer(self, "samples", samples, minimum=1)
        self.features = arguments.integer(self, "features", features, minimum=1)
        self.classes = arguments.integer(self, "classes", classes, minimum=2)
        if kind == "regression":
            self.noise = arguments.number(self, "noise", noise, 0.0)
        else:
            self.noise = arguments.number(self, "noise", noise, 0.0, 1 - 1 / self.classes)
        self.seed = arguments.integer(self, "seed", seed, minimum=0)
        self.test_samples = arguments.integer(self, "test_samples", test_samples, minimum=1)

    @property
    def best(self) -> float:
        """The least expected mean square error of a regression, the greatest expected accuracy of a classification."""
        return self.noise**2 if self.kind == "regression" else 1 - self.noise

    @cached_property
    def weights(self) -> NDArray[np.float32]:
        """W: ``(features, 1)`` for a regression, ``(features, classes)`` for a classification."""
        columns = 1 if self.kind == "regression" else self.classes
        drawn = self._random("weights").standard_normal((self.features, columns), np.float32)
        # Shared by all callers of the property.
        drawn.flags.writeable = False
        return drawn

    @cached_property
    def bias(self) -> NDArray[np.float32]:
        """b: ``(1,)`` for a regression, zeros ``(classes,)`` for a classification."""
        if self.kind == "regression":
            drawn = self._random("bias").standard_normal(1, np.float32)
        else:
            drawn = np.zeros(self.classes, np.float32)
        drawn.flags.writeable = False
        return drawn

    def load(self, download: bool = True) -> Arrays:
        train = self._part("train", self.samples)
        return *train, *self._part("test", self.test_samples)

    def _random(self, purpose: str) -> np.random.Generator:
        return keyed(self.seed, f"sim-data {self.kind} {purpose}")

    def _part(self, part: str, count: int) -> tuple[Array, Array]:
        random = self._random(part)
        # Samples first, so that labels of another kind do not change them.
        x = random.standard_normal((count, self.features), np.float32)
        score = x @ self.weights + self.bias
        if self.kind == "regression":
            return x, score + np.float32(self.noise) * random.standard_normal((count, 1), np.float32)
        label = score.argmax(axis=1)
        wrong = random.random(count) < self.noise
        # A step of 1 to classes - 1 leads to each of the other classes equally often.
        label[wrong] = (label[wrong] + random.integers(1, self.classes, int(wrong.sum()))) % self.classes
        return x, label.astype(np.int64, copy=False)
