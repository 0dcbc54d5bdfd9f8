"""Memory of one process that other processes of this host may map and read: one copy where a socket makes two and clears pages.

A window has no name in any file system: it lives until the last process that maps it has ended, however it ended. Who reads
it needs its `Ticket`, and the right to look at the descriptors of the owner: the same user, the same view of processes.
Nothing here tells when content is there; that is the matter of messages, which also order memory between processors.
"""

from __future__ import annotations

import fcntl
import mmap
import os
import secrets
import sys
import weakref
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

Bytes = NDArray[np.uint8]


class Ticket(NamedTuple):
    """Where another process of this host finds a window."""

    process: int
    descriptor: int
    name: str  # random: another process, or a later file, under the same numbers is noticed
    size: int


class Window:
    """Fresh memory of `size` bytes, writable in `memory`; `ticket` is for those who shall read it.

    Raises: OSError when the system has no such memory.
    """

    def __init__(self, size: int) -> None:
        if sys.platform != "linux":
            raise OSError(f"Memory windows need Linux, this is {sys.platform}.")
        name = f"psgd-{secrets.token_hex(16)}"
        descriptor = os.memfd_create(name, os.MFD_CLOEXEC | os.MFD_ALLOW_SEALING)
        weakref.finalize(self, os.close, descriptor)
        os.ftruncate(descriptor, size)
        _seal(descriptor)
        self.memory: Bytes = np.frombuffer(mmap.mmap(descriptor, size), np.uint8)
        self.ticket = Ticket(os.getpid(), descriptor, name, size)


def look_into(ticket: Ticket) -> Bytes:
    """The memory of a window of a process of this host, read-only.

    Raises: OSError when it is not there, may not be read, or could shrink under its readers.
    """
    path = f"/proc/{ticket.process:d}/fd/{ticket.descriptor:d}"
    if not os.readlink(path).startswith(f"/memfd:{ticket.name} "):
        raise OSError(f"Descriptor {ticket.descriptor} of process {ticket.process} is not the window {ticket.name}.")
    descriptor = os.open(path, os.O_RDONLY | os.O_CLOEXEC)
    try:
        if not _is_sealed(descriptor) or os.fstat(descriptor).st_size != ticket.size:
            raise OSError(f"The window {ticket.name} has not the fixed size of {ticket.size} bytes.")
        return np.frombuffer(mmap.mmap(descriptor, ticket.size, access=mmap.ACCESS_READ), np.uint8)
    finally:
        os.close(descriptor)


def _seal(descriptor: int) -> None:
    """Fix the size for ever: who reads beyond the end of a file that has shrunk is killed."""
    fcntl.fcntl(descriptor, fcntl.F_ADD_SEALS, fcntl.F_SEAL_SHRINK | fcntl.F_SEAL_GROW | fcntl.F_SEAL_SEAL)


def _is_sealed(descriptor: int) -> bool:
    return bool(fcntl.fcntl(descriptor, fcntl.F_GET_SEALS) & fcntl.F_SEAL_SHRINK)
