"""Where agents that a batch system started tell their addresses: a shared folder with one small file for each.

A file appears with its whole content and is removed by its agent; that of an agent which was killed stays behind. So a reader
takes a file for a claim, which `membership.living` tries.
"""

from __future__ import annotations

import contextlib
import json
import re
from collections.abc import Iterator
from dataclasses import asdict, dataclass
from pathlib import Path

from network.nodes import Address

from .files import parsed, publish, read_regular

MAX_SLOTS = 4096  # of one host; more is a slip of the pen
_SUFFIX = ".agent.json"
_MOST_BYTES = 4096
_NAME = re.compile(r"[A-Za-z0-9][A-Za-z0-9._-]{0,127}")


class RegistrationError(ValueError):
    """A registration cannot be written or read; the message says which and why."""


@dataclass(frozen=True)
class Registration:
    """What an agent says of itself: its `rank` among the `size` (0: unknown) of the `run` that `system` started.

    `host` is the name of its machine, `address` where it can be called, `slots` how many jobs it runs at once; `started` is in
    seconds since 1970.
    """

    system: str
    run: str
    rank: int
    size: int
    address: str
    slots: int
    host: str
    started: float

    def __post_init__(self) -> None:
        whole = all(type(number) is int for number in (self.rank, self.size, self.slots)) and type(self.started) is float
        texts = all(type(text) is str for text in (self.system, self.run, self.address, self.host))
        if not (whole and texts and 0 <= self.rank < (self.size or self.rank + 1) and 1 <= self.slots <= MAX_SLOTS):
            raise RegistrationError(
                f"A registration needs texts, 0 <= rank < size and 1 to {MAX_SLOTS} slots, got {self!r:.300}."
            )
        if not _NAME.fullmatch(self.name):
            raise RegistrationError(f"The name of a run must be letters, digits, '.', '_' and '-', got {self.run[:80]!r}.")
        Address.parse(self.address)

    @property
    def name(self) -> str:
        """Which agent this is, also after it was started anew."""
        return "-".join(part for part in (self.system, self.run, str(self.rank)) if part)

    @property
    def line(self) -> str:
        """The agent as discovery has it."""
        return f"{self.address} slots={self.slots}"


@contextlib.contextmanager
def registered(folder: Path, registration: Registration) -> Iterator[None]:
    """Keep `registration` in `folder`, which is made if it is missing, for as long as the block lasts.

    Whoever replaces the file meanwhile (the same rank, started anew) keeps it.
    Raises: RegistrationError when it cannot be written.
    """
    path = folder / f"{registration.name}{_SUFFIX}"
    content = json.dumps(asdict(registration)) + "\n"
    try:
        folder.mkdir(mode=0o700, parents=True, exist_ok=True)
        publish(path, content, 0o644)
    except OSError as error:
        raise RegistrationError(f"The agent cannot be registered in {folder}: {error.strerror or error}.") from error
    try:
        yield
    finally:
        with contextlib.suppress(OSError, ValueError):
            if read_regular(path, _MOST_BYTES) == content:
                path.unlink()


def registrations(folder: Path) -> list[Registration]:
    """All that `folder` holds, by rank, the newest first where ranks are equal; of one address only the newest.

    What is no registration is left out: it may be half of one that another machine is about to replace.
    Raises: OSError when the folder cannot be read; a folder that does not exist yet is empty.
    """
    found: dict[Address, Registration] = {}
    try:
        paths = sorted(folder.iterdir())
    except FileNotFoundError:
        return []
    for path in paths:
        if path.name.endswith(_SUFFIX) and not path.name.startswith("."):
            with contextlib.suppress(OSError, ValueError, TypeError):
                read = _read(path)
                address = Address.parse(read.address)
                if address not in found or found[address].started < read.started:
                    found[address] = read
    return sorted(found.values(), key=lambda one: (one.rank, -one.started, one.name))


def _read(path: Path) -> Registration:
    return Registration(**parsed(json.loads, read_regular(path, _MOST_BYTES)))
