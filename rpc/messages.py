"""The messages of jobs: what submitters, agents and job processes say to each other, and who may say what to whom."""

from __future__ import annotations

from dataclasses import field
from typing import Annotated, Any

from .doctor.messages import FROM_DOCTOR as FROM_DOCTOR
from .doctor.messages import TO_DOCTOR as TO_DOCTOR
from .doctor.messages import AgentStatus as AgentStatus
from .doctor.messages import Inspect as Inspect
from .doctor.messages import Measure as Measure
from .doctor.messages import Measured as Measured
from .doctor.messages import Ping as Ping
from .doctor.messages import Pong as Pong
from .lease.messages import FROM_DRIVER as FROM_DRIVER
from .lease.messages import TO_DRIVER as TO_DRIVER
from .lease.messages import Agreed as Agreed
from .lease.messages import ClaimJob as ClaimJob
from .lease.messages import Conclude as Conclude
from .lease.messages import Denied as Denied
from .lease.messages import Granted as Granted
from .lease.messages import Halted as Halted
from .lease.messages import KeepManifest as KeepManifest
from .lease.messages import ManifestKept as ManifestKept
from .lease.messages import ManifestPart as ManifestPart
from .lease.messages import ProposeAttempt as ProposeAttempt
from .lease.messages import Standing as Standing
from .lease.messages import Term as Term
from .liveness.heartbeat import Heartbeat as Heartbeat
from .protocol import ANY_CODE as ANY_CODE
from .protocol import MAX_TEXT as MAX_TEXT
from .protocol import NO_CODE as NO_CODE
from .protocol import Attempt as Attempt
from .protocol import Bytes, JobState, Note, Percent, RunState, Secret, Sha256
from .protocol import Length as Length
from .protocol import Node as Node
from .protocol import Operation as Operation
from .protocol import operations as operations
from .protocol import parse as parse
from .verdict import ExitCode
from .verdict import Notice as Notice
from .verdict import Verdict as Verdict
from .verdict import in_causal_order as in_causal_order

Place = Annotated[list[Bytes], Length(2, 2)]
MAX_FILES = 256
MAX_BYTES = 1 << 30
"""Of one answer to a `Fetch`."""
MAX_MODULE_NAME = 256

# ---- submitter to agent


class CanCommit(Operation):
    """Phase one: take this job? Carries what the agent needs to start and admit the job process."""

    job: str
    title: str
    node: Node
    group: list[Node]
    attempt: Attempt
    python: str
    version: str
    blas_threads: int  # 0: the cores that the agent may use, divided by the nodes of the job that share them
    jobs_on_host: int  # nodes of the job on this host that may use a core which this agent may use
    prepare_limit: float  # seconds until the executor has all it needs
    start_limit: float  # and from then until it starts
    stall: float = 0.0  # N: seconds of silence in a step beyond which the process counts as stuck; 0 for the default, as below
    begin: float = 0.0  # likewise from the start to the first step
    between: float = 0.0  # between steps
    save: float = 0.0  # while it saves
    driver: Annotated[str, Length(0, 96)] = ""  # who drives the job and hands it on; "" for a job that nobody starts again
    others: list[Node] = field(default_factory=list)  # nodes of the job that are not of the group, but may call it or be called
    term: Term = 0  # of the driver's claim
    attempt_state: str = ""  # with whom the attempt begins, for whoever drives the job after this driver
    kernels: Annotated[str, Length(0, 32)] = ""  # of the BLAS, which all processes of the job have; "": each its own
    standstill: float = 0.0  # seconds for which a signal may stop the process until it counts as stuck; 0: for ever
    module: Annotated[str, Length(0, MAX_MODULE_NAME)] = (
        ""  # of the executor, for the process from which those of jobs are forked
    )


class Abort(Operation):
    """Give the job up before it has started everywhere."""

    job: str
    reason: str


class Stop(Operation):
    """End the running job."""

    job: str
    reason: str


class StopNode(Operation):
    """End one process of the running job; the others go on."""

    job: str
    node: Node
    reason: str


class Lose(Operation):
    """Another node of this job is gone, although its connections may stand: nobody shall wait for it."""

    job: str
    node: Node
    reason: str


class Subscribe(Operation):
    """Tell me what happens to this job from now on ("" for the newest)."""

    job: str


class ListJobs(Operation):
    """Which jobs does this agent run or remember?"""


class Fetch(Operation):
    """Send the files of a job ("" for the newest): its logs, and once it has ended its reports."""

    job: str


class Examine(Operation):
    """Send all that is known of a job on one node, for the cause of a failure; answered as a Fetch is."""

    job: str
    node: Node


class Tail(Operation):
    """Send what the tables and the log of a running job have gained on one node; `places`: what the asker has of each file, as
    its number and the bytes. With `samples`, bytes and parts by the begin of a name, of such tables alone, and of each that has
    gained something a sample of the whole (`files.sample`).
    """

    job: str
    node: Node
    places: dict[str, Place]
    samples: dict[str, Place] = field(default_factory=dict)


class Suspect(Operation):
    """Another node of this job is late, and within `seconds` it will be known whether it is stuck; 0: it is well again."""

    job: str
    node: Node
    seconds: float


