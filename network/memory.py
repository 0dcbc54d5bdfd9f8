"""Memory for large arrays: slabs that are used again, and memory that other processes of this host read."""

from __future__ import annotations

import fcntl
import mmap
import os
import secrets
import sys
import weakref
from collections.abc import Sequence
from typing import Any, NamedTuple, TypeAlias

from .names import numpy as np

SMALLEST = 256 << 10  # bytes; below that the allocator is as fast
CAPACITY = 256 << 20  # bytes that one pool keeps


class SlabPool:
    """Makes arrays and keeps the memory of large ones; what was used longest ago goes first."""

    def __init__(self, capacity: int = CAPACITY) -> None:
        self._capacity = capacity
        self._slabs: list[np.typing.NDArray[np.uint8]] = []  # in the order of use

    @property
    def held(self) -> int:
        return sum(len(slab) for slab in self._slabs)

    def empty(self, shape: Sequence[int], dtype: np.dtype[Any], size: int) -> np.typing.NDArray[Any]:
        """A contiguous array of `size` bytes with any content, in memory that no other living array shares."""
        if not SMALLEST <= size <= self._capacity:
            return np.empty(shape, dtype)
        slab = self._idle(size)
        if slab is None:
            slab = np.empty(size, np.uint8)
            while self._slabs and self.held + size > self._capacity:
                del self._slabs[0]  # lives on where it is in use
        self._slabs.append(slab)
        return slab[:size].view(dtype).reshape(shape)

    def _idle(self, size: int) -> np.typing.NDArray[np.uint8] | None:
        """Take out a free slab that fits: the one used last, which is still in the caches."""
        for number in reversed(range(len(self._slabs))):
            if size <= len(self._slabs[number]) <= size + size // 8 and _holders(self._slabs, number) == _NOBODY:
                return self._slabs.pop(number)
        return None


class SpareBuffers:
    """Buffers of one size that whoever has emptied one gives back for the next, so that nobody keeps one who waits."""

    def __init__(self, size: int, most: int) -> None:
        self._size, self._most = size, most
        self._spare: list[memoryview] = []

    def take(self, size: int) -> memoryview:
        """A buffer of at least `size` bytes."""
        if size > self._size:
            return memoryview(bytearray(size))
        try:
            return self._spare.pop()
        except IndexError:
            return memoryview(bytearray(self._size))

    def give(self, buffer: memoryview) -> None:
        """Take a buffer back that nobody looks into any more."""
        if len(buffer) == self._size and len(self._spare) < self._most:
            self._spare.append(buffer)


def _holders(slabs: Sequence[object], number: int) -> int:
    """References to a slab. Every array that looks into it holds it: NumPy makes the owner of the memory their base."""
    return sys.getrefcount(slabs[number])


_NOBODY = _holders([object()], 0)


# Memory of one process that other processes of this host may map and read: one copy where a socket makes two and clears pages.
#
# It has no name in any file system: it lives until the last process that maps it has ended, however it ended. A reader needs
# its handle, and the right to look at the descriptors of the owner: the same user, the same view of processes. Nothing here
# tells when content is there; that is the matter of messages, which also order memory between processors.

Bytes: TypeAlias = "np.typing.NDArray[np.uint8]"


class SharedMemoryHandle(NamedTuple):
    """Where another process of this host finds shared memory."""

    process: int
    descriptor: int
    name: str  # random: another process, or a later file, under the same numbers is noticed
    size: int


class SharedMemory:
    """Fresh memory of `size` bytes, writable in `memory`; `handle` is for those who shall read it.

    Raises: OSError when the system has no such memory.
    """

    def __init__(self, size: int) -> None:
        if sys.platform != "linux":
            raise OSError(f"Shared memory needs Linux, this is {sys.platform}.")
        name = f"psgd-{secrets.token_hex(16)}"
        descriptor = os.memfd_create(name, os.MFD_CLOEXEC | os.MFD_ALLOW_SEALING)
        weakref.finalize(self, os.close, descriptor)
        os.ftruncate(descriptor, size)
        _fix_size(descriptor)
        self.memory: Bytes = np.frombuffer(mmap.mmap(descriptor, size), np.uint8)
        self.handle = SharedMemoryHandle(os.getpid(), descriptor, name, size)


def attach(handle: SharedMemoryHandle) -> Bytes:
    """The shared memory of a process of this host, read-only.

    Raises: OSError when it is not there, may not be read, or could shrink under its readers.
    """
    path = f"/proc/{handle.process:d}/fd/{handle.descriptor:d}"
    if not os.readlink(path).startswith(f"/memfd:{handle.name} "):
        raise OSError(f"Descriptor {handle.descriptor} of process {handle.process} is not the shared memory {handle.name}.")
    descriptor = os.open(path, os.O_RDONLY | os.O_CLOEXEC)
    try:
        if not _has_fixed_size(descriptor) or os.fstat(descriptor).st_size != handle.size:
            raise OSError(f"The shared memory {handle.name} has not the fixed size of {handle.size} bytes.")
        return np.frombuffer(mmap.mmap(descriptor, handle.size, access=mmap.ACCESS_READ), np.uint8)
    finally:
        os.close(descriptor)


def _fix_size(descriptor: int) -> None:
    """Fix the size for ever: who reads beyond the end of a file that has shrunk is killed."""
    fcntl.fcntl(descriptor, fcntl.F_ADD_SEALS, fcntl.F_SEAL_SHRINK | fcntl.F_SEAL_GROW | fcntl.F_SEAL_SEAL)


def _has_fixed_size(descriptor: int) -> bool:
    return bool(fcntl.fcntl(descriptor, fcntl.F_GET_SEALS) & fcntl.F_SEAL_SHRINK)
