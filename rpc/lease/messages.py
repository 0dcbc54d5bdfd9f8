"""Messages between drivers and agents about the lease of a job.

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
    """Order to keep the manifest of this job, for the time when its driver is gone.

    `term` is that in which the attempt was agreed to, `place` the node's in the order of seniority. The manifest, which is the
    same for all attempts, has `size` bytes and this hash; it follows in parts if it is asked for. `attempt_state` is the part
    that changes from attempt to attempt. `standby` is the module that takes over; its `main` is called.
    """

    job: str
    node: Node
    attempt: Attempt
    term: Term
    driver: Driver
    place: Annotated[int, range(1 << 20)]
    sha256: Sha256
    size: Bytes
    standby: Annotated[str, Matching("[a-z_]+(\\.[a-z_]+)*\\.standby")]
    attempt_state: str


class ManifestPart(Operation):
    """Next bytes of the manifest."""

    job: str
    node: Node
    data: Annotated[bytes, Length(1, 1 << 20)]


class ClaimJob(Operation):
    """Claim of the sender to drive the job of this manifest from now on. A claim of a higher term ends those before it."""

    job: str
    node: Node
    driver: Driver
    sha256: Sha256
    term: Term


class ProposeAttempt(Operation):
    """Proposal of an attempt, which may go on without this node: no node that does not know of it shall go on from the one
    before.
    """

    job: str
    node: Node
    driver: Driver
    term: Term
    attempt: Attempt
    attempt_state: str


class Conclude(Operation):
    """Notice that the job is over, or goes on without this node; no driver is needed here. `report` is a text in JSON, for
    the record.
    """

    job: str
    node: Node
    outcome: Outcome
    detail: str
    report: str


# ---- agent to driver


class ManifestKept(Operation):
    """Answer that the agent has the `whole` manifest, or asks for it."""

    job: str
    node: Node
    whole: bool


class Promised(Operation):
    """Base of the answers that contain the promise of the node (see `lease.Promise`).

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
    """Grant of the claim of the term `claim`: the receiver drives; `voice` is its weight (see `lease`).

    Last comes the last news of the node: the attempt that its process is of, and its state.
    """

    claim: Term
    voice: Annotated[str, ("living", "restarted", "none")]
    attempt: Attempt
    state: JobState
    detail: str


class Denied(Promised):
    """Denial: the receiver does not drive, or the attempt may not begin: another driver drives now (`is_driven`), or has
    claimed the job by the claim of the `term`, or the job is over: then `outcome` says how.
    """

    term: Term
    is_driven: bool
    reason: str
    outcome: Annotated[str, ("", "done", "failed", "stopped", "left")]


class Agreed(Operation):
    """Answer that the attempt may begin."""

    job: str
    node: Node
    term: Term
    attempt: Attempt


class Halted(Operation):
    """Notice that a user or another program wants the job to end: it shall not be started again."""

    job: str
    reason: str


# ---- agent to the sessions that watch the job


class Standing(Operation):
    """State of the job beyond that of one process: its attempt, and the term in which that was agreed to, its driver ("" for
    none: it is not started again), and how it is over, if it is.
    """

    job: str
    node: Node
    attempt: Attempt
    term: Term
    driver: str
    outcome: Annotated[str, ("", "done", "failed", "stopped", "left")]
    detail: str


FROM_DRIVER = (KeepManifest, ManifestPart, ClaimJob, ProposeAttempt, Conclude)
TO_DRIVER = (ManifestKept, Granted, Agreed, Denied, Halted, Standing)
