"""Memory for large arrays: used again, and never while anybody can still see what is in it; shared with processes of a host."""

from __future__ import annotations

import gc
import os
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from network.memory import SMALLEST, SharedMemory, SharedMemoryHandle, SlabPool, attach

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


# ---- shared memory: who sees what, who is refused, and what is left when an owner is killed

linux = pytest.mark.skipif(sys.platform != "linux", reason="shared memory needs Linux")
_OWNER = """
import sys
from network.memory import SharedMemory
shared = SharedMemory(int(sys.argv[1]))
shared.memory[:] = 7
print(*shared.handle, flush=True)
sys.stdin.read()
"""


def mapped(name: str) -> bool:
    """Whether this process still maps or holds open shared memory of this name."""
    gc.collect()
    links = (os.readlink(f"/proc/self/fd/{fd}") for fd in os.listdir("/proc/self/fd") if os.path.lexists(f"/proc/self/fd/{fd}"))
    return name in Path("/proc/self/maps").read_text() or any(name in link for link in links)


@linux
def test_shared_memory_ends_with_its_last_user_and_a_reader_cannot_write() -> None:
    shared = SharedMemory(SIZE)
    seen, name, memory = attach(shared.handle), shared.handle.name, shared.memory
    assert seen.shape == memory.shape == (SIZE,)
    memory[5:9].view(np.float32)[:] = 2.5
    assert seen[5:9].view(np.float32)[0] == 2.5
    with pytest.raises(ValueError, match="read-only"):
        seen[0] = 1
    with pytest.raises(PermissionError):  # nor the owner shrink it
        os.ftruncate(shared.handle.descriptor, 0)
    del shared, seen
    assert mapped(name)
    memory[:] = 1  # whoever holds the memory may use it
    del memory
    assert not mapped(name)


@linux
def test_memory_of_a_process_that_is_killed_stays_with_its_readers_and_goes_with_them() -> None:
    with subprocess.Popen(
        [sys.executable, "-c", _OWNER, str(SIZE)], stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True
    ) as owner:
        assert owner.stdout is not None
        process, descriptor, name, size = owner.stdout.readline().split()
        handle = SharedMemoryHandle(int(process), int(descriptor), name, int(size))
        seen = attach(handle)
        owner.kill()
    assert (seen == 7).all()
    with pytest.raises(OSError, match=r"No such file"):
        attach(handle)
    assert mapped(name)
    del seen
    assert not mapped(name)


@linux
@pytest.mark.parametrize(
    ("change", "fault"),
    [
        (lambda h, soft: h._replace(name="psgd-of-another"), "is not the shared memory psgd-of-another"),
        (lambda h, soft: h._replace(size=SIZE + 1), f"has not the fixed size of {SIZE + 1} bytes"),
        # it could shrink under its readers
        (lambda h, soft: h._replace(descriptor=soft, name="psgd-soft"), "has not the fixed size"),
    ],
)
def test_other_memory_is_refused(change: Callable[[SharedMemoryHandle, int], SharedMemoryHandle], fault: str) -> None:
    shared = SharedMemory(SIZE)
    soft = os.memfd_create("psgd-soft", os.MFD_CLOEXEC | os.MFD_ALLOW_SEALING)
    try:
        os.ftruncate(soft, SIZE)
        with pytest.raises(OSError, match=fault):
            attach(change(shared.handle, soft))
    finally:
        os.close(soft)
