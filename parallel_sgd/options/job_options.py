"""Options of `parallel()`, each stated once: type and default as a field of `JobOptions`, where editors and type
checkers read them, and above it meaning, check, and flag.

All else comes from the fields: the signature and the docstring of `parallel()`, the arguments of `psgd submit`, the entries of
`job.toml`, the options that travel to the nodes of a job, and docs/options.md.

To add one, write a field, the arguments of `about`, and a line in the docstring of `JobOptions`, which editors show: the name
and the beginning of the text, up to its first comma, colon, semicolon, bracket or full stop. The signature that editors show
has a limit in tests/parallel_sgd/test_editor.py: a long type gets a name, as `CodecChoice`. It is plain data that all nodes
have, unless it says `CODE` (an object goes with its code) or `HERE` (it stays with the submitter). Checks are those of
`checks`. The group of its flag says whether it has a part in the bits of the result: `training` and `data` do, others do not.
A value that is no number, text or switch takes one of the forms of `forms`, which reads it from the command line, and writes
and reads `job.toml`. Code that acts on the option reads `plan.options.<name>`: in a worker `TrainingProcess`, or the parts
that `worker.build_worker` builds besides; at the submitter it is `spec.options.<name>`.

docs/options.md is written by `python -m tests.parallel_sgd.test_options`. An option that is no switch needs a row in two tests:
`NONSENSE` in tests/parallel_sgd/test_options.py has values to be refused, `VALUES` in
tests/parallel_sgd/record/test_round_trip.py those that a flag takes. A test of its effect stands where its code is tested.
"""

from __future__ import annotations

from collections.abc import Callable, Hashable, Iterable, Iterator, Mapping, Sequence
from dataclasses import KW_ONLY, dataclass, replace
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final, Literal, TypeAlias, cast

from network.nodes import NodeAssignment
from nn.callback import Callback
from nn.gradient_descent import ADAMOptimizer
from nn.gradient_descent.interface import IGradientDescent
from nn.model.class_weights import ClassWeight
from nn.optimizer import IOptimizer, PSGDOptimizer
from rpc import limits, submit
from rpc.job import BITS

from ..batch_sync.sync.interface import ISyncType, SyncChoice, SyncSetting
from ..batch_sync.sync.synchronized import SynchronizedSGD
from ..checkpoint.schedule import AUTO, Every, checked_commits, checked_every
from ..codec.choice import CodecArgument
from ..profiles.blockassignment.abstract import ISetting
from ..profiles.blockassignment.assignments import IIDBlockAssignment
from ..record.bounds import bounded
from . import checks as check
from .fields import CODE, HERE, Option, Options, about, described, flag, known

if TYPE_CHECKING:  # no worker without faults loads it
    from network.faults import FaultPlan

    from ..federated.clients import Clients
    from ..record.keys import SigningKey
    from .named_parts import AssignmentName, CodecName, OptimizerName, RuleName, SyncName

    # short, for the signature that editors show
    AssignmentChoice: TypeAlias = "AssignmentType | AssignmentName"
    CodecChoice: TypeAlias = CodecArgument | CodecName
    OptimizerChoice: TypeAlias = type[IOptimizer] | OptimizerName
    RuleChoice: TypeAlias = type[IGradientDescent] | RuleName

