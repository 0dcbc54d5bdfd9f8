"""Products of tiles and filters, frequency by frequency and group by group."""

import numpy as np

from nn.arrays import Array

SMALL = 10**6
"""OpenBLAS multiplies matrices of up to so many products without rearranging them first, a fifth faster."""

NARROW = 32
"""Narrower slices would cost more than that gains."""


def multiply(tiles: Array, filters: Array, out: Array, groups: int) -> None:
    """Write tiles (36, count, channels) times filters (36, channels / groups, filters) into `out` (36, count, filters)."""
    if _alone(filters, groups):
        np.multiply(tiles, filters, out=out)
    else:
        _product(_grouped(tiles, groups), _grouped(filters, groups), _grouped(out, groups))


def multiply_adjoint(tiles: Array, gradient: Array, out: Array, groups: int) -> None:
    """Write the gradient of the filters for that of the products, (36, count, filters). Overwrites the tiles."""
    if _alone(out, groups):
        np.multiply(tiles, gradient, out=tiles)
        np.add.reduce(tiles, axis=1, out=out[:, 0])
    else:
        _product(_grouped(tiles, groups).swapaxes(2, 3), _grouped(gradient, groups), _grouped(out, groups))


def _alone(filters: Array, groups: int) -> bool:
    """Whether every channel has one filter of its own: then there is nothing to sum up, and products of matrices are slow."""
    return bool(filters.shape[1] == 1 and filters.shape[2] == groups)


def _grouped(array: Array, groups: int) -> Array:
    """Return (36, rows, columns) as (36, groups, rows, columns / groups)."""
    return array.reshape(*array.shape[:2], groups, -1).swapaxes(1, 2)


def _product(a: Array, b: Array, out: Array) -> None:
    """Write a @ b, in slices of the columns of b that make small products."""
    rows, inner, columns = *a.shape[2:], b.shape[3]
    width = columns
    while rows * inner * width > SMALL and width % 2 == 0 and width > NARROW:
        width //= 2
    for start in range(0, columns, width):
        part = slice(start, start + width)
        np.matmul(a, b[..., part], out=out[..., part])
