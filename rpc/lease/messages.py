"""What drivers and agents say to each other about who drives a job.

The *driver* of a job watches it and starts it again; the submitter is the first. A driver has a name, `<who>/<random>`.
"""

from __future__ import annotations

from typing import Annotated

from ..protocol import Attempt, Bytes, JobState, Length, Matching, Node, Operation, Sha256

Driver = Annotated[str, Matching("[A-Za-z0-9() -]{1,64}/[0-9a-f]{16}")]
Term = Annotated[int, range(1 << 53)]
Outcome = Annotated[str, ("done", "failed", "stopped", "left")]
"""Of a job, said by its driver; "left" for a node without which it goes on."""


# ---- driver to agent


class KeepManifest(Operation):
    """Keep what is needed to drive this job, for the time when I am gone.

    `term` is that in which the attempt was agreed to, `place` the node's in the order of seniority. The manifest, which is the
    same for all attempts, has `size` bytes and this hash; it follows in parts if it is asked for. `attempt_state` is what
    changes from attempt to attempt. `standby` is the module that takes over; its `main` is called.
    """

    job: str
    node: Node
    attempt: Attempt
    term: Term
    driver: Driver
    place: Annotated[int, range(1 << 20)]
    sha256: Sha256
    size: Bytes
    standby: Annotated[str, Matching("[a-z_]+\\.standby")]
    attempt_state: str


class ManifestPart(Operation):
    """The next bytes of the manifest."""

    job: str
    node: Node
    data: Annotated[bytes, Length(1, 1 << 20)]


class ClaimJob(Operation):
    """Let me drive the job of this manifest from now on. A claim of a higher term ends those before it."""

    job: str
    node: Node
    driver: Driver
    sha256: Sha256
    term: Term


class ProposeAttempt(Operation):
    """Agree to this attempt, which may go on without you: nobody who does not know of it shall go on from the one before."""

    job: str
    node: Node
    driver: Driver
    term: Term
    attempt: Attempt
    attempt_state: str


class Conclude(Operation):
    """The job is over, or goes on without this node; nobody need drive it here. `report` is a text in JSON, for the record."""

    job: str
    node: Node
    outcome: Outcome
    detail: str
    report: str


# ---- agent to driver


class ManifestKept(Operation):
    """The agent has the whole manifest, or asks for it."""

    job: str
    node: Node
    whole: bool


class Promised(Operation):
    """Base of the answers that tell what the node has promised (see `lease.Promise`).

    First the newest attempt that it has agreed to, -1 for none: in which term, whether it has begun, its attempt state; then
    the newest that has begun here, its term, number and attempt state.
    """

    job: str
    node: Node
    newest: Annotated[int, range(-1, 1 << 31)]
    agreed: Term
    begun: bool
    attempt_state: str
    own: Term
    own_attempt: Annotated[int, range(-1, 1 << 31)]
    own_state: str


class Granted(Promised):
    """You drive, by the claim of the term `claim`; `voice` is what that counts (see `lease`).

    Last is what the node was told last: the attempt that its process is of, and its state.
    """

    claim: Term
    voice: Annotated[str, ("living", "restarted", "none")]
    attempt: Attempt
    state: JobState
    detail: str


class Denied(Promised):
    """You do not drive, or the attempt may not begin: somebody else drives now (`is_driven`), or has claimed the job by the
    claim of the `term`, or the job is over: then `outcome` says how."""

    term: Term
    is_driven: bool
    reason: str
    outcome: Annotated[str, ("", "done", "failed", "stopped", "left")]


class Agreed(Operation):
    """The attempt may begin."""

    job: str
    node: Node
    term: Term
    attempt: Attempt


class Halted(Operation):
    """Somebody else wants the job to end: it shall not be started again."""

    job: str
    reason: str


# ---- agent to whoever watches


class Standing(Operation):
    """How the job stands beyond the state of one process: its attempt, and the term in which that was agreed to, who drives it
    ("" for nobody: it is not started again), and how it is over, if it is."""

    job: str
    node: Node
    attempt: Attempt
    term: Term
    driver: str
    outcome: Annotated[str, ("", "done", "failed", "stopped", "left")]
    detail: str


FROM_DRIVER = (KeepManifest, ManifestPart, ClaimJob, ProposeAttempt, Conclude)
TO_DRIVER = (ManifestKept, Granted, Agreed, Denied, Halted, Standing)
