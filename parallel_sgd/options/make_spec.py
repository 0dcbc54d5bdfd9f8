"""Making of the specification of a job: the arguments of `parallel()`, checked before anything is sent."""

from __future__ import annotations

import inspect
from collections.abc import Mapping, Sequence
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING, Final, NamedTuple

from network.faults.plan import FaultPlan
from network.nodes import is_loopback
from nn.dataset.interface import AbsDataset, Arrays
from nn.dataset.transforms.abstract import AbsTransformer, check_order
from nn.extension import takes
from nn.model import Model
from nn.model.class_weights import weights_by_number
from nn.optimizer import OpContainer
from nn.threads import describe_blas, has_bits, limited_to_one_thread
from rpc.elastic import Discovery
from rpc.job import PORTABLE, kernel_variables
from rpc.submit import AGAIN, FAIL, REDUNDANT, SHRINK, Policy, checked_policy
from rpc.support.logs import SUBMIT_LOGGER, get_logger

from .. import codec as codecs
from ..checkpoint.keeper import keeps_state
from ..checkpoint.resume import checked_resume
from ..checkpoint.schedule import AUTO, EPOCH, NEVER, Every
from ..codec.choice import CodecChoice, by_size, choose_codecs, shown
from ..codec.interfaces import Codec
from ..codec.parameter_server import SyncPS
from ..codec.plain import Plain
from ..engine.batches import FIXED, SHUFFLED, SHUFFLED_IN_BLOCKS
from ..engine.channel import Parameter_Server
from ..engine.plan import WorkerPlan, server_codecs
from ..nodes import InProcessNodes, LocalNodes
from ..profiles.blockassignment.abstract import ISetting
from .compatibility import check_parts
from .job_options import AssignmentType, JobOptions, PlainOptions
from .spec import JobSpec

if TYPE_CHECKING:
    from nn.dataset.plan.plan import Plan as DataPlan
    from nn.gradient_descent.interface import IGradientDescent

_log = get_logger(SUBMIT_LOGGER)


def plan_to_keep(model: Model, data: AbsDataset, transform: AbsTransformer | None) -> DataPlan | None:
    """Return the plan that the model of a job gets: that of the data set, with checksums of its rows.

    Args:
        model: that is to be trained.
        data: the data set, with its plan where it has one.
        transform: that of the job.

    Returns:
        None where there is nothing to be told, or the model has a plan of columns and the data are arrays that no transform
            changes. A plan of columns that has transforms, and arrays that get further ones: a plan without columns, since
            nothing tells which of the transforms the arrays have been through.

    Raises:
        ValueError: where the model was trained on other numbers of the columns.
    """
    from nn.dataset.plan.plan import Plan as DataPlan  # noqa: PLC0415 - at the submitter alone

    found = getattr(data, "plan", None)
    plan = found if isinstance(found, DataPlan) else DataPlan()
    before = model.inputs
    if before is not None and before.begins_with_texts and not plan.columns:
        # Arrays of a data set are numbers, so they have been through these steps; what the job does comes behind.
        plan = replace(plan, steps=before.steps)
    if before is not None and before.columns:
        if not plan.columns and (transform is None or all(step.for_training_only for step in transform.steps)):
            return None
        if not plan.columns and not before.steps:
            plan = before  # of arrays that it has made, such as those that a run has kept
        if plan.columns and (differs := before.agrees_with(plan)):
            raise ValueError(
                f"'data' must make the numbers of its columns that the model's plan makes, but {differs}; "
                f"{type(data).__name__}(.., plan=model.inputs) reads it by that plan, model.inputs = None forgets it"
            )
    if not (plan.columns or plan.labels or transform):
        return None
    return replace(plan, rows=data.row_checksums())


def with_data(spec: JobSpec, arrays: Arrays) -> JobSpec:
    """Return the spec with the parts that depend on the samples: the plan that is kept, and the weights of classes by number.

    Args:
        spec: the spec of the job.
        arrays: the four arrays that its data set has loaded.

    Raises:
        ValueError, TypeError: for a transform, classes or a plan that do not go with the data.
    """
    data, transform = spec.data, spec.transform
    if transform is not None:
        check_order(data, transform)
    inputs = plan_to_keep(spec.model, data, transform)
    weights = spec.options.class_weight
    if weights is not None:
        classes = getattr(getattr(data, "plan", None), "classes", None)
        if arrays[1].dtype.names:
            weights = spec.model._class_weights(weights, arrays[1])
        else:
            weights = weights_by_number(weights, arrays[1], classes)
        options = replace(spec.plan.options, class_weight=weights)
        return replace(spec, inputs=inputs, plan=replace(spec.plan, options=options))
    return replace(spec, inputs=inputs)


