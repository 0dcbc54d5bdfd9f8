"""What agents tell of a running job besides its state and progress: that it is alive, late, or well again."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Annotated

from ..operation import Attempt, Length, Node, Operation
from .recorder import MOST_LINKS
from .verdict import Count, PhaseName, describe_place


@dataclass(frozen=True)
class Beat(Operation):
    """The agent lives, and the process is here: sent twice a second while there is one. epoch, batch: from 1, 0 before the
    first."""

    job: str
    node: Node
    attempt: Attempt
    host: str
    pid: Count
    phase: PhaseName
    epoch: Count
    batch: Count
    seconds: float  # since the phase began
    waiting: float  # of them, for peers and without a byte coming or going
    limit: float  # N, as it is now
    links: Annotated[list[Annotated[list[int], Length(3, 3)]], Length(0, MOST_LINKS)] = field(default_factory=list)
    """While it waits in vain: for each peer its id, messages sent to it, and messages that have come from it."""
    worked: float = 0.0  # until the executor starts: seconds of processor time since the last beat, 0 where nobody knows

    @property
    def place(self) -> str:
        """Where in the cluster and in the work, in the words of a verdict."""
        return describe_place(self.host, self.pid, self.attempt, self.phase, self.epoch, self.batch)


@dataclass(frozen=True)
class Notice(Operation):
    """The process is silent for half of what it may be (warned), or has shown life since (recovered, after `seconds`)."""

    job: str
    node: Node
    attempt: Attempt
    kind: Annotated[str, ("warned", "recovered")]
    phase: PhaseName
    epoch: Count
    batch: Count
    seconds: float

    def describe(self) -> str:
        """The notice in one sentence."""
        where = f"Node({self.node}), epoch {self.epoch}, batch {self.batch}"
        if self.kind == "recovered":
            return f"{where}: recovered after {self.seconds:.1f} s."
        return f"{where}: silent for {self.seconds:.1f} s in phase '{self.phase}', half of what it may be."
