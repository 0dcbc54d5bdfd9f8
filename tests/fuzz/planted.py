"""A worker whose readers have faults on purpose: they crash, hang, take memory, believe anything or end the process."""

from __future__ import annotations

import os
import signal
import zlib

from .target import MIB, Outcome, Target
from .worker import main


def is_bad(data: bytes) -> bool:
    """Whether this is an input that does it."""
    return zlib.crc32(data) % 20 == 7


def _only_then(data: bytes, what: str) -> Outcome:
    if is_bad(data):
        match what:
            case "crashes":
                raise KeyError(what)
            case "hangs":
                while True:
                    pass
            case "takes memory":
                bytearray(20 * MIB)
            case "takes all memory":
                bytearray(8 << 30)
            case "ends the process":
                os.kill(os.getpid(), signal.SIGSEGV)
            case "believes":
                return "accepted"
    return "read"


def _planted(what: str) -> Target:
    return Target(what, lambda: [bytes(30)], lambda data: _only_then(data, what), budget=MIB)


WHATS = {
    "crashes": "crashed",
    "hangs": "hung",
    "takes memory": "memory",
    "takes all memory": "crashed",
    "ends the process": "crashed",
    "believes": "accepted",
}
"""What a worker calls each of them."""

PLANTED = {what: _planted(what) for what in WHATS}

if __name__ == "__main__":
    main(PLANTED)
