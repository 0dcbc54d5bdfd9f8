"""Checks of a job with clients before anything is sent, and the decisions that its options leave open."""

from __future__ import annotations

from collections.abc import Hashable, Mapping, Sequence
from dataclasses import replace
from typing import TYPE_CHECKING, Any

from nn.dataset.transforms.abstract import AbsTransformer
from nn.dataset.transforms.order import Shuffle
from nn.gradient_descent import SGDOptimizer
from nn.optimizer import OpContainer, PSGDOptimizer, ShardedPSGDOptimizer

from ..batch_sync.sync.synchronized import SynchronizedSGD
from ..codec.interfaces import Codec
from ..nodes import InProcessNodes
from ..profiles.blockassignment.abstract import ISetting
from ..profiles.blockassignment.assignments import FixedBlockAssignment, IIDBlockAssignment
from ..simulation.nodes import SimulatedNodes
from .clients import Clients
from .codecs import check_codec
from .population import Population
from .samplers import FixedSampler

if TYPE_CHECKING:
    from ..options.job_options import PlainOptions

__all__ = ["check_codecs", "check_order_kept", "check_rounds", "with_slots"]


def with_slots(options: PlainOptions, clients: Clients, transform: AbsTransformer | None) -> PlainOptions:
    """Return the options with an assignment of as many blocks as a round has slots.

    Args:
        options: those of the job.
        clients: its clients.
        transform: its transform, or None.

    Raises: ValueError for an option that does not go with clients, with the remedy.
    """
    nodes = options.nodes
    workers = len(nodes.worker_ids)
    if isinstance(nodes, SimulatedNodes) and (nodes.distinct is not None or not nodes.learns):
        option, value = ("distinct", nodes.distinct) if nodes.learns else ("learn", False)
        raise ValueError(
            f"'clients' trains each client of a round, so simulated nodes must have {option}={None if nodes.learns else True}, "
            f"got {value}"
        )
    if isinstance(nodes, InProcessNodes) and nodes.shared:
        raise ValueError(
            "'clients' needs a model for each worker, which is that of the client it trains, so nodes must have shared=None, "
            "got True"
        )
    if workers > clients.slots:
        raise ValueError(
            f"'clients' has {clients.slots} slots in a round, each a block, so at most as many workers, got {workers}"
        )
    if options.op_type not in (PSGDOptimizer, ShardedPSGDOptimizer):
        raise ValueError(
            f"'clients' puts the change of a client as a gradient, so 'op_type' must be PSGDOptimizer or "
            f"ShardedPSGDOptimizer, got {options.op_type.__name__}; local steps are Clients(epochs=..), the rule of the server "
            f"is Clients(server=..)"
        )
    if options.sync_type is not SynchronizedSGD:
        name = getattr(options.sync_type, "__name__", options.sync_type)
        raise ValueError(f"'clients' needs 'sync_type' SynchronizedSGD, in which a round has all its clients, got {name}")
    if not options.shuffle:
        raise ValueError("'clients' gives each client an order of its own in each round, so 'shuffle' must be True, got False")
    if transform is not None and transform.deals_blocks:
        raise ValueError(
            f"'clients' deals the samples to clients, so 'transform' must not deal them to blocks, got "
            f"{type(transform).__name__}: Clients(split=DirichletSplit(0.3)) or ShardSplit(2) does so"
        )
    rule = OpContainer(options.op_type, options.gd_type, options.gd_params).rule()
    if clients.control_variates and (options.gd_type is not SGDOptimizer or rule.slots):
        got = f"{options.gd_type.__name__}" + (" with momentum" if rule.slots else "")
        raise ValueError(
            f"Clients 'control_variates' can be True where a client steps by its gradients alone, with gd_type=SGDOptimizer "
            f"without momentum, got {got}"
        )
    if clients.weigh == "steps" and (options.gd_type is not SGDOptimizer or clients.prox or clients.term is not None):
        got = f"{options.gd_type.__name__}" + (f" and prox={clients.prox:g}" if clients.prox else "")
        got += "" if clients.term is None else f" and term={clients.term!r}"
        raise ValueError(
            f"Clients 'weigh' can be 'steps' where the steps of a client count alike: with gd_type=SGDOptimizer, prox=0 and no "
            f"term, got {got}"
        )
    # the default gives way; one that a user has chosen is checked when the codecs are
    if options.assignment_type is IIDBlockAssignment:
        return replace(options, assignment_type=FixedBlockAssignment.of(clients.slots))
    return options


def check_codecs(
    clients: Clients, assignment: ISetting, codecs: Sequence[type[Codec]], parameters: Mapping[Hashable, Any]
) -> None:
    """Check that assignment and codecs of a job go with clients.

    Args:
        clients: those of the job.
        assignment: that of the job.
        codecs: of the workers.
        parameters: `codec_extra_parameters` of the job.

    Raises: ValueError naming the part, with the remedy.
    """
    if assignment.block_count != clients.slots:
        raise ValueError(
            f"'clients' has {clients.slots} slots in a round, each a block, so 'assignment_type' must deal as many, got "
            f"{assignment.block_count}: leave it out, or take FixedBlockAssignment.of({clients.slots})"
        )
    for kind in dict.fromkeys(codecs):  # each class once: its parts are made to be looked at
        check_codec(kind, clients, assignment, parameters)


def check_order_kept(transform: AbsTransformer) -> None:
    """Check that a transform leaves the samples in the order of a data set that knows its clients.

    Args:
        transform: that of the job.

    Raises: ValueError naming the step.
    """
    for step in transform.steps:
        if isinstance(step, Shuffle):
            raise ValueError(
                f"'transform' {type(step).__name__} mixes the samples of the clients of the data set: leave it out, since each "
                f"client has an order of its own in each round"
            )


def check_rounds(population: Population, epochs: int, needed: tuple[int, str] = (1, "")) -> None:
    """Check that the clients of every round of a job find slots, and are enough for its codecs.

    Args:
        population: that of the job.
        epochs: number of epochs of the job.
        needed: the fewest clients that can be merged, and the codec that needs them; a round without any merges nothing.

    Raises: ValueError naming the first round that has too many or too few.
    """
    fewest, codec = needed
    clients = population.clients
    if type(clients.sample) is FixedSampler and clients.clock is None and fewest <= 1:
        # each round has as many as it has slots, or all that there are: nothing to draw
        return
    for number in range(epochs * population.clients.rounds):  # all of them now: a job must not fail in its last round
        found = len(population.chosen(number))
        if 0 < found < fewest:
            raise ValueError(
                f"'codec' {codec} needs {fewest} clients in each round, and round {number + 1} has {found}: let 'sample' "
                f"choose more, or take another seed"
            )