# ---- agent to submitter


class Accepted(Operation):
    """The agent, which listens on `port`, has started the job process. `host` and `unix_path` let peers on the same host take
    the short way, if nobody stands between: if that is the port that is called."""

    job: str
    node: Node
    host: str
    port: int
    unix_path: str
    version: str


class Refused(Operation):
    """The agent does not take the job; `busy_since` is 0 unless another job holds it; `driver` says why the sender
    does not drive this one, if somebody else does."""

    job: str
    node: Node
    reason: str
    busy_since: float
    driver: str = ""


class State(Operation):
    """The job of this node has reached `state`; `detail` tells why it did not end well."""

    job: str
    node: Node
    state: JobState
    detail: str


class Progress(Operation):
    """How far the node is, 0 to 100, and a note on how it stands."""

    job: str
    node: Node
    percent: Percent
    note: Note = ""


class Jobs(Operation):
    """The jobs of an agent, newest last: id, title, node, state, start (seconds since 1970)."""

    entries: list[dict[str, str | int | float]]


class FileBegin(Operation):
    """A file follows, in chunks."""

    name: str
    size: Bytes


class FileChunk(Operation):
    """The next bytes of the file."""

    data: bytes


class FileEnd(Operation):
    """The file is complete; SHA-256 of its bytes, in hex."""

    sha256: Sha256


class FetchEnd(Operation):
    """All files of the job have been sent; its state and title, and the `problem` when some could not be sent."""

    job: str
    state: JobState
    problem: str
    title: str = ""


class Tailed(Operation):
    """What a `Tail` asks for: of each file that has gained something its number, from which byte on, and the bytes; a sample
    stands for all up to its end. A file that begins again has another number.
    """

    job: str
    node: Node
    places: dict[str, Place]
    data: dict[str, bytes]


# ---- agent to job process, and back, over their socket pair; the agent passes on what it is told of other nodes


class Begin(Operation):
    """What a job process is told first."""

    job: str
    title: str
    node: Node
    group: list[Node]
    attempt: Attempt
    code_key: Secret
    peer_keys: dict[Node, Secret]  # what it shares with each other node of the job, and with nobody else
    prepare_limit: float
    start_limit: float
    cache: str
    code_policy: str  # any, none, or the path of a file with allowed SHA-256 sums


class Visitor(Operation):
    """A connection for this job travels with this message: its hello, the seconds left to prove a key, its address.

    Of a peer also the key that it has to prove, and who holds that besides us; of others `key` is empty.
    """

    hello: Annotated[bytes, Length(0, 1024)]
    seconds: float
    peer: str
    caller: Node = 0
    key: Annotated[bytes, Length(0, 32)] = b""


class Halt(Operation):
    """End the job: interrupt the executor at its next send or receive."""

    reason: str


class Took(Operation):
    """The job process has taken one visitor."""


class Reached(Operation):
    """The job process has reached `state`; `files` are the reports it registered, with done or failed."""

    state: RunState
    detail: str
    files: list[str]
    exit_code: ExitCode = -1  # what the executor has called sys.exit with; -1: it has not


class Advanced(Operation):
    """The executor reports progress, 0 to 100, and how it stands."""

    percent: Percent
    note: Note = ""


class SecurityEvent(Operation):
    """Something for the agent's audit log: the hash of loaded code, a rejected visitor."""

    event: Annotated[str, ("code loaded", "turned away", "refused")]
    detail: str


# ---- submitter and job process, over the code session


class Load(Operation):
    """The code and objects of the job, and where the other nodes are: node -> [address, host, unix path]."""

    bundle: bytes
    code: bytes
    roster: dict[Node, Annotated[list[str], Length(3, 3)]]
    sources: dict[str, str]  # text of the user's modules, kept beside the results


class Loaded(Operation):
    """The executor exists."""

    version: str


class Asks(Operation):
    """The executor needs these resources."""

    requests: list[str]


class Answers(Operation):
    """The resources asked for, in order; `packages`: the executor gets each as a `ReplyPackage`."""

    contents: list[Any]
    packages: bool = False


class Prepared(Operation):
    """The executor has all it needs."""


class DoCommit(Operation):
    """All executors of the group have all they need: meet, and start. Before this none starts, after it no limit of preCommit
    is judged any more."""


FROM_SUBMITTER = (
    CanCommit,
    Abort,
    Stop,
    StopNode,
    Lose,
    Suspect,
    Subscribe,
    ListJobs,
    Fetch,
    Examine,
    Tail,
    *FROM_DRIVER,
    *FROM_DOCTOR,
)
FILES = (FileBegin, FileChunk, FileEnd, FetchEnd)
FROM_AGENT = (Accepted, Refused, State, Progress, Heartbeat, Notice, Verdict, Jobs, Tailed, *FILES, *TO_DRIVER, *TO_DOCTOR)
TO_JOB_PROCESS = (Begin, Visitor, Halt, Lose, Suspect)
FROM_JOB_PROCESS = (Took, Reached, Advanced, SecurityEvent)
CODE_TO_JOB = (Load, Answers, DoCommit)
CODE_FROM_JOB = (Loaded, Asks, Prepared)
