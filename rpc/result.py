"""The result of an executor as a file: one framed message, arrays included, which only data can come out of."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import Any

from network.errors import ProtocolError
from network.frames import read_one
from network.wire import Kind, pack

RESULT_FILE = "result.psgd"


def write_result(path: Path, content: object, classes: Sequence[type]) -> None:
    """Write `content`, whose instances may be of `classes`.

    Raises: TypeError for what cannot travel, ValueError for more than a message may hold, OSError from the disk.
    """
    packed = pack(Kind.MESSAGE, (), content, None, classes)
    with open(path, "wb") as file:
        for part in packed.buffers:
            file.write(part)


def read_result(path: Path, classes: Sequence[type]) -> Any:
    """What `write_result` wrote with the same `classes`.

    Raises: ProtocolError when the file is no complete result, OSError.
    """
    with open(path, "rb") as file:
        try:
            return read_one(file, classes)
        except ProtocolError as error:
            raise ProtocolError(f"{path} holds no result that can be read: {error}") from error
