"""Which parts of a job go together: asked before anything is sent, so that a job that cannot work is refused in words."""

from __future__ import annotations

import warnings
from collections.abc import Iterable, Sequence
from contextvars import copy_context

import nn.optimizer
from nn.model import Model
from nn.optimizer import IOptimizer
from nn.optimizer.exchanging import ExchangingOptimizer

from .codec.bank import CodecChoice, choose_codecs, choose_server_codecs
from .codec.compose import CodecWarning, check
from .codec.interfaces import Codec
from .codec.parameters import check_parameters
from .codec.settings import GlobalSettings, JobSettings, MissingParameter
from .node_ids import Parameter_Server
from .plan import WorkerPlan
from .profiles import ISetting
from .sharded_exchange import check_sharded

_PACKAGE = __name__.partition(".")[0]


def check_parts(plan: WorkerPlan, model: Model, has_server: bool, server_codec: CodecChoice) -> None:
    """Check that optimizer, rule, codecs, sync type and assignment of a job can work together.

    Warns with CodecWarning of a codec that is known to train badly with the rule.

    Raises: ValueError or TypeError naming both parts and what to take instead; MissingParameter where a codec needs one that
        the job does not give; whatever else of these a codec's constructor raises.
    """
    op_type, variables = plan.optimizer.op_type, len(model.trainable_variables())
    kinds = choose_codecs(plan.codec, plan.default_codec, variables)
    servers = choose_server_codecs(server_codec, plan.codec, plan.default_codec, variables) if has_server else []
    check_exchanges(op_type)
    op_type.admit(plan.optimizer.rule())
    check_sharded(op_type, plan.codec, plan.sync_type, has_server)
    for kind in dict.fromkeys(kinds):
        if kind.needs_server and not has_server:
            raise ValueError(f"'codec' {kind.__name__} needs a parameter server among the nodes: parse_worker(n, ps=True)")
        check_meaning(op_type, kind)
        if kind.asynchronous and plan.sync_type.staleness == 0:
            raise ValueError(
                f"'codec' {kind.__name__} takes packets of any batch, but 'sync_type' {plan.sync_type.__name__} keeps batches "
                f"apart: take AsynchronizedSGD or StaleSynchronous(s) with s of at least 1"
            )
        plan.sync_type.admit(kind, op_type)
        for text in check(kind, plan.optimizer.rule(), op_type):
            warnings.warn(text, CodecWarning, stacklevel=4)
    check_copies(op_type, plan.assignment, kinds, bool(model.store.buffers))
    sync_type = plan.sync_type if isinstance(plan.sync_type, type) else type(plan.sync_type)
    check_parameters(plan.codec_parameters, [*kinds, *servers, sync_type, op_type, plan.optimizer.gd_type])
    if not op_type.by_shard:
        copy_context().run(_try_codecs, plan, model, kinds, servers)


def check_exchanges(op_type: type[IOptimizer]) -> None:
    """Refuse an optimizer that makes nothing of what other workers compute.

    Raises: ValueError.
    """
    if not op_type.exchanges:
        raise ValueError(
            f"'op_type' must be an optimizer that exchanges something, e.g. PSGDOptimizer, got {op_type.__name__}; to train "
            f"every worker alone use codec=DummyCodec"
        )


def check_meaning(op_type: type[IOptimizer], codec: type[Codec]) -> None:
    """Check that the codec takes what the optimizer puts, and gives what that takes the results for.

    A codec outside this package that declares nothing is believed to know its optimizer.
    Raises: ValueError naming both.
    """
    if not issubclass(op_type, ExchangingOptimizer) or not _is_known(codec):
        return
    given = codec.gives or op_type.puts
    if codec.takes not in (None, op_type.puts):
        what = f"takes {codec.takes}, but 'op_type' {op_type.__name__} puts {op_type.puts}"
    elif given != op_type.gets:
        what = f"gives back {given}, but 'op_type' {op_type.__name__} takes results for {op_type.gets}"
    else:
        return
    fitting = [
        kind.__name__ for kind in _optimizers() if codec.takes in (None, kind.puts) and (codec.gives or kind.puts) == kind.gets
    ]
    instead = f"use op_type={' or '.join(fitting)}" if fitting else "no optimizer that ships goes with it"
    raise ValueError(f"'codec' {codec.__name__} {what}: {instead}")


def _is_known(codec: type[Codec]) -> bool:
    ours = (base for base in codec.__mro__ if issubclass(base, Codec) and base is not Codec)
    return codec.takes is not None or codec.gives is not None or any(base.__module__.split(".")[0] == _PACKAGE for base in ours)


def _optimizers() -> Iterable[type[ExchangingOptimizer]]:
    """What can be advised; nobody who descends is told to climb."""
    found = (getattr(nn.optimizer, name) for name in nn.optimizer.__all__ if name != nn.optimizer.GAOptimizer.__name__)
    return [kind for kind in found if isinstance(kind, type) and issubclass(kind, ExchangingOptimizer)]


def check_copies(op_type: type[IOptimizer], assignment: ISetting, codecs: Sequence[type[Codec]], has_buffers: bool) -> None:
    """Check that all workers that hold a block put the same for it, where the first copy counts.

    Raises: ValueError naming optimizer and assignment.
    """
    by_block = not issubclass(op_type, ExchangingOptimizer) or op_type.by_block
    if by_block or not (has_buffers or any(codec.takes_first_copy for codec in codecs)):
        return
    for block, holders in enumerate(assignment.block_2_node):
        shares = [sorted(assignment.node_2_block[node]) for node in holders]
        for node, share in zip(holders, shares, strict=True):
            if share != shares[0]:
                raise ValueError(
                    f"'op_type' {op_type.__name__} puts what depends on all blocks of a worker, so workers that share a block "
                    f"must share all of them, but 'assignment_type' {type(assignment).__name__} deals block {block} to node "
                    f"{holders[0]} with blocks {shares[0]} and to node {node} with blocks {share}: use DuplicateAssignment, "
                    f"redundancy=1, or op_type=PSGDOptimizer"
                )


def _try_codecs(plan: WorkerPlan, model: Model, kinds: Sequence[type[Codec]], servers: Sequence[type[Codec]]) -> None:
    """Make a codec of each class, as on the first worker and on the server, so that they can refuse the job.

    What depends on the place (a file, a package) is left to the workers.
    """
    values = [variable.value for variable in model.store.variables]
    first = plan.assignment.nodes[0]
    for node, classes, own in ((first, kinds, values), (Parameter_Server, servers, [])):
        settings = JobSettings(plan.assignment, plan.codec_parameters, values=own, rule=plan.optimizer.rule, seed=plan.seed)
        GlobalSettings.install(settings)
        for kind in dict.fromkeys(classes):
            settings.codec, settings.variable = kind.__name__, classes.index(kind)
            try:
                kind(node).dispose()
            except (MissingParameter, ValueError, TypeError):
                raise
            except Exception:  # noqa: BLE001, S112 - it may work where it will run
                continue
