"""A file as an agent sends it."""

from __future__ import annotations

import hashlib

from rpc.messages import FileBegin, FileChunk, FileEnd, Operation


def sha(data: bytes) -> str:
    return hashlib.sha256(data).hexdigest()


def file(name: str, data: bytes = b"x", chunks: int = 1) -> list[Operation]:
    step = -(-len(data) // chunks) or 1
    parts = [FileChunk(data[i : i + step]) for i in range(0, len(data), step)]
    return [FileBegin(name, len(data)), *parts, FileEnd(sha(data))]