def with_population(spec: JobSpec, arrays: Arrays, made: Arrays | None = None) -> JobSpec:
    """Return the spec with the number of samples of each client, which all nodes must find again; that of a job without
    clients as it is.

    Args:
        spec: the spec of the job.
        arrays: the four arrays that its data set has loaded.
        made: these as the transform has made them, where it has; None: it makes them here.

    Raises: ValueError where the clients and the samples do not go together.
    """
    clients, seed = spec.options.clients, spec.options.seed
    if clients is None:
        return spec
    from ..federated.checks import check_order_kept, check_rounds  # noqa: PLC0415 - for a job with clients
    from ..federated.clients import OWN  # noqa: PLC0415
    from ..federated.codecs import bytes_of_clients, fewest_clients  # noqa: PLC0415
    from ..federated.population import Population, deal  # noqa: PLC0415
    from ..federated.remembering import check_memory  # noqa: PLC0415
    from ..federated.splits import OwnSplit  # noqa: PLC0415

    clients = clients.of_data(spec.data)
    if spec.transform is not None and isinstance(clients.dealer, OwnSplit):
        check_order_kept(spec.transform)
    if made is None:
        made = arrays if spec.transform is None else spec.transform(*arrays, seed=seed)
    if clients.test == OWN and len(made[2]) != len(arrays[2]):
        raise ValueError(
            f"'transform' must keep the {len(arrays[2])} test samples of the data set for Clients(test='own'), got "
            f"{len(made[2])}"
        )
    # fewer than there are is right: the last ones may belong to users without samples to train on
    if clients.test == OWN and sum(clients.own_tests or ()) > len(made[2]):
        raise ValueError(
            f"'client_test_sizes' of {type(spec.data).__name__} must be at most {len(made[2])} together, its test samples, got "
            f"{sum(clients.own_tests or ())}"
        )
    sizes = [len(rows) for rows in deal(clients, made[1], seed)]
    plan = spec.plan
    variables = spec.model.trainable_variables()
    kinds = choose_codecs(plan.codec, plan.default_codec, len(variables))
    needed = fewest_clients(kinds, plan.assignment, plan.codec_parameters)
    known = clients.knowing(sizes, *bytes_of_clients(clients, kinds, spec.model, plan.assignment, plan.codec_parameters))
    check_rounds(Population(known, sizes, seed, spec.options.block_size), spec.options.epoch, needed)
    rounds, buffers = clients.rounds * spec.options.epoch, spec.model.store.buffers
    check_memory(clients, kinds, variables, plan.assignment, plan.codec_parameters, rounds, buffers)
    options = replace(spec.plan.options, clients=known)
    return replace(spec, plan=replace(spec.plan, options=options))


