"""Images made ready for a classifier, and more images out of the given ones."""

from __future__ import annotations

import math
from typing import ClassVar

import numpy as np
from numpy.lib.stride_tricks import sliding_window_view

from nn import arguments
from nn.arrays import Array, refuse_masked
from nn.dataset.interface import Arrays
from nn.dataset.transforms.abstract import AbsTransformer, as_parts
from nn.dataset.transforms.labels import one_hot
from nn.dataset.transforms.order import check_pairs
from nn.random import keyed

__all__ = ["Augment", "ImageCls"]

_BRIGHTEST = np.float32(255)


class ImageCls(AbsTransformer, configured=True):
    """Image classification: bytes to float32 in 0..1, images to rows, class numbers to one-hot rows.

    Integer images of any type become float32 divided by 255: those of uint16 that fill it end at 257. Float images stay as
    they are. With `flatten` images of any shape become ``(n, features)``; else they keep their shape, and with `channels` grey
    images ``(n, height, width)`` become ``(n, height, width, 1)``, as Conv2D takes them. Integer (or boolean) labels of shape
    ``(n,)`` or ``(n, 1)`` become one-hot float32 of shape ``(n, classes)``, where ``classes`` is the largest label of training
    and test set plus one; float labels and labels that are rows already stay as they are.

    Args:
        flatten: whether images become rows.
        channels: whether grey images get an axis for their one channel.

    Raises TypeError for images that are neither integer nor float; ValueError for a negative label, and for `channels` together
    with `flatten`, which leaves no axis.

    >>> train_x, train_y, test_x, test_y = nn.dataset.transforms.ImageCls()(*nn.dataset.Digits().load())
    >>> train_x.shape, train_x.dtype, train_y.shape
    ((1500, 64), dtype('float32'), (1500, 10))
    >>> nn.dataset.transforms.ImageCls(flatten=False, channels=True)(*nn.dataset.Digits().load())[0].shape
    (1500, 8, 8, 1)
    """

    takes_parts: ClassVar[bool] = False

    def __init__(self, flatten: bool = True, channels: bool = False) -> None:
        for name, value in (("flatten", flatten), ("channels", channels)):
            if not isinstance(value, bool):
                raise TypeError(f"ImageCls '{name}' must be True or False, got {value!r}")
        if flatten and channels:
            raise ValueError("ImageCls 'channels' must go with flatten=False, got channels=True and flatten=True")
        self.flatten, self.channels = flatten, channels

    def __call__(self, train_x: Array, train_y: Array, test_x: Array, test_y: Array, seed: int = 0) -> Arrays:
        """Return images as the class says and labels ``(n, classes)`` of both parts; nothing is random here."""
        refuse_masked("ImageCls samples and labels", train_x, train_y, test_x, test_y)
        train_x, train_y, test_x, test_y = as_parts(self, train_x, train_y, test_x, test_y)
        if _numbers_classes(train_y) and _numbers_classes(test_y):
            train_y, test_y = one_hot(self, train_y, test_y)
        return self._images(train_x), train_y, self._images(test_x), test_y

    def fitted(self, train_x: Array, train_y: Array) -> ImageCls:
        """Return this transform, which has no statistics."""
        return self

    def at_prediction(self, x: Array, y: Array | None) -> tuple[Array, Array | None]:
        """Return images as the model takes them."""
        refuse_masked("ImageCls samples", x)
        return self._images(x), y

    def _images(self, images: Array) -> Array:
        if images.dtype.kind in "iu":
            # float32 at once: an array of float64 would take twice the memory of the result.
            images = np.true_divide(images, _BRIGHTEST, dtype=np.float32)
        elif images.dtype.kind != "f":
            raise TypeError(f"ImageCls needs integer or float images, got dtype {images.dtype}")
        if self.flatten:
            return images.reshape(len(images), math.prod(images.shape[1:]))
        return images[..., None] if self.channels and images.ndim == 3 else images


def _numbers_classes(labels: Array) -> bool:
    # One number for each sample, and at least one.
    return labels.dtype.kind in "biu" and labels.size == len(labels) > 0


