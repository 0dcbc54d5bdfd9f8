"""Mirrored and shifted copies: which pixels they hold, and how many there are."""

import numpy as np
import pytest

from nn.dataset.transforms import Augment
from nn.dataset.transforms import images as module

COUNT = 60
Y = np.arange(COUNT)


def images(shape, dtype=np.uint8):
    return np.random.default_rng(3).integers(1, 256, (COUNT, *shape)).astype(dtype)


def shifted(image, down, right):
    """Return the image moved, with zeros where nothing was."""
    height, width = image.shape[:2]
    result = np.zeros_like(image)
    for row in range(height):
        for column in range(width):
            if 0 <= row - down < height and 0 <= column - right < width:
                result[row, column] = image[row - down, column - right]
    return result


def copies(x, seed=0, **arguments):
    train_x, train_y, test_x, test_y = Augment(keep=False, **arguments)(x, Y, x[:2], Y[:2], seed=seed)
    assert np.array_equal(test_x, x[:2])
    assert np.array_equal(test_y, Y[:2])
    assert np.array_equal(train_y, np.tile(Y, len(train_x) // COUNT))
    assert train_x.dtype == x.dtype
    return train_x


@pytest.mark.parametrize("shape", [(5, 4), (5, 4, 3)])
@pytest.mark.parametrize("dtype", [np.uint8, np.float32, np.float64])
def test_a_copy_is_a_shift_of_the_image_or_of_its_mirror(shape, dtype, monkeypatch):
    monkeypatch.setattr(module, "_CHUNK", 7)
    x = images(shape, dtype)
    found = set()
    for image, copy in zip(x, copies(x, crop=1), strict=True):
        variants = {
            (mirrored, down, right): shifted(image[:, ::-1] if mirrored else image, down, right)
            for mirrored in (False, True)
            for down in (-1, 0, 1)
            for right in (-1, 0, 1)
        }
        [match] = [key for key, variant in variants.items() if np.array_equal(copy, variant)]
        found.add(match)
    assert len(found) > 12


def test_flip_alone_and_crop_alone():
    x = images((5, 4))
    flipped = copies(x, crop=0)
    mirrored = [np.array_equal(copy, image[:, ::-1]) for copy, image in zip(flipped, x, strict=True)]
    assert 15 < sum(mirrored) < 45
    for copy, image, mirror in zip(flipped, x, mirrored, strict=True):
        assert mirror or np.array_equal(copy, image)
    cropped = copies(x, flip=False, crop=2)
    offsets = [(down, right) for down in range(-2, 3) for right in range(-2, 3)]
    for copy, image in zip(cropped, x, strict=True):
        assert any(np.array_equal(copy, shifted(image, *offset)) for offset in offsets)


def test_the_images_come_first_then_copy_by_copy():
    x = images((4, 4, 1))
    train_x, train_y, _, _ = Augment(copies=2, crop=1)(x, np.eye(COUNT)[Y], x, Y, seed=4)
    assert train_x.shape == (3 * COUNT, 4, 4, 1)
    assert np.array_equal(train_x[:COUNT], x)
    assert np.array_equal(train_x[COUNT:], copies(x, seed=4, copies=2, crop=1))
    assert np.array_equal(train_y, np.tile(np.eye(COUNT), (3, 1)))
    assert not np.array_equal(train_x[COUNT : 2 * COUNT], train_x[2 * COUNT :])


def test_a_larger_crop_than_the_image_is_allowed():
    assert copies(images((2, 2)), crop=5).shape == (COUNT, 2, 2)


@pytest.mark.parametrize(
    ("call", "error", "text"),
    [
        (lambda: Augment(copies=0), ValueError, "Augment 'copies' must be a positive integer, got 0"),
        (lambda: Augment(crop=-1), ValueError, "Augment 'crop' must be an integer of at least 0, got -1"),
        (lambda: Augment(flip=1), TypeError, "Augment 'flip' must be an instance of bool, got int 1"),
        (lambda: Augment(flip=False, crop=0), ValueError, "must be asked for 'flip', 'crop' or both, got neither"),
        (lambda: copies(images((4,))), ValueError, r"Augment needs images \(n, height, width\) or .*got shape \(60, 4\)"),
        (
            lambda: Augment()(images((4, 4)), Y[:5], images((4, 4)), Y),
            ValueError,
            "Augment needs one label per sample, got 60 samples and 5 labels",
        ),
    ],
)
def test_errors(call, error, text):
    with pytest.raises(error, match=text):
        call()