AssignmentType = Callable[[int, int], ISetting]
Discovery: TypeAlias = str | Path | Callable[[], Iterable[str]]
LOCAL_NODES: Final = "nodes=local_workers(N)"
NODES: Final = "from parallel_sgd.local_workers(2), in_process(2) or parse_worker()"
NODES_OF_A_FILE: Final = "nodes=parse_worker(N, filename=FILE)"
OF_THE_JOB: Final = "ParallelSGD(model, data)"
OF_THE_MODEL: Final = "model.setup(loss, metrics)"
RATE: Final = "gd_params=(0.01,)"
MEANT: Final = {
    **dict.fromkeys(("learn_rate", "learning_rate", "lr"), RATE),
    **dict.fromkeys(("batch", "batch_size", "bs", "minibatch_size", "per_device_train_batch_size"), "block_size"),
    **dict.fromkeys(("max_epochs", "n_epochs", "num_epochs", "num_train_epochs"), "epoch"),
    **dict.fromkeys(("optimizer", "rule"), "gd_type"),
    **dict.fromkeys(("random_seed", "random_state"), "seed"),
    **dict.fromkeys(("n_threads", "num_threads", "threads"), "blas_threads"),
    **dict.fromkeys(("resume_from", "resume_from_checkpoint"), "resume"),
    "name": "job_title",
    # of MPI, Horovod, torchrun, Accelerate, Dask and scikit-learn
    **dict.fromkeys(
        ("n_jobs", "n_workers", "np", "nproc", "nproc_per_node", "num_proc", "num_processes", "num_workers", "processes",
         "ranks", "workers", "workers_count", "world_size"),
        LOCAL_NODES,
    ),
    **dict.fromkeys(("host", "hostfile", "hosts", "machinefile", "machines", "nodefile", "node_file"), NODES_OF_A_FILE),
    **dict.fromkeys(("data", "dataset", "model", "train_data", "training_data"), OF_THE_JOB),
    **dict.fromkeys(("loss", "metric", "metrics"), OF_THE_MODEL),
}  # fmt: skip
"""Names of an option in other libraries and programs, on the command line and in `nn.sklearn`, with what `parallel()` has."""
ON_CPUS: Final = ("accelerator", "device", "devices", "gpu", "gpus", "use_gpu")
"""Arguments of other libraries that ask for a GPU."""