def make_spec(model: Model, data: AbsDataset, transform: AbsTransformer | None, given: JobOptions) -> JobSpec:
    """Make the specification that the options ask for with this model and data; all faults of the options are found here.

    Args:
        model: the model to be trained.
        data: the data set.
        transform: applied on each worker after loading, or None.
        given: the options.

    Raises: ValueError or TypeError naming the argument, the expectation and the value.
    """
    options, nodes = given.checked(), given.nodes
    if options.clients is not None:
        from ..federated.checks import with_slots  # noqa: PLC0415 - for a job with clients

        options = with_slots(options, options.clients, transform)
    # numbers of workers are places in assignments, so there may be no gap
    if nodes.worker_ids != list(range(len(nodes.worker_ids) or 1)):
        raise ValueError(f"'nodes' must hold the workers 0..n-1, got {nodes.worker_ids}")
    _check_bits(options)
    has_server = nodes.has_parameter_server
    # local workers of this program, with checkpoints that outlive them
    is_local = isinstance(nodes, LocalNodes) and nodes.agents is not None
    assignment = _assign(options.assignment_type, len(nodes.worker_ids), options.redundancy)
    model._refuse_if_marked_anew("parallel()")
    codec, server_codec, default, kinds = _codecs(options, model, assignment)
    if options.clients is not None:
        from ..federated.checks import check_codecs  # noqa: PLC0415 - for a job with clients

        check_codecs(options.clients, assignment, kinds, options.codec_extra_parameters or {})
        rule = options.clients.container(options.op_type).rule()
    else:
        rule = OpContainer(options.op_type, options.gd_type, options.gd_params).rule()
        _tell_rule(options, model, rule)
    if options.callbacks:
        from .callback_checks import check_callbacks  # noqa: PLC0415 - it loads the callbacks of nn, for a job with some

        check_callbacks(options, model, rule, kinds)
    chosen = _on_failure(options, assignment, kinds, is_local)
    plan = WorkerPlan(
        assignment,
        replace(
            options,
            codec=codec,
            ps_codec=server_codec,
            on_failure=chosen.policy,
            checkpoint_every=chosen.every,
            # without a restart nothing begins at a commit, so none is made
            commit_every=options.commit_every if chosen.policy in AGAIN else NEVER,
            min_workers=chosen.fewest,
        ),
        default.codec,
        order=_order(options.shuffle, transform),
        limits=() if transform is None else transform._limits,
    )
    # after all that is open was decided: the parts are checked as they will be used
    check_parts(plan, model, has_server)
    server_keeps = has_server and keeps_state(server_codecs(plan, len(model.trainable_variables()), bool(model.store.buffers)))
    _check_processes(given, options, assignment, chosen.policy)
    return JobSpec(
        plan,
        model,
        data,
        transform,
        chosen.policy,
        chosen.fewest,
        chosen.most,
        chosen.discovery,
        server_keeps,
        checked_resume(
            options.resume,
            model,
            options.epoch,
            assignment.nodes,
            Parameter_Server if server_keeps else None,
            Path(options.directory),
        ),
        is_local,
        options,
        default.said if default.codec in kinds else "",
    )


def _tell_rule(options: PlainOptions, model: Model, rule: IGradientDescent) -> None:
    """Warn where a job trains by the default rule a model that was compiled with another one."""
    is_default = options.gd_type is JobOptions.gd_type and not options.gd_params
    # by their texts, which have all arguments
    if is_default and model.rule is not None and repr(model.rule) != repr(rule):
        kind = type(rule).__name__
        _log.warning(
            "This job trains by the default of 'gd_type', %s, for a job does not take the rule of compile(), %r: that is for "
            "fit(). To have it here, give gd_type=%s and gd_params.",
            kind,
            model.rule,
            type(model.rule).__name__,
        )


class _Codecs(NamedTuple):
    """Codecs of a job: those given for workers and server by their variables, the default, and the class of each variable."""

    codec: CodecChoice
    server_codec: CodecChoice
    default: Default
    kinds: list[type[Codec]]


def _codecs(options: PlainOptions, model: Model, assignment: ISetting) -> _Codecs:
    names = [variable.name for variable in model.trainable_variables()]
    values = [variable.value for variable in model.trainable_variables()]
    sizes = [value.size for value in values]
    codec, server_codec = by_size(options.codec, names, sizes), by_size(options.ps_codec, names, sizes, "ps_codec")
    default = _default_codec(options, codec, assignment, sum(value.nbytes for value in values))
    kinds = choose_codecs(codec, default.codec, len(names))
    # only to refuse what is no codec, in the words of its argument
    choose_codecs(server_codec, Plain, len(names), "ps_codec")
    if options.ps_codec is not None and not options.nodes.has_parameter_server:
        raise ValueError("'ps_codec' needs a parameter server among the nodes: parse_worker(n, ps=True)")
    return _Codecs(codec, server_codec, default, kinds)


class _OnFailure(NamedTuple):
    """Choices for the case that a node fails: the policy, limits of the number of workers, their discovery, and checkpoints."""

    policy: Policy
    fewest: int
    most: int | None
    discovery: Discovery | None
    every: Every


