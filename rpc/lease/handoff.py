"""What a driver hands on, so that somebody else can go on with its job: the manifest and the state of the attempt."""

from __future__ import annotations

import hashlib
import secrets
from collections.abc import Callable, Iterable
from dataclasses import dataclass, field

from ..messages import TO_DRIVER, Denied, Halted, KeepManifest, ManifestKept, ManifestPart, Operation


def new_driver(who: str) -> str:
    """A name that no other driver has; `who` is for people."""
    return f"{who}/{secrets.token_hex(8)}"


@dataclass(frozen=True)
class Handoff:
    """`manifest` is the same for all attempts at a job, `attempt_state` what has become of the job so far; `standby` is the
    module whose `main` takes over with both."""

    driver: str
    standby: str
    manifest: bytes
    attempt_state: str = ""
    term: int = 0
    sha256: str = field(init=False)

    def __post_init__(self) -> None:
        object.__setattr__(self, "sha256", hashlib.sha256(self.manifest).hexdigest())


def by_seniority(nodes: Iterable[int]) -> list[int]:
    """Who takes over before whom: workers by number, which survivors keep in order, then the parameter server."""
    return sorted(nodes, key=lambda node: (node < 0, node))


PART_BYTES = 1 << 20
_AHEAD_BYTES = 2 << 20


class HandoffTracker:
    """For one attempt. `tell(node, operation)` sends to an agent, `pending(node)` is how many bytes are in line for it.

    Attributes: `deposed`, who drives instead of us, in words; `halted`, why the job is not to be started again.
    """

    def __init__(self, job: str, attempt: int, tell: Callable[[int, Operation], None], pending: Callable[[int], int]) -> None:
        self._job, self._attempt, self._tell, self._pending = job, attempt, tell, pending
        self._handoff: Handoff | None = None
        self._open: set[int] = set()  # nodes that have not said yet that they have everything
        self._sent: dict[int, int] = {}  # bytes, to nodes that have asked for them
        self.deposed = self.halted = ""

    def hand_off(self, handoff: Handoff, nodes: Iterable[int]) -> None:
        """Hand `handoff` on; `send` goes on with it."""
        self._handoff, self._open, self._sent = handoff, set(), {}
        whose = (self._attempt, handoff.term, handoff.driver)
        content, size = handoff.sha256, len(handoff.manifest)
        for place, node in enumerate(by_seniority(nodes)):
            self._open.add(node)
            order = KeepManifest(self._job, node, *whose, place, content, size, handoff.standby, handoff.attempt_state)
            self._tell(node, order)

    @property
    def is_handed_off(self) -> bool:
        """Whether agents could go on without us, or will be able to."""
        return self._handoff is not None

    @property
    def lacking(self) -> list[int]:
        return sorted(self._open)

    def send(self) -> None:
        manifest = b"" if self._handoff is None else self._handoff.manifest
        for node, sent in self._sent.items():
            while sent < len(manifest) and self._pending(node) < _AHEAD_BYTES:
                data = manifest[sent : sent + PART_BYTES]
                self._tell(node, ManifestPart(self._job, node, data))
                sent += len(data)
            self._sent[node] = sent

    def lose(self, node: int) -> None:
        """An agent has everything, or is gone."""
        self._open.discard(node)
        self._sent.pop(node, None)

    def take(self, node: int, operation: Operation) -> bool:
        """Take in what an agent says to its driver; False when it is about something else."""
        if isinstance(operation, ManifestKept) and operation.whole:
            self.lose(node)
        elif isinstance(operation, ManifestKept) and node in self._open:
            self._sent.setdefault(node, 0)
        elif isinstance(operation, Denied):
            self.deposed = operation.reason
        elif isinstance(operation, Halted):
            self.halted = self.halted or operation.reason
        return isinstance(operation, TO_DRIVER)
