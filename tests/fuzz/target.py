"""What a target is: honest inputs, how they are altered, the reader that gets them, and how it may refuse them."""

from __future__ import annotations

import atexit
import random
import tempfile
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from functools import cache, cached_property
from pathlib import Path
from typing import Literal, TypeAlias

from network.budget import OBJECT_BYTES
from network.errors import ProtocolError, Rejected
from rpc.support.files import private

from .mutate import Alter, bytes_altered, foreign

Outcome: TypeAlias = Literal["read", "incomplete", "accepted"]
MIB = 1 << 20
REFUSED_BY_NETWORK = (ProtocolError, Rejected)


@dataclass(frozen=True)
class Target:
    """One reader.

    Attributes: `honest` gives what honest code writes, always the same; `take` gives an input to the reader: "read" as what it
    says, "incomplete" where the reader waits for more, "accepted" where it passes for what only the holder of a key can have
    written; `refusals`, the errors that the reader documents, every other one is a crash; `alter`, ways to alter its
    structure, beside those for any bytes; `budget`, bytes that it may take beside three times the input; `weight`, its share.
    """

    name: str
    honest: Callable[[], Sequence[bytes]]
    take: Callable[[bytes], Outcome]
    refusals: tuple[type[Exception], ...] = REFUSED_BY_NETWORK
    alter: tuple[Alter, ...] = ()
    budget: int = OBJECT_BYTES
    weight: float = 1.0

    @cached_property
    def seeds(self) -> Sequence[bytes]:
        return tuple(self.honest())

    def hostile(self, seed: int, number: int) -> bytes:
        """The input with this number: the same in every process."""
        return self.varied(random.Random(f"{seed}/{self.name}/{number}"))

    def varied(self, rng: random.Random) -> bytes:
        chosen = rng.random()
        if chosen < 0.04:
            return foreign(rng)
        data = rng.choice(self.seeds)
        if self.alter and chosen < 0.65:
            return rng.choice(self.alter)(rng, data)
        return bytes_altered(rng, data, self.seeds)

    def most(self, size: int) -> int:
        """Bytes that an input of `size` may take."""
        return 3 * size + self.budget


@cache
def _folder() -> Path:
    memory = Path("/dev/shm")  # a hundred thousand files need no disk
    folder = tempfile.TemporaryDirectory(prefix="fuzz-", dir=memory if memory.is_dir() else None)
    atexit.register(folder.cleanup)
    return Path(folder.name)


def scratch(name: str, data: bytes) -> Path:
    """A file of this process that holds `data`, for readers that take paths."""
    path = _folder() / name
    path.parent.mkdir(parents=True, exist_ok=True)
    with open(path, "wb", opener=private) as file:
        file.write(data)
    return path
