"""The one byte by which a server says why it refuses, before anything is authenticated."""

from __future__ import annotations

import enum

from .errors import Rejected


class Hint(enum.IntEnum):
    """Why a server refuses. Anyone could have sent that byte, so it serves to tell a person and for nothing else."""

    BAD_KEY = 1
    VERSION = 2
    NO_SUCH_JOB = 3
    BUSY = 4
    ROLE = 5
    FULL = 6


class Refused(Rejected):
    """A handshake that ends with a hint: a server sends `bytes([error.hint])` and closes, a client has received it."""

    def __init__(self, hint: Hint, message: str) -> None:
        super().__init__(message)
        self.hint = hint
