"""Image files as arrays of one size: PNM and NumPy's own by NumPy alone, all others by Pillow, which is an extra."""

from __future__ import annotations

import re
from pathlib import Path
from typing import Any, Final, Literal, TypeAlias

import numpy as np
from numpy.typing import NDArray

from nn.arrays import Array
from nn.dataset.npz import read_array
from nn.resampling import Interpolation, largest_in_proportion, mixing, nearest_cells

__all__ = ["PLAIN", "SUFFIXES", "ColorMode", "Image", "fitted", "read_image"]

Image: TypeAlias = NDArray[np.uint8]
"""Pixels (height, width, channels) from 0 to 255."""
ColorMode: TypeAlias = Literal["rgb", "grayscale", "rgba"]

PLAIN: Final = (".npy", ".pgm", ".ppm")
"""Endings of files that NumPy reads."""
SUFFIXES: Final = (*PLAIN, ".png", ".jpg", ".jpeg", ".bmp", ".gif", ".webp")
"""Endings of image files, in lower case."""
_CHANNELS: Final = {"grayscale": 1, "rgb": 3, "rgba": 4}
_MODES: Final = {"grayscale": "L", "rgb": "RGB", "rgba": "RGBA"}
_MOST_PIXELS: Final = 1 << 26  # of one image: a small file may claim any number
# One sign at a time: a repetition within a repetition takes time without end where a damaged file has many spaces.
_SPACE = rb"(?:\s|#[^\r\n]*[\r\n])"
_HEADER = re.compile(rb"P([56])%b*(\d{1,6})%b+(\d{1,6})%b+(\d{1,5})\s" % ((_SPACE,) * 3))


def read_image(path: Path, mode: ColorMode) -> Image:
    """Return the image of a file.

    Args:
        path: the file; its ending, one of `SUFFIXES`, tells the format.
        mode: 'rgb', 'grayscale' or 'rgba', to which other images are converted.

    Raises:
        ValueError: naming a file that is damaged, that has more than 2**26 pixels, or an array that is no image.
        ImportError: for a file that Pillow reads, where it is not installed.
    """
    read = _read_array if path.suffix.lower() == ".npy" else _read_pnm if path.suffix.lower() in PLAIN else _by_pillow
    return read(path, mode)


def fitted(image: Image, size: tuple[int, int], interpolation: Interpolation, *, crop: bool) -> Image:
    """Return an image of another size, by the rules of the layer `Resizing`, rounded to whole numbers.

    Args:
        image: the image.
        size: height and width of the result.
        interpolation: 'bilinear' or 'nearest'.
        crop: whether it is cut to the proportions of the result first.
    """
    if crop:
        height, width = largest_in_proportion((image.shape[0], image.shape[1]), size)
        top, left = (image.shape[0] - height) // 2, (image.shape[1] - width) // 2
        image = image[top : top + height, left : left + width]
    if image.shape[:2] == size:
        return image
    if interpolation == "nearest":
        return image[nearest_cells(image.shape[0], size[0])][:, nearest_cells(image.shape[1], size[1])]
    tall = np.tensordot(mixing(image.shape[0], size[0]), image.astype(np.float64), 1)
    # The summed axis is replaced by the first one of the result, so height and width change places here, and back
    # below.
    wide = np.tensordot(mixing(image.shape[1], size[1]), tall, ([1], [1]))
    # Weights of a cell add up to 1, so nothing leaves the range but by rounding.
    return np.rint(wide.swapaxes(0, 1)).clip(0, 255).astype(np.uint8)


def _read_array(path: Path, mode: ColorMode) -> Image:
    array = read_array(path)
    if array.ndim not in (2, 3) or array.dtype != np.uint8 or (array.ndim == 3 and array.shape[2] not in (1, 3, 4)):
        raise ValueError(
            f"'{path}' must hold uint8 of shape (height, width) or (height, width, channels), got {array.dtype} of shape "
            f"{array.shape}"
        )
    return _converted(path, array if array.ndim == 3 else array[..., None], mode)


