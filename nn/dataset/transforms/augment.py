"""More images out of the given ones: mirrored and shifted."""

from typing import Any

import numpy as np
from numpy.lib.stride_tricks import sliding_window_view

from nn import arguments
from nn.arrays import Array, refuse_masked
from nn.dataset.checksum import Arrays
from nn.dataset.transforms.abstract import AbsTransformer
from nn.dataset.transforms.dealing import check_pairs
from nn.random import keyed

__all__ = ["Augment"]

_CHUNK = 256  # images that are padded at a time


class Augment(AbsTransformer):
    """Add `copies` of every training image, each changed at random; labels are repeated, the test set stays.

    With `flip` a copy is mirrored left to right with probability 1/2. With `crop` c it is padded by c rows and columns of
    zeros on every side and cut back to its size at a random place, that is shifted by up to c pixels. This is the usual
    augmentation of small photographs (K. He et al., *Deep residual learning for image recognition*, 2016, section 4.2,
    there drawn anew in every epoch).

    A transform runs once, before training, so variety must come from copies: with ``keep=True`` n images become
    ``(1 + copies) * n``, first the images as they are, then one copy of all after the other; with ``keep=False`` only the
    copies are returned. Put `Shuffle` behind it.

    Images are ``(n, height, width)`` or ``(n, height, width, channels)``, of any dtype.

    Raises ValueError where neither flip nor crop is asked for, for samples that are no images, and when there are not as
    many labels as samples.

    >>> transform = Augment(copies=2, flip=True, crop=4).add(Shuffle()).add(ImageCls(flatten=False))
    """

    def __init__(self, copies: int = 1, flip: bool = True, crop: int = 4, keep: bool = True) -> None:
        self.copies = arguments.integer(self, "copies", copies, minimum=1)
        self.flip = bool(arguments.instance(self, "flip", flip, bool))
        self.crop = arguments.integer(self, "crop", crop, minimum=0)
        self.keep = bool(arguments.instance(self, "keep", keep, bool))
        if not self.flip and not self.crop:
            raise ValueError("Augment must be asked for 'flip', 'crop' or both, got neither")

    def get_config(self) -> dict[str, Any]:
        """Return the constructor's keywords."""
        return {"copies": self.copies, "flip": self.flip, "crop": self.crop, "keep": self.keep}

    def __call__(self, train_x: Array, train_y: Array, test_x: Array, test_y: Array, seed: int = 0) -> Arrays:
        """Return more training images and their labels; `seed` decides flips and places."""
        refuse_masked("Augment samples", train_x)
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
            self._change(train_x, images[start : start + count], keyed(seed, "augment", copy))
        return images, np.concatenate([train_y] * (kept + self.copies)), test_x, test_y

    def _change(self, images: Array, out: Array, random: np.random.Generator) -> None:
        """Write one changed copy of every image to `out`."""
        places = random.integers(0, 2 * self.crop + 1, (2, len(images)))
        mirrored = random.random(len(images)) < 0.5
        height, width = images.shape[1:3]
        border = ((0, 0), (self.crop, self.crop), (self.crop, self.crop), (0, 0))[: images.ndim]
        for start in range(0, len(images), _CHUNK):
            part = slice(start, start + _CHUNK)
            if self.crop:
                windows = sliding_window_view(np.pad(images[part], border), (height, width), axis=(1, 2))
                windows = np.moveaxis(windows, (-2, -1), (3, 4))
                out[part] = windows[np.arange(len(windows)), places[0, part], places[1, part]]
            else:
                out[part] = images[part]
            if self.flip:
                chosen = mirrored[part]
                out[part][chosen] = out[part][chosen, :, ::-1]
