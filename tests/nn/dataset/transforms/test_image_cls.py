"""Images to float rows in 0..1, class numbers to one-hot rows."""

import numpy as np
import pytest

from nn.dataset.transforms import ImageCls

IMAGES = np.arange(24, dtype=np.uint8).reshape(4, 3, 2) * 11
LABELS = np.array([0, 2, 1, 2], np.uint8)


def images(array, **arguments):
    return ImageCls(**arguments)(array, LABELS, array[:1], LABELS[:1])[0]


def labels(train, test):
    train, test = np.array(train), np.array(test)
    return ImageCls()(np.ones((len(train), 1)), train, np.ones((len(test), 1)), test)[1::2]


@pytest.mark.parametrize("dtype", ["u1", "i2", "i4", "i8", "u8"])
def test_integer_images_become_float32_divided_by_255(dtype):
    """Conventions: integer images become float32 divided by 255, flattened to (n, features)."""
    result = images(IMAGES.astype(dtype))
    assert result.dtype == np.float32
    assert np.array_equal(result, IMAGES.reshape(4, 6).astype(np.float32) / np.float32(255))
    assert images(np.full((1, 1), 255)).item() == 1


@pytest.mark.parametrize("dtype", ["f2", "f4", "f8"])
def test_float_images_stay(dtype):
    """Conventions: float images stay."""
    array = IMAGES.astype(dtype)
    assert np.array_equal(images(array), array.reshape(4, 6))
    assert images(array).dtype == array.dtype


def test_flatten_takes_any_shape_and_can_be_left_out():
    """Conventions: flattened unless flatten=False."""
    assert images(np.ones((4, 2, 3, 5))).shape == (4, 30)
    assert images(np.ones(4)).shape == (4, 1)
    assert images(np.ones((4, 2, 3, 5)), flatten=False).shape == (4, 2, 3, 5)


def test_one_hot_is_as_wide_as_the_labels_of_both_parts_need():
    """Conventions: integer labels one-hot float32."""
    train, test = labels([0, 1], [3, 0, 1])
    assert train.dtype == test.dtype == np.float32
    assert train.tolist() == [[1, 0, 0, 0], [0, 1, 0, 0]]
    assert test.tolist() == [[0, 0, 0, 1], [1, 0, 0, 0], [0, 1, 0, 0]]
    assert labels([4], [0])[1].shape == (1, 5)


def test_columns_and_truth_values_are_class_numbers():
    assert labels([[0], [1]], [[1]])[0].tolist() == [[1, 0], [0, 1]]
    assert labels([True, False], [True])[0].tolist() == [[0, 1], [1, 0]]


def test_rows_and_floats_stay():
    for array in (np.eye(3), np.eye(3, dtype=int), np.array([0.5, 1.5, 2.5])):
        train, test = labels(array, array)
        assert np.array_equal(train, array)
        assert np.array_equal(test, array)
        assert train.dtype == array.dtype


@pytest.mark.parametrize(
    ("call", "error", "text"),
    [
        (lambda: labels([0, -1], [0]), ValueError, "labels that number the classes from 0, got -1"),
        (lambda: labels([0], [-3]), ValueError, "labels that number the classes from 0, got -3"),
        (lambda: images(IMAGES.astype(bool)), TypeError, "needs integer or float images, got dtype bool"),
        (lambda: ImageCls(flatten=1), TypeError, "ImageCls 'flatten' must be True or False, got 1"),
    ],
)
def test_errors(call, error, text):
    with pytest.raises(error, match=text):
        call()
