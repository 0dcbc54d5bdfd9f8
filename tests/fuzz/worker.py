"""The process that tries inputs: a reader that crashes, hangs or takes all memory ends it, and nothing else.

Orders come as lines of JSON on standard input, answers go likewise to standard output. The number of the input that is being
tried stands in a file, which outlives the process.
"""

from __future__ import annotations

import base64
import json
import mmap
import os
import resource
import signal
import struct
import sys
from collections.abc import Mapping
from dataclasses import asdict
from pathlib import Path

from .attempt import Finding, attempts
from .target import Target

ROOM = 1 << 30
"""Bytes of addresses that a worker may take beyond what it has when it begins."""
MOST_FINDINGS = 20  # that are told of one order; all are counted
_NUMBER = struct.Struct("=q")


def main(targets: Mapping[str, Target]) -> None:
    """Answer orders until there are none."""
    signal.signal(signal.SIGINT, signal.SIG_IGN)  # Ctrl-C is for who gives the orders
    answers = os.dup(1)
    os.dup2(2, 1)  # whatever a reader prints
    with open(sys.argv[1], "r+b") as file, mmap.mmap(file.fileno(), _NUMBER.size) as place:
        for target in targets.values():
            _ = target.seeds
        pages = int(Path("/proc/self/statm").read_text().split()[0])
        resource.setrlimit(resource.RLIMIT_AS, (pages * resource.getpagesize() + ROOM, resource.RLIM_INFINITY))
        for line in sys.stdin:
            name, seed, begin, end = json.loads(line)
            tally, found = attempts(targets[name], seed, range(begin, end), lambda number: _NUMBER.pack_into(place, 0, number))
            told = [{**asdict(each), "data": base64.b64encode(each.data).decode()} for each in found[:MOST_FINDINGS]]
            os.write(answers, json.dumps([asdict(tally), told]).encode() + b"\n")


def finding(told: dict[str, str]) -> Finding:
    """What a worker has told of."""
    return Finding(**{**told, "data": base64.b64decode(told["data"])})  # type: ignore[arg-type]


def number_in(path: Path) -> int:
    """The number of the input that a worker tried last."""
    return int(_NUMBER.unpack(path.read_bytes())[0])


def clear(path: Path) -> None:
    path.write_bytes(_NUMBER.pack(-1))


if __name__ == "__main__":
    from .targets import TARGETS  # which takes a second

    main(TARGETS)
