"""The grid of single faults: every phase of a job, and who is hit in it."""

from __future__ import annotations

from typing import NamedTuple

PHASES = (
    "listen",
    "connect",
    "auth",
    "canCommit",
    "preCommit",
    "ready",
    "step-send",
    "step-reduce",
    "checkpoint-write",
    "done",
    "retrieve",
)
VICTIMS = ("coordinator", "agent", "child", "peer", "server")
BEFORE_RUNNING = PHASES[: PHASES.index("step-send")]
_AT_AGENTS = ("listen", "connect", "auth", "canCommit", "retrieve")


class Cell(NamedTuple):
    """`victim` is hit when `witness` comes to `phase`; both are actors of a `Life`. With `server` the job has one."""

    phase: str
    role: str
    victim: str
    witness: str
    server: bool

    def __str__(self) -> str:
        return f"{self.phase}-{self.role}"


def _cell(phase: str, role: str) -> Cell:
    victim = {"coordinator": "S", "agent": "A1", "child": "J1", "peer": "J0", "server": "J-2"}[role]
    witness = victim
    if role == "coordinator":  # it comes when the agents listen already; then the job processes do
        witness = "A1" if phase in _AT_AGENTS and phase != "listen" else "J1"
    elif role == "agent":
        witness = "A1" if phase in _AT_AGENTS else "J1"
    elif phase == "retrieve":  # others still work when the first files go home
        victim, witness = ("J2" if role == "peer" else victim), "A0"
    elif phase == "checkpoint-write" and role == "server":  # whose codecs remember nothing, so it saves nothing
        witness = "J1"
    return Cell(phase, role, victim, witness, role == "server")


CELLS = [_cell(phase, role) for phase in PHASES for role in VICTIMS]
