"""Messages of jobs between submitters, agents and job processes, and their legal directions."""

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
from .protocol import Bytes, JobState, Note, Percent, RunState, Secret, Sentence, Sha256
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
MAX_MODULES = 64
Module = Annotated[str, Length(0, 256)]

# ---- submitter to agent


class CanCommit(Operation):
    """Phase one: order to take a job, with the data that the agent needs to start and admit the job process."""

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
    begin: float = 0.0  # the same from the start to the first step
    between: float = 0.0  # between steps
    save: float = 0.0  # while it saves
    driver: Annotated[str, Length(0, 96)] = (
        ""  # name of the driver that hands the job on; "" for a job that is not started again
    )
    others: list[Node] = field(default_factory=list)  # nodes of the job that are not of the group, but may call it or be called
    term: Term = 0  # of the driver's claim
    attempt_state: str = ""  # the nodes with which the attempt begins, for a driver after this one
    kernels: Annotated[str, Length(0, 32)] = ""  # of the BLAS, which all processes of the job have; "": each its own
    standstill: float = 0.0  # seconds for which a signal may stop the process until it counts as stuck; 0: for ever
    # that the job needs, for the process from which those of jobs are forked: of the executor, and of its parts
    modules: Annotated[list[Module], Length(0, MAX_MODULES)] = field(default_factory=list)


class Abort(Operation):
    """Order to give the job up before it has started everywhere."""

    job: str
    reason: str


class Stop(Operation):
    """Order to end the running job."""

    job: str
    reason: str


class StopNode(Operation):
    """Order to end one process of the running job; the others go on."""

    job: str
    node: Node
    reason: str


class Lose(Operation):
    """Notice that another node of this job is gone, although its connections may stand: no process shall wait for it."""

    job: str
    node: Node
    reason: str


class Subscribe(Operation):
    """Subscription to the events of this job from now on ("" for the newest)."""

    job: str


class ListJobs(Operation):
    """Question for the jobs that this agent runs or remembers."""


class Fetch(Operation):
    """Request for the files of a job ("" for the newest): its logs, and once it has ended its reports."""

    job: str


class Examine(Operation):
    """Request for all that is known of a job on one node, for the cause of a failure; answered as a Fetch is."""

    job: str
    node: Node


class Tail(Operation):
    """Request for the new bytes of the tables and the log of a running job on one node; `places`: the state of each file at
    the asker, as its number and the bytes. With `samples`, bytes and parts by the begin of a name, of such tables alone, and
    of each that has new bytes a sample of the whole (`files.sample`).
    """

    job: str
    node: Node
    places: dict[str, Place]
    samples: dict[str, Place] = field(default_factory=dict)


class Suspect(Operation):
    """Notice that another node of this job is late, and that within `seconds` it will be known whether it is stuck; 0: it is
    well again.
    """

    job: str
    node: Node
    seconds: float


# ---- agent to submitter


class Accepted(Operation):
    """Answer that the agent, which listens on `port`, has started the job process. `host` and `unix_path` let peers on the
    same host take the short way, if nothing stands between: if that is the port that is called.
    """

    job: str
    node: Node
    host: str
    port: int
    unix_path: str
    version: str


class Refused(Operation):
    """Answer that the agent does not take the job; `busy_since` is 0 unless it may take it later: another job holds it,
    or it leaves; `driver` says why the sender does not drive this one, if another driver does.
    """

    job: str
    node: Node
    reason: str
    busy_since: float
    driver: str = ""


class State(Operation):
    """State that the job of this node has reached; `detail` tells why it did not end well."""

    job: str
    node: Node
    state: JobState
    detail: str


class Progress(Operation):
    """Progress of the node, 0 to 100, and a note on how it stands."""

    job: str
    node: Node
    percent: Percent
    note: Note = ""


class Remark(Operation):
    """Sentence of the job process of the node on a trouble while the job goes on, such as a full disk, or that it is `over`."""

    job: str
    node: Node
    text: Sentence
    over: bool = False


class Jobs(Operation):
    """Jobs of an agent, newest last: id, title, node, state, start (seconds since 1970), nodes of the attempt, names of the
    newest files that the job keeps there, such as its checkpoints, and more.
    """

    entries: list[dict[str, str | int | float | list[int] | list[str]]]