_CHUNK = 256  # images that are padded at a time


class Augment(AbsTransformer, configured=True):
    """Add `copies` of every training image, each changed at random; labels are repeated, the test set stays.

    With `flip` a copy is mirrored left to right with probability 1/2. With `crop` c it is padded by c rows and columns of
    zeros on every side and cut back to its size at a random place, that is shifted by up to c pixels. This is the usual
    augmentation of small photographs (K. He et al., *Deep residual learning for image recognition*, 2016, section 4.2,
    there drawn anew in every epoch).

    A transform runs once, before training, so variety must come from copies: with ``keep=True`` n images become
    ``(1 + copies) * n``, first the images as they are, then one copy of all after the other; with ``keep=False`` only the
    copies are returned. Put `Shuffle` behind it.

    Images are ``(n, height, width)`` or ``(n, height, width, channels)``, of any dtype.

    Args:
        copies: of each image, at least 1.
        flip: whether a copy may be mirrored.
        crop: most pixels by which a copy is shifted; 0: none.
        keep: whether the images as they are stay among the result.

    Raises ValueError where neither flip nor crop is asked for, for samples that are no images, and when there are not as
    many labels as samples.

    >>> transform = Augment(copies=2, flip=True, crop=4).add(Shuffle()).add(ImageCls(flatten=False))
    """

    takes_parts: ClassVar[bool] = False

    for_training_only = True

    def __init__(self, copies: int = 1, flip: bool = True, crop: int = 4, keep: bool = True) -> None:
        self.copies = arguments.integer(self, "copies", copies, minimum=1)
        self.flip = bool(arguments.instance(self, "flip", flip, bool))
        self.crop = arguments.integer(self, "crop", crop, minimum=0)
        self.keep = bool(arguments.instance(self, "keep", keep, bool))
        if not self.flip and not self.crop:
            raise ValueError("Augment must be asked for 'flip', 'crop' or both, got neither")

    def __call__(self, train_x: Array, train_y: Array, test_x: Array, test_y: Array, seed: int = 0) -> Arrays:
        """Return more training images and their labels; `seed` decides flips and places."""
        refuse_masked("Augment samples", train_x)
        train_x, train_y, test_x, test_y = as_parts(self, train_x, train_y, test_x, test_y)
        if train_x.ndim not in (3, 4):
            raise ValueError(
                f"Augment needs images (n, height, width) or (n, height, width, channels), got shape {train_x.shape}"
            )
        check_pairs(self, train_x, train_y)
        count, kept = len(train_x), int(self.keep)
        images = np.empty(((kept + self.copies) * count, *train_x.shape[1:]), train_x.dtype)
        if kept:
            images[:count] = train_x
        for copy in range(self.copies):
            start = (kept + copy) * count
            # Each copy has a key of its own, so that more copies leave the first ones as they are.
            self._change(train_x, images[start : start + count], keyed(seed, "augment", copy))
        return images, np.concatenate([train_y] * (kept + self.copies)), test_x, test_y

    def _change(self, images: Array, out: Array, random: np.random.Generator) -> None:
        # Drawn for all images before they are cut, so that `_CHUNK` changes no draw.
        places = random.integers(0, 2 * self.crop + 1, (2, len(images)))
        mirrored = random.random(len(images)) < 0.5
        height, width = images.shape[1:3]
        border = ((0, 0), (self.crop, self.crop), (self.crop, self.crop), (0, 0))[: images.ndim]
        for start in range(0, len(images), _CHUNK):
            part = slice(start, start + _CHUNK)
            if self.crop:
                # A view of all places; only the chosen window of each image is copied.
                windows = sliding_window_view(np.pad(images[part], border), (height, width), axis=(1, 2))
                # The axes of a window behind those of its places, and the channels last.
                windows = np.moveaxis(windows, (-2, -1), (3, 4))
                out[part] = windows[np.arange(len(windows)), places[0, part], places[1, part]]
            else:
                out[part] = images[part]
            if self.flip:
                chosen = mirrored[part]
                out[part][chosen] = out[part][chosen, :, ::-1]
