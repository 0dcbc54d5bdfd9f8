"""Checks of a job with clients before anything is sent, and the decisions that its options leave open."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from typing import TYPE_CHECKING

from nn.dataset.transforms.abstract import AbsTransformer
from nn.dataset.transforms.order import Shuffle
from nn.gradient_descent import SGDOptimizer
from nn.optimizer import OpContainer, PSGDOptimizer, ShardedPSGDOptimizer

from ..batch_sync.sync.synchronized import SynchronizedSGD
from ..codec.compose.merge import MergeRule
from ..codec.compose.parts import Composition
from ..codec.compose.trigger import Trigger
from ..codec.interfaces import Codec
from ..nodes import InProcessNodes
from ..profiles.blockassignment.assignments import FixedBlockAssignment, IIDBlockAssignment
from ..simulation.nodes import SimulatedNodes
from .clients import Clients
from .population import Population

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
    OpContainer(options.op_type, options.gd_type, options.gd_params).rule()
    if clients.weigh == "steps" and (options.gd_type is not SGDOptimizer or clients.prox):
        got = f"{options.gd_type.__name__}" + (f" and prox={clients.prox:g}" if clients.prox else "")
        raise ValueError(
            f"Clients 'weigh' can be 'steps' where the steps of a client count alike: with gd_type=SGDOptimizer and prox=0, "
            f"got {got}"
        )
    if options.assignment_type is IIDBlockAssignment:
        return replace(options, assignment_type=FixedBlockAssignment.of(clients.slots))
    return options


#: Codecs that are settings of `Clients`: by their names the setting.
_SETTINGS = {
    "FedAvg": "the default of Clients, server=SGDOptimizer(1.0)",
    "LocalSGD": "Clients(epochs=..)",
    "DiLoCo": "Clients(server=NesterovOptimizer(0.7, 0.9))",
    "FedProx": "Clients(prox=..)",
    "SCAFFOLD": "not here yet; Clients(prox=..) limits drift, too",
    "ServerAdam": "Clients(server=ADAMOptimizer(..))",
}


def check_codecs(clients: Clients, blocks: int, codecs: Sequence[type[Codec]]) -> None:
    """Check that assignment and codecs of a job go with clients.

    Args:
        clients: those of the job.
        blocks: number of blocks of a batch.
        codecs: of the workers.

    Raises: ValueError naming the part, with the remedy.
    """
    if blocks != clients.slots:
        raise ValueError(
            f"'clients' has {clients.slots} slots in a round, each a block, so 'assignment_type' must deal as many, got "
            f"{blocks}: leave it out, or take FixedBlockAssignment.of({clients.slots})"
        )
    for kind in dict.fromkeys(codecs):
        name, traits = kind.__name__, kind.traits
        if name in _SETTINGS:
            raise ValueError(f"'codec' {name} is no codec with 'clients': it is {_SETTINGS[name]}")
        if not traits.agrees or traits.asynchronous or traits.takes not in (None, "gradients") or traits.gives == "parameters":
            raise ValueError(
                f"'codec' {name} does not give all workers one mean of the changes of a round, which 'clients' needs: take "
                f"Plain, Ring, Tree, or SyncPS with a parameter server"
            )
        if hasattr(kind, "composition") and not _is_exact(kind):
            raise ValueError(
                f"'codec' {name} encodes or merges by worker or block, and with 'clients' it would have to do so by client: "
                f"take Plain, Ring, Tree, FirstCopy, or SyncPS with a parameter server, which send changes as they are"
            )


def _is_exact(kind: type[Codec]) -> bool:
    """Tell if a composed codec sends vectors as they are in every batch, and takes their mean."""
    composition: Composition = kind.composition  # type: ignore[attr-defined]
    # functions that make parts read settings of a codec, and none of them makes an exact one
    given = (composition.up, composition.down, composition.local)
    merge, trigger = composition.merge, composition.trigger
    exact = isinstance(merge, MergeRule) and (merge.exact or merge.first_copy)
    every = isinstance(trigger, Trigger) and trigger.always
    return given == (None, None, None) and composition.send == "gradient" and composition.exchange.agrees and exact and every


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


def check_rounds(population: Population, epochs: int) -> None:
    """Check that the clients of every round of a job find slots.

    Args:
        population: that of the job.
        epochs: number of epochs of the job.

    Raises: ValueError naming the first round that has too many.
    """
    for number in range(epochs * population.clients.rounds):
        population.chosen(number)
