"""What holds for every transform, a new kind needs a row in `ROWS`; chains, orders, images and one-hot rows."""

import json
import re

import numpy as np
import pytest

import nn.dataset.transforms as transforms
from nn.dataset import Digits
from nn.dataset.transforms import (
    AbsTransformer,
    Augment,
    Buckets,
    Chain,
    Dirichlet,
    ImageCls,
    Make_Non_IID,
    Normalize,
    NormalizeLabels,
    OneHot,
    Shuffle,
    StringLookup,
    TextVectorization,
    True_Non_IID,
    Windows,
    build,
    describe,
)
from nn.dataset.transforms import images as module
from nn.random import keyed
from tests.contract.kinds import public_kinds

ROWS = {
    Shuffle: lambda: Shuffle(),
    ImageCls: lambda: ImageCls(flatten=False),
    Chain: lambda: Chain([Shuffle(), ImageCls()]),
    Normalize: lambda: Normalize(std=[2.0, 3.0, 4.0]),
    NormalizeLabels: lambda: NormalizeLabels(mean=2.0),
    OneHot: lambda: OneHot(classes=5),
    Augment: lambda: Augment(crop=1, keep=False),
    Make_Non_IID: lambda: Make_Non_IID(batch_size=4, disorder=0.5),
    True_Non_IID: lambda: True_Non_IID(batch_size=4, disorder=0.5),
    Dirichlet: lambda: Dirichlet(0.5, blocks=2, block_size=2),
    Windows: lambda: Windows(2, horizon=1),
    Buckets: lambda: Buckets([2, 4]),
    StringLookup: lambda: StringLookup(max_tokens=3),
    TextVectorization: lambda: TextVectorization(output_sequence_length=3),
}
OF_TEXTS = (StringLookup, TextVectorization)
X, Y = np.arange(40).reshape(20, 2), np.arange(20)
IMAGES = np.arange(24, dtype=np.uint8).reshape(4, 3, 2) * 11
COUNT = 60
MANY = np.arange(COUNT)


def samples():
    random, arrays = np.random.default_rng(2), []
    for count in (9, 3):
        arrays += [random.integers(0, 256, (count, 4, 3), dtype=np.uint8), random.integers(0, 5, count)]
    for array in arrays:
        array.flags.writeable = False
    return arrays


def of_texts(arrays):
    """The same with texts as samples."""
    return [
        array if place % 2 else np.array([f"{row[0, 0] % 3} times {row[0, 1] % 2}" for row in array])
        for place, array in enumerate(arrays)
    ]


def samples_for(kind):
    return of_texts(samples()) if kind in OF_TEXTS else samples()


def equal(left, right):
    return all(a.dtype == b.dtype and np.array_equal(a, b) for a, b in zip(left, right, strict=True))


def test_every_kind_has_a_row_and_is_exported():
    kinds = public_kinds(AbsTransformer, transforms)
    assert kinds == set(ROWS)
    assert {kind.__name__ for kind in kinds} <= set(transforms.__all__)


@pytest.mark.parametrize("kind", ROWS, ids=lambda kind: kind.__name__)
def test_the_contract(kind):
    """No sample is lost, arguments stay as they are; arguments and seed decide alone, and so does a description."""
    transform, given = ROWS[kind](), samples_for(kind)
    first = transform(*given, seed=3)
    assert [len(array) for array in first] == ([7, 7, 3, 3] if kind is Windows else [9, 9, 3, 3])
    assert equal(given, samples_for(kind))
    transform(*samples_for(kind), seed=4)
    assert equal(transform(*samples_for(kind), seed=3), first)
    assert equal(transform(*samples_for(kind)), transform(*samples_for(kind), seed=0))
    after = ImageCls()
    assert equal(transform.add(after)(*samples_for(kind), seed=3), after(*first, seed=3))
    shuffled = Shuffle()(*samples_for(kind), seed=3)
    assert equal(Shuffle().add(transform)(*samples_for(kind), seed=3), transform(*shuffled, seed=3))
    again = kind(**transform.get_config())
    assert repr(again) == repr(transform)
    described = build(describe(transform))
    assert describe(described) == describe(transform)
    assert equal(again(*samples_for(kind), seed=3), first)
    assert equal(described(*samples_for(kind), seed=3), first)
    if kind is not Chain:
        assert json.loads(json.dumps(transform.get_config())) == transform.get_config()