def _on_failure(options: PlainOptions, assignment: ISetting, kinds: Sequence[type[Codec]], is_local: bool) -> _OnFailure:
    found = None
    if options.discovery is not None:
        from rpc.elastic import discovery_of  # noqa: PLC0415 - for a job with discovery

        found = discovery_of(options.discovery, options.nodes.key_file)
    # where hosts come and go the number of workers must be free to change
    policy = _policy(SHRINK if options.on_failure is None and found is not None else options.on_failure, assignment, kinds)
    if found is not None and policy != SHRINK:
        raise ValueError(f"'discovery' finds other nodes, so 'on_failure' can only be 'shrink', got {policy!r}")
    fewest = _fewest(options.min_workers, assignment.node_count, policy)
    every = _default_every(policy, is_local) if options.checkpoint_every == AUTO else options.checkpoint_every
    # a checkpoint that stays must be saved first
    if every is None and options.keep_every is not None:
        every = EPOCH
    return _OnFailure(policy, fewest, _most(options.max_workers, assignment, found), found, every)


def planned_faults(options: PlainOptions) -> FaultPlan:
    """Return the faults that a job asks for.

    Args:
        options: its options.
    """
    return FaultPlan.parse(str(options.fault))


def _check_processes(given: JobOptions, options: PlainOptions, assignment: ISetting, policy: Policy) -> None:
    """Refuse options that need processes on nodes within this one, and faults at nodes that do not exist."""
    nodes = options.nodes
    fault = planned_faults(options)
    fault.check([*assignment.nodes, *([Parameter_Server] if nodes.has_parameter_server else [])], options.epoch)
    if not isinstance(nodes, InProcessNodes):
        return
    for name, asked in (("fault", fault.faults and given.fault), ("discovery", given.discovery)):
        if asked and not (name == "fault" and nodes.simulated):
            raise ValueError(f"'{name}' needs nodes with processes of their own, such as local_workers(), got {asked!r}")
    if nodes.simulated and policy == SHRINK:
        raise ValueError("'on_failure' must be one of fail, redundant, restart, wait on simulated nodes, got 'shrink'")


def _check_bits(options: PlainOptions) -> None:
    if options.bits is None:
        return
    # several threads add in an order that depends on their number
    if options.bits == PORTABLE and options.blas_threads != 1:
        raise ValueError(f"'bits' {options.bits!r} takes one BLAS thread, got blas_threads={options.blas_threads!r}")
    with limited_to_one_thread():
        here = has_bits(options.bits)
    if isinstance(options.nodes, InProcessNodes) and not here:
        variables = " ".join(f"{name}='{value}'" for name, value in kernel_variables(options.bits).items())
        raise ValueError(
            f"'bits' {options.bits!r} cannot be had in this process, which has {describe_blas()}: take local_workers(), or "
            f"start Python with {variables} on a CPU with AVX2"
        )


def _default_codec(options: PlainOptions, codec: CodecChoice, assignment: ISetting, size: int) -> Default:
    """Choose the codec of variables for which none is given, with parameters of `size` bytes in all.

    Where other workers hold the same blocks only `Plain` takes the first copy. A job that is refused anyway is refused with
    `Plain`.
    """
    if options.nodes.has_parameter_server:
        return Default(SyncPS)
    all_to_all = assignment.redundancy > 1 or options.sync_type.staleness > 0 or options.op_type.by_shard
    # a class for all variables leaves nothing to the default
    if all_to_all or not (codec is None or isinstance(codec, Mapping)):
        return Default(Plain)
    # all addresses of the loopback are this one host
    hosts = {"" if is_loopback(host) else host for host in (options.nodes[node].host for node in assignment.nodes)}
    return exact_default(assignment.node_count, size, len(hosts))


#: All to all costs W (W - 1) packets per vector, and every worker sends (W - 1) times the parameters. Shards go there and
#: back, 2 (W - 1) packets for each of them, and a worker sends less than twice the parameters. On one host bytes cost
#: little, and packets processors that all share, so shards are large; between hosts bytes cost most, and small shards spread
#: them over all links. Up to so many workers send everything to each other where the parameters take at least so many bytes;
#: the last row that fits counts.
_ONE_HOST: Final = ((0, 8), (256 << 10, 6))
_SEVERAL_HOSTS: Final = ((0, 8), (256 << 10, 4), (4 << 20, 2))
_SHARD_OF_ONE_HOST: Final = 64 << 10  # numbers


class Default(NamedTuple):
    """Codec of variables without one, and the sentence that tells the user of the choice: "" for `Plain`, which needs no word.

    Args:
        codec: the codec class.
        said: the sentence.
    """

    codec: type[Codec]
    said: str = ""


