"""Images and class numbers made ready for a classifier."""

import math
from typing import Any

import numpy as np

from nn.arrays import Array, refuse_masked
from nn.dataset.checksum import Arrays
from nn.dataset.transforms.abstract import AbsTransformer
from nn.dataset.transforms.labels import one_hot

__all__ = ["ImageCls"]

_BRIGHTEST = np.float32(255)


class ImageCls(AbsTransformer):
    """Image classification: pixels to float32 in 0..1, images to rows, class numbers to one-hot rows.

    Integer images become float32 divided by 255; float images stay as they are. With `flatten` images of any shape
    become ``(n, features)``; else they keep their shape, and with `channels` grey images ``(n, height, width)`` become
    ``(n, height, width, 1)``, as Conv2D takes them. Integer (or boolean) labels of shape ``(n,)`` or ``(n, 1)`` become one-hot
    float32 of shape ``(n, classes)``, where ``classes`` is the largest label of training and test set plus one; float labels
    and labels that are rows already stay as they are.

    Raises TypeError for images that are neither integer nor float; ValueError for a negative label, and for `channels` together
    with `flatten`, which leaves no axis.

    >>> train_x, train_y, test_x, test_y = nn.dataset.transforms.ImageCls()(*nn.dataset.Digits().load())
    >>> train_x.shape, train_x.dtype, train_y.shape
    ((1500, 64), dtype('float32'), (1500, 10))
    >>> nn.dataset.transforms.ImageCls(flatten=False, channels=True)(*nn.dataset.Digits().load())[0].shape
    (1500, 8, 8, 1)
    """

    def __init__(self, flatten: bool = True, channels: bool = False) -> None:
        for name, value in (("flatten", flatten), ("channels", channels)):
            if not isinstance(value, bool):
                raise TypeError(f"ImageCls '{name}' must be True or False, got {value!r}")
        if flatten and channels:
            raise ValueError("ImageCls 'channels' must go with flatten=False, got channels=True and flatten=True")
        self.flatten, self.channels = flatten, channels

    def get_config(self) -> dict[str, Any]:
        """Return the constructor's keywords."""
        return {"flatten": self.flatten, "channels": self.channels}

    def __call__(self, train_x: Array, train_y: Array, test_x: Array, test_y: Array, seed: int = 0) -> Arrays:
        """Return images as the class says and labels ``(n, classes)`` of both parts; nothing is random here."""
        refuse_masked("ImageCls samples and labels", train_x, train_y, test_x, test_y)
        if _numbers_classes(train_y) and _numbers_classes(test_y):
            lowest = min(int(train_y.min()), int(test_y.min()))
            if lowest < 0:
                raise ValueError(f"ImageCls needs labels that number the classes from 0, got {lowest}")
            classes = max(int(train_y.max()), int(test_y.max())) + 1
            train_y, test_y = one_hot(train_y, classes), one_hot(test_y, classes)
        return self._images(train_x), train_y, self._images(test_x), test_y

    def _images(self, images: Array) -> Array:
        if images.dtype.kind in "iu":
            images = np.true_divide(images, _BRIGHTEST, dtype=np.float32)
        elif images.dtype.kind != "f":
            raise TypeError(f"ImageCls needs integer or float images, got dtype {images.dtype}")
        if self.flatten:
            return images.reshape(len(images), math.prod(images.shape[1:]))
        return images[..., None] if self.channels and images.ndim == 3 else images


def _numbers_classes(labels: Array) -> bool:
    """Tell whether `labels` are class numbers, one per sample."""
    return labels.dtype.kind in "biu" and labels.size == len(labels) > 0