class Append(AbsTransformer):
    """Adds one digit to every number, so that the order can be read off the result."""

    def __init__(self, digit):
        self.digit = digit

    def __call__(self, train_x, train_y, test_x, test_y, seed=0):
        return train_x * 10 + self.digit, train_y, test_x * 10 + self.digit, test_y


def test_chains_of_chains_keep_the_order_and_add_changes_neither_of_the_two():
    def digits(transform):
        zero = np.zeros(1, int)
        return transform(zero, zero, zero, zero)[0].item()

    one, two, three, four = (Append(digit) for digit in range(1, 5))
    assert digits(one.add(two).add(three)) == digits(one.add(two.add(three))) == 123
    assert digits(one.add(two).add(three.add(four))) == 1234
    assert one.add(two).add(three.add(four)).steps == (one, two, three, four)
    chain = two.add(three)
    one.add(chain)
    chain.add(one)
    assert (digits(one), digits(chain)) == (1, 23)
    assert describe(Shuffle().add(ImageCls(flatten=False))) == [
        ("Shuffle", {}),
        ("ImageCls", {"flatten": False, "channels": False}),
    ]


def test_the_program_of_the_readme():
    arrays = Shuffle().add(ImageCls())(*Digits().load())
    assert [array.shape for array in arrays] == [(1500, 64), (1500, 10), (297, 64), (297, 10)]


def test_shuffled_samples_move_with_their_labels_in_the_keyed_order():
    """Conventions: Shuffle draws one permutation from the job's seed, the same on every node."""
    train_x, train_y, test_x, test_y = Shuffle()(X, Y, X, Y, seed=7)
    order = keyed(7, "shuffle").permutation(20)
    assert np.array_equal(train_y, order)
    assert np.array_equal(train_x, X[order])
    assert test_x is X and test_y is Y
    assert len({*(tuple(Shuffle()(X, Y, X, Y, seed=seed)[1]) for seed in range(5)), tuple(Y)}) == 6


def images(array, **arguments):
    labels = np.arange(len(array))
    return ImageCls(**arguments)(array, labels, array[:1], labels[:1])[0]


def test_integer_images_become_float32_divided_by_255_and_float_images_stay():
    """Conventions: and both are flattened to (n, features) unless flatten=False."""
    for dtype in ("u1", "i2", "i4", "i8", "u8"):
        result = images(IMAGES.astype(dtype))
        assert result.dtype == np.float32
        assert np.array_equal(result, IMAGES.reshape(4, 6).astype(np.float32) / np.float32(255))
    assert images(np.full((1, 1), 255)).item() == 1
    for dtype in ("f2", "f4", "f8"):
        result = images(IMAGES.astype(dtype))
        assert result.dtype == dtype
        assert np.array_equal(result, IMAGES.astype(dtype).reshape(4, 6))
    assert images(np.ones((4, 2, 3, 5))).shape == (4, 30)
    assert images(np.ones(4)).shape == (4, 1)
    assert images(np.ones((4, 2, 3, 5)), flatten=False).shape == (4, 2, 3, 5)


def rows(train, test, kind=OneHot, **arguments):
    train, test = np.array(train), np.array(test)
    return kind(**arguments)(np.ones((len(train), 1)), train, np.ones((len(test), 1)), test)[1::2]


