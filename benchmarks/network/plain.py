"""Plain blocking sockets, as one writes them for speed: sendall and recv_into a buffer that is used again."""

from __future__ import annotations

import contextlib
import socket
import sys
import time
from collections.abc import Callable, Iterator

import numpy as np

from benchmarks.network.workload import WORKLOADS, held, other_end


def receive(sock: socket.socket, buffer: memoryview) -> None:
    while buffer:
        count = sock.recv_into(buffer)
        if not count:
            raise ConnectionError("the other end is gone")
        buffer = buffer[count:]


def prepare(name: str) -> Callable[[], float]:
    return held(lambda: rounds(name))


def rounds(name: str) -> Iterator[Callable[[], float]]:
    workload = WORKLOADS[name]
    data = np.zeros(workload.size, np.uint8).data
    answer = memoryview(bytearray(workload.size if workload.echo else 1))
    with (
        other_end("benchmarks.network.plain", name) as (_, port),
        socket.create_connection(("127.0.0.1", int(port))) as sock,
    ):
        sock.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)

        def run() -> float:
            start = time.perf_counter()
            for _ in range(workload.count):
                sock.sendall(data)
                if workload.echo:
                    receive(sock, answer)
            if not workload.echo:
                receive(sock, answer)
            return time.perf_counter() - start

        yield run


def serve(name: str) -> None:
    workload = WORKLOADS[name]
    buffer = np.empty(workload.size, np.uint8).data
    with socket.create_server(("127.0.0.1", 0)) as listener:
        print(listener.getsockname()[1], flush=True)
        sock, _ = listener.accept()
    with sock, contextlib.suppress(ConnectionError):
        sock.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
        while True:
            for _ in range(workload.count):
                receive(sock, buffer)
                if workload.echo:
                    sock.sendall(buffer)
            if not workload.echo:
                sock.sendall(b"!")


if __name__ == "__main__":
    serve(sys.argv[1])
