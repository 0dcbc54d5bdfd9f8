"""Memory for large arrays: used again, and never while anybody can still see what is in it."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

from network.memory import CACHE_LINE, SMALLEST, SlabPool

SIZE = 2 * SMALLEST
U1, F8 = np.dtype(np.uint8), np.dtype(np.float64)


def address(array: Any) -> int:
    return int(array.__array_interface__["data"][0])


def test_memory_is_used_again_when_nobody_holds_the_array() -> None:
    """But a slab that is much too large is not wasted on a small array."""
    pool = SlabPool()
    first = pool.empty((SIZE,), U1, SIZE)
    place = address(first)
    del first
    second = pool.empty((2, SIZE // 16), F8, SIZE)
    assert (address(second), second.shape, second.dtype, pool.held) == (place, (2, SIZE // 16), F8, SIZE)
    assert second.flags.c_contiguous and second.flags.writeable
    assert not address(second) % CACHE_LINE
    del second
    assert address(pool.empty((SIZE // 2,), U1, SIZE // 2)) != place
    assert address(pool.empty((SIZE - 16,), U1, SIZE - 16)) == place


HOLDERS: dict[str, Any] = {
    "array": lambda a: a,
    "slice": lambda a: a[3:5],
    "strided": lambda a: a[::7],
    "other type": lambda a: a.view(np.int16),
    "transposed": lambda a: a.reshape(2, -1).T,
    "memoryview": lambda a: memoryview(a)[1:],
    "memoryview of a view": lambda a: a[5:].view(np.uint8).data,
    "iterator": lambda a: a.flat,
    "frombuffer": lambda a: np.frombuffer(a, np.uint8)[1:],
    "inside a list": lambda a: [{"x": a[:1]}],
    "broadcast": lambda a: np.broadcast_to(a[:1], (4,)),
    "split": lambda a: np.split(a, 2)[1],
}


@pytest.mark.parametrize("holder", HOLDERS)
def test_memory_that_anything_looks_into_is_left_alone(holder: str) -> None:
    pool = SlabPool()
    array = pool.empty((SIZE,), U1, SIZE)
    array[:] = 7
    place = address(array)
    held = HOLDERS[holder](array)
    del array
    others = [pool.empty((SIZE,), U1, SIZE) for _ in range(3)]
    assert len({place, *map(address, others)}) == 4
    del held
    assert address(pool.empty((SIZE,), U1, SIZE)) == place


def test_a_pool_stays_within_its_capacity_and_what_is_in_use_lives_on() -> None:
    """Small and huge arrays are not pooled."""
    pool = SlabPool(capacity=3 * SIZE)
    assert [pool.empty((n,), U1, n).size for n in (4, 0, 4 * SIZE)] == [4, 0, 4 * SIZE] and pool.held == 0
    arrays = []
    for number in range(10):
        arrays.append(pool.empty((SIZE,), U1, SIZE))
        arrays[-1][:] = number
        assert pool.held <= 3 * SIZE
    assert [int(array[0]) for array in arrays] == list(range(10))
    assert all((array == array[0]).all() for array in arrays)
