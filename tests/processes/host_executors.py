"""Executors that try what a job must not be able to do to its host, and what it must be able to; they travel by value."""

from __future__ import annotations

import hashlib
import math
import multiprocessing
import os
import subprocess
from collections.abc import Iterator
from concurrent.futures import ProcessPoolExecutor
from typing import Any

import numpy as np

from rpc import AbsSimpleExecutor, Communication

FOREVER = 250.0


class Scatters(AbsSimpleExecutor):
    """Starts sleepers in sessions of their own, whose parent lives, has ended, or is a sleeper too; then stays if told to."""

    def run(self, com: Communication) -> Any:
        child = subprocess.Popen(["sleep", "300"], start_new_session=True)
        pids = [child.pid]
        # the shell ends at once, so that its background processes lose their parent
        script = "setsid sleep 300 & echo $!; setsid sh -c 'setsid sleep 300 & echo $!; exec sleep 300' & echo $!"
        with subprocess.Popen(["sh", "-c", script], stdout=subprocess.PIPE, text=True) as shell:
            pids += [int(shell.stdout.readline()) for _ in range(3)]  # type: ignore[union-attr]
        (com.output_directory / "pids").write_text(" ".join(map(str, pids)))
        (com.output_directory / "begun").touch()
        if self.shipped["stays"]:
            com.controller.wait_until(lambda: False, FOREVER, lambda: "its end")
        return pids


class Multiprocessing(AbsSimpleExecutor):
    """Has its work done by a pool of processes, and waits for one of its own."""

    def run(self, com: Communication) -> Any:
        with ProcessPoolExecutor(2, multiprocessing.get_context("spawn")) as pool:
            found = list(pool.map(math.factorial, range(5)))
        return found, subprocess.run(["sh", "-c", "exit 7"], check=False).returncode


class Thief(AbsSimpleExecutor):
    """Looks for secrets wherever the kernel lets it look: at all processes but its submitter, and at its own.

    `shipped["secrets"]` is a list of (first bytes, each xor 255; length; SHA-256), so that it does not find what it was told.
    Returns {pid: {what: "found", "clean" or "denied"}}.
    """

    def run(self, com: Communication) -> Any:
        self.secrets = [(bytes(255 - b for b in head), size, digest) for head, size, digest in self.shipped["secrets"]]
        seen = {
            os.getpid(): self.look_at("/proc/self")
        }  # first, because what it finds elsewhere stays in its memory for a while
        spared = {os.getpid(), self.shipped["submitter"]}
        others = [int(name) for name in os.listdir("/proc") if name.isdigit() and int(name) not in spared]
        return {**seen, **{pid: self.look_at(f"/proc/{pid}") for pid in others if self.is_mine(pid)}}

    @staticmethod
    def is_mine(pid: int) -> bool:
        try:
            return os.stat(f"/proc/{pid}").st_uid == os.getuid()
        except OSError:
            return False

    def look_at(self, place: str) -> dict[str, str]:
        readers = {"environ": self.read_file, "cmdline": self.read_file, "mem": self.read_memory, "fd": self.read_descriptors}
        seen = {}
        for what, read in readers.items():
            try:
                seen[what] = "found" if any(self.holds(part) for part in read(f"{place}/{what}")) else "clean"
            except OSError:
                seen[what] = "denied"
        return seen

    def holds(self, content: bytes) -> bool:
        for head, size, digest in self.secrets:
            at = content.find(head)
            while at >= 0:
                if hashlib.sha256(content[at : at + size]).digest() == digest:
                    return True
                at = content.find(head, at + 1)
        return False

    @staticmethod
    def read_file(path: str) -> Iterator[bytes]:
        with open(path, "rb") as file:
            yield file.read()

    @staticmethod
    def read_memory(path: str) -> Iterator[bytes]:
        with open(path, "rb", buffering=0) as memory, open(path.replace("/mem", "/maps")) as maps:
            for line in maps:
                limits, rights = line.split()[:2]
                begin, end = (int(limit, 16) for limit in limits.split("-"))
                if rights.startswith("rw") and "[v" not in line and end - begin < 1 << 28:
                    try:
                        memory.seek(begin)
                        yield memory.read(end - begin)
                    except OSError:  # a page that is not there
                        continue

    @staticmethod
    def read_descriptors(path: str) -> Iterator[bytes]:
        for name in os.listdir(path):
            try:
                descriptor = os.open(f"{path}/{name}", os.O_RDONLY | os.O_NONBLOCK)
            except OSError:  # a socket, or gone
                continue
            try:
                yield os.read(descriptor, 1 << 20)
            except OSError:
                continue
            finally:
                os.close(descriptor)


class SharedSum(AbsSimpleExecutor):
    """Adds large arrays up, again and again, until some of it has gone through shared memory."""

    def run(self, com: Communication) -> Any:
        for _ in range(5):
            total = com.allreduce(np.full(1 << 20, com.rank + 1.0, np.float32), "sum")
        return float(total[-1]), sum(session.bytes_shared for session in com.controller.sessions.values())


class Forges(AbsSimpleExecutor):
    """Node 1 fails with `shipped["text"]`, which is made to act on a terminal."""

    def run(self, com: Communication) -> Any:
        com.barrier()
        if com.rank == 1:
            raise ValueError(self.shipped["text"])
        com.barrier()