@pytest.mark.parametrize("kind", [ImageCls, OneHot])
def test_class_numbers_become_rows_as_wide_as_the_labels_of_both_parts_need(kind):
    """Conventions: integer labels one-hot float32."""
    train, test = rows([0, 1, 1], [3, 0, 1], kind)
    assert train.dtype == test.dtype == np.float32
    assert train.tolist() == [[1, 0, 0, 0], [0, 1, 0, 0], [0, 1, 0, 0]]
    assert test.tolist() == [[0, 0, 0, 1], [1, 0, 0, 0], [0, 1, 0, 0]]
    assert rows([4], [0], kind)[1].shape == (1, 5)
    for labels in ([[0], [1], [1]], [False, True, True], np.array([0, 1, 1], np.uint8)):
        assert rows(labels, labels, kind)[0].tolist() == [[1, 0], [0, 1], [0, 1]]
    assert rows([0.0, 1.0, 1.0], [0.0])[0].tolist() == [[1, 0], [0, 1], [0, 1]]
    assert rows([0, 1, 1], [0], classes=5)[0].shape == (3, 5)
    train_x, _, test_x, _ = OneHot()(X, Y, X, Y)
    assert train_x is X and test_x is X
    for array in (np.eye(3), np.eye(3, dtype=int), np.array([0.5, 1.5, 2.5])):  # rows and floats stay
        for found in rows(array, array, ImageCls):
            assert np.array_equal(found, array)
            assert found.dtype == array.dtype


