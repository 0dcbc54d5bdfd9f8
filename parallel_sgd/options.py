"""What a job is: the arguments of `parallel()`, checked before anything is sent, in the parts that travel."""

from __future__ import annotations

import inspect
from collections.abc import Callable, Hashable, Mapping, Sequence
from dataclasses import dataclass
from numbers import Integral
from pathlib import Path
from typing import Any

from network.faults.plan import FaultPlan
from network.values import encode
from nn import arguments
from nn.dataset import ArrayDataset
from nn.dataset.interface import AbsDataset
from nn.dataset.transforms.abstract import AbsTransformer
from nn.gradient_descent.interface import IGradientDescent
from nn.model import Model
from nn.optimizer import IOptimizer, OpContainer
from nn.registry import custom_classes
from rpc import limits
from rpc.elastic import Discovery, discovery_of
from rpc.files import is_safe_name
from rpc.shipping import pack
from rpc.submit import AGAIN, FAIL, REDUNDANT, SHRINK, Recovery, checked_policy, run_name

from .batch_sync import ISyncType, StaleSynchronous, SyncChoice
from .batches import FIXED, SHUFFLED, SHUFFLED_IN_BLOCKS
from .channel import Parameter_Server
from .checkpoint.keeper import keeps_state
from .checkpoint.resume import Resume, ResumePoint, checked_resume
from .checkpoint.schedule import AUTO, EPOCH, NEVER, Every, checked_commits, checked_every
from .codec.choice import CodecArgument, CodecChoice, by_size, choose_codecs, shown
from .codec.interfaces import Codec
from .codec.parameter_server import SyncPS
from .codec.plain import Plain
from .compatibility import check_parts
from .ledger import Grid
from .plan import WorkerPlan, server_codecs
from .profiles.interface import ISetting
from .report import check_title

AssignmentType = Callable[[int, int], ISetting]


@dataclass(frozen=True)
class JobSpec:
    """A checked job; `plan` is what all workers agree on."""

    plan: WorkerPlan
    model: Model
    data: AbsDataset
    transform: AbsTransformer | None
    title: str
    server_codec: CodecChoice
    bandwidth: float
    blas_threads: int
    on_failure: str
    max_restarts: int
    stall_timeout: float
    min_workers: int
    fault: FaultPlan
    max_workers: int | None
    discovery: Discovery | None
    server_keeps: bool
    resume: ResumePoint | None
    is_local: bool

    def grid(self, batches: int) -> Grid:
        """What the job has to apply, with so many batches to an epoch; a transform decides on that."""
        assignment = self.plan.assignment
        return Grid(self.plan.epochs, batches, assignment.block_count, assignment.redundancy, self.resume is not None)

    def codecs(self) -> list[type[Codec]]:
        """All codec classes of the job."""
        chosen = [kinds.values() if isinstance(kinds, Mapping) else [kinds] for kinds in (self.plan.codec, self.server_codec)]
        return [self.plan.default_codec, *(kind for kinds in chosen for kind in kinds if kind is not None)]

    def shipped(self) -> dict[str, Any]:
        """The objects that need code: built-in ones go by name and configuration, a user's own with their code."""
        plan = self.plan
        return {
            "assignment": plan.assignment,
            "optimizer": plan.optimizer,
            "codec": plan.codec,
            "default_codec": plan.default_codec,
            "sync_type": plan.sync_type,
            "server_codec": self.server_codec,
            "codec_parameters": list(plan.codec_parameters),  # the keys, which may be of the user's classes
            "transform": self.transform,
            "dataset": self._dataset_recipe(),
            "custom_objects": custom_classes(
                self.model, self.model.loss, *self.model.metrics, self.model.rule, self.model.op_type
            ),
        }

    def _dataset_recipe(self) -> tuple[type[AbsDataset], dict[str, Any]] | None:
        """How a worker can make the data set by itself; None where only the samples describe it."""
        kind = type(self.data)
        built_in = kind.__module__.startswith("nn.dataset.") and kind is not ArrayDataset
        return (kind, self.data.get_config()) if built_in else None