@dataclass(frozen=True)
@described(
    nodes=about(
        "where it trains: from `parse_worker`, `local_workers`, `in_process` or `simulated`.",
        check.instance(NodeAssignment, f", {NODES}"),
        travels=HERE,
    ),
    redundancy=about(
        "workers per block.",
        flag=flag("--redundancy", "training", "workers that compute each block", type=int),
    ),
    block_size=about("samples per block.", check.positive, flag("--batch-size --block-size", "training", type=int)),
    epoch=about(
        "passes over data (`epochs` is another name for it).",
        check.positive,
        flag("--epochs", "training", "passes over the training set", type=int),
    ),
    assignment_type=about(
        "deals the blocks: a class, its word such as 'iid', or a callable (node_count, redundancy).",
        flag=flag("--block-assignment", "training", "{forms}, or module.Class", "assignment"),
        travels=HERE,
    ),
    sync_type=about(
        "when a result is ready: `SynchronizedSGD` ('ssgd'), `AsynchronizedSGD` ('asgd'), `StaleSynchronous(s)` "
        "('stale:2'), `FirstK(k)` ('first:3'), which takes the blocks of the first k workers, or your own.",
        check.subclass(ISyncType, SyncSetting),
        flag("--psgd --sync-type", "training", "how workers wait: {forms}, or module.Class", "sync"),
        CODE,
    ),
    op_type=about(
        "what is exchanged: a class, or its word such as 'psgd'.",
        check.subclass(IOptimizer),
        flag("--optimizer --op-type", "training", "what is exchanged (default: psgd, raw gradients)", "optimizer"),
        CODE,
    ),
    gd_type=about(
        "gradient descent rule: a class or its word such as 'adam', made with `gd_params`.",
        check.subclass(IGradientDescent),
        flag("--gradient-descent", "training", "the gradient-descent rule", "rule"),
        CODE,
    ),
    codec=about(
        "how values travel: a codec class for all variables, or its word such as 'topk', a `SizeAdaptive`, or a dict of these "
        "by variable id, "
        'variable name ("dense_1/kernel") or layer name ("dense_1"); default `Plain`, with a parameter server `SyncPS`, for '
        "more than 8 workers `Ring` with the bits of `Plain`, for fewer where the model is large "
        "([how many](../parallel_sgd/codec/README.md#where-none-is-named)).",
        flag=flag(
            "--codec",
            "training",
            "what is sent, to whom, how it is merged: plain, or module.Class, file.py:Class",
            "codec",
        ),
        travels=CODE,
    ),
    gd_params=about(
        "arguments of the rule: a tuple, the learning rate first, or a dict.",
        flag=flag("--gd-params", "training", "parameters of the rule after the learning rate", "parameters"),
        travels=CODE,
    ),
    ps_codec=about(
        "server's codec, as `codec`; default the workers' own where that serves, else `SyncPS`.",
        flag=flag("--server-codec", "training", "the codec on the parameter server", "codec", metavar="CODEC"),
        travels=CODE,
    ),
    network_bandwidth=about(
        "bytes per second, which set the limit of preCommit.",
        check.number(0, open_low=True),
        flag("--network-bandwidth", "training", type=float, metavar="BYTES_PER_S"),
    ),
    mission_title=about(
        "run's name, in file names (`job_title` is another name for it).",
        check.title,
        flag("--title", "output", "part of the names of the result files"),
    ),
    ssgd_timeout_limit=about(
        "longest wait, in ms, for a result, which is rescued or given up then, unless a worker says that it still computes.",
        check.number(0, open_low=True),
        flag("--ssgd-timeout", "training", type=float, metavar="MS"),
    ),
    codec_extra_parameters=about(
        "for codecs: what `GlobalSettings.get_params` returns, by any hashable key; the values are plain data. A parameter "
        "that no codec reads is refused where their code tells what they read (that of all that ship does), else a warning "
        "names it at the end.",
        check.parameters,
        flag("--codec-params", "training", "for the codecs, which say what they read; repeatable", "pairs"),
        HERE,
    ),  # keys and values go apart: these are data, those may be objects
    job_title=about("`mission_title`, by another name.", travels=HERE),
    epochs=about("`epoch`, by another name.", travels=HERE),
    seed=about(
        "of every draw; weights are never drawn anew.",
        check.seed,
        flag("--seed", "training", "of every random draw", type=int),
    ),
    wait=about(
        "seconds for busy nodes.",
        check.number(0),
        flag("--wait", "nodes", "wait this long for busy workers", type=float, metavar="SECONDS"),
        HERE,
    ),
    blas_threads=about(
        "BLAS threads: of a worker, or 'auto' for the cores that it may use, divided by the jobs that share them.",
        check.threads,
        flag("--blas-threads", "training", "per worker, or auto", "threads", default="1"),
    ),
    bits=about(
        "BLAS kernels: 'portable', the same bits on every x86 CPU with AVX2, on one thread and without NumPy's functions for "
        "AVX-512; 'SkylakeX', 'Haswell': these kernels. A node that cannot have them is refused. By default the first of "
        "SkylakeX, Haswell that all nodes have.",
        check.bits,
        flag(
            "--bits",
            "training",
            "portable: the same bits on every x86 CPU with AVX2; or a set of BLAS kernels (default: the first that all have)",
            choices=BITS,
        ),
    ),
    on_failure=about(
        "when a node dies, or is stuck: 'fail' (default), 'redundant' (others that hold its blocks carry on; "
        "the default where assignment and codecs allow it), 'restart' (all start again where they were), 'wait' (likewise, "
        "waiting for a node that is gone), 'shrink' (likewise, without the nodes that failed).",
        flag=flag(
            "--on-failure",
            "faults",
            "what follows when a node dies (default: fail, or redundant where that works)",
            choices=submit.POLICIES,
        ),
    ),
    max_restarts=about(
        "most restarts; one failure more ends the job.",
        lambda _, value: submit.Recovery(submit.FAIL, value).max_restarts,
        flag("--max-restarts", "faults", "restarts after which the job fails", type=int),
    ),
    stall_timeout=about(
        "seconds until stuck: those in one batch after which a node that neither ends it nor waits for others counts as "
        "stuck; by default 10 s or 20 times its median step, whichever is longer.",
        check.optional(check.number(limits.LEAST_SILENCE, limits.MOST_SECONDS)),
        flag(
            "--stall-timeout",
            "faults",
            "who takes longer for a batch is stuck (default: adapts)",
            type=float,
            metavar="SECONDS",
        ),
    ),
    min_workers=about(
        "fewest left: with 'shrink' the job fails below this number; default 1.",
        flag=flag("--min-workers", "faults", "with --on-failure shrink: fewest that go on (default: 1)", type=int, metavar="N"),
    ),
    max_workers=about(
        "most to grow to, with `discovery`; default the number of `nodes`.",
        flag=flag("--max-workers", "faults", "with --discovery: most that the job may grow to", type=int, metavar="N"),
    ),
    discovery=about(
        "new workers, while the job runs: the path of a script that prints `host[:port] [slots=n]` for each "
        "host, a function that returns such lines, or the path of a worker.json or of a folder in which agents register "
        "that is watched. `nodes` then says how many to begin with, and where the parameter server is.",
        flag=flag(
            "--discovery",
            "faults",
            "a script that prints 'host[:port] [slots=n]' lines, a worker.json or a folder of --rendezvous to watch, or "
            "the word launcher for what --launch finds",
            "path",
            metavar="FILE",
        ),
        travels=HERE,
    ),
    fault=about(
        "planned fault, for tests and lectures: 'kill 1@e1.b3; stop 2@e1.b5 for 4s; +500ms 0>1' has worker 1 die at "
        "the third batch of the first epoch, and so on (`network.faults.FaultPlan`); `seed` is that of the job.",
        check.fault,
        flag("--fault", "faults", "what shall go wrong, as 'kill 1@e1.b3; +500ms 0>1'", "text", metavar="PLAN"),
    ),
    checkpoint_every=about(
        "when to save, on each node: 'epoch', a number of batches, seconds as in '30s', or None; by default every "
        "epoch where `on_failure` starts again and on local workers, else never.",
        lambda _, value: value if isinstance(value, str) and value == AUTO else checked_every(value),
        flag(
            "--checkpoint-every",
            "faults",
            "epoch, a number of batches, seconds as in 30s, or off (default: epoch where --on-failure starts again and "
            "with --local, else off)",
            "every",
            metavar="WHEN",
        ),
    ),
    keep_every=about(
        "epochs to keep: after each so many there is a checkpoint that stays, for `psgd verify` to begin at the nearest.",
        check.optional(check.kept),
        flag(
            "--keep-every",
            "faults",
            "a checkpoint stays after each so many, for psgd verify",
            "stays",
            type=int,
            metavar="EPOCHS",
        ),
    ),
    commit_every=about(
        "batches per commit: after so many each worker commits what survivors go on from. Where all have the same state, "
        "every applied batch is a commit, at no cost, whatever is given. Where each has one of its own (error feedback, local "
        "updates, asynchronous types) and `on_failure` starts again, a copy is made in memory so often; with a "
        "parameter server that remembers, checkpoints are the only commits.",
        lambda _, value: checked_commits(value),
        flag("--commit-every", "faults", "how often a worker copies a state that no other has", type=int, metavar="BATCHES"),
    ),
    resume=about(
        "earlier run, from which to go on, up to `epoch` epochs in all: 'last', the newest run in `directory`; a job id; or "
        "the name or the path of a run, of the folder of a node in it, of a checkpoint or of a folder of them.",
        flag=flag(
            "--resume",
            "training",
            "go on, up to --epochs: the newest run here, an ended job, or the path of a run or a checkpoint",
            "left out",
            metavar="last|JOB|PATH",
        ),
        travels=HERE,
    ),
    directory=about(
        "where runs go: into the folder `runs/<title>-<number>/`, with a `Node-<i>-Retrieve` for each node; links of "
        "that name, and `runs/latest`, lead to the newest.",
        check.directory,
        travels=HERE,
    ),
    shuffle=about(
        "new order each epoch: whether every epoch deals the samples in an order of its own, keyed by (seed, epoch); else all "
        "deal them in the order that `data` and `transform` give. After transforms such as `Dirichlet`, whose order says which "
        "block gets what, a sample stays in its block. What does not fill a batch makes a last, shorter one.",
        check.switch,
        flag(
            "--no-shuffle",
            "data",
            "deal the samples in the same order in every epoch (default: a new one in each)",
            action="store_false",
        ),
    ),
    verbose=about(
        "how much is shown: 0 shows warnings and errors only; 1 a line per epoch, faults, the time, report and model, "
        "on the agents of a worker.json the story of the job and its progress instead; 2 all of it. What an application's own "
        "logging shows is up to that.",
        travels=HERE,
    ),
    page=about(
        "live page: whether a page shows the run while it goes on, at an address of this machine that the log tells: "
        "progress, loss, who waits for whom. Needs the extra `page`.",
        check.page,
        flag("--page", "output", "show the run on a page while it goes on (default: no)", action="store_true"),
        travels=HERE,
    ),
    clients=about(
        "federated learning: a `Clients(100, sample=10)`, or its text; then a batch is a round, in which a sample of the "
        "clients trains, and `block_size`, `gd_type` and `gd_params` are those of a client's steps "
        "([clients](clients.md)).",
        check.clients,
        flag(
            "--clients",
            "training",
            "a population of clients, of which each round trains a sample: count=100,sample=10,split=dirichlet:alpha=0.3",
            "clients",
            metavar="KEY=VALUE,..",
        ),
        CODE,
    ),
    class_weight=about(
        "loss by class: {class: weight} multiplies the losses of the training samples of a class, as in `Model.fit`; those "
        "that it leaves out have 1. A class is a number, or a name that the data set gives it. 'balanced' weighs each class by "
        "the inverse of its share. Evaluations are not weighted.",
        check.weights,
        flag(
            "--class-weight",
            "training",
            "multiplies the losses of the samples of a class (default: 1 each)",
            "weights",
            metavar="CLASS=WEIGHT,..",
        ),
    ),
    callbacks=about(
        "after each epoch: those of `nn.callback`, or your own `on_epoch_end(epoch, logs)`: on every worker, with the results "
        "of the evaluation (`val_Loss`, `val_accuracy`), which all have alike, so that all decide alike. Their files go into "
        "the folder of each node. Where each worker trains a model of its own they are refused.",
        check.callbacks,
        flag(
            "--callback",
            "training",
            "what is done after each epoch: EarlyStopping:patience=3, ReduceOnPlateau:factor=0.5, "
            "ModelCheckpoint:path=best.model,save_best_only=true, or module:Class, file.py:Class; repeatable",
            "callbacks",
        ),
        CODE,
    ),
    writers=about(
        "get the figures: those of `parallel_sgd.writers` (`TensorBoardWriter`, `MLflowWriter`), others with `start(config)`, "
        "`log(step, values)` and `finish(status)`, or modules of the shape of `wandb`. They stay with the submitter, and get "
        "the figures of every batch and epoch while the job runs. One that fails is told once.",
        check.writers,
        flag(
            "--writer",
            "output",
            "who gets the figures of the job: tensorboard:directory=tb, mlflow:tracking_uri=sqlite:///runs.db, or "
            "module:Class, file.py:Class; repeatable",
            "writers",
        ),
        HERE,
    ),
    keep_data=about(
        "MiB to keep: samples of up to so many stay in the folder of the run, as `data.npz`, where they are arrays or frames "
        "of the program, so that `psgd run` and `psgd verify` can repeat the run; 0 keeps none.",
        check.number(0),
        flag(
            "--keep-data",
            "output",
            "keep up to so many MiB of samples in the run, where they are arrays of a program; 0 keeps none",
            type=float,
            metavar="MIB",
        ),
        HERE,
    ),
    sign=about(
        "private key: its path (elliptic curve, PEM) with which the run is signed at its end, as `psgd sign` does. Needs "
        "the extra `sign`.",
        check.optional(check.signing_key),
        flag(
            "--sign",
            "output",
            "sign the run at its end with this private key (PEM); needs the extra sign (default: no)",
            "left out",
            metavar="KEY",
        ),
        HERE,
    ),
)
class JobOptions(Options):
    """All of it: docs/options.md.

    nodes: where it trains
    redundancy: workers per block
    block_size: samples per block
    epoch: passes over data
    assignment_type: deals the blocks
    sync_type: when a result is ready
    op_type: what is exchanged
    gd_type: gradient descent rule
    codec: how values travel
    gd_params: arguments of the rule
    ps_codec: server's codec
    network_bandwidth: bytes per second
    mission_title: run's name
    ssgd_timeout_limit: longest wait
    codec_extra_parameters: for codecs
    job_title: mission_title
    epochs: epoch
    seed: of every draw
    wait: seconds for busy nodes
    blas_threads: BLAS threads
    bits: BLAS kernels
    on_failure: when a node dies
    max_restarts: most restarts
    stall_timeout: seconds until stuck
    min_workers: fewest left
    max_workers: most to grow to
    discovery: new workers
    fault: planned fault
    checkpoint_every: when to save
    keep_every: epochs to keep
    commit_every: batches per commit
    resume: earlier run
    directory: where runs go
    shuffle: new order each epoch
    verbose: how much is shown
    page: live page
    clients: federated learning
    class_weight: loss by class
    callbacks: after each epoch
    writers: get the figures
    keep_data: MiB to keep
    sign: private key
    """

    nodes: NodeAssignment
    redundancy: int = 1
    block_size: int = 64
    epoch: int = 10
    assignment_type: AssignmentChoice = IIDBlockAssignment
    sync_type: SyncChoice | SyncName = SynchronizedSGD
    op_type: OptimizerChoice = PSGDOptimizer
    gd_type: RuleChoice = ADAMOptimizer
    codec: CodecChoice = None
    gd_params: tuple[Any, ...] | Mapping[str, Any] = ()
    ps_codec: CodecChoice = None
    network_bandwidth: float = 1048576
    mission_title: str = "P-SGD"
    ssgd_timeout_limit: float = 10000
    codec_extra_parameters: Mapping[Hashable, Any] | None = None
    _: KW_ONLY
    job_title: str | None = None
    epochs: int | None = None
    seed: int = 0
    wait: float = 0.0
    blas_threads: int | Literal["auto"] = 1
    bits: Literal["portable", "SkylakeX", "Haswell"] | None = None
    on_failure: submit.Policy | None = None
    max_restarts: int = 3
    stall_timeout: float | None = None
    min_workers: int | None = None
    max_workers: int | None = None
    discovery: Discovery | None = None
    fault: str | FaultPlan = ""
    checkpoint_every: Every = "auto"
    keep_every: int | None = None
    commit_every: int = 1
    resume: Literal["last"] | str | Path | None = None
    directory: str | Path = "."
    shuffle: bool = True
    verbose: int = 1
    page: bool = False
    clients: Clients | str | None = None
    class_weight: ClassWeight = None
    callbacks: Sequence[Callback] = ()
    writers: Sequence[Any] = ()
    keep_data: float = 64
    sign: str | Path | SigningKey | None = None

    @property
    def thread_count(self) -> int:
        """BLAS threads of each worker; 0 for its part of the cores of its host."""
        return 0 if isinstance(self.blas_threads, str) else self.blas_threads

    def checked(self) -> PlainOptions:
        """Return these options, each in its plain form; checks that need other options, or the model, are left to
        `make_spec.make_spec`.

        Raises: ValueError or TypeError naming the option, the expectation and the value.
        """
        title = self.mission_title if self.job_title is None else self.job_title
        epoch = self.epoch if self.epochs is None else self.epochs
        # the other names are None from here on, so that no code can read a stale one
        given = replace(self, job_title=None, mission_title=title, epochs=None, epoch=epoch)
        # errors call an option as the program does
        called = {"epoch": "epoch" if self.epochs is None else "epochs"}
        called["mission_title"] = "mission_title" if self.job_title is None else "job_title"
        checked = {name: about.check(called.get(name, name), getattr(given, name)) for name, about in options()}
        for name, value in checked.items():
            # bounds of a job file hold for programs, too: else `psgd verify` could not read what was trained
            if isinstance(value, (int, float)) and value > 0:  # a number that is too small has a sentence of its own
                bounded(f"options.{name}", value, name)
        return cast("PlainOptions", replace(given, **checked))


# for type checkers alone: at run time the plain form is the same class
if TYPE_CHECKING:

    class PlainOptions(JobOptions):
        """Options in their plain form, in which words have become the parts that they stand for: the type that code reads."""

        assignment_type: AssignmentType
        sync_type: SyncChoice
        op_type: type[IOptimizer]
        gd_type: type[IGradientDescent]
        codec: CodecArgument
        ps_codec: CodecArgument
        clients: Clients | None
        sign: SigningKey | None

else:
    PlainOptions = JobOptions


def options() -> Iterator[tuple[str, Option]]:
    """Yield name and metadata of each option of `parallel()`, in the order of its signature."""
    return known(JobOptions)