def pictures(shape, dtype=np.uint8):
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
    train_x, train_y, test_x, test_y = Augment(keep=False, **arguments)(x, MANY, x[:2], MANY[:2], seed=seed)
    assert np.array_equal(test_x, x[:2])
    assert np.array_equal(test_y, MANY[:2])
    assert np.array_equal(train_y, np.tile(MANY, len(train_x) // COUNT))
    assert train_x.dtype == x.dtype
    return train_x


@pytest.mark.parametrize("shape", [(5, 4), (5, 4, 3)])
@pytest.mark.parametrize("dtype", [np.uint8, np.float32, np.float64])
@pytest.mark.parametrize(
    ("flip", "crop", "least", "most"), [(True, 1, 13, 18), (True, 0, 2, 2), (False, 2, 20, 25)], ids=["both", "flip", "crop"]
)
def test_a_copy_is_a_shift_of_the_image_or_of_its_mirror(shape, dtype, flip, crop, least, most, monkeypatch):
    monkeypatch.setattr(module, "_CHUNK", 7)
    x, found, moves = pictures(shape, dtype), [], range(-crop, crop + 1)
    for image, copy in zip(x, copies(x, flip=flip, crop=crop), strict=True):
        variants = {
            (mirrored, down, right): shifted(image[:, ::-1] if mirrored else image, down, right)
            for mirrored in {False, flip}
            for down in moves
            for right in moves
        }
        [match] = [key for key, variant in variants.items() if np.array_equal(copy, variant)]
        found.append(match)
    assert least <= len(set(found)) <= most
    assert not flip or 15 < sum(mirrored for mirrored, *_ in found) < 45


def test_augmented_images_come_first_then_copy_by_copy():
    x = pictures((4, 4, 1))
    train_x, train_y, _, _ = Augment(copies=2, crop=1)(x, np.eye(COUNT), x, MANY, seed=4)
    assert train_x.shape == (3 * COUNT, 4, 4, 1)
    assert np.array_equal(train_x[:COUNT], x)
    assert np.array_equal(train_x[COUNT:], copies(x, seed=4, copies=2, crop=1))
    assert np.array_equal(train_y, np.tile(np.eye(COUNT), (3, 1)))
    assert not np.array_equal(train_x[COUNT : 2 * COUNT], train_x[2 * COUNT :])
    assert copies(pictures((2, 2)), crop=5).shape == (COUNT, 2, 2)  # larger than the image


class Other(Shuffle):
    """A class of one's own by a built-in name."""


Other.__name__ = "Shuffle"


@pytest.mark.parametrize(
    ("use", "text"),
    [
        (lambda: Shuffle().add("x"), r"TypeError: Chain 'steps' must be transforms \(AbsTransformer objects\), got 'x'"),
        (lambda: Shuffle().add(ImageCls), "TypeError: .*got <class .*ImageCls'>"),
        *((lambda other=other: describe(ImageCls().add(other)),
           r"TypeError: only Shuffle, ImageCls, .* can be described as data, got a .*(Append|Other)")
          for other in (Append(1), Other())),
        (lambda: build([("os.system", {})]), r"ValueError: .*must be one of Shuffle, ImageCls, .*, got 'os\.system'"),
        (lambda: Shuffle()(X, Y[:-1], X, Y), "ValueError: Shuffle needs one label per sample, got 20 samples and 19 labels"),
        *((lambda bad=bad, kind=kind: rows(*bad, kind), f"ValueError: .*labels that number the classes from 0, got {got}")
          for kind in (ImageCls, OneHot) for bad, got in ((([0, -1], [0]), -1), (([0], [-3]), -3))),
        (lambda: images(IMAGES.astype(bool)), "TypeError: .*needs integer or float images, got dtype bool"),
        (lambda: ImageCls(channels=True), "ValueError: .*'channels' must go with flatten=False, got channels=True and"),
        (lambda: ImageCls(flatten=1), "TypeError: ImageCls 'flatten' must be True or False, got 1"),
        (lambda: OneHot(0), "ValueError: OneHot 'classes' must be a positive integer, got 0"),
        (lambda: OneHot(True), "TypeError: OneHot 'classes' must be a positive integer, got True"),
        (lambda: rows([0, 1], [7], classes=5), "ValueError: .*'classes' must exceed every label, got 5 and the label 7"),
        (lambda: rows([0, 0.5, 1], [0.0]), "ValueError: OneHot needs labels that are class numbers, got 0.5"),
        (lambda: rows([0, np.nan, 1], [0.0]), "ValueError: OneHot needs labels that are numbers, got NaN"),
        (lambda: rows([0, np.inf, 1], [0.0]), "ValueError: OneHot needs labels that are class numbers, got inf"),
        (lambda: rows(np.eye(3), np.eye(3)), r"OneHot needs labels of shape \(n,\) or \(n, 1\), got \(3, 3\)"),
        (lambda: rows([], []), r"ValueError: OneHot needs labels of shape \(n,\) or \(n, 1\), got \(0,\)"),
        (lambda: Augment(copies=0), "ValueError: Augment 'copies' must be a positive integer, got 0"),
        (lambda: Augment(crop=-1), "ValueError: Augment 'crop' must be an integer of at least 0, got -1"),
        (lambda: Augment(flip=1), "TypeError: Augment 'flip' must be an instance of bool, got int 1"),
        (lambda: Augment(flip=False, crop=0), "ValueError: .*must be asked for 'flip', 'crop' or both, got neither"),
        (lambda: copies(pictures((4,))), r"Augment needs images \(n, height, width\) or .*got shape \(60, 4\)"),
        (lambda: Augment()(pictures((4, 4)), MANY[:5], pictures((4, 4)), MANY),
         "ValueError: Augment needs one label per sample, got 60 samples and 5 labels"),
    ],
)  # fmt: skip
def test_what_does_not_fit_is_named(use, text):
    with pytest.raises((TypeError, ValueError)) as caught:
        use()
    assert re.search(text if "Error: " in text else f"ValueError: .*{text}", f"{caught.type.__name__}: {caught.value}")


def test_class_numbers_of_half_precision():
    """A bound that float16 does not hold must not be compared with in it; warnings are errors here."""
    x, y = np.zeros((3, 1)), np.array([2, 0, 1], np.float16)
    assert OneHot()(x, y, x, y)[1].argmax(1).tolist() == [2, 0, 1]
