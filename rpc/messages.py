"""The messages of jobs: every operation with its fields, checked against types and ranges before anyone acts on them.

An operation is a frozen dataclass; its name on the wire is the class name. `parse` accepts exactly the operations that the
receiver's role and state allow, with exactly their fields, and raises ProtocolError for everything else.
"""

from __future__ import annotations

import math
import re
import types
import typing
from dataclasses import dataclass, fields
from typing import Annotated, Any

from network.errors import ProtocolError

MAX_TEXT = 1 << 16  # characters


@dataclass(frozen=True)
class Matching:
    """Texts that match a pattern."""

    pattern: str

    def __contains__(self, text: str) -> bool:
        return re.fullmatch(self.pattern, text) is not None


@dataclass(frozen=True)
class Length:
    """Texts, bytes or lists whose length lies from `low` to `high`."""

    low: int
    high: int

    def __contains__(self, item: typing.Sized) -> bool:
        return self.low <= len(item) <= self.high


# Annotated[type, values]: the field is of the type, and one of the values
Node = Annotated[int, range(-2, 1 << 20)]
Attempt = Annotated[int, range(1 << 31)]
Percent = Annotated[int, range(101)]
Bytes = Annotated[int, range(1 << 53)]
Secret = Annotated[bytes, Length(32, 32)]
Sha256 = Annotated[str, Matching("[0-9a-f]{64}")]
RunState = Annotated[str, ("running", "done", "failed", "stopped")]
JobState = Annotated[str, ("starting", "running", "done", "failed", "stopped", "aborted", "lost", "unknown")]


@dataclass(frozen=True)
class Operation:
    """Base of all messages."""

    def to_value(self) -> dict[str, Any]:
        """The message as data."""
        return {"op": type(self).__name__, **{f.name: getattr(self, f.name) for f in fields(self)}}


def parse(value: Any, allowed: typing.Iterable[type[Operation]]) -> Operation:
    """The operation in `value`, if it is one of `allowed` and every field has its type.

    Raises: ProtocolError naming the operation and the field.
    """
    if not isinstance(value, dict) or not isinstance(value.get("op"), str):
        raise ProtocolError("A message is no operation.")
    name = value["op"]
    for cls in allowed:
        if cls.__name__ == name:
            break
    else:
        raise ProtocolError(f"The operation {name[:40]!r} is not allowed here.")
    schema = _schema(cls)
    if set(value) != {"op", *schema}:
        raise ProtocolError(f"The operation {name} came with missing or unknown fields.")
    for field, expected in schema.items():
        if not _fits(value[field], expected):
            shown = expected.__name__ if isinstance(expected, type) else str(expected).replace("typing.", "")
            raise ProtocolError(f"The field '{field}' of the operation {name} must be {shown}.")
    return cls(**{field: value[field] for field in schema})


def _schema(cls: type[Operation]) -> dict[str, Any]:
    hints = typing.get_type_hints(cls, include_extras=True)
    return {f.name: hints[f.name] for f in fields(cls)}


def _fits(value: Any, expected: Any) -> bool:
    origin, arguments = typing.get_origin(expected), typing.get_args(expected)
    if origin is Annotated:
        return _fits(value, arguments[0]) and all(value in values for values in arguments[1:])
    if origin is list:
        return type(value) is list and all(_fits(v, arguments[0]) for v in value)
    if origin is dict:
        return type(value) is dict and all(_fits(k, arguments[0]) and _fits(v, arguments[1]) for k, v in value.items())
    if origin is types.UnionType:
        return any(_fits(value, option) for option in arguments)
    if expected is Any:
        return True
    if expected is int or (expected is float and type(value) is int):
        return type(value) is int and -(1 << 63) <= value < 1 << 63
    if expected is float:
        return type(value) is float and math.isfinite(value)
    if expected is str:
        return type(value) is str and len(value) <= MAX_TEXT
    return type(value) is expected


# ---- submitter to agent


@dataclass(frozen=True)
class CanCommit(Operation):
    """Phase one: take this job? Carries what the agent needs to start and admit the job process."""

    job: str
    title: str
    node: Node
    group: list[Node]
    attempt: Attempt
    python: str
    version: str
    blas_threads: int  # 0: the cores of the host, divided by its jobs
    jobs_on_host: int
    prepare_limit: float  # seconds until the executor has all it needs
    start_limit: float  # and from then until it starts


@dataclass(frozen=True)
class Abort(Operation):
    """Give the job up before it has started everywhere."""

    job: str
    reason: str


@dataclass(frozen=True)
class Stop(Operation):
    """End the running job."""

    job: str
    reason: str


