"""Verdicts and notices of agents on nodes that do not go on."""

from __future__ import annotations

import json
import signal as signals
from collections.abc import Iterable
from dataclasses import asdict, field
from typing import Annotated

from network.errors import BadContent, PeerLost, TimedOut

from .liveness.limits import Phase
from .protocol import Attempt, Length, Node, Operation
from .support.logs import clean

Count = Annotated[int, range(1 << 40)]
ExitCode = Annotated[int, range(-1, 256)]
PhaseName = Annotated[str, ("unwatched", "start", "step", "between", "save", "ended")]
VerdictKind = Annotated[str, ("stuck", "crashed", "exited", "silent", "cut", "deadlock")]
BY_DRIVER = ("silent", "cut", "deadlock")  # kinds that only the driver finds, which sees several nodes
LOG_LINES = 20
_WORK = {
    Phase.START.value: "starting, before",
    Phase.BETWEEN.value: "between two batches, after",
    Phase.SAVE.value: "saving its state, after",
    Phase.ENDED.value: "ended, after",
}
"""Words for where a process is, before its batch, by its phase; in a batch where there is none."""
_LONGEST_LINE = 4096
_LOSS = f"{PeerLost.__module__}.{PeerLost.__qualname__}:"
_LATE = (
    "TimeoutError:",
    f"{TimedOut.__module__}.{TimedOut.__qualname__}:",
    f"{BadContent.__module__}.{BadContent.__qualname__}:",
)


class Verdict(Operation):
    """Verdict on a node that did not go on; it travels from the agent to the submitter.

    kind: stuck (silent beyond the limit of its phase), crashed (a signal or an exception), exited (sys.exit), silent (its host
    is), cut (a link with another node carries nothing), deadlock (all that still train wait for each other). epoch, batch:
    where it was, counted from 1, 0 before the first. seconds: of silence. detail: more in words. exit_code: -1 for none.
    signal: its number, 0 for none. trace: the traceback of a crash, the stack of a stuck process, or why there is none. log:
    the last lines of the job's log there. work: the piece of work that it began last, in its own count, from 1; 0 for none.
    """

    job: str
    node: Node
    attempt: Attempt
    kind: VerdictKind
    host: str
    pid: Count
    phase: PhaseName
    epoch: Count
    batch: Count
    seconds: float
    detail: str = ""
    exit_code: ExitCode = -1
    signal: Annotated[int, range(128)] = 0
    trace: str = ""
    log: Annotated[list[str], Length(0, LOG_LINES)] = field(default_factory=list)
    work: Count = 0

    @property
    def headline(self) -> str:
        return f"{self.summary} {clean(self.detail, _LONGEST_LINE)}".rstrip()

    @property
    def summary(self) -> str:
        """Node, place and event; not the reason."""
        return f"Node({self.node}) {self.place}: {self._what()}."

    @property
    def place(self) -> str:
        return describe_place(self.host, self.pid, self.attempt, self.phase, self.epoch, self.batch)

    @property
    def reason(self) -> str:
        """Event and reason; not node and place."""
        what = self._what()
        return f"{what[0].upper()}{what[1:]}. {self.detail}".rstrip()

    def _what(self) -> str:
        if self.kind == "stuck":
            return f"stuck, silent for {self.seconds:.1f} s"
        if self.kind == "silent":
            return f"its host has been silent for {self.seconds:.1f} s"
        if self.kind == "cut":
            return f"cut off from nodes that wait, for {self.seconds:.1f} s"
        if self.kind == "deadlock":
            return f"waits for others that wait, for {self.seconds:.1f} s"
        if self.kind == "exited":
            return f"exited with code {self.exit_code}"
        return "crashed" if not self.signal else f"killed by signal {self.signal} ({signal_name(self.signal)})"

    @property
    def rank(self) -> int:
        """Rank of the verdict: 0 for an event of its own, 1 for one that others may have caused (they are silent, or sent
        data that cannot be used), 2 for a consequence of a loss.
        """
        # the last line of a traceback names the error's class
        last = self.trace.strip().rpartition("\n")[2]
        # it failed only because another node was gone
        if self.kind == "crashed" and is_loss(self.trace):
            return 2
        return 1 if self.kind == "deadlock" or (self.kind == "crashed" and last.startswith(_LATE)) else 0

    def describe(self) -> str:
        """Return the headline, and the diagnostics below it; text of a worker in it is cleaned, fit for a terminal."""
        parts = [self.headline]
        if self.trace:
            parts += ["Stack:" if self.kind == "stuck" else "Traceback:", *_indented(self.trace.strip().splitlines())]
        if self.log:
            parts += ["Last lines of its log:", *_indented(self.log)]
        return "\n".join(parts)

    def to_json(self) -> str:
        return json.dumps(asdict(self))


def is_loss(trace: str) -> bool:
    """Tell if a process has ended, by its traceback, because it lost another node."""
    return trace.strip().rpartition("\n")[2].startswith(_LOSS)


def describe_place(host: str, pid: int, attempt: int, phase: str, epoch: int, batch: int) -> str:
    """Describe the place in the cluster and in the work, by the fields of a verdict or a heartbeat.

    Args:
        host: name of the host.
        pid: process id.
        attempt: from 0, shown from 1.
        phase: the word for it.
        epoch: from 1; 0 before the first.
        batch: from 1.
    """
    # cleaned: its agent has told it
    who = f"on {clean(host)}, process {pid}, attempt {attempt + 1}"
    if phase == Phase.UNWATCHED.value:
        return f"{who}, which gave no signals of its progress"
    return f"{who}, {describe_work(phase, epoch, batch)}"


def describe_work(phase: str, epoch: int, batch: int) -> str:
    """Describe the place in the work.

    Args:
        phase: the word for it.
        epoch: from 1; 0 before the first.
        batch: from 1.
    """
    if not epoch:
        return "before the first batch"
    return f"{_WORK.get(phase, 'in')} epoch {epoch}, batch {batch}"


def signal_name(number: int) -> str:
    try:
        return signals.Signals(number).name
    except ValueError:
        return "unknown"


def in_causal_order(verdicts: Iterable[Verdict]) -> list[Verdict]:
    """Order first causes before their consequences, else as they came."""
    # stable: of one rank the order in which they came stays
    return sorted(verdicts, key=lambda verdict: verdict.rank)


def _indented(lines: Iterable[str]) -> list[str]:
    return [f"    {clean(line, _LONGEST_LINE)}" for line in lines]


class Notice(Operation):
    """Notice that the process is silent for half of its limit (warned), or has shown life since (recovered, after
    `seconds`).
    """

    job: str
    node: Node
    attempt: Attempt
    kind: Annotated[str, ("warned", "recovered")]
    phase: PhaseName
    epoch: Count
    batch: Count
    seconds: float

    def describe(self) -> str:
        where = f"Node({self.node}), {describe_work(self.phase, self.epoch, self.batch)}"
        if self.kind == "recovered":
            return f"{where}: recovered after {self.seconds:.1f} s."
        return f"{where}: silent for {self.seconds:.1f} s, half of what it may be."
