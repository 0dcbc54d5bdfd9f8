"""Handoff of a job to its nodes, so that another driver can go on with it: the manifest and the state of the attempt."""

from __future__ import annotations

import hashlib
import secrets
from collections.abc import Callable, Iterable
from dataclasses import dataclass, field

from ..messages import TO_DRIVER, Denied, Halted, KeepManifest, ManifestKept, ManifestPart, Operation


def new_driver(who: str) -> str:
    """Make a name that no other driver has; `who` is for people."""
    return f"{who}/{secrets.token_hex(8)}"


@dataclass(frozen=True)
class Handoff:
    """Content of a handoff.

    Args:
        driver: name of the driver.
        standby: module with the `main` that takes over.
        manifest: the same for all attempts at a job.
        attempt_state: state of the job so far.
        term: in which the attempt was agreed to.
    """

    driver: str
    standby: str
    manifest: bytes
    attempt_state: str = ""
    term: int = 0
    sha256: str = field(init=False)

    def __post_init__(self) -> None:
        object.__setattr__(self, "sha256", hashlib.sha256(self.manifest).hexdigest())


def by_seniority(nodes: Iterable[int]) -> list[int]:
    """Order nodes by seniority, in which they take over: workers by number, which survivors keep in order, then the
    parameter server.
    """
    return sorted(nodes, key=lambda node: (node < 0, node))


PART_BYTES = 1 << 20
_AHEAD_BYTES = 2 << 20


class HandoffTracker:
    """Tracker of the handoff of one attempt.

    Attributes: `deposed`, the driver in our place, in words; `halted`, why the job is not to be started again.

    Args:
        job: id of the job.
        attempt: its number.
        tell: sends an operation to the agent of a node.
        pending: returns how many bytes are in line for a node.
    """

    def __init__(self, job: str, attempt: int, tell: Callable[[int, Operation], None], pending: Callable[[int], int]) -> None:
        self._job, self._attempt, self._tell, self._pending = job, attempt, tell, pending
        self._handoff: Handoff | None = None
        self._open: set[int] = set()  # nodes that have not said yet that they have everything
        self._sent: dict[int, int] = {}  # bytes, to nodes that have asked for them
        self.deposed = self.halted = ""

    def hand_off(self, handoff: Handoff, nodes: Iterable[int]) -> None:
        """Hand `handoff` on to `nodes`; `send` goes on with it."""
        self._handoff, self._open, self._sent = handoff, set(), {}
        whose = (self._attempt, handoff.term, handoff.driver)
        # the hash first: an agent that has the manifest from an attempt before needs no bytes
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
            # bounded, so that news of the job is not stuck behind gigabytes
            while sent < len(manifest) and self._pending(node) < _AHEAD_BYTES:
                data = manifest[sent : sent + PART_BYTES]
                self._tell(node, ManifestPart(self._job, node, data))
                sent += len(data)
            self._sent[node] = sent

    def lose(self, node: int) -> None:
        """Forget a node: its agent has everything, or is gone."""
        self._open.discard(node)
        self._sent.pop(node, None)

    def take(self, node: int, operation: Operation) -> bool:
        """Take in a message of an agent to its driver; False when it is about something else."""
        if isinstance(operation, ManifestKept) and operation.whole:
            self.lose(node)
        elif isinstance(operation, ManifestKept) and node in self._open:
            self._sent.setdefault(node, 0)
        elif isinstance(operation, Denied):
            self.deposed = operation.reason
        elif isinstance(operation, Halted):
            # the first reason is the one that the user gave
            self.halted = self.halted or operation.reason
        return isinstance(operation, TO_DRIVER)
