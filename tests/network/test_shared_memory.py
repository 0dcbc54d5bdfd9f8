"""Memory that processes of one host share: who sees what, who is refused, and what is left when an owner is killed."""

from __future__ import annotations

import gc
import os
import subprocess
import sys
from pathlib import Path

import numpy as np
import pytest

from network.memory import SharedMemory, SharedMemoryHandle, attach

pytestmark = pytest.mark.skipif(sys.platform != "linux", reason="shared memory needs Linux")
SIZE = 1 << 16
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
    links = (os.readlink(f"/proc/self/fd/{fd}") for fd in os.listdir("/proc/self/fd") if os.path.lexists(f"/proc/self/fd/{fd}"))
    return name in Path("/proc/self/maps").read_text() or any(name in link for link in links)


def test_a_reader_sees_what_the_owner_writes_and_cannot_write_itself() -> None:
    shared = SharedMemory(SIZE)
    seen = attach(shared.handle)
    assert seen.shape == shared.memory.shape == (SIZE,)
    shared.memory[5:9].view(np.float32)[:] = 2.5
    assert seen[5:9].view(np.float32)[0] == 2.5
    with pytest.raises(ValueError, match="read-only"):
        seen[0] = 1


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
    gc.collect()
    assert not mapped(name)


def test_shared_memory_ends_with_its_last_user() -> None:
    shared = SharedMemory(SIZE)
    name, memory = shared.handle.name, shared.memory
    del shared
    gc.collect()
    assert mapped(name)
    memory[:] = 1  # whoever holds the memory may use it
    del memory
    gc.collect()
    assert not mapped(name)


def test_another_file_under_the_same_number_is_refused() -> None:
    shared = SharedMemory(SIZE)
    with pytest.raises(OSError, match="is not the shared memory psgd-of-another"):
        attach(shared.handle._replace(name="psgd-of-another"))


def test_shared_memory_of_another_size_is_refused() -> None:
    shared = SharedMemory(SIZE)
    with pytest.raises(OSError, match=f"has not the fixed size of {SIZE + 1} bytes"):
        attach(shared.handle._replace(size=SIZE + 1))


def test_memory_that_could_shrink_under_its_readers_is_refused() -> None:
    descriptor = os.memfd_create("psgd-soft", os.MFD_CLOEXEC | os.MFD_ALLOW_SEALING)
    try:
        os.ftruncate(descriptor, SIZE)
        with pytest.raises(OSError, match="has not the fixed size"):
            attach(SharedMemoryHandle(os.getpid(), descriptor, "psgd-soft", SIZE))
    finally:
        os.close(descriptor)


def test_the_owner_cannot_shrink_it() -> None:
    shared = SharedMemory(SIZE)
    with pytest.raises(PermissionError):
        os.ftruncate(shared.handle.descriptor, 0)
