"""Cross-check with Keras of layers that change images, by given draws, and of those that make samples ready."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
import pytest

from nn import layer
from nn.arrays import Array
from nn.operation.augmentation import Affine, Contrast, Drawn, FillMode, Moves
from nn.random import keyed
from tests.nn.golden import Golden, optional
from tests.nn.graphs import Compiled

keras = optional("keras")
IMAGES = keyed(3, "images").random((3, 7, 5, 2))
DRAWS = keyed(4, "draws").random((3, 5))
ANGLE, SIZE, WIDTH, SHIFT = (-0.7, 1.2), (0.6, 1.5), (0.7, 1.1), (-0.4, 0.3)


def changed(operation: Drawn, x: Array, drawn: Array) -> Array:
    """What an operation makes of images by these draws."""
    out = np.empty_like(x)
    operation.allocate([x.shape], x.shape, x.dtype)
    drawn = np.array(drawn[:, : operation.draws])
    operation._drawn = drawn
    operation.settle(drawn)
    operation.change(x, out)
    return out


def between(bounds: tuple[float, float], drawn: Array) -> Array:
    return bounds[0] + (bounds[1] - bounds[0]) * drawn


def tensor(x: Array) -> Any:
    """What the methods within Keras's layers take: they turn no arrays into tensors, as a call of a layer does."""
    return keras.ops.convert_to_tensor(x.astype(np.float32))


def rotated(edge: str, interpolation: str) -> Any:
    made = keras.layers.RandomRotation(0.1, fill_mode=edge, interpolation=interpolation, fill_value=0.3)
    zero, one, angle = map(tensor, (np.zeros(3), np.ones(3), np.degrees(between(ANGLE, DRAWS[:, 0]))))
    matrix = made._compute_affine_matrix(0.5, 0.5, angle, zero, zero, one, zero, zero, 7, 5)
    return made._transform_images(tensor(IMAGES), {"rotation_matrix": matrix}, interpolation)


def zoomed(edge: str, interpolation: str) -> Any:
    made = keras.layers.RandomZoom(0.1, fill_mode=edge, interpolation=interpolation, fill_value=0.3)
    zooms = {"height_zoom": tensor(between(SIZE, DRAWS[:, 1:2])), "width_zoom": tensor(between(WIDTH, DRAWS[:, 2:3]))}
    return made._zoom_inputs(tensor(IMAGES), zooms, interpolation)


def shifted(edge: str, interpolation: str) -> Any:
    made = keras.layers.RandomTranslation(0.1, 0.1, fill_mode=edge, interpolation=interpolation, fill_value=0.3)
    shifts = np.stack([5 * between(SHIFT, DRAWS[:, 4]), 7 * between(SHIFT, DRAWS[:, 3])], axis=1)
    return made._translate_inputs(tensor(IMAGES), {"translations": tensor(shifts)}, interpolation)


@pytest.mark.parametrize("interpolation", ["bilinear", "nearest"])
@pytest.mark.parametrize("edge", ["reflect", "wrap", "constant", "nearest"])
def test_moved_images(edge: FillMode, interpolation: Any, golden: Golden) -> None:
    moves = [Moves(angle=ANGLE), Moves(height=SIZE, width=WIDTH), Moves(down=SHIFT, right=SHIFT)]

    def compute() -> list[Any]:
        return [np.asarray(make(edge, interpolation)) for make in (rotated, zoomed, shifted)]

    for expected, bounds in zip(golden(compute, IMAGES, DRAWS, needs=keras), moves, strict=True):
        expected.close(changed(Affine(bounds, interpolation, edge, 0.3), IMAGES, DRAWS), 1e-4, 1e-5)


def test_contrast(golden: Golden) -> None:
    def compute() -> list[Any]:
        made = keras.layers.RandomContrast(0.5, value_range=(0.1, 0.9))
        factor = tensor(between((0.4, 1.8), DRAWS[:, :1])[..., None, None])
        return [np.asarray(made.transform_images(tensor(IMAGES), {"contrast_factor": factor}))]

    (expected,) = golden(compute, IMAGES, DRAWS, needs=keras)
    expected.close(changed(Contrast((0.4, 1.8), (0.1, 0.9)), IMAGES, DRAWS), 1e-5, 1e-6)


SIZES: dict[str, tuple[Callable[[Any], Any], Callable[[], layer.Layer]]] = {
    "smaller": (lambda k: k.Resizing(3, 4), lambda: layer.Resizing(3, 4)),
    "larger": (lambda k: k.Resizing(9, 11), lambda: layer.Resizing(9, 11)),
    "nearest": (lambda k: k.Resizing(4, 9, "nearest"), lambda: layer.Resizing(4, 9, "nearest")),
    "in proportion": (
        lambda k: k.Resizing(3, 6, crop_to_aspect_ratio=True), lambda: layer.Resizing(3, 6, crop_to_aspect_ratio=True)
    ),
    "middle": (lambda k: k.CenterCrop(4, 2), lambda: layer.CenterCrop(4, 2)),
    "middle of small ones": (lambda k: k.CenterCrop(9, 3), lambda: layer.CenterCrop(9, 3)),
}  # fmt: skip


@pytest.mark.parametrize("kind", SIZES)
def test_sizes_of_images(kind: str, golden: Golden) -> None:
    theirs, ours = SIZES[kind]
    (expected,) = golden(lambda: [np.asarray(theirs(keras.layers)(IMAGES.astype(np.float32)))], IMAGES, needs=keras)
    expected.close(Compiled(ours(), (7, 5, 2)).value(IMAGES), 1e-5, 1e-6)


@pytest.mark.parametrize("axis", [-1, None, (1, 3)])
@pytest.mark.parametrize("invert", [False, True])
def test_normalization(axis: Any, invert: bool, golden: Golden) -> None:
    x = IMAGES * [3, 500] + 20

    def compute() -> list[Any]:
        made = keras.layers.Normalization(axis=axis, invert=invert)
        made.adapt(x)
        return [np.asarray(made(x.astype(np.float32)))]

    made = layer.Normalization(axis=axis, invert=invert)
    made.adapt(x)
    (expected,) = golden(compute, x, needs=keras)
    expected.close(Compiled(made, (7, 5, 2)).value(x), 1e-4, 1e-4)


@pytest.mark.parametrize("mode", ["one_hot", "multi_hot", "count"])
@pytest.mark.parametrize("ids", [[[1, 3, 3], [0, 0, 4]], [[2], [4]]])
def test_category_encoding(mode: Any, ids: list[list[int]], golden: Golden) -> None:
    x = np.array(ids)
    (expected,) = golden(lambda: [np.asarray(keras.layers.CategoryEncoding(5, mode)(x))], x, needs=keras)
    expected.close(Compiled(layer.CategoryEncoding(5, mode), x.shape[1:]).value(x), 0.0)


@pytest.mark.parametrize("categories", [3, 4000])
def test_ids_are_counted_in_few_and_in_many_categories(categories: int) -> None:
    ids = np.random.default_rng(5).integers(0, categories, (4, 7))
    ids[:, :3] = ids[:, :1]
    expected = np.stack([np.bincount(row, minlength=categories) for row in ids])
    made = Compiled(layer.CategoryEncoding(categories, "count"), ids.shape[1:])
    for _ in range(2):
        assert np.array_equal(made.value(ids), expected)