def make_spec(
    model: Model,
    data: AbsDataset,
    transform: AbsTransformer | None,
    worker_count: int,
    has_server: bool,
    *,
    redundancy: int,
    block_size: int,
    epoch: int,
    assignment_type: AssignmentType,
    sync_type: SyncChoice,
    op_type: type[IOptimizer],
    gd_type: type[IGradientDescent],
    codec: CodecArgument,
    gd_params: tuple[Any, ...] | Mapping[str, Any],
    ps_codec: CodecArgument,
    network_bandwidth: float,
    mission_title: str,
    ssgd_timeout_limit: float,
    codec_extra_parameters: Mapping[Hashable, Any] | None,
    seed: int,
    blas_threads: int | str,
    on_failure: str | None,
    max_restarts: int,
    stall_timeout: float | None,
    min_workers: int | None,
    fault: str | FaultPlan,
    max_workers: int | None,
    discovery: object,
    checkpoint_every: Every,
    commit_every: int,
    resume: Resume,
    directory: Path,
    is_local: bool,
    shuffle: bool,
    class_weight: Mapping[int, float] | None,
) -> JobSpec:
    """Check every argument of `parallel()`; `is_local`: its nodes are workers of this program whose checkpoints outlive them.

    Raises: ValueError or TypeError naming the argument, the expectation and what came.
    """
    if not isinstance(sync_type, StaleSynchronous):
        _check_class("sync_type", sync_type, ISyncType)
    _check_class("op_type", op_type, IOptimizer)
    _check_class("gd_type", gd_type, IGradientDescent)
    if isinstance(seed, bool) or not isinstance(seed, int) or not 0 <= seed < 1 << 63:
        raise ValueError(f"'seed' must be an integer from 0 to 2^63 - 1, got {seed!r}")
    assignment = _assign(assignment_type, worker_count, redundancy)
    names = [variable.name for variable in model.trainable_variables()]
    sizes = [variable.value.size for variable in model.trainable_variables()]
    chosen, server_codec = by_size(codec, names, sizes), by_size(ps_codec, names, sizes, "ps_codec")
    kinds = choose_codecs(chosen, _default_codec(has_server), len(names))
    choose_codecs(server_codec, Plain, len(names), "ps_codec")
    if ps_codec is not None and not has_server:
        raise ValueError("'ps_codec' needs a parameter server among the nodes: parse_worker(n, ps=True)")
    container = OpContainer(op_type, gd_type, gd_params)
    container.rule()
    found = None if discovery is None else discovery_of(discovery)
    policy = _policy(SHRINK if on_failure is None and found is not None else on_failure, assignment, kinds)
    if found is not None and policy != SHRINK:
        raise ValueError(f"'discovery' finds other nodes, so 'on_failure' can only be 'shrink', got {policy!r}")
    commits = checked_commits(commit_every)
    plan = WorkerPlan(
        assignment,
        block_size,
        epoch,
        seed,
        container,
        chosen,
        _default_codec(has_server),
        _checked_parameters(codec_extra_parameters),
        sync_type,
        arguments.number("parallel()", "ssgd_timeout_limit", ssgd_timeout_limit, 0, open_low=True),
        checkpoint_every=checked_every(_default_every(policy, is_local) if checkpoint_every == AUTO else checkpoint_every),
        commit_every=commits if policy in AGAIN else NEVER,
        order=_order(shuffle, transform),
        class_weight=_weights(class_weight),
    )
    check_parts(plan, model, has_server, server_codec)
    buffers = bool(model.store.buffers)
    server_keeps = has_server and keeps_state(server_codecs(plan, server_codec, len(names), buffers))
    return JobSpec(
        plan,
        model,
        data,
        transform,
        _checked_title(mission_title),
        server_codec,
        arguments.number("parallel()", "network_bandwidth", network_bandwidth, 0, open_low=True),
        _threads(blas_threads),
        policy,
        Recovery(FAIL, max_restarts).max_restarts,
        _stall(stall_timeout),
        _fewest(min_workers, worker_count, policy),
        _faults(fault, [*assignment.nodes, *([Parameter_Server] if has_server else [])]),
        _most(max_workers, assignment, found),
        found,
        server_keeps,
        checked_resume(resume, model, assignment.nodes, Parameter_Server if server_keeps else None, directory),
        is_local,
    )


def _check_class(name: str, value: object, base: type[Any]) -> None:
    if not (inspect.isclass(value) and issubclass(value, base)) or inspect.isabstract(value):
        raise TypeError(f"'{name}' must be a complete class derived from {base.__name__}, got {shown(value)}")


def _assign(assignment_type: AssignmentType, worker_count: int, redundancy: int) -> ISetting:
    if inspect.isabstract(assignment_type):
        raise TypeError(f"'assignment_type' must be a complete class derived from ISetting, got {shown(assignment_type)}")
    if not callable(assignment_type):
        raise TypeError(f"'assignment_type' must be a class or a callable (node_count, redundancy), got {assignment_type!r}")
    try:
        assignment = assignment_type(worker_count, redundancy)
    except TypeError as error:
        raise TypeError(f"'assignment_type' must be callable with (node_count, redundancy), got {error}") from error
    if not isinstance(assignment, ISetting):
        raise TypeError(f"'assignment_type' must give an ISetting, got {type(assignment).__qualname__}")
    if assignment.node_count != worker_count:
        raise ValueError(f"'assignment_type' must deal to {worker_count} workers, got one for {assignment.node_count}")
    return assignment