def exact_default(workers: int, size: int, hosts: int) -> Default:
    """Choose `Plain`, or past a number of workers `Ring`, which gives the same bits: by a fixed table, so nothing is measured,
    and all callers get the same codec.

    Args:
        workers: number of workers.
        size: that of the parameters in bytes.
        hosts: number of hosts that the addresses of the workers name.
    """
    most = [count for least, count in (_ONE_HOST if hosts == 1 else _SEVERAL_HOSTS) if size >= least][-1]
    if workers <= most:
        return Default(Plain)
    ring: type[Codec] = codecs.Ring
    where = f"{hosts} hosts"
    if hosts == 1:
        from ..codec.compose import Ring  # noqa: PLC0415 - for a job of so many workers

        ring, where = Codec.of(Ring(smallest=_SHARD_OF_ONE_HOST), name="Ring"), "one host"
        ring.traits = replace(ring.traits, parameters=())
    return Default(
        ring,
        f"Codec: Ring, because none was named and there are {workers} workers. On {where}, with {size} bytes of parameters, "
        f"Plain is taken for up to {most}: there each worker sends everything to every other one, with Ring only parts. The "
        "results are the same to the bit. To have Plain, write codec=Plain (--codec plain).",
    )


def _assign(assignment_type: AssignmentType, worker_count: int, redundancy: int) -> ISetting:
    if inspect.isabstract(assignment_type):
        raise TypeError(f"'assignment_type' must be a complete class derived from ISetting, got {shown(assignment_type)}")
    if not callable(assignment_type):
        raise TypeError(f"'assignment_type' must be a class or a callable (node_count, redundancy), got {assignment_type!r}")
    try:
        assignment = assignment_type(worker_count, redundancy)
    except TypeError as error:
        if takes(assignment_type, (worker_count, redundancy), {}):
            raise  # of its own code
        raise TypeError(f"'assignment_type' must be callable with (node_count, redundancy), got {error}") from error
    except ValueError as error:
        # one of another kind, such as `int`, speaks of arguments of its own
        if isinstance(assignment_type, type) and not issubclass(assignment_type, ISetting):
            raise TypeError(f"'assignment_type' must be callable with (node_count, redundancy), got {error}") from error
        raise
    if not isinstance(assignment, ISetting):
        raise TypeError(f"'assignment_type' must give an ISetting, got {type(assignment).__qualname__}")
    if assignment.node_count != worker_count:
        raise ValueError(f"'assignment_type' must deal to {worker_count} workers, got one for {assignment.node_count}")
    return assignment


def _order(shuffle: bool, transform: AbsTransformer | None) -> str:
    if not shuffle:
        return FIXED
    return SHUFFLED_IN_BLOCKS if transform is not None and transform.deals_blocks else SHUFFLED


def _policy(on_failure: str | None, assignment: ISetting, codecs: Sequence[type[Codec]]) -> Policy:
    """Return the policy that is meant: by default the one that redundancy offers."""
    offered = assignment.redundancy > 1 and all(codec.traits.takes_first_copy for codec in codecs)
    if on_failure is None:
        return REDUNDANT if offered else FAIL
    if (policy := checked_policy(on_failure)) == REDUNDANT and not offered:
        raise ValueError("'on_failure' can be 'redundant' with 'redundancy' of 2 or more and codecs such as Plain or FirstCopy")
    return policy


def _default_every(policy: str, is_local: bool) -> Every:
    """Return how often nodes save their state by default. A job that is started again goes on from a checkpoint, and so does
    one that its user tries on this machine and breaks off.
    """
    return EPOCH if policy in AGAIN or is_local else None


def _fewest(min_workers: int | None, workers: int, policy: str) -> int:
    if min_workers is None:
        return 1 if policy == SHRINK else workers
    if isinstance(min_workers, bool) or not isinstance(min_workers, int) or not 1 <= min_workers <= workers:
        raise ValueError(f"'min_workers' must be an integer from 1 to the number of workers, {workers}, got {min_workers!r}")
    if policy != SHRINK:
        raise ValueError(f"'min_workers' needs on_failure='shrink', got {policy!r}")
    return min_workers


def _most(max_workers: int | None, assignment: ISetting, discovery: Discovery | None) -> int | None:
    """Return the largest number of workers that the job may have; each needs a block of its own."""
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