def _read_pnm(path: Path, mode: ColorMode) -> Image:
    content = path.read_bytes()
    found = _HEADER.match(content)
    if found is None:
        raise ValueError(f"'{path}' is no binary PGM or PPM: it must begin with P5 or P6, width, height and greatest value")
    channels = 1 if found[1] == b"5" else 3
    width, height, greatest = (int(number) for number in found.groups()[1:])
    # Above 255 a value takes two bytes (netpbm, pgm(5) and ppm(5)).
    if not 0 < greatest < 256 or not 0 < width * height <= _MOST_PIXELS:
        raise ValueError(f"'{path}' must have 1 to {_MOST_PIXELS} pixels of at most 255, got {width} x {height} of {greatest}")
    pixels = np.frombuffer(content, np.uint8, offset=found.end())
    if len(pixels) < height * width * channels:
        raise ValueError(f"'{path}' is damaged: {height} x {width} x {channels} bytes of pixels, it has {len(pixels)}")
    # Further images may follow in the file; the first one counts.
    image = pixels[: height * width * channels].reshape(height, width, channels)
    if greatest < 255:
        # In the order in which Pillow computes it, so that halves are rounded alike.
        image = np.rint(image / greatest * 255).clip(0, 255).astype(np.uint8)
    return _converted(path, image, mode)


def _converted(path: Path, image: Array, mode: ColorMode) -> Image:
    """Return an image of one, three or four channels in another mode, of the numbers that Pillow gives."""
    if not 0 < image.size <= 4 * _MOST_PIXELS:
        raise ValueError(f"'{path}' must have 1 to {_MOST_PIXELS} pixels, got shape {image.shape}")
    channels, wanted = image.shape[2], _CHANNELS[mode]
    if channels == wanted:
        return image
    if wanted == 1:
        # ITU-R 601 with 16 binary digits behind the point, rounded, as Pillow has it.
        parts = image[..., :3].astype(np.uint32) * np.array([19595, 38470, 7471], np.uint32)
        grey: Image = ((parts.sum(axis=2, keepdims=True) + 0x8000) >> 16).astype(np.uint8)
        return grey
    colours: Image = image[..., :3] if channels > 1 else np.repeat(image, 3, axis=2)
    opaque = np.full((*image.shape[:2], 1), 255, np.uint8)
    return colours if wanted == 3 else np.concatenate([colours, opaque], axis=2)


def _by_pillow(path: Path, mode: ColorMode) -> Image:
    pillow = _pillow(path)
    try:
        with pillow.open(path) as image:
            if image.width * image.height > _MOST_PIXELS:
                raise ValueError(f"'{path}' must have at most {_MOST_PIXELS} pixels, got {image.width} x {image.height}")
            if image.mode.startswith("I;16"):
                # The higher byte of two: Pillow cuts what is above 255 off, which leaves white.
                return _converted(path, (np.asarray(image) >> 8).astype(np.uint8)[..., None], mode)
            if image.mode in ("I", "F"):
                raise ValueError(f"'{path}' must have one or two bytes for each colour of a pixel, got the mode {image.mode!r}")
            # By way of RGBA, as Pillow warns of a palette with alpha that is converted to something else.
            shown = image.convert("RGBA") if image.mode == "P" and "transparency" in image.info else image
            pixels = np.array(shown.convert(_MODES[mode]), np.uint8)
    # Pillow raises SyntaxError for some damaged files, and errors of its own, derived from OSError, for others.
    except (OSError, SyntaxError, EOFError, pillow.DecompressionBombError) as error:
        raise ValueError(f"'{path}' is damaged, too large, or no image: {error}") from error
    return pixels if pixels.ndim == 3 else pixels[..., None]


def _pillow(path: Path) -> Any:
    try:
        from PIL import Image as pillow  # noqa: PLC0415 - an extra
    except ImportError as error:
        raise ImportError(f"'{path}' needs Pillow: pip install pillow. Files {', '.join(PLAIN)} are read without it") from error
    return pillow