@dataclass(frozen=True)
class Watch(Operation):
    """Tell me what happens to this job from now on ("" for the newest)."""

    job: str


@dataclass(frozen=True)
class ListJobs(Operation):
    """Which jobs does this agent run or remember?"""


@dataclass(frozen=True)
class Fetch(Operation):
    """Send the files of a job ("" for the newest): its logs, and once it has ended its reports."""

    job: str


# ---- agent to submitter


@dataclass(frozen=True)
class Accepted(Operation):
    """The agent has started the job process. `host` and `unix_path` let peers on the same host take the short way."""

    job: str
    node: Node
    host: str
    unix_path: str
    version: str


@dataclass(frozen=True)
class Refused(Operation):
    """The agent does not take the job; `busy_since` is 0 unless another job holds it."""

    job: str
    node: Node
    reason: str
    busy_since: float


@dataclass(frozen=True)
class State(Operation):
    """The job of this node has reached `state`; `detail` tells why it did not end well."""

    job: str
    node: Node
    state: JobState
    detail: str


@dataclass(frozen=True)
class Progress(Operation):
    """How far the node is, 0 to 100."""

    job: str
    node: Node
    percent: Percent


@dataclass(frozen=True)
class Jobs(Operation):
    """The jobs of an agent, newest last: id, title, node, state, start (seconds since 1970)."""

    entries: list[dict[str, str | int | float]]


@dataclass(frozen=True)
class FileBegin(Operation):
    """A file follows, in chunks."""

    name: str
    size: Bytes


@dataclass(frozen=True)
class FileChunk(Operation):
    """The next bytes of the file."""

    data: bytes


@dataclass(frozen=True)
class FileEnd(Operation):
    """The file is complete; SHA-256 of its bytes, in hex."""

    sha256: Sha256


@dataclass(frozen=True)
class FetchEnd(Operation):
    """All files of the job have been sent; its state and title, and the `problem` when some could not be sent."""

    job: str
    state: JobState
    problem: str
    title: str = ""


# ---- agent to job process, and back, over their socket pair


@dataclass(frozen=True)
class Begin(Operation):
    """What a job process is told first."""

    job: str
    title: str
    node: Node
    group: list[Node]
    attempt: Attempt
    code_key: Secret
    peer_key: Secret
    prepare_limit: float
    start_limit: float
    cache: str
    code_policy: str  # any, none, or the path of a file with allowed SHA-256 sums


@dataclass(frozen=True)
class Visitor(Operation):
    """A connection for this job travels with this message: its hello, the seconds left to prove a key, its address."""

    hello: Annotated[bytes, Length(0, 1024)]
    seconds: float
    peer: str


@dataclass(frozen=True)
class Halt(Operation):
    """End the job: interrupt the executor at its next send or receive."""

    reason: str


@dataclass(frozen=True)
class Took(Operation):
    """The job process has taken one visitor."""


@dataclass(frozen=True)
class Reached(Operation):
    """The job process has reached `state`; `files` are the reports it registered, with done or failed."""

    state: RunState
    detail: str
    files: list[str]


@dataclass(frozen=True)
class Advanced(Operation):
    """The executor reports progress, 0 to 100."""

    percent: Percent


@dataclass(frozen=True)
class Audit(Operation):
    """Something for the agent's audit log: the hash of loaded code, a rejected visitor."""

    event: str
    detail: str


# ---- submitter and job process, over the code session


@dataclass(frozen=True)
class Load(Operation):
    """The code and objects of the job, and where the other nodes are: node -> [address, host, unix path]."""

    bundle: bytes
    code: bytes
    roster: dict[Node, Annotated[list[str], Length(3, 3)]]
    sources: dict[str, str]  # text of the user's modules, kept beside the results


@dataclass(frozen=True)
class Loaded(Operation):
    """The executor exists."""

    version: str


@dataclass(frozen=True)
class Asks(Operation):
    """The executor needs these resources."""

    requests: list[str]


@dataclass(frozen=True)
class Answers(Operation):
    """The resources asked for, in order."""

    contents: list[Any]


@dataclass(frozen=True)
class Prepared(Operation):
    """The executor has all it needs."""


FROM_SUBMITTER = (CanCommit, Abort, Stop, Watch, ListJobs, Fetch)
FROM_AGENT = (Accepted, Refused, State, Progress, Jobs, FileBegin, FileChunk, FileEnd, FetchEnd)
TO_JOB_PROCESS = (Begin, Visitor, Halt)
FROM_JOB_PROCESS = (Took, Reached, Advanced, Audit)
CODE_TO_JOB = (Load, Answers)
CODE_FROM_JOB = (Loaded, Asks, Prepared)
