"""One input given to one reader, and what came of it; many of them, counted."""

from __future__ import annotations

import contextlib
import resource
import time
import traceback
import tracemalloc
from collections.abc import Callable, Iterable
from dataclasses import dataclass, field, fields

from .target import Target

SLOWEST = 1.0
"""Seconds of the processor that an input may take."""

TRACED_BYTES = 4096
"""Inputs beyond that are tried with their memory traced, too."""

ABOUT = ("accepted", "crashed", "hung", "memory")
"""What must never happen."""


@dataclass
class Tally:
    """How many inputs came to what; `most` is the memory that the largest taker took, in bytes, `slowest` in seconds."""

    tried: int = 0
    refused: int = 0
    incomplete: int = 0
    read: int = 0
    accepted: int = 0
    crashed: int = 0
    hung: int = 0
    memory: int = 0
    most: int = 0
    slowest: float = 0.0

    def add(self, other: Tally) -> None:
        for name in (each.name for each in fields(Tally)):
            mine, its = getattr(self, name), getattr(other, name)
            setattr(self, name, max(mine, its) if name in ("most", "slowest") else mine + its)

    @property
    def bad(self) -> int:
        return self.accepted + self.crashed + self.hung + self.memory


@dataclass
class Finding:
    """An input after which something happened that must not: which of `ABOUT`, and what is known of it.

    `number` is that of the input, where it has one.
    """

    target: str
    what: str
    number: int
    detail: str
    data: bytes = field(default=b"", repr=False)

    @property
    def place(self) -> str:
        """Equal for inputs that fail alike."""
        return f"{self.what} {self.detail.strip().splitlines()[-1][:60]} {self.detail.strip().splitlines()[-3:-1]}"


def attempt(target: Target, data: bytes, number: int, tally: Tally) -> list[Finding]:
    """Give `data` to the reader, add to `tally` what came of it, and return what must not be."""
    tally.tried += 1
    what, detail = "", ""
    begun = time.thread_time()
    try:
        outcome = target.take(data)
    except target.refusals:
        tally.refused += 1
    except Exception:
        what, detail = "crashed", traceback.format_exc()
    else:
        if outcome == "accepted":
            what, detail = outcome, "an altered input was taken for an honest one"
        else:
            setattr(tally, outcome, getattr(tally, outcome) + 1)
    seconds = time.thread_time() - begun
    tally.slowest = max(tally.slowest, seconds)
    if not what and seconds > SLOWEST:
        what, detail = "hung", f"{seconds:.2f} s for {len(data)} bytes"
    return _found(target, what, number, detail, data, tally)


def trace(target: Target, data: bytes, number: int, tally: Tally) -> list[Finding]:
    """Likewise, for the memory that the reader takes meanwhile; memory must be traced."""
    allowed = target.most(len(data))
    for _ in range(2):  # the first time a module may have been loaded
        held = tracemalloc.get_traced_memory()[0]
        tracemalloc.reset_peak()
        with contextlib.suppress(Exception):  # which `attempt` has counted
            target.take(data)
        taken = tracemalloc.get_traced_memory()[1] - held
        if taken <= allowed:
            break
    tally.most = max(tally.most, taken)
    detail = f"{taken} bytes for an input of {len(data)}, allowed are {allowed}"
    return _found(target, "memory" if taken > allowed else "", number, detail, data, tally)


def _found(target: Target, what: str, number: int, detail: str, data: bytes, tally: Tally) -> list[Finding]:
    if not what:
        return []
    setattr(tally, what, getattr(tally, what) + 1)
    return [Finding(target.name, what, number, detail, data)]


def attempts(
    target: Target, seed: int, numbers: Iterable[int], beat: Callable[[int], object] = lambda number: None
) -> tuple[Tally, list[Finding]]:
    """The inputs with these numbers; `beat` is told of each before it is tried.

    To trace memory takes several times as long as to read, so it is done for large inputs, for each after which the process has
    grown, and for one in eight of the others; these are tried a second time.
    """
    tally, found = Tally(), []
    honest, again = set(target.seeds), []
    grown = _largest()
    for number in numbers:
        data = target.hostile(seed, number)
        if data in honest:
            continue
        beat(number)
        found += attempt(target, data, number, tally)
        now = _largest()
        if len(data) > TRACED_BYTES or number % 8 == 0 or now > grown:
            again.append((number, data))
        grown = now
    tracemalloc.start()
    try:
        for number, data in again:
            beat(number)
            found += trace(target, data, number, tally)
    finally:
        tracemalloc.stop()
    return tally, found


def _largest() -> int:
    """The most memory that this process has had."""
    return resource.getrusage(resource.RUSAGE_SELF).ru_maxrss