class FileBegin(Operation):
    """Begin of a file, which follows in chunks."""

    name: str
    size: Bytes


class FileChunk(Operation):
    """Next bytes of the file."""

    data: bytes


class FileEnd(Operation):
    """End of a file, which is complete; SHA-256 of its bytes, in hex."""

    sha256: Sha256


class FetchEnd(Operation):
    """End of all files of the job; its state and title, and the `problem` when some could not be sent."""

    job: str
    state: JobState
    problem: str
    title: str = ""


class Tailed(Operation):
    """Answer to a `Tail`: of each file with new bytes its number, the place of the first, and the bytes; a sample stands for
    all up to its end. A file that begins again has another number.
    """

    job: str
    node: Node
    places: dict[str, Place]
    data: dict[str, bytes]


# ---- agent to job process, and back, over their socket pair; the agent passes on notices of other nodes


class Begin(Operation):
    """First message to a job process."""

    job: str
    title: str
    node: Node
    group: list[Node]
    attempt: Attempt
    code_key: Secret
    peer_keys: dict[Node, Secret]  # those that it shares with each other node of the job, and with no third one
    prepare_limit: float
    start_limit: float
    cache: str
    code_policy: str  # any, none, or the path of a file with allowed SHA-256 sums


class Visitor(Operation):
    """Connection for this job, which travels with this message: its hello, the seconds left to prove a key, its address. Of
    a peer also the key that it has to prove, and the node that holds that besides us; of others `key` is empty.
    """

    hello: Annotated[bytes, Length(0, 1024)]
    seconds: float
    peer: str
    caller: Node = 0
    key: Annotated[bytes, Length(0, 32)] = b""


class Halt(Operation):
    """Order to end the job: interrupt the executor at its next send or receive."""

    reason: str


class Took(Operation):
    """Notice that the job process has taken one visitor."""


class Reached(Operation):
    """State that the job process has reached; `files` are the reports it registered, with done or failed."""

    state: RunState
    detail: str
    files: list[str]
    exit_code: ExitCode = -1  # argument of the executor's sys.exit; -1: it has not called it


class Advanced(Operation):
    """Progress that the executor reports, 0 to 100, and how it stands."""

    percent: Percent
    note: Note = ""


class Warned(Operation):
    """Sentence for the submitter on a trouble at this node while the job goes on, or that it is `over`."""

    text: Sentence
    over: bool = False


class SecurityEvent(Operation):
    """Event for the agent's audit log: the hash of loaded code, a rejected visitor."""

    event: Annotated[str, ("code loaded", "turned away", "refused")]
    detail: str


# ---- submitter and job process, over the code session


class Load(Operation):
    """Code and objects of the job, and where the other nodes are: node -> [address, host, unix path]."""

    bundle: bytes
    code: bytes
    roster: dict[Node, Annotated[list[str], Length(3, 3)]]
    sources: dict[str, str]  # text of the user's modules, kept beside the results


class Loaded(Operation):
    """Notice that the executor exists."""

    version: str


class Asks(Operation):
    """Request of the executor for these resources."""

    requests: list[str]


class Answers(Operation):
    """Answers to the executor's requests, in order; `packages`: the executor gets each as a `ReplyPackage`."""

    contents: list[Any]
    packages: bool = False


class Prepared(Operation):
    """Notice that the executor has all it needs."""


class DoCommit(Operation):
    """Order to meet, and start: all executors of the group have all they need. Before this none starts, after it no limit of
    preCommit is judged any more.
    """


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
FROM_AGENT = (
    Accepted,
    Refused,
    State,
    Progress,
    Remark,
    Heartbeat,
    Notice,
    Verdict,
    Jobs,
    Tailed,
    *FILES,
    *TO_DRIVER,
    *TO_DOCTOR,
)
TO_JOB_PROCESS = (Begin, Visitor, Halt, Lose, Suspect)
FROM_JOB_PROCESS = (Took, Reached, Advanced, Warned, SecurityEvent)
CODE_TO_JOB = (Load, Answers, DoCommit)
CODE_FROM_JOB = (Loaded, Asks, Prepared)
