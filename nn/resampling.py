"""Rules by which images get another size, of layers and of data sets that read images."""

from typing import Literal, TypeAlias

import numpy as np
from numpy.typing import NDArray

from nn.arrays import Array

__all__ = ["Interpolation", "largest_in_proportion", "mixing", "nearest_cells"]

Interpolation: TypeAlias = Literal["bilinear", "nearest"]


def mixing(length: int, cells: int) -> Array:
    """Return the matrix (cells, length) of linear interpolation; beyond the outer centres the outer cells stand.

    Args:
        length: number of cells of an axis.
        cells: their number in the result.
    """
    # Centres of cells lie at halves; the outer half cells have no second neighbour and take the nearest.
    places = np.clip((np.arange(cells) + 0.5) / (cells / length) - 0.5, 0, length - 1)
    # The last cell has no neighbour behind it, so the pair begins one cell earlier.
    lower = np.minimum(places.astype(int), max(length - 2, 0))
    matrix = np.zeros((cells, length))
    rows = np.arange(cells)
    # Added, as with a length of 1 both weights fall on one cell.
    matrix[rows, lower] += 1 - (places - lower)
    matrix[rows, np.minimum(lower + 1, length - 1)] += places - lower
    return matrix


def nearest_cells(length: int, cells: int) -> NDArray[np.intp]:
    """Return the number of the old cell in which the centre of each new one lies.

    Args:
        length: number of cells of an axis.
        cells: their number in the result.
    """
    found: NDArray[np.intp] = np.floor((np.arange(cells) + 0.5) * (length / cells)).astype(np.intp)
    return np.clip(found, 0, length - 1)


def largest_in_proportion(size: tuple[int, int], wanted: tuple[int, int]) -> tuple[int, int]:
    """Return height and width of the largest part of an image that has the proportions of another size.

    Args:
        size: height and width of the image.
        wanted: height and width that give the proportions.
    """
    height, width = size
    return (
        max(min(height, width * wanted[0] // wanted[1]), 1),
        max(min(width, height * wanted[1] // wanted[0]), 1),
    )