def _checked_title(title: str) -> str:
    """The title, if result files with it in their names can be fetched from a worker, and a run can have it in its name."""
    if not isinstance(title, str):
        raise TypeError(f"'mission_title' must be a text, got {title!r}")
    if not (is_safe_name(f"MODEL-{check_title(title)}-N(0000).model") and is_safe_name(run_name(title))):
        raise ValueError(
            f"'mission_title' must be at most 100 ASCII letters, digits, spaces or any of ._()+-, without '..', and begin with "
            f"a letter or a digit, got {title!r}"
        )
    return title


def _order(shuffle: bool, transform: AbsTransformer | None) -> str:
    """How the epochs deal the samples."""
    if not isinstance(shuffle, bool):
        raise TypeError(f"'shuffle' must be True or False, got {shuffle!r}")
    if not shuffle:
        return FIXED
    return SHUFFLED_IN_BLOCKS if transform is not None and transform.deals_blocks else SHUFFLED


def _weights(class_weight: Mapping[int, float] | None) -> dict[int, float] | None:
    if class_weight is None:
        return None
    if not isinstance(class_weight, Mapping):
        raise TypeError(f"'class_weight' must map class numbers to weights, got {type(class_weight).__name__}")
    for number in class_weight:
        if isinstance(number, bool) or not isinstance(number, Integral):
            raise ValueError(f"'class_weight' must have class numbers as keys, got {number!r}")
    return {
        int(number): arguments.number("parallel()", f"class_weight[{number}]", weight, 0)
        for number, weight in class_weight.items()
    }


def _default_codec(has_server: bool) -> type[Codec]:
    return SyncPS if has_server else Plain


def _checked_parameters(parameters: Mapping[Hashable, Any] | None) -> dict[Hashable, Any]:
    if parameters is None:
        return {}
    if not isinstance(parameters, Mapping):
        raise TypeError(f"'codec_extra_parameters' must be a dict, got {type(parameters).__qualname__}")
    try:
        encode(list(parameters.values()))
        pack({"keys": list(parameters)})
    except TypeError as error:
        raise TypeError(f"'codec_extra_parameters' must hold what may travel: {error}") from error
    return dict(parameters)


def _policy(on_failure: str | None, assignment: ISetting, codecs: Sequence[type[Codec]]) -> str:
    """The policy that is meant: by default what redundancy offers."""
    offered = assignment.redundancy > 1 and all(codec.takes_first_copy for codec in codecs)
    if on_failure is None:
        return REDUNDANT if offered else FAIL
    if checked_policy(on_failure) == REDUNDANT and not offered:
        raise ValueError("'on_failure' can be 'redundant' with 'redundancy' of 2 or more and codecs such as Plain or FirstCopy")
    return on_failure


def _default_every(policy: str, is_local: bool) -> Every:
    """A job that is started again goes on from somewhere, and so does who tries something on this machine and breaks it off."""
    return EPOCH if policy in AGAIN or is_local else None


def _stall(seconds: float | None) -> float:
    """0 stands for the default."""
    if seconds is None:
        return 0.0
    return arguments.number("parallel()", "stall_timeout", seconds, limits.LEAST_SILENCE, limits.MOST_SECONDS)


def _fewest(min_workers: int | None, workers: int, policy: str) -> int:
    """With how many workers the job may go on."""
    if min_workers is None:
        return 1 if policy == SHRINK else workers
    if isinstance(min_workers, bool) or not isinstance(min_workers, int) or not 1 <= min_workers <= workers:
        raise ValueError(f"'min_workers' must be an integer from 1 to the number of workers, {workers}, got {min_workers!r}")
    if policy != SHRINK:
        raise ValueError(f"'min_workers' needs on_failure='shrink', got {policy!r}")
    return min_workers


def _most(max_workers: int | None, assignment: ISetting, discovery: Discovery | None) -> int | None:
    """How many workers the job may have at most; each needs a block of its own."""
    if discovery is None:
        if max_workers is not None:
            raise ValueError(f"'max_workers' needs 'discovery', which finds more workers, got {max_workers!r} without one")
        return None
    low, blocks = assignment.node_count, assignment.block_count
    most = low if max_workers is None else max_workers
    if isinstance(most, bool) or not isinstance(most, int) or most < low:
        raise ValueError(f"'max_workers' must be an integer of {low} or more, the number of workers, got {max_workers!r}")
    if most > blocks:
        raise ValueError(
            f"'max_workers' can be at most the number of blocks in a batch, {blocks}, got {most}; "
            f"use assignment_type=FixedBlockAssignment.of(blocks={most})"
        )
    return most


def _faults(fault: str | FaultPlan, nodes: Sequence[int]) -> FaultPlan:
    plan = fault if isinstance(fault, FaultPlan) else FaultPlan.parse(fault)
    plan.check(nodes)
    return plan


def _threads(blas_threads: int | str) -> int:
    """0 stands for 'auto'."""
    if blas_threads == "auto":
        return 0
    if isinstance(blas_threads, bool) or not isinstance(blas_threads, int) or blas_threads < 1:
        raise ValueError(f"'blas_threads' must be a positive integer or 'auto', got {blas_threads!r}")
    return blas_threads
