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


class HandoffTracker:
    """`tell(node, operation)` sends to an agent, `pending(node)` is how many bytes are in line for it.

    Attributes: `deposed`, who drives instead of us, in words; `halted`, why the job is not to be started again.
    """

    def __init__(self, job: str, attempt: int, tell: Callable[[int, Operation], None], pending: Callable[[int], int]) -> None:
        self._job, self._attempt, self._tell, self._pending = job, attempt, tell, pending
        self._sender: ManifestSender | None = None
        self.deposed = self.halted = ""

    def hand_off(self, handoff: Handoff, nodes: Iterable[int]) -> None:
        """Hand `handoff` on; `send` goes on with it."""
        self._sender = ManifestSender(self._job, self._attempt, handoff, nodes, self._tell, self._pending)

    @property
    def is_handed_off(self) -> bool:
        """Whether agents could go on without us, or will be able to."""
        return self._sender is not None

    @property
    def lacking(self) -> list[int]:
        """The nodes that do not have everything yet."""
        return [] if self._sender is None else sorted(self._sender.open)

    def send(self) -> None:
        """Put in line what there is room for."""
        if self._sender is not None:
            self._sender.send()

    def lose(self, node: int) -> None:
        """An agent is gone."""
        if self._sender is not None:
            self._sender.lose(node)

    def take(self, node: int, operation: Operation) -> bool:
        """Take in what an agent says to its driver; False when it is about something else."""
        if isinstance(operation, ManifestKept) and self._sender is not None:
            self._sender.take(node, operation)
        elif isinstance(operation, Denied):
            self.deposed = operation.reason
        elif isinstance(operation, Halted):
            self.halted = self.halted or operation.reason
        return isinstance(operation, TO_DRIVER)


PART_BYTES = 1 << 20
_AHEAD_BYTES = 2 << 20


class ManifestSender:
    """For one attempt. `tell(node, operation)` sends, `pending(node)` is how many bytes are in line for a node."""

    def __init__(
        self,
        job: str,
        attempt: int,
        handoff: Handoff,
        nodes: Iterable[int],
        tell: Callable[[int, Operation], None],
        pending: Callable[[int], int],
    ) -> None:
        self._job, self._handoff = job, handoff
        self._tell, self._pending = tell, pending
        self._sent: dict[int, int] = {}  # bytes, to nodes that have asked for them
        self.open: set[int] = set()
        """The nodes that have not said yet that they have everything."""
        for place, node in enumerate(by_seniority(nodes)):
            self.open.add(node)
            size = len(handoff.manifest)
            tell(
                node,
                KeepManifest(
                    job,
                    node,
                    attempt,
                    handoff.term,
                    handoff.driver,
                    place,
                    handoff.sha256,
                    size,
                    handoff.standby,
                    handoff.attempt_state,
                ),
            )

    def take(self, node: int, answer: ManifestKept) -> None:
        """What the agent of a node says."""
        if answer.whole:
            self.lose(node)
        elif node in self.open:
            self._sent.setdefault(node, 0)

    def lose(self, node: int) -> None:
        """It has everything, or is gone."""
        self.open.discard(node)
        self._sent.pop(node, None)

    def send(self) -> None:
        """Put further parts in line where there is room."""
        manifest = self._handoff.manifest
        for node, sent in self._sent.items():
            while sent < len(manifest) and self._pending(node) < _AHEAD_BYTES:
                data = manifest[sent : sent + PART_BYTES]
                self._tell(node, ManifestPart(self._job, node, data))
                sent += len(data)
            self._sent[node] = sent
